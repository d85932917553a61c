//! What Swagger 2.0, which is OpenAPI v2, says otherwise than v3: operations, and the schemas of definitions.
//!
//! Deviation: a parameter is written where it is used. kube-apiserver has most of them once, under `parameters`.

use serde_json::{Map, Value, json};

use super::{paths::BODIES, schemas::is};

/// The members of a path. References in it are those of v2 already.
pub(super) fn path(mut of: Value, built_in: bool) -> Value {
    for (name, member) in of.as_object_mut().into_iter().flatten() {
        match member {
            Value::Array(parameters) if name == "parameters" => parameters.iter_mut().for_each(parameter),
            Value::Object(operation) => self::operation(operation, if built_in { &["*/*"] } else { BODIES }),
            _ => {}
        }
    }
    of
}

/// A parameter is not of a schema but of a type.
fn parameter(it: &mut Value) {
    let Some(members) = it.as_object_mut() else { return };
    if let Some(Value::Object(schema)) = members.remove("schema") {
        members.extend(schema);
    }
}

/// A body is a parameter, and media types are told once for all bodies and all answers. `taken` are those of an operation without a body.
fn operation(of: &mut Map<String, Value>, taken: &[&str]) {
    let mut parameters = match of.remove("parameters") {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    parameters.iter_mut().for_each(parameter);
    let mut consumes = taken.iter().map(|&name| name.into()).collect();
    if let Some(Value::Object(mut body)) = of.remove("requestBody")
        && let Some((types, schema)) = content(&mut body)
    {
        consumes = types;
        body.extend([("in", "body".into()), ("name", "body".into()), ("schema", schema)].map(|(name, value)| (name.to_owned(), value)));
        parameters.push(body.into());
        parameters.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    }
    let mut produces = Vec::new();
    for answer in of.get_mut("responses").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        if let Some((types, schema)) = answer.as_object_mut().and_then(content) {
            produces = types;
            answer["schema"] = schema;
        }
    }
    if !parameters.is_empty() {
        of.insert("parameters".to_owned(), parameters.into());
    }
    of.insert("consumes".to_owned(), consumes.into());
    of.insert("produces".to_owned(), produces.into());
    of.insert("schemes".to_owned(), json!(["https"]));
}

/// Takes the media types of a body or an answer, and the schema that they share.
fn content(of: &mut Map<String, Value>) -> Option<(Vec<Value>, Value)> {
    let Some(Value::Object(mut content)) = of.remove("content") else { return None };
    let schema = content.values_mut().next()?["schema"].take();
    Some((content.into_iter().map(|(name, _)| name.into()).collect(), schema))
}

/// Leaves of a definition's schema what Swagger 2.0 can say and kubectl understands, as kube-apiserver does: no junctors, no defaults, and of what may be null
/// or has members that nobody knows neither the type nor what is inside.
pub(super) fn reduce(schema: &mut Value) {
    let (nullable, open) = (is(schema, "nullable"), is(schema, "x-kubernetes-preserve-unknown-fields"));
    let Some(members) = schema.as_object_mut() else { return };
    for word in ["allOf", "anyOf", "default", "not", "nullable", "oneOf"] {
        members.remove(word);
    }
    if nullable || open {
        members.remove("items");
        members.remove("properties");
    }
    let untyped = match members.get("type").and_then(Value::as_str) {
        Some("array") => !members.contains_key("items"),
        Some("object") => open,
        _ => false,
    };
    if nullable || untyped {
        members.remove("type");
    }
    // What may be null cannot be told, so it may not be required either.
    let may_be_null = |part: Option<&Value>| part.is_some_and(|part| is(part, "nullable"));
    if let Some(Value::Array(mut required)) = members.remove("required") {
        let properties = members.get("properties");
        required.retain(|name| !may_be_null(properties.and_then(|all| all.get(name.as_str()?))));
        if !required.is_empty() && !may_be_null(members.get("additionalProperties")) {
            members.insert("required".to_owned(), required.into());
        }
    }
    members.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut).for_each(reduce);
    for part in ["items", "additionalProperties"] {
        members.get_mut(part).into_iter().for_each(reduce);
    }
}
