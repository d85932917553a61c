//! What kube-apiserver publishes of its own types: recorded, compressed, and read when somebody asks.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    sync::{Arc, Weak},
};

use flate2::read::GzDecoder;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::types::TypeRef;

/// Made by `tests/data/openapi/record.py`, which tells what it has.
static COMPRESSED: &[u8] = include_bytes!("recorded.json.gz");

/// How a reference to a schema begins in OpenAPI v3.
pub(super) const REFERENCE: &str = "#/components/schemas/";

/// The file, read: about 2 MB, as long as somebody makes a document of it.
#[derive(Deserialize)]
pub(super) struct Recorded {
    /// Group versions of which documents of custom resources tell the kinds of every version.
    pub(super) custom_kinds: Vec<(String, String)>,
    /// Schemas of kinds of every group version, and these kinds; `/openapi/v2` tells them of `every_kinds`.
    pub(super) every: BTreeMap<String, String>,
    pub(super) every_kinds: Vec<(String, String)>,
    pub(super) heads: Heads,
    pub(super) parameters: Parameters,
    pub(super) schemas: BTreeMap<String, Box<RawValue>>,
}

/// `apiVersion`, `kind` and `metadata` of custom objects.
#[derive(Deserialize)]
pub(super) struct Heads {
    pub(super) embedded: Map<String, Value>,
    pub(super) list: Map<String, Value>,
    pub(super) object: Map<String, Value>,
}

/// Parameters of operations by `x-kubernetes-action`.
#[derive(Deserialize)]
pub(super) struct Parameters {
    pub(super) built_in: BTreeMap<String, Vec<Value>>,
    pub(super) custom: BTreeMap<String, Vec<Value>>,
}

/// Who reads it at the same time shares it.
static SHARED: Mutex<Weak<Recorded>> = Mutex::new(Weak::new());

impl Recorded {
    /// Returns the file, which takes some milliseconds to read.
    pub(super) fn get() -> Arc<Self> {
        let mut shared = SHARED.lock();
        shared.upgrade().unwrap_or_else(|| {
            let made = Arc::new(Self::read());
            *shared = Arc::downgrade(&made);
            made
        })
    }

    fn read() -> Self {
        let mut text = Vec::new();
        GzDecoder::new(COMPRESSED).read_to_end(&mut text).expect("the file is compressed");
        serde_json::from_slice(&text).expect("the file has this form")
    }

    /// Returns a schema by its name.
    fn schema(&self, name: &str) -> Option<Value> {
        self.schemas.get(name).map(|schema| serde_json::from_str(schema.get()).expect("the file is JSON"))
    }

    /// Returns the names that a schema refers to, each once.
    pub(super) fn references(schema: &RawValue) -> BTreeSet<&str> {
        // No description has a reference in it, as a test says: so the text need not be parsed.
        let after = schema.get().split(REFERENCE).skip(1);
        after.map(|rest| rest.split('"').next().unwrap_or_default()).collect()
    }

    /// Returns a schema and all that it refers to, by name.
    fn reachable(&self, name: &str) -> Map<String, Value> {
        let (mut found, mut ahead) = (Map::new(), vec![name.to_owned()]);
        while let Some(name) = ahead.pop() {
            let Some(schema) = self.schema(&name).filter(|_| !found.contains_key(&name)) else { continue };
            ahead.extend(Self::references(&self.schemas[&name]).into_iter().map(str::to_owned));
            found.insert(name, schema);
        }
        found
    }
}

/// Returns the schemas of OpenAPI v3, `components.schemas`, of all built-in types, by name: some 20 MB, which are the caller's.
#[must_use]
pub fn built_in_schemas() -> Map<String, Value> {
    let recorded = Recorded::get();
    recorded.schemas.keys().filter_map(|name| Some((name.clone(), recorded.schema(name)?))).collect()
}

/// Returns those that are reachable from a built-in kind, and the name of its own; `None` if there is no such kind. Reads the file each time.
#[must_use]
pub fn built_in_schemas_of(group: &str, version: &str, kind: &str) -> Option<(&'static str, Map<String, Value>)> {
    let name = built_in_schema_name(group, version, kind)?;
    Some((name, Recorded::get().reachable(name)))
}

/// Returns the name of the schema of a built-in kind: `io.k8s.api.apps.v1.Deployment`, that which has the kind in its `x-kubernetes-group-version-kind`.
#[must_use]
pub fn built_in_schema_name(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    TypeRef::of(group, version, kind).map(TypeRef::name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Catalogue, openapi::schemas::GVK};

    #[test]
    fn every_served_kind_has_its_schema() {
        let recorded = Recorded::get();
        for served in Catalogue::new(&[]).all_served() {
            let subresources = served.subresources(crate::Offer::Everything);
            let of_subresources = subresources.iter().filter(|(sub, _)| !sub.kind.ends_with("Options")).map(|(sub, _)| {
                let group = sub.group.as_deref().unwrap_or(&served.group);
                (group, sub.version.as_deref().unwrap_or(&served.version), &*sub.kind)
            });
            let own = [&*served.kind, &*served.list_kind].map(|kind| (&*served.group, &*served.version, kind));
            for (group, version, kind) in own.into_iter().chain(of_subresources) {
                let name = built_in_schema_name(group, version, kind).unwrap_or_else(|| panic!("{kind} has no schema"));
                let schema = recorded.schema(name).unwrap_or_else(|| panic!("{name} is not recorded"));
                let kinds = schema[GVK].as_array().expect("kinds");
                assert!(kinds.contains(&json!({ "group": group, "version": version, "kind": kind })), "{name}: {kinds:?}");
                assert!(schema["description"].is_string(), "{name}");
            }
        }
    }

    #[test]
    fn references_are_found_in_the_text() {
        fn parsed(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(members) => {
                    let name = members.get("$ref").and_then(|it| it.as_str()?.strip_prefix(REFERENCE));
                    found.extend(name.map(str::to_owned));
                    members.values().for_each(|member| parsed(member, found));
                }
                Value::Array(elements) => elements.iter().for_each(|element| parsed(element, found)),
                _ => {}
            }
        }
        let recorded = Recorded::get();
        for (name, schema) in &recorded.schemas {
            let mut found = BTreeSet::new();
            parsed(&recorded.schema(name).expect("it is there"), &mut found);
            assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), Recorded::references(schema), "{name}");
            assert!(found.iter().all(|name| recorded.schemas.contains_key(name)), "{name}");
        }
    }

    #[test]
    fn a_kind_brings_what_it_refers_to() {
        let (name, schemas) = built_in_schemas_of("apps", "v1", "Deployment").expect("a kind");
        assert_eq!(name, "io.k8s.api.apps.v1.Deployment");
        let all = built_in_schemas();
        assert!(schemas.len() > 100 && schemas.len() < all.len(), "{}", schemas.len());
        assert!(schemas.iter().all(|(name, schema)| all.get(name) == Some(schema)));
        let ports = &schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"];
        assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
        let protocol = &schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"];
        assert_eq!((&protocol["default"], &protocol["enum"]), (&json!("TCP"), &json!(["SCTP", "TCP", "UDP"])));
        assert!(!schemas.contains_key("io.k8s.api.batch.v1.Job"));
        assert!(built_in_schemas_of("apps", "v1", "Nothing").is_none());
    }

    #[test]
    fn the_file_is_let_go_of() {
        let one = Recorded::get();
        assert!(Arc::ptr_eq(&one, &Recorded::get()));
        assert!(COMPRESSED.len() < 256 << 10, "{}", COMPRESSED.len());
    }
}
