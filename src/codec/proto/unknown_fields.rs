//! The fields of a message that no release in the schema has, each by its path; a few of each value.

use std::fmt;

use super::schema::{Cardinality, Field};

/// Paths that are named of one value; the others are counted.
const PATHS_MAX: usize = 8;

/// The parts of a value that are not in the JSON that was made of it. Each is named by its path: `status.conditions[].#8` is field 8 of each condition,
/// `spec.replicas` a value that its type does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownFields {
    paths: Vec<String>,
    more: usize,
}

/// A place in a message: the fields that lead there.
pub(super) struct At<'p> {
    around: Option<&'p At<'p>>,
    field: Option<&'p Field>,
    /// How many messages are around it.
    pub(super) depth: usize,
}

impl UnknownFields {
    /// Whether the JSON is the whole value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// A field beside the message, in what says of which kind it is.
    pub(crate) fn add_envelope(&mut self) {
        self.paths.push("the envelope".to_owned());
    }

    /// A field of this number there; without one, the value that is there.
    pub(super) fn add(&mut self, at: &At<'_>, number: Option<u32>) {
        if self.paths.len() == PATHS_MAX {
            self.more += 1;
            return;
        }
        let mut path = at.name();
        if let Some(number) = number {
            path += &format!("{}#{number}", if path.is_empty() { "" } else { "." });
        }
        if !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }
}

impl fmt::Display for UnknownFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.paths.join(", "))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl<'p> At<'p> {
    /// The object itself.
    pub(super) const TOP: At<'static> = At { around: None, field: None, depth: 0 };

    /// The place of a field of the message here.
    pub(super) fn inside(&'p self, field: &'p Field) -> At<'p> {
        At { around: Some(self), field: Some(field), depth: self.depth + 1 }
    }

    fn name(&self) -> String {
        let mut name = self.around.map(Self::name).unwrap_or_default();
        if let Some(field) = self.field {
            if !name.is_empty() && !field.name().is_empty() {
                name.push('.');
            }
            name += field.name();
            name += match field.cardinality {
                Cardinality::Repeated => "[]",
                Cardinality::Map => "{}",
                Cardinality::Plain | Cardinality::Optional | Cardinality::Inline => "",
            };
        }
        name
    }
}
