//! The messages of Kubernetes' protobuf, read once from `schema.txt`: numbers, JSON names, types, and which minors have them.

use std::{collections::HashMap, sync::LazyLock};

/// The whole file, parsed once. Every name in it lives as long as the program.
pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("schema.txt")));

/// The minor as which this server speaks for itself: what it takes in bodies, and what it prints of values that do not have it.
const LAW: &str = "36";

/// Messages and the kinds that they are.
#[derive(Debug)]
pub(super) struct Schema {
    messages: Vec<MessageType>,
    /// Sorted.
    pub(super) kinds: Vec<KindOf>,
}

/// A kind and its message. Sorted by kind, then by version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KindOf {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) message: MessageRef,
    /// Whether [`LAW`] has it.
    pub(super) in_law: bool,
}

impl KindOf {
    /// Whether it is the list of a resource.
    pub(super) fn is_list(&self) -> bool {
        SCHEMA.message(self.message).members.contains(&"items")
    }
}

/// The index of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageRef(u16);

/// A message: its fields in the order in which Go prints them as JSON.
#[derive(Debug)]
pub(super) struct MessageType {
    pub(super) json_shape: JsonShape,
    pub(super) fields: Box<[Field]>,
    /// Indices of the fields, in the order of their numbers: the order on the wire.
    pub(super) by_number: Box<[u8]>,
    /// For each number the index of its field, plus one.
    index: Box<[u8]>,
    /// Names of the members that JSON has for it, in order: those of its fields, and in the place of an inline field those of its message.
    pub(super) members: Box<[&'static str]>,
}

/// What a message is in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonShape {
    /// An object with a member for each field.
    Object,
    /// An array: the message has one repeated field.
    Items,
    /// A string: RFC 3339 with seconds.
    Time,
    /// A string: RFC 3339 with six digits of a second.
    MicroTime,
    /// A string, in the form of [`go::quantity`].
    Quantity,
    /// A number or a string.
    IntOrString,
    /// Whatever JSON its only field holds.
    Raw,
    /// A boolean, or the message of its second field.
    OrBool,
    /// The message of its first field, or an array of its second.
    OrList,
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// The JSON name in quotes with its colon; empty when it is inline or its message has a form of its own.
    pub(super) key: &'static str,
    pub(super) cardinality: Cardinality,
    pub(super) value_type: ValueType,
    /// Go's `omitempty`.
    pub(super) omit_empty: bool,
    /// Go's `omitzero`.
    pub(super) omit_zero: bool,
    /// Whether JSON has it when the message does not: as [`LAW`] has it.
    pub(super) always: bool,
    /// Whether [`LAW`] has it.
    pub(super) in_law: bool,
    /// Whether every minor has it.
    pub(super) in_all: bool,
    /// The first of its places among the members of its message.
    pub(super) place: u16,
}

/// How often a field stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cardinality {
    /// Once; a zero value when it is missing.
    Plain,
    /// A pointer in Go: once, or missing.
    Optional,
    Repeated,
    /// Entries with a string as key.
    Map,
    /// Its members stand in the object around it.
    Inline,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Message(MessageRef),
}

impl Field {
    /// For errors.
    pub(super) fn name(&self) -> &'static str {
        self.key.get(1..self.key.len().saturating_sub(2)).unwrap_or_default()
    }
}

impl MessageType {
    /// The index of the field of this number.
    pub(super) fn field(&self, number: u32) -> Option<usize> {
        self.index.get(number as usize).and_then(|index| usize::from(*index).checked_sub(1))
    }
}

impl Schema {
    pub(super) fn message(&self, message: MessageRef) -> &MessageType {
        &self.messages[usize::from(message.0)]
    }

