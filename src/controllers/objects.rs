//! What the controllers read of objects in the cache, and how they change them: as any client does, through the writer.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use super::Controllers;
use cache::state::snapshot::Known;
use model::Object;
use registry::{Resource, ServedResources};
use storage::write::{
    Part, PatchKind, Syntax, WriteRequest, Written,
    failure::WriteError,
    object_ref::ObjectRef,
    options::{DeleteOptions, Propagation},
};

/// The manager of the fields that the controllers write: kube-controller-manager's, for they do its work.
const MANAGER: &str = "kube-controller-manager";

/// How long is waited for the cache to have what etcd has.
const CACHE_LIMIT: Duration = Duration::from_secs(3);

/// `metadata`, as far as controllers need it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "or_none")]
    pub(super) finalizers: Vec<String>,
    #[serde(deserialize_with = "or_none")]
    pub(super) owner_references: Vec<OwnerReference>,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OwnerReference {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) block_owner_deletion: Option<bool>,
}

/// A list that may be null.
fn or_none<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(list: D) -> Result<Vec<T>, D::Error> {
    Option::<Vec<T>>::deserialize(list).map(Option::unwrap_or_default)
}

impl Metadata {
    /// Reads that of an object; none of one that cannot be read.
    pub(super) fn of(object: &Object) -> Option<Self> {
        #[derive(Deserialize)]
        struct Whole {
            #[serde(default)]
            metadata: Metadata,
        }
        // Mostly it is the first member: what comes after it is not looked at.
        if let Some(first) = object.own_tail().strip_prefix(b"\"metadata\":") {
            return Self::deserialize(&mut serde_json::Deserializer::from_slice(first)).ok();
        }
        serde_json::from_slice::<Whole>(&[b"{", object.own_tail()].concat()).ok().map(|whole| whole.metadata)
    }

    /// Reads that of a whole object.
    pub(super) fn of_tree(object: &Value) -> Self {
        object.get("metadata").and_then(|metadata| Self::deserialize(metadata).ok()).unwrap_or_default()
    }

    /// Whether it is being deleted.
    pub(super) fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether it is being deleted and this finalizer holds it.
    pub(super) fn waits_for(&self, finalizer: &str) -> bool {
        self.is_being_deleted() && self.finalizers.iter().any(|known| known == finalizer)
    }
}

/// The tree of an object as it is served.
pub(super) fn tree(resource: &Resource, object: &Object) -> Option<Value> {
    let mut json = Vec::with_capacity(object.tail_len() + 64);
    resource.encoders.whole().encoder.object_into(object, &mut json);
    serde_json::from_slice(&json).ok()
}

/// The text at this place of a tree; empty when there is none.
pub(super) fn text<'v>(tree: &'v Value, pointer: &str) -> &'v str {
    tree.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// An object's place.
pub(super) fn place(resource: &Arc<Resource>, namespace: &str, name: &str) -> ObjectRef {
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty()).map(str::to_owned);
    ObjectRef { resource: resource.clone(), namespace, name: name.to_owned() }
}

/// The place of an object that the cache has.
pub(super) fn place_of(resource: &Arc<Resource>, object: &Object) -> ObjectRef {
    place(resource, object.namespace(), object.name())
}

/// The options of a delete.
pub(super) fn deletion(propagation: Propagation, uid: Option<String>) -> DeleteOptions {
    DeleteOptions { propagation: Some(propagation), uid, ..DeleteOptions::default() }
}

impl Controllers {
    /// A resource of Kubernetes' own.
    pub(super) fn built_in(&self, group: &str, resource: &str) -> Option<Arc<Resource>> {
        self.resources.load().find(group, "v1", resource).cloned()
    }

    /// The object as the cache has it; of a custom resource perhaps as it is stored.
    pub(super) fn cached(&self, place: &ObjectRef) -> Option<Arc<Object>> {
        place.resource.source().known().snapshot.store.find(&place.key(&self.prefix)).cloned()
    }

