//! What kube-apiserver does to each custom resource that it reads from etcd: members that the schema of its definition does not know go, members that have a
//! default and are missing get it (spec api-surface §11.3). A definition may change when its objects are long written.
//!
//! [`Structural::fits`] looks at the text alone: nearly every object was written under the schema that its definition still has, and needs nothing.
//! What other objects are read as is written from text to text (`read`), within a limit: defaults may make megabytes of a few bytes.

mod cursor;
mod defaults;
mod read;

use std::{collections::BTreeMap, fmt, sync::LazyLock};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

use super::Text;
use defaults::DefaultValue;
pub use defaults::tree_bytes;
pub use read::{DEFAULTED_BYTES_MAX, Unread};

/// Members that every whole object has. A schema has hardly a say in them (spec api-surface §11.1), so they are left alone.
const OF_OBJECTS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// As much of an OpenAPI v3 schema as pruning and defaulting need. Read from the schema's JSON; a schema has tens of thousands of nodes at most (1.5 MiB).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Raw")]
pub struct Structural {
    /// Sorted by name; none where nothing is said that matters here.
    properties: Properties,
    /// Those that have defaults, by their places.
    defaulted: Box<[u32]>,
    additional: Option<Box<Additional>>,
    items: Option<Box<Structural>>,
    default: Option<Box<DefaultValue>>,
    nullable: bool,
    preserves: bool,
    /// True of the root.
    embedded: bool,
    /// A value may get defaults inside of it.
    fills: bool,
    /// Bytes that it takes with all below it.
    weight: u32,
}

/// A schema as it is read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Raw {
    #[serde(deserialize_with = "properties")]
    properties: Properties,
    #[serde(rename = "additionalProperties")]
    additional: Option<Box<Additional>>,
    items: Option<Box<Structural>>,
    default: Option<Box<DefaultValue>>,
    nullable: bool,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    preserves: bool,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    embedded: bool,
}

impl From<Raw> for Structural {
    fn from(raw: Raw) -> Self {
        let Raw { properties, additional, items, default, nullable, preserves, embedded } = raw;
        let schema = Self { properties, additional, items, default, nullable, preserves, embedded, ..Self::default() };
        schema.indexed()
    }
}

type Properties = Box<[(Box<str>, Option<Box<Structural>>)]>;

/// `additionalProperties`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Additional {
    /// Any, of which only scalars and lists of them are kept: there is no schema that knows their members.
    Any,
    Like(Structural),
}

impl<'de> Deserialize<'de> for Additional {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BoolOrSchema;
        impl<'de> Visitor<'de> for BoolOrSchema {
            type Value = Additional;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a boolean or a schema")
            }

            fn visit_bool<E>(self, _: bool) -> Result<Additional, E> {
                Ok(Additional::Any)
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Additional, A::Error> {
                Structural::deserialize(MapAccessDeserializer::new(members)).map(Additional::Like)
            }
        }
        deserializer.deserialize_any(BoolOrSchema)
    }
}

/// What says nothing that matters here: `{"type": "string"}`.
static LEAF: LazyLock<Structural> = LazyLock::new(|| Structural::default().indexed());

fn properties<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Properties, D::Error> {
    let properties = BTreeMap::<Box<str>, Structural>::deserialize(deserializer)?;
    Ok(properties.into_iter().map(|(name, schema)| (name, (schema != *LEAF).then(|| Box::new(schema)))).collect())
}

impl Structural {
    /// Of the whole object, by the schema's JSON.
    ///
    /// # Errors
    /// It is no schema, or nested too deep.
    pub fn of_root(schema: &str) -> Result<Self, serde_json::Error> {
        let schema = Self { embedded: true, ..serde_json::from_str(schema)? };
        Ok(schema.indexed())
    }

    /// Returns whether the schema leaves the object as it is. Of what is no JSON, or nested too deep, it says no.
    #[must_use]
    pub fn fits(&self, text: &str) -> bool {
        let mut text = serde_json::Deserializer::from_str(text);
        Walk { schema: Some(self), skips: self.preserves }.deserialize(&mut text).is_ok()
    }

    /// Finds out which of its values get defaults.
    fn indexed(mut self) -> Self {
        let is_defaulted = |(_, (name, schema)): &(usize, &(Box<str>, Option<Box<Self>>))| {
            schema.as_ref().is_some_and(|schema| schema.default.is_some()) && !self.is_head(name)
        };
        let defaulted = self.properties.iter().enumerate().filter(is_defaulted).map(|(at, _)| u32::try_from(at).unwrap_or(u32::MAX));
        self.defaulted = defaulted.collect();
        let may_fill = |schema: &Self| schema.fills || schema.default.is_some();
        let additional = self.additional.iter().any(|additional| matches!(&**additional, Additional::Like(schema) if may_fill(schema)));
        self.fills =
            additional || self.items.iter().any(|schema| may_fill(schema)) || self.own_properties().any(|(_, schema)| may_fill(schema));
        self.weight = u32::try_from(self.weigh()).unwrap_or(u32::MAX);
        self
    }

