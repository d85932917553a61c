//! Names and ObjectMeta of what is written: normal form and validation (spec api-surface §5.4, §6.1).

mod finalizers;
mod managed_fields;
mod name;
mod normal;
mod owners;

use serde_json::{Map, Value};

use catalogue::{NameRule, Rules};
use model::{invalid::FieldError, legal};

pub(crate) use finalizers::finalizer_warnings;
pub(crate) use name::{version_group, wrong_name};
pub(crate) use normal::normalize;
pub(crate) use owners::{Found, dedup_owners};

/// Bytes of all annotations together, keys and values.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

/// Everything that is wrong with the metadata of a new object, in the order of the real server. `metadata` is in normal form and has its generated
/// name and its namespace.
pub(crate) fn validate_create(metadata: &Map<String, Value>, namespaced: bool, rules: &Rules) -> Vec<FieldError> {
    let mut wrong = wrong_object(metadata, namespaced, rules.name);
    if !rules.any_finalizer {
        wrong.extend(finalizers::bare(metadata));
    }
    wrong
}

/// Everything that is wrong with the metadata that replaces `old`, in the order of the real server, each error once: it tells most of them two to
/// four times in the causes, and once in the message. What a client cannot change and may leave away must have been filled in (uid,
/// creationTimestamp, generation, and the two of a deletion); whether a resourceVersion is needed is not asked here.
///
/// `as_new`: a generated name is judged by the kind's own rule too.
pub(crate) fn validate_update(
    new: &Map<String, Value>,
    old: &Map<String, Value>,
    namespaced: bool,
    as_new: bool,
    rules: &Rules,
) -> Vec<FieldError> {
    let mut wrong = wrong_object(new, namespaced, NameRule::PathSegment);
    if old.contains_key("deletionTimestamp") {
        wrong.extend(finalizers::added(new, old));
    }
    if generation(new) < generation(old) {
        wrong.push(FieldError::invalid("metadata.generation", &generation(new).into(), "must not be decremented"));
    }
    for member in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (new, old) = (new.get(member).unwrap_or(&Value::Null), old.get(member).unwrap_or(&Value::Null));
        if new != old {
            wrong.push(FieldError::invalid(format!("metadata.{member}"), new, "field is immutable"));
        }
    }
    if as_new {
        let again: Vec<FieldError> = wrong_base(new, rules.name).filter(|error| !wrong.contains(error)).collect();
        wrong.extend(again);
    }
    if !rules.any_finalizer {
        wrong.extend(finalizers::bare(new));
    }
    wrong
}

/// Everything that is wrong with the metadata of an object inside of another, which may have no name.
pub(crate) fn wrong_embedded(metadata: &Map<String, Value>) -> Vec<FieldError> {
    let mut metadata = metadata.clone();
    if text(&metadata, "name").is_empty() {
        metadata.insert("name".to_owned(), "fakename".into());
    }
    wrong_object(&metadata, !text(&metadata, "namespace").is_empty(), NameRule::PathSegment)
}

/// What no object may say, new or not.
fn wrong_object(metadata: &Map<String, Value>, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut wrong: Vec<FieldError> = wrong_base(metadata, rule).collect();
    match text(metadata, "name") {
        "" => wrong.push(FieldError::required("metadata.name", "name or generateName is required")),
        name => {
            let tails = wrong_name(rule, name, false);
            wrong.extend(tails.iter().map(|tail| FieldError::invalid("metadata.name", &name.into(), tail)));
        }
    }
    wrong.extend(wrong_namespace(text(metadata, "namespace"), namespaced));
    if generation(metadata) < 0 {
        wrong.push(FieldError::invalid("metadata.generation", &generation(metadata).into(), "must be greater than or equal to 0"));
    }
    wrong.extend(wrong_maps(metadata));
    wrong.extend(owners::wrong(metadata));
    wrong.extend(finalizers::wrong(metadata));
    wrong.extend(managed_fields::wrong(metadata));
    wrong
}

/// What is wrong with the text that names are generated from.
fn wrong_base(metadata: &Map<String, Value>, rule: NameRule) -> impl Iterator<Item = FieldError> {
    let base = text(metadata, "generateName");
    let tails = if base.is_empty() { Vec::new() } else { wrong_name(rule, base, true) };
    tails.into_iter().map(move |tail| FieldError::invalid("metadata.generateName", &base.into(), &tail))
}

fn wrong_namespace(namespace: &str, namespaced: bool) -> Vec<FieldError> {
    match (namespaced, namespace) {
        (true, "") => vec![FieldError::required("metadata.namespace", "")],
        (true, namespace) => {
            let tails = wrong_name(NameRule::Label, namespace, false);
            tails.iter().map(|tail| FieldError::invalid("metadata.namespace", &namespace.into(), tail)).collect()
        }
        (false, "") => Vec::new(),
        (false, _) => vec![FieldError::forbidden("metadata.namespace", "not allowed on this type")],
    }
}

/// Labels and annotations.
fn wrong_maps(metadata: &Map<String, Value>) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    for (key, value) in members(metadata, "labels") {
        let value = value.as_str().unwrap_or_default();
        wrong.extend(legal::wrong_key(key).iter().map(|tail| FieldError::invalid("metadata.labels", &key.as_str().into(), tail)));
        wrong.extend(legal::wrong_value(value).iter().map(|tail| FieldError::invalid("metadata.labels", &value.into(), tail)));
    }
    let mut bytes = 0;
    for (key, value) in members(metadata, "annotations") {
        bytes += key.len() + value.as_str().unwrap_or_default().len();
        let tails = legal::wrong_key(&key.to_lowercase());
        wrong.extend(tails.iter().map(|tail| FieldError::invalid("metadata.annotations", &key.as_str().into(), tail)));
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        wrong.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_BYTES_MAX));
    }
    wrong
}

fn generation(metadata: &Map<String, Value>) -> i64 {
    metadata.get("generation").and_then(Value::as_i64).unwrap_or_default()
}

fn text<'a>(metadata: &'a Map<String, Value>, member: &str) -> &'a str {
    metadata.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn members<'a>(metadata: &'a Map<String, Value>, member: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    metadata.get(member).and_then(Value::as_object).into_iter().flatten()
}

fn items<'a>(metadata: &'a Map<String, Value>, member: &str) -> &'a [Value] {
    metadata.get(member).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
