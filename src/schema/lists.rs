//! Lists whose items are different ones: of type `set` as a whole, of type `map` by their keys.

use std::collections::HashMap;

use go::json::value_into;
use model::invalid::{FieldError, TOLD_BYTES_MAX};
use serde_json::{Map, Value};

use crate::{
    Schema,
    embedded::Path,
    node::{ListKind, Node},
};

/// Up to this number of items each is compared with each.
const FEW: usize = 16;

impl Schema {
    /// Returns the items of lists that are there twice.
    #[must_use]
    pub fn wrong_lists(&self, object: &Value) -> Vec<FieldError> {
        let mut check = Check { path: Path::default(), told_bytes: 0, errors: Vec::new() };
        if self.root.has.lists {
            check.value(&self.root, object);
        }
        check.errors
    }
}

struct Check {
    path: Path,
    told_bytes: usize,
    errors: Vec<FieldError>,
}

impl Check {
    fn tell(&mut self, error: FieldError) {
        if self.told_bytes <= TOLD_BYTES_MAX {
            self.told_bytes += error.bytes();
            self.errors.push(error);
        }
    }

    fn value(&mut self, node: &Node, value: &Value) {
        match value {
            Value::Array(items) => {
                match node.list.as_ref().map(|list| (list.kind, &*list.keys)) {
                    Some((ListKind::Set, _)) => self.set(items),
                    Some((ListKind::Map, keys)) => self.map(items, keys),
                    _ => {}
                }
                if let Some(of_items) = node.items.as_deref().filter(|node| node.has.lists) {
                    for (at, item) in items.iter().enumerate() {
                        let length = self.path.step_to(at);
                        self.value(of_items, item);
                        self.path.back(length);
                    }
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let Some(Some(of_member)) = node.member(name) else { continue };
                    if of_member.has.lists {
                        let length = self.path.step(name, node.property(name).is_some());
                        self.value(of_member, member);
                        self.path.back(length);
                    }
                }
            }
            _ => {}
        }
    }

    fn set(&mut self, items: &[Value]) {
        for at in repeated(items.iter().map(Some)) {
            let field = self.path.at(at);
            self.tell(FieldError::duplicate(field, &items[at]));
        }
    }

    fn map(&mut self, items: &[Value], keys: &[Box<str>]) {
        if let Some((at, odd)) = items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null()) {
            let why = "must be an object for an array of list-type map";
            return self.tell(FieldError::invalid(self.path.at(at), odd, why));
        }
        let repeated: Vec<usize> = match keys {
            [key] => repeated(items.iter().map(|item| item.get(&**key))).collect(),
            keys => {
                let of_keys: Vec<Value> = items.iter().map(|item| keys_of(item, keys)).collect();
                repeated(of_keys.iter().map(Some)).collect()
            }
        };
        for at in repeated {
            let field = self.path.at(at);
            self.tell(FieldError::duplicate(field, &keys_of(&items[at], keys)));
        }
    }
}

fn keys_of(item: &Value, keys: &[Box<str>]) -> Value {
    let present = keys.iter().filter_map(|key| Some(((**key).to_owned(), item.get(&**key)?.clone())));
    Value::Object(present.collect::<Map<String, Value>>())
}

/// The indices of what has been there once before.
pub(crate) fn repeated<'v>(items: impl ExactSizeIterator<Item = Option<&'v Value>> + Clone) -> impl Iterator<Item = usize> {
    let (few, many) = if items.len() <= FEW { (Some(items), None) } else { (None, Some(items)) };
    let few = few.into_iter().flat_map(|items| {
        let before = items.clone();
        items.enumerate().filter(move |(at, item)| before.clone().take(*at).filter(|other| other == item).count() == 1).map(|(at, _)| at)
    });
    let many = many.into_iter().flat_map(|items| {
        let mut times: HashMap<Vec<u8>, usize> = HashMap::with_capacity(items.len());
        items.enumerate().filter_map(move |(at, item)| {
            let mut key = Vec::new();
            if let Some(item) = item {
                value_into(item, &mut key);
            }
            let times = times.entry(key).or_default();
            *times += 1;
            (*times == 2).then_some(at)
        })
    });
    few.chain(many)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(schema: &Value, value: &Value) -> Vec<String> {
        let schema = Schema::of_tree(schema).expect("a schema");
        schema.wrong_lists(value).into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
    }

    #[test]
    fn items_are_told_when_they_come_again() {
        let set = json!({"properties": {"s": {"type": "array", "x-kubernetes-list-type": "set", "items": {}}}});
        assert_eq!(wrong(&set, &json!({"s": [1, 2, 1, 1, "1", null, null]})), ["s[2]: Duplicate value: 1", "s[6]: Duplicate value: null"]);
        assert_eq!(wrong(&set, &json!({"s": [{"a": [1]}, {"a": [1]}]})), [r#"s[1]: Duplicate value: {"a":[1]}"#]);
        let many: Vec<usize> = (0..40).chain([7, 7]).collect();
        assert_eq!(wrong(&set, &json!({"s": many})), ["s[40]: Duplicate value: 7"]);
        let map = |keys: Value| json!({"additionalProperties": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}});
        let items = json!({"m": [{"k": "a", "v": 1}, {"k": "a"}, {}, {"v": 1}, {"v": 1}]});
        assert_eq!(wrong(&map(json!(["k"])), &items), [r#"[m][1]: Duplicate value: {"k":"a"}"#, "[m][3]: Duplicate value: {}"]);
        assert_eq!(wrong(&map(json!(["k", "v"])), &items), [r#"[m][4]: Duplicate value: {"v":1}"#]);
        assert_eq!(
            wrong(&map(json!(["k"])), &json!({"m": [{"k": 1}, {"k": 1}, 5]})),
            ["[m][2]: Invalid value: 5: must be an object for an array of list-type map"]
        );
    }
}