    fn weigh(&self) -> usize {
        let property = |(name, schema): &(Box<str>, Option<Box<Self>>)| name.len() + schema.as_ref().map_or(0, |schema| schema.weight());
        let additional = match self.additional.as_deref() {
            Some(Additional::Like(schema)) => schema.weight(),
            Some(Additional::Any) => size_of::<Additional>(),
            None => 0,
        };
        let default = self.default.as_ref().map_or(0, |default| size_of::<DefaultValue>() + default.text.len());
        size_of::<Self>()
            + size_of_val(&*self.properties)
            + self.properties.iter().map(property).sum::<usize>()
            + size_of_val(&*self.defaulted)
            + self.items.as_ref().map_or(0, |schema| schema.weight())
            + additional
            + default
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight as usize
    }

    /// Prunes, and sets defaults.
    #[cfg(test)]
    fn apply(&self, object: &mut Value) {
        self.prune(object);
        self.set_defaults(object);
    }

    /// Prunes, and sets no defaults.
    pub fn prune(&self, object: &mut Value) {
        prune(object, Some(self));
        drop_nulls(object, Some(self));
    }

    /// That of a writer without a schema, who prunes nothing.
    #[must_use]
    pub fn of_anything() -> Self {
        Self { preserves: true, embedded: true, ..Self::default() }
    }

    /// Whether every value that `writer`'s pruning and defaulting left is shown unchanged by this one's: another version of the same resource may then be made
    /// of the stored bytes. Where that is not sure, it says no.
    #[must_use]
    pub fn keeps(&self, writer: &Self) -> bool {
        self == writer
            || self.nullable == writer.nullable
                && self.embedded == writer.embedded
                && self.keeps_properties(writer)
                && self.keeps_additional(writer)
                && self.keeps_items(writer)
                && (self.preserves || !writer.preserves)
    }

    /// Every property that may be there is known; every default that would be set was set at the write.
    fn keeps_properties(&self, writer: &Self) -> bool {
        let is_open = writer.additional.is_some() || writer.preserves;
        let survives = |(name, schema): (&str, &Self)| match (self.property(name), self.additional.as_deref()) {
            (Some(known), _) | (None, Some(Additional::Like(known))) => known.keeps(schema),
            (None, Some(Additional::Any)) => false,
            (None, None) => self.preserves,
        };
        // A property that the writer let in as an unknown one, unpruned, would be pruned and defaulted now.
        let was_set = |(name, schema): (&str, &Self)| match writer.property(name) {
            Some(written) => schema.default == written.default,
            None => schema.default.is_none() && !is_open,
        };
        writer.own_properties().all(survives) && self.own_properties().all(was_set)
    }

    fn keeps_additional(&self, writer: &Self) -> bool {
        match (self.additional.as_deref(), writer.additional.as_deref()) {
            (_, None) | (Some(Additional::Any), Some(Additional::Any)) => true,
            (Some(Additional::Like(known)), Some(Additional::Like(written))) => known.keeps(written),
            (Some(_), Some(_)) => false,
            (None, Some(_)) => self.preserves,
        }
    }

    fn keeps_items(&self, writer: &Self) -> bool {
        match (&self.items, &writer.items) {
            (_, None) => true,
            (Some(known), Some(written)) => known.keeps(written),
            (None, Some(_)) => self.preserves,
        }
    }

    /// Properties but for those that every whole object has.
    fn own_properties(&self) -> impl Iterator<Item = (&str, &Self)> {
        let all = self.properties.iter().map(|(name, schema)| (&**name, schema.as_deref().unwrap_or(&LEAF)));
        all.filter(|(name, _)| !self.is_head(name))
    }

    fn property(&self, name: &str) -> Option<&Self> {
        self.properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok().map(|at| self.properties[at].1.as_deref().unwrap_or(&LEAF))
    }

    /// What is known of a member: nothing, or its schema, if there is one.
    fn member(&self, name: &str) -> Option<Option<&Self>> {
        if self.is_head(name) {
            return None;
        }
        self.property(name).map(Some).or_else(|| {
            self.additional.as_deref().map(|additional| match additional {
                Additional::Any => None,
                Additional::Like(schema) => Some(schema),
            })
        })
    }

    fn is_head(&self, name: &str) -> bool {
        self.embedded && OF_OBJECTS.contains(&name)
    }

    /// A null that is no value, and has a default or goes.
    fn is_wrong_null(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }

