//! Looking into a definition in its normal form: paths, and walks over schemas.

use serde_json::Value;

pub(super) use go::tree::{entries, flag, has_entries, list, member, object_in, object_mut, optional_text, text};

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
