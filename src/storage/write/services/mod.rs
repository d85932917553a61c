//! Cluster IPs and node ports of Services: taken when a Service needs them and given back when it does not, in the transaction that writes the Service. So
//! there is no leak when the server dies, and none is given twice, whoever else uses the etcd.
//!
//! An address is taken by its IPAddress object, as kube-apiserver takes it; node ports are bits of one value (`ports`).

mod addresses;
mod commit;
mod families;
mod plan;
mod pools;
mod ports;
mod spec;
pub(in crate::write) mod validate;

use std::net::IpAddr;

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    Part, WriteRequest, Writer,
    failure::WriteError,
    object_ref::{Current, ObjectRef},
    tree,
};
use catalogue::Served;
use model::{Revision, invalid::FieldError};
use registry::Resource;

pub use addresses::AddressRange;
pub use commit::address_object;
pub use ports::{PortRange, Ports};

use families::Families;
use pools::{Found, Pools, State, StoredPorts};
use spec::{IPV4, IPV6, Spec};

/// The storage of Services.
pub(super) const SERVICES: &str = "services/specs";
const ADDRESSES: &str = "ipaddresses";

/// The labels of an address that belongs to a Service.
pub const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
pub const MANAGER_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
/// Who keeps such addresses.
pub const MANAGER: &str = "ipallocator.k8s.io";

/// What the server allocates from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRanges {
    /// Of cluster IPs: one, or one of each family. That of the first family counts where a Service names none.
    pub addresses: Vec<AddressRange>,
    pub node_ports: PortRange,
}

/// The allocation for one write of a Service, which may take several tries.
pub(super) struct Session<'a> {
    writer: &'a Writer,
    ranges: &'a ServiceRanges,
    dry_run: bool,
    by_server: bool,
    state: Mutex<State>,
}

impl Writer {
    /// Allocates cluster IPs and node ports from these ranges.
    #[must_use]
    pub fn allocating(self, ranges: ServiceRanges) -> Self {
        let is_one = std::ptr::eq(self.etcds.of(SERVICES), self.etcds.of(ADDRESSES));
        if !is_one {
            tracing::warn!("services and ipaddresses are in two etcds: cluster IPs and node ports are not allocated");
        }
        Self { ranges: is_one.then_some(ranges), ..self }
    }

    /// What is allocated from; none where nothing is.
    #[must_use]
    pub fn service_ranges(&self) -> Option<&ServiceRanges> {
        self.ranges.as_ref()
    }

    /// The key of the node ports.
    #[must_use]
    pub fn node_ports_key(&self) -> bytes::Bytes {
        format!("{}ranges/servicenodeports", self.prefix).into()
    }

