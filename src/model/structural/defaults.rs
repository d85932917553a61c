//! A default as it is kept: its text, and what it takes.

use go::json::value_into;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Bytes of a value in a tree, its text not counted, and of the first few members of an object; measured.
const VALUE_BYTES: usize = 32;
const MEMBERS_BYTES: usize = 640;
/// How many members those are.
const MEMBERS: usize = 6;

/// A default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DefaultValue {
    /// Its JSON as kube-apiserver writes it: compact and sorted.
    pub(super) text: Box<str>,
    /// What it takes as a tree; no less than its text.
    pub(super) cost: usize,
}

impl DefaultValue {
    #[cfg(test)]
    pub(super) fn tree(&self) -> Value {
        serde_json::from_str(&self.text).expect("it was written from a tree")
    }
}

impl<'de> Deserialize<'de> for DefaultValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let mut text = Vec::new();
        value_into(&value, &mut text);
        let text = String::from_utf8(text).map_err(serde::de::Error::custom)?;
        Ok(Self { cost: tree_bytes(&value).max(text.len()), text: text.into() })
    }
}

/// About how many bytes a tree takes.
pub fn tree_bytes(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(tree_bytes).sum(),
            Value::Object(members) if members.is_empty() => 0,
            Value::Object(members) => {
                let nodes = 1 + members.len() / MEMBERS;
                nodes * MEMBERS_BYTES + members.iter().map(|(name, value)| name.len() + tree_bytes(value)).sum::<usize>()
            }
            _ => 0,
        }
}
