//! Conditions of a definition's status.

use serde_json::{Value, json};

use super::tree::{list, object_mut, text};

/// One condition to be set.
pub(super) struct Condition<'c> {
    pub(super) kind: &'static str,
    pub(super) status: &'static str,
    pub(super) reason: &'c str,
    pub(super) message: &'c str,
}

/// The condition of a kind.
pub(super) fn find<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    object.get("status").and_then(|status| list(status, "conditions").iter().find(|condition| text(condition, "type") == kind))
}

/// Whether the condition of a kind is there and `True`.
pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).is_some_and(|condition| text(condition, "status") == "True")
}

/// Whether the object has this condition, whatever its time.
pub(super) fn has(object: &Value, condition: &Condition<'_>) -> bool {
    find(object, condition.kind).is_some_and(|old| {
        text(old, "status") == condition.status && text(old, "reason") == condition.reason && text(old, "message") == condition.message
    })
}

/// Sets a condition in its place or at the end; `now` becomes its time when its status changes.
pub(super) fn put(object: &mut Value, condition: &Condition<'_>, now: &str) {
    let status = object_mut(object, "status");
    let conditions = status.entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else { return };
    let (reason, message) = (condition.reason, condition.message);
    match conditions.iter_mut().find(|old| text(old, "type") == condition.kind) {
        Some(old) => {
            if text(old, "status") != condition.status || text(old, "lastTransitionTime").is_empty() {
                old["lastTransitionTime"] = Value::from(now);
            }
            for (name, value) in [("status", condition.status), ("reason", reason), ("message", message)] {
                old[name] = Value::from(value);
            }
        }
        None => conditions.push(json!({
            "type": condition.kind, "status": condition.status, "lastTransitionTime": now, "reason": reason, "message": message,
        })),
    }
}

/// The object without the condition of a kind; `None` when it has none.
pub(super) fn without(object: &Value, kind: &str) -> Option<Value> {
    find(object, kind)?;
    let mut object = object.clone();
    if let Some(Value::Array(conditions)) = object_mut(&mut object, "status").get_mut("conditions") {
        conditions.retain(|condition| text(condition, "type") != kind);
    }
    Some(object)
}
