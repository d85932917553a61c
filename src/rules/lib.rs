//! The rules in CEL of schemas (`x-kubernetes-validations`): what types their values have, what they cost, and what they find wrong with an object.
//!
//! ```text
//! schema ─▶ scope (types, how often) ─▶ compile (programs, costs) ─▶ validator: the rules of all nodes ─▶ judge: errors and warnings
//! ```

mod compile;
mod decl;
mod engine;
mod field_path;
mod scope;
mod shape;
mod validator;

pub use compile::{Compiled, compile};
pub use scope::Scope;
pub use validator::Validator;

use model::invalid::FieldError;

/// The value of a rule.
const SELF: &str = "self";
/// What it replaces.
const OLD: &str = "oldSelf";

/// What rules of all defaults of a definition may cost.
pub const DEFAULTS_COST_MAX: u64 = validator::OBJECT_COST_MAX;

/// What rules find.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// What is wrong.
    pub errors: Vec<FieldError>,
    /// What is wrong and was so before.
    pub warnings: Vec<String>,
}
