//! Values inside messages as Go prints apiextensions' internal structs: every member by its Go name, zero or not, in Go's order.

use serde_json::Value;

use super::tree::member;
use codec::encode::{string_into, value_into};
use model::invalid::{FieldError, FieldErrorKind};

/// `Invalid value: TEXT: why`, the text as it is.
pub(super) fn invalid_shown(field: impl Into<String>, shown: &str, why: &str) -> FieldError {
    FieldError { field: field.into(), kind: FieldErrorKind::Invalid, message: format!("Invalid value: {shown}: {why}") }
}

/// A value as Go's encoder writes it: HTML characters escaped, which `%q` of a plain string does not do.
pub(super) fn json(value: &Value) -> String {
    written(|out| value_into(value, out))
}

/// `spec.versions`: `null` when it was not said.
pub(super) fn versions(spec: &Value, said: bool) -> String {
    match member(spec, "versions") {
        Some(versions) => written(|out| list(versions, &GoShape::Struct(VERSION), out)),
        None if said => "[]".to_owned(),
        None => "null".to_owned(),
    }
}

pub(super) fn schema(schema: &Value) -> String {
    written(|out| write(Some(schema), &GoShape::Schema, out))
}

/// `items` of a schema.
pub(super) fn items(items: &Value) -> String {
    written(|out| write(Some(items), &GoShape::SchemaOrList, out))
}

/// A rule in CEL.
pub(super) fn rule(rule: &Value) -> String {
    written(|out| write(Some(rule), &GoShape::Struct(RULE), out))
}

/// Go's names of the members that a schema has, in the order of Go's struct, with their JSON names.
pub(super) fn members_of(schema: &Value) -> impl Iterator<Item = (&'static str, &'static str)> {
    SCHEMA.iter().map(|(go, name, _)| (*go, *name)).filter(|(_, name)| schema.get(name).is_some())
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// How a member is printed.
enum GoShape {
    /// As it is; when it is missing, by this text.
    Plain(&'static str),
    /// A struct behind a pointer.
    Struct(Struct),
    List(Struct),
    Schema,
    Schemas,
    SchemaMap,
    SchemaOrFlag,
    SchemaOrList,
    SchemaOrNames,
    Dependencies,
}

type Struct = &'static [(&'static str, &'static str, GoShape)];

const TEXT: GoShape = GoShape::Plain("\"\"");
const FLAG: GoShape = GoShape::Plain("false");
const SET: GoShape = GoShape::Plain("null");

fn write(value: Option<&Value>, shape: &GoShape, out: &mut Vec<u8>) {
    let Some(value) = value else {
        out.extend_from_slice(if let GoShape::Plain(zero) = shape { zero.as_bytes() } else { b"null" });
        return;
    };
    match shape {
        GoShape::Struct(members) => object(members.iter().map(|(go, name, shape)| (*go, member(value, name), shape)), out),
        GoShape::List(of) => list(value, &GoShape::Struct(of), out),
        GoShape::Schema => write(Some(value), &GoShape::Struct(SCHEMA), out),
        GoShape::Schemas => list(value, &GoShape::Schema, out),
        GoShape::SchemaMap => map(value, &GoShape::Schema, out),
        GoShape::Dependencies => map(value, &GoShape::SchemaOrNames, out),
        GoShape::SchemaOrFlag => {
            let allows = value != &Value::Bool(false);
            let schema = Some(value).filter(|value| value.is_object());
            object([("Allows", Some(&Value::Bool(allows)), &FLAG), ("Schema", schema, &GoShape::Schema)].into_iter(), out);
        }
        GoShape::SchemaOrList => alternatives(value, "JSONSchemas", &GoShape::Schemas, out),
        GoShape::SchemaOrNames => alternatives(value, "Property", &SET, out),
        GoShape::Plain(_) => value_into(value, out),
    }
}

/// A schema, or a list under the name `other`.
fn alternatives(value: &Value, other: &str, shape: &GoShape, out: &mut Vec<u8>) {
    let (schema, others) = if value.is_array() { (None, Some(value)) } else { (Some(value), None) };
    object([("Schema", schema, &GoShape::Schema), (other, others, shape)].into_iter(), out);
}

fn list(value: &Value, shape: &GoShape, out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(Some(item), shape, out);
    }
    out.push(b']');
}

fn map(value: &Value, shape: &GoShape, out: &mut Vec<u8>) {
    object(value.as_object().into_iter().flatten().map(|(name, value)| (&**name, Some(value), shape)), out);
}

fn object<'v>(members: impl Iterator<Item = (&'v str, Option<&'v Value>, &'v GoShape)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (name, value, shape)) in members.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        string_into(name, out);
        out.push(b':');
        write(value, shape, out);
    }
    out.push(b'}');
}

