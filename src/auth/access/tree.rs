//! Helpers that read JSON trees.

use serde_json::Value;

/// A member's text; empty when there is none.
pub(super) fn text<'v>(of: &'v Value, name: &str) -> &'v str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The texts of a list.
pub(super) fn texts(of: &Value) -> Vec<String> {
    of.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
