//! Schemas of custom resources: what their definitions say, with what every object has.

use serde_json::{Map, Value, json};

use super::{
    recorded::Heads,
    schemas::{GVK, SpecVersion, is, kind_of, reference},
    swagger,
};
use crate::Served;

/// What a definition says of a schema that is open to members that nobody knows.
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// Returns the definition's schema with the head of every object. A definition without one, or with one that is too deep for a tree, tells that it is an
/// object.
pub(super) fn object(schema: Option<Value>, served: &Served, heads: &Heads, version: SpecVersion) -> Value {
    // kubectl takes no members but those that it is told of, once it is told of any.
    let told = schema.filter(|schema| schema.is_object() && !(version == SpecVersion::V2 && is(schema, OPEN)));
    let schema = told.map_or_else(
        || json!({ "type": "object" }),
        |mut schema| {
            unfold(&mut schema);
            if version == SpecVersion::V2 {
                swagger::reduce(&mut schema);
            }
            embedded(&mut schema, heads, version);
            put_head(&mut schema, &heads.object, version);
            schema
        },
    );
    of_kind(schema, served, &served.kind)
}

/// Returns the schema of a list of objects, whose schema has this name.
pub(super) fn list(object_name: &str, served: &Served, heads: &Heads, version: SpecVersion) -> Value {
    let more = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    let items = json!({
        "description": format!("List of {}. More info: {more}", served.resource),
        "type": "array",
        "items": reference(version, object_name),
    });
    let mut schema = json!({
        "description": format!("{} is a list of {}", served.list_kind, served.kind),
        "type": "object",
        "required": ["items"],
        "properties": { "items": items },
    });
    put_head(&mut schema, &heads.list, version);
    of_kind(schema, served, &served.list_kind)
}

/// Adds what they are and the labels that select them.
fn of_kind(mut schema: Value, served: &Served, kind: &str) -> Value {
    schema[GVK] = json!([kind_of(&served.group, &served.version, kind)]);
    let fields: Vec<Value> = served.labels.declared.iter().map(|(label, _)| json!({ "fieldPath": label })).collect();
    if !fields.is_empty() {
        schema["x-kubernetes-selectable-fields"] = fields.into();
    }
    schema
}

/// Adds `apiVersion`, `kind` and `metadata` to the properties, in place of what a definition says of them.
fn put_head(schema: &mut Value, head: &Map<String, Value>, version: SpecVersion) {
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema["properties"] = json!({});
    }
    for (name, member) in head {
        let mut member = member.clone();
        if version == SpecVersion::V2 {
            swagger::reduce_recorded(&mut member);
        }
        schema["properties"][name] = member;
    }
}

/// Calls a function with each schema directly below.
fn below(schema: &mut Value, mut with: impl FnMut(&mut Value)) {
    let Some(members) = schema.as_object_mut() else { return };
    members.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut).for_each(&mut with);
    for part in ["items", "additionalProperties"] {
        members.get_mut(part).into_iter().for_each(&mut with);
    }
}

/// Says of what is an integer or a string that it is, where the definition does not in the two forms that are understood.
fn unfold(schema: &mut Value) {
    below(schema, unfold);
    if !is(schema, INT_OR_STRING) {
        return;
    }
    let both = json!([{ "type": "integer" }, { "type": "string" }]);
    let first_of_all = schema.pointer("/allOf/0/anyOf");
    if schema.get("anyOf") == Some(&both) || first_of_all == Some(&both) {
        return;
    }
    let Some(members) = schema.as_object_mut() else { return };
    if !members.contains_key("anyOf") {
        members.insert("anyOf".to_owned(), both);
    } else if let Value::Array(all) = members.entry("allOf").or_insert_with(|| json!([])) {
        all.insert(0, json!({ "anyOf": both }));
    }
}

/// Objects inside of objects have a head too.
fn embedded(schema: &mut Value, heads: &Heads, version: SpecVersion) {
    below(schema, |schema| embedded(schema, heads, version));
    if !is(schema, EMBEDDED) || version == SpecVersion::V2 && is(schema, OPEN) {
        return;
    }
    put_head(schema, &heads.embedded, version);
    if let Some(Value::Array(required)) = schema.as_object_mut().map(|members| members.entry("required").or_insert_with(|| json!([]))) {
        for word in ["kind", "apiVersion"].map(Value::from) {
            if !required.contains(&word) {
                required.push(word);
            }
        }
    }
}
