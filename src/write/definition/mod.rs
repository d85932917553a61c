//! Writing CustomResourceDefinitions: defaults, validation, conditions (spec api-surface §11). Pure: knows no etcd and no clock.
//!
//! ```text
//! POST    defaulted → prepare_create → validate_create → stored → next … next
//! PUT     defaulted → prepare_update → validate_update → stored → next … next
//! DELETE  marked_for_deletion (the first time) → stored → next … Finish
//! ```
//!
//! Structural schemas are checked for their structure and stored; objects are validated against them later, by another part.

mod approval;
mod conditions;
mod conversion;
mod json_path;
mod lifecycle;
mod names;
mod prepare;
mod schema;
mod shown;
mod structural;
mod tree;
mod url;
mod validate;
mod versions;

#[cfg(test)]
mod tests;
#[cfg(test)]
use lifecycle::FINALIZER;

pub(crate) use crate::codec::definition::normal;
pub(crate) use lifecycle::marked_for_deletion;
pub use lifecycle::{Step, next};
pub(crate) use prepare::{defaulted, prepare_create, prepare_status_update, prepare_update};
pub(crate) use validate::{validate_create, validate_status_update, validate_update};
