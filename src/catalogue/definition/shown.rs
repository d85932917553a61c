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
        Some(versions) => written(|out| list(versions, &Form::Struct(VERSION), out)),
        None if said => "[]".to_owned(),
        None => "null".to_owned(),
    }
}

pub(super) fn schema(schema: &Value) -> String {
    written(|out| write(Some(schema), &Form::Schema, out))
}

/// `items` of a schema.
pub(super) fn items(items: &Value) -> String {
    written(|out| write(Some(items), &Form::SchemaOrList, out))
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
enum Form {
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

type Struct = &'static [(&'static str, &'static str, Form)];

const TEXT: Form = Form::Plain("\"\"");
const FLAG: Form = Form::Plain("false");
const SET: Form = Form::Plain("null");

fn write(value: Option<&Value>, form: &Form, out: &mut Vec<u8>) {
    let Some(value) = value else {
        out.extend_from_slice(if let Form::Plain(zero) = form { zero.as_bytes() } else { b"null" });
        return;
    };
    match form {
        Form::Struct(members) => object(members.iter().map(|(go, name, form)| (*go, member(value, name), form)), out),
        Form::List(of) => list(value, &Form::Struct(of), out),
        Form::Schema => write(Some(value), &Form::Struct(SCHEMA), out),
        Form::Schemas => list(value, &Form::Schema, out),
        Form::SchemaMap => map(value, &Form::Schema, out),
        Form::Dependencies => map(value, &Form::SchemaOrNames, out),
        Form::SchemaOrFlag => {
            let allows = value != &Value::Bool(false);
            let schema = Some(value).filter(|value| value.is_object());
            object([("Allows", Some(&Value::Bool(allows)), &FLAG), ("Schema", schema, &Form::Schema)].into_iter(), out);
        }
        Form::SchemaOrList => alternatives(value, "JSONSchemas", &Form::Schemas, out),
        Form::SchemaOrNames => alternatives(value, "Property", &SET, out),
        Form::Plain(_) => value_into(value, out),
    }
}

/// A schema, or a list under the name `other`.
fn alternatives(value: &Value, other: &str, form: &Form, out: &mut Vec<u8>) {
    let (schema, others) = if value.is_array() { (None, Some(value)) } else { (Some(value), None) };
    object([("Schema", schema, &Form::Schema), (other, others, form)].into_iter(), out);
}

fn list(value: &Value, form: &Form, out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(Some(item), form, out);
    }
    out.push(b']');
}

fn map(value: &Value, form: &Form, out: &mut Vec<u8>) {
    object(value.as_object().into_iter().flatten().map(|(name, value)| (&**name, Some(value), form)), out);
}

fn object<'v>(members: impl Iterator<Item = (&'v str, Option<&'v Value>, &'v Form)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (name, value, form)) in members.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        string_into(name, out);
        out.push(b':');
        write(value, form, out);
    }
    out.push(b'}');
}

const VERSION: Struct = &[
    ("Name", "name", TEXT),
    ("Served", "served", FLAG),
    ("Storage", "storage", FLAG),
    ("Deprecated", "deprecated", FLAG),
    ("DeprecationWarning", "deprecationWarning", SET),
    ("Schema", "schema", Form::Struct(&[("OpenAPIV3Schema", "openAPIV3Schema", Form::Schema)])),
    ("Subresources", "subresources", Form::Struct(&[("Status", "status", Form::Struct(&[])), ("Scale", "scale", Form::Struct(SCALE))])),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", Form::List(COLUMN)),
    ("SelectableFields", "selectableFields", Form::List(&[("JSONPath", "jsonPath", TEXT)])),
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
    ("Priority", "priority", Form::Plain("0")),
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
    ("Items", "items", Form::SchemaOrList),
    ("AllOf", "allOf", Form::Schemas),
    ("OneOf", "oneOf", Form::Schemas),
    ("AnyOf", "anyOf", Form::Schemas),
    ("Not", "not", Form::Schema),
    ("Properties", "properties", Form::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Form::SchemaOrFlag),
    ("PatternProperties", "patternProperties", Form::SchemaMap),
    ("Dependencies", "dependencies", Form::Dependencies),
    ("AdditionalItems", "additionalItems", Form::SchemaOrFlag),
    ("Definitions", "definitions", Form::SchemaMap),
    ("ExternalDocs", "externalDocs", Form::Struct(&[("Description", "description", TEXT), ("URL", "url", TEXT)])),
    ("Example", "example", SET),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", SET),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", FLAG),
    ("XIntOrString", "x-kubernetes-int-or-string", FLAG),
    ("XListMapKeys", "x-kubernetes-list-map-keys", SET),
    ("XListType", "x-kubernetes-list-type", SET),
    ("XMapType", "x-kubernetes-map-type", SET),
    ("XValidations", "x-kubernetes-validations", Form::List(RULE)),
];
