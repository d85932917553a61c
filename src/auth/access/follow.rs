//! Keeps the indexes of the authorizers up to date: each index follows the objects in the cache that it is made of.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::authz::{Affected, Authorizer, node, rbac};
use cache::state::snapshot::Snapshot;
use registry::{Resource, ServedResources};

/// An index that is cheap to copy and changed by objects.
pub(super) trait Index: Authorizer + Clone + Default + 'static {
    /// What it is made of: group and plural name of each resource.
    const RESOURCES: &[(&str, &str)];

    /// Takes in an object as JSON.
    ///
    /// # Errors
    /// It cannot be read, and then counts for nothing.
    fn put(&mut self, place: &Place<'_>, json: &[u8]) -> Result<(), serde_json::Error>;

    /// Forgets an object.
    fn remove(&mut self, place: &Place<'_>);

    /// Adds those from whom the change of an object, to what it is in `after`, may have taken a right.
    fn lost(&self, after: &Self, place: &Place<'_>, affected: &mut Affected);
}

/// Where an object is.
pub(super) struct Place<'a> {
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl Index for rbac::RbacIndex {
    const RESOURCES: &[(&str, &str)] =
        &[(rbac::GROUP, "clusterroles"), (rbac::GROUP, "clusterrolebindings"), (rbac::GROUP, "roles"), (rbac::GROUP, "rolebindings")];

    fn put(&mut self, place: &Place<'_>, json: &[u8]) -> Result<(), serde_json::Error> {
        rbac::Kind::of(place.resource).map_or(Ok(()), |kind| Self::put(self, kind, place.namespace, place.name, json))
    }

    fn remove(&mut self, place: &Place<'_>) {
        if let Some(kind) = rbac::Kind::of(place.resource) {
            Self::remove(self, kind, place.namespace, place.name);
        }
    }

    fn lost(&self, after: &Self, place: &Place<'_>, affected: &mut Affected) {
        if let Some(kind) = rbac::Kind::of(place.resource) {
            Self::lost(self, after, kind, place.namespace, place.name, affected);
        }
    }
}

impl Index for node::NodeGraph {
    const RESOURCES: &[(&str, &str)] =
        &[("", "pods"), ("", "persistentvolumes"), ("storage.k8s.io", "volumeattachments"), ("resource.k8s.io", "resourceslices")];

    fn put(&mut self, place: &Place<'_>, json: &[u8]) -> Result<(), serde_json::Error> {
        node::Kind::of(place.group, place.resource).map_or(Ok(()), |kind| Self::put(self, kind, place.namespace, place.name, json))
    }

    fn remove(&mut self, place: &Place<'_>) {
        if let Some(kind) = node::Kind::of(place.group, place.resource) {
            Self::remove(self, kind, place.namespace, place.name);
        }
    }

    fn lost(&self, after: &Self, place: &Place<'_>, affected: &mut Affected) {
        if let Some(kind) = node::Kind::of(place.group, place.resource) {
            Self::lost(self, after, kind, place.namespace, place.name, affected);
        }
    }
}

/// Follows the objects of an index until the process ends, and tells whom each change may have taken a right, and once when it has all that there is.
pub(super) async fn follow<I: Index>(
    index: &ArcSwap<I>,
    resources: &ArcSwap<ServedResources>,
    changed: &(impl Fn(Affected) + Sync),
    loaded: &(impl Fn() + Sync),
) {
    let all = I::RESOURCES.iter().filter_map(|(group, resource)| resources.load().find(group, "v1", resource).cloned());
    let all: Vec<_> = all.collect();
    if all.is_empty() {
        loaded();
    }
    let missing = AtomicUsize::new(all.len());
    let first = || {
        if missing.fetch_sub(1, Ordering::Relaxed) == 1 {
            loaded();
        }
    };
    futures_util::future::join_all(all.into_iter().map(|resource| follow_one(index, resource, changed, &first))).await;
}

async fn follow_one<I: Index>(
    index: &ArcSwap<I>,
    resource: Arc<Resource>,
    changed: &(impl Fn(Affected) + Sync),
    first: &(impl Fn() + Sync),
) {
    let (mut seen, mut is_first) = (None, true);
    let mut known = BTreeSet::new();
    loop {
        let (snapshot, keys) = resource.handle.published.next(&mut seen).await;
        // Without knowing what was written, all is looked at, and what was there before too.
        let keys = keys.unwrap_or_else(|| {
            let whole = snapshot.store.scan(b"", b"").map(|object| Bytes::copy_from_slice(object.key()));
            whole.chain(snapshot.broken.keys().cloned()).chain(known.iter().cloned()).collect()
        });
        changed(update(index, &resource, &snapshot, &keys));
        if std::mem::take(&mut is_first) {
            first();
        }
        for key in keys {
            if snapshot.known_part(&key).is_some() {
                known.insert(key)
            } else {
                known.remove(&key)
            };
        }
    }
}

/// Takes these keys into the index, and returns whom that may have taken a right. What is known of an object is judged by, whatever else it has: an API server
/// of our release would do the same.
fn update<I: Index>(index: &ArcSwap<I>, resource: &Resource, snapshot: &Snapshot, keys: &BTreeSet<Bytes>) -> Affected {
    let (form, served) = (&resource.encoders.whole().encoder, &resource.served);
    let (mut json, mut affected) = (Vec::new(), Affected::default());
    // Followers of other resources write the same index.
    index.rcu(|before| {
        let mut index = (**before).clone();
        for key in keys {
            let (namespace, name) = names(key, &served.storage.id);
            let place = Place { group: &served.group, resource: &served.resource, namespace, name };
            let Some(object) = snapshot.known_part(key) else {
                index.remove(&place);
                continue;
            };
            json.clear();
            form.object_into(object, &mut json);
            if let Err(error) = index.put(&place, &json) {
                tracing::warn!(resource = %served.resource, namespace, name, %error, "an object cannot be read; the authorizers ignore it");
            }
        }
        affected = Affected::default();
        for key in keys {
            let (namespace, name) = names(key, &served.storage.id);
            before.lost(&index, &Place { group: &served.group, resource: &served.resource, namespace, name }, &mut affected);
        }
        index
    });
    affected
}

/// Namespace and name in a key: what follows the storage's own part.
fn names<'k>(key: &'k [u8], storage: &str) -> (&'k str, &'k str) {
    let key = std::str::from_utf8(key).unwrap_or_default();
    let rest = key.find(&format!("/{storage}/")).map_or(key, |at| &key[at + storage.len() + 2..]);
    rest.split_once('/').unwrap_or(("", rest))
}
