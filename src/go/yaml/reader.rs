//! YAML as the real server's decoder reads it: one document, 1.1 scalars, merge keys, lines of duplicate keys.

mod compose;
mod cursor;
mod events;
mod json;
mod scalar;
mod scan;
mod syntax;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use thiserror::Error;

use self::{
    compose::{Content, Node, compose},
    scalar::Scalar,
};
use super::number::general_short;
use crate::{quote::quoted, strconv::format_float};

/// Maps and lists inside each other that a document may have: what `serde_json` reads back, one below the limit of recursion that it has by default. The
/// real server allows 10,000, with the same error.
pub const DEPTH_MAX: usize = 127;
/// Duplicate keys that are told of one document, as many as the real server's decoder remembers.
const DUPLICATES_MAX: usize = 100;
/// Values that a document may stand for before aliases must be a small part of it (the real server's decoder: about half a megabyte of dense text).
const ALIAS_RATIO_RANGE_LOW: u32 = 400_000;
/// Values from which on aliases may make a tenth of them.
const ALIAS_RATIO_RANGE_HIGH: u32 = 4_000_000;
/// Bytes of scalars that aliases may repeat; ours, because a repeated scalar is a copy here.
const ALIAS_BYTES_MAX: usize = 8 << 20;

/// A document that could be read.
#[derive(Debug)]
pub struct Document {
    /// What it says.
    pub value: Value,
    /// Keys that a map has twice: `line 6: key "replicas" already set in map`.
    pub duplicates: Vec<String>,
}

/// What is wrong with a document.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum Wrong {
    /// It is no YAML; the text without `yaml: `.
    #[error("yaml: {0}")]
    Syntax(String),
    /// It is YAML that has no form in JSON.
    #[error("{0}")]
    NoJson(String),
}

/// Reads the first document; what follows it is not looked at.
///
/// # Errors
/// As far as it is cheap, the text of the real server.
pub fn parse(bytes: &[u8]) -> Result<Document, Wrong> {
    match std::str::from_utf8(bytes).ok().and_then(json::read) {
        Some(value) => Ok(Document { value, duplicates: Vec::new() }),
        None => parse_as_yaml(bytes),
    }
}

fn parse_as_yaml(bytes: &[u8]) -> Result<Document, Wrong> {
    let nodes = compose(bytes).map_err(Wrong::Syntax)?;
    let mut decoder = Decoder { nodes: &nodes, ..Decoder::default() };
    let value = if nodes.is_empty() { Value::Null } else { decoder.value(0)? };
    match decoder.no_key.or(decoder.no_number) {
        Some(problem) => Err(Wrong::NoJson(problem)),
        None => Ok(Document { value, duplicates: decoder.duplicates }),
    }
}

#[derive(Default)]
struct Decoder<'a> {
    nodes: &'a [Node],
    duplicates: Vec<String>,
    decoded: u32,
    aliased: u32,
    aliased_bytes: usize,
    depth: usize,
    /// Aliases we are inside of.
    aliases: Vec<usize>,
    /// The first key and the first number that JSON has no form for. The real server looks for them when it has read the whole document.
    no_key: Option<String>,
    no_number: Option<String>,
}

/// A key as JSON has it, and as a message shows it.
struct Key {
    name: String,
    shown: String,
    /// What is equal of keys that are the same: type and value.
    identity: String,
    /// Of a key that JSON cannot have: its type.
    no_json: Option<&'static str>,
}

/// The keys of a map, each with the name that it has in JSON.
type Seen = BTreeMap<String, String>;

