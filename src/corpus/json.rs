//! JSON values for properties of what reads and prints JSON.

use proptest::prelude::*;
use serde_json::Value;

/// Any JSON, a few levels deep, its strings full of what needs escapes.
///
/// # Panics
/// Never: the words are those of a regular expression that is one.
pub fn any_json() -> impl Strategy<Value = Value> {
    let word = || proptest::string::string_regex("[a-z<\"\\\\\u{2028}é😀\n]{0,6}").expect("a regex");
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e30..1e30f64).prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(word(), inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}