    /// The allocation for a write of an object, if it is one of a Service.
    pub(super) fn session(&self, request: &WriteRequest<'_>) -> Option<Session<'_>> {
        let ranges = self.ranges.as_ref().filter(|_| is_service(request.target.served()) && request.part == Part::Main)?;
        let (dry_run, by_server) = (request.options.dry_run, request.by.client.is_none());
        let state = Mutex::new(State::new(rand::random()));
        Some(Session { writer: self, ranges, dry_run, by_server, state })
    }

    /// The ranges that addresses are taken from now: those of the ServiceCIDRs that are ready; before there is any, those of the flags.
    #[must_use]
    pub fn ready_ranges(&self) -> Vec<AddressRange> {
        let configured = || self.ranges.as_ref().map(|ranges| ranges.addresses.clone()).unwrap_or_default();
        let Some(resource) = self.resources.load().find("networking.k8s.io", "v1", "servicecidrs").cloned() else { return configured() };
        let known = resource.handle.published.known();
        let mut objects = known.snapshot.store.scan(b"", b"").peekable();
        if objects.peek().is_none() {
            return configured();
        }
        let mut ranges = Vec::new();
        for range in objects.filter_map(|object| super::object_ref::stored_tree(&resource, object).ok()).filter(is_ready) {
            ranges.extend(tree::texts(&range, &["spec", "cidrs"]).into_iter().filter_map(AddressRange::parse));
        }
        ranges
    }

    fn addresses(&self) -> Option<std::sync::Arc<Resource>> {
        self.resources.load().find("networking.k8s.io", "v1", ADDRESSES).cloned()
    }

    /// The place of the object of an address.
    pub(super) fn address_ref(&self, ip: IpAddr) -> Option<ObjectRef> {
        Some(ObjectRef { resource: self.addresses()?, namespace: None, name: ip.to_string() })
    }
}

/// Whether these are Services.
pub(super) fn is_service(served: &Served) -> bool {
    &*served.storage.id == SERVICES && !served.is_custom()
}

/// A range without a condition is ready: nobody looks after it.
fn is_ready(range: &Value) -> bool {
    let conditions = tree::at(range, &["status", "conditions"]).and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    tree::at(range, &["metadata", "deletionTimestamp"]).is_none() && ready.is_none_or(|ready| ready["status"] == "True")
}

/// Whether an address is kept for this Service.
pub(super) fn is_kept_for(address: &Value, service: &ObjectRef) -> bool {
    let text = |name: &str| tree::text(address, &["spec", "parentRef", name]);
    let namespace = service.namespace.as_deref().unwrap_or_default();
    (text("group"), text("resource"), text("namespace"), text("name")) == ("", "services", namespace, &service.name)
}

impl Session<'_> {
    fn families(&self) -> Families {
        let first = if self.ranges.addresses.first().is_none_or(AddressRange::is_v4) { IPV4 } else { IPV6 };
        Families { first, has_both: self.ranges.addresses.len() > 1 }
    }

    fn with_pools<T>(&self, target: &ObjectRef, work: impl FnOnce(&mut Pools<'_>) -> T) -> T {
        let ranges = self.writer.ready_ranges();
        let known = self
            .writer
            .addresses()
            .map(|resource| (resource.served.storage.key_prefix(&self.writer.prefix), resource.handle.published.known()));
        let is_cached = |ip: IpAddr| {
            known.as_ref().is_some_and(|(prefix, known)| known.snapshot.store.find(format!("{prefix}{ip}").as_bytes()).is_some())
        };
        let (dry_run, by_server, configured) = (self.dry_run, self.by_server, self.ranges.node_ports);
        // The first address is that of the API server, as kube-apiserver takes it before anybody else can.
        let is_first = (target.namespace.as_deref(), &*target.name) == (Some("default"), "kubernetes");
        let kept = self.ranges.addresses.first().map(AddressRange::first).filter(|_| !is_first);
        let state = &mut *self.state.lock();
        let mut pools = Pools { ranges: &ranges, is_cached: &is_cached, dry_run, by_server, configured, kept, state };
        pools.begin();
        work(&mut pools)
    }

    /// Allocates what a new Service needs, and puts it in.
    pub(super) fn create(&self, target: &ObjectRef, object: &mut Value) -> Result<(), WriteError> {
        let mut spec = Spec::of(object);
        let planned = self.with_pools(target, |pools| plan::create(self.families(), pools, &target.name, &mut spec));
        planned.map_err(|refusal| refusal.into_error(&target.name))?;
        self.put_in(&spec, object);
        Ok(())
    }

    /// Allocates what a changed Service needs, puts it in, and returns the stored one with all that it has.
    pub(super) fn update(&self, target: &ObjectRef, old: &Value, wanted: &mut Value) -> Result<Value, WriteError> {
        let old = self.complete(old);
        let (mut spec, before) = (Spec::of(wanted), Spec::of(&old));
        let planned = self.with_pools(target, |pools| plan::update(self.families(), pools, &target.name, &mut spec, &before));
        planned.map_err(|refusal| refusal.into_error(&target.name))?;
        self.put_in(&spec, wanted);
        Ok(old)
    }

    fn put_in(&self, spec: &Spec, service: &mut Value) {
        spec.write_into(service);
        // What is read loses it (`defaultOnRead`), and a dry run is not read.
        if self.dry_run && spec.is_external_name() {
            tree::member(service, "spec").remove("internalTrafficPolicy");
        }
    }

    /// What is wrong with a Service (`ValidateServiceCreate`, `ValidateServiceUpdate`).
    pub(super) fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::service(new, old.map(|old| self.complete(old)).as_ref())
    }

