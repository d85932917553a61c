//! Defaults: what is missing, or null and may not be, gets the value that its schema has for it.

use model::{DEFAULTED_BYTES_MAX, tree_bytes};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{
    Schema,
    embedded::is_head,
    node::{Additional, Node},
};

/// Why an object does not get its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("defaults would add more than {DEFAULTED_BYTES_MAX} bytes to the object")]
pub struct TooManyDefaults;

impl Schema {
    /// Sets what is missing in a whole object and has a default.
    ///
    /// # Errors
    /// They would add more than [`DEFAULTED_BYTES_MAX`], and not all of them are set.
    pub fn set_defaults(&self, object: &mut Value) -> Result<(), TooManyDefaults> {
        if let Value::Object(members) = object
            && self.root.has.defaults
        {
            Setting { left: DEFAULTED_BYTES_MAX }.members(&self.root, members, is_head)?;
        }
        Ok(())
    }
}

/// Sets defaults while there is room for them.
struct Setting {
    /// How many bytes more they may take.
    left: usize,
}

impl Setting {
    fn value(&mut self, node: &Node, value: &mut Value) -> Result<(), TooManyDefaults> {
        if !node.has.defaults {
            return Ok(());
        }
        match value {
            Value::Object(members) => self.members(node, members, |_| false)?,
            Value::Array(items) => {
                let Some(of_items) = &node.items else { return Ok(()) };
                for item in items {
                    self.replace_null(of_items, item)?;
                    self.value(of_items, item)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn members(&mut self, node: &Node, members: &mut Map<String, Value>, is_left: fn(&str) -> bool) -> Result<(), TooManyDefaults> {
        let defaulted = node.defaulted.iter().filter_map(|at| node.properties.get(*at as usize));
        for (name, property) in defaulted.filter(|(name, _)| !is_left(name)) {
            let Some(default) = &property.default else { continue };
            if members.get(&**name).is_none_or(|value| value.is_null() && !property.nullable) {
                members.insert((**name).to_owned(), self.copy(default)?);
            }
        }
        for (name, value) in members.iter_mut().filter(|(name, _)| !is_left(name)) {
            match (node.property(name), &node.additional) {
                (Some(property), _) => self.value(property, value)?,
                (None, Some(Additional::Like(additional))) => {
                    self.replace_null(additional, value)?;
                    self.value(additional, value)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A null that is no value becomes the default, or stays.
    fn replace_null(&mut self, node: &Node, value: &mut Value) -> Result<(), TooManyDefaults> {
        if value.is_null()
            && !node.nullable
            && let Some(default) = &node.default
        {
            *value = self.copy(default)?;
        }
        Ok(())
    }

    fn copy(&mut self, default: &Value) -> Result<Value, TooManyDefaults> {
        self.left = self.left.checked_sub(tree_bytes(default)).ok_or(TooManyDefaults)?;
        Ok(default.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// 6 KB took 758 MB.
    #[test]
    fn defaults_that_multiply_are_refused() {
        let item = json!({"type": "object", "properties": {"d": {"type": "string", "default": "x".repeat(100_000)}}});
        let list = |items| json!({"type": "object", "properties": {"l": {"type": "array", "items": items}}});
        let schema = Schema::of_tree(&list(item)).expect("a schema");
        let object = |count: usize| json!({"l": vec![json!({}); count]});
        assert_eq!(schema.set_defaults(&mut object(80)), Ok(()));
        assert_eq!(schema.set_defaults(&mut object(2_000)), Err(TooManyDefaults));
        let mut inner = json!({"default": "x"});
        for _ in 0..5 {
            let items = json!({"properties": {"l": inner}});
            inner = json!({"type": "array", "items": items, "default": vec![json!({}); 200]});
        }
        let schema = Schema::of_tree(&json!({"properties": {"l": inner}})).expect("a schema");
        assert_eq!(schema.set_defaults(&mut json!({})), Err(TooManyDefaults));
    }
}
