//! Reads `FieldsV1`: of each member of an object its name is a path element, and its value is what is below it.

use std::{borrow::Cow, fmt};

use serde_json::{Map, Value};

use super::FIELDS_V1_BYTES_MAX;
use crate::{
    DEPTH_MAX,
    path::{Name, PathElement},
    set::{Node, Set},
};

/// Why a text is no `FieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldsError {
    /// It is no JSON, or has something else than an object where one must be, at this byte.
    Syntax(usize),
    /// A name is no path element.
    Element(String),
    /// It has more bytes than [`FIELDS_V1_BYTES_MAX`].
    TooLong(usize),
    /// Its objects are nested deeper than [`DEPTH_MAX`].
    TooDeep,
}

impl fmt::Display for FieldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(at) => write!(f, "expect {{ or n, error found in #{at} byte"),
            Self::Element(what) => write!(f, "parsing key as path element: {what}"),
            Self::TooLong(bytes) => write!(f, "fieldsV1 of {bytes} bytes, limit is {FIELDS_V1_BYTES_MAX}"),
            Self::TooDeep => write!(f, "fieldsV1 nested deeper than {DEPTH_MAX}"),
        }
    }
}

impl std::error::Error for FieldsError {}

/// Reads a set from its JSON.
///
/// # Errors
///
/// The JSON is not that of a set, or too large.
pub fn read(json: &[u8]) -> Result<Set, FieldsError> {
    if json.len() > FIELDS_V1_BYTES_MAX {
        return Err(FieldsError::TooLong(json.len()));
    }
    let mut cursor = Cursor { json, at: 0 };
    Ok(cursor.object(0)?.0)
}

/// Reads a set from its parsed JSON.
///
/// # Errors
///
/// The JSON is not that of a set, or too deep.
pub fn from_value(json: &Value) -> Result<Set, FieldsError> {
    match json {
        Value::Null => Ok(Set::new()),
        Value::Object(members) => Ok(of_members(members, 0)?.0),
        _ => Err(FieldsError::Syntax(0)),
    }
}

/// What an object says: the fields below it, and whether the field itself is a member. One that says nothing is.
fn of_members(members: &Map<String, Value>, depth: usize) -> Result<(Set, bool), FieldsError> {
    if depth > DEPTH_MAX {
        return Err(FieldsError::TooDeep);
    }
    let mut level = Level::default();
    for (name, below) in members {
        if name == "." {
            level.is_member = true;
        } else if let Some(element) = element(name).map_err(FieldsError::Element)? {
            match below {
                Value::Null => level.add(element, (Set::new(), true)),
                Value::Object(members) => level.add(element, of_members(members, depth + 1)?),
                _ => return Err(FieldsError::Syntax(0)),
            }
        }
    }
    Ok(level.finish())
}

/// The members of one object as they are read.
#[derive(Default)]
struct Level {
    nodes: Vec<Node>,
    is_member: bool,
    is_unsorted: bool,
}

impl Level {
    fn add(&mut self, element: PathElement, (children, is_member): (Set, bool)) {
        self.is_unsorted |= self.nodes.last().is_some_and(|last| last.element >= element);
        self.nodes.push(Node { element, is_member, children });
    }

    fn finish(mut self) -> (Set, bool) {
        if self.is_unsorted {
            // Of two members with one name, the later says what is below it, if it says anything.
            self.nodes.sort_by(|lhs, rhs| lhs.element.cmp(&rhs.element));
            self.nodes.dedup_by(|later, first| {
                let is_same = later.element == first.element;
                if is_same {
                    first.is_member |= later.is_member;
                    if !later.children.is_empty() {
                        first.children = later.children.clone();
                    }
                }
                is_same
            });
        }
        self.nodes.retain(|node| node.is_member || !node.children.is_empty());
        let children = Set::of_sorted(self.nodes);
        let is_member = self.is_member || children.is_empty();
        (children, is_member)
    }
}

/// Reads a path element by its name in `FieldsV1`: `None` when a later version of the format may know it.
///
/// # Errors
///
/// What is wrong with the name.
pub fn element(name: &str) -> Result<Option<PathElement>, String> {
    let bytes = name.as_bytes();
    if bytes.len() < 2 {
        return Err("key must be 2 characters long:".to_owned());
    }
    if bytes[1] != b':' {
        return Err(format!("missing colon: {name}"));
    }
    let content = &name[2..];
    match bytes[0] {
        b'f' => Ok(Some(PathElement::field(content))),
        b'v' => match scalar(content) {
            Some((value, _)) => Ok(Some(PathElement::value(value))),
            None => Ok(Some(PathElement::value(floats(first(content)?)))),
        },
        b'k' => match plain_fields(content) {
            Some(fields) => Ok(Some(PathElement::Key(fields.into()))),
            None => match first(content)? {
                Value::Object(fields) => {
                    let fields = fields.into_iter().map(|(name, value)| (Name::from(&*name), floats(value)));
                    Ok(Some(PathElement::Key(fields.collect())))
                }
                Value::Null => Ok(Some(PathElement::Key([].into()))),
                _ => Err(format!("expect {{ or n: {content}")),
            },
        },
        b'i' => content.parse().map(|index| Some(PathElement::Index(index))).map_err(|e| format!("parsing {content:?}: {e}")),
        _ => Ok(None),
    }
}