    fn complete(&self, stored: &Value) -> Value {
        let mut stored = stored.clone();
        let mut spec = Spec::of(&stored);
        families::complete_stored(self.families(), &mut spec);
        spec.write_into(&mut stored);
        stored
    }

    /// Reads what the last decision lacked; false when it lacked nothing.
    pub(super) async fn load(&self, target: &ObjectRef) -> Result<bool, WriteError> {
        let (address, ports) = {
            let state = &mut *self.state.lock();
            (state.wants_address.take(), std::mem::take(&mut state.wants_ports))
        };
        if let Some(ip) = address {
            let place = self.writer.address_ref(ip);
            let found: Option<Current> = match &place {
                Some(place) => self.writer.fresh(place).await?,
                None => None,
            };
            let found = match found {
                None => Found::Free,
                Some(found) if is_kept_for(&found.tree, target) => Found::Own,
                Some(_) => Found::Taken,
            };
            self.state.lock().found.insert(ip, found);
        }
        if ports {
            let stored = self.writer.stored_ports(self.ranges.node_ports).await?;
            self.state.lock().ports = Some(stored);
        }
        Ok(address.is_some() || ports)
    }
}

impl Writer {
    /// The node ports as etcd has them. Before it has any, they are those of all Services.
    async fn stored_ports(&self, range: PortRange) -> Result<StoredPorts, WriteError> {
        let (stored, revision) = self.node_ports().await?;
        let ports = stored.unwrap_or_else(|| {
            let mut ports = Ports::none(range);
            for service in self.all_services() {
                // One that stands twice, or elsewhere, is told by the repair.
                Spec::of(&service).held_ports().into_iter().for_each(|port| drop(ports.take(port)));
            }
            ports
        });
        Ok(StoredPorts { ports, revision })
    }

    /// The stored node ports, if there are any that can be read, and the revision of their key; zero when it does not exist.
    ///
    /// # Errors
    /// etcd does not answer; or what it has is none, so that it is not known which ports are taken.
    pub async fn node_ports(&self) -> Result<(Option<Ports>, Revision), WriteError> {
        let key = self.node_ports_key();
        let answer = self.etcds.of(SERVICES).range(etcd::RangeRequest { key: key.to_vec(), ..Default::default() }).await?;
        let Some(kv) = answer.kvs.into_iter().next() else { return Ok((None, Revision::ZERO)) };
        match Ports::read(&kv.value) {
            Some(ports) => Ok((Some(ports), kv.mod_revision)),
            None => Err(WriteError::Undecodable(format!("{}: no RangeAllocation that can be read", String::from_utf8_lossy(&key)))),
        }
    }

    /// Puts the node ports in the place of those of this revision; false when somebody else was faster.
    ///
    /// # Errors
    /// etcd does not answer.
    pub async fn put_node_ports(&self, ports: &Ports, revision: Revision) -> Result<bool, WriteError> {
        let expected = Some(revision).filter(|revision| *revision != Revision::ZERO);
        let outcome = self.etcds.of(SERVICES).put_if(self.node_ports_key(), ports.value().into(), expected, 0).await?;
        Ok(matches!(outcome, etcd::Outcome::Written(_)))
    }

    /// All Services that the cache has.
    pub fn all_services(&self) -> Vec<Value> {
        let Some(resource) = self.resources.load().find("", "v1", "services").cloned() else { return Vec::new() };
        let known = resource.handle.published.known();
        known.snapshot.store.scan(b"", b"").filter_map(|object| super::object_ref::stored_tree(&resource, object).ok()).collect()
    }
}
