//! Documents as messages of gnostic's protobuf, which clients ask for instead of JSON: made of the JSON by tables of its messages.
//!
//! What has no field is left out. A value of any type is YAML in there.

mod v2;
mod v3;

use std::collections::BTreeMap;

use serde_json::{Map, Value, value::RawValue};

use super::schemas::SpecVersion;
use go::yaml::yaml;

/// Members of members of the document that are read one at a time: paths, and schemas.
const DEPTH: usize = 3;

/// A message, and how it is made of JSON.
enum Message {
    /// Members are fields; those that begin with `x-` go into the field of this number, if there is one.
    Record(&'static [(u32, &'static str, Field)], u32),
    /// Members are messages of a name and a value in the field of this number; `x-` as above.
    Map(u32, Field, u32),
    /// Which field of several the value goes into.
    Choice(fn(&Value) -> (u32, Field)),
}

/// What a field is made of.
#[derive(Clone, Copy)]
enum Field {
    Text,
    Bool,
    Int,
    Double,
    /// A list of strings, or one.
    Texts,
    /// A value of any type.
    Any,
    /// A list of such.
    Anys,
    /// Strings in a message of their own.
    TextsInside,
    One(&'static Message),
    Many(&'static Message),
    /// One in a list of messages inside a message.
    Alone(&'static Message),
}

/// Returns the message of a document.
pub(super) fn encode(version: SpecVersion, json: &[u8]) -> Vec<u8> {
    let document = match version {
        SpecVersion::V2 => &v2::DOCUMENT,
        SpecVersion::V3 => &v3::DOCUMENT,
    };
    let raw: &RawValue = serde_json::from_slice(json).expect("a document is JSON");
    let mut out = Vec::with_capacity(json.len());
    raw_message(document, raw, DEPTH, &mut out);
    out
}

/// Writes a message of which a part at a time is a tree.
fn raw_message(message: &Message, raw: &RawValue, depth: usize, out: &mut Vec<u8>) {
    // What became too deep for a tree, by what every object has, has no members.
    let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).unwrap_or_default();
    if depth == 0 || matches!(message, Message::Choice(_)) {
        return whole(message, &value(raw), out);
    }
    let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get()) else { return };
    match message {
        Message::Record(fields, extension) => {
            for (number, name, field) in *fields {
                match (members.get(*name), field) {
                    (Some(raw), Field::One(message)) => nested(*number, out, |out| raw_message(message, raw, depth - 1, out)),
                    (Some(raw), field) => put(*number, *field, &value(raw), out),
                    (None, _) => {}
                }
            }
            let more = members.iter().filter(|(name, _)| name.starts_with("x-"));
            more.for_each(|(name, raw)| named(*extension, name, out, |out| put(2, Field::Any, &value(raw), out)));
        }
        Message::Map(number, field, extension) => {
            for (name, raw) in members {
                if name.starts_with("x-") && *extension != 0 {
                    named(*extension, &name, out, |out| put(2, Field::Any, &value(raw), out));
                } else {
                    named(*number, &name, out, |out| put(2, *field, &value(raw), out));
                }
            }
        }
        Message::Choice(_) => {}
    }
}

fn whole(message: &Message, value: &Value, out: &mut Vec<u8>) {
    let none = Map::new();
    let members = value.as_object().unwrap_or(&none);
    match message {
        Message::Record(fields, extension) => {
            for (number, name, field) in *fields {
                if let Some(value) = members.get(*name) {
                    put(*number, *field, value, out);
                }
            }
            if *extension != 0 {
                let more = members.iter().filter(|(name, _)| name.starts_with("x-"));
                more.for_each(|(name, value)| named(*extension, name, out, |out| put(2, Field::Any, value, out)));
            }
        }
        Message::Map(number, field, extension) => {
            for (name, value) in members {
                let (number, field) = if name.starts_with("x-") && *extension != 0 { (*extension, Field::Any) } else { (*number, *field) };
                named(number, name, out, |out| put(2, field, value, out));
            }
        }
        Message::Choice(choose) => {
            let (number, field) = choose(value);
            match (field, value) {
                // Which one it is shows, whatever its value.
                (Field::Bool, Value::Bool(false)) => tag(number, 0, out).push(0),
                (Field::Double, value) if value.as_f64() == Some(0.0) => tag(number, 1, out).extend([0; 8]),
                (Field::Text, Value::String(text)) => bytes(number, text.as_bytes(), out),
                _ if number == 0 => {}
                (field, value) => put(number, field, value, out),
            }
        }
    }
}

/// Writes a field. What is of another type than the field's is left out, and so are zeros.
fn put(number: u32, field: Field, value: &Value, out: &mut Vec<u8>) {
    match field {
        Field::Text => value.as_str().filter(|text| !text.is_empty()).into_iter().for_each(|text| bytes(number, text.as_bytes(), out)),
        Field::Bool => value.as_bool().filter(|is| *is).into_iter().for_each(|_| tag(number, 0, out).push(1)),
        Field::Int => {
            if let Some(number_of) = value.as_i64().filter(|it| *it != 0) {
                varint(number_of.cast_unsigned(), tag(number, 0, out));
            }
        }
        Field::Double => {
            if let Some(double) = value.as_f64().filter(|it| *it != 0.0) {
                tag(number, 1, out).extend(double.to_le_bytes());
            }
        }
        Field::Texts => texts(value).for_each(|text| bytes(number, text.as_bytes(), out)),
        Field::Any => nested(number, out, |out| any(value, out)),
        Field::Anys => value.as_array().into_iter().flatten().for_each(|value| nested(number, out, |out| any(value, out))),
        Field::TextsInside => nested(number, out, |out| put(1, Field::Texts, value, out)),
        Field::One(message) => nested(number, out, |out| whole(message, value, out)),
        Field::Many(message) => {
            value.as_array().into_iter().flatten().for_each(|value| nested(number, out, |out| whole(message, value, out)));
        }
        Field::Alone(message) => nested(number, out, |out| nested(1, out, |out| whole(message, value, out))),
    }
}

/// Strings of a list, or one string.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice).iter().filter_map(Value::as_str)
}

fn any(value: &Value, out: &mut Vec<u8>) {
    let json = value.to_string();
    // JSON is YAML, too, if it has none of its own.
    bytes(2, &yaml(json.as_bytes()).unwrap_or_else(|_| json.into_bytes()), out);
}

fn named(number: u32, name: &str, out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    nested(number, out, |out| {
        if !name.is_empty() {
            bytes(1, name.as_bytes(), out);
        }
        value(out);
    });
}

/// Writes a message whose length is known when it is there.
fn nested(number: u32, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    tag(number, 2, out);
    let at = out.len();
    fill(out);
    let mut length = Vec::with_capacity(5);
    varint((out.len() - at) as u64, &mut length);
    out.splice(at..at, length);
}

fn bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint(bytes.len() as u64, tag(number, 2, out));
    out.extend_from_slice(bytes);
}

fn tag(number: u32, wire: u32, out: &mut Vec<u8>) -> &mut Vec<u8> {
    varint(u64::from(number << 3 | wire), out);
    out
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
