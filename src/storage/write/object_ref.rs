//! The object that a write is about, and its current state, read from the cache or from etcd.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::{
    Writer,
    failure::{StatusSubject, WriteError},
    step::{Answers, Approver},
    transaction, tree,
};
use catalogue::Served;
use codec::ingest::ingest;
use etcd::{KeyValue, Pages, RangeRequest};
use model::{Broken, Object, Revision};
use offload::{Admitted, LARGE_BYTES};
use registry::Resource;

/// Objects of a namespace that are read at once.
const PAGE: u32 = 500;

/// Names one object of one served resource, whether it exists or not.
#[derive(Clone)]
pub struct ObjectRef {
    pub resource: Arc<Resource>,
    /// Namespace; absent for cluster-scoped resources.
    pub namespace: Option<String>,
    pub name: String,
}

/// The current state: the object in the version that is stored (`codec::versions`), and when it was last written. Of a version that its definition makes of
/// what is stored, it is the object in that version.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Current {
    /// The whole object, with `metadata.resourceVersion`.
    pub(super) tree: Value,
    /// Revision of its last change.
    pub(super) revision: Revision,
    /// Work on it takes long.
    pub(super) is_large: bool,
    /// What etcd has, if the object was read from there.
    pub(super) stored: Option<Bytes>,
}

/// The value that was stored for an object.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredValue {
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    /// When it was written.
    pub(super) revision: Revision,
}

impl ObjectRef {
    /// The served resource.
    pub(super) fn served(&self) -> &Served {
        &self.resource.served
    }

    /// `pods "a"` in messages.
    pub(super) fn subject(&self) -> StatusSubject {
        StatusSubject::resource(self.served(), &self.name)
    }

    /// `Pod "a"` in messages of validation.
    pub(super) fn judged_subject(&self) -> StatusSubject {
        StatusSubject::judged(self.served(), &self.name)
    }

    /// What a write of it has found out at its beginning.
    pub(super) fn answers<'a>(&'a self, approver: Option<&'a dyn Approver>) -> Answers<'a> {
        Answers::new(self.resource.webhook.as_deref(), approver)
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
    pub(super) async fn cached(&self, target: &ObjectRef) -> Option<Current> {
        let object = self.known(target)?;
        self.offload.run(is_large(&object), || current(target, &object)).await.ok()
    }

    /// The same as it is shown.
    pub(super) fn known(&self, target: &ObjectRef) -> Option<Arc<Object>> {
        let known = target.resource.handle.published.known();
        known.is_ready().then(|| known.snapshot.store.find(&target.key(&self.prefix)).cloned()).flatten()
    }

    /// Admits a request that changes an object, with a body of so many bytes. A tree of the object takes what a tree of a body takes.
    pub(super) async fn admit(&self, target: &ObjectRef, is_large: bool, body: usize) -> Admitted<'_> {
        let object = self.known(target).map_or(0, |object| object.tail_len());
        self.offload.admit(is_large, body.max(object)).await
    }

    /// The object as etcd has it now.
    pub(super) async fn fresh(&self, target: &ObjectRef) -> Result<Option<Current>, WriteError> {
        let asking = target.resource.metrics.etcd_get();
        let answer =
            self.etcd(target.served()).range(RangeRequest { key: target.key(&self.prefix).to_vec(), ..RangeRequest::default() }).await?;
        asking.succeeded();
        match answer.kvs.into_iter().next() {
            Some(kv) => self.decoded(target, kv).await.map(Some),
            None => Ok(None),
        }
    }

    /// Calls `each` with every object of a namespace as etcd has it now, in the order of their names. `all` names the namespace, and no object.
    pub(super) async fn each_stored(&self, all: &ObjectRef, mut each: impl FnMut(Current) + Send) -> Result<(), WriteError> {
        let (mut key, mut pages) = (all.key(&self.prefix).to_vec(), Pages::default());
        // The keys of a namespace end with a slash and a name.
        let mut end = key.clone();
        *end.last_mut().expect("a key is not empty") += 1;
        loop {
            let asking = all.resource.metrics.etcd_list();
            let request = RangeRequest { key, end: end.clone(), limit: PAGE, ..RangeRequest::default() };
            let answer = self.etcd(all.served()).page(&request, &mut pages).await?;
            asking.succeeded();
            key = answer.kvs.last().map(|kv| [&kv.key[..], b"\0"].concat()).unwrap_or_default();
            for kv in answer.kvs {
                each(self.decoded(all, kv).await?);
            }
            if !answer.more {
                return Ok(());
            }
        }
    }

