//! Tests that the cost of a body grows linearly with its length, for bodies where it was once quadratic.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    By, Part, WriteRequest,
    body::Syntax,
    custom::Judge,
    decode::DecodedBody,
    object_ref::{ObjectRef, test_object_ref},
    options::{FieldValidation, WriteOptions},
    strategy,
};
use model::invalid::joined;

/// Bytes of the shorter of two bodies.
const BYTES: usize = 16 << 10;
/// How many times longer the other is.
const LONGER: usize = 8;
/// How many times as long it may take: for what grows with the square it is 64.
const SLOWER_MAX: u32 = 24;
/// Tries, of which one must do: the machine has other work.
const TRIES: usize = 3;

/// A kind and where its body grows: `«` stands for a long key, `…` for very many members or elements with numbers for `#`.
fn bodies() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let crd = |schema: Value, rest: Value| {
        let mut spec = json!({"group": "ex.io", "scope": "Cluster", "names": {"plural": "xs", "kind": "X"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]});
        spec.as_object_mut().expect("it is one").extend(rest.as_object().cloned().unwrap_or_default());
        json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "xs.ex.io"}, "spec": spec})
    };
    let map = |metadata: Value| json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata});
    let property = |is: Value| crd(json!({"type": "object", "properties": {"a": is}}), Value::Null);
    let keyed = |more: Value| {
        property(json!({"type": "array", "x-kubernetes-list-type": "map", "items": more, "x-kubernetes-list-map-keys": ["…"]}))
    };
    vec![
        ("", "configmaps", map(json!({"name": "a", "labels": {"…": ""}})), r##""-#":"""##),
        ("", "configmaps", map(json!({"name": "a", "finalizers": ["…"]})), r##""-#""##),
        ("", "configmaps", map(json!({"name": "a", "ownerReferences": ["…"]})), r##"{"uid":"#"}"##),
        ("", "configmaps", map(json!({"name": "a", "ownerReferences": ["…"]})), r##"{"uid":"#","controller":true}"##),
        ("", "configmaps", map(json!({"name": "a", "«": {"…": 1}})), r##""a":0"##),
        ("", "configmaps", map(json!({"name": "a", "labels": {"«": {"…": 1}}})), r##""#":0"##),
        ("apiextensions.k8s.io", "customresourcedefinitions", crd(json!({}), json!({"versions": ["…"]})), "{}"),
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            crd(json!({"x-kubernetes-validations": ["…"]}), Value::Null),
            r#"{"fieldPath":".a","rule":"a"}"#,
        ),
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            crd(json!({"type": "object", "properties": {"«": {"properties": {"…": 1}}}}), Value::Null),
            r##""#":{}"##,
        ),
        ("apiextensions.k8s.io", "customresourcedefinitions", keyed(json!({"type": "object"})), r##""k#""##),
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            crd(
                json!({}),
                json!({"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["…"]}}}),
            ),
            r##""v#""##,
        ),
    ]
}

/// The body with so many bytes.
fn grown(object: &Value, item: &str, bytes: usize) -> Vec<u8> {
    let key = "k".repeat(bytes / 3);
    let text = object.to_string().replace('«', &key);
    let target = if text.contains("\"…\":1") {
        "\"…\":1"
    } else if text.contains("\"…\":\"\"") {
        "\"…\":\"\""
    } else {
        "\"…\""
    };
    let count = bytes.saturating_sub(text.len()) / (item.len() + 5);
    let items: Vec<String> = (0..count).map(|i| item.replace('#', &i.to_string())).collect();
    text.replace(target, &items.join(",")).into_bytes()
}

/// From the bytes to the text of the answer, or to the object that would be written.
fn judge(target: &ObjectRef, body: &[u8]) {
    for validation in [FieldValidation::Warn, FieldValidation::Strict] {
        let options = WriteOptions { dry_run: false, validation, ..WriteOptions::default() };
        let request =
            WriteRequest { target: target.clone(), part: Part::Main, options, by: By::default(), user_agent: "", audit_hook: None };
        let Ok(sent) = DecodedBody::read(&request, None, Syntax::Json, body) else { continue };
        let made = strategy::create(target, Judge::default(), sent.tree, None, &strategy::Birth::now(), &mut Vec::new());
        if let Err(super::failure::WriteError::Invalid { errors, .. }) = &made {
            assert!(black_box(joined(errors)).len() < 8 << 20, "more is told than anybody reads");
        }
        drop(black_box(made));
    }
}

fn timed(work: impl Fn()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

#[test]
fn cost_grows_with_the_length_of_a_body() {
    for (group, resource, object, item) in bodies() {
        let namespace = (resource == "configmaps").then_some("n");
        let target = test_object_ref(group, resource, namespace, "a");
        let [short, long] = [BYTES, BYTES * LONGER].map(|bytes| grown(&object, item, bytes));
        assert!(long.len() > short.len() * (LONGER - 1), "{} and {} bytes", short.len(), long.len());
        let mut tries = (0..TRIES).map(|_| [&short, &long].map(|body| timed(|| judge(&target, body))));
        let grows = |[short, long]: [Duration; 2]| long < short * SLOWER_MAX + Duration::from_millis(20);
        assert!(tries.any(grows), "{item} in {object} takes more than {SLOWER_MAX} times as long when it is {LONGER} times as long");
    }
}
