//! Which object a write is about, and what is there now. Knows the cache and etcd as two ways to read the same object.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::{
    Writer,
    failure::{Named, WriteError},
};
use catalogue::Served;
use codec::ingest::ingest;
use etcd::{KeyValue, RangeRequest};
use model::{Broken, Object, Revision};
use offload::{Entered, LARGE_BYTES};
use registry::Resource;

/// One object of one served resource, there or not.
#[derive(Clone)]
pub struct Place {
    pub resource: Arc<Resource>,
    /// Namespace; absent for cluster-scoped resources.
    pub namespace: Option<String>,
    pub name: String,
}

/// What is there: the object in the version that is stored (`codec::versions`), and when it was last written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Current {
    /// The whole object, with `metadata.resourceVersion`.
    pub(super) tree: Value,
    /// Revision of its last change.
    pub(super) revision: Revision,
    /// Work on it takes long.
    pub(super) is_large: bool,
}

/// What etcd took for an object.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredValue {
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    /// When it was written.
    pub(super) revision: Revision,
}

impl Place {
    /// The served resource.
    pub(super) fn served(&self) -> &Served {
        &self.resource.served
    }

    /// `pods "a"` in messages.
    pub(super) fn named(&self) -> Named {
        Named::resource(self.served(), &self.name)
    }

    /// `Pod "a"` in messages.
    pub(super) fn kind(&self) -> Named {
        Named::kind(self.served(), &self.name)
    }

    /// Its storage key; `prefix` is `/registry/`.
    #[must_use]
    pub fn key(&self, prefix: &str) -> Bytes {
        let prefix = self.served().storage.key_prefix(prefix);
        match &self.namespace {
            Some(namespace) => format!("{prefix}{namespace}/{}", self.name).into(),
            None => format!("{prefix}{}", self.name).into(),
        }
    }
}

impl Writer {
    /// The object as the cache has it, if it has and can be changed: perhaps an older one.
    pub(super) async fn cached(&self, place: &Place) -> Option<Current> {
        let object = self.known(place)?;
        self.offload.take(is_large(&object), || current(place, &object)).await.ok()
    }

    /// The same as it is shown.
    pub(super) fn known(&self, place: &Place) -> Option<Arc<Object>> {
        let known = place.resource.handle.published.known();
        known.is_ready().then(|| known.snapshot.store.find(&place.key(&self.prefix)).cloned()).flatten()
    }

    /// Lets a request in that changes the object which is there, with a body of so many bytes. A tree of the object takes what a tree of a body takes.
    pub(super) async fn enter(&self, place: &Place, is_large: bool, body: usize) -> Entered {
        let object = self.known(place).map_or(0, |object| object.tail().len());
        self.offload.enter(is_large, body.max(object)).await
    }

    /// The object as etcd has it now.
    pub(super) async fn fresh(&self, place: &Place) -> Result<Option<Current>, WriteError> {
        let asking = place.resource.metrics.etcd_get();
        let answer =
            self.etcd(place.served()).range(RangeRequest { key: place.key(&self.prefix).to_vec(), ..RangeRequest::default() }).await?;
        asking.succeeded();
        match answer.kvs.into_iter().next() {
            Some(kv) => self.decoded(place, kv).await.map(Some),
            None => Ok(None),
        }
    }

    /// What a transaction found instead of what was expected.
    pub(super) async fn decoded(&self, place: &Place, kv: KeyValue) -> Result<Current, WriteError> {
        let read = || {
            let object = self.read(place.served(), kv.key, &kv.value, kv.mod_revision)?;
            current(place, &object)
        };
        let decoded = self.offload.take(kv.value.len() >= LARGE_BYTES, read).await;
        if decoded.is_err() {
            place.resource.metrics.decode_errors.inc();
        }
        decoded
    }

    /// What was written, as a GET would find it.
    pub fn read_back(&self, served: &Served, stored: StoredValue) -> Option<Arc<Object>> {
        self.read(served, stored.key, &stored.value, stored.revision).ok()
    }

    fn read(&self, served: &Served, key: Bytes, value: &[u8], revision: Revision) -> Result<Arc<Object>, Broken> {
        let read = ingest(&served.storage, served.storage.key_prefix_len(&self.prefix), key, value, revision);
        read.map(Arc::new).or_else(|broken| broken.or_known_part(self.loses_unknown_fields))
    }
}

fn is_large(object: &Object) -> bool {
    object.tail().len() >= LARGE_BYTES
}

/// What can be shown cannot always be changed: bytes are shown at any depth, a tree has a limit.
fn current(place: &Place, object: &Object) -> Result<Current, WriteError> {
    let mut json = Vec::with_capacity(object.tail().len() + 64);
    place.resource.forms.whole().form.stored_into(object, &mut json);
    let undecodable = |error| WriteError::Undecodable(format!("{}: {error}", String::from_utf8_lossy(object.key())));
    Ok(Current { tree: serde_json::from_slice(&json).map_err(undecodable)?, revision: object.revision, is_large: is_large(object) })
}

/// A place of a built-in resource whose cache is empty, for tests of the pure parts.
#[cfg(test)]
pub(super) fn test_place(group: &str, resource: &str, namespace: Option<&str>, name: &str) -> Place {
    let resource = registry::test_resource(group, resource);
    Place { resource: Arc::new(resource), namespace: namespace.map(str::to_owned), name: name.to_owned() }
}
