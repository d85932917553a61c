//! The members of one JSON object as borrowed text, for rewriting a value without decoding what is inside.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::encode;
use model::Text;

/// Members in their order. A repeated name: the last one counts, as in Go.
#[derive(Debug, Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads an object; `null` is an object without members, as in Go.
    ///
    /// # Errors
    /// Invalid JSON, or something that is not an object.
    pub(crate) fn read(json: &'a str) -> serde_json::Result<Self> {
        Ok(serde_json::from_str::<Option<Self>>(json)?.unwrap_or_default())
    }

    /// Whether there is no member.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and texts, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (&**name, value.get()))
    }

    /// The text of a member; `None` when it is missing or `null`.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.get()).filter(|v| *v != "null")
    }

    /// The members of a member that is an object; none when it is missing or `null`.
    ///
    /// # Errors
    /// The member is not an object.
    pub(crate) fn object(&self, name: &str) -> serde_json::Result<Self> {
        self.raw(name).map_or(Ok(Self::default()), Self::read)
    }

    /// The elements of a member that is an array; `None` when it is missing or `null`.
    ///
    /// # Errors
    /// The member is not an array.
    pub(crate) fn array(&self, name: &str) -> serde_json::Result<Option<Vec<&'a RawValue>>> {
        self.raw(name).map(serde_json::from_str).transpose()
    }

    /// The value of a member that is a string; `None` when it is missing or `null`.
    ///
    /// # Errors
    /// The member is not a string.
    pub(crate) fn text(&self, name: &str) -> serde_json::Result<Option<Cow<'a, str>>> {
        self.raw(name).map(|raw| serde_json::from_str::<Text<'a>>(raw).map(|text| text.0)).transpose()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    members.push((name.0, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// Writes an object member by member.
pub(crate) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> Writer<'o> {
    /// Opens an object.
    pub(crate) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Goes on in an object whose last written byte is a comma (or that was just opened).
    pub(crate) fn resume(out: &'o mut Vec<u8>) -> Self {
        Self { out, empty: true }
    }

    /// Writes `"name":`; the caller appends the value to what it returns.
    pub(crate) fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        encode::string_into(name, self.out);
        self.out.push(b':');
        self.out
    }

    /// A member with its value's text.
    pub(crate) fn raw(&mut self, name: &str, value: &str) {
        self.name(name).extend_from_slice(value.as_bytes());
    }

    /// A member that Go leaves out when it is empty (`omitempty`).
    pub(crate) fn some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.raw(name, value);
        }
    }

    /// Closes the object.
    pub(crate) fn close(self) {
        self.out.push(b'}');
    }
}
