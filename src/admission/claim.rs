//! `persistentvolumeclaims`: a kubelet changes what a claim's status says of its size, and nothing else.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::{Attributes, Operation, Verdict, diff, forbid, tree};
use go::quote::{json_quoted, quoted};

/// Members of the status that a kubelet writes.
const OWN: [&str; 4] = ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];

/// Members of `metadata` that no write is judged by.
const UNJUDGED: [&str; 2] = ["resourceVersion", "managedFields"];

/// How a member of Kubernetes' internal type, which has no names of JSON, is shown.
enum Shown {
    /// By its own members, in this order; without it, all of them with what they have when they are not set.
    Message(&'static [(&'static str, Shown)]),
    /// The same; without it, null.
    Optional(&'static [(&'static str, Shown)]),
    /// As JSON; without it, an empty text.
    Text,
    /// As JSON; without it, null.
    Any,
    /// As JSON with its members in this order; without it, null.
    Ordered(&'static [&'static str]),
}

const METADATA: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];
const OWNER: &[&str] = &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
const SELECTOR: &[&str] = &["matchLabels", "matchExpressions"];
const LOCAL: &[(&str, Shown)] = &[("APIGroup", Shown::Any), ("Kind", Shown::Text), ("Name", Shown::Text)];
const REFERENCE: &[(&str, Shown)] = &[("APIGroup", Shown::Any), ("Kind", Shown::Text), ("Name", Shown::Text), ("Namespace", Shown::Any)];
const MODIFY: &[(&str, Shown)] = &[("TargetVolumeAttributesClassName", Shown::Text), ("Status", Shown::Text)];
const SPEC: &[(&str, Shown)] = &[
    ("AccessModes", Shown::Any),
    ("Selector", Shown::Ordered(SELECTOR)),
    ("Resources", Shown::Message(&[("Limits", Shown::Any), ("Requests", Shown::Any)])),
    ("VolumeName", Shown::Text),
    ("StorageClassName", Shown::Any),
    ("VolumeMode", Shown::Any),
    ("DataSource", Shown::Optional(LOCAL)),
    ("DataSourceRef", Shown::Optional(REFERENCE)),
    ("VolumeAttributesClassName", Shown::Any),
];
const STATUS: &[(&str, Shown)] = &[
    ("Phase", Shown::Text),
    ("AccessModes", Shown::Any),
    ("Capacity", Shown::Any),
    ("Conditions", Shown::Any),
    ("AllocatedResources", Shown::Any),
    ("AllocatedResourceStatuses", Shown::Any),
    ("CurrentVolumeAttributesClassName", Shown::Any),
    ("ModifyVolumeStatus", Shown::Optional(MODIFY)),
];

pub(crate) fn admit(node: &str, write: &Attributes<'_>) -> Verdict {
    if write.subresource != "status" {
        return forbid("may only update PVC status");
    }
    let (Operation::Update, Some(new), Some(old)) = (write.operation, write.object, write.old) else {
        return forbid(format!("unexpected operation {}", quoted(write.operation.name())));
    };
    let [new, old] = [new, old].map(judged);
    if comparable(&new) == comparable(&old) {
        return Ok(());
    }
    let difference = diff::unified(&printed(&old), &printed(&new));
    forbid(format!("node {} is not allowed to update fields other than status.quantity and status.conditions: {difference}", quoted(node)))
}

/// What a claim is judged by.
fn judged(claim: &Value) -> Value {
    let mut claim = claim.clone();
    let mut remove = |of: &str, members: &[&str]| {
        if let Some(of) = claim.get_mut(of).and_then(Value::as_object_mut) {
            of.retain(|member, _| !members.contains(&member.as_str()));
        }
    };
    remove("metadata", &UNJUDGED);
    remove("status", &OWN);
    claim
}

/// The same with each quantity as its number: `1Gi` is 1073741824. Null and nothing are the same, and so are an empty and no status.
fn comparable(claim: &Value) -> Value {
    let mut claim = claim.clone();
    if let Some(claim) = claim.as_object_mut() {
        claim.retain(|member, value| !matches!(member.as_str(), "kind" | "apiVersion") && *value != Value::Object(Map::new()));
    }
    for of in ["limits", "requests"] {
        let quantities = claim.pointer_mut(&format!("/spec/resources/{of}")).and_then(Value::as_object_mut);
        for quantity in quantities.into_iter().flat_map(Map::values_mut) {
            if let Some(number) = quantity.as_str().and_then(go::quantity::approximate) {
                *quantity = number.into();
            }
        }
    }
    claim
}