    /// The properties that have defaults, sorted by name.
    fn defaulted(&self) -> impl Iterator<Item = (&str, &Self, &DefaultValue)> {
        let property = |at: &u32| {
            let (name, schema) = self.properties.get(*at as usize)?;
            let schema = schema.as_deref()?;
            Some((&**name, schema, schema.default.as_deref()?))
        };
        self.defaulted.iter().filter_map(property)
    }

    #[cfg(test)]
    fn set_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, schema, default) in self.defaulted() {
                    if members.get(name).is_none_or(|value| schema.is_wrong_null(value)) {
                        members.insert(name.to_owned(), default.tree());
                    }
                }
                for (name, value) in members.iter_mut() {
                    if let Some(Some(schema)) = self.member(name) {
                        schema.set_default(value);
                    }
                }
            }
            Value::Array(items) => {
                let schema = self.items.as_deref();
                items.iter_mut().for_each(|item| schema.into_iter().for_each(|schema| schema.set_default(item)));
            }
            _ => {}
        }
    }

    #[cfg(test)]
    fn set_default(&self, value: &mut Value) {
        if let (true, Some(default)) = (self.is_wrong_null(value), &self.default) {
            *value = default.tree();
        }
        self.set_defaults(value);
    }
}

/// Without a schema no member is known.
fn prune(value: &mut Value, schema: Option<&Structural>) {
    match value {
        Value::Object(members) => {
            let Some(schema) = schema else { return members.clear() };
            members.retain(|name, value| {
                if schema.is_head(name) {
                    return true;
                }
                match schema.member(name) {
                    Some(schema) => prune(value, schema),
                    None => return schema.preserves,
                }
                true
            });
        }
        Value::Array(items) => match schema {
            Some(schema) if schema.preserves => items.iter_mut().for_each(|item| prune_known(item, schema.items.as_deref())),
            _ => items.iter_mut().for_each(|item| prune(item, schema.and_then(|schema| schema.items.as_deref()))),
        },
        _ => {}
    }
}

/// Below what preserves unknown members: only those that are known are pruned.
fn prune_known(value: &mut Value, schema: Option<&Structural>) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(members) => {
            for (name, value) in members.iter_mut().filter(|(name, _)| !schema.is_head(name)) {
                if let Some(schema) = schema.member(name) {
                    prune(value, schema);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prune_known(item, schema.items.as_deref())),
        _ => {}
    }
}

fn drop_nulls(value: &mut Value, schema: Option<&Structural>) {
    match value {
        Value::Object(members) => members.retain(|name, value| {
            let schema = schema.and_then(|schema| schema.member(name)).flatten();
            let goes = schema.is_some_and(|schema| schema.is_wrong_null(value) && schema.default.is_none());
            if !goes {
                drop_nulls(value, schema);
            }
            !goes
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| drop_nulls(item, schema.and_then(|schema| schema.items.as_deref()))),
        _ => {}
    }
}

/// Goes through a text and fails where the schema would change something. Tells whether the value is null.
#[derive(Clone, Copy)]
struct Walk<'s> {
    schema: Option<&'s Structural>,
    /// Unknown members stay.
    skips: bool,
}

impl<'s> Walk<'s> {
    fn of(schema: Option<&'s Structural>) -> Self {
        Self { schema, skips: schema.is_some_and(|schema| schema.preserves) }
    }

    fn items(self) -> Self {
        let schema = self.schema.and_then(|schema| schema.items.as_deref());
        // Below a list that preserves, what has no schema is left alone.
        Self { schema, skips: self.skips || schema.is_some_and(|schema| schema.preserves) }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        let changes = || A::Error::custom("the schema changes it");
        let mut defaulted = 0;
        while let Some(Text(name)) = members.next_key()? {
            let name = name.as_ref();
            let Some(schema) = self.schema.filter(|schema| !schema.is_head(name)) else {
                if self.schema.is_none() && !self.skips {
                    return Err(changes());
                }
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            match schema.member(name) {
                Some(of_member) => {
                    let is_null = members.next_value_seed(Walk::of(of_member))?;
                    if is_null && of_member.is_some_and(|schema| !schema.nullable) {
                        return Err(changes());
                    }
                    defaulted += usize::from(schema.property(name).is_some_and(|schema| schema.default.is_some()));
                }
                None if self.skips => drop(members.next_value::<IgnoredAny>()?),
                None => return Err(changes()),
            }
        }
        let missing = self.schema.is_some_and(|schema| schema.defaulted.len() > defaulted);
        if missing { Err(changes()) } else { Ok(false) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let of_items = self.items();
        while let Some(is_null) = items.next_element_seed(of_items)? {
            if is_null && of_items.schema.is_some_and(|schema| !schema.nullable && schema.default.is_some()) {
                return Err(A::Error::custom("the schema changes it"));
            }
        }
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(true)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
