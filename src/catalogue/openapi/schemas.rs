//! Types as schemas of OpenAPI v3 or v2.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use super::swagger;
use crate::{
    Served,
    types::{self, Field, KindOf, List, MapType, Shape, Strategy, TypeRef},
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Which OpenAPI a document is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SpecVersion {
    V2,
    V3,
}

/// The schemas that one document needs: those that were asked for, and what they refer to.
pub(super) struct Schemas<'a> {
    version: SpecVersion,
    /// The group versions that a kind of every one is told of.
    places: BTreeSet<(&'a str, &'a str)>,
    /// Of the custom resources that are told of now, by plural name.
    custom: &'a BTreeMap<String, Bytes>,
    /// As text: of the schemas of definitions one at a time is a tree.
    made: BTreeMap<String, Box<RawValue>>,
}

impl<'a> Schemas<'a> {
    /// For a document of these group versions. Core is among them in any case: there every client looks.
    pub(super) fn new(version: SpecVersion, mut places: BTreeSet<(&'a str, &'a str)>) -> Self {
        const NONE: &BTreeMap<String, Bytes> = &BTreeMap::new();
        places.insert(("", "v1"));
        Self { version, places, custom: NONE, made: BTreeMap::new() }
    }

    /// What the definitions of the next group version say, by plural name.
    pub(super) fn of(&mut self, custom: &'a BTreeMap<String, Bytes>) {
        self.custom = custom;
    }

    /// The schemas by name.
    pub(super) fn done(self) -> BTreeMap<String, Box<RawValue>> {
        self.made
    }

    /// A reference to a type of `meta/v1`.
    pub(super) fn meta(&mut self, name: &str) -> Value {
        self.named(&format!("{META}.{name}"))
    }

    /// A reference to the type of a built-in kind; an open object when it has none.
    pub(super) fn kind(&mut self, group: &str, version: &str, kind: &str) -> Value {
        TypeRef::of(group, version, kind).map_or_else(|| json!({ "type": "object" }), |it| self.typed(it))
    }

    /// A reference to a custom resource, or to its list.
    pub(super) fn custom(&mut self, served: &Served, list: bool) -> Value {
        let name = |kind: &str| {
            let group: Vec<&str> = served.group.rsplit('.').collect();
            format!("{}.{}.{kind}", group.join("."), served.version)
        };
        let (object_name, list_name) = (name(&served.kind), name(&served.list_kind));
        if !self.made.contains_key(&object_name) {
            let object = of_kind(self.custom_object(served), served, &served.kind);
            self.made.insert(object_name.clone(), text(&object));
            let items = json!({ "type": "array", "items": self.reference(&object_name) });
            let list = json!({ "type": "object", "required": ["items"], "properties": self.head("ListMeta", json!({ "items": items })) });
            self.made.insert(list_name.clone(), text(&of_kind(list, served, &served.list_kind)));
        }
        self.reference(if list { &list_name } else { &object_name })
    }

    /// The definition's schema with the head of every object; what it leaves open stays open. One that is too deep for a tree is told as open.
    fn custom_object(&mut self, served: &Served) -> Value {
        let open = || json!({ "type": "object", OPEN: true });
        let mut schema = self.custom.get(&served.resource).and_then(|schema| serde_json::from_slice(schema).ok()).unwrap_or_else(open);
        if self.version == SpecVersion::V2 {
            // kubectl takes no members but those that it is told of, once it is told of any.
            if is(&schema, OPEN) {
                return json!({ "type": "object" });
            }
            swagger::reduce(&mut schema);
        }
        self.embedded(&mut schema);
        let properties = schema.get("properties").cloned().unwrap_or_else(|| json!({}));
        schema["properties"] = self.head("ObjectMeta", properties);
        schema
    }

    /// Objects inside of objects (`x-kubernetes-embedded-resource`) have the head too.
    fn embedded(&mut self, schema: &mut Value) {
        let is_embedded = is(schema, "x-kubernetes-embedded-resource") && !(self.version == SpecVersion::V2 && is(schema, OPEN));
        let Some(members) = schema.as_object_mut() else { return };
        if let Some(properties) = members.get_mut("properties").and_then(Value::as_object_mut) {
            properties.values_mut().for_each(|property| self.embedded(property));
        }
        for part in ["items", "additionalProperties"] {
            members.get_mut(part).into_iter().for_each(|schema| self.embedded(schema));
        }
        if is_embedded {
            let properties = members.remove("properties").unwrap_or_else(|| json!({}));
            members.insert("properties".to_owned(), self.head("ObjectMeta", properties));
            if let Some(required) = members.entry("required").or_insert_with(|| json!([])).as_array_mut() {
                let missing = ["kind", "apiVersion"].map(Value::from).into_iter().filter(|word| !required.contains(word));
                let missing: Vec<_> = missing.collect();
                required.extend(missing);
            }
        }
    }

    /// These properties and `apiVersion`, `kind` and `metadata`.
    fn head(&mut self, metadata: &str, mut properties: Value) -> Value {
        for word in ["apiVersion", "kind"] {
            properties[word] = json!({ "type": "string" });
        }
        let metadata = self.meta(metadata);
        properties["metadata"] = self.alone(metadata);
        properties
    }

    /// A schema that others may stand beside: in v3 nothing stands beside a reference.
    fn alone(&self, schema: Value) -> Value {
        if self.version == SpecVersion::V3 && schema.get("$ref").is_some() { json!({ "allOf": [schema] }) } else { schema }
    }

    fn typed(&mut self, it: TypeRef) -> Value {
        if !self.made.contains_key(it.name()) {
            self.made.insert(it.name().to_owned(), text(&Value::Null)); // a type may refer to itself
            let schema = self.object(it);
            self.made.insert(it.name().to_owned(), text(&schema));
        }
        self.reference(it.name())
    }

