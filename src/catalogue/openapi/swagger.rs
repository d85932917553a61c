//! What Swagger 2.0, which is OpenAPI v2, says otherwise than v3: operations, their parameters, and schemas.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_URL_SAFE};
use codec::encode::string_into;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    paths::{ANY, CUSTOM, ORDER},
    recorded,
    schemas::{is, text},
};

/// How a reference to a schema begins.
pub(super) const REFERENCE: &str = "#/definitions/";

/// Which types operations without a body take.
#[derive(Clone, Copy)]
pub(super) enum Taken {
    /// Whatever decoders of Kubernetes' own resources know.
    Any,
    /// Those of custom resources.
    Custom,
    /// What their answers are: operations of discovery.
    Answers,
    /// None that is told.
    None,
}

/// Parameters that many operations have: each stands once in the document, under a name made of its text.
#[derive(Default)]
pub(super) struct Shared(BTreeMap<String, Box<RawValue>>);

impl Shared {
    /// Returns the parameters by name.
    pub(super) fn done(self) -> BTreeMap<String, Box<RawValue>> {
        self.0
    }

    /// Puts a reference in the place of a parameter that says nothing of the operation's kind. `dryRun` and `fieldValidation` stay, by which old clients
    /// find out what a server can do.
    fn share(&mut self, parameter: &mut Value) {
        let part = |name: &str| parameter.get(name).and_then(Value::as_str).unwrap_or_default();
        let of_the_kind = match (part("in"), part("name")) {
            ("path" | "query", "name") | ("query", "dryRun" | "fieldValidation") => true,
            ("body", "body") => !parameter["schema"]["$ref"].as_str().is_some_and(|it| it.starts_with("#/definitions/io.k8s.apimachinery")),
            _ => false,
        };
        if !of_the_kind {
            let name = format!("{}-{}", part("name"), digest(&go_text(parameter)));
            let reference = json!({ "$ref": format!("#/parameters/{name}") });
            self.0.entry(name).or_insert_with(|| text(parameter));
            *parameter = reference;
        }
    }
}

/// The parameter as Go writes it: members in the order of its struct, HTML escaped.
fn go_text(parameter: &Value) -> String {
    let mut out = Vec::new();
    for name in ["uniqueItems", "type", "description", "name", "in", "required", "schema"] {
        let Some(value) = parameter.get(name) else { continue };
        out.push(if out.is_empty() { b'{' } else { b',' });
        string_into(name, &mut out);
        out.push(b':');
        codec::encode::value_into(value, &mut out);
    }
    out.push(b'}');
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Eight letters of the 64-bit FNV-1 digest.
fn digest(text: &str) -> String {
    let digest = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| digest.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
    BASE64_URL_SAFE.encode(&digest.to_be_bytes()[..6])
}

/// The members of a path. References in it are those of v2 already.
pub(super) fn path(mut of: Value, taken: Taken, shared: &mut Shared) -> Value {
    for (name, member) in of.as_object_mut().into_iter().flatten() {
        match member {
            Value::Array(parameters) if name == "parameters" => parameters.iter_mut().for_each(|it| parameter(it, shared)),
            Value::Object(operation) => self::operation(operation, taken, shared),
            _ => {}
        }
    }
    of
}

/// A parameter is not of a schema but of a type.
fn parameter(it: &mut Value, shared: &mut Shared) {
    if let Some(members) = it.as_object_mut()
        && members.get("in").is_none_or(|place| place != "body")
        && let Some(Value::Object(schema)) = members.remove("schema")
    {
        members.extend(schema);
    }
    shared.share(it);
}

/// A body is a parameter, and media types are told once for all bodies and all answers.
fn operation(of: &mut Map<String, Value>, taken: Taken, shared: &mut Shared) {
    let mut parameters = match of.remove("parameters") {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let mut consumes = None;
    if let Some(Value::Object(mut body)) = of.remove("requestBody")
        && let Some((types, schema)) = content(&mut body)
    {
        consumes = Some(types);
        body.extend([("in", "body".into()), ("name", "body".into()), ("schema", schema)].map(|(name, value)| (name.to_owned(), value)));
        parameters.push(body.into());
        parameters.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    }
    parameters.iter_mut().for_each(|it| parameter(it, shared));
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
    let without_body = match taken {
        Taken::Any => Some(json!(ANY)),
        Taken::Custom => Some(json!(CUSTOM)),
        Taken::Answers => Some(json!(produces)),
        Taken::None => None,
    };
    if let Some(consumes) = consumes.map(Value::from).or(without_body) {
        of.insert("consumes".to_owned(), consumes);
    }
    of.insert("produces".to_owned(), produces.into());
    of.insert("schemes".to_owned(), json!(["https"]));
}

/// Takes the media types of a body or an answer, and the schema that they share.
fn content(of: &mut Map<String, Value>) -> Option<(Vec<Value>, Value)> {
    let Some(Value::Object(mut content)) = of.remove("content") else { return None };
    let schema = content.values_mut().next()?["schema"].take();
    let mut types: Vec<String> = content.into_iter().map(|(name, _)| name).collect();
    types.sort_by_key(|name| ORDER.iter().position(|known| known == name));
    Some((types.into_iter().map(Value::from).collect(), schema))
}

/// Says of a recorded schema what Swagger 2.0 can say: no defaults, and what may be of two types is a string.
pub(super) fn reduce_recorded(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    members.remove("default");
    if members.remove("oneOf").is_some() {
        members.insert("type".to_owned(), "string".into());
    }
    // Others may stand beside a reference.
    if let Some(Value::Array(all)) = members.remove("allOf")
        && let Some(Value::Object(only)) = all.into_iter().next()
    {
        members.extend(only);
    }
    if let Some(Value::String(reference)) = members.get_mut("$ref")
        && let Some(name) = reference.strip_prefix(recorded::REFERENCE)
    {
        *reference = format!("{REFERENCE}{name}");
    }
    members.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut).for_each(reduce_recorded);
    for part in ["items", "additionalProperties"] {
        members.get_mut(part).into_iter().for_each(reduce_recorded);
    }
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
