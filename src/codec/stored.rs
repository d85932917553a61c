//! Encodes a tree that was written: for etcd, and for the answer to the writer (spec api-surface §10.2, §10.4).

use serde_json::{Map, Value, json};

use super::{definition, encode, normalize::built_in, partial::MetaVersion};
use model::{Shape, Storage};

/// The stored value of an object: another `apiVersion` where the storage has one, no `resourceVersion` and no `selfLink`, the member order of its kind
/// and a newline, as kube-apiserver ends its JSON values. `stored_as` is the apiVersion of new values: the tree has the members of that version.
#[must_use]
pub fn encode(storage: &Storage, stored_as: &str, object: &Map<String, Value>) -> Vec<u8> {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("resourceVersion");
        metadata.remove("selfLink");
    }
    let mut bytes = match &storage.shape {
        Shape::Definition => return definition::to_stored(&Value::Object(object)),
        Shape::BuiltIn { .. } => {
            object.insert("apiVersion".into(), stored_as.into());
            built_in(&object)
        }
        Shape::Custom { .. } => {
            object.insert("apiVersion".into(), stored_as.into());
            let mut out = Vec::new();
            encode::value_into(&Value::Object(object), &mut out);
            out
        }
    };
    bytes.push(b'\n');
    bytes
}

/// Encodes the object for the answer to its writer, compact, without a newline.
#[must_use]
pub fn render(custom: bool, object: &Value) -> Vec<u8> {
    match object {
        Value::Object(members) if !custom => built_in(members),
        value => {
            let mut out = Vec::new();
            encode::value_into(value, &mut out);
            out
        }
    }
}

/// The `PartialObjectMetadata` of an object.
#[must_use]
pub fn only_metadata(version: MetaVersion, object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": object["metadata"]})
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{ingest::ingest, versions::Version};
    use model::Revision;

    fn storage(shape: Shape) -> Storage {
        Storage { id: "things".into(), group: String::new(), resource: "things".into(), namespaced: true, shape, fields: Vec::new() }
    }

    fn members(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_built_in_keeps_no_revision_and_reads_back() {
        let shape = Shape::BuiltIn { kind: "Thing".into(), api_version: "v1".into() };
        let object = json!({"apiVersion": "v1", "kind": "Thing", "data": {"b": "<1>"}, "metadata": {"resourceVersion": "7", "namespace": "n", "uid": "u", "name": "a"}});
        let bytes = encode(&storage(shape.clone()), "v1", &members(object));
        let text = "{\"kind\":\"Thing\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"u\"},\"data\":{\"b\":\"\\u003c1\\u003e\"}}\n";
        assert_eq!(String::from_utf8(bytes.clone()).expect("UTF-8"), text);
        let read = ingest(&storage(shape), "/registry/things/".len(), Bytes::from_static(b"/registry/things/n/a"), &bytes, Revision(9));
        assert_eq!(read.expect("servable").revision, Revision(9));
    }

    #[test]
    fn a_custom_resource_is_sorted_and_stored_under_the_storage_version() {
        let shape = Shape::Custom { kind: "Foo".into(), api_versions: vec!["ex.io/v1".into(), "ex.io/v2".into()], schema: None };
        let object = json!({"kind": "Foo", "apiVersion": "ex.io/v1", "spec": {"b": 1, "a": 2}, "metadata": {"uid": "u", "name": "a"}});
        let bytes = encode(&storage(shape), "ex.io/v2", &members(object));
        let text =
            "{\"apiVersion\":\"ex.io/v2\",\"kind\":\"Foo\",\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},\"spec\":{\"a\":2,\"b\":1}}\n";
        assert_eq!(String::from_utf8(bytes).expect("UTF-8"), text);
    }

    #[test]
    fn an_event_is_stored_as_core() {
        let shape = Shape::BuiltIn { kind: "Event".into(), api_version: "v1".into() };
        let event = json!({"kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e"}, "regarding": {"kind": "Pod"},
            "note": "hello", "reportingController": "c", "deprecatedCount": 2, "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "R"});
        let version = Version::of("events.k8s.io/v1", "Event").expect("a row");
        let event = version.stored(&members(event), usize::MAX).expect("no limit");
        let bytes = encode(&storage(shape), "v1", &members(event));
        let text = "{\"kind\":\"Event\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"e\"},\"involvedObject\":{\"kind\":\"Pod\"},\"reason\":\"R\",\"message\":\"hello\",\
            \"source\":{},\"firstTimestamp\":null,\"lastTimestamp\":null,\"count\":2,\"eventTime\":\"2026-01-01T00:00:00.000000Z\",\
            \"reportingComponent\":\"c\",\"reportingInstance\":\"\"}\n";
        assert_eq!(String::from_utf8(bytes).expect("UTF-8"), text);
    }
}
