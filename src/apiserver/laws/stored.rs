//! The law of stored values: what is served is the value with its revision, on one line, and not much longer.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use codec::{Encoder, MetaVersion, ingest, object_meta};
use corpus::Subject;
use model::{FieldPath, Kind, Object, Revision, Shape, Storage};

const REVISION: Revision = Revision(u64::MAX);
/// A byte may become an escape of six (`<`), three bytes a number of 21 digits (`9e20`).
const GROWTH_MAX: usize = 7;
/// Bytes that are added whatever the value.
const ADDED_MAX: usize = 128;

#[test]
fn stored() {
    Subject {
        name: "stored",
        law: |input| {
            let built_in = |kind: &str, version: &str| Shape::BuiltIn { kind: kind.to_owned(), api_version: version.to_owned() };
            let custom =
                Shape::Custom { kind: "Widget".to_owned(), api_versions: vec!["ex.io/v1".to_owned(), "ex.io/v2".to_owned()], schema: None };
            let config_map = Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "");
            let widget = Encoder::custom("ex.io/v2", "Widget", "WidgetList");
            let mut any = served(input, built_in("ConfigMap", "v1"), &config_map, Some("v1"));
            any |= served(input, custom, &widget, Some("ex.io/v2"));
            // These are shown with defaults, or in another version: only their form is looked at.
            any |= served(input, built_in("Job", "batch/v1"), &Encoder::built_in("batch/v1", "Job", "JobList", ""), None);
            let claims = Encoder::built_in("v1", "PersistentVolumeClaim", "PersistentVolumeClaimList", "");
            any |= served(input, built_in("PersistentVolumeClaim", "v1"), &claims, None);
            any |= served(input, built_in("Event", "v1"), &Encoder::built_in("events.k8s.io/v1", "Event", "EventList", ""), None);
            let autoscaler = Encoder::built_in("autoscaling/v1", "HorizontalPodAutoscaler", "HorizontalPodAutoscalerList", "");
            any |= served(input, built_in("HorizontalPodAutoscaler", "autoscaling/v2"), &autoscaler, None);
            let definitions = Encoder::built_in("apiextensions.k8s.io/v1", "CustomResourceDefinition", "CustomResourceDefinitionList", "");
            any | served(input, Shape::Definition, &definitions, None)
        },
        words: &[
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#,
            r#"{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"#,
            r#""kind":"ConfigMap""#,
            r#""apiVersion":"v1""#,
            r#""metadata":{"#,
            r#""resourceVersion":"1""#,
            r#""resourceVersion":null"#,
            r#""labels":{"a":"b"}"#,
            r#""annotations":{}"#,
            r#""uid":"u""#,
            r#""status":{}"#,
            r#""spec":{"#,
            "k8s\0",
            "k8s:enc:aescbc:",
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "true",
            "\\u0061",
        ],
        long: &[
            ["", "[", ""],
            [r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{},"data":"#, "[", ""],
            [r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{},"data":"#, r#"{"a":"#, ""],
            [r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"labels":{"#, r#""a":"b","#, r#""c":"d"}}}"#],
            [r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#, r#""labels":{},"#, r#""uid":"u"}}"#],
            [r#"{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":""#, "<", r#""}}"#],
            [r#"{"apiVersion":"ex.io/v1","kind":"Widget","#, r#""Z":1,"#, r#""metadata":{}}"#],
            [" ", "\n", r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}"#],
        ],
    }
    .check();
}

/// Whether the value is one of this shape; `version`: it is shown as it is, in this version.
fn served(value: &[u8], shape: Shape, form: &Encoder, version: Option<&str>) -> bool {
    let defined = shape == Shape::Definition;
    let path = |path: &[&str]| path.iter().map(|&name| name.to_owned()).collect();
    let fields = vec![
        FieldPath::Scalar(path(&["spec", "color"])),
        FieldPath::FirstElement(path(&["status", "podIPs"]), "ip".to_owned()),
        FieldPath::FirstOf(vec![FieldPath::Int(path(&["spec"])), FieldPath::Scalar(path(&["metadata", "uid"]))]),
    ];
    let storage = Storage { id: "things".into(), group: String::new(), resource: "things".to_owned(), namespaced: true, shape, fields };
    let key = Bytes::from_static(b"/registry/things/ns/a");
    let object = match ingest(&storage, "/registry/things/".len(), key, value, REVISION) {
        Ok(object) => object,
        Err(broken) => {
            assert!(!broken.why.is_empty());
            return false;
        }
    };
    assert_eq!((object.namespace(), object.name()), ("ns", "a"));
    // An old definition has its schema once for all its versions, a new one for each.
    assert!(defined || object.tail_len() <= GROWTH_MAX * value.len() + ADDED_MAX, "{} bytes became {}", value.len(), object.tail_len());
    let mut body = Vec::new();
    form.object_into(&object, &mut body);
    let shown = one_line(&body);
    if let Some(version) = version {
        is_the_value(value, &object, &shown, version);
    }
    let mut metadata = Vec::new();
    Encoder::metadata_only(MetaVersion::V1, &storage).object_into(&object, &mut metadata);
    let metadata = one_line(&metadata);
    assert!(metadata.is_null() || metadata["kind"] == "PartialObjectMetadata", "{metadata}");
    let event = form.event(Kind::Deleted, &object, Revision(8)).expect("JSON");
    let (last, event) = event.split_last().expect("an event");
    assert_eq!(*last, b'\n');
    let event = one_line(event);
    assert!(event.is_null() || event["object"]["metadata"]["resourceVersion"] == "8", "{event}");
    true
}

/// Valid JSON without line breaks; null for what is nested too deeply for a tree.
fn one_line(json: &[u8]) -> Value {
    assert!(memchr::memchr2(b'\n', b'\r', json).is_none(), "a line break in {}", String::from_utf8_lossy(json));
    let valid = serde_json::from_slice::<serde::de::IgnoredAny>(json);
    assert!(valid.is_ok(), "{valid:?} in {}", String::from_utf8_lossy(json));
    serde_json::from_slice(json).unwrap_or_default()
}

/// The same members, in the served version and with the revision.
fn is_the_value(value: &[u8], object: &Object, shown: &Value, version: &str) {
    let Ok(Value::Object(mut stored)) = serde_json::from_slice(value) else { return };
    stored.insert("apiVersion".to_owned(), version.into());
    let metadata = stored.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = json!({});
    }
    // A custom resource shows no metadata that is none.
    if let (Value::Object(members), "ex.io/v2") = (&mut *metadata, version) {
        object_meta::coerce(members);
    }
    metadata["resourceVersion"] = REVISION.to_string().into();
    for (key, label) in metadata["labels"].as_object().unwrap_or(&Map::new()) {
        assert_eq!(object.labels().get(key), Some(label.as_str().unwrap_or("")), "{key}");
    }
    assert!(same(&Value::Object(stored.clone()), shown), "{} became {shown}", Value::Object(stored));
}

/// Equal but for how numbers are written.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b))),
        (a, b) => a == b,
    }
}
