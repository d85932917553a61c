//! The schemas of one document: those that were asked for, and what they refer to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    custom,
    recorded::{REFERENCE, Recorded, built_in_schema_name},
    swagger,
};
use crate::{DefinedSchema, Served, definition};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Which OpenAPI a document is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SpecVersion {
    V2,
    V3,
}

/// Of which group versions a document tells the kinds that every group version has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Every<'a> {
    /// Of all that Kubernetes knows, served or not.
    All,
    /// Of all that its clients know: in documents of custom resources.
    Custom,
    /// Of core, where every client looks, and of this one.
    One(&'a str, &'a str),
}

/// The schemas that one document needs.
pub(super) struct Schemas<'a> {
    version: SpecVersion,
    every: Every<'a>,
    recorded: Arc<Recorded>,
    /// Of the custom resources that are told of now, by plural name.
    custom: &'a BTreeMap<String, DefinedSchema>,
    /// As text: of the schemas of definitions one at a time is a tree.
    made: BTreeMap<String, Box<RawValue>>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(version: SpecVersion, every: Every<'a>) -> Self {
        const NONE: &BTreeMap<String, DefinedSchema> = &BTreeMap::new();
        Self { version, every, recorded: Recorded::get(), custom: NONE, made: BTreeMap::new() }
    }

    /// What the definitions of the next group version say, by plural name.
    pub(super) fn of(&mut self, custom: &'a BTreeMap<String, DefinedSchema>) {
        self.custom = custom;
    }

    /// The schemas by name.
    pub(super) fn done(self) -> BTreeMap<String, Box<RawValue>> {
        self.made
    }

    pub(super) fn recorded(&self) -> Arc<Recorded> {
        Arc::clone(&self.recorded)
    }

    /// A reference to a type of `meta/v1`.
    pub(super) fn meta(&mut self, name: &str) -> Value {
        self.named(&format!("{META}.{name}"))
    }

    /// A reference to the type of a built-in kind; an open object when it has none.
    pub(super) fn kind(&mut self, group: &str, version: &str, kind: &str) -> Value {
        built_in_schema_name(group, version, kind).map_or_else(|| json!({ "type": "object" }), |name| self.named(name))
    }

    /// A reference to a custom resource, or to its list.
    pub(super) fn custom(&mut self, served: &Served, list: bool) -> Value {
        let name = |kind: &str| {
            let group: Vec<&str> = served.group.rsplit('.').collect();
            format!("{}.{}.{kind}", group.join("."), served.version)
        };
        let (object_name, list_name) = (name(&served.kind), name(&served.list_kind));
        if !self.made.contains_key(&object_name) {
            let recorded = self.recorded();
            let schema = self.custom.get(&served.resource).and_then(|schema| self.published(schema));
            let object = text(&custom::object(schema, served, &recorded.heads, self.version));
            let list = text(&custom::list(&object_name, served, &recorded.heads, self.version));
            for schema in [&object, &list] {
                // What a definition says has none of these.
                for name in ["ObjectMeta", "ListMeta"].map(|name| format!("{META}.{name}")) {
                    if schema.get().contains(&name) {
                        self.named(&name);
                    }
                }
            }
            self.made.insert(object_name.clone(), object);
            self.made.insert(list_name.clone(), list);
        }
        reference(self.version, if list { &list_name } else { &object_name })
    }

    /// What is told of a definition's schema, as a tree. One that preserves what is unknown is open in v2, and may be no structural one.
    fn published(&self, schema: &DefinedSchema) -> Option<Value> {
        let tree = serde_json::from_slice(&schema.json).ok();
        tree.filter(|tree| !schema.preserves || self.version == SpecVersion::V3 && definition::is_structural(tree))
    }

    /// A reference to a recorded schema, which the document has with all that it refers to.
    pub(super) fn named(&mut self, name: &str) -> Value {
        let recorded = self.recorded();
        let mut ahead = vec![name];
        while let Some(name) = ahead.pop() {
            if let Some(schema) = recorded.schemas.get(name).filter(|_| !self.made.contains_key(name)) {
                ahead.extend(Recorded::references(schema));
                self.made.insert(name.to_owned(), self.told(name, schema));
            }
        }
        reference(self.version, name)
    }

    /// A recorded schema as the document tells it.
    fn told(&self, name: &str, schema: &RawValue) -> Box<RawValue> {
        let every = self.recorded.every.get(name);
        if every.is_none() && self.version == SpecVersion::V3 {
            return schema.to_owned();
        }
        let mut schema: Value = serde_json::from_str(schema.get()).expect("the file is JSON");
        if let Some(kind) = every {
            schema[GVK] = self.places().into_iter().map(|(group, version)| kind_of(group, version, kind)).collect::<Vec<_>>().into();
        }
        if self.version == SpecVersion::V2 {
            swagger::reduce_recorded(&mut schema);
        }
        text(&schema)
    }

    fn places(&self) -> BTreeSet<(&str, &str)> {
        fn pair((group, version): &(String, String)) -> (&str, &str) {
            (group, version)
        }
        match self.every {
            Every::All => self.recorded.every_kinds.iter().map(pair).collect(),
            Every::Custom => self.recorded.custom_kinds.iter().map(pair).collect(),
            Every::One(group, version) => BTreeSet::from([("", "v1"), (group, version)]),
        }
    }
}

/// Members of a definition that say which kinds it is of.
pub(super) const GVK: &str = "x-kubernetes-group-version-kind";

/// One of them.
pub(super) fn kind_of(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}

/// A reference to a schema of this name.
pub(super) fn reference(version: SpecVersion, name: &str) -> Value {
    json!({ "$ref": format!("{}{name}", if version == SpecVersion::V2 { swagger::REFERENCE } else { REFERENCE }) })
}

/// Whether this member of a schema is true.
pub(super) fn is(schema: &Value, member: &str) -> bool {
    schema.get(member) == Some(&Value::Bool(true))
}

/// What is made is kept as text, which takes a fraction of a tree's memory.
pub(super) fn text(tree: &Value) -> Box<RawValue> {
    to_raw_value(tree).expect("a tree has string keys and no failing serializer")
}
