//! The metadata of a stored object, cut out of its bytes, as `PartialObjectMetadata` shows it.

use std::ops::Range;

use serde_json::value::RawValue;

use super::{
    encode::{self, OBJECT_META},
    members::{Members, Writer},
    skip,
};
use model::{Object, Revision, Shape, Storage};

/// The versions of `meta.k8s.io` that `PartialObjectMetadata` has; they differ in nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    /// `v1`, what client-go's metadata client asks for.
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// `meta.k8s.io/v1`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// How stored metadata becomes what is shown. kube-apiserver shows the `ObjectMeta` of the decoded object, in the order of that Go struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// A built-in: as it is stored.
    Whole,
    /// A built-in whose conversion takes this annotation away and into a field.
    Without(&'static str),
    /// A custom resource: stored sorted, shown in the order of the struct, without what the struct does not have.
    Ordered,
}

impl Cut {
    /// That of a stored resource. The two annotations are those that kubernetes' `pkg/apis/apps/v1/conversion.go` moves.
    pub(super) fn of(storage: &Storage) -> Self {
        match &storage.shape {
            Shape::Custom { .. } => Self::Ordered,
            Shape::BuiltIn { kind, .. } if kind == "DaemonSet" => Self::Without("deprecated.daemonset.template.generation"),
            Shape::BuiltIn { kind, .. } if kind == "Deployment" => Self::Without("deprecated.deployment.rollback.to"),
            Shape::BuiltIn { .. } | Shape::Definition => Self::Whole,
        }
    }

    /// Appends the metadata, under a revision: the object's own, but for DELETED that of the deletion.
    pub(super) fn write(self, object: &Object, revision: Revision, out: &mut Vec<u8>) {
        let Some(span) = short_span(object).or_else(|| span(object.own_tail())) else {
            // Not reached: `ingest` lets in only what is JSON and has its metadata once.
            return out.extend_from_slice(b"{}");
        };
        let has = |text: &str| memchr::memmem::find(&object.own_tail()[span.clone()], text.as_bytes()).is_some();
        let written = match self {
            Self::Without(annotation) if has(annotation) => without(annotation, &text(object, span.clone(), revision), out),
            Self::Ordered => ordered(&text(object, span.clone(), revision), out),
            Self::Whole | Self::Without(_) => None,
        };
        if written.is_none() {
            object.span_into(span, revision, out);
        }
    }
}

/// Where the metadata stands in the own tail of an object that begins with it, and whose managed fields are its last member: as kube-apiserver writes them.
fn short_span(object: &Object) -> Option<Range<usize>> {
    const BEFORE: &[u8] = b"\"metadata\":";
    let (tail, end) = (object.own_tail(), object.managed_end()?);
    (tail.starts_with(BEFORE) && tail.get(end) == Some(&b'}')).then(|| BEFORE.len()..end + 1)
}

/// Where the metadata stands in an own tail: at once in a built-in, after what sorts before it in a custom resource.
fn span(tail: &[u8]) -> Option<Range<usize>> {
    let mut at = 0;
    loop {
        let name = value_at(tail, at)?;
        let value = value_at(tail, past(tail, name.end, b':')?)?;
        if &tail[name] == b"\"metadata\"" {
            return Some(value);
        }
        at = past(tail, value.end, b',')?;
    }
}

/// The first JSON value from `at` on.
fn value_at(tail: &[u8], at: usize) -> Option<Range<usize>> {
    let start = skip::blank(tail, at);
    Some(start..skip::end(tail, start)?)
}

/// The place after the separator that is next.
fn past(tail: &[u8], at: usize, separator: u8) -> Option<usize> {
    let at = skip::blank(tail, at);
    (*tail.get(at)? == separator).then_some(at + 1)
}

/// The stored metadata, with this revision.
fn text(object: &Object, span: Range<usize>, revision: Revision) -> Vec<u8> {
    let mut text = Vec::with_capacity(object.tail_len());
    object.span_into(span, revision, &mut text);
    text
}

