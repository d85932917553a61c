//! Helpers that read JSON trees.

pub(crate) use go::tree::{as_object as members, object_in as inner, object_mut as member};
use serde_json::{Map, Value};

/// A member of members; none where there is none, or null.
pub(crate) fn at<'v>(of: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(of, |value, member| value.get(member)).filter(|value| !value.is_null())
}

/// The text there; empty where there is none.
pub(crate) fn text<'v>(of: &'v Value, path: &[&str]) -> &'v str {
    at(of, path).and_then(Value::as_str).unwrap_or_default()
}

/// The items there.
pub(crate) fn items<'v>(of: &'v Value, path: &[&str]) -> impl Iterator<Item = &'v Value> + use<'v> {
    at(of, path).and_then(Value::as_array).into_iter().flatten()
}

/// The texts among the items there.
pub(crate) fn texts<'v>(of: &'v Value, path: &[&str]) -> impl Iterator<Item = &'v str> + use<'v> {
    items(of, path).filter_map(Value::as_str)
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

/// The items of a member; an empty list where there is none.
pub(crate) fn list<'v>(of: &'v mut Map<String, Value>, name: &str) -> &'v mut Vec<Value> {
    let list = of.entry(name).or_insert(Value::Null);
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    match list {
        Value::Array(items) => items,
        _ => unreachable!("it was made a list"),
    }
}
