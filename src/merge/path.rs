//! Where a field is in an object: path elements, their order, and the paths made of them.

use std::{cmp::Ordering, fmt, sync::Arc};

use serde_json::Value;

use crate::value;

/// How long a name may be that is kept in the element itself.
const INLINE_MAX: usize = 21;

/// The name of a field. Short ones take no memory of their own, so elements are made and copied at no cost.
#[derive(Clone)]
pub struct Name(Text);

#[derive(Clone)]
enum Text {
    Inline(u8, [u8; INLINE_MAX]),
    Shared(Arc<str>),
}

impl Name {
    /// Returns the name's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Inline(..) => std::str::from_utf8(self.bytes()).unwrap_or_default(),
            Text::Shared(text) => text,
        }
    }

    /// The same, where only order and equality count.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Inline(len, bytes) => &bytes[..usize::from(*len)],
            Text::Shared(text) => text.as_bytes(),
        }
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        let mut bytes = [0; INLINE_MAX];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(text.as_bytes());
                Self(Text::Inline(len, bytes))
            }
            _ => Self(Text::Shared(Arc::from(text))),
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// One step of a path. Elements of one kind come before those of the next, in the order in which they stand here.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// The field of a map.
    Field(Name),
    /// The item of an associative list whose fields have these values, sorted by name.
    Key(Arc<[(Name, Value)]>),
    /// The item of a set.
    Value(Arc<Value>),
    /// The item of an atomic list.
    Index(i64),
}

impl PathElement {
    /// Makes the element of a field.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::Field(Name::from(name))
    }

    /// Makes the element of an item with keys, in whatever order they come.
    #[must_use]
    pub fn key<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let mut fields: Vec<(Name, Value)> = fields.into_iter().map(|(name, value)| (Name::from(name), value)).collect();
        fields.sort_by(|(lhs, _), (rhs, _)| lhs.cmp(rhs));
        Self::Key(fields.into())
    }

    /// Makes the element of an item of a set.
    #[must_use]
    pub fn value(value: Value) -> Self {
        Self::Value(Arc::new(value))
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(lhs), Self::Field(rhs)) => lhs.cmp(rhs),
            (Self::Key(lhs), Self::Key(rhs)) => {
                if Arc::ptr_eq(lhs, rhs) {
                    return Ordering::Equal;
                }
                let fields = lhs.iter().zip(rhs.iter());
                let mut orders =
                    fields.map(|((lname, lvalue), (rname, rvalue))| lname.cmp(rname).then_with(|| value::compare(lvalue, rvalue)));
                orders.find(|order| order.is_ne()).unwrap_or_else(|| lhs.len().cmp(&rhs.len()))
            }
            (Self::Value(lhs), Self::Value(rhs)) => value::compare(lhs, rhs),
            (Self::Index(lhs), Self::Index(rhs)) => lhs.cmp(rhs),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        match self {
            Self::Field(name) => {
                text.push('.');
                text.push_str(name.as_str());
            }
            Self::Key(fields) => {
                text.push('[');
                for (at, (name, value)) in fields.iter().enumerate() {
                    text.push_str(if at > 0 { "," } else { "" });
                    text.push_str(name.as_str());
                    text.push('=');
                    value::text(value, &mut text);
                }
                text.push(']');
            }
            Self::Value(value) => {
                text.push_str("[=");
                value::text(value, &mut text);
                text.push(']');
            }
            Self::Index(index) => return write!(f, "[{index}]"),
        }
        f.write_str(&text)
    }
}

/// The steps from the root of an object to one of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

impl Path {
    /// Makes the path of nested fields.
    #[must_use]
    pub fn fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| PathElement::field(name)).collect())
    }
}

impl From<Vec<PathElement>> for Path {
    fn from(elements: Vec<PathElement>) -> Self {
        Self(elements)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_small() {
        assert_eq!(size_of::<PathElement>(), 24);
        let long = "a-name-that-is-longer-than-what-fits";
        assert_eq!((PathElement::field(long), Name::from("short").as_str()), (PathElement::field(long), "short"));
    }

    #[test]
    fn elements_stand_in_their_order() {
        let ordered = [
            PathElement::field(""),
            PathElement::field("a"),
            PathElement::field("ab"),
            PathElement::field("b-with-a-name-too-long-for-its-element"),
            PathElement::field("c"),
            PathElement::key([]),
            PathElement::key([("name", json!("a"))]),
            PathElement::key([("protocol", json!("TCP")), ("name", json!("a"))]),
            PathElement::key([("name", json!("b"))]),
            PathElement::key([("port", json!(80))]),
            PathElement::key([("port", json!(443.0))]),
            PathElement::value(json!(2)),
            PathElement::value(json!(10)),
            PathElement::value(json!("a")),
            PathElement::value(json!(true)),
            PathElement::Index(2),
            PathElement::Index(10),
        ];
        for (i, lhs) in ordered.iter().enumerate() {
            for (j, rhs) in ordered.iter().enumerate() {
                assert_eq!(lhs.cmp(rhs), i.cmp(&j), "{lhs} {rhs}");
            }
        }
    }

    #[test]
    fn paths_are_shown() {
        let path = Path(vec![
            PathElement::field("spec"),
            PathElement::key([("protocol", json!("TCP")), ("port", json!(8080.0))]),
            PathElement::value(json!("a\nb")),
            PathElement::Index(3),
        ]);
        assert_eq!(path.to_string(), r#".spec[port=8080,protocol="TCP"][="a\nb"][3]"#);
    }
}
