//! The Go structs of a CustomResourceDefinition: their members in Go's order, and which of them Go leaves out. Knows values, not rules.

use serde_json::{Map, Value};

use crate::encode::{string_into, value_into};
use crate::fields_v1::fields_into;

/// What a JSON value is decoded into.
pub(super) enum Shape {
    Text,
    Flag,
    Number,
    /// A 64 bit float: an integer that is too long for one loses its last digits.
    Float,
    /// Any JSON: kept, its keys sorted.
    Any,
    /// A set of fields, in the order of its elements.
    Fields,
    List(&'static Self),
    /// Keys of the client, sorted when written.
    Map(&'static Self),
    Struct(&'static [Member]),
    /// A schema or a boolean (`additionalProperties`).
    SchemaOrFlag,
    /// A schema or a list of them (`items`).
    SchemaOrList,
    /// A schema or a list of names (`dependencies`).
    SchemaOrNames,
}

/// One member of a struct.
pub(super) struct Member {
    pub name: &'static str,
    keep: Keep,
    pub shape: &'static Shape,
}

/// When Go writes a member.
#[derive(Clone, Copy)]
enum Keep {
    /// Always; what is missing by its zero.
    Always,
    /// `omitempty` of a value: unless it is zero or empty.
    Filled,
    /// `omitempty` of a pointer: unless it is missing or `null`.
    Set,
}

impl Shape {
    /// The value as Go holds it after decoding: members that the struct does not have are gone, empty ones too where Go leaves them out, `null`
    /// is the zero. A value of a wrong JSON type stays as it is: refusing it is the decoder's part.
    pub(super) fn normal(&self, value: &Value) -> Value {
        match (self, value) {
            (_, Value::Null) => self.zero(),
            (Self::List(of), Value::Array(items)) => items.iter().map(|item| of.normal(item)).collect(),
            (Self::Map(of), Value::Object(map)) => map.iter().map(|(name, value)| (name.clone(), of.normal(value))).collect(),
            (Self::Struct(members), Value::Object(map)) => Value::Object(normal_struct(members, map)),
            (Self::SchemaOrFlag | Self::SchemaOrList | Self::SchemaOrNames, Value::Object(_)) => SCHEMA.normal(value),
            (Self::SchemaOrList, Value::Array(items)) => items.iter().map(|item| SCHEMA.normal(item)).collect(),
            (Self::Float, Value::Number(_)) => value.as_f64().map_or(Value::Null, read_again),
            (Self::Any, _) => any(value),
            _ => value.clone(),
        }
    }

    /// What Go has when nothing was said.
    pub(super) fn zero(&self) -> Value {
        match self {
            Self::Text => Value::String(String::new()),
            Self::Flag => Value::Bool(false),
            Self::Number | Self::Float => Value::from(0),
            Self::Struct(members) => Value::Object(normal_struct(members, &Map::new())),
            _ => Value::Null,
        }
    }

    /// Appends a normal value in the order of the structs.
    pub(super) fn write(&self, value: &Value, out: &mut Vec<u8>) {
        match (self, value) {
            (Self::List(of), Value::Array(items)) => list_into(of, items, out),
            (Self::SchemaOrList, Value::Array(items)) => list_into(&SCHEMA, items, out),
            (Self::Map(of), Value::Object(map)) => object_into(map.iter().map(|(name, value)| (&**name, *of, value)), out),
            (Self::Struct(members), Value::Object(map)) => {
                object_into(members.iter().filter_map(|m| Some((m.name, m.shape, map.get(m.name)?))), out);
            }
            (Self::SchemaOrFlag | Self::SchemaOrList | Self::SchemaOrNames, Value::Object(_)) => SCHEMA.write(value, out),
            (Self::Fields, _) => fields_into(value, out),
            _ => value_into(value, out),
        }
    }
}

/// A float as it is read after Go has written it: `1.0` is 1.
fn read_again(float: f64) -> Value {
    let mut text = Vec::new();
    value_into(&Value::from(float), &mut text);
    serde_json::from_slice(&text).unwrap_or_else(|_| Value::from(float))
}

/// Any JSON with its floats as they will be read again.
fn any(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => number.as_f64().map_or(Value::Null, read_again),
        Value::Array(items) => items.iter().map(any).collect(),
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), any(value))).collect(),
        _ => value.clone(),
    }
}

