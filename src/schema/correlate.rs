//! Which part of an old object is which part of a new one: members by their names, items of lists of type `map` by their keys, others not at all.

use std::{collections::HashMap, fmt::Write as _};

use serde_json::Value;

use crate::node::{Additional, Kind, List, ListKind, Node};

/// The items of an old list, by their keys.
pub(crate) struct Items<'o> {
    keys: &'o [Box<str>],
    by_key: HashMap<String, &'o Value>,
}

impl<'o> Items<'o> {
    /// None of a list whose items nobody can tell apart.
    pub(crate) fn of(node: &'o Node, old: &'o [Value]) -> Option<Self> {
        let List { kind: ListKind::Map, keys } = &**node.list.as_ref()? else { return None };
        if keys.is_empty() || node.kind != Kind::Array {
            return None;
        }
        let mut by_key = HashMap::with_capacity(old.len());
        for item in old {
            if let Some(key) = key(item, keys) {
                by_key.entry(key).or_insert(item);
            }
        }
        Some(Self { keys, by_key })
    }

    /// The item with the same keys.
    pub(crate) fn like(&self, new: &Value) -> Option<&'o Value> {
        self.by_key.get(&key(new, self.keys)?).copied()
    }
}

/// The keys of an item, each of which must be there and a scalar.
fn key(item: &Value, keys: &[Box<str>]) -> Option<String> {
    let item = item.as_object()?;
    let mut all = String::new();
    for key in keys {
        let value = item.get(&**key)?;
        if value.is_null() || value.is_array() || value.is_object() {
            return None;
        }
        let _ = write!(all, "{value}\0");
    }
    Some(all)
}

/// Whether a value is what it was. What the schema does not know of, and so cannot correlate, is not.
pub(crate) fn same(node: &Node, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Array(new), Value::Array(old)) => {
            let is_map = node.list.as_ref().is_some_and(|list| list.kind == ListKind::Map);
            if new.len() != old.len() || !is_map {
                return new == old;
            }
            let items = Items::of(node, old);
            new.iter().all(|item| {
                let old = items.as_ref().and_then(|items| items.like(item));
                node.items.as_deref().zip(old).is_some_and(|(node, old)| same(node, item, old))
            })
        }
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(name, value)| {
                    let node = node.property(name).or(match &node.additional {
                        Some(Additional::Like(node)) => Some(node),
                        _ => None,
                    });
                    node.zip(old.get(name)).is_some_and(|(node, old)| same(node, value, old))
                })
        }
        _ => new == old,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_that_are_maps_have_no_order_and_others_do() {
        let schema = |more: Value| {
            let mut schema =
                json!({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}});
            schema.as_object_mut().expect("members").extend(more.as_object().expect("members").clone());
            serde_json::from_value::<Node>(schema).expect("a schema")
        };
        let map = schema(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}));
        let (old, turned) = (json!([{"k": "a", "v": 1}, {"k": "b"}]), json!([{"k": "b"}, {"k": "a", "v": 1}]));
        assert!(same(&map, &turned, &old) && same(&map, &old, &old));
        assert!(!same(&schema(json!({})), &turned, &old) && same(&schema(json!({})), &old, &old));
        assert!(!same(&map, &json!([{"k": "a", "v": 2}, {"k": "b"}]), &old));
        // Nobody knows of `x`.
        let odd = json!([{"k": "a", "x": 1}]);
        assert!(!same(&map, &odd, &odd) && same(&schema(json!({})), &odd, &odd));
        assert!(!same(&map, &json!(null), &old) && same(&map, &json!(null), &json!(null)));
    }
}
