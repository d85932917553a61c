//! Where upstream has a resource, and which objects are of it: path, kind, apiVersion, and the key under which the cache has an object.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::event::Lie;
use codec::proto::message;
use model::{Shape, Storage};

/// Bytes of a name or namespace. Kubernetes allows 253.
const NAME_BYTES_MAX: usize = 1_024;

/// See the file's header.
pub(crate) struct Place {
    /// What the cacher keeps.
    pub(crate) storage: Arc<Storage>,
    /// `/api/v1/pods`, `/apis/apps/v1/deployments`.
    pub(crate) path: String,
    pub(crate) kind: String,
    pub(crate) api_version: String,
    /// Upstream may tell it as protobuf, as long as every field of it is known.
    is_protobuf: AtomicBool,
    /// What every key begins with.
    key_prefix: String,
}

impl Place {
    /// Of a stored resource, whose keys begin with this prefix (`/registry/`): upstream is asked for the version that is stored.
    pub(crate) fn of(storage: &Arc<Storage>, prefix: &str) -> Self {
        let (kind, api_version) = match &storage.shape {
            Shape::BuiltIn { kind, api_version } => (kind.as_str(), api_version.as_str()),
            Shape::Custom { kind, api_versions, .. } => (kind.as_str(), api_versions.first().map_or("", String::as_str)),
            Shape::Definition => ("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
        };
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        Self {
            path: format!("{root}/{api_version}/{}", storage.resource),
            kind: kind.to_owned(),
            api_version: api_version.to_owned(),
            is_protobuf: AtomicBool::new(matches!(storage.shape, Shape::BuiltIn { .. }) && message(api_version, kind).is_some()),
            key_prefix: storage.key_prefix(prefix),
            storage: storage.clone(),
        }
    }

    /// The path of the list in which the object with this key is, and its name.
    pub(crate) fn path_of(&self, key: &[u8]) -> (String, String) {
        let rest = String::from_utf8_lossy(key.get(self.key_prefix.len()..).unwrap_or_default()).into_owned();
        match (self.storage.namespaced, rest.split_once('/'), self.path.rsplit_once('/')) {
            (true, Some((namespace, name)), Some((root, resource))) => {
                (format!("{root}/namespaces/{namespace}/{resource}"), name.to_owned())
            }
            _ => (self.path.clone(), rest),
        }
    }

    /// Bytes of a key before the namespace or name.
    pub(crate) fn key_prefix_len(&self) -> usize {
        self.key_prefix.len()
    }

    /// In which forms upstream may tell it.
    pub(crate) fn accept(&self) -> &'static str {
        if self.is_protobuf.load(Ordering::Relaxed) { "application/vnd.kubernetes.protobuf, application/json" } else { "application/json" }
    }

    /// Has upstream tell it as JSON from now on, which may have fields that nobody knows here.
    pub(crate) fn only_json(&self) {
        self.is_protobuf.store(false, Ordering::Relaxed);
    }

    /// What the objects of a list are without: lists of built-in resources leave it out.
    pub(crate) fn head(&self) -> String {
        format!(r#"{{"kind":"{}","apiVersion":"{}","#, self.kind, self.api_version)
    }

    /// Checks that an object is of this resource.
    ///
    /// # Errors
    /// What it is instead.
    pub(crate) fn check(&self, kind: &str, api_version: &str) -> Result<(), Lie> {
        if (kind, api_version) == (&*self.kind, &*self.api_version) {
            return Ok(());
        }
        Err(Lie(format!("{api_version} {kind:?} where {} {} was asked for", self.api_version, self.kind)))
    }

    /// The key of an object.
    ///
    /// # Errors
    /// A name or namespace that no object of this resource has.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Result<Bytes, Lie> {
        let is_part = |part: &str| !part.is_empty() && part.len() <= NAME_BYTES_MAX && !part.contains('/') && !matches!(part, "." | "..");
        match (self.storage.namespaced, namespace) {
            (true, namespace) if is_part(namespace) && is_part(name) => Ok(format!("{}{namespace}/{name}", self.key_prefix).into()),
            (false, "") if is_part(name) => Ok(format!("{}{name}", self.key_prefix).into()),
            _ => Err(Lie(format!("an object named {namespace:?}/{name:?}, which is no name here"))),
        }
    }
}
