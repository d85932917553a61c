//! Reads configurations of `apiserver.config.k8s.io` as strictly as kube-apiserver: a member that nobody reads is an error.

use go::quote::quoted;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

/// Why there is no configuration. One line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NoConfiguration {
    /// It is of another kind or version.
    #[error("no kind {} is registered for version {}: only {wanted} is", quoted(.kind), quoted(.version))]
    Kind {
        /// Its kind.
        kind: String,
        /// Its version.
        version: String,
        /// What it should be.
        wanted: String,
    },
    /// It has fields that nobody reads.
    #[error("strict decoding error: {0}")]
    Unknown(String),
    /// A field is of another type.
    #[error("{0}")]
    Type(String),
}

/// Members that an object may have, and what is in them.
pub enum Shape {
    /// Anything.
    Any,
    /// An object with these members and no others.
    Object(&'static [(&'static str, Shape)]),
    /// A list of such items.
    List(&'static Shape),
}

impl Shape {
    /// Returns the tree of a file as a configuration of this kind and one of these versions.
    ///
    /// # Errors
    /// It is something else, or has members that nobody reads.
    pub fn read<T: DeserializeOwned>(&self, tree: &Value, kind: &str, versions: &[&str]) -> Result<T, NoConfiguration> {
        let text = |member: &str| tree[member].as_str().unwrap_or_default();
        if text("kind") != kind || !versions.contains(&text("apiVersion")) {
            let wanted = format!("{kind} of {}", versions.join(" or "));
            return Err(NoConfiguration::Kind { kind: text("kind").to_owned(), version: text("apiVersion").to_owned(), wanted });
        }
        let mut unknown = Vec::new();
        self.unknown(tree, "", &mut unknown);
        if !unknown.is_empty() {
            return Err(NoConfiguration::Unknown(unknown.join(", ")));
        }
        // As in Go null is as if the member were not there.
        serde_json::from_value(without_nulls(tree.clone())).map_err(|error| NoConfiguration::Type(error.to_string()))
    }

    /// Paths of members that are not in the shape.
    fn unknown(&self, value: &Value, path: &str, found: &mut Vec<String>) {
        match (self, value) {
            (Shape::Object(members), Value::Object(object)) => {
                for (name, value) in object {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    match members.iter().find(|(known, _)| known == name) {
                        Some((_, shape)) => shape.unknown(value, &path, found),
                        None => found.push(format!("unknown field {}", quoted(&path))),
                    }
                }
            }
            (Shape::List(shape), Value::Array(items)) => {
                for (at, item) in items.iter().enumerate() {
                    shape.unknown(item, &format!("{path}[{at}]"), found);
                }
            }
            _ => {}
        }
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            members.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name, without_nulls(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
