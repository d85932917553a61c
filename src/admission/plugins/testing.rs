//! A cluster by hand, and what the tests of plugins share.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Plugin, Plugins, mutate, validate,
    write::{Cluster, Denial, Lookup, Notes, Write},
};
use crate::{Operation, tree};

/// Objects by kind.
#[derive(Default)]
pub(super) struct Objects(Vec<(Lookup, Value)>);

impl Objects {
    pub(super) fn of(kind: Lookup, objects: &[Value]) -> Self {
        Self(objects.iter().map(|object| (kind, object.clone())).collect())
    }
}

impl Cluster for Objects {
    fn find(&self, kind: Lookup, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let said = |object: &Value, member: &str| tree::text(object, &["metadata", member]).to_owned();
        let found =
            self.0.iter().find(|(known, object)| *known == kind && said(object, "namespace") == namespace && said(object, "name") == name);
        found.map(|(_, object)| Arc::new(object.clone()))
    }

    fn list(&self, kind: Lookup, namespace: &str) -> Arc<Vec<Value>> {
        let all = self.0.iter().filter(|(known, object)| *known == kind && tree::text(object, &["metadata", "namespace"]) == namespace);
        Arc::new(all.map(|(_, object)| object.clone()).collect())
    }

    fn pods(&self, namespace: &str, most: usize) -> (Vec<Value>, usize) {
        let all = self.list(Lookup::Pod, namespace);
        (all.iter().take(most).cloned().collect(), all.len())
    }

    fn generate(&self, base: &str) -> String {
        format!("{base}abcde")
    }
}

/// The creation of an object of a core resource.
pub(super) fn creation(resource: &'static str) -> Write<'static> {
    Write { operation: Operation::Create, group: "", resource, subresource: "", namespace: "ns", old: None, user: "user" }
}

/// The update of an object of a core resource.
pub(super) fn update<'a>(resource: &'a str, old: &'a Value) -> Write<'a> {
    Write { operation: Operation::Update, group: "", resource, subresource: "", namespace: "ns", old: Some(old), user: "user" }
}

/// Only this plugin.
pub(super) fn only(plugin: Plugin) -> Plugins {
    let mut plugins = Plugins::default();
    plugins.retain(plugin);
    assert!(plugins.has(plugin));
    plugins
}

/// Returns what a plugin makes of an object, or why it refuses it.
pub(super) fn admitted(plugin: Plugin, write: &Write<'_>, object: &Value, cluster: &Objects) -> Result<Value, String> {
    let (plugins, mut object) = (only(plugin), object.clone());
    let why = |denial| match denial {
        Denial::Forbidden { why, .. } | Denial::Failed(why) => why,
        Denial::Invalid(wrong) => format!("{wrong:?}"),
    };
    mutate(&plugins, write, &mut object, cluster).map_err(why)?;
    validate(&plugins, write, &object, cluster, &mut Notes::default()).map_err(why)?;
    Ok(object)
}

/// A Pod with this spec.
pub(super) fn pod(spec: &Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})
}