fn read(text: &[u8]) -> Option<Members<'_>> {
    Members::read(std::str::from_utf8(text).ok()?).ok()
}

/// Built-in metadata without an annotation. An empty one stays: the conversion does not take it for one.
fn without(annotation: &str, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let members = read(text)?;
    let kept = members.object("annotations").ok()?;
    let kept: Vec<_> = kept.iter().filter(|(name, value)| *name != annotation || *value == "\"\"").collect();
    let mut writer = Writer::open(out);
    for (name, value) in members.iter() {
        if name != "annotations" {
            writer.raw(name, value);
        } else if !kept.is_empty() {
            let out = writer.name(name);
            for (i, (name, value)) in kept.iter().enumerate() {
                out.push(if i == 0 { b'{' } else { b',' });
                encode::string_into(name, out);
                out.push(b':');
                out.extend_from_slice(value.as_bytes());
            }
            out.push(b'}');
        }
    }
    writer.close();
    Some(())
}

/// Custom metadata as Go's `ObjectMeta` prints it.
fn ordered(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let members = read(text)?;
    let mut writer = Writer::open(out);
    // `clusterName` is no member any more since Kubernetes 1.25.
    for name in OBJECT_META.into_iter().filter(|name| *name != "clusterName") {
        let Some(value) = members.raw(name).filter(|value| !is_empty(name, value)) else { continue };
        match name {
            "ownerReferences" => each(value, writer.name(name), owner),
            "managedFields" => each(value, writer.name(name), managed),
            _ => writer.raw(name, value),
        }
    }
    writer.close();
    Some(())
}

/// What Go leaves out (`omitempty`); a grace period of 0 seconds is a pointer to 0 and stays.
fn is_empty(name: &str, value: &str) -> bool {
    matches!(value, "\"\"" | "{}" | "[]") || (name == "generation" && value == "0")
}

/// An array of objects, each written by `one`; what is none is copied.
fn each(array: &str, out: &mut Vec<u8>, one: fn(&Members<'_>, &mut Vec<u8>)) {
    let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(array) else {
        return out.extend_from_slice(array.as_bytes());
    };
    out.push(b'[');
    for (i, element) in elements.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match Members::read(element.get()) {
            Ok(members) => one(&members, out),
            Err(_) => out.extend_from_slice(element.get().as_bytes()),
        }
    }
    out.push(b']');
}

/// An `OwnerReference`, whose first four members are always printed.
fn owner(members: &Members<'_>, out: &mut Vec<u8>) {
    let mut writer = Writer::open(out);
    for name in ["apiVersion", "kind", "name", "uid"] {
        writer.raw(name, members.raw(name).unwrap_or("\"\""));
    }
    for name in ["controller", "blockOwnerDeletion"] {
        writer.some(name, members.raw(name));
    }
    writer.close();
}