impl Decoder<'_> {
    fn value(&mut self, id: usize) -> Result<Value, Wrong> {
        self.count()?;
        match &self.nodes[id].content {
            Content::Alias { target, name } => self.alias(id, *target, name),
            Content::Scalar { .. } => {
                let scalar = self.scalar(id)?;
                Ok(json_of(scalar).unwrap_or_else(|problem| {
                    self.no_number.get_or_insert(problem);
                    Value::Null
                }))
            }
            Content::List(items) => {
                self.enter()?;
                let items = items.iter().map(|&item| self.value(item)).collect::<Result<_, _>>()?;
                self.depth -= 1;
                Ok(Value::Array(items))
            }
            Content::Map(_) => {
                let mut members = Map::new();
                self.map(id, &mut members, &mut Seen::new())?;
                Ok(Value::Object(members))
            }
        }
    }

    fn enter(&mut self) -> Result<(), Wrong> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { syntax(format!("exceeded max depth of {DEPTH_MAX}")) } else { Ok(()) }
    }

    fn alias(&mut self, id: usize, target: usize, name: &str) -> Result<Value, Wrong> {
        self.is_outside(id, name)?;
        self.enter()?;
        self.aliases.push(id);
        let value = self.value(target);
        self.aliases.pop();
        self.depth -= 1;
        value
    }

    /// Whether we are not inside of this alias already.
    fn is_outside(&self, id: usize, name: &str) -> Result<(), Wrong> {
        if self.aliases.contains(&id) { syntax(format!("anchor '{name}' value contains itself")) } else { Ok(()) }
    }

    /// Adds the members of a map, those of its merge keys where these stand.
    fn map(&mut self, id: usize, members: &mut Map<String, Value>, seen: &mut Seen) -> Result<(), Wrong> {
        let Content::Map(pairs) = &self.nodes[id].content else {
            return syntax("map merge requires map or sequence of maps as the value".to_owned());
        };
        self.enter()?;
        for &(key, value) in pairs {
            if self.nodes[key].is_merge() {
                self.merge(value, members, seen)?;
                continue;
            }
            let key = self.key(key)?;
            let found = self.value(value)?;
            let known = seen.get(&key.identity);
            if known.is_some() && self.duplicates.len() < DUPLICATES_MAX {
                self.duplicates.push(format!("line {}: key {} already set in map", self.nodes[value].line, key.shown));
            }
            // 0 and -0 are the same key, with another name.
            if let Some(name) = known.filter(|name| **name != key.name) {
                members.remove(name);
            }
            if let Some(kind) = key.no_json {
                let problem = || format!("unsupported map key of type: {kind}, key: {}, value: {}", key.shown, syntax::of(&found));
                self.no_key.get_or_insert_with(problem);
            }
            seen.insert(key.identity, key.name.clone());
            members.insert(key.name, found);
        }
        self.depth -= 1;
        Ok(())
    }

    /// What follows `<<`: a map, or maps of which the first wins.
    fn merge(&mut self, id: usize, members: &mut Map<String, Value>, seen: &mut Seen) -> Result<(), Wrong> {
        match &self.nodes[id].content {
            Content::List(items) => {
                for &item in items.iter().rev() {
                    self.merge_one(item, members, seen)?;
                }
                Ok(())
            }
            _ => self.merge_one(id, members, seen),
        }
    }

    fn merge_one(&mut self, id: usize, members: &mut Map<String, Value>, seen: &mut Seen) -> Result<(), Wrong> {
        self.count()?;
        let Content::Alias { target, name } = &self.nodes[id].content else {
            return self.map(id, members, seen);
        };
        self.is_outside(id, name)?;
        self.aliases.push(id);
        let merged = self.count().and_then(|()| self.map(*target, members, seen));
        self.aliases.pop();
        merged
    }

    fn key(&mut self, id: usize) -> Result<Key, Wrong> {
        let scalar = match &self.nodes[id].content {
            Content::Alias { target, .. } if matches!(self.nodes[*target].content, Content::Scalar { .. }) => {
                self.count()?;
                self.aliases.push(id);
                let scalar = self.count().and_then(|()| self.scalar(*target));
                self.aliases.pop();
                scalar?
            }
            Content::Scalar { .. } => {
                self.count()?;
                self.scalar(id)?
            }
            _ => return self.value(id).and_then(|value| syntax(format!("invalid map key: {}", syntax::of(&value)))),
        };
        Ok(key_of(scalar))
    }

    fn scalar(&mut self, id: usize) -> Result<Scalar, Wrong> {
        let node = &self.nodes[id];
        let Content::Scalar { text, implicit } = &node.content else {
            unreachable!("only scalars are resolved");
        };
        if !self.aliases.is_empty() {
            self.aliased_bytes += text.len();
        }
        if self.aliased_bytes > ALIAS_BYTES_MAX {
            return excessive();
        }
        let tag = node.common_tag().or(node.tag.as_deref());
        scalar::resolve(tag, text, *implicit).map_err(Wrong::Syntax)
    }

    /// Counts one value, and refuses a bomb of aliases with the real server's measure.
    fn count(&mut self) -> Result<(), Wrong> {
        self.decoded += 1;
        if !self.aliases.is_empty() {
            self.aliased += 1;
        }
        let ratio = f64::from(self.aliased) / f64::from(self.decoded);
        if self.aliased > 100 && self.decoded > 1000 && ratio > allowed_alias_ratio(self.decoded) { excessive() } else { Ok(()) }
    }
}

