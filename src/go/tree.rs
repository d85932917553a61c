//! Looks into JSON trees as Go looks into its structs: what is missing, null or of another type is Go's zero.

use serde_json::{Map, Value};

/// Returns the object at a member, made where there is something else.
pub fn object_mut<'v>(object: &'v mut Value, name: &str) -> &'v mut Map<String, Value> {
    object_in(as_object(object), name)
}

/// Returns the same of members.
pub fn object_in<'m>(members: &'m mut Map<String, Value>, name: &str) -> &'m mut Map<String, Value> {
    as_object(members.entry(name).or_insert(Value::Null))
}

/// Makes a value an object, if it is none.
///
/// # Panics
/// Never.
pub fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}

/// Returns a text member; empty when it is missing.
#[must_use]
pub fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a boolean member; false when it is missing.
#[must_use]
pub fn flag(object: &Value, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// Returns the elements of a list member; none when it is missing.
#[must_use]
pub fn list<'v>(object: &'v Value, name: &str) -> &'v [Value] {
    object.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns names and values of an object member; none when it is missing.
pub fn entries<'v>(object: &'v Value, name: &str) -> impl Iterator<Item = (&'v str, &'v Value)> {
    object.get(name).and_then(Value::as_object).into_iter().flatten().map(|(name, value)| (&**name, value))
}

/// Returns whether an object member has members itself.
#[must_use]
pub fn has_entries(object: &Value, name: &str) -> bool {
    object.get(name).and_then(Value::as_object).is_some_and(|map| !map.is_empty())
}

/// Returns a member that may be missing: `None` for `null` too.
#[must_use]
pub fn member<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// Returns a text member that Go has as a pointer.
#[must_use]
pub fn optional_text<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    member(object, name).and_then(Value::as_str)
}

/// Returns the texts of a list.
#[must_use]
pub fn texts(of: &Value) -> Vec<String> {
    of.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_or_of_another_type_is_zero() {
        let mut tree = json!({"text": "a", "flag": true, "list": ["b", 1, "c"], "null": null, "members": {"d": 1}, "none": {}});
        assert_eq!((text(&tree, "text"), text(&tree, "flag"), text(&tree, "x")), ("a", "", ""));
        assert_eq!((flag(&tree, "flag"), flag(&tree, "text"), list(&tree, "list").len(), list(&tree, "text").len()), (true, false, 3, 0));
        assert_eq!((texts(&tree["list"]), texts(&tree["text"])), (vec!["b".to_owned(), "c".to_owned()], vec![]));
        assert_eq!((member(&tree, "null"), optional_text(&tree, "text"), optional_text(&tree, "flag")), (None, Some("a"), None));
        assert_eq!((entries(&tree, "members").count(), has_entries(&tree, "members"), has_entries(&tree, "none")), (1, true, false));
        object_mut(&mut tree, "text").insert("e".into(), true.into());
        assert_eq!(tree["text"], json!({"e": true}));
    }
}