    /// The message of a kind.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        self.kinds.binary_search_by(|known| (known.kind, known.api_version).cmp(&(kind, api_version))).ok()
    }

    /// Whether a value that has nothing but what all minors have is printed otherwise by another one than [`LAW`]: somewhere that every value has, it gives a
    /// field by default that not all have.
    pub(super) fn is_printed_otherwise(&self, message: MessageRef) -> bool {
        self.message(message).fields.iter().any(|field| match (field.cardinality, field.value_type) {
            (Cardinality::Optional | Cardinality::Repeated | Cardinality::Map, _) if field.omit_empty => false,
            _ if !field.in_all => true,
            (Cardinality::Plain | Cardinality::Inline, ValueType::Message(inner)) => self.is_printed_otherwise(inner),
            _ => false,
        })
    }

    /// Whether all minors have all fields that are in a message, at any depth.
    pub(super) fn is_the_same_in_all(&self, message: MessageRef) -> bool {
        let (mut seen, mut open) = (vec![false; self.messages.len()], vec![message]);
        while let Some(message) = open.pop() {
            if !std::mem::replace(&mut seen[usize::from(message.0)], true) {
                let fields = &self.message(message).fields;
                if fields.iter().any(|field| !field.in_all) {
                    return false;
                }
                open.extend(
                    fields.iter().filter_map(|field| if let ValueType::Message(inner) = field.value_type { Some(inner) } else { None }),
                );
            }
        }
        true
    }

    pub(super) fn parse(text: &'static str) -> Self {
        let refs = names(text);
        let (mut messages, mut kinds): (Vec<Draft>, Vec<KindOf>) = (Vec::with_capacity(refs.len()), Vec::new());
        let mut package = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_ascii_whitespace();
            match (line.as_bytes().first(), words.next()) {
                (Some(b' '), Some(number)) => {
                    let number = number.parse().unwrap_or_else(|_| panic!("a number of a field: {line}"));
                    let last = messages.last_mut().unwrap_or_else(|| panic!("a message before {line}"));
                    last.fields.push(field(number, words, &|name| match name.strip_prefix('.').and_then(|name| name.rsplit_once('.')) {
                        Some((package, name)) => refs.get(&(package, name)).copied(),
                        None => refs.get(&(package, name)).copied(),
                    }));
                }
                (Some(b'p'), _) => package = words.next().unwrap_or_default(),
                (Some(b'm'), _) => {
                    let message = MessageRef(u16::try_from(messages.len()).expect("some 1500 messages"));
                    words.next();
                    let mut json_shape = JsonShape::Object;
                    while let Some(word) = words.next() {
                        match word.rsplit_once('/') {
                            Some((api_version, kind)) => {
                                let (kind, minors) = kind.split_once('@').map_or((kind, None), |(kind, minors)| (kind, Some(minors)));
                                kinds.push(KindOf { kind, api_version, message, in_law: is_in_law(minors) });
                            }
                            None => json_shape = json_shape_of(words.next().unwrap_or_default()),
                        }
                    }
                    messages.push(Draft { json_shape, fields: Vec::new() });
                }
                _ => panic!("a line of the schema: {line}"),
            }
        }
        kinds.sort_unstable();
        Self { messages: finish(messages), kinds }
    }
}

/// A message whose lines are being read.
struct Draft {
    json_shape: JsonShape,
    fields: Vec<Field>,
}

/// Package and name of every message, in the order of the file.
fn names(text: &'static str) -> HashMap<(&'static str, &'static str), MessageRef> {
    let mut found = HashMap::new();
    let mut package = "";
    for line in text.lines() {
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("package"), Some(name)) => package = name,
            (Some("message"), Some(name)) => {
                let next = MessageRef(u16::try_from(found.len()).expect("some 1500 messages"));
                found.insert((package, name), next);
            }
            _ => {}
        }
    }
    found
}

fn json_shape_of(word: &str) -> JsonShape {
    match word {
        "items" => JsonShape::Items,
        "time" => JsonShape::Time,
        "micro-time" => JsonShape::MicroTime,
        "quantity" => JsonShape::Quantity,
        "int-or-string" => JsonShape::IntOrString,
        "raw" => JsonShape::Raw,
        "or-bool" => JsonShape::OrBool,
        "or-array" | "or-strings" => JsonShape::OrList,
        _ => panic!("no form {word}"),
    }
}

