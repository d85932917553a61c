//! A schema as it is walked through: one node for each schema inside of it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use go::regexp::PATTERNS_BYTES_MAX;
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

use crate::{choices::Choices, formats::Format, numbers::Limits, pattern::Pattern, rules::Rule};

/// One schema.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub(crate) preserves: bool,
    /// `x-kubernetes-embedded-resource`.
    pub(crate) embedded: bool,
    /// What is somewhere in it, so that walks for the others leave it out.
    pub(crate) has: Has,
    /// The most schemas and choices that one value in it is compared with.
    pub(crate) work_max: usize,
    /// Values of all defaults in it.
    pub(crate) defaults: usize,
    pub(crate) format: Option<Box<NamedFormat>>,
    pub(crate) numbers: Option<Box<Limits>>,
    pub(crate) texts: Option<Box<Texts>>,
    pub(crate) sizes: Option<Box<Sizes>>,
    /// `enum`.
    pub(crate) choices: Option<Box<Choices>>,
    pub(crate) junctors: Option<Box<Junctors>>,
    pub(crate) required: Box<[Box<str>]>,
    /// Sorted by name.
    pub(crate) properties: Box<[(Box<str>, Node)]>,
    /// The properties that have defaults, by their places.
    pub(crate) defaulted: Box<[u32]>,
    pub(crate) additional: Option<Additional>,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) default: Option<Box<Value>>,
    pub(crate) list: Option<Box<List>>,
    pub(crate) rules: Box<[Rule]>,
    /// Which of all nodes with rules it is.
    pub(crate) rules_at: usize,
}

/// `type`, and `x-kubernetes-int-or-string`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Any,
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
    /// With the `type` that is said beside it, which objects are not asked for.
    IntOrString(Box<str>),
    /// One that nothing is of.
    Odd(Box<str>),
}

/// What is in a schema or somewhere below it, the junctors left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Has {
    pub(crate) lists: bool,
    pub(crate) embedded: bool,
    pub(crate) defaults: bool,
    pub(crate) rules: bool,
}

/// `format`.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    pub(crate) name: Box<str>,
    /// It is one that says something of the type; others are left out of what objects are compared with.
    counts: bool,
    /// That of texts.
    pub(crate) of_texts: Option<Format>,
}

/// What texts are asked for.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) length_max: Option<i64>,
    pub(crate) length_min: Option<i64>,
    pub(crate) pattern: Option<Arc<Pattern>>,
}

/// How much there may be in lists and maps.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) items_max: Option<i64>,
    pub(crate) items_min: Option<i64>,
    pub(crate) unique: bool,
    pub(crate) properties_max: Option<i64>,
    pub(crate) properties_min: Option<i64>,
}

/// Schemas of the same value.
#[derive(Debug, Default)]
pub(crate) struct Junctors {
    pub(crate) all_of: Box<[Node]>,
    pub(crate) any_of: Box<[Node]>,
    pub(crate) one_of: Box<[Node]>,
    pub(crate) not: Option<Node>,
}

/// `additionalProperties`.
#[derive(Debug)]
pub(crate) enum Additional {
    None,
    Any,
    Like(Box<Node>),
}

/// `x-kubernetes-list-type` with `x-kubernetes-list-map-keys`.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) kind: ListKind,
    pub(crate) keys: Box<[Box<str>]>,
}

/// A type of lists whose items are different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Set,
    Map,
}

impl Node {
    /// The schema of a property that is named.
    pub(crate) fn property(&self, name: &str) -> Option<&Self> {
        self.properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok().map(|at| &self.properties[at].1)
    }

    /// What is known of a member: nothing, or its schema, if there is one.
    pub(crate) fn member(&self, name: &str) -> Option<Option<&Self>> {
        self.property(name).map(Some).or(match &self.additional {
            None => None,
            Some(Additional::None | Additional::Any) => Some(None),
            Some(Additional::Like(node)) => Some(Some(node)),
        })
    }

    /// The format that a value is compared with.
    pub(crate) fn format(&self) -> Option<&NamedFormat> {
        self.format.as_deref().filter(|format| format.counts)
    }

    /// Makes of it, and of all in it, what kube-apiserver compares defaults with: any format counts, and what is an integer or a text may be anything of its
    /// `type`.
    pub(crate) fn loosen(&mut self) {
        if let Some(format) = &mut self.format {
            format.counts = true;
        }
        if let Kind::IntOrString(said) = &self.kind {
            self.kind = Kind::of(said);
        }
        self.all_mut().into_iter().for_each(Self::loosen);
    }

    pub(crate) fn all_mut(&mut self) -> Vec<&mut Self> {
        let additional = match &mut self.additional {
            Some(Additional::Like(node)) => Some(&mut **node),
            _ => None,
        };
        let junctors = self.junctors.as_deref_mut().into_iter().flat_map(Junctors::all_mut);
        self.properties.iter_mut().map(|(_, node)| node).chain(additional).chain(self.items.as_deref_mut()).chain(junctors).collect()
    }