fn normal_struct(members: &[Member], map: &Map<String, Value>) -> Map<String, Value> {
    let member = |m: &Member| {
        let given = map.get(m.name).filter(|value| !value.is_null());
        let value = match m.keep {
            Keep::Always => given.map_or_else(|| m.shape.zero(), |value| m.shape.normal(value)),
            Keep::Set => m.shape.normal(given?),
            Keep::Filled => given.map(|value| m.shape.normal(value)).filter(|value| !empty(value))?,
        };
        Some((m.name.to_owned(), value))
    };
    members.iter().filter_map(member).collect()
}

/// What `omitempty` takes for empty.
fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn list_into(of: &Shape, items: &[Value], out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        of.write(item, out);
    }
    out.push(b']');
}

fn object_into<'v>(members: impl Iterator<Item = (&'v str, &'v Shape, &'v Value)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (name, shape, value)) in members.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        string_into(name, out);
        out.push(b':');
        shape.write(value, out);
    }
    out.push(b'}');
}

const fn always(name: &'static str, shape: &'static Shape) -> Member {
    Member { name, keep: Keep::Always, shape }
}

const fn filled(name: &'static str, shape: &'static Shape) -> Member {
    Member { name, keep: Keep::Filled, shape }
}

const fn set(name: &'static str, shape: &'static Shape) -> Member {
    Member { name, keep: Keep::Set, shape }
}

static TEXT: Shape = Shape::Text;
static FLAG: Shape = Shape::Flag;
static NUMBER: Shape = Shape::Number;
static ANY: Shape = Shape::Any;
static FIELDS: Shape = Shape::Fields;
static TEXTS: Shape = Shape::List(&TEXT);
static TEXT_MAP: Shape = Shape::Map(&TEXT);

/// The definition in v1 (apiextensions `v1/types.go`).
pub(super) static V1: Shape = Shape::Struct(&[
    filled("kind", &TEXT),
    filled("apiVersion", &TEXT),
    always("metadata", &METADATA),
    always("spec", &SPEC_V1),
    always("status", &STATUS),
]);

/// The definition in v1beta1, the form in etcd (apiextensions `v1beta1/types.go`).
pub(super) static V1BETA1: Shape = Shape::Struct(&[
    filled("kind", &TEXT),
    filled("apiVersion", &TEXT),
    always("metadata", &METADATA),
    always("spec", &SPEC_V1BETA1),
    always("status", &STATUS),
]);

/// apimachinery `meta/v1/types.go`, `ObjectMeta`.
static METADATA: Shape = Shape::Struct(&[
    filled("name", &TEXT),
    filled("generateName", &TEXT),
    filled("namespace", &TEXT),
    filled("selfLink", &TEXT),
    filled("uid", &TEXT),
    filled("resourceVersion", &TEXT),
    filled("generation", &NUMBER),
    set("creationTimestamp", &TEXT),
    set("deletionTimestamp", &TEXT),
    set("deletionGracePeriodSeconds", &NUMBER),
    filled("labels", &TEXT_MAP),
    filled("annotations", &TEXT_MAP),
    filled("ownerReferences", &OWNERS),
    filled("finalizers", &TEXTS),
    filled("managedFields", &MANAGED_FIELDS),
]);
static OWNERS: Shape = Shape::List(&OWNER);
static OWNER: Shape = Shape::Struct(&[
    always("apiVersion", &TEXT),
    always("kind", &TEXT),
    always("name", &TEXT),
    always("uid", &TEXT),
    set("controller", &FLAG),
    set("blockOwnerDeletion", &FLAG),
]);
static MANAGED_FIELDS: Shape = Shape::List(&MANAGED);
static MANAGED: Shape = Shape::Struct(&[
    filled("manager", &TEXT),
    filled("operation", &TEXT),
    filled("apiVersion", &TEXT),
    set("time", &TEXT),
    filled("fieldsType", &TEXT),
    set("fieldsV1", &FIELDS),
    filled("subresource", &TEXT),
]);

