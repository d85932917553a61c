//! What a cacher keeps: one storage prefix of etcd and the shape of the values under it.

use std::{collections::BTreeSet, sync::Arc};

use serde::Deserialize;

use crate::Structural;

/// The storage prefix that names a cacher: `configmaps`, `services/specs`, `ex.io/widgets`.
pub type ResourceId = Arc<str>;

/// One resource as etcd stores it. Several served resources may show the same one (both `events`, the versions of a custom resource).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The part of the key between `/registry/` and the namespace or name.
    pub id: ResourceId,
    /// API group for metrics and messages; empty for core.
    pub group: String,
    /// Plural name for metrics and messages.
    pub resource: String,
    /// Whether keys are `prefix/namespace/name` or `prefix/name`.
    pub namespaced: bool,
    /// How a stored value looks, and which ones can be served as they are.
    pub shape: Shape,
    /// Fields that selectors may name besides `metadata.name` and `metadata.namespace`; `Object::fields` has their values in this order.
    pub fields: Vec<FieldPath>,
}

impl Storage {
    /// Returns its name for people, as paths and roles have it: `pods`, `deployments.apps`.
    #[must_use]
    pub fn path_name(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }

    /// What all its keys begin with, `/registry/configmaps/`; `etcd_prefix` is `/registry/`.
    #[must_use]
    pub fn key_prefix(&self, etcd_prefix: &str) -> String {
        format!("{etcd_prefix}{}/", self.id)
    }

    /// Bytes of [`Self::key_prefix`]: where the namespace or name begins in a key.
    #[must_use]
    pub fn key_prefix_len(&self, etcd_prefix: &str) -> usize {
        etcd_prefix.len() + self.id.len() + "/".len()
    }
}

/// The namespaces of which a resource is kept, when it is not kept of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Included(BTreeSet<String>);

impl Included {
    /// These.
    #[must_use]
    pub fn new(namespaces: impl IntoIterator<Item = String>) -> Self {
        Self(namespaces.into_iter().collect())
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether this one is among them.
    #[must_use]
    pub fn has(&self, namespace: &str) -> bool {
        self.0.contains(namespace)
    }

    /// Whether a key is in one of them; `prefix_len` is where its namespace begins.
    #[must_use]
    pub fn has_key(&self, key: &[u8], prefix_len: usize) -> bool {
        let namespace = key.get(prefix_len..).and_then(|rest| rest.split(|byte| *byte == b'/').next());
        namespace.and_then(|namespace| std::str::from_utf8(namespace).ok()).is_some_and(|namespace| self.has(namespace))
    }
}

#[cfg(any(test, feature = "testing"))]
impl Storage {
    /// ConfigMaps, for tests.
    pub fn test_config_maps() -> Self {
        Self {
            id: "configmaps".into(),
            group: String::new(),
            resource: "configmaps".into(),
            namespaced: true,
            shape: Shape::BuiltIn { kind: "ConfigMap".into(), api_version: "v1".into() },
            fields: Vec::new(),
        }
    }
}

/// The form of a stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `{"kind":K,"apiVersion":V,"metadata":…}`: the order Go structs have. Served as it is when `kind` and `apiVersion` are these.
    BuiltIn {
        /// Kind of the stored value.
        kind: String,
        /// apiVersion of the stored value.
        api_version: String,
    },
    /// Sorted keys, `{"apiVersion":V,"kind":K,…}`. Any of the listed versions is served as it is, under another `apiVersion`, and as the
    /// definition's schema now has it.
    Custom {
        /// Kind of the stored value.
        kind: String,
        /// Every apiVersion that values may be stored under (`ex.io/v1`), that of new values first.
        api_versions: Vec<String>,
        /// What prunes and defaults them; none where nothing does.
        schema: Option<Arc<Structural>>,
    },
    /// CustomResourceDefinitions: stored as `apiextensions.k8s.io/v1beta1`, kept here as v1 (spec api-surface §10.2).
    Definition,
}

/// A column that a definition adds to the Table of its custom resources (`additionalPrinterColumns`, spec api-surface §4.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PrinterColumn {
    /// The header.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its OpenAPI format; mostly empty.
    #[serde(default)]
    pub format: String,
    /// What it tells; when empty the path stands for it.
    #[serde(default)]
    pub description: String,
    /// Above 0 it is shown on wide screens only.
    #[serde(default)]
    pub priority: i32,
    /// The JSONPath of the value, `.spec.replicas`. `JSONPath` in v1beta1.
    #[serde(rename = "jsonPath", alias = "JSONPath")]
    pub path: String,
}

/// Where the value of a selectable field is found in the stored JSON, and how it is written (spec list-watch §7.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldPath {
    /// The scalar at this path: a string as it is, numbers and booleans by Go's default formatting, missing or null as `""`.
    Scalar(Vec<String>),
    /// The boolean at this path, `false` when missing (`spec.hostNetwork`, `spec.unschedulable`).
    Bool(Vec<String>),
    /// The integer at this path, `0` when missing (`status.replicas` of a Go int field).
    Int(Vec<String>),
    /// The first non-empty one (`source` of an event: `source.component`, else `reportingComponent`).
    FirstOf(Vec<FieldPath>),
    /// Member `1` of the first element of the array at path `0` (`status.podIP`: `ip` of the first of `status.podIPs`).
    FirstElement(Vec<String>, String),
    /// A label that is accepted and always reads `""` (`status.podIPs`).
    AlwaysEmpty,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_begins_with_the_prefix_of_its_resource() {
        let storage = Storage::test_config_maps();
        assert_eq!(storage.key_prefix("/registry/"), "/registry/configmaps/");
        assert_eq!(storage.key_prefix_len("/registry/"), "/registry/configmaps/".len());
    }
}
