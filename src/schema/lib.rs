//! The schemas of custom resources, as kube-apiserver holds them on every write: a structural schema is compiled once and then prunes, defaults and judges
//! objects.
//!
//! ```text
//! openAPIV3Schema (JSON) ─▶ node (compiled) ─▶ prune, nulls, embedded, defaults: what the decoder does to an object
//!                                           ─▶ validate (formats, numbers, pattern; ratcheting by correlate), lists, rules: what is wrong with it
//! ```
//!
//! Objects are trees of JSON. What is right is walked through once, without paths; who is wrong is walked through again, with them.

mod choices;
mod correlate;
mod defaults;
mod embedded;
pub mod field_path;
pub mod formats;
mod lists;
mod node;
mod numbers;
mod part;
mod pattern;
mod problem;
mod prune;
mod rules;
mod validate;
mod view;

use model::invalid::FieldError;
use node::Node;
use serde_json::Value;

pub use defaults::TooManyDefaults;
pub use embedded::{Embedded, EmbeddedMut};
pub use part::Part;
pub use rules::{Rule, Ruled};
pub use view::View;

/// Members that every whole object has: the root of a schema has hardly a say in them.
const HEAD: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// A schema, compiled.
#[derive(Debug)]
pub struct Schema {
    root: Node,
    /// Nothing goes that it does not know.
    preserves: bool,
    /// Bytes that its patterns take.
    patterns_bytes: usize,
    /// Nodes that have rules.
    rule_sets: usize,
}

impl Schema {
    /// Compiles the schema of whole objects from its JSON, which is an `openAPIV3Schema`.
    ///
    /// # Errors
    /// It is no schema, or nested too deep.
    pub fn compile(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json).map(Self::of)
    }

    /// Compiles the schema of whole objects, or a part of one, from its tree.
    ///
    /// # Errors
    /// It is no schema.
    pub fn of_tree(tree: &Value) -> Result<Self, serde_json::Error> {
        serde::Deserialize::deserialize(tree).map(Self::of)
    }

    /// Compiles the schema of a default from its tree: other than objects, defaults are compared with formats that nobody knows, and may be anything where an
    /// integer or a text is asked for.
    ///
    /// # Errors
    /// It is no schema.
    pub fn of_default(tree: &Value) -> Result<Self, serde_json::Error> {
        let mut schema = Self::of_tree(tree)?;
        schema.root.loosen();
        Ok(schema)
    }

    fn of(mut root: Node) -> Self {
        let patterns_bytes = node::compile_patterns(&mut root);
        let rule_sets = node::number_rules(&mut root);
        Self { root, preserves: false, patterns_bytes, rule_sets }
    }

    /// Makes it one that objects are only judged by: nothing is taken away from them, as definitions of v1beta1 may say.
    pub fn preserve_all(&mut self) {
        self.preserves = true;
    }

    /// Whether even a small object may take long: a value has many schemas, or many values to choose from, or defaults make much of it, or
    /// its patterns are large.
    #[must_use]
    pub fn is_heavy(&self) -> bool {
        const MANY: usize = 256;
        const DEFAULTS_MANY: usize = 1 << 10;
        const PATTERNS_BYTES_MANY: usize = 256 << 10;
        self.root.work_max > MANY || self.root.defaults > DEFAULTS_MANY || self.patterns_bytes > PATTERNS_BYTES_MANY
    }

    /// Returns what is wrong with a new object.
    #[must_use]
    pub fn wrong(&self, object: &Value) -> Vec<FieldError> {
        validate::wrong(&self.root, object, None, "")
    }

    /// Returns what is wrong with an object that replaces another: errors of what did not change are not told.
    #[must_use]
    pub fn wrong_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        validate::wrong(&self.root, new, Some(old), "")
    }

    /// Returns what is wrong with the status of an object that replaces another, by the part of the schema that is about it.
    #[must_use]
    pub fn wrong_status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        match (self.root.property("status"), new.get("status")) {
            (Some(node), Some(status)) => validate::wrong(node, status, Some(old.get("status").unwrap_or(&Value::Null)), "status"),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod laws;
