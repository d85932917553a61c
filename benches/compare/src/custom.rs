//! The custom resources of a run: CustomResourceDefinitions and their objects. Knows JSON, not servers.

use crate::load::Stamp;

/// Where the objects of the first definition are.
pub(crate) const COLLECTION: &str = "/apis/compare.example.com/v1/namespaces/compare-custom/widgets";

/// Where the objects of the definition `nth` are; the first is 0.
pub(crate) fn collection(nth: u64) -> String {
    format!("{COLLECTION}{}", suffix(nth))
}

/// What stands after the names of the definition `nth`.
fn suffix(nth: u64) -> String {
    if nth == 0 { String::new() } else { nth.to_string() }
}

/// The definition `nth`: a structural schema with values of each kind. The status is no subresource, so that one write makes an object whole.
pub(crate) fn definition(nth: u64) -> String {
    let text = serde_json::json!({"type": "string"});
    let number = serde_json::json!({"type": "integer", "minimum": 0});
    let port = serde_json::json!({"type": "object", "required": ["name"], "properties": {"name": text, "port": number}});
    let condition = serde_json::json!({"type": "object", "properties": {"type": text, "status": text, "reason": text}});
    let spec = serde_json::json!({"type": "object", "required": ["image"], "properties": {
        "image": text, "replicas": number, "paused": {"type": "boolean"}, "stamp": text, "text": text,
        "ports": {"type": "array", "items": port}, "settings": {"type": "object", "additionalProperties": text}}});
    let status = serde_json::json!({"type": "object", "properties": {
        "phase": text, "ready": number, "conditions": {"type": "array", "items": condition}}});
    let schema = serde_json::json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}});
    let suffix = suffix(nth);
    let (plural, singular) = (format!("widgets{suffix}"), format!("widget{suffix}"));
    let (kind, list) = (format!("Widget{suffix}"), format!("Widget{suffix}List"));
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.compare.example.com")},
        "spec": {"group": "compare.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": list},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    definition.to_string()
}

/// The object `index` of the definition `nth` with the stamp `seq` and this text.
pub(crate) fn object(nth: u64, name: &str, index: u64, seq: u64, text: &str) -> String {
    let object = serde_json::json!({
        "apiVersion": "compare.example.com/v1", "kind": format!("Widget{}", suffix(nth)),
        "metadata": {"name": name, "namespace": "compare-custom", "labels": {"app": "compare", "shard": format!("s{:02}", index % 16)}},
        "spec": {"image": "registry.example.com/widget:1.2.3", "replicas": index % 10, "paused": index.is_multiple_of(2), "stamp": Stamp(seq).to_string(),
            "text": text, "ports": [{"name": "http", "port": 8080}, {"name": "metrics", "port": 9090}],
            "settings": {"level": "info", "region": "eu-1"}},
        "status": {"phase": "Running", "ready": index % 10, "conditions": [
            {"type": "Ready", "status": "True", "reason": "AllReady"}, {"type": "Progressing", "status": "False", "reason": "Done"}]}});
    object.to_string()
}