static SPEC_V1: Shape = Shape::Struct(&[
    always("group", &TEXT),
    always("names", &NAMES),
    always("scope", &TEXT),
    always("versions", &VERSIONS_V1),
    set("conversion", &CONVERSION_V1),
    filled("preserveUnknownFields", &FLAG),
]);
static SPEC_V1BETA1: Shape = Shape::Struct(&[
    always("group", &TEXT),
    filled("version", &TEXT),
    always("names", &NAMES),
    always("scope", &TEXT),
    set("validation", &VALIDATION),
    set("subresources", &SUBRESOURCES),
    filled("versions", &VERSIONS_V1BETA1),
    filled("additionalPrinterColumns", &COLUMNS_V1BETA1),
    filled("selectableFields", &SELECTABLE_FIELDS),
    set("conversion", &CONVERSION_V1BETA1),
    set("preserveUnknownFields", &FLAG),
]);
static NAMES: Shape = Shape::Struct(&[
    always("plural", &TEXT),
    filled("singular", &TEXT),
    filled("shortNames", &TEXTS),
    always("kind", &TEXT),
    filled("listKind", &TEXT),
    filled("categories", &TEXTS),
]);
static VERSIONS_V1: Shape = Shape::List(&VERSION_V1);
static VERSION_V1: Shape = Shape::Struct(&[
    always("name", &TEXT),
    always("served", &FLAG),
    always("storage", &FLAG),
    filled("deprecated", &FLAG),
    set("deprecationWarning", &TEXT),
    set("schema", &VALIDATION),
    set("subresources", &SUBRESOURCES),
    filled("additionalPrinterColumns", &COLUMNS_V1),
    filled("selectableFields", &SELECTABLE_FIELDS),
]);
static VERSIONS_V1BETA1: Shape = Shape::List(&VERSION_V1BETA1);
static VERSION_V1BETA1: Shape = Shape::Struct(&[
    always("name", &TEXT),
    always("served", &FLAG),
    always("storage", &FLAG),
    filled("deprecated", &FLAG),
    set("deprecationWarning", &TEXT),
    set("schema", &VALIDATION),
    set("subresources", &SUBRESOURCES),
    filled("additionalPrinterColumns", &COLUMNS_V1BETA1),
    filled("selectableFields", &SELECTABLE_FIELDS),
]);
static VALIDATION: Shape = Shape::Struct(&[set("openAPIV3Schema", &SCHEMA)]);
static SUBRESOURCES: Shape = Shape::Struct(&[set("status", &NOTHING), set("scale", &SCALE)]);
static NOTHING: Shape = Shape::Struct(&[]);
static SCALE: Shape =
    Shape::Struct(&[always("specReplicasPath", &TEXT), always("statusReplicasPath", &TEXT), set("labelSelectorPath", &TEXT)]);
static COLUMNS_V1: Shape = Shape::List(&COLUMN_V1);
static COLUMN_V1: Shape = Shape::Struct(&[
    always("name", &TEXT),
    always("type", &TEXT),
    filled("format", &TEXT),
    filled("description", &TEXT),
    filled("priority", &NUMBER),
    always("jsonPath", &TEXT),
]);
static COLUMNS_V1BETA1: Shape = Shape::List(&COLUMN_V1BETA1);
static COLUMN_V1BETA1: Shape = Shape::Struct(&[
    always("name", &TEXT),
    always("type", &TEXT),
    filled("format", &TEXT),
    filled("description", &TEXT),
    filled("priority", &NUMBER),
    always("JSONPath", &TEXT),
]);
static SELECTABLE_FIELDS: Shape = Shape::List(&SELECTABLE_FIELD);
static SELECTABLE_FIELD: Shape = Shape::Struct(&[always("jsonPath", &TEXT)]);
static CONVERSION_V1: Shape = Shape::Struct(&[always("strategy", &TEXT), set("webhook", &WEBHOOK)]);
static WEBHOOK: Shape = Shape::Struct(&[set("clientConfig", &CLIENT_CONFIG), always("conversionReviewVersions", &TEXTS)]);
static CONVERSION_V1BETA1: Shape =
    Shape::Struct(&[always("strategy", &TEXT), set("webhookClientConfig", &CLIENT_CONFIG), filled("conversionReviewVersions", &TEXTS)]);
