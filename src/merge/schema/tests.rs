//! Types from OpenAPI.

use serde_json::{Value, json};

use super::*;
use crate::{Duplicates, TypedValue, fields_v1};

fn made(document: &Value) -> Arc<Schema> {
    let schemas = document.as_object().unwrap().iter().map(|(name, schema)| (name.as_str(), schema));
    Arc::new(Schema::new(openapi::types(schemas, false).unwrap()))
}

fn fields(schema: &Arc<Schema>, name: &str, value: &Value) -> String {
    let of = ParseableType::of(schema, name).unwrap();
    let typed = TypedValue::borrowed(value, &of);
    typed.validate(Duplicates::Refused).unwrap();
    fields_v1::write(&typed.to_field_set().unwrap())
}

#[test]
fn keywords_say_how_elements_belong_together() {
    let schema = made(&json!({
        "Port": {"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"}}},
        "Spec": {"type": "object", "properties": {
            "ports": {"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/Port"}], "default": {}},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]},
            "merged": {"type": "array", "items": {"$ref": "#/components/schemas/Port"}, "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"},
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
            "command": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "selector": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
            "own": {"$ref": "#/components/schemas/Port"},
            "whole": {"allOf": [{"$ref": "#/components/schemas/Port"}], "x-kubernetes-map-type": "atomic"},
            "any": {},
            "free": {"type": "object"},
            "time": {"type": "string", "format": "date-time"},
        }},
    }));
    let value = json!({
        "ports": [{"port": 80}], "merged": [{"name": "a", "port": 1}], "finalizers": ["f"], "command": ["c"], "labels": {"l": "1"},
        "selector": {"s": "1"}, "own": {"port": 1}, "whole": {"port": 2}, "any": {"x": {"y": 1}, "z": [1]}, "free": {"a": {"b": [1]}}, "time": 5,
    });
    let expected = concat!(
        r#"{"f:any":{"f:x":{".":{},"f:y":{}},"f:z":{}},"f:command":{},"f:finalizers":{"v:\"f\"":{}},"f:free":{"f:a":{".":{},"f:b":{}}},"f:labels":{"f:l":{}},"#,
        r#""f:merged":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:port":{}}},"f:own":{"f:port":{}},"#,
        r#""f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:selector":{},"f:time":{},"f:whole":{}}"#
    );
    assert_eq!(fields(&schema, "Spec", &value), expected);
}

#[test]
fn what_is_not_declared_is_refused_unless_it_is_preserved() {
    let schema = made(&json!({
        "Closed": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "Open": {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}, "x-kubernetes-preserve-unknown-fields": true},
    }));
    let closed = ParseableType::of(&schema, "Closed").unwrap();
    let unknown = TypedValue::borrowed(&json!({"b": 1}), &closed).validate(Duplicates::Refused).unwrap_err();
    assert_eq!(unknown.to_string(), ".b: field not declared in schema");
    let wrong = TypedValue::borrowed(&json!({"a": "1"}), &closed).validate(Duplicates::Refused).unwrap_err();
    assert_eq!(wrong.to_string(), ".a: expected numeric (int or float), got string");
    // What is below it preserves too.
    let open = json!({"x": [1], "a": {"b": "1", "y": {"z": 1}}});
    assert_eq!(fields(&schema, "Open", &open), r#"{"f:a":{"f:b":{},"f:y":{".":{},"f:z":{}}},"f:x":{}}"#);
}

#[test]
fn a_custom_resource_has_the_fields_of_every_object() {
    let structural = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"}, "port": {"x-kubernetes-int-or-string": true},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        }},
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}}},
    }});
    let meta =
        json!({"Meta": {"type": "object", "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}}}});
    let mut types = openapi::types(meta.as_object().unwrap().iter().map(|(name, schema)| (name.as_str(), schema)), false).unwrap();
    types.push(openapi::custom_resource("Widget", Some(&structural), "Meta", false).unwrap());
    types.push(openapi::custom_resource("Free", None, "Meta", false).unwrap());
    let schema = Arc::new(Schema::new(types));
    let object = json!({
        "apiVersion": "v1", "kind": "Widget", "metadata": {"labels": {"a": "b"}},
        "spec": {"replicas": 1, "port": "x", "template": {"kind": "Pod", "metadata": {"labels": {"c": "d"}}, "spec": {"e": [1]}}},
    });
    let expected = concat!(
        r#"{"f:apiVersion":{},"f:kind":{},"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:port":{},"f:replicas":{},"#,
        r#""f:template":{"f:kind":{},"f:metadata":{"f:labels":{"f:c":{}}},"f:spec":{".":{},"f:e":{}}}}}"#
    );
    assert_eq!(fields(&schema, "Widget", &object), expected);
    let widget = ParseableType::of(&schema, "Widget").unwrap();
    let unknown = TypedValue::borrowed(&json!({"spec": {"x": 1}, "y": 1}), &widget).validate(Duplicates::Allowed).unwrap_err();
    assert_eq!(unknown.to_string(), "errors:\n  .spec.x: field not declared in schema\n  .y: field not declared in schema");
    assert_eq!(fields(&schema, "Free", &json!({"metadata": {"a": 1}})), r#"{"f:metadata":{".":{},"f:a":{}}}"#);
}

#[test]
fn faults_are_told_with_their_place() {
    let document = json!({"A": {"type": "object", "properties": {
        "a": {"type": "array"}, "b": {"type": "array", "items": {}, "x-kubernetes-list-type": "map"},
        "c": {"type": "object", "x-kubernetes-map-type": "odd"}, "d": {"type": "array", "items": {"type": "file"}, "x-kubernetes-list-type": "bag"},
    }}});
    let schemas = document.as_object().unwrap().iter().map(|(name, schema)| (name.as_str(), schema));
    let faults = openapi::types(schemas, false).unwrap_err();
    let expected = [
        "inlined in A: `items` must be specified on arrays",
        "inlined in A: missing map keys",
        "inlined in A: unknown map type odd",
        "inlined in A: unknown list type bag",
        "inlined in inlined in A: unrecognized type: 'file'",
    ];
    assert_eq!(faults.to_string(), expected.join("\n"));
}

#[test]
fn declared_fields_are_found_in_any_order_of_theirs() {
    let names: Vec<String> = (0..60).map(|at| format!("field{at}")).collect();
    let properties: Value = names.iter().map(|name| (name.clone(), json!({"type": "integer"}))).collect::<serde_json::Map<_, _>>().into();
    let schema = made(&json!({"A": {"type": "object", "properties": properties}}));
    let map = schema.atom(schema.find("A").unwrap()).map.clone().unwrap();
    for step in 1..=60 {
        let walk = map.walk();
        for field in map.fields.iter().step_by(step) {
            let (stem, last) = field.name.split_at(field.name.len() - 1);
            let before = format!("{stem}{}~", char::from(last.as_bytes()[0] - 1));
            assert!(walk.find(&before).0.is_none(), "{before}");
            assert_eq!(&*walk.find(&field.name).0.unwrap().name, &*field.name);
        }
        assert!(walk.find("zzz").0.is_none());
    }
}
