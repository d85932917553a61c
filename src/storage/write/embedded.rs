//! The heads of objects inside of custom resources: `apiVersion`, `kind` and `metadata`, coerced and judged as kube-apiserver does.

use serde_json::{Map, Value};

use super::{group_version, metadata, tree, typed};
use catalogue::definition;
use model::{invalid::FieldError, legal::wrong_label_1035};
use schema::{Embedded, EmbeddedMut};

/// Judges the heads of objects inside of the defaults of definitions.
pub(super) struct Heads;

impl definition::Heads for Heads {
    fn coerce(&self, embedded: EmbeddedMut<'_>) -> Result<(), FieldError> {
        coerce_head(embedded, &mut typed::Unknown::new())
    }

    fn wrong(&self, embedded: Embedded<'_>) -> Vec<FieldError> {
        wrong_head(embedded)
    }
}

pub(super) fn coerce_head(embedded: EmbeddedMut<'_>, unknown: &mut typed::Unknown) -> Result<(), FieldError> {
    let EmbeddedMut { path, members } = embedded;
    let at = |name: &str| below(path, name);
    let refused = |name: &str, value: &Value, why: &str| FieldError::invalid(at(name), value, why);
    for name in ["apiVersion", "kind"] {
        if let Some(odd) = members.get(name).filter(|value| !value.is_string()) {
            return Err(refused(name, odd, "must be a string"));
        }
    }
    let Some(metadata) = members.get_mut("metadata") else { return Ok(()) };
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let sent = (!metadata.is_object()).then(|| metadata.clone());
    match typed::conform_metadata_at(metadata, &at("metadata")) {
        Ok(found) => {
            unknown.extend(found);
            metadata.as_object_mut().into_iter().for_each(metadata::normalize);
        }
        Err(typed::WrongType(why)) => return Err(refused("metadata", sent.as_ref().unwrap_or(metadata), &why)),
    }
    Ok(())
}

pub(super) fn coerce_or_leave(EmbeddedMut { path, members }: EmbeddedMut<'_>) {
    let before = members.get("metadata").cloned();
    if coerce_head(EmbeddedMut { path, members }, &mut typed::Unknown::new()).is_err()
        && let Some(before) = before
    {
        members.insert("metadata".to_owned(), before);
    }
}

pub(super) fn wrong_head(embedded: Embedded<'_>) -> Vec<FieldError> {
    let Embedded { path, members } = embedded;
    let at = |name: &str| below(path, name);
    let mut errors = Vec::new();
    for name in ["apiVersion", "kind"] {
        if !members.contains_key(name) {
            errors.push(FieldError::required(at(name), ""));
        }
    }
    if let Some(value) = members.get("apiVersion") {
        errors.extend(wrong_api_version(value).map(|why| FieldError::invalid(at("apiVersion"), value, &why)));
    }
    if let Some(value) = members.get("kind") {
        errors.extend(wrong_kind(value).map(|why| FieldError::invalid(at("kind"), value, &why)));
    }
    let Some(sent) = members.get("metadata") else { return errors };
    let mut metadata = sent.clone();
    match typed::conform_metadata_at(&mut metadata, "metadata") {
        Err(typed::WrongType(why)) => errors.push(FieldError::invalid(at("metadata"), sent, &why)),
        Ok(_) => {
            let wrong = metadata::wrong_embedded(metadata.as_object().unwrap_or(&tree::NO_MEMBERS));
            errors.extend(wrong.into_iter().map(|error| FieldError { field: at(&error.field), ..error }));
        }
    }
    errors
}

/// A member of an object at a path, which is none of what is judged alone.
fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn wrong_api_version(value: &Value) -> Option<String> {
    match value.as_str() {
        None => Some("must be a string".to_owned()),
        Some("") => Some("must not be empty".to_owned()),
        Some(text) => group_version::split(text).is_none().then(|| format!("unexpected GroupVersion string: {text}")),
    }
}

fn wrong_kind(value: &Value) -> Option<String> {
    let Some(kind) = value.as_str() else { return Some("must be a string".to_owned()) };
    if kind.is_empty() {
        return Some("must not be empty".to_owned());
    }
    let wrong = wrong_label_1035(&kind.to_lowercase());
    (!wrong.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {}", wrong.join(",")))
}