    /// What a transaction found instead of what was expected.
    pub(super) async fn decoded(&self, target: &ObjectRef, kv: KeyValue) -> Result<Current, WriteError> {
        let is_large = kv.value.len() >= LARGE_BYTES;
        let stored = Some(kv.value.clone());
        let read = || self.read(target.served(), kv.key, &kv.value, kv.mod_revision).map_err(WriteError::from);
        let decoded = match (&target.resource.shown, self.offload.run(is_large, read).await) {
            (Some(shown), Ok(object)) => {
                let object = shown.object(object).await?;
                self.offload.run(is_large, || current(target, &object)).await
            }
            (None, Ok(object)) => self.offload.run(is_large, || current(target, &object)).await,
            (_, Err(error)) => Err(error),
        };
        if decoded.is_err() {
            target.resource.metrics.decode_errors.inc();
        }
        decoded.map(|current| Current { stored, ..current })
    }

    /// What was written, as a GET would find it.
    ///
    /// # Errors
    /// It was written, and cannot be shown in its version.
    pub async fn read_back(&self, resource: &Resource, stored: StoredValue) -> Result<Option<Arc<Object>>, WriteError> {
        let is_large = stored.value.len() >= LARGE_BYTES;
        let read = || self.read(&resource.served, stored.key, &stored.value, stored.revision).ok();
        let object = self.offload.run(is_large, read).await;
        match (&resource.shown, object) {
            (Some(shown), Some(object)) => Ok(Some(shown.object(object).await?)),
            (_, object) => Ok(object),
        }
    }

    /// The value that etcd gets for an object.
    pub(super) async fn encoded(&self, target: &ObjectRef, tree: &Value, is_large: bool) -> Result<Bytes, WriteError> {
        let Some(shown) = &target.resource.shown else {
            return Ok(self.offload.run(is_large, || transaction::encoded(target, tree)).await);
        };
        let converted = shown.converter.to_stored(tree).await?;
        Ok(self.offload.run(is_large, || transaction::encoded(target, &converted)).await)
    }

    /// An object as it would be shown if it were written.
    pub(super) async fn as_if_written(&self, target: &ObjectRef, tree: Value) -> Result<Value, WriteError> {
        let Some(shown) = &target.resource.shown else { return Ok(tree) };
        let stored = shown.converter.to_stored(&tree).await?;
        let mut made = shown.converter.from_stored(&stored).await?;
        if let Some(revision) = tree::metadata(&tree).get("resourceVersion") {
            tree::member(&mut made, "metadata").insert("resourceVersion".to_owned(), revision.clone());
        }
        Ok(made)
    }

    fn read(&self, served: &Served, key: Bytes, value: &[u8], revision: Revision) -> Result<Arc<Object>, Broken> {
        let read = ingest(&served.storage, served.storage.key_prefix_len(&self.prefix), key, value, revision);
        read.map(Arc::new).or_else(|broken| broken.or_known_part(self.loses_unknown_fields))
    }
}

fn is_large(object: &Object) -> bool {
    object.tail_len() >= LARGE_BYTES
}

/// What can be shown cannot always be changed: bytes are shown at any depth, a tree has a limit.
fn current(target: &ObjectRef, object: &Object) -> Result<Current, WriteError> {
    Ok(Current { tree: stored_tree(&target.resource, object)?, revision: object.revision, is_large: is_large(object), stored: None })
}

/// The tree of an object in the version that is stored.
pub(super) fn stored_tree(resource: &Resource, object: &Object) -> Result<Value, WriteError> {
    let mut json = Vec::with_capacity(object.tail_len() + 64);
    resource.encoders.whole().encoder.stored_into(object, &mut json);
    serde_json::from_slice(&json).map_err(|error| WriteError::Undecodable(format!("{}: {error}", String::from_utf8_lossy(object.key()))))
}

/// A reference into a built-in resource whose cache is empty, for tests of the pure parts.
#[cfg(test)]
pub(super) fn test_object_ref(group: &str, resource: &str, namespace: Option<&str>, name: &str) -> ObjectRef {
    let resource = registry::test_resource(group, resource);
    ObjectRef { resource: Arc::new(resource), namespace: namespace.map(str::to_owned), name: name.to_owned() }
}
