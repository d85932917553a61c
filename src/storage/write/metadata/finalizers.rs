//! Finalizers: which are accepted, and which came anew (spec api-surface §5.4, §3.7).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::items;
use go::quote::quoted;
use model::{invalid::FieldError, legal::wrong_key};

const FIELD: &str = "metadata.finalizers";

/// Finalizers that are older than the rule of the `/`.
const STANDARD: &[&str] = &["orphan", "foregroundDeletion", "kubernetes"];

/// What is wrong with the finalizers of any object.
pub(super) fn wrong(metadata: &Map<String, Value>) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    for name in names(metadata) {
        wrong.extend(wrong_key(name).iter().map(|tail| FieldError::invalid(FIELD, &name.into(), tail)));
    }
    let has = |wanted: &str| names(metadata).any(|name| name == wanted);
    if has("orphan") && has("foregroundDeletion") {
        let all = Value::from(items(metadata, "finalizers"));
        wrong.push(FieldError::invalid(FIELD, &all, "finalizer orphan and foregroundDeletion cannot be both set"));
    }
    wrong
}

/// The errors for finalizers that have no `/` and are not standard.
pub(super) fn bare(metadata: &Map<String, Value>) -> Vec<FieldError> {
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    let bare = names(metadata).enumerate().filter(|(_, name)| is_bare(name));
    bare.map(|(index, name)| FieldError::invalid(format!("{FIELD}[{index}]"), &name.into(), why)).collect()
}

/// The error for finalizers that an object being deleted did not have.
pub(super) fn added(new: &Map<String, Value>, old: &Map<String, Value>) -> Option<FieldError> {
    let added: Vec<String> = anew(new, Some(old)).into_iter().map(quoted).collect();
    let why =
        format!("no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}", added.join(", "));
    (!added.is_empty()).then(|| FieldError::forbidden(FIELD, &why))
}

/// The warnings for finalizers that a custom resource takes without a `/`, as far as `old` did not have them.
pub(crate) fn finalizer_warnings(new: &Map<String, Value>, old: Option<&Map<String, Value>>) -> Vec<String> {
    let bare = anew(new, old).into_iter().filter(|name| is_bare(name));
    bare.map(|name| {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        let why = "to avoid accidental conflicts with other finalizer writers";
        format!("{FIELD}: {}: prefer a domain-qualified finalizer name{path} {why}", quoted(name))
    })
    .collect()
}

fn names(metadata: &Map<String, Value>) -> impl Iterator<Item = &str> {
    items(metadata, "finalizers").iter().map(|item| item.as_str().unwrap_or_default())
}

fn anew<'a>(new: &'a Map<String, Value>, old: Option<&Map<String, Value>>) -> BTreeSet<&'a str> {
    let known: BTreeSet<&str> = old.into_iter().flat_map(names).collect();
    names(new).filter(|name| !known.contains(name)).collect()
}

fn is_bare(name: &str) -> bool {
    !name.contains('/') && !STANDARD.contains(&name)
}
