//! The normal form of ObjectMeta: what is left of it when Go has read and printed it.

use serde_json::{Map, Value};

use codec::encode::OBJECT_META;

/// Members of an owner that are printed even when they are empty.
const OWNER: &[&str] = &["apiVersion", "kind", "name", "uid"];

/// Brings metadata of the right types into its normal form: nulls and what is empty go, a null inside a map or list of texts becomes the empty
/// text. Unknown members stay.
pub(crate) fn normalize(metadata: &mut Map<String, Value>) {
    for member in ["labels", "annotations"] {
        let values = metadata.get_mut(member).and_then(Value::as_object_mut).into_iter().flatten();
        values.for_each(|(_, value)| null_is_text(value));
    }
    let finalizers = metadata.get_mut("finalizers").and_then(Value::as_array_mut).into_iter().flatten();
    finalizers.for_each(null_is_text);
    let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten();
    owners.for_each(normalize_owner);
    let entries = metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten();
    entries.filter_map(Value::as_object_mut).for_each(|entry| entry.retain(|_, value| !(value.is_null() || value == "")));
    metadata.retain(|member, value| !(value.is_null() || OBJECT_META.contains(&&**member) && is_empty(member, value)));
}

/// Brings an owner into the form in which Go prints it.
pub(super) fn normalize_owner(owner: &mut Value) {
    if owner.is_null() {
        *owner = Value::Object(Map::new());
    }
    let Some(owner) = owner.as_object_mut() else { return };
    owner.retain(|_, value| !value.is_null());
    for member in OWNER {
        owner.entry(*member).or_insert_with(|| "".into());
    }
}

fn null_is_text(value: &mut Value) {
    if value.is_null() {
        *value = "".into();
    }
}

/// What Go leaves out; a grace period of 0 seconds is a pointer to 0 and stays.
fn is_empty(member: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => member == "generation" && number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