/// A claim as Go prints its internal type: the lines that are compared in the refusal.
fn printed(claim: &Value) -> String {
    let mut out = String::from("{");
    let metadata = &claim["metadata"];
    let mut separator = "";
    for member in METADATA {
        let Some(value) = tree::at(metadata, &[member]) else { continue };
        let _ = write!(out, "{separator}\n {}: ", json_quoted(member));
        if *member == "ownerReferences" {
            ordered(value, OWNER, 1, &mut out);
        } else {
            json(value, 1, &mut out);
        }
        separator = ",";
    }
    for (member, of) in [("Spec", SPEC), ("Status", STATUS)] {
        let _ = write!(out, "{separator}\n {}: ", json_quoted(member));
        message(claim.get(member.to_lowercase()).unwrap_or(&Value::Null), of, 1, &mut out);
        separator = ",";
    }
    out.push_str("\n}");
    out
}

fn message(of: &Value, members: &[(&str, Shown)], depth: usize, out: &mut String) {
    out.push('{');
    for (at, (member, shown)) in members.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(out, "{comma}\n{}{}: ", " ".repeat(depth + 1), json_quoted(member));
        let value = tree::at(of, &[&name_of(member)]);
        match (shown, value) {
            (Shown::Message(members), value) => message(value.unwrap_or(&Value::Null), members, depth + 1, out),
            (Shown::Optional(members), Some(value)) => message(value, members, depth + 1, out),
            (Shown::Text, None) => out.push_str("\"\""),
            (_, None) => out.push_str("null"),
            (Shown::Ordered(order), Some(value)) => ordered(value, order, depth + 1, out),
            (_, Some(value)) => json(value, depth + 1, out),
        }
    }
    let _ = write!(out, "\n{}}}", " ".repeat(depth));
}

/// The name in JSON of a member of an internal type.
fn name_of(member: &str) -> String {
    match member.strip_prefix("API") {
        Some(rest) => format!("api{rest}"),
        None => member[..1].to_lowercase() + &member[1..],
    }
}

/// Indented JSON of a message, or of a list of messages, whose type has its members in this order.
fn ordered(value: &Value, order: &[&str], depth: usize, out: &mut String) {
    match value {
        Value::Array(items) => list(['[', ']'], items, depth, out, |item, out| ordered(item, order, depth + 1, out)),
        value => {
            let members: Vec<(&str, &Value)> = order.iter().filter_map(|member| Some((*member, tree::at(value, &[member])?))).collect();
            list(['{', '}'], &members, depth, out, |member, out| pair(*member, depth, out));
        }
    }
}

/// Indented JSON, members by name.
fn json(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Array(items) => list(['[', ']'], items, depth, out, |item, out| json(item, depth + 1, out)),
        Value::Object(members) => {
            let members: Vec<(&str, &Value)> = members.iter().map(|(name, value)| (name.as_str(), value)).collect();
            list(['{', '}'], &members, depth, out, |member, out| pair(*member, depth, out));
        }
        Value::String(text) => out.push_str(&json_quoted(text)),
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

fn pair((name, value): (&str, &Value), depth: usize, out: &mut String) {
    let _ = write!(out, "{}: ", json_quoted(name));
    json(value, depth + 1, out);
}

/// Items between brackets, each on a line of its own.
fn list<T>(brackets: [char; 2], items: &[T], depth: usize, out: &mut String, each: impl Fn(&T, &mut String)) {
    out.push(brackets[0]);
    for (at, item) in items.iter().enumerate() {
        let _ = write!(out, "{}\n{}", if at == 0 { "" } else { "," }, " ".repeat(depth + 1));
        each(item, out);
    }
    if !items.is_empty() {
        let _ = write!(out, "\n{}", " ".repeat(depth));
    }
    out.push(brackets[1]);
}