    /// Schemas and choices that its own value is compared with.
    fn work(&self) -> usize {
        let of_junctors = self.junctors.iter().flat_map(|junctors| junctors.all()).map(Self::work).sum::<usize>();
        1 + of_junctors + self.choices.as_ref().map_or(0, |choices| choices.count() / 8)
    }

    /// The schemas directly inside of it.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Self> {
        self.below().chain(self.junctors.iter().flat_map(|junctors| junctors.all()))
    }

    /// The schemas directly inside of it, of other values than its own.
    pub(crate) fn below(&self) -> impl Iterator<Item = &Self> {
        let additional = match &self.additional {
            Some(Additional::Like(node)) => Some(&**node),
            _ => None,
        };
        self.properties.iter().map(|(_, node)| node).chain(additional).chain(self.items.as_deref())
    }
}

impl Kind {
    /// Its name in errors.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Any => "",
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
            Self::IntOrString(_) => "integer,string",
            Self::Odd(name) => name,
        }
    }

    fn of(name: &str) -> Self {
        match name {
            "" => Self::Any,
            "array" => Self::Array,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "object" => Self::Object,
            "string" => Self::String,
            odd => Self::Odd(odd.into()),
        }
    }
}

/// The JSON of a schema. What it does not have says nothing of objects, or may not be in definitions.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Raw {
    r#type: Option<String>,
    format: Option<String>,
    nullable: Option<bool>,
    maximum: Option<f64>,
    exclusive_maximum: Option<bool>,
    minimum: Option<f64>,
    exclusive_minimum: Option<bool>,
    multiple_of: Option<f64>,
    max_length: Option<i64>,
    min_length: Option<i64>,
    pattern: Option<String>,
    max_items: Option<i64>,
    min_items: Option<i64>,
    unique_items: Option<bool>,
    max_properties: Option<i64>,
    min_properties: Option<i64>,
    required: Option<Box<[Box<str>]>>,
    r#enum: Option<Box<[Value]>>,
    all_of: Option<Box<[Node]>>,
    any_of: Option<Box<[Node]>>,
    one_of: Option<Box<[Node]>>,
    not: Option<Box<Node>>,
    properties: Option<BTreeMap<Box<str>, Node>>,
    additional_properties: Option<Additional>,
    items: Option<Box<Node>>,
    default: Option<Box<Value>>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    preserves: Option<bool>,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    embedded: Option<bool>,
    #[serde(rename = "x-kubernetes-int-or-string")]
    int_or_string: Option<bool>,
    #[serde(rename = "x-kubernetes-list-type")]
    list_type: Option<String>,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    list_keys: Option<Box<[Box<str>]>>,
    #[serde(rename = "x-kubernetes-validations")]
    rules: Option<Box<[Rule]>>,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Raw::deserialize(deserializer).map(Self::from)
    }
}

impl From<Raw> for Node {
    fn from(raw: Raw) -> Self {
        let is = |flag: Option<bool>| flag.unwrap_or(false);
        let said = raw.r#type.unwrap_or_default();
        let kind = if is(raw.int_or_string) { Kind::IntOrString(said.into()) } else { Kind::of(&said) };
        let format = raw.format.filter(|name| !name.is_empty()).map(|name| Box::new(NamedFormat::of(&kind, name)));
        let numbers = Limits {
            multiple_of: raw.multiple_of,
            maximum: raw.maximum,
            excludes_maximum: is(raw.exclusive_maximum),
            minimum: raw.minimum,
            excludes_minimum: is(raw.exclusive_minimum),
        };
        let pattern = raw.pattern.filter(|pattern| !pattern.is_empty()).map(|pattern| Arc::new(Pattern::new(&pattern)));
        let texts = Texts { length_max: raw.max_length, length_min: raw.min_length, pattern };
        let sizes = Sizes {
            items_max: raw.max_items,
            items_min: raw.min_items,
            unique: is(raw.unique_items),
            properties_max: raw.max_properties,
            properties_min: raw.min_properties,
        };
        let junctors = Junctors {
            all_of: raw.all_of.unwrap_or_default(),
            any_of: raw.any_of.unwrap_or_default(),
            one_of: raw.one_of.unwrap_or_default(),
            not: raw.not.map(|not| *not),
        };
        let list = raw.list_type.and_then(|kind| {
            let kind = match &*kind {
                "set" => ListKind::Set,
                "map" => ListKind::Map,
                _ => return None,
            };
            Some(Box::new(List { kind, keys: raw.list_keys.unwrap_or_default() }))
        });
        let mut node = Self {
            kind,
            nullable: is(raw.nullable),
            preserves: is(raw.preserves),
            embedded: is(raw.embedded),
            has: Has::default(),
            work_max: 0,
            defaults: 0,
            format,
            numbers: numbers.say_anything().then(|| Box::new(numbers)),
            texts: texts.say_anything().then(|| Box::new(texts)),
            sizes: sizes.say_anything().then(|| Box::new(sizes)),
            choices: raw.r#enum.filter(|choices| !choices.is_empty()).map(|choices| Box::new(Choices::new(choices))),
            junctors: junctors.say_anything().then(|| Box::new(junctors)),
            required: raw.required.unwrap_or_default(),
            properties: raw.properties.unwrap_or_default().into_iter().collect(),
            defaulted: Box::default(),
            additional: raw.additional_properties,
            items: raw.items,
            default: raw.default.filter(|default| !default.is_null()),
            list,
            rules: raw.rules.unwrap_or_default(),
            rules_at: 0,
        };
        let any = |of: fn(Has) -> bool| node.below().any(|below| of(below.has));
        node.has = Has {
            lists: node.list.is_some() || any(|has| has.lists),
            embedded: node.embedded || any(|has| has.embedded),
            defaults: node.default.is_some() || any(|has| has.defaults),
            rules: !node.rules.is_empty() || any(|has| has.rules),
        };
        let places = node.properties.iter().zip(0_u32..).filter(|((_, property), _)| property.default.is_some());
        node.defaulted = places.map(|(_, at)| at).collect();
        let of_own = node.default.as_deref().map_or(0, values);
        node.defaults = node.below().map(|node| node.defaults).sum::<usize>() + of_own;
        node.work_max = node.all().map(|node| node.work_max).max().unwrap_or_default().max(node.work());
        node
    }
}