    fn object(&mut self, it: TypeRef) -> Value {
        let mut schema = json!({ "type": "object" });
        let properties: Map<_, _> = it.fields().iter().map(|field| (field.name.to_owned(), self.property(field))).collect();
        let required: Vec<&str> = it.fields().iter().filter(|field| field.required).map(|field| field.name).collect();
        let kinds: Vec<Value> = it.kinds().iter().flat_map(|kind| self.kinds(*kind)).collect();
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if !kinds.is_empty() {
            schema[GVK] = kinds.into();
        }
        if it.is_atomic() {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        schema
    }

    fn kinds(&self, kind: KindOf) -> Vec<Value> {
        match kind {
            KindOf::One(group, version, kind) => vec![kind_of(group, version, kind)],
            KindOf::Every(kind) => self.places.iter().map(|(group, version)| kind_of(group, version, kind)).collect(),
        }
    }

    fn property(&mut self, field: &Field) -> Value {
        let schema = self.shape(&field.shape);
        let mut schema = self.alone(schema);
        let merge = match (field.merge.strategy, field.merge.retain_keys) {
            (Strategy::None, false) => None,
            (Strategy::None, true) => Some("retainKeys"),
            (Strategy::Merge, false) => Some("merge"),
            (Strategy::Merge, true) => Some("merge,retainKeys"),
            (Strategy::Replace, _) => Some("replace"),
        };
        let list = field.list.as_ref().map(|list| match list {
            List::Atomic => "atomic",
            List::Set => "set",
            List::Map(_) => "map",
        });
        let keys = field.list.as_ref().and_then(|list| if let List::Map(keys) = list { Some(json!(keys)) } else { None });
        let map = field.map.map(|map| match map {
            MapType::Atomic => "atomic",
            MapType::Granular => "granular",
        });
        let extensions = [
            ("x-kubernetes-patch-strategy", merge.map(Value::from)),
            ("x-kubernetes-patch-merge-key", field.merge.key.map(Value::from)),
            ("x-kubernetes-list-type", list.map(Value::from)),
            ("x-kubernetes-list-map-keys", keys),
            ("x-kubernetes-map-type", map.map(Value::from)),
        ];
        for (name, value) in extensions.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            schema[name] = value;
        }
        schema
    }

    fn shape(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::String => json!({ "type": "string" }),
            Shape::Int32 => json!({ "type": "integer", "format": "int32" }),
            Shape::Int64 => json!({ "type": "integer", "format": "int64" }),
            Shape::Number => json!({ "type": "number", "format": "double" }),
            Shape::Boolean => json!({ "type": "boolean" }),
            Shape::Bytes => json!({ "type": "string", "format": "byte" }),
            Shape::Array(of) => json!({ "type": "array", "items": self.shape(of) }),
            Shape::Map(of) => json!({ "type": "object", "additionalProperties": self.shape(of) }),
            Shape::Struct(it) => self.typed(*it),
            own => {
                let name = types::opaque().find(|(_, shape)| *shape == own).map(|(name, _)| name);
                self.named(name.expect("the data file names every form of its own"))
            }
        }
    }

    /// A reference to the definition of this name, a struct or a form of its own.
    fn named(&mut self, name: &str) -> Value {
        if let Some(it) = TypeRef::named(name) {
            return self.typed(it);
        }
        if let Some((name, shape)) = types::opaque().find(|(own, _)| *own == name) {
            self.made.entry(name.to_owned()).or_insert_with(|| text(&own_form(name, shape, self.version)));
        }
        self.reference(name)
    }

    fn reference(&self, name: &str) -> Value {
        let place = match self.version {
            SpecVersion::V2 => "definitions",
            SpecVersion::V3 => "components/schemas",
        };
        json!({ "$ref": format!("#/{place}/{name}") })
    }
}

/// What a definition says of a schema that is open to members that nobody knows.
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// Members of a definition that say which kinds it is of.
pub(super) const GVK: &str = "x-kubernetes-group-version-kind";

/// One of them.
pub(super) fn kind_of(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}

/// Whether this member of a schema is true.
pub(super) fn is(schema: &Value, member: &str) -> bool {
    schema.get(member) == Some(&Value::Bool(true))
}

/// A schema of custom objects or lists, with what they are and the labels that select them.
fn of_kind(mut schema: Value, served: &Served, kind: &str) -> Value {
    schema[GVK] = json!([kind_of(&served.group, &served.version, kind)]);
    let fields: Vec<Value> = served.labels.declared.iter().map(|(label, _)| json!({ "fieldPath": label })).collect();
    if !fields.is_empty() {
        schema["x-kubernetes-selectable-fields"] = fields.into();
    }
    schema
}

/// What is made is kept as text, which takes a fraction of a tree's memory.
pub(super) fn text(tree: &Value) -> Box<RawValue> {
    to_raw_value(tree).expect("a tree has string keys and no failing serializer")
}

fn own_form(name: &str, shape: &Shape, version: SpecVersion) -> Value {
    match shape {
        Shape::Quantity if version == SpecVersion::V2 => json!({ "type": "string" }),
        Shape::IntOrString if version == SpecVersion::V2 => json!({ "format": "int-or-string", "type": "string" }),
        Shape::Quantity => json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
        Shape::IntOrString => json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] }),
        Shape::Time | Shape::MicroTime => json!({ "type": "string", "format": "date-time" }),
        // A part of a schema may be of any JSON type; the others are objects.
        _ if name.contains("apiextensions") => json!({}),
        _ => json!({ "type": "object" }),
    }
}
