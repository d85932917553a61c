//! `FieldsV1`, the JSON in which `managedFields` keep a set: read in any order, written in the one order that the set has.

mod read;
mod write;

pub use read::{FieldsError, element, from_value, read};
pub use write::{element_text, write, write_into};

/// How many bytes are read at most: more than an object may have.
pub const FIELDS_V1_BYTES_MAX: usize = 3 << 20;

#[cfg(test)]
mod tests;
