//! What warnings of several kinds have in common (`WarningsOnCreate`, `WarningsOnUpdate` of the strategies in `pkg/registry`): deprecated fields, odd
//! addresses, values that hide each other.

pub(in crate::write) mod address;
pub(super) mod labels;
mod paths;
pub(super) mod pod;

use serde_json::{Map, Value};

use crate::write::{metadata, tree};
use catalogue::NameRule;

pub(super) const CLAIM_ANNOTATIONS: [(&str, &str); 1] =
    [("volume.beta.kubernetes.io/storage-class", "deprecated since v1.8; use \"storageClassName\" attribute instead")];

/// Volumes that are deprecated or do nothing any more.
pub(super) const VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The elements of the list at a path; none when there is no list.
pub(super) fn items<'a>(tree: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a Value> + use<'a> {
    tree::at(tree, path).and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn members<'a>(tree: &'a Value, path: &[&str]) -> &'a Map<String, Value> {
    tree::at(tree, path).and_then(Value::as_object).unwrap_or(&tree::NO_MEMBERS)
}

/// The value at `spec.template`.
pub(super) fn at<'a>(tree: &'a Value, path: &str) -> Option<&'a Value> {
    tree::at(tree, &path.split('.').collect::<Vec<_>>())
}

pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    tree::at(object, &["metadata", "annotations", name])
}

/// `path.name`, or the name alone.
pub(super) fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

pub(super) fn annotations(path: &str, object: &Value, known: &[(&str, &str)], warnings: &mut Vec<String>) {
    let found = known.iter().filter(|(name, _)| annotation(object, name).is_some());
    warnings.extend(found.map(|(name, why)| format!("{}[{name}]: {why}", below(path, "metadata.annotations"))));
}

/// Whether the generation counted this change.
pub(super) fn is_counted(old: Option<&Value>, new: &Value) -> bool {
    let generation = |object: &Value| tree::integer(object, &["metadata", "generation"]);
    old.is_none_or(|old| generation(old) != generation(new))
}

/// The template at `path` of `of`, if the object is new or was counted.
pub(super) fn template(path: &str, old: Option<&Value>, new: &Value, of: &Value, warnings: &mut Vec<String>) {
    if let Some(template) = at(of, path).filter(|_| is_counted(old, new)) {
        pod::of(path, template, warnings);
    }
}

/// A name that becomes a host's name should be one.
pub(super) fn host_name(used_in: &str, object: &Value, warnings: &mut Vec<String>) {
    let wrong = metadata::wrong_name(NameRule::Label, tree::text(object, &["metadata", "name"]), false);
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
}

/// Warns of the addresses in a member of the items of a list.
pub(super) fn addresses((list, field, member): (&str, &str, &str), new: &Value, warnings: &mut Vec<String>) {
    for (i, item) in items(new, &list.split('.').collect::<Vec<_>>()).enumerate() {
        warnings.extend(address::of_address(&format!("{list}[{i}]{field}"), tree::text(item, &[member])));
    }
}

#[cfg(test)]
mod tests;
