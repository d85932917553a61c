//! Writing CustomResourceDefinitions: defaults, validation, conditions (spec api-surface §11). Pure: knows no etcd and no clock.
//!
//! ```text
//! POST         defaulted → prepare_create → validate_create → codec::definition::to_stored → etcd
//! PUT, PATCH   defaulted → prepare_update → validate_update → to_stored → etcd
//! …/status     defaulted → prepare_status_update → validate_status_update → to_stored → etcd
//! DELETE       marked_for_deletion, the first time → to_stored → etcd; later as for every object
//! after each   next → UpdateStatus → to_stored → etcd → next …           (`controllers/definitions` asks)
//! ```
//!
//! Structural schemas are checked for their structure and stored; objects are not validated against them yet.

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
mod validate;
mod versions;
mod warnings;

#[cfg(test)]
mod tests;
#[cfg(test)]
use lifecycle::FINALIZER;

pub(crate) use codec::definition::normal;
pub(crate) use lifecycle::marked_for_deletion;
pub use lifecycle::{Names, Step, Taken, next};
pub(crate) use prepare::{defaulted, prepare_create, prepare_status_update, prepare_update};
pub(crate) use validate::{validate_create, validate_status_update, validate_update};
pub(crate) use warnings::warnings;
