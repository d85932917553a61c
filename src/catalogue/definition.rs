//! CustomResourceDefinitions: what one makes served (`read`), and the rules of writing one: defaults, validation, conditions (spec api-surface §11).
//!
//! ```text
//! POST         defaulted → prepare_create → validate_create → codec::definition::to_stored → etcd
//! PUT, PATCH   defaulted → prepare_update → validate_update → to_stored → etcd
//! …/status     defaulted → prepare_status_update → validate_status_update → to_stored → etcd
//! DELETE       marked_for_deletion, the first time → to_stored → etcd; later as for every object
//! after each   next → UpdateStatus → to_stored → etcd → next …           (`controllers/definitions` asks)
//! ```
//!
//! What the schemas say of objects is held by the room `schema`.

mod approval;
mod conditions;
mod conversion;
mod defaults;
mod json_path;
mod lifecycle;
mod names;
mod prepare;
mod read;
mod rules;
mod schema;
mod shown;
mod structural;
mod tree;
mod validate;
mod versions;
mod warnings;

#[cfg(test)]
mod tests;

pub use codec::definition::normal;
pub use defaults::Heads;
pub use lifecycle::{Names, NamesInUse, Step, Stuck, marked_for_deletion, next, stuck};
pub use prepare::{defaulted, prepare_create, prepare_status_update, prepare_update};
#[cfg(test)]
pub(crate) use read::storage_version_hash;
pub use read::{DefinedSchema, Definition};
pub(crate) use structural::is_structural;
pub use validate::{validate_create, validate_status_update, validate_update};
pub use warnings::warnings;