static CLIENT_CONFIG: Shape = Shape::Struct(&[set("url", &TEXT), set("service", &SERVICE), filled("caBundle", &TEXT)]);
static SERVICE: Shape = Shape::Struct(&[always("namespace", &TEXT), always("name", &TEXT), set("path", &TEXT), set("port", &NUMBER)]);

static STATUS: Shape = Shape::Struct(&[
    always("conditions", &CONDITIONS),
    always("acceptedNames", &NAMES),
    always("storedVersions", &TEXTS),
    filled("observedGeneration", &NUMBER),
]);
static CONDITIONS: Shape = Shape::List(&CONDITION);
static CONDITION: Shape = Shape::Struct(&[
    always("type", &TEXT),
    always("status", &TEXT),
    always("lastTransitionTime", &ANY),
    filled("reason", &TEXT),
    filled("message", &TEXT),
    filled("observedGeneration", &NUMBER),
]);

/// apiextensions `v1/types_jsonschema.go`; v1beta1 has the same.
static SCHEMA: Shape = Shape::Struct(&[
    filled("id", &TEXT),
    filled("$schema", &TEXT),
    set("$ref", &TEXT),
    filled("description", &TEXT),
    filled("type", &TEXT),
    filled("format", &TEXT),
    filled("title", &TEXT),
    set("default", &ANY),
    set("maximum", &Shape::Float),
    filled("exclusiveMaximum", &FLAG),
    set("minimum", &Shape::Float),
    filled("exclusiveMinimum", &FLAG),
    set("maxLength", &NUMBER),
    set("minLength", &NUMBER),
    filled("pattern", &TEXT),
    set("maxItems", &NUMBER),
    set("minItems", &NUMBER),
    filled("uniqueItems", &FLAG),
    set("multipleOf", &Shape::Float),
    filled("enum", &ANY_LIST),
    set("maxProperties", &NUMBER),
    set("minProperties", &NUMBER),
    filled("required", &TEXTS),
    set("items", &Shape::SchemaOrList),
    filled("allOf", &SCHEMAS),
    filled("oneOf", &SCHEMAS),
    filled("anyOf", &SCHEMAS),
    set("not", &SCHEMA),
    filled("properties", &SCHEMA_MAP),
    set("additionalProperties", &Shape::SchemaOrFlag),
    filled("patternProperties", &SCHEMA_MAP),
    filled("dependencies", &DEPENDENCIES),
    set("additionalItems", &Shape::SchemaOrFlag),
    filled("definitions", &SCHEMA_MAP),
    set("externalDocs", &EXTERNAL_DOCS),
    set("example", &ANY),
    filled("nullable", &FLAG),
    set("x-kubernetes-preserve-unknown-fields", &FLAG),
    filled("x-kubernetes-embedded-resource", &FLAG),
    filled("x-kubernetes-int-or-string", &FLAG),
    filled("x-kubernetes-list-map-keys", &TEXTS),
    set("x-kubernetes-list-type", &TEXT),
    set("x-kubernetes-map-type", &TEXT),
    filled("x-kubernetes-validations", &RULES),
]);
static SCHEMAS: Shape = Shape::List(&SCHEMA);
static SCHEMA_MAP: Shape = Shape::Map(&SCHEMA);
static DEPENDENCIES: Shape = Shape::Map(&Shape::SchemaOrNames);
static ANY_LIST: Shape = Shape::List(&ANY);
static EXTERNAL_DOCS: Shape = Shape::Struct(&[filled("description", &TEXT), filled("url", &TEXT)]);
static RULES: Shape = Shape::List(&RULE);
static RULE: Shape = Shape::Struct(&[
    always("rule", &TEXT),
    filled("message", &TEXT),
    filled("messageExpression", &TEXT),
    set("reason", &TEXT),
    filled("fieldPath", &TEXT),
    set("optionalOldSelf", &FLAG),
]);
