//! Selector texts become selectors; every error is the raw message of the 400 (spec list-watch §7).

mod fields;
mod labels;
mod lexer;

pub use fields::{FieldClause, fields};
pub use labels::labels;