    /// What the cache has when it has all that etcd had at this revision.
    pub(super) async fn caught_up(&self, resource: &Resource, revision: model::Revision) -> Result<Known, WriteError> {
        let published = resource.source();
        let behind = |_| WriteError::NotYet(format!("the cache of {} is behind", resource.served.resource));
        published.wait_until(|known| known.revision >= revision && known.is_ready(), CACHE_LIMIT).await.map_err(behind)
    }

    /// Creates an object.
    pub(super) async fn create(&self, resource: &Arc<Resource>, namespace: &str, object: &Value) -> Result<Written, WriteError> {
        let ask = request(place(resource, namespace, ""), Part::Main);
        self.writer.create(&ask, Syntax::Json, object.to_string().as_bytes(), &mut Vec::new()).await
    }

    /// Applies a JSON merge patch to a part of an object.
    pub(super) async fn merge(&self, place: &ObjectRef, part: Part, patch: &Value) -> Result<Written, WriteError> {
        self.writer.patch(&request(place.clone(), part), PatchKind::Merge, patch.to_string().as_bytes(), &mut Vec::new()).await
    }

    /// Replaces a part of an object.
    pub(super) async fn replace(&self, place: &ObjectRef, part: Part, object: &Value) -> Result<Written, WriteError> {
        self.writer.replace(&request(place.clone(), part), Syntax::Json, object.to_string().as_bytes(), &mut Vec::new()).await
    }

    /// Deletes an object; one that is gone, or another one now, is no error.
    pub(super) async fn delete(&self, place: &ObjectRef, options: &DeleteOptions) -> Result<(), WriteError> {
        match self.writer.delete_by_server(place, options).await {
            Ok(_) | Err(WriteError::NotFound(_) | WriteError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn request(target: ObjectRef, part: Part) -> WriteRequest<'static> {
    WriteRequest { part, user_agent: MANAGER, ..WriteRequest::by_server(target) }
}

/// What is served, by apiVersion and kind; made anew when that changes.
#[derive(Default)]
pub(super) struct Kinds {
    made: Mutex<Option<(Arc<ServedResources>, Arc<ByKind>)>>,
}

type ByKind = HashMap<(String, String), Arc<Resource>>;

impl Kinds {
    /// The resource of a kind, if there is one now.
    pub(super) fn find(&self, resources: &Arc<ServedResources>, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let mut made = self.made.lock();
        if made.as_ref().is_none_or(|(of, _)| !Arc::ptr_eq(of, resources)) {
            let kind = |resource: &Resource| (resource.served.api_version(), resource.served.kind.clone());
            let all = resources.iter().map(|resource| (kind(resource), resources.unconverted(resource).clone()));
            *made = Some((resources.clone(), Arc::new(all.collect())));
        }
        made.as_ref()?.1.get(&(api_version.to_owned(), kind.to_owned())).cloned()
    }
}

/// Namespace and name in a key, from the end: of a namespaced resource.
pub(super) fn names(key: &Bytes) -> Option<(&str, &str)> {
    let (rest, name) = std::str::from_utf8(key).ok()?.rsplit_once('/')?;
    Some((rest.rsplit_once('/')?.1, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{test_object, test_object_with_tail};

    fn object(tail: &str) -> Object {
        test_object_with_tail(&test_object("n", 1), tail)
    }

    #[test]
    fn metadata_is_read_wherever_it_stands() {
        let metadata =
            r#""metadata":{"uid":"u","finalizers":["a"],"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"o"}]}"#;
        for tail in [format!("{metadata},\"spec\":{{}}}}"), format!("\"a\":1,{metadata}}}")] {
            let read = Metadata::of(&object(&tail)).expect("it is JSON");
            assert_eq!((&*read.uid, read.owner_references.len(), &*read.owner_references[0].uid), ("u", 1, "o"));
            assert!(!read.is_being_deleted() && !read.waits_for("a"));
        }
        let none = Metadata::of(&object(r#""metadata":{"ownerReferences":null}}"#)).expect("it is JSON");
        assert_eq!(none, Metadata::default());
        assert_eq!(Metadata::of(&object("\"metadata\":{")), None);
    }

    #[test]
    fn names_stand_at_the_end_of_a_key() {
        assert_eq!(names(&Bytes::from_static(b"/registry/secrets/ns/a")), Some(("ns", "a")));
    }
}