impl NamedFormat {
    fn of(kind: &Kind, name: String) -> Self {
        let of_texts = Format::of(&name);
        let counts = match kind {
            Kind::Any | Kind::String | Kind::IntOrString(_) => of_texts.is_some(),
            Kind::Integer => matches!(&*name, "int32" | "int64"),
            Kind::Number => matches!(&*name, "float" | "double"),
            _ => false,
        };
        Self { name: name.into(), counts, of_texts }
    }
}

/// How many values there are in one.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(members) => members.values().map(values).sum(),
        _ => 0,
    }
}

impl Texts {
    fn say_anything(&self) -> bool {
        self.length_max.is_some() || self.length_min.is_some() || self.pattern.is_some()
    }
}

impl Sizes {
    fn say_anything(&self) -> bool {
        let limits = [self.items_max, self.items_min, self.properties_max, self.properties_min];
        self.unique || limits.iter().any(Option::is_some)
    }
}

impl Junctors {
    fn all(&self) -> impl Iterator<Item = &Node> {
        [&self.all_of, &self.any_of, &self.one_of].into_iter().flat_map(|nodes| nodes.iter()).chain(&self.not)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        [&mut self.all_of, &mut self.any_of, &mut self.one_of].into_iter().flat_map(|nodes| nodes.iter_mut()).chain(&mut self.not)
    }

    fn say_anything(&self) -> bool {
        self.not.is_some() || [&self.all_of, &self.any_of, &self.one_of].iter().any(|nodes| !nodes.is_empty())
    }
}

impl<'de> Deserialize<'de> for Additional {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BoolOrSchema;
        impl<'de> Visitor<'de> for BoolOrSchema {
            type Value = Additional;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a boolean or a schema")
            }

            fn visit_bool<E: de::Error>(self, is_any: bool) -> Result<Additional, E> {
                Ok(if is_any { Additional::Any } else { Additional::None })
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Additional, A::Error> {
                Node::deserialize(MapAccessDeserializer::new(members)).map(|node| Additional::Like(Box::new(node)))
            }
        }
        deserializer.deserialize_any(BoolOrSchema)
    }
}

/// Numbers the nodes that have rules, but those of junctors, which are not evaluated. Returns how many there are.
pub(crate) fn number_rules(root: &mut Node) -> usize {
    fn walk(node: &mut Node, count: &mut usize) {
        if !node.has.rules {
            return;
        }
        if !node.rules.is_empty() {
            node.rules_at = *count;
            *count += 1;
        }
        let additional = match &mut node.additional {
            Some(Additional::Like(node)) => Some(&mut **node),
            _ => None,
        };
        let below = node.properties.iter_mut().map(|(_, node)| node).chain(additional).chain(node.items.as_deref_mut());
        below.for_each(|node| walk(node, count));
    }
    let mut count = 0;
    walk(root, &mut count);
    count
}

/// Compiles the patterns of a schema, each text once, as far as there is room for them. Returns the bytes that they take.
pub(crate) fn compile_patterns(root: &mut Node) -> usize {
    fn walk(node: &mut Node, known: &mut HashMap<Box<str>, Arc<Pattern>>, left: &mut usize) {
        if let Some(pattern) = node.texts.as_mut().and_then(|texts| texts.pattern.as_mut()) {
            let one = known.entry(pattern.text().into()).or_insert_with(|| {
                let mut pattern = Pattern::new(pattern.text());
                pattern.compile(left);
                Arc::new(pattern)
            });
            *pattern = one.clone();
        }
        node.all_mut().into_iter().for_each(|node| walk(node, known, left));
    }
    let mut known = HashMap::new();
    walk(root, &mut known, &mut { PATTERNS_BYTES_MAX });
    known.values().map(|pattern| pattern.bytes()).sum()
}
