//! Defaults: what is missing, or null and may not be, gets the value that its schema has for it.

use serde_json::{Map, Value};

use crate::{
    Schema,
    embedded::is_head,
    node::{Additional, Node},
};

impl Schema {
    /// Sets what is missing in a whole object and has a default.
    pub fn set_defaults(&self, object: &mut Value) {
        if let Value::Object(members) = object
            && self.root.has.defaults
        {
            fill(&self.root, members, is_head);
        }
    }
}

fn set(node: &Node, value: &mut Value) {
    if !node.has.defaults {
        return;
    }
    match value {
        Value::Object(members) => fill(node, members, |_| false),
        Value::Array(items) => {
            let Some(of_items) = &node.items else { return };
            for item in items {
                replace_null(of_items, item);
                set(of_items, item);
            }
        }
        _ => {}
    }
}

fn fill(node: &Node, members: &mut Map<String, Value>, is_left: fn(&str) -> bool) {
    for (name, property) in node.properties.iter().filter(|(name, _)| !is_left(name)) {
        let Some(default) = &property.default else { continue };
        if members.get(&**name).is_none_or(|value| value.is_null() && !property.nullable) {
            members.insert((**name).to_owned(), (**default).clone());
        }
    }
    for (name, value) in members.iter_mut().filter(|(name, _)| !is_left(name)) {
        match (node.property(name), &node.additional) {
            (Some(property), _) => set(property, value),
            (None, Some(Additional::Like(additional))) => {
                replace_null(additional, value);
                set(additional, value);
            }
            _ => {}
        }
    }
}

/// A null that is no value becomes the default, or stays.
fn replace_null(node: &Node, value: &mut Value) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = (**default).clone();
    }
}
