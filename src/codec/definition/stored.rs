//! A v1 CustomResourceDefinition as the bytes that kube-apiserver keeps of it: v1beta1 (spec api-surface §10.2), byte for byte.

use serde_json::{Map, Value};

use super::{
    PER_VERSION,
    shape::{V1, V1BETA1},
};

/// The value for etcd, with Go's newline at its end. `resourceVersion` and `selfLink` are not stored (spec api-surface §10.4).
#[must_use]
pub fn to_stored(v1: &Value) -> Vec<u8> {
    let mut beta = V1BETA1.normal(&lifted(v1));
    if let Some(metadata) = beta.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("selfLink");
    }
    let mut out = Vec::new();
    V1BETA1.write(&beta, &mut out);
    out.push(b'\n');
    out
}

/// A v1 definition without what Go's v1 struct does not hold. Values of a wrong JSON type stay: refusing them is the decoder's part.
#[must_use]
pub fn normal(v1: &Value) -> Value {
    V1.normal(v1)
}

/// The v1beta1 form of a v1 definition: what all versions share stands once at the top of `spec`, under v1beta1's names. kube-apiserver validates
/// this form, so the paths of its errors are paths in here.
#[must_use]
pub fn lifted(v1: &Value) -> Value {
    let mut object = V1.normal(v1);
    if let Some(top) = object.as_object_mut() {
        top.insert("apiVersion".to_owned(), Value::from(super::STORED));
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        lift(spec);
        if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
            flatten(conversion);
        }
        // A pointer in v1beta1, whose default is true.
        spec.entry("preserveUnknownFields").or_insert(Value::Bool(false));
    }
    object
}

fn lift(spec: &mut Map<String, Value>) {
    let Some(Value::Array(mut versions)) = spec.get_mut("versions").map(Value::take) else { return };
    for version in &mut versions {
        if let Some(Value::Array(columns)) = version.get_mut("additionalPrinterColumns") {
            columns.iter_mut().for_each(capitalize);
        }
    }
    if let Some(first) = versions.first().cloned() {
        spec.insert("version".to_owned(), first["name"].clone());
        for (name, for_all) in PER_VERSION {
            if versions.iter().any(|version| version.get(name) != first.get(name)) {
                continue;
            }
            versions.iter_mut().filter_map(Value::as_object_mut).for_each(|version| drop(version.remove(name)));
            spec.extend(first.get(name).map(|shared| (for_all.to_owned(), shared.clone())));
        }
    }
    spec.insert("versions".to_owned(), Value::Array(versions));
}

/// v1's `jsonPath` of a printer column is `JSONPath` in v1beta1.
fn capitalize(column: &mut Value) {
    if let Some(column) = column.as_object_mut()
        && let Some(path) = column.remove("jsonPath")
    {
        column.insert("JSONPath".to_owned(), path);
    }
}

/// v1beta1 has the webhook's two members in `conversion` itself.
fn flatten(conversion: &mut Map<String, Value>) {
    let Some(Value::Object(mut webhook)) = conversion.remove("webhook") else { return };
    for (name, flat) in [("clientConfig", "webhookClientConfig"), ("conversionReviewVersions", "conversionReviewVersions")] {
        conversion.extend(webhook.remove(name).filter(|value| !value.is_null()).map(|value| (flat.to_owned(), value)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::converted, to_stored};

    /// Definitions of a live kube-apiserver: the bytes that it kept, and what it showed of them.
    fn recorded() -> impl Iterator<Item = (String, String, Value)> {
        include_str!("../../../tests/data/definitions/stored.jsonl").lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("recorded JSON");
            let [name, stored, shown] = ["name", "stored", "get"].map(|member| line[member].as_str().expect("a text").to_owned());
            (name, stored, serde_json::from_str(&shown).expect("recorded JSON"))
        })
    }

    fn read(stored: &[u8]) -> Value {
        let text = std::str::from_utf8(stored).expect("UTF-8");
        serde_json::from_str(&converted(text).expect("valid").expect("v1beta1")).expect("JSON")
    }

    #[test]
    fn bytes_are_those_of_kube_apiserver() {
        let mut count = 0;
        for (name, stored, shown) in recorded() {
            assert_eq!(String::from_utf8(to_stored(&shown)).expect("UTF-8"), stored + "\n", "{name}");
            count += 1;
        }
        assert!(count >= 15, "{count} definitions");
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for (name, _, mut shown) in recorded() {
            shown["metadata"].as_object_mut().expect("an object").remove("resourceVersion");
            assert_eq!(read(&to_stored(&shown)), shown, "{name}");
        }
    }

    #[test]
    fn wrong_types_do_not_panic() {
        for object in [
            json!(null),
            json!([1]),
            json!({"spec": 1, "metadata": [], "status": ""}),
            json!({"spec": {"versions": [1, {"additionalPrinterColumns": [2, {"jsonPath": 3}], "schema": 4}, null], "conversion": [5]}}),
            json!({"spec": {"versions": {"a": 1}, "conversion": {"webhook": 6}, "names": 7}}),
        ] {
            assert!(serde_json::from_slice::<Value>(&to_stored(&object)).is_ok());
        }
    }
}
