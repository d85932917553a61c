//! Helpers that read JSON trees.

use serde_json::Value;

/// A member of members; none where there is none, or null.
pub(crate) fn at<'v>(of: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(of, |value, member| value.get(member)).filter(|value| !value.is_null())
}

/// The text there; empty where there is none.
pub(crate) fn text<'v>(of: &'v Value, path: &[&str]) -> &'v str {
    at(of, path).and_then(Value::as_str).unwrap_or_default()
}

/// The items there.
pub(crate) fn items<'v>(of: &'v Value, path: &[&str]) -> impl Iterator<Item = &'v Value> {
    at(of, path).and_then(Value::as_array).into_iter().flatten()
}

/// Whether both are the same, where an empty list or map counts as none.
pub(crate) fn same(left: Option<&Value>, right: Option<&Value>) -> bool {
    left.filter(|value| !is_empty(value)) == right.filter(|value| !is_empty(value))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}
