//! Rules in CEL (`x-kubernetes-validations`): which value of an object has which of them, and what it replaces. They are evaluated elsewhere.

use std::ops::ControlFlow;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    Schema,
    correlate::{self, Items},
    embedded::Path,
    node::Node,
};

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

/// A value that has rules.
pub struct Ruled<'a> {
    /// Which of all nodes with rules is its schema.
    pub at: usize,
    /// Its path, as field errors have it; empty of the whole object.
    pub path: &'a str,
    /// The value, which is not null.
    pub value: &'a Value,
    /// What it replaces, where that can be found.
    pub old: Option<&'a Value>,
    nearest: Option<Correlated<'a>>,
}

impl Ruled<'_> {
    /// Returns whether it, or the nearest value around it that replaces another one, is what it was: then an error becomes a warning.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.nearest.is_some_and(|(node, value, old)| correlate::same(node, value, old))
    }
}

/// A value and what it replaces.
type Correlated<'a> = (&'a Node, &'a Value, &'a Value);

/// Calls back for each value that has rules. The end of it ends the walk.
type Judge<'j> = dyn FnMut(Ruled<'_>) -> ControlFlow<()> + 'j;

impl Schema {
    /// Whether any value has rules.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.root.has.rules
    }

    /// Shows each value of a whole object that has rules to who evaluates them, the outer before the inner.
    pub fn each_ruled(&self, object: &Value, old: Option<&Value>, judge: &mut Judge<'_>) {
        if self.root.has.rules {
            let mut walk = Walk { path: Path::default(), judge };
            let _: ControlFlow<()> = walk.node(&self.root, object, old, old.map(|old| (&self.root, object, old)), true);
        }
    }
}

struct Walk<'w, 'j> {
    path: Path,
    judge: &'w mut Judge<'j>,
}

impl Walk<'_, '_> {
    /// `nearest`: the value itself or the nearest around it that replaces another one.
    fn node<'a>(
        &mut self,
        node: &'a Node,
        value: &'a Value,
        old: Option<&'a Value>,
        nearest: Option<Correlated<'a>>,
        is_root: bool,
    ) -> ControlFlow<()> {
        if value.is_null() {
            return ControlFlow::Continue(());
        }
        if !node.rules.is_empty() {
            (self.judge)(Ruled { at: node.rules_at, path: self.path.text(), value, old, nearest })?;
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let Some(of_member) = node.member(name).flatten().filter(|node| node.has.rules) else { continue };
                    let length = self.path.step(name, node.property(name).is_some());
                    let old = old.and_then(|old| old.get(name));
                    // What the type says of an object is the same before and after, whatever was sent.
                    let is_hidden = is_root && matches!(&**name, "apiVersion" | "kind");
                    let nearest = if is_hidden { None } else { old.map(|old| (of_member, member, old)).or(nearest) };
                    self.node(of_member, member, old, nearest, false)?;
                    self.path.back(length);
                }
            }
            Value::Array(items) => {
                let Some(of_items) = node.items.as_deref().filter(|node| node.has.rules) else { return ControlFlow::Continue(()) };
                let before = old.and_then(Value::as_array).and_then(|old| Items::of(node, old));
                for (at, item) in items.iter().enumerate() {
                    let length = self.path.step_to(at);
                    let old = before.as_ref().and_then(|before| before.like(item));
                    self.node(of_items, item, old, old.map(|old| (of_items, item, old)).or(nearest), false)?;
                    self.path.back(length);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        let rules = |rule: &str| json!([{"rule": rule}]);
        let schema = json!({"properties": {
            "a": {"x-kubernetes-validations": rules("a")},
            "m": {"additionalProperties": {"x-kubernetes-validations": rules("m")}},
            "kind": {"x-kubernetes-validations": rules("k")},
            "s": {"type": "array", "items": {"x-kubernetes-validations": rules("s")}},
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "x-kubernetes-validations": rules("l"), "properties": {"k": {}}}},
        }});
        Schema::of_tree(&schema).expect("a schema")
    }

    fn met(new: &Value, old: Option<&Value>) -> Vec<String> {
        let schema = schema();
        let mut names = vec![""; schema.rule_sets()];
        for (_, property) in schema.view().properties() {
            for view in [Some(property), property.additional(), property.items()].into_iter().flatten() {
                if let [rule] = view.rules() {
                    names[view.rules_at()] = &rule.rule;
                }
            }
        }
        let mut met = Vec::new();
        schema.each_ruled(new, old, &mut |ruled| {
            let old = ruled.old.map_or_else(|| "none".to_owned(), Value::to_string);
            let same = if ruled.is_unchanged() { " the same" } else { "" };
            met.push(format!("{} at {}: {}, {old}{same}", names[ruled.at], ruled.path, ruled.value));
            ControlFlow::Continue(())
        });
        met
    }

    #[test]
    fn each_value_with_rules_is_shown_with_what_it_replaces() {
        let old = json!({"a": 1, "l": [{"k": 2}, {"k": 1}]});
        let shown = met(&json!({"a": 2, "m": {"x": 1}, "l": [{"k": 1}], "o": 1}), Some(&old));
        assert_eq!(shown, ["a at a: 2, 1", r#"l at l[0]: {"k":1}, {"k":1} the same"#, "m at m[x]: 1, none"]);
        assert!(schema().has_rules() && !Schema::of_tree(&json!({"properties": {"a": {}}})).expect("a schema").has_rules());
        assert_eq!(met(&json!({"a": null}), None), [""; 0], "null has no rules");
    }

    #[test]
    fn what_did_not_change_is_known_by_what_is_around_it() {
        let new = json!({"kind": "K", "s": [1, 2], "m": {"x": 1}});
        let shown = met(&new, Some(&new));
        assert_eq!(
            shown,
            ["k at kind: \"K\", \"K\"", "m at m[x]: 1, 1 the same", "s at s[0]: 1, none the same", "s at s[1]: 2, none the same"]
        );
        let shown = met(&json!({"s": [1, 2]}), Some(&json!({"s": [1]})));
        assert_eq!(shown, ["s at s[0]: 1, none", "s at s[1]: 2, none"]);
        assert_eq!(met(&json!({"a": 1}), None), ["a at a: 1, none"], "a new object");
    }
}
