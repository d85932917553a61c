//! What kube-apiserver fills in when a client leaves it out of a built-in (spec api-surface §5.8): a table and a few rules.

mod disabled;
mod image;
mod rules;
mod table;

use serde_json::Value;

pub use disabled::drop_disabled;

/// Fills in what is absent from an object of this kind, as Go's structs print it. A kind without defaults stays as it is.
pub fn fill(object: &mut Value, api_version: &str, kind: &str) {
    table::apply(&format!("{api_version}/{kind}"), object);
}
