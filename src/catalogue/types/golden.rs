//! The two tables of Go's types against each other: ours, and `schema.txt` of codec. (Decision 0020 tells why they are two.)

use std::collections::BTreeMap;

use super::{Shape, TypeRef, opaque};

const SCHEMA: &str = include_str!("../../codec/proto/schema.txt");
/// The minor of our table; the schema has others too.
const MINOR: &str = "36";
/// What we have and protobuf does not: of bodies that are never sent in it.
const OURS_ALONE: [&str; 2] = ["io.k8s.apimachinery.pkg.apis.meta.v1.Patch", "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"];
/// In protobuf they stand around the message.
const HEAD: [&str; 2] = ["apiVersion", "kind"];
const INLINE: &str = "inline";

/// A message of the schema.
struct Message {
    /// Empty when it is an object.
    form: &'static str,
    /// Name, or `INLINE`, and type, in which messages have the names of their OpenAPI definitions.
    fields: Vec<(&'static str, String)>,
}

/// All messages by the names of their OpenAPI definitions.
fn messages() -> BTreeMap<String, Message> {
    let (mut found, mut package, mut at) = (BTreeMap::new(), "", String::new());
    let is_ours = |line: &&str| line.rsplit_once(" @").is_none_or(|(_, minors)| minors.split(',').any(|minor| minor == MINOR));
    for line in SCHEMA.lines().filter(|line| !line.starts_with('#')).filter(is_ours) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (name, shape) = match words[..] {
            ["package", name] => {
                package = name;
                continue;
            }
            ["message", name, ref more @ ..] => {
                at = definition(package, name);
                let form = if let ["=", form] = more { form } else { "" };
                found.insert(at.clone(), Message { form, fields: Vec::new() });
                continue;
            }
            [_, INLINE, shape, ..] => (INLINE, shape),
            [_, name, shape, ..] if name.starts_with('"') => (name.trim_matches(['"', ':']), shape),
            [_, shape] => ("", shape),
            _ => panic!("a line of the schema: {line}"),
        };
        let message = found.get_mut(&at).expect("a message before its fields");
        message.fields.push((name, typed(package, shape.trim_start_matches('*'))));
    }
    found
}

fn definition(package: &str, name: &str) -> String {
    format!("io.k8s.{}.{name}", package.strip_prefix("k8s.io.").expect("a package of Kubernetes").replace('_', "-"))
}

fn typed(package: &str, shape: &str) -> String {
    let (how, name) = split(shape);
    match name.strip_prefix('.').and_then(|name| name.rsplit_once('.')) {
        Some((package, name)) => format!("{how}{}", definition(package, name)),
        None if name.starts_with(char::is_lowercase) => shape.to_owned(),
        None => format!("{how}{}", definition(package, name)),
    }
}

/// `[]`, `{}` or nothing, and what it is of.
fn split(shape: &str) -> (&str, &str) {
    shape.split_at(shape.find(|c| !"[]{}".contains(c)).unwrap_or(shape.len()))
}

/// The members that JSON has for a message, by name.
fn members(messages: &BTreeMap<String, Message>, name: &str) -> BTreeMap<&'static str, String> {
    let mut found = BTreeMap::new();
    for (field, shape) in &messages[name].fields {
        let (how, of) = split(shape);
        match messages.get(of) {
            Some(_) if *field == INLINE => found.extend(members(messages, of)),
            // In Go a named list.
            Some(Message { form: "items", fields }) => drop(found.insert(*field, format!("{how}{}", fields[0].1))),
            _ => drop(found.insert(*field, shape.clone())),
        }
    }
    found
}

/// A shape as the schema names it.
fn printed(shape: &Shape) -> String {
    match shape {
        Shape::String => "string".to_owned(),
        Shape::Int32 => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::Number => "double".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::Bytes => "bytes".to_owned(),
        Shape::Array(of) => format!("[]{}", printed(of)),
        Shape::Map(of) => format!("{{}}{}", printed(of)),
        Shape::Struct(it) => it.name().to_owned(),
        own => opaque().find(|(_, shape)| *shape == own).expect("a form of its own has a name").0.to_owned(),
    }
}

#[test]
fn the_tables_agree_on_every_type_and_field_that_both_have() {
    let messages = messages();
    let ours = || TypeRef::all().map(TypeRef::name).chain(opaque().map(|(name, _)| name));
    let mut alone: Vec<&str> = ours().filter(|name| !messages.contains_key(*name)).collect();
    alone.sort_unstable();
    assert_eq!(alone, OURS_ALONE);
    for it in TypeRef::all().filter(|it| !OURS_ALONE.contains(&it.name())) {
        assert_eq!(messages[it.name()].form, "", "{}", it.name());
        let theirs = members(&messages, it.name());
        let fields = it.fields().iter().filter(|field| theirs.contains_key(field.name) || !HEAD.contains(&field.name));
        let ours: BTreeMap<&str, String> = fields.map(|field| (field.name, printed(&field.shape))).collect();
        assert_eq!(ours, theirs, "{}", it.name());
    }
    for (name, shape) in opaque().filter(|(name, _)| !OURS_ALONE.contains(name)) {
        let form = messages[name].form;
        let is_same = match shape {
            Shape::Quantity => form == "quantity",
            Shape::Time => form == "time",
            Shape::MicroTime => form == "micro-time",
            Shape::IntOrString => form == "int-or-string",
            _ => form == "raw" || form.starts_with("or-"),
        };
        assert!(is_same, "{name} is {form}");
    }
}
