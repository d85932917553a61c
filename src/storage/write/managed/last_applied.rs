//! The annotation in which `kubectl apply` keeps what it applied on the client's side: who changes over to server-side apply needs no force for it.

use std::borrow::Cow;

use merge::{Conflicts, Duplicates, ParseableType, Set, TypedValue};
use serde_json::Value;

use crate::write::tree;
use codec::stored;
use go::tree::object_in;

/// The manager of `kubectl apply --server-side`.
pub(super) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Bytes of all annotations of an object.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Returns the conflicts about fields that were not applied on the client's side, or have changed since.
pub(super) fn conflicts_left(conflicts: Conflicts, live: &Value, typed: &ParseableType, api_version: &str) -> Conflicts {
    match applied_before(live, typed, api_version) {
        Some(allowed) => Conflicts(conflicts.0.into_iter().filter(|conflict| !allowed.has(&conflict.path.0)).collect()),
        None => conflicts,
    }
}

/// The fields of the last configuration that are still as it had them.
fn applied_before(live: &Value, typed: &ParseableType, api_version: &str) -> Option<Set> {
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    if tree::text(&applied, &["apiVersion"]) != api_version {
        return None;
    }
    let applied = TypedValue::new(Cow::Owned(applied), typed, Duplicates::Refused).ok()?;
    let live = TypedValue::new(Cow::Borrowed(live), typed, Duplicates::Refused).ok()?;
    let comparison = applied.compare(&live).ok()?;
    let fields = applied.to_field_set().ok()?;
    Some(fields.difference(&comparison.modified).difference(&comparison.added).difference(&comparison.removed))
}

/// Puts the configuration into the annotation of an object that has it, unless the annotations become too long.
pub(super) fn keep_up(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let mut text = stored::render(true, &config);
    text.push(b'\n');
    let text = String::from_utf8(text).expect("JSON is UTF-8");
    let annotations = object_in(tree::member(object, "metadata"), "annotations");
    annotations.insert(ANNOTATION.to_owned(), text.into());
    let bytes: usize = annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    Some(tree::text(object, &["metadata", "annotations", ANNOTATION])).filter(|text| !text.is_empty())
}
