//! The transaction that writes a Service, with what it takes and gives back.

use std::net::IpAddr;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{FAMILY_LABEL, MANAGER, MANAGER_LABEL, SERVICES, Session, families::family_of, is_kept_for, pools::Found, spec::Spec};
use crate::write::{
    WriteRequest, Writer,
    custom::Judge,
    failure::WriteError,
    kinds::warnings::address::sloppy,
    object_ref::{Current, ObjectRef},
    options::DeleteOptions,
    quotas::{self, Charged},
    step::Decider,
    strategy, transaction, tree,
};
use etcd::{KeyValue, KeyWrite};
use model::Revision;

/// A transaction as it grows.
#[derive(Default)]
struct Transaction {
    expected: Vec<(Bytes, Revision)>,
    writes: Vec<KeyWrite>,
    /// Objects that finalizers hold: they are deleted afterwards, as a client deletes them.
    afterwards: Vec<ObjectRef>,
}

impl Session<'_> {
    /// Puts a Service, with what the last decision has taken and given back. Returns what is there instead, if somebody was faster: of the Service, or of what
    /// it takes.
    pub(in crate::write) async fn put(
        &self,
        target: &ObjectRef,
        value: Bytes,
        expected: Option<Revision>,
        lease: i64,
        charged: &[Charged],
    ) -> Result<Result<Revision, Option<KeyValue>>, WriteError> {
        let (plan, stored_ports) = {
            let state = self.state.lock();
            (state.plan.clone(), state.ports.clone())
        };
        let writer = self.writer;
        let key = target.key(&writer.prefix);
        let mut txn = Transaction::default();
        txn.expected.push((key.clone(), expected.unwrap_or(Revision::ZERO)));
        txn.writes.push(KeyWrite::Put { key, value, lease });
        for ip in &plan.taken {
            let (key, value) = writer.address(*ip, target).await?;
            txn.expected.push((key.clone(), Revision::ZERO));
            txn.writes.push(KeyWrite::Put { key, value, lease: 0 });
        }
        for ip in &plan.released {
            writer.release(&mut txn, *ip, target).await?;
        }
        if let (Some(ports), Some(stored)) = (&plan.ports, &stored_ports)
            && *ports != stored.ports
        {
            txn.expected.push((writer.node_ports_key(), stored.revision));
            txn.writes.push(KeyWrite::Put { key: writer.node_ports_key(), value: ports.value().into(), lease: 0 });
        }
        quotas::add(charged, &mut txn.expected, &mut txn.writes);
        match writer.done(target, txn).await? {
            Ok(revision) => Ok(Ok(revision)),
            Err(mut found) => {
                self.state.lock().ports = None;
                for (ip, kv) in plan.taken.iter().zip(found.drain(1..)).filter_map(|(ip, found)| Some((*ip, found?))) {
                    self.note(target, ip, kv).await?;
                }
                Ok(Err(found.pop().flatten()))
            }
        }
    }

    /// Notes for whom an address is kept that was to be taken.
    async fn note(&self, target: &ObjectRef, ip: IpAddr, kv: KeyValue) -> Result<(), WriteError> {
        let Some(place) = self.writer.address_ref(ip) else { return Ok(()) };
        let is_own = is_kept_for(&self.writer.decoded(&place, kv).await?.tree, target);
        self.state.lock().found.insert(ip, if is_own { Found::Own } else { Found::Taken });
        Ok(())
    }
}

