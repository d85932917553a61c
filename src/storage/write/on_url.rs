//! Whether what is written is the object on the URL, and may be.

use serde_json::Value;

use super::{
    failure::{StatusSubject, WriteError},
    metadata::{Found, dedup_owners},
    object_ref::ObjectRef,
    strategy, tree,
};

/// Judges whether what was sent, or made by a patch, is the object on the URL, and takes away its owners that stand twice.
pub(super) fn is_of(target: &ObjectRef, object: &mut Value, found: Found, warnings: &mut Vec<String>) -> Result<(), WriteError> {
    in_namespace(target, object)?;
    is_named(target, object)?;
    warnings.extend(dedup_owners(object, found));
    Ok(())
}

/// Spec api-surface §5.1 step 4.
pub(super) fn in_namespace(target: &ObjectRef, object: &Value) -> Result<(), WriteError> {
    let sent = tree::text(object, &["metadata", "namespace"]);
    match &target.namespace {
        Some(namespace) if !sent.is_empty() && sent != namespace => {
            Err(WriteError::BadRequest("the namespace of the provided object does not match the namespace sent on the request".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Spec api-surface §6.1.
fn is_named(target: &ObjectRef, object: &Value) -> Result<(), WriteError> {
    let (sent, name) = (tree::text(object, &["metadata", "name"]), &target.name);
    if sent == name {
        return Ok(());
    }
    Err(WriteError::BadRequest(if sent.is_empty() {
        format!("the name of the object ({name} based on URL) was undeterminable: name must be provided")
    } else {
        format!("the name of the object ({sent}) does not match the name on the URL ({name})")
    }))
}

/// A definition that is being deleted lets nothing new in (spec api-surface §11.2).
pub(super) fn may_create(target: &ObjectRef, name: &str) -> Result<(), WriteError> {
    if target.served().has_verb("create") {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating".to_owned();
    Err(WriteError::Forbidden { of: StatusSubject::resource(target.served(), name), why, cause: None })
}

/// A PUT that creates ignores the revision it names, but not the uid (spec api-surface §6.1).
pub(super) fn created_by_update(target: &ObjectRef, object: &Value, dry_run: bool) -> Result<(), WriteError> {
    let uid = tree::text(object, &["metadata", "uid"]);
    if uid.is_empty() {
        return Ok(());
    }
    let why = strategy::unmet(target, dry_run, "UID", uid, "");
    Err(WriteError::Conflict { of: target.subject(), why })
}
