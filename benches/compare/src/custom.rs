//! The custom resource of a run: its CustomResourceDefinition and its objects. Knows JSON, not servers.

use crate::load::Stamp;

/// Where its objects are.
pub(crate) const COLLECTION: &str = "/apis/compare.example.com/v1/namespaces/compare-custom/widgets";

/// Its definition: a structural schema with values of each kind. The status is no subresource, so that one write makes an object whole.
pub(crate) fn definition() -> String {
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
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.compare.example.com"},
        "spec": {"group": "compare.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    definition.to_string()
}

/// The object `index` with the stamp `seq` and this text.
pub(crate) fn object(name: &str, index: u64, seq: u64, text: &str) -> String {
    let object = serde_json::json!({
        "apiVersion": "compare.example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "compare-custom", "labels": {"app": "compare", "shard": format!("s{:02}", index % 16)}},
        "spec": {"image": "registry.example.com/widget:1.2.3", "replicas": index % 10, "paused": index.is_multiple_of(2), "stamp": Stamp(seq).to_string(),
            "text": text, "ports": [{"name": "http", "port": 8080}, {"name": "metrics", "port": 9090}],
            "settings": {"level": "info", "region": "eu-1"}},
        "status": {"phase": "Running", "ready": index % 10, "conditions": [
            {"type": "Ready", "status": "True", "reason": "AllReady"}, {"type": "Progressing", "status": "False", "reason": "Done"}]}});
    object.to_string()
}
