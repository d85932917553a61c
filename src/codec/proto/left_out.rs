//! What a message has that no minor whose schema is here has: told by type and place, a few of each value.

use std::fmt;

use super::schema::{Field, How};

/// Places that are told of one value; the others are counted.
const TOLD_MAX: usize = 8;

/// The parts of a value that are not in the JSON that was made of it. Each is named by its place: `status.conditions[].#8` is field 8 of each condition,
/// `spec.replicas` a value that its type does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    told: Vec<String>,
    more: usize,
}

/// A place in a message: the fields that lead there.
pub(super) struct At<'p> {
    around: Option<&'p At<'p>>,
    field: Option<&'p Field>,
    /// How many messages are around it.
    pub(super) depth: usize,
}

impl LeftOut {
    /// Whether the JSON is the whole value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// A field beside the message, in what says of which kind it is.
    pub(crate) fn add_envelope(&mut self) {
        self.told.push("the envelope".to_owned());
    }

    /// A field of this number there; without one, the value that is there.
    pub(super) fn add(&mut self, at: &At<'_>, number: Option<u32>) {
        if self.told.len() == TOLD_MAX {
            self.more += 1;
            return;
        }
        let mut place = at.name();
        if let Some(number) = number {
            place += &format!("{}#{number}", if place.is_empty() { "" } else { "." });
        }
        if !self.told.contains(&place) {
            self.told.push(place);
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told.join(", "))?;
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
            name += match field.how {
                How::Repeated => "[]",
                How::Map => "{}",
                How::Plain | How::Optional | How::Inline => "",
            };
        }
        name
    }
}