const VERSION: Struct = &[
    ("Name", "name", TEXT),
    ("Served", "served", FLAG),
    ("Storage", "storage", FLAG),
    ("Deprecated", "deprecated", FLAG),
    ("DeprecationWarning", "deprecationWarning", SET),
    ("Schema", "schema", GoShape::Struct(&[("OpenAPIV3Schema", "openAPIV3Schema", GoShape::Schema)])),
    (
        "Subresources",
        "subresources",
        GoShape::Struct(&[("Status", "status", GoShape::Struct(&[])), ("Scale", "scale", GoShape::Struct(SCALE))]),
    ),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", GoShape::List(COLUMN)),
    ("SelectableFields", "selectableFields", GoShape::List(&[("JSONPath", "jsonPath", TEXT)])),
];
const SCALE: Struct = &[
    ("SpecReplicasPath", "specReplicasPath", TEXT),
    ("StatusReplicasPath", "statusReplicasPath", TEXT),
    ("LabelSelectorPath", "labelSelectorPath", SET),
];
const COLUMN: Struct = &[
    ("Name", "name", TEXT),
    ("Type", "type", TEXT),
    ("Format", "format", TEXT),
    ("Description", "description", TEXT),
    ("Priority", "priority", GoShape::Plain("0")),
    ("JSONPath", "JSONPath", TEXT),
];
const RULE: Struct = &[
    ("Rule", "rule", TEXT),
    ("Message", "message", TEXT),
    ("MessageExpression", "messageExpression", TEXT),
    ("Reason", "reason", SET),
    ("FieldPath", "fieldPath", TEXT),
    ("OptionalOldSelf", "optionalOldSelf", SET),
];
const SCHEMA: Struct = &[
    ("ID", "id", TEXT),
    ("Schema", "$schema", TEXT),
    ("Ref", "$ref", SET),
    ("Description", "description", TEXT),
    ("Type", "type", TEXT),
    ("Nullable", "nullable", FLAG),
    ("Format", "format", TEXT),
    ("Title", "title", TEXT),
    ("Default", "default", SET),
    ("Maximum", "maximum", SET),
    ("ExclusiveMaximum", "exclusiveMaximum", FLAG),
    ("Minimum", "minimum", SET),
    ("ExclusiveMinimum", "exclusiveMinimum", FLAG),
    ("MaxLength", "maxLength", SET),
    ("MinLength", "minLength", SET),
    ("Pattern", "pattern", TEXT),
    ("MaxItems", "maxItems", SET),
    ("MinItems", "minItems", SET),
    ("UniqueItems", "uniqueItems", FLAG),
    ("MultipleOf", "multipleOf", SET),
    ("Enum", "enum", SET),
    ("MaxProperties", "maxProperties", SET),
    ("MinProperties", "minProperties", SET),
    ("Required", "required", SET),
    ("Items", "items", GoShape::SchemaOrList),
    ("AllOf", "allOf", GoShape::Schemas),
    ("OneOf", "oneOf", GoShape::Schemas),
    ("AnyOf", "anyOf", GoShape::Schemas),
    ("Not", "not", GoShape::Schema),
    ("Properties", "properties", GoShape::SchemaMap),
    ("AdditionalProperties", "additionalProperties", GoShape::SchemaOrFlag),
    ("PatternProperties", "patternProperties", GoShape::SchemaMap),
    ("Dependencies", "dependencies", GoShape::Dependencies),
    ("AdditionalItems", "additionalItems", GoShape::SchemaOrFlag),
    ("Definitions", "definitions", GoShape::SchemaMap),
    ("ExternalDocs", "externalDocs", GoShape::Struct(&[("Description", "description", TEXT), ("URL", "url", TEXT)])),
    ("Example", "example", SET),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", SET),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", FLAG),
    ("XIntOrString", "x-kubernetes-int-or-string", FLAG),
    ("XListMapKeys", "x-kubernetes-list-map-keys", SET),
    ("XListType", "x-kubernetes-list-type", SET),
    ("XMapType", "x-kubernetes-map-type", SET),
    ("XValidations", "x-kubernetes-validations", GoShape::List(RULE)),
];
