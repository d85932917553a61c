//! Pruning: members that a schema does not know go, and nulls that are no values.

use std::fmt::Write as _;

use model::invalid::TOLD_BYTES_MAX;
use serde_json::Value;

use crate::{Schema, embedded::is_head, node::Node};

impl Schema {
    /// Takes away what the schema does not know of a whole object. If `unknown` is there, it gets the paths of that, sorted; of megabytes of them not all.
    pub fn prune(&self, object: &mut Value, unknown: Option<&mut Vec<String>>) {
        if self.preserves {
            return;
        }
        let mut prune = Prune { tells: unknown.is_some(), path: String::new(), unknown: Vec::new(), told_bytes: 0 };
        prune.object(object, &self.root, true);
        if let Some(unknown) = unknown {
            prune.unknown.sort_unstable();
            unknown.extend(prune.unknown);
        }
    }

    /// Takes away from a whole object the nulls that may not be null and have no default.
    pub fn drop_nulls(&self, object: &mut Value) {
        if let Value::Object(members) = object
            && !self.preserves
        {
            members.retain(|name, value| is_head(name) || !is_dropped(value, self.root.member(name).flatten()));
        }
    }
}

/// Takes away what a schema does not know of a part of an object that it is about, or of a whole one inside of another.
pub(crate) fn part(value: &mut Value, node: &Node, is_resource: bool) {
    let mut prune = Prune { tells: false, path: String::new(), unknown: Vec::new(), told_bytes: 0 };
    if is_resource && value.is_object() {
        prune.object(value, node, true);
    } else {
        prune.value(value, Some(node));
    }
}

/// Whether a value is no value; drops those inside of it.
fn is_dropped(value: &mut Value, node: Option<&Node>) -> bool {
    let Some(node) = node else { return false };
    match value {
        Value::Null => return !node.nullable && node.default.is_none(),
        Value::Object(members) => members.retain(|name, value| !is_dropped(value, node.member(name).flatten())),
        Value::Array(items) => {
            if let Some(node) = &node.items {
                // An item keeps its place.
                items.iter_mut().filter(|item| !item.is_null()).for_each(|item| {
                    is_dropped(item, Some(node));
                });
            }
        }
        _ => {}
    }
    false
}

struct Prune {
    tells: bool,
    path: String,
    unknown: Vec<String>,
    told_bytes: usize,
}

impl Prune {
    fn value(&mut self, value: &mut Value, node: Option<&Node>) {
        match (value, node) {
            (Value::Object(members), None) => {
                if self.tells {
                    members.keys().for_each(|name| self.tell(name));
                }
                members.clear();
            }
            (value @ Value::Object(_), Some(node)) => self.object(value, node, false),
            (Value::Array(items), node) => {
                let preserves = node.is_some_and(|node| node.preserves);
                let of_items = node.and_then(|node| node.items.as_deref());
                for (at, item) in items.iter_mut().enumerate() {
                    let length = self.step_to(at);
                    if preserves {
                        self.below_preserved(item, of_items)
                    } else {
                        self.value(item, of_items)
                    }
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Below a list that preserves what is unknown: only what is known is pruned.
    fn below_preserved(&mut self, value: &mut Value, node: Option<&Node>) {
        match (value, node) {
            (value @ Value::Object(_), Some(node)) => self.members(value, node, node.embedded, true),
            (Value::Array(items), Some(node)) => {
                for (at, item) in items.iter_mut().enumerate() {
                    let length = self.step_to(at);
                    self.below_preserved(item, node.items.as_deref());
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, value: &mut Value, node: &Node, is_root: bool) {
        self.members(value, node, node.embedded || is_root, node.preserves);
    }

    fn members(&mut self, value: &mut Value, node: &Node, is_whole: bool, preserves: bool) {
        let Value::Object(members) = value else { return };
        members.retain(|name, member| {
            if is_whole && is_head(name) {
                return true;
            }
            match node.member(name) {
                Some(of_member) => {
                    let length = self.step(name);
                    self.value(member, of_member);
                    self.path.truncate(length);
                }
                None if preserves => {}
                None => {
                    self.tell(name);
                    return false;
                }
            }
            true
        });
    }

    fn tell(&mut self, name: &str) {
        if self.tells && self.told_bytes <= TOLD_BYTES_MAX {
            let length = self.step(name);
            self.told_bytes += self.path.len();
            self.unknown.push(self.path.clone());
            self.path.truncate(length);
        }
    }

    fn step(&mut self, name: &str) -> usize {
        let length = self.path.len();
        if self.tells {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
        }
        length
    }

    fn step_to(&mut self, index: usize) -> usize {
        let length = self.path.len();
        if self.tells {
            let _ = write!(self.path, "[{index}]");
        }
        length
    }
}