/// The fields of an object as they are usually written: without spaces and escapes, sorted, scalars only. Others are read in another way.
fn plain_fields(content: &str) -> Option<Vec<(Name, Value)>> {
    let mut fields: Vec<(Name, Value)> = Vec::with_capacity(2);
    let mut rest = content.strip_prefix('{')?;
    loop {
        let (name, after) = plain_string(rest)?;
        let name = Name::from(name);
        let (value, after) = scalar(after.strip_prefix(':')?)?;
        if fields.last().is_some_and(|(last, _)| *last >= name) {
            return None;
        }
        fields.push((name, value));
        rest = match after.as_bytes() {
            b"}" => return Some(fields),
            [b',', ..] => &after[1..],
            _ => return None,
        };
    }
}

/// A string without escapes at the beginning of a text, and what comes after it.
fn plain_string(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('"')?;
    let end = inner.bytes().position(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\'))?;
    Some((&inner[..end], inner[end..].strip_prefix('"')?))
}

/// A scalar as it is usually written at the beginning of a text, and what comes after it.
fn scalar(text: &str) -> Option<(Value, &str)> {
    if let Some((string, rest)) = plain_string(text) {
        return Some((Value::from(string), rest));
    }
    if let Some(rest) = text.strip_prefix("true") {
        return Some((Value::from(true), rest));
    }
    if let Some(rest) = text.strip_prefix("false") {
        return Some((Value::from(false), rest));
    }
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let is_whole = !matches!(text.as_bytes().get(end), Some(b'.' | b'e' | b'E'));
    let is_plain = (1..=DIGITS_MAX).contains(&end) && (end == 1 || !text.starts_with('0'));
    let number: u32 = text.get(..end).filter(|_| is_whole && is_plain)?.parse().ok()?;
    Some((Value::from(f64::from(number)), &text[end..]))
}

/// How many digits a number has that surely fits.
const DIGITS_MAX: usize = 9;

/// The first value of a text. What comes after it is not looked at.
fn first(json: &str) -> Result<Value, String> {
    match serde_json::Deserializer::from_str(json).into_iter().next() {
        Some(value) => value.map_err(|e| e.to_string()),
        None => Err("unexpected end of the value".to_owned()),
    }
}

/// Numbers become floats: that is how Go reads them.
fn floats(mut value: Value) -> Value {
    match &mut value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().and_then(serde_json::Number::from_f64) {
                *number = float;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = floats(item.take())),
        Value::Object(members) => members.values_mut().for_each(|member| *member = floats(member.take())),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
    value
}

/// A place in a text of JSON.
struct Cursor<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    const fn wrong<T>(&self) -> Result<T, FieldsError> {
        Err(FieldsError::Syntax(self.at))
    }

    /// The next byte that is no space.
    fn next(&mut self) -> Result<u8, FieldsError> {
        while let Some(byte) = self.json.get(self.at) {
            self.at += 1;
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(*byte);
            }
        }
        self.wrong()
    }

    fn object(&mut self, depth: usize) -> Result<(Set, bool), FieldsError> {
        if depth > DEPTH_MAX {
            return Err(FieldsError::TooDeep);
        }
        let mut level = Level::default();
        match self.next()? {
            b'n' if self.json[self.at..].starts_with(b"ull") => {
                self.at += 3;
                return Ok(level.finish());
            }
            b'{' => {}
            _ => return self.wrong(),
        }
        match self.next()? {
            b'}' => return Ok(level.finish()),
            b'"' => {}
            _ => return self.wrong(),
        }
        loop {
            let name = self.string()?;
            if self.next()? != b':' {
                return self.wrong();
            }
            if name == "." {
                level.is_member = true;
                self.skip()?;
            } else {
                match element(&name).map_err(FieldsError::Element)? {
                    Some(element) => {
                        let below = self.object(depth + 1)?;
                        level.add(element, below);
                    }
                    None => self.skip()?,
                }
            }
            match self.next()? {
                b',' if self.next()? == b'"' => {}
                b'}' => return Ok(level.finish()),
                _ => return self.wrong(),
            }
        }
    }

    /// The rest of a string whose first quote was read.
    fn string(&mut self) -> Result<Cow<'a, str>, FieldsError> {
        let from = self.at;
        let mut is_escaped = false;
        loop {
            match self.json.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    is_escaped = true;
                    self.at += 2;
                }
                Some(byte) if *byte >= 0x20 => self.at += 1,
                _ => return self.wrong(),
            }
        }
        self.at += 1;
        let inner = &self.json[from..self.at - 1];
        if is_escaped {
            serde_json::from_slice(&self.json[from - 1..self.at]).map(Cow::Owned).or_else(|_| self.wrong())
        } else {
            std::str::from_utf8(inner).map(Cow::Borrowed).or_else(|_| self.wrong())
        }
    }

    /// Goes past a value of any type.
    fn skip(&mut self) -> Result<(), FieldsError> {
        let mut values = serde_json::Deserializer::from_slice(&self.json[self.at..]).into_iter::<serde::de::IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {
                self.at += values.byte_offset();
                Ok(())
            }
            _ => self.wrong(),
        }
    }
}