impl Writer {
    /// Deletes a Service that was last written at this revision, with its Endpoints, and gives back what it holds. Returns what is there instead, if somebody
    /// was faster.
    pub(in crate::write) async fn delete_service(
        &self,
        target: &ObjectRef,
        current: &Current,
    ) -> Result<Result<Revision, Option<KeyValue>>, WriteError> {
        let key = target.key(&self.prefix);
        let mut txn = Transaction::default();
        txn.expected.push((key.clone(), current.revision));
        txn.writes.push(KeyWrite::Delete { key });
        let endpoints = self.resources.load().find("", "v1", "endpoints").cloned();
        if let Some(resource) = endpoints {
            let place = ObjectRef { resource, ..target.clone() };
            self.give_back(&mut txn, place, |_| true).await?;
        }
        if let Some(ranges) = self.service_ranges() {
            let spec = Spec::of(&current.tree);
            for ip in spec.held_addresses().iter().filter_map(|ip| sloppy(ip)) {
                self.release(&mut txn, ip.to_canonical(), target).await?;
            }
            let held = spec.held_ports();
            if !held.is_empty() {
                let stored = self.stored_ports(ranges.node_ports).await?;
                let mut ports = stored.ports.clone();
                held.into_iter().for_each(|port| ports.release(port));
                if ports != stored.ports || stored.revision == Revision::ZERO {
                    txn.expected.push((self.node_ports_key(), stored.revision));
                    txn.writes.push(KeyWrite::Put { key: self.node_ports_key(), value: ports.value().into(), lease: 0 });
                }
            }
        }
        Ok(self.done(target, txn).await?.map_err(|found| found.into_iter().next().flatten()))
    }

    async fn done(&self, target: &ObjectRef, txn: Transaction) -> Result<Result<Revision, Vec<Option<KeyValue>>>, WriteError> {
        let outcome = self.etcd(target.served()).write_all(&txn.expected, &txn.writes).await?;
        if outcome.is_ok() {
            for place in txn.afterwards {
                // A boxed future: what is deleted here is no Service.
                let deleted = Box::pin(self.delete_by_server(&place, &DeleteOptions::default())).await;
                if let Err(error) = deleted {
                    tracing::debug!(%error, name = %place.name, "cannot delete an object with its Service; the repair will");
                }
            }
        }
        Ok(outcome)
    }

    /// The key and the value of the object of an address that is kept for a Service.
    async fn address(&self, ip: IpAddr, service: &ObjectRef) -> Result<(Bytes, Bytes), WriteError> {
        let missing = || WriteError::Internal("IPAddresses are not served".to_owned());
        let place = self.address_ref(ip).ok_or_else(missing)?;
        let request = WriteRequest::by_server(place.clone());
        let object = address_object(ip, service.namespace.as_deref().unwrap_or_default(), &service.name);
        let mut decider = Decider::new(&self.offload, None, request.answers());
        let object = self.note_created(&request, &place, &mut decider, object).await?;
        let object = strategy::create(&place, Judge::default(), object, None, &strategy::Birth::now(), &mut Vec::new())?;
        Ok((place.key(&self.prefix), transaction::encoded(&place, &object)))
    }

    async fn release(&self, txn: &mut Transaction, ip: IpAddr, service: &ObjectRef) -> Result<(), WriteError> {
        let Some(place) = self.address_ref(ip) else { return Ok(()) };
        self.give_back(txn, place, |address| is_kept_for(address, service)).await
    }

    /// Deletes an object with the Service, if there is one that belongs to it.
    async fn give_back(&self, txn: &mut Transaction, place: ObjectRef, belongs: impl Fn(&Value) -> bool) -> Result<(), WriteError> {
        let Some(current) = self.fresh(&place).await?.filter(|current| belongs(&current.tree)) else { return Ok(()) };
        let is_held = !tree::texts(&current.tree, &["metadata", "finalizers"]).is_empty();
        if is_held || !std::ptr::eq(self.etcd(place.served()), self.etcds.of(SERVICES)) {
            txn.afterwards.push(place);
            return Ok(());
        }
        let key = place.key(&self.prefix);
        txn.expected.push((key.clone(), current.revision));
        txn.writes.push(KeyWrite::Delete { key });
        Ok(())
    }
}

/// The object of an address, as kube-apiserver makes it.
#[must_use]
pub fn address_object(ip: IpAddr, namespace: &str, service: &str) -> Value {
    let text = ip.to_string();
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {"name": text, "labels": {FAMILY_LABEL: family_of(&text), MANAGER_LABEL: MANAGER}},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": service}},
    })
}
