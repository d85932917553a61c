//! Autoscalers as kube-apiserver stored and showed them (`tests/data/autoscaling`), against what we make of them.

use std::{fs, path::Path, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::{Encoder, Include, MetaVersion, Table, ingest, versions::Version};
use corpus::Subject;
use model::{Object, Revision, Shape, Storage};

const PREFIX: &str = "/registry/horizontalpodautoscalers/";

/// A line of the record.
struct Case(Value);

impl Case {
    fn text(&self, member: &str) -> &str {
        self.0[member].as_str().expect("a text")
    }

    fn object(&self) -> Object {
        let key = Bytes::copy_from_slice(self.text("key").as_bytes());
        let revision = Revision(self.0["revision"].as_u64().expect("a number"));
        ingest(&storage(), PREFIX.len(), key, self.text("stored").as_bytes(), revision).expect("servable")
    }
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/autoscaling/autoscalers.jsonl");
    let text = fs::read_to_string(path).expect("the record is there");
    let cases: Vec<Case> = text.lines().map(|line| Case(serde_json::from_str(line).expect("a line is JSON"))).collect();
    assert!(cases.len() > 10);
    cases
}

fn storage() -> Storage {
    let (group, resource) = ("autoscaling".to_owned(), "horizontalpodautoscalers".to_owned());
    let shape = Shape::BuiltIn { kind: "HorizontalPodAutoscaler".to_owned(), api_version: "autoscaling/v2".to_owned() };
    Storage { id: "horizontalpodautoscalers".into(), group, resource, namespaced: true, shape, fields: Vec::new() }
}

fn encoder(version: &str) -> Encoder {
    Encoder::built_in(&format!("autoscaling/{version}"), "HorizontalPodAutoscaler", "HorizontalPodAutoscalerList", "")
}

fn shown(encoder: &Encoder, object: &Object) -> String {
    let mut out = Vec::new();
    encoder.object_into(object, &mut out);
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn both_versions_are_shown_to_the_byte() {
    for case in cases() {
        let object = case.object();
        for version in ["v1", "v2"] {
            assert_eq!(shown(&encoder(version), &object), case.text(version), "{} {version}", case.text("what"));
        }
        let partial = Encoder::metadata_only(MetaVersion::V1, &storage());
        assert_eq!(shown(&partial, &object), case.text("partial"), "{}", case.text("what"));
        let table =
            Encoder::table(MetaVersion::V1, Arc::new(Table::of(&storage(), &[])), Include::Metadata, &encoder("v1"), Default::default);
        let table: Value = serde_json::from_str(&shown(&table, &object)).expect("JSON");
        let (cells, metadata) = (table["rows"][0]["cells"].as_array().expect("cells"), &table["rows"][0]["object"]["metadata"]);
        assert_eq!(cells[..cells.len() - 1], case.0["cells"].as_array().expect("cells")[..], "{}", case.text("what"));
        assert_eq!(*metadata, serde_json::from_str::<Value>(case.text("partial")).expect("JSON")["metadata"]);
    }
}

#[test]
fn what_is_sent_back_in_v1_is_stored_as_by_kube_apiserver() {
    let version = Version::of("autoscaling/v1", "HorizontalPodAutoscaler").expect("a row");
    for case in cases() {
        let v1: Value = serde_json::from_str(case.text("v1")).expect("JSON");
        let stored = version.stored(v1.as_object().expect("an object"), usize::MAX).expect("no limit");
        let back: Value = serde_json::from_str(case.text("back")).expect("JSON");
        for part in ["/apiVersion", "/spec", "/status", "/metadata/annotations"] {
            assert_eq!(stored.pointer(part), back.pointer(part), "{} {part}", case.text("what"));
        }
    }
}

/// What an annotation is read as is written, and that is read and written as the same.
#[test]
fn any_annotation_is_read_or_nothing() {
    Subject {
        name: "carriers",
        law: |input| {
            let Ok(text) = std::str::from_utf8(input) else { return false };
            let mut any = false;
            for (fields, nulls) in [(METRIC, false), (METRIC_STATUS, false), (CONDITION, false), (BEHAVIOR, true)] {
                let again = |text: &str| {
                    let read = Value::from_iter(fields::read_many(fields, text).ok()?);
                    let mut written = Vec::new();
                    fields::write_many(fields, &read.to_string(), nulls, &mut written);
                    Some(String::from_utf8(written).expect("UTF-8"))
                };
                let Some(written) = again(text) else { continue };
                any = true;
                assert_eq!(again(&written).as_ref(), Some(&written));
            }
            any
        },
        words: &[
            r#""type":"Pods""#,
            r#""pods":{"#,
            r#""object":{"#,
            r#""resource":null"#,
            r#""targetAverageUtilization":5"#,
            r#""targetAverageValue":"1Gi""#,
            r#""selector":{"matchLabels":{"a":null}}"#,
            r#""lastTransitionTime":"2026-01-02T03:04:05Z""#,
            r#""ScaleUp":{"Policies":[{"Value":1}]}"#,
            "2147483648",
            "1.0",
            "null",
            "{",
            "}",
            "[",
            "]",
            ",",
            "\\ud800",
        ],
        long: &[["[", "{},", "{}]"], ["", "[", ""], [r#"[{"pods":{"selector":{"matchLabels":{"#, r#""a":"b","#, r#""c":"d"}}}}]"#]],
    }
    .check();
}

#[test]
fn too_much_to_carry_is_refused() {
    let version = Version::of("autoscaling/v1", "HorizontalPodAutoscaler").expect("a row");
    let sent =
        json!({"kind": "HorizontalPodAutoscaler", "metadata": {"annotations": {METRICS: " ".repeat(CARRIED_BYTES_MAX + 1)}}, "spec": {}});
    let refused = version.stored(sent.as_object().expect("an object"), usize::MAX);
    assert_eq!(refused, Err(TooLong { bytes: CARRIED_BYTES_MAX + 1, limit: CARRIED_BYTES_MAX }));
}
