//! A JSON value as a borrowed tree, without the parts that nobody asked for. Knows no resource.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::encode;
use model::Text;

/// One value. What a printer asks for and does not find is the zero value of its Go type, as after decoding in kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Node<'a> {
    /// Missing, `null`, or skipped.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without fraction that fits; Kubernetes has no larger ones.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// An array.
    Array(Vec<Self>),
    /// An object, in its order. A name that came twice is there twice; the last one counts.
    Object(Vec<(Cow<'a, str>, Self)>),
}

/// What `at` gives when there is nothing.
static NOTHING: Node<'static> = Node::Null;

impl<'a> Node<'a> {
    /// Reads a whole value, of which `want` is kept.
    ///
    /// # Errors
    /// Invalid JSON.
    pub(super) fn read(json: &'a str, want: &Want) -> serde_json::Result<Self> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let node = Read(want).deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(node)
    }

    /// A member of an object.
    pub(super) fn at(&self, name: &str) -> &Self {
        match self {
            Self::Object(members) => members.iter().rev().find(|(known, _)| known == name).map_or(&NOTHING, |(_, node)| node),
            _ => &NOTHING,
        }
    }

    /// A member of members: `spec.replicas`.
    pub(super) fn path(&self, path: &str) -> &Self {
        path.split('.').fold(self, |node, name| node.at(name))
    }

    /// Whether a Go pointer to this would not be nil.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self, Self::Null)
    }

    /// The string; empty when it is none.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    /// The string, or another one when there is none or an empty one.
    pub(super) fn text_or<'n>(&'n self, other: &'n str) -> &'n str {
        match self.text() {
            "" => other,
            text => text,
        }
    }

    /// The integer; 0 when it is none.
    pub(super) fn int(&self) -> i64 {
        match self {
            Self::Int(n) => *n,
            _ => 0,
        }
    }

    /// Whether it is `true`.
    pub(super) fn is_true(&self) -> bool {
        matches!(self, Self::Bool(true))
    }

    /// The elements of an array.
    pub(super) fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// The members of an object, in their order.
    pub(super) fn members(&self) -> &[(Cow<'a, str>, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    /// The members of an object, sorted by name as Go's `range` over sorted keys gives them.
    pub(super) fn sorted(&self) -> Vec<(&str, &Self)> {
        let mut members: Vec<_> = self.members().iter().map(|(name, node)| (&**name, node)).collect();
        members.sort_by_key(|(name, _)| *name);
        members
    }

    /// How many elements or members.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Array(items) => items.len(),
            Self::Object(members) => members.len(),
            _ => 0,
        }
    }

    /// Appends it as Go's `encoding/json` writes decoded JSON: objects sorted.
    pub(super) fn json_into(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Self::Int(n) => out.extend_from_slice(n.to_string().as_bytes()),
            Self::Float(f) => out.extend_from_slice(encode::go_float(*f).as_bytes()),
            Self::Text(text) => encode::string_into(text, out),
            Self::Array(items) => {
                out.push(b'[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    item.json_into(out);
                }
                out.push(b']');
            }
            Self::Object(_) => {
                out.push(b'{');
                for (i, (name, node)) in self.sorted().into_iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    encode::string_into(name, out);
                    out.push(b':');
                    node.json_into(out);
                }
                out.push(b'}');
            }
        }
    }
}

/// Which parts of a value are kept. Elements of an array are wanted as the array is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Want {
    kept: Kept,
    members: Vec<(Box<str>, Want)>,
    /// Members that are not kept although everything is.
    except: Vec<(Box<str>, Want)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kept {
    /// The named members.
    #[default]
    Named,
    /// Everything.
    Whole,
    /// The names of the members, not their values.
    Names,
}

impl Want {
    /// Everything.
    pub(super) fn whole() -> Self {
        Self { kept: Kept::Whole, ..Self::default() }
    }

    /// Everything but the managed fields, which are half of many objects and in no cell of a built-in.
    pub(super) fn unmanaged() -> Self {
        let metadata = Self { except: vec![("managedFields".into(), Self::default())], ..Self::whole() };
        Self { members: vec![("metadata".into(), metadata)], ..Self::whole() }
    }

    /// What the paths name: `spec.containers.name`, with `!` at the end for the names of the members alone (`data!`).
    pub(super) fn paths(paths: &[&str]) -> Self {
        let mut want = Self::default();
        for path in paths {
            let (path, kept) = path.strip_suffix('!').map_or((*path, Kept::Whole), |path| (path, Kept::Names));
            path.split('.').fold(&mut want, |want, name| want.member(name)).kept = kept;
        }
        want
    }

