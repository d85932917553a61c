//! The metadata of templates inside of objects, and names that refer to other objects.

use crate::{
    at::At,
    causes::Causes,
    labels::{annotations, labels},
    names,
};

/// Labels and annotations of a template, below its `metadata` (`ValidateTemplateObjectMeta`).
pub(crate) fn template(metadata: &At<'_, '_>, causes: &mut Causes) {
    annotations(&metadata.member("annotations"), causes);
    labels(&metadata.member("labels"), causes);
}

/// Members of the metadata of a template that may not be set, in Go's order, and how Go's errors name them.
const NOT_OF_TEMPLATES: [(&str, &str); 13] = [
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
];

/// The metadata of a template of a claim, which has labels and annotations and nothing else (`validateFieldAllowList`).
pub(crate) fn labels_and_annotations_only(metadata: &At<'_, '_>, causes: &mut Causes) {
    template(metadata, causes);
    // Only of a pointer zero is something.
    let is_set =
        |name: &str| !metadata.member(name).is_zero() || name == "deletionGracePeriodSeconds" && metadata.member(name).is_present();
    for (_, shown) in NOT_OF_TEMPLATES.iter().filter(|(name, _)| is_set(name)) {
        causes.forbidden(&metadata.member(shown), "cannot be set");
    }
}

/// A text that must be a DNS subdomain, as names of most objects are.
pub(crate) fn subdomain(at: &At<'_, '_>, causes: &mut Causes) {
    names::subdomain(at.text()).iter().for_each(|why| causes.invalid_text(at, why));
}

/// A text that must be a DNS label.
pub(crate) fn label(at: &At<'_, '_>, causes: &mut Causes) {
    names::label(at.text()).iter().for_each(|why| causes.invalid_text(at, why));
}

/// A text that must be there; returns whether it is.
pub(crate) fn present(at: &At<'_, '_>, why: &str, causes: &mut Causes) -> bool {
    if at.text().is_empty() {
        causes.required(at, why);
    }
    !at.text().is_empty()
}

/// An integer that must not be negative; one that is absent is 0.
pub(crate) fn not_negative(at: &At<'_, '_>, causes: &mut Causes) {
    if at.integer() < 0 {
        causes.invalid(at, "must be greater than or equal to 0");
    }
}

/// An integer that must be more than 0; one that is absent is 0.
pub(crate) fn positive(at: &At<'_, '_>, causes: &mut Causes) {
    if at.integer() <= 0 {
        causes.invalid(&at.with(&at.integer().into()), "must be greater than zero");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn count(object: &Value, judge: impl FnOnce(&At<'_, '_>, &mut Causes)) -> usize {
        Causes::of(|causes| judge(&At::named("x", object), causes)).len()
    }

    #[test]
    fn templates_and_names() {
        assert_eq!(count(&json!({"labels": {"a": "b"}, "annotations": {"A.b/c": "?"}}), template), 0);
        assert_eq!(count(&json!({"labels": {"a": "?"}, "annotations": {"a": "?", "-": ""}}), template), 2);
        assert_eq!((count(&json!("a.b"), subdomain), count(&json!(null), subdomain), count(&json!("a.b"), label)), (0, 1, 1));
        assert_eq!((count(&json!(0), not_negative), count(&json!(-1), not_negative)), (0, 1));
        assert_eq!((count(&json!(1), positive), count(&json!(null), positive)), (0, 1));
        let required = |value: Value| count(&value, |at, causes| assert_eq!(present(at, "", causes), at.text() == "a"));
        assert_eq!((required(json!("a")), required(json!("")), required(json!(null))), (0, 1, 1));
    }
}
