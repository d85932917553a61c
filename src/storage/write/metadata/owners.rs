//! `metadata.ownerReferences`: validation, and the removal of those that stand twice (spec api-surface §3.7, §5.4).

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{items, normal::normalize_owner};
use model::invalid::{FieldError, FieldErrorKind, TOLD_BYTES_MAX};

const FIELD: &str = "metadata.ownerReferences";

/// What is wrong with the owners.
pub(super) fn wrong(metadata: &Map<String, Value>) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let owners = items(metadata, "ownerReferences");
    // Each error about a second controller shows all owners.
    let mut told_bytes = 0;
    let mut controller: Option<String> = None;
    for owner in owners {
        wrong.extend(wrong_owner(owner));
        if owner["controller"] != json!(true) {
            continue;
        }
        let name = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        match &controller {
            None => controller = Some(name),
            Some(_) if told_bytes > TOLD_BYTES_MAX => {}
            Some(first) => {
                let why =
                    format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}");
                let all: Vec<String> = owners.iter().map(go_json).collect();
                let error = invalid(&format!("[{}]", all.join(",")), &why);
                told_bytes += error.bytes();
                wrong.push(error);
            }
        }
    }
    wrong
}

/// When kube-apiserver finds owners that stand twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// In the body of a POST or PUT.
    Sent,
    /// In what a PATCH has made, when mutating admission has seen it.
    Patched,
}

/// Removes owners that equal an earlier one, and returns the warning about them.
pub(crate) fn dedup_owners(object: &mut Value, found: Found) -> Option<String> {
    let owners = object.get_mut("metadata")?.get_mut("ownerReferences")?.as_array_mut()?;
    owners.iter_mut().for_each(normalize_owner);
    let (mut seen, mut twice) = (HashSet::new(), Vec::new());
    owners.retain(|owner| {
        let is_new = seen.insert(owner.clone());
        if !is_new {
            twice.push(text(owner, "uid").to_owned());
        }
        is_new
    });
    let when = if found == Found::Patched { " after mutating admission happens" } else { "" };
    (!twice.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such \
             requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        )
    })
}

fn wrong_owner(owner: &Value) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let api_version = text(owner, "apiVersion");
    let (group, version) = match api_version.split('/').collect::<Vec<_>>()[..] {
        [version] => ("", version),
        [group, version] => (group, version),
        _ => ("", ""),
    };
    if version.is_empty() {
        wrong.push(FieldError::invalid(format!("{FIELD}.apiVersion"), &api_version.into(), "version must not be empty"));
    }
    for member in ["kind", "name", "uid"] {
        if text(owner, member).is_empty() {
            wrong.push(FieldError::invalid(format!("{FIELD}.{member}"), &"".into(), "must not be empty"));
        }
    }
    if (group, version, text(owner, "kind")) == ("", "v1", "Event") {
        wrong.push(invalid(&go_json(owner), "/v1, Kind=Event is disallowed from being an owner"));
    }
    wrong
}

fn invalid(shown: &str, why: &str) -> FieldError {
    FieldError { field: FIELD.to_owned(), kind: FieldErrorKind::Invalid, message: format!("Invalid value: {shown}: {why}") }
}

/// An owner as Go prints it: its members in the order of the type.
fn go_json(owner: &Value) -> String {
    let always = ["apiVersion", "kind", "name", "uid"].map(|member| format!("\"{member}\":{}", Value::from(text(owner, member))));
    let sometimes = ["controller", "blockOwnerDeletion"].into_iter().filter_map(|member| {
        let flag = owner[member].as_bool()?;
        Some(format!("\"{member}\":{flag}"))
    });
    format!("{{{}}}", always.into_iter().chain(sometimes).collect::<Vec<_>>().join(","))
}

fn text<'a>(owner: &'a Value, member: &str) -> &'a str {
    owner[member].as_str().unwrap_or_default()
}
