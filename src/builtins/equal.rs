//! When two values are the same to kube-apiserver (`apiequality.Semantic.DeepEqual`): a list or map that is empty is as one that is absent.

use serde_json::{Map, Value};

use crate::quantities::same_amount;

/// Members that are quantities, or maps of quantities.
const QUANTITIES: [&str; 8] = ["limits", "requests", "overhead", "sizeLimit", "divisor", "capacity", "allocatable", "hard"];

/// Whether two values are the same. Quantities are when their amounts are.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => same_members(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b || is_nothing(a) && is_nothing(b),
    }
}

fn same_members(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let in_other = |(name, value): (&String, &Value), other: &Map<String, Value>| match other.get(name) {
        Some(known) if QUANTITIES.contains(&name.as_str()) => same_quantities(value, known),
        Some(known) => same(value, known),
        None => is_nothing(value),
    };
    a.iter().all(|member| in_other(member, b)) && b.iter().all(|(name, value)| a.contains_key(name) || is_nothing(value))
}

fn same_quantities(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => same_amount(a, b),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, amount)| b.get(name).is_some_and(|other| same_quantities(amount, other)))
        }
        _ => same(a, b),
    }
}

/// An object without members can be a structure that is there, which is not the same as one that is absent.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_lists_are_as_absent_ones() {
        let pairs = [
            (json!({"a": 1, "b": []}), json!({"a": 1}), true),
            (json!({"a": null}), json!({}), true),
            (json!({"a": {}}), json!({}), false),
            (json!([{"a": []}]), json!([{}]), true),
            (json!([1]), json!([1, 2]), false),
            (json!({"a": "x"}), json!({"a": "y"}), false),
            (json!({"limits": {"a": "1000m"}}), json!({"limits": {"a": "1"}}), true),
            (json!({"limits": {"a": "1"}}), json!({"limits": {"b": "1"}}), false),
            (json!({"value": "1000m"}), json!({"value": "1"}), false),
            (json!(null), json!([]), true),
            (json!(0), json!(null), false),
        ];
        for (a, b, want) in pairs {
            assert_eq!((same(&a, &b), same(&b, &a)), (want, want), "{a} {b}");
        }
    }
}