    /// Wants all of what a path leads to.
    pub(super) fn add<'p>(&mut self, path: impl IntoIterator<Item = &'p str>) {
        let mut want = self;
        for name in path {
            if want.kept == Kept::Whole {
                return;
            }
            want = want.member(name);
        }
        *want = Self::whole();
    }

    fn member(&mut self, name: &str) -> &mut Self {
        let at = self.members.iter().position(|(known, _)| **known == *name).unwrap_or_else(|| {
            self.members.push((name.into(), Self::default()));
            self.members.len() - 1
        });
        &mut self.members[at].1
    }

    fn of(&self, name: &str) -> Option<&Self> {
        static WHOLE: Want = Want { kept: Kept::Whole, members: Vec::new(), except: Vec::new() };
        let named = self.members.iter().find(|(known, _)| **known == *name).map(|(_, want)| want);
        match self.kept {
            Kept::Named => named,
            Kept::Whole if self.except.iter().any(|(known, _)| **known == *name) => None,
            Kept::Whole => named.or(Some(&WHOLE)),
            Kept::Names => None,
        }
    }
}

struct Read<'w>(&'w Want);

impl<'a> DeserializeSeed<'a> for Read<'_> {
    type Value = Node<'a>;
    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Node<'a>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Read<'_> {
    type Value = Node<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Node<'a>, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node<'a>, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node<'a>, E> {
        Ok(Node::Int(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "what does not fit an int64 is a float64 in Kubernetes too")]
    fn visit_u64<E>(self, value: u64) -> Result<Node<'a>, E> {
        Ok(i64::try_from(value).map_or(Node::Float(value as f64), Node::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node<'a>, E> {
        Ok(Node::Float(value))
    }

    fn visit_borrowed_str<E>(self, value: &'a str) -> Result<Node<'a>, E> {
        Ok(Node::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node<'a>, E> {
        Ok(Node::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut array: A) -> Result<Node<'a>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = array.next_element_seed(Read(self.0))? {
            items.push(item);
        }
        Ok(Node::Array(items))
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Node<'a>, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<Text<'a>>()? {
            if let Some(want) = self.0.of(&name.0) {
                members.push((name.0, map.next_value_seed(Read(want))?));
            } else {
                map.next_value::<IgnoredAny>()?;
                if self.0.kept == Kept::Names {
                    members.push((name.0, Node::Null));
                }
            }
        }
        Ok(Node::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, want: &Want) -> String {
        let mut out = Vec::new();
        Node::read(json, want).expect("JSON").json_into(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    const POD: &str = r#"{"metadata":{"name":"n","managedFields":[{"a":1}],"labels":{"env":"<p>"}},"spec":{"containers":[{"name":"a","env":[1.5,null]},{"name":"b"}]},"data":{"k":"v","j":""}}"#;

    #[test]
    fn what_is_wanted_is_kept() {
        let check = |want: Want, expect: &str| assert_eq!(read(POD, &want), expect);
        check(
            Want::paths(&["metadata.name", "spec.containers.name"]),
            r#"{"metadata":{"name":"n"},"spec":{"containers":[{"name":"a"},{"name":"b"}]}}"#,
        );
        check(Want::paths(&["data!"]), r#"{"data":{"j":null,"k":null}}"#);
        let all = r#"{"data":{"j":"","k":"v"},"metadata":{"labels":{"env":"\u003cp\u003e"},"name":"n"},"spec":{"containers":[{"env":[1.5,null],"name":"a"},{"name":"b"}]}}"#;
        check(Want::unmanaged(), all);
        assert_eq!(read(POD, &Want::whole()).len(), POD.len() + 10, "the escapes of < and >");
    }

    #[test]
    fn what_is_missing_is_zero() {
        let node = Node::read(r#"{"a":null,"b":{"c":7},"d":18446744073709551615,"e":1,"e":2}"#, &Want::whole()).expect("JSON");
        assert_eq!((node.at("a"), node.path("b.c").int(), node.path("b.x.y").int()), (&Node::Null, 7, 0));
        assert_eq!((node.at("d"), node.at("e").int()), (&Node::Float(18_446_744_073_709_551_615.0), 2));
        assert!(Node::read("{} x", &Want::whole()).is_err());
    }
}
