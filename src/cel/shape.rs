//! Shapes: as what the parts of an object are read, which their schema says.

use std::collections::BTreeMap;

use serde_json::{Map as JsonMap, Value as Json};

use crate::value::{ListKind, Outcome, Text, Value};
use model::cel_words::is_reserved;

/// As what a part of an object is read.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// What it must be.
    pub kind: ShapeKind,
    /// Whether it may be `null`.
    pub nullable: bool,
}

/// What a part of an object must be.
#[derive(Clone, Debug, Default)]
pub enum ShapeKind {
    /// Whatever JSON it is.
    #[default]
    Any,
    /// A boolean.
    Bool,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A text.
    String,
    /// A text that is a length of time.
    Duration,
    /// A text that is a date.
    Date,
    /// A text that is a point in time.
    DateTime,
    /// A text that is base64 of bytes.
    Byte,
    /// A whole number or a text.
    IntOrString,
    /// A list.
    List(Box<Shape>, ListKind),
    /// An object or a map.
    Object(Box<Fields>),
    /// Kept, and only compared.
    Unknown,
    /// What no value may be read as: the schema's type.
    Invalid(Box<str>),
}

/// What the members of an object are.
#[derive(Clone, Debug)]
pub enum Fields {
    /// Those that are declared, by their names.
    Declared(BTreeMap<Box<str>, Shape>),
    /// All are of one shape.
    Each(Shape),
    /// None is known.
    None,
}

/// Whatever JSON a value is.
pub(crate) static ANY: Shape = Shape { kind: ShapeKind::Any, nullable: true };
pub(crate) static ANY_FIELDS: Fields = Fields::Each(Shape { kind: ShapeKind::Any, nullable: true });

impl Shape {
    /// Returns the shape of this kind, which may not be `null`.
    #[must_use]
    pub const fn of(kind: ShapeKind) -> Self {
        Self { kind, nullable: false }
    }
}

impl Fields {
    /// Returns whether they have no schema.
    pub(crate) fn is_any(&self) -> bool {
        matches!(self, Self::Each(shape) if matches!(shape.kind, ShapeKind::Any))
    }

    /// Returns the shape of a member.
    pub(crate) fn shape(&self, name: &str) -> Option<&Shape> {
        match self {
            Self::Declared(fields) => fields.get(name),
            Self::Each(shape) => Some(shape),
            Self::None => None,
        }
    }

    /// Returns the value of a member by the name that expressions have for it.
    pub(crate) fn find<'v>(&'v self, members: &'v JsonMap<String, Json>, name: &str) -> Option<Outcome<'v>> {
        let Self::Declared(fields) = self else {
            let value = members.get(name)?;
            return self.shape(name).map(|shape| Value::of_shape(value, shape));
        };
        let unescaped;
        let name = if name.contains("__") {
            unescaped = unescape(name)?;
            &unescaped
        } else {
            name
        };
        // A field that is null is one that is not there.
        let value = members.get(name).filter(|value| !value.is_null())?;
        fields.get(name).map(|shape| Value::of_shape(value, shape))
    }

    /// Returns the names of the members whose shape is known, as expressions have them.
    pub(crate) fn keys<'v>(&'v self, members: &'v JsonMap<String, Json>) -> Vec<Value<'v>> {
        let name = |name: &'v String| match self {
            Self::Declared(_) => escape(name).map_or(Text::Borrowed(name), |escaped| match escaped == *name {
                true => Text::Borrowed(name),
                false => Text::Shared(escaped.into()),
            }),
            _ => Text::Borrowed(name),
        };
        members.keys().filter(|member| self.shape(member).is_some()).map(|member| Value::String(name(member))).collect()
    }
}

const ESCAPES: [(&str, &str); 4] = [("underscores", "__"), ("dot", "."), ("dash", "-"), ("slash", "/")];

/// Returns whether a name is a word of the language, which a field cannot have in expressions.
#[must_use]
pub fn is_word(name: &str) -> bool {
    matches!(name, "true" | "false" | "null" | "in") || is_reserved(name)
}

/// Returns the name that expressions have for a field; none if it cannot have one.
#[must_use]
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_word(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        let found = ESCAPES.iter().find(|(_, part)| rest.starts_with(part));
        match found {
            Some((word, part)) => {
                escaped.extend(["__", word, "__"]);
                rest = &rest[part.len()..];
            }
            None if next.is_ascii_alphanumeric() || next == '_' => {
                escaped.push(next);
                rest = &rest[1..];
            }
            None => return None,
        }
    }
    Some(escaped)
}

/// Returns the name of the field that an expression's name is for; none if that is no name.
#[must_use]
pub fn unescape(escaped: &str) -> Option<String> {
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = rest.find("__") {
        let inside = &rest[at + 2..];
        // As of Go's expression `_{2}[^_]+_{2}`, leftmost: a third underscore begins anew.
        let Some(end) = inside.find('_').filter(|end| *end > 0 && inside[*end..].starts_with("__")) else {
            name.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
            continue;
        };
        name.push_str(&rest[..at]);
        let word = &inside[..end];
        match ESCAPES.iter().find(|(known, _)| *known == word) {
            Some((_, part)) => name.push_str(part),
            None if is_word(word) && escaped.len() == end + 4 => name.push_str(word),
            None => return None,
        }
        rest = &inside[end + 2..];
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_back() {
        for (name, escaped) in [
            ("a", "a"),
            ("a.b-c/d", "a__dot__b__dash__c__slash__d"),
            ("namespace", "__namespace__"),
            ("self__b", "self__underscores__b"),
            ("_a_b", "_a_b"),
            ("a___b", "a__underscores___b"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(escaped), "{name}");
            assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
        }
        for name in ["", "1a", "a b", "é", "a$"] {
            assert_eq!(escape(name), None, "{name}");
        }
        assert_eq!((unescape("a__other__b"), unescape("a__if__")), (None, None));
    }
}