/// A `ManagedFieldsEntry`.
fn managed(members: &Members<'_>, out: &mut Vec<u8>) {
    let mut writer = Writer::open(out);
    for name in ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"] {
        writer.some(name, members.raw(name).filter(|value| *value != "\"\""));
    }
    writer.close();
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::{collection, prelude::*};
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::{Encoder, ingest};

    /// Shows the metadata of a value that was stored by somebody else than kube-apiserver.
    fn shown(shape: Shape, value: &Value) -> String {
        shown_of(shape, &value.to_string())
    }

    fn shown_of(shape: Shape, text: &str) -> String {
        let storage =
            Storage { id: "x".into(), group: String::new(), resource: "x".to_owned(), namespaced: false, shape, fields: Vec::new() };
        let object = ingest(&storage, 3, Bytes::from_static(b"/x/n"), text.as_bytes(), Revision(7)).expect("an object");
        let mut out = Vec::new();
        Encoder::metadata_only(MetaVersion::V1, &storage).object_into(&object, &mut out);
        let text = String::from_utf8(out).expect("UTF-8");
        let inner = text.strip_prefix(r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#);
        inner.and_then(|text| text.strip_suffix('}')).expect("nothing but the metadata").to_owned()
    }

    fn custom() -> Shape {
        Shape::Custom { kind: "K".to_owned(), api_versions: vec!["ex.io/v1".to_owned()], schema: None }
    }

    fn built_in(kind: &str) -> Shape {
        Shape::BuiltIn { kind: kind.to_owned(), api_version: "ex.io/v1".to_owned() }
    }

    fn object(kind: &str, metadata: Value) -> Value {
        json!({"Aa": {"metadata": 1}, "apiVersion": "ex.io/v1", "kind": kind, "metadata": metadata, "spec": {"metadata": [2]}})
    }

    #[test]
    fn custom_metadata_is_that_of_the_struct() {
        let check = |metadata: Value, expect: &str| assert_eq!(shown(custom(), &object("K", metadata)), expect);
        check(json!({}), r#"{"resourceVersion":"7"}"#);
        check(
            json!({"name": "n", "labels": {}, "annotations": null, "finalizers": [], "selfLink": "", "generation": 0, "clusterName": "c", "x": 1,
                "deletionGracePeriodSeconds": 0, "creationTimestamp": null, "ownerReferences": [], "managedFields": []}),
            r#"{"name":"n","resourceVersion":"7","deletionGracePeriodSeconds":0}"#,
        );
        check(
            json!({"ownerReferences": [{"uid": "u", "controller": null, "x": 1}], "managedFields": [{"fieldsV1": {}, "manager": "m", "subresource": ""}]}),
            r#"{"resourceVersion":"7","ownerReferences":[{"apiVersion":"","kind":"","name":"","uid":"u"}],"managedFields":[{"manager":"m","fieldsV1":{}}]}"#,
        );
    }

    /// What no API server writes.
    #[test]
    fn names_with_escapes_are_those_that_they_say() {
        let text = r#"{"kind":"K","apiVersion":"ex.io/v1","met\u0061data":{"name":"n"}}"#;
        assert_eq!(shown_of(built_in("K"), text), r#"{"name":"n","resourceVersion":"7"}"#);
    }

    #[test]
    fn annotations_that_conversion_moves_are_not_shown() {
        let check = |kind: &str, annotations: Value, expect: &str| {
            let shown = shown(built_in(kind), &object(kind, json!({"name": "n", "annotations": annotations})));
            assert_eq!(shown, format!(r#"{{"name":"n","resourceVersion":"7"{expect}}}"#));
        };
        check("DaemonSet", json!({"deprecated.daemonset.template.generation": "1"}), "");
        check(
            "Deployment",
            json!({"a": "<", "deprecated.deployment.rollback.to": "1", "z": "2"}),
            r#","annotations":{"a":"\u003c","z":"2"}"#,
        );
        check("Deployment", json!({"deprecated.deployment.rollback.to": ""}), r#","annotations":{"deprecated.deployment.rollback.to":""}"#);
        check(
            "ReplicaSet",
            json!({"deprecated.deployment.rollback.to": "1"}),
            r#","annotations":{"deprecated.deployment.rollback.to":"1"}"#,
        );
    }

    proptest! {
        /// Whatever is around it, the metadata is found, and a built-in's is shown whole.
        #[test]
        fn the_metadata_is_found(around in collection::btree_map("[a-zA-Z\"\\\\{}:,é]{1,9}", "[a-z\"\\\\{}\\[\\]:,é]{0,9}", 0..6), label in "[ -~é]{0,9}") {
            let metadata = json!({"labels": {"l": label}, "name": "n"});
            let mut value = Map::from_iter(around.into_iter().map(|(name, text)| (name, json!({"metadata": text}))));
            value.extend([("apiVersion".to_owned(), json!("ex.io/v1")), ("kind".to_owned(), json!("K")), ("metadata".to_owned(), metadata.clone())]);
            for shape in [custom(), built_in("K")] {
                let mut found: Value = serde_json::from_str(&shown(shape, &Value::Object(value.clone()))).expect("JSON");
                prop_assert_eq!(found.as_object_mut().and_then(|found| found.remove("resourceVersion")), Some(json!("7")));
                prop_assert_eq!(found, metadata.clone());
            }
        }
    }
}
