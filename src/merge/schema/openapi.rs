//! Types from OpenAPI: the schemas of a document of version 3, or the schema of a custom resource.

use std::fmt;

use serde_json::Value;

use super::{
    DEDUCED, ElementRelationship, Scalar, UNTYPED,
    definition::{Atom, List, Map, StructField, TypeDef, TypeRef, common_types},
};
use crate::DEPTH_MAX;

/// The type whose JSON is a string or a number.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// The type whose JSON is anything.
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// Why schemas are no types, a line for each fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(pub Vec<String>);

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for SchemaError {}

/// Makes types of `components.schemas` of a document, and the common ones. References are by the last part of `$ref`, and may lead to types of other documents.
/// With `preserves_unknown_fields` every object may have fields that it does not declare.
///
/// # Errors
///
/// A schema has a type, a list or a map that there is not.
pub fn types<'a>(
    schemas: impl IntoIterator<Item = (&'a str, &'a Value)>,
    preserves_unknown_fields: bool,
) -> Result<Vec<TypeDef>, SchemaError> {
    let mut reader = Reader { object_meta: None, faults: Vec::new() };
    let mut types: Vec<TypeDef> = Vec::new();
    for (name, schema) in schemas {
        if reference_of(schema).is_some() {
            continue;
        }
        let atom = match name {
            QUANTITY => Atom { scalar: Some(Scalar::Untyped), ..Atom::default() },
            RAW_EXTENSION => common_types().swap_remove(0).atom,
            _ => reader.atom(schema, Place { name, inlined: 0, preserves: preserves_unknown_fields }),
        };
        types.push(TypeDef { name: name.to_owned(), atom });
    }
    types.extend(common_types());
    reader.finish(types)
}

/// Makes the type of a custom resource's version. `schema` is its structural schema (`openAPIV3Schema`), without which everything is deduced; one that is not
/// structural counts as none; `object_meta` names the type of `metadata`, of the resource and of the objects that are embedded in it. The common types and that
/// of `metadata` are not among the result.
///
/// # Errors
///
/// As of [`types`].
pub fn custom_resource(
    name: &str,
    schema: Option<&Value>,
    object_meta: &str,
    preserves_unknown_fields: bool,
) -> Result<TypeDef, SchemaError> {
    let mut reader = Reader { object_meta: Some(object_meta), faults: Vec::new() };
    let place = Place { name, inlined: 0, preserves: preserves_unknown_fields };
    let mut atom = match schema {
        Some(schema) => reader.atom(schema, place),
        None => reader.atom(&serde_json::json!({"type": "object"}), place),
    };
    if let (Some(map), Some(_)) = (&mut atom.map, schema) {
        reader.add_embedded(map);
        // What declares fields allows others only if it says so.
        if schema.is_some_and(|schema| schema.get("additionalProperties").is_none() && !reader.preserves(schema, place)) {
            map.element_type = TypeRef::default();
        }
    }
    reader.finish(TypeDef { name: name.to_owned(), atom })
}

/// Where a schema is.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The type that it is of.
    name: &'a str,
    /// How deep in it.
    inlined: usize,
    /// Whether objects there may have what they do not declare.
    preserves: bool,
}

struct Reader<'a> {
    /// The type of `metadata`, where embedded objects have the fields that all objects have.
    object_meta: Option<&'a str>,
    faults: Vec<String>,
}

/// What a schema itself refers to.
fn reference_of(schema: &Value) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str).filter(|reference| !reference.is_empty())
}