/// The rest of a field's line.
fn field(number: u32, words: std::str::SplitAsciiWhitespace<'static>, message: &dyn Fn(&'static str) -> Option<MessageRef>) -> Field {
    let mut words = words.peekable();
    let key = words.next_if(|word| word.starts_with('"')).unwrap_or_default();
    let inline = words.next_if_eq(&"inline").is_some();
    let shape = words.next().unwrap_or_default();
    let options: Vec<&str> = words.collect();
    let (cardinality, name) = match shape.as_bytes() {
        [b'*', ..] => (Cardinality::Optional, &shape[1..]),
        [b'[', b']', ..] => (Cardinality::Repeated, &shape[2..]),
        [b'{', b'}', ..] => (Cardinality::Map, &shape[2..]),
        _ if inline => (Cardinality::Inline, shape),
        _ => (Cardinality::Plain, shape),
    };
    let value_type = match name {
        "string" => ValueType::String,
        "bool" => ValueType::Bool,
        "int32" => ValueType::Int32,
        "int64" => ValueType::Int64,
        "double" => ValueType::Double,
        "bytes" => ValueType::Bytes,
        name => ValueType::Message(message(name).unwrap_or_else(|| panic!("no message {name}"))),
    };
    let has = |option| options.contains(&option);
    let minors = options.iter().find_map(|option| option.strip_prefix('@'));
    let in_law = is_in_law(minors);
    let (omit_empty, omit_zero) = (has("omitempty"), has("omitzero"));
    // What a struct is by its form is known when all are read.
    let always = in_law
        && !omit_zero
        && (!omit_empty
            || cardinality == Cardinality::Inline
            || cardinality == Cardinality::Plain && matches!(value_type, ValueType::Message(_)));
    Field { number, key, cardinality, value_type, omit_empty, omit_zero, always, in_law, in_all: minors.is_none(), place: 0 }
}

/// Whether [`LAW`] is among these minors; not told, all have it.
fn is_in_law(minors: Option<&str>) -> bool {
    minors.is_none_or(|minors| minors.split(',').any(|minor| minor == LAW))
}

/// Gives fields their places and messages their indices.
fn finish(drafts: Vec<Draft>) -> Vec<MessageType> {
    let members: Vec<Vec<&'static str>> = (0..drafts.len()).map(|at| members(&drafts, at)).collect();
    let mut finished = Vec::with_capacity(drafts.len());
    for (draft, names) in drafts.into_iter().zip(&members) {
        let mut fields = draft.fields;
        let mut place = 0;
        for field in &mut fields {
            field.place = place;
            place += match (field.cardinality, field.value_type) {
                (Cardinality::Inline, ValueType::Message(inner)) => members[usize::from(inner.0)].len() as u16,
                _ => 1,
            };
        }
        let mut by_number: Vec<u8> = (0..fields.len()).map(|i| u8::try_from(i).expect("a message has fewer than 255 fields")).collect();
        by_number.sort_unstable_by_key(|i| fields[usize::from(*i)].number);
        let mut index = vec![0; fields.iter().map(|field| field.number as usize + 1).max().unwrap_or(0)];
        for (i, field) in (1..).zip(&fields) {
            index[field.number as usize] = i;
        }
        finished.push(MessageType {
            json_shape: draft.json_shape,
            fields: fields.into(),
            by_number: by_number.into(),
            index: index.into(),
            members: names.as_slice().into(),
        });
    }
    finished
}

