//! Tells with Events of owners that are there, but in a namespace where they cannot be owners.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    super::objects::{Metadata, OwnerReference},
    Shared,
};
use model::{Object, shard::hash};
use registry::Resource;

/// Owners that are not where they should be, and are looked for at once; of more nobody is told.
const ABSENTEES_MAX: usize = 10_000;
/// How long they are gathered: to look for one costs as much as for all.
const GATHERING: Duration = Duration::from_secs(1);
/// Events about one object at a time: as many as kube-controller-manager's are, before those that come at once are dropped.
const EVENTS_MAX: usize = 25;
/// Objects among which owners are looked for, before others have their turn.
const OBJECTS_AT_ONCE: usize = 4096;

/// Owners that nobody has where their dependents are, and that are still to be looked for elsewhere.
#[derive(Default)]
pub(super) struct Absentees {
    all: Mutex<Vec<Absentee>>,
    added: Notify,
}

struct Absentee {
    reference: OwnerReference,
    /// What the owner is.
    owners: Arc<Resource>,
    /// Whose owner it would be.
    resource: Arc<Resource>,
    object: Arc<Object>,
}

impl Absentees {
    /// Has an owner looked for.
    pub(super) fn add(&self, reference: &OwnerReference, owners: &Arc<Resource>, resource: &Arc<Resource>, object: &Arc<Object>) {
        let mut all = self.all.lock();
        if all.len() < ABSENTEES_MAX {
            let absentee =
                Absentee { reference: reference.clone(), owners: owners.clone(), resource: resource.clone(), object: object.clone() };
            all.push(absentee);
            self.added.notify_one();
        }
    }
}

impl Shared {
    /// Looks for them and tells of those that are found, for ever.
    pub(super) async fn report(&self) {
        loop {
            self.absentees.added.notified().await;
            tokio::time::sleep(GATHERING).await;
            let mut by_resource: BTreeMap<_, Vec<Absentee>> = BTreeMap::new();
            for absentee in std::mem::take(&mut *self.absentees.all.lock()) {
                by_resource.entry(absentee.owners.served.storage.id.clone()).or_default().push(absentee);
            }
            for absentees in by_resource.into_values() {
                self.report_of(&absentees).await;
            }
        }
    }

    /// The same, of owners of one resource.
    async fn report_of(&self, absentees: &[Absentee]) {
        let (Some(first), Some(events)) = (absentees.first(), self.controllers.built_in("", "events")) else { return };
        let mut wanted: HashMap<u64, Vec<&Absentee>> = HashMap::new();
        for absentee in absentees {
            wanted.entry(hash(&absentee.reference.uid)).or_default().push(absentee);
        }
        let (snapshot, mut found) = (first.owners.handle.published.known().snapshot, Vec::new());
        for (count, owner) in snapshot.store.scan(b"", b"").enumerate() {
            let is_elsewhere = |absentee: &&&Absentee| !owner.namespace().is_empty() && owner.namespace() != absentee.object.namespace();
            found.extend(wanted.get(&owner.uid_hash).into_iter().flatten().filter(is_elsewhere).copied());
            if count % OBJECTS_AT_ONCE == OBJECTS_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
        let mut told: HashMap<&[u8], usize> = HashMap::new();
        for absentee in found {
            let count = told.entry(absentee.object.key()).or_default();
            *count += 1;
            let Some(metadata) = Metadata::of(&absentee.object).filter(|_| *count <= EVENTS_MAX) else { continue };
            let suffix = uuid::Uuid::new_v4().simple().to_string();
            let event = invalid_namespace(absentee, &metadata.uid, &self.controllers.writer.now(), &suffix);
            let namespace = event["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
            // The object may be in a namespace that is about to go: then nobody is told.
            if let Err(error) = self.controllers.create(&events, &namespace, &event).await {
                tracing::debug!(%error, "an Event about an owner cannot be written");
            }
        }
    }
}

/// The Event that kube-controller-manager writes about such an owner.
fn invalid_namespace(absentee: &Absentee, uid: &str, now: &str, suffix: &str) -> Value {
    let (served, object) = (&absentee.resource.served, &absentee.object);
    let (namespace, component) = (object.namespace(), "garbage-collector-controller");
    let OwnerReference { api_version, kind, name, uid: owner, .. } = &absentee.reference;
    let identity = format!("[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {owner}]");
    let mut involved = json!({"kind": served.kind, "apiVersion": served.api_version(), "name": object.name(), "uid": uid});
    if !namespace.is_empty() {
        involved["namespace"] = namespace.into();
    }
    json!({
        "metadata": {
            "name": format!("{}.{}", object.name(), &suffix[..16]),
            "namespace": if namespace.is_empty() { "default" } else { namespace },
        },
        "involvedObject": involved,
        "reason": "OwnerRefInvalidNamespace",
        "message": format!("ownerRef {identity} does not exist in namespace {}", go::quote::quoted(namespace)),
        "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
        "type": "Warning", "count": 1, "firstTimestamp": now, "lastTimestamp": now,
    })
}