impl Reader<'_> {
    fn finish<T>(self, made: T) -> Result<T, SchemaError> {
        if self.faults.is_empty() { Ok(made) } else { Err(SchemaError(self.faults)) }
    }

    fn fault(&mut self, place: Place<'_>, what: fmt::Arguments<'_>) {
        self.faults.push(format!("{}{}: {what}", "inlined in ".repeat(place.inlined), place.name));
    }

    fn preserves(&self, schema: &Value, place: Place<'_>) -> bool {
        place.preserves || schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
    }

    fn atom(&mut self, schema: &Value, mut place: Place<'_>) -> Atom {
        place.preserves = self.preserves(schema, place);
        let of = match schema.get("type") {
            Some(Value::String(of)) => of.as_str(),
            Some(Value::Array(all)) => all.first().and_then(Value::as_str).unwrap_or_default(),
            _ => "",
        };
        let scalar = |scalar| Atom { scalar: Some(scalar), ..Atom::default() };
        match of {
            "" => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(Box::new(self.list(schema, false, place))),
                map: Some(Box::new(self.map(schema, place))),
            },
            "object" => Atom { map: Some(Box::new(self.map(schema, place))), ..Atom::default() },
            "array" => Atom { list: Some(Box::new(self.list(schema, true, place))), ..Atom::default() },
            "integer" | "number" => scalar(Scalar::Numeric),
            "boolean" => scalar(Scalar::Boolean),
            "string" => match schema.get("format").and_then(Value::as_str) {
                None | Some("" | "byte") => scalar(Scalar::String),
                Some(_) => scalar(Scalar::Untyped),
            },
            other => {
                self.fault(place, format_args!("unrecognized type: '{other}'"));
                scalar(Scalar::Untyped)
            }
        }
    }

    fn reference(&mut self, schema: &Value, place: Place<'_>) -> TypeRef {
        let reference = reference_of(schema).or_else(|| match schema.get("allOf")?.as_array()?.as_slice() {
            [one] => reference_of(one),
            _ => None,
        });
        if let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()).filter(|name| !name.is_empty()) {
            let relationship = self.map_relationship(schema, place);
            return TypeRef { named: Some(name.to_owned()), relationship, ..TypeRef::default() };
        }
        let place = Place { inlined: place.inlined + 1, ..place };
        if place.inlined > DEPTH_MAX {
            self.faults.push(format!("{}: nested deeper than {DEPTH_MAX}", place.name));
            return TypeRef::default();
        }
        TypeRef { inlined: self.atom(schema, place), ..TypeRef::default() }
    }

    fn map(&mut self, schema: &Value, place: Place<'_>) -> Map {
        let properties = schema.get("properties").and_then(Value::as_object);
        let fields = properties.into_iter().flatten().map(|(name, member)| StructField {
            name: name.clone(),
            of: self.reference(member, place),
            default: member.get("default").cloned(),
        });
        let fields: Vec<StructField> = fields.collect();
        let element_type = match schema.get("additionalProperties") {
            None | Some(Value::Null) if place.preserves || fields.is_empty() => TypeRef::named(DEDUCED),
            None | Some(Value::Null | Value::Bool(false)) => TypeRef::default(),
            Some(Value::Bool(true)) => TypeRef::named(DEDUCED),
            Some(of) => self.reference(of, place),
        };
        let mut map = Map { fields, element_type, relationship: self.map_relationship(schema, place) };
        if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) && self.object_meta.is_some() {
            self.add_embedded(&mut map);
            let is_closed = schema.get("additionalProperties").is_none() && !place.preserves;
            map.element_type = if is_closed { TypeRef::default() } else { map.element_type };
        }
        map
    }

    /// Declares the fields that every object has.
    fn add_embedded(&self, map: &mut Map) {
        let string = || TypeRef { inlined: Atom { scalar: Some(Scalar::String), ..Atom::default() }, ..TypeRef::default() };
        let metadata = self.object_meta.map(|of| ("metadata", TypeRef::named(of)));
        for (name, of) in [("apiVersion", string()), ("kind", string())].into_iter().chain(metadata) {
            map.fields.retain(|field| field.name != name);
            map.fields.push(StructField { name: name.to_owned(), of, default: None });
        }
    }

    fn list(&mut self, schema: &Value, must_have_items: bool, place: Place<'_>) -> List {
        let (relationship, keys) = self.list_relationship(schema, place);
        let element_type = match schema.get("items") {
            Some(items @ Value::Object(_)) => self.reference(items, place),
            Some(Value::Array(_)) => {
                self.fault(place, format_args!("structural schema arrays must have exactly one member subtype"));
                TypeRef::named(DEDUCED)
            }
            _ => {
                if must_have_items {
                    self.fault(place, format_args!("`items` must be specified on arrays"));
                }
                TypeRef::named(UNTYPED)
            }
        };
        List { element_type, relationship: Some(relationship), keys }
    }

    fn list_relationship(&mut self, schema: &Value, place: Place<'_>) -> (ElementRelationship, Vec<String>) {
        use ElementRelationship::{Associative, Atomic};
        if let Some(of) = schema.get("x-kubernetes-list-type") {
            return match of.as_str() {
                Some("atomic") => (Atomic, Vec::new()),
                Some("set") => (Associative, Vec::new()),
                Some("map") => match schema.get("x-kubernetes-list-map-keys") {
                    Some(Value::Array(keys)) => (Associative, keys.iter().filter_map(|key| Some(key.as_str()?.to_owned())).collect()),
                    Some(keys) => {
                        self.fault(place, format_args!("uninterpreted map keys: {keys}"));
                        (Associative, Vec::new())
                    }
                    None => {
                        self.fault(place, format_args!("missing map keys"));
                        (Associative, Vec::new())
                    }
                },
                name => {
                    self.fault(place, format_args!("unknown list type {}", name.map_or_else(|| of.to_string(), str::to_owned)));
                    (Atomic, Vec::new())
                }
            };
        }
        match schema.get("x-kubernetes-patch-strategy").map(|strategy| strategy.as_str().unwrap_or_default()) {
            None | Some("retainKeys") => (Atomic, Vec::new()),
            Some("merge" | "merge,retainKeys") => match schema.get("x-kubernetes-patch-merge-key") {
                None => (Associative, Vec::new()),
                Some(Value::String(key)) => (Associative, vec![key.clone()]),
                Some(key) => {
                    self.fault(place, format_args!("uninterpreted merge key: {key}"));
                    (Associative, Vec::new())
                }
            },
            Some(strategy) => {
                self.fault(place, format_args!("unknown patch strategy {strategy}"));
                (Atomic, Vec::new())
            }
        }
    }

    fn map_relationship(&mut self, schema: &Value, place: Place<'_>) -> Option<ElementRelationship> {
        let of = schema.get("x-kubernetes-map-type")?;
        match of.as_str() {
            Some("atomic") => Some(ElementRelationship::Atomic),
            Some("granular") => Some(ElementRelationship::Separable),
            name => {
                self.fault(place, format_args!("unknown map type {}", name.map_or_else(|| of.to_string(), str::to_owned)));
                None
            }
        }
    }
}
