//! Repairs the cluster IPs and node ports of Services, as kube-apiserver's two repair loops do: what was allocated and is not noted, what is noted for nobody,
//! what is allocated twice. Here a Service and what it gets are written in one transaction: so there is something to repair only when somebody else has
//! written, or an older release.

mod addresses;
mod ports;

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Controllers, objects::place};
use cache::state::snapshot::Known;
use registry::Resource;
use storage::write::{
    Part, PatchKind, Syntax, WriteRequest, Writer,
    failure::WriteError,
    options::DeleteOptions,
    services::{ServiceRanges, address_object},
    write_gate::Permission,
};

/// How often all is looked at, as kube-apiserver does.
const REPAIR_EVERY: Duration = Duration::from_secs(180);
/// Between two looks when something has changed, or when something was found: two looks must find it, for the caches of two resources are not of one revision.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// What was told is not told again, of so many findings at most.
const TOLD_MAX: usize = 10_000;

/// An Event about a Service or an address.
pub(super) struct Report {
    /// The object that it is about.
    pub(super) regarding: Value,
    pub(super) component: &'static str,
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) note: String,
}

pub(super) async fn run(controllers: &Controllers) {
    let Some(ranges) = controllers.writer.service_ranges().cloned() else { return };
    let (Some(services), Some(all)) = (controllers.built_in("", "services"), controllers.built_in("networking.k8s.io", "ipaddresses"))
    else {
        return;
    };
    for resource in [&services, &all] {
        while resource.handle.published.wait_until(Known::is_ready, REPAIR_EVERY).await.is_err() {}
    }
    let repair = Repair { controllers, ranges, services, addresses: all };
    let (mut suspects, mut leaks, mut told) = (HashSet::new(), ports::Leaks::default(), HashSet::new());
    let mut ports_due = Instant::now();
    while controllers.write_gate.now() == Permission::Granted {
        let changed = (repair.services.handle.published.changed(), repair.addresses.handle.published.changed());
        if told.len() > TOLD_MAX {
            told.clear();
        }
        if let Err(error) = repair.addresses(&mut suspects, &mut told).await {
            tracing::debug!(%error, "cannot repair the cluster IPs of Services yet; trying again");
        }
        if ports_due <= Instant::now() {
            match repair.ports(&mut leaks, &mut told).await {
                Ok(()) => ports_due = Instant::now() + REPAIR_EVERY,
                Err(error) => tracing::debug!(%error, "cannot repair the node ports of Services yet; trying again"),
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
        if suspects.is_empty() && ports_due > Instant::now() {
            tokio::select! {
                () = changed.0 => {}
                () = changed.1 => {}
                () = tokio::time::sleep_until(ports_due.into()) => {}
            }
        }
    }
}

struct Repair<'a> {
    controllers: &'a Controllers,
    ranges: ServiceRanges,
    services: Arc<Resource>,
    addresses: Arc<Resource>,
}

impl Repair<'_> {
    fn writer(&self) -> &Writer {
        &self.controllers.writer
    }

    /// One look at all cluster IPs; what the last look has found too is repaired.
    async fn addresses(&self, suspects: &mut HashSet<String>, told: &mut HashSet<String>) -> Result<(), WriteError> {
        // What is seen of addresses is at least as new as what is seen of Services.
        let services = self.services.handle.published.known();
        let known = self.controllers.caught_up(&self.addresses, services.revision).await?;
        let found = addresses::look(&self.controllers.writer.all_services(), &self.all(&known), &self.writer().ready_ranges());
        let mut next = HashSet::new();
        for finding in found {
            let id = finding.id();
            if finding.is_due(&self.writer().now()) && suspects.contains(&id) {
                if let Some(report) = finding.report() {
                    self.tell(&id, report, told).await;
                }
                self.mend(&finding).await?;
            }
            // One that nothing mends is told, and then left.
            if finding.mend != addresses::Mend::Nothing || !told.contains(&id) {
                next.insert(id);
            }
        }
        *suspects = next;
        Ok(())
    }

    async fn mend(&self, finding: &addresses::Finding) -> Result<(), WriteError> {
        use addresses::Mend;
        let ip = finding.ip.as_str();
        let place = place(&self.addresses, "", ip);
        match finding.mend {
            Mend::Nothing => return Ok(()),
            Mend::Allocate => {
                let service = super::objects::place(&self.services, &finding.namespace, &finding.name);
                let ask = WriteRequest { part: Part::Main, ..WriteRequest::by_server(service) };
                self.writer().patch(&ask, PatchKind::Merge, b"{}", &mut Vec::new()).await?;
                tracing::info!(namespace = %finding.namespace, name = %finding.name, "allocated the cluster IP of a Service that had none");
                return Ok(());
            }
            Mend::Create => {}
            Mend::Recreate | Mend::Delete => self.controllers.delete(&place, &DeleteOptions::default()).await?,
        }
        if finding.mend == Mend::Delete {
            return Ok(());
        }
        let Ok(address) = ip.parse() else { return Ok(()) };
        let object = address_object(address, &finding.namespace, &finding.name);
        let ask = WriteRequest::by_server(super::objects::place(&self.addresses, "", ""));
        match self.writer().create(&ask, Syntax::Json, object.to_string().as_bytes(), &mut Vec::new()).await {
            Ok(_) | Err(WriteError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// One look at all node ports.
    async fn ports(&self, leaks: &mut ports::Leaks, told: &mut HashSet<String>) -> Result<(), WriteError> {
        let (stored, revision) = self.writer().node_ports().await?;
        self.controllers.caught_up(&self.services, revision).await?;
        let rebuilt = ports::rebuild(stored.as_ref(), self.ranges.node_ports, &self.writer().all_services(), leaks);
        if stored.as_ref() != Some(&rebuilt.ports) && !self.writer().put_node_ports(&rebuilt.ports, revision).await? {
            return Err(WriteError::NotYet("somebody else has changed the node ports".to_owned()));
        }
        for (id, report) in rebuilt.reports {
            self.tell(&id, report, told).await;
        }
        Ok(())
    }

    fn all(&self, known: &Known) -> Vec<Value> {
        let objects = known.snapshot.store.scan(b"", b"");
        objects.filter_map(|object| super::objects::tree(&self.addresses, object)).collect()
    }

    /// Logs what was found and writes an Event, once.
    async fn tell(&self, id: &str, report: Report, told: &mut HashSet<String>) {
        if !told.insert(id.to_owned()) {
            return;
        }
        tracing::warn!(reason = report.reason, "{}", report.note);
        let Some(events) = self.controllers.built_in("events.k8s.io", "events") else { return };
        let text = |name: &str| report.regarding[name].as_str().unwrap_or_default();
        let namespace = if text("namespace").is_empty() { "default" } else { text("namespace") };
        let suffix = Uuid::new_v4().simple().to_string();
        let event = json!({
            "metadata": {"name": format!("{}.{}", text("name"), &suffix[..16]), "namespace": namespace},
            "eventTime": now_micros(), "reportingController": report.component,
            "reportingInstance": format!("{}-watchcache", report.component),
            "action": report.action, "reason": report.reason, "note": report.note, "type": "Warning", "regarding": report.regarding,
        });
        if let Err(error) = self.controllers.create(&events, namespace, &event).await {
            tracing::debug!(%error, "an Event about a Service cannot be written");
        }
    }
}

/// Now, as Events have it.
fn now_micros() -> String {
    let now = time::OffsetDateTime::now_utc();
    let (date, clock) = (now.date(), now.time());
    format!("{date}T{:02}:{:02}:{:02}.{:06}Z", clock.hour(), clock.minute(), clock.second(), clock.microsecond())
}

/// What an Event says that it is about.
fn regarding(object: &Value, api_version: &str, kind: &str) -> Value {
    let mut regarding = json!({"apiVersion": api_version, "kind": kind});
    for name in ["name", "namespace", "uid", "resourceVersion"] {
        if let Some(value) = object["metadata"].get(name) {
            regarding[name] = value.clone();
        }
    }
    regarding
}
