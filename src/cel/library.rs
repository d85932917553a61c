//! The functions of the libraries that kube-apiserver registers: on plain values, and as rows of the table.

pub(crate) mod address;
pub(crate) mod authorizer;
pub(crate) mod format_text;
pub(crate) mod formats;
mod natural;
pub(crate) mod quantity;
mod rows;
pub(crate) mod semver;
mod sort;
pub(crate) mod strings;
pub(crate) mod url;

pub use authorizer::{Authorizer, Decision, Question, ResourceCheck, Target};
pub(crate) use rows::patch_environment;
pub use rows::{AUTHORIZER, RESOURCE_CHECK, authorizer_value, environment, resource_check_value};

#[cfg(test)]
mod tests;
