//! Keeps the index of roles and bindings as new as the cache.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;

use super::{Access, Rbac};
use crate::registry::{Resource, ServedResources};
use auth::authz::rbac::{GROUP, Kind};
use watch::cache::store::Store;

/// What RBAC is made of.
const KINDS: [Kind; 4] = [Kind::ClusterRole, Kind::ClusterRoleBinding, Kind::Role, Kind::RoleBinding];

impl Access {
    /// Follows the roles and bindings until the process ends.
    pub async fn follow(self: Arc<Self>, resources: Arc<ArcSwap<ServedResources>>) {
        let all = KINDS.map(|kind| {
            let resource = resources.load().find(GROUP, "v1", kind.resource()).cloned();
            follow(self.rbac.clone(), kind, resource)
        });
        futures_util::future::join_all(all).await;
    }
}

/// Follows the objects of one kind.
async fn follow(rbac: Arc<Rbac>, kind: Kind, resource: Option<Arc<Resource>>) {
    let Some(resource) = resource else { return };
    let mut seen = None;
    let mut known = BTreeSet::new();
    loop {
        let changed = resource.handle.published.changed();
        if let Some((store, keys)) = resource.handle.published.known().written_since(&mut seen) {
            // Without knowing what was written, all is looked at, and what was there before too.
            let keys = keys.unwrap_or_else(|| store.scan(b"", b"").map(|object| object.key.clone()).chain(known.iter().cloned()).collect());
            update(&rbac, kind, &resource, &store, &keys);
            for key in keys {
                if store.find(&key).is_some() {
                    known.insert(key)
                } else {
                    known.remove(&key)
                };
            }
        }
        changed.await;
    }
}

/// Takes these keys into the index as the store has them.
fn update(rbac: &Rbac, kind: Kind, resource: &Resource, store: &Store, keys: &BTreeSet<Bytes>) {
    let form = &resource.forms.whole().form;
    let mut json = Vec::new();
    rbac.0.rcu(|index| {
        let mut index = (**index).clone();
        for key in keys {
            let (namespace, name) = place(key, &resource.served.storage.id);
            match store.find(key) {
                Some(object) => {
                    json.clear();
                    form.object_into(object, &mut json);
                    // What is no role grants nothing.
                    if let Err(error) = index.put(kind, namespace, name, &json) {
                        tracing::warn!(resource = kind.resource(), namespace, name, %error, "it cannot be read and grants nothing");
                    }
                }
                None => index.remove(kind, namespace, name),
            }
        }
        index
    });
}

/// Namespace and name in a key: what follows the storage's own part.
fn place<'k>(key: &'k [u8], storage: &str) -> (&'k str, &'k str) {
    let key = std::str::from_utf8(key).unwrap_or_default();
    let rest = key.find(&format!("/{storage}/")).map_or(key, |at| &key[at + storage.len() + 2..]);
    rest.split_once('/').unwrap_or(("", rest))
}
