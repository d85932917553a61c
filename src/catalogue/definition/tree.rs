//! Looking into a definition in its normal form: members with Go's zero where they are missing, paths, and walks over schemas.

use serde_json::{Map, Value};

/// The object at a member, made where there is something else.
pub(super) fn object_mut<'v>(object: &'v mut Value, name: &str) -> &'v mut Map<String, Value> {
    object_in(as_object(object), name)
}

/// The same of members.
pub(super) fn object_in<'m>(members: &'m mut Map<String, Value>, name: &str) -> &'m mut Map<String, Value> {
    as_object(members.entry(name).or_insert(Value::Null))
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}

/// A text member; empty when it is missing.
pub(super) fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A boolean member; false when it is missing.
pub(super) fn flag(object: &Value, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// The elements of a list member; none when it is missing.
pub(super) fn list<'v>(object: &'v Value, name: &str) -> &'v [Value] {
    object.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Names and values of an object member; none when it is missing.
pub(super) fn entries<'v>(object: &'v Value, name: &str) -> impl Iterator<Item = (&'v str, &'v Value)> {
    object.get(name).and_then(Value::as_object).into_iter().flatten().map(|(name, value)| (&**name, value))
}

/// Whether an object member has members itself.
pub(super) fn has_entries(object: &Value, name: &str) -> bool {
    object.get(name).and_then(Value::as_object).is_some_and(|map| !map.is_empty())
}

/// A member that may be missing: `None` for `null` too.
pub(super) fn member<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// A text member that Go has as a pointer.
pub(super) fn optional_text<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    member(object, name).and_then(Value::as_str)
}

/// `path.name`.
pub(super) fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// `path[i]`.
pub(super) fn at(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// `path.name[key]`.
pub(super) fn keyed(path: &str, name: &str, key: &str) -> String {
    format!("{path}.{name}[{key}]")
}

/// The schema of a version, or the one that all versions share.
pub(super) fn schema_in(holder: &Value) -> Option<&Value> {
    member(holder, "openAPIV3Schema")
}

/// Every root schema of a definition in its v1beta1 form.
pub(super) fn roots(spec: &Value) -> impl Iterator<Item = &Value> {
    let shared = member(spec, "validation").and_then(schema_in);
    shared.into_iter().chain(list(spec, "versions").iter().filter_map(|version| schema_in(member(version, "schema")?)))
}

/// Whether a schema or one inside of it is so.
pub(super) fn any(schema: &Value, so: &dyn Fn(&Value) -> bool) -> bool {
    so(schema) || below(schema).into_iter().any(|inner| any(inner, so))
}

/// The schemas directly inside of one.
fn below(schema: &Value) -> Vec<&Value> {
    let mut found: Vec<&Value> = Vec::new();
    for name in ["items", "not", "additionalProperties", "additionalItems"] {
        match schema.get(name) {
            Some(Value::Array(schemas)) => found.extend(schemas),
            one => found.extend(one.filter(|value| value.is_object())),
        }
    }
    found.extend(["allOf", "anyOf", "oneOf"].iter().flat_map(|name| list(schema, name)));
    for name in ["properties", "patternProperties", "definitions", "dependencies"] {
        found.extend(entries(schema, name).map(|(_, value)| value).filter(|value| value.is_object()));
    }
    found
}