/// The names of the members of a message, in order.
fn members(drafts: &[Draft], at: usize) -> Vec<&'static str> {
    let mut names = Vec::new();
    for field in &drafts[at].fields {
        match (field.cardinality, field.value_type) {
            (Cardinality::Inline, ValueType::Message(inner)) => names.extend(members(drafts, usize::from(inner.0))),
            _ => names.push(field.name()),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole() {
        assert!(SCHEMA.messages.len() > 1100 && SCHEMA.kinds.len() > 380, "{} {}", SCHEMA.messages.len(), SCHEMA.kinds.len());
        for message in &SCHEMA.messages {
            let fields = &message.fields;
            for (i, field) in fields.iter().enumerate() {
                assert_eq!(message.field(field.number), Some(i), "{}", field.name());
                assert!(
                    field.number > 0
                        && field.key.is_empty() == (message.json_shape != JsonShape::Object || field.cardinality == Cardinality::Inline)
                );
                assert!(
                    field.cardinality != Cardinality::Inline
                        || matches!(field.value_type, ValueType::Message(inner) if SCHEMA.message(inner).json_shape == JsonShape::Object)
                );
            }
            assert!(
                fields.iter().all(|field| field.cardinality != Cardinality::Map
                    || matches!(field.value_type, ValueType::String | ValueType::Bytes | ValueType::Message(_))),
                "lengths only"
            );
            assert!(message.by_number.is_sorted_by_key(|i| fields[usize::from(*i)].number));
            assert!(message.fields.iter().all(|field| field.number < 256), "the index by number is small");
        }
        let has_type = |of: &KindOf| SCHEMA.message(of.message).members.iter().any(|name| matches!(*name, "kind" | "apiVersion"));
        assert!(!SCHEMA.kinds.iter().any(has_type), "what an object is stands around its message");
        assert!(SCHEMA.kinds.is_sorted_by(|a, b| (a.kind, a.api_version) < (b.kind, b.api_version)), "no kind twice");
    }

    /// What another minor prints by default and ours does not, or the other way round, is told from the value alone only where such a field is in it. Of the
    /// kinds that have one in every value the answers of that minor are not made here.
    #[test]
    fn few_fields_are_printed_by_default_and_not_by_all() {
        let may_lack = |field: &Field| {
            field.omit_empty && matches!(field.cardinality, Cardinality::Optional | Cardinality::Repeated | Cardinality::Map)
        };
        let by_default = |field: &&Field| !(field.in_all || may_lack(field));
        let odd = SCHEMA.messages.iter().flat_map(|message| message.fields.iter().filter(by_default).map(Field::name));
        assert_eq!(odd.collect::<Vec<_>>(), ["stubPKCS10Request", "resources", "status", "status"]);
        let otherwise: Vec<&str> = SCHEMA.kinds.iter().filter(|of| SCHEMA.is_printed_otherwise(of.message)).map(|of| of.kind).collect();
        assert_eq!(otherwise, ["CSINode", "CSINode", "PodCertificateRequest"]);
    }

    #[test]
    fn a_minor_has_what_is_marked_with_it_and_what_is_not_marked() {
        let in_law = |api_version, kind| SCHEMA.kind(api_version, kind).map(|at| SCHEMA.kinds[at].in_law);
        assert_eq!(in_law("v1", "Pod"), Some(true));
        assert_eq!(in_law("resource.k8s.io/v1", "DeviceTaintRule"), Some(false));
        assert_eq!(in_law("autoscaling/v2beta2", "HorizontalPodAutoscaler"), Some(false));
        let pod_spec = SCHEMA.messages.iter().find(|message| message.members.contains(&"evictionResponders")).expect("of 1.37");
        let has = |number| pod_spec.field(number).map(|at| pod_spec.fields[at].in_law);
        assert_eq!((has(42), has(43), has(44)), (Some(false), Some(true), Some(false)), "1.35 alone, from 1.36 on, from 1.37 on");
    }

    #[test]
    fn inline_members_stand_in_their_place() {
        let kind = |api_version, kind| SCHEMA.message(SCHEMA.kinds[SCHEMA.kind(api_version, kind).expect("known")].message);
        let of = |message: &'static MessageType, name: &str| {
            let field = message.fields.iter().find(|field| field.name() == name).expect("known");
            let ValueType::Message(inner) = field.value_type else { panic!("{name} is a message") };
            (field, SCHEMA.message(inner))
        };
        let (_, spec) = of(kind("v1", "Pod"), "spec");
        let (field, volume) = of(spec, "volumes");
        assert_eq!((field.cardinality, field.number, volume.members[0], volume.members[1]), (Cardinality::Repeated, 1, "name", "hostPath"));
        assert_eq!(volume.fields.len(), 2);
        assert_eq!((volume.fields[1].cardinality, volume.fields[1].place, volume.fields[1].number), (Cardinality::Inline, 1, 2));
    }
}
