//! Rules in CEL (`x-kubernetes-validations`), which nobody evaluates here: whoever can is shown each value that has rules.

use serde::Deserialize;
use serde_json::Value;

use crate::{Schema, correlate::Items, embedded::Path, node::Node};

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names of the API")]
pub struct Rule {
    pub rule: String,
    pub message: Option<String>,
    pub message_expression: Option<String>,
    pub reason: Option<String>,
    pub field_path: Option<String>,
    pub optional_old_self: Option<bool>,
}

/// Evaluates rules.
pub trait Rules {
    /// Judges a value at a path; `old` is what it replaces, where that can be told.
    fn judge(&mut self, rules: &[Rule], path: &str, value: &Value, old: Option<&Value>);
}

impl Schema {
    /// Whether any value has rules.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.root.has.rules
    }

    /// Shows each value of a whole object that has rules to who evaluates them, the outer before the inner.
    pub fn each_rule(&self, object: &Value, old: Option<&Value>, rules: &mut dyn Rules) {
        if self.root.has.rules {
            walk(&self.root, object, old, &mut Path::default(), rules);
        }
    }
}

fn walk(node: &Node, value: &Value, old: Option<&Value>, path: &mut Path, rules: &mut dyn Rules) {
    if !node.rules.is_empty() {
        rules.judge(&node.rules, path.text(), value, old);
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let Some(of_member) = node.member(name).flatten().filter(|node| node.has.rules) else { continue };
                let length = path.step(name, node.property(name).is_some());
                walk(of_member, member, old.and_then(|old| old.get(name)), path, rules);
                path.back(length);
            }
        }
        Value::Array(items) => {
            let Some(of_items) = node.items.as_deref().filter(|node| node.has.rules) else { return };
            let old = old.and_then(Value::as_array).and_then(|old| Items::of(node, old));
            for (at, item) in items.iter().enumerate() {
                let length = path.step_to(at);
                walk(of_items, item, old.as_ref().and_then(|old| old.like(item)), path, rules);
                path.back(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Met(Vec<String>);

    impl Rules for Met {
        fn judge(&mut self, rules: &[Rule], path: &str, value: &Value, old: Option<&Value>) {
            let old = old.map_or_else(|| "none".to_owned(), Value::to_string);
            self.0.push(format!("{} at {path}: {value}, {old}", rules[0].rule));
        }
    }

    #[test]
    fn each_value_with_rules_is_shown_with_what_it_replaces() {
        let rules = |rule: &str| json!([{"rule": rule}]);
        let schema = json!({"properties": {
            "a": {"x-kubernetes-validations": rules("a")},
            "m": {"additionalProperties": {"x-kubernetes-validations": rules("m")}},
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "x-kubernetes-validations": rules("l"), "properties": {"k": {}}}},
        }});
        let schema = Schema::of_tree(&schema).expect("a schema");
        let mut met = Met::default();
        let old = json!({"a": 1, "l": [{"k": 2}, {"k": 1}]});
        schema.each_rule(&json!({"a": 2, "m": {"x": 1}, "l": [{"k": 1}], "o": 1}), Some(&old), &mut met);
        assert_eq!(met.0, ["a at a: 2, 1", r#"l at l[0]: {"k":1}, {"k":1}"#, "m at m[x]: 1, none"]);
        assert!(schema.has_rules() && !Schema::of_tree(&json!({"properties": {"a": {}}})).expect("a schema").has_rules());
    }
}