fn allowed_alias_ratio(decoded: u32) -> f64 {
    let (low, high) = (ALIAS_RATIO_RANGE_LOW, ALIAS_RATIO_RANGE_HIGH);
    match decoded {
        _ if decoded <= low => 0.99,
        _ if decoded >= high => 0.10,
        _ => 0.99 - 0.89 * (f64::from(decoded - low) / f64::from(high - low)),
    }
}

fn excessive<T>() -> Result<T, Wrong> {
    syntax("document contains excessive aliasing".to_owned())
}

fn syntax<T>(text: String) -> Result<T, Wrong> {
    Err(Wrong::Syntax(text))
}

fn key_of(scalar: Scalar) -> Key {
    let is_zero = matches!(scalar, Scalar::Float(0.0));
    let is_float = matches!(scalar, Scalar::Float(_));
    let (name, shown, no_json) = match scalar {
        Scalar::Text(name) => (name.clone(), quoted(&name), None),
        Scalar::Bool(value) => (value.to_string(), value.to_string(), None),
        Scalar::Int(value) => (value.to_string(), value.to_string(), None),
        Scalar::Unsigned(value) => (value.to_string(), format!("{value:#x}"), Some("uint64")),
        Scalar::Float(value) => {
            #[expect(clippy::cast_possible_truncation, reason = "the real server prints a key as a float32")]
            let name = match value as f32 {
                short if short.is_nan() => ".nan".to_owned(),
                f32::INFINITY => ".inf".to_owned(),
                f32::NEG_INFINITY => "-.inf".to_owned(),
                short => general_short(short),
            };
            (name, number(value), None)
        }
        Scalar::Null => ("null".to_owned(), "<nil>".to_owned(), Some("%!s(<nil>)")),
    };
    let identity = match is_float {
        true if is_zero => "float 0".to_owned(),
        true => format!("float {shown}"),
        false => shown.clone(),
    };
    Key { name, shown, identity, no_json }
}

fn number(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        _ => format_float(value),
    }
}

/// The real server makes JSON of the document and reads that: whole floats become integers.
///
/// # Errors
/// What it says of numbers that JSON cannot have.
fn json_of(scalar: Scalar) -> Result<Value, String> {
    Ok(match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => Value::Bool(value),
        Scalar::Int(value) => value.into(),
        #[expect(clippy::cast_precision_loss, reason = "as the real server, which reads it as a float64")]
        Scalar::Unsigned(value) => (value as f64).into(),
        Scalar::Float(value) if !value.is_finite() => return Err(format!("json: unsupported value: {}", number(value))),
        Scalar::Float(value) => whole(value).map_or_else(|| value.into(), Value::from),
        Scalar::Text(text) => Value::String(text),
    })
}

/// The int64 that Go prints for this float64, if it prints one.
#[must_use]
pub fn whole(value: f64) -> Option<i64> {
    // Zero has a sign as a float only.
    if value == 0.0 { Some(0) } else { Some(value.to_string()).filter(|text| !text.contains('.'))?.parse().ok() }
}

#[cfg(test)]
mod printed;
#[cfg(test)]
mod tests;
