//! RuntimeClasses (`pkg/apis/node/validation`).

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    FieldError,
    at::At,
    causes::Causes,
    labels, names,
    pod::{Options, resources, tolerations::tolerations as judged},
};

/// What is wrong with a new RuntimeClass.
pub fn create(object: &Value) -> Vec<FieldError> {
    let root = At::root(object);
    let (handler, overhead, scheduling) = (root.member("handler"), root.member("overhead"), root.member("scheduling"));
    Causes::of(|causes| {
        if handler.is_zero() {
            causes.required(&handler, "");
        } else {
            causes.each_invalid(&handler, names::label(handler.text()));
        }
        if overhead.is_present() {
            // Go judges the overhead as the limits of a container.
            resources::overhead(&overhead.with(overhead.member("podFixed").value()), &Options::default(), causes);
        }
        labels::labels(&scheduling.member("nodeSelector"), causes);
        tolerations(&scheduling.member("tolerations"), causes);
    })
}

/// What is wrong with a changed RuntimeClass.
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = create(new);
    let (old, new) = (At::root(old), At::root(new));
    let handler = new.member("handler");
    if old.member("handler").text() != handler.text() {
        errors.extend(Causes::of(|causes| causes.invalid_text(&handler, "field is immutable")));
    }
    errors
}

/// Tolerations, no two of which are for the same taints.
fn tolerations(at: &At<'_, '_>, causes: &mut Causes) {
    judged(at, &Options::default(), causes);
    let mut known = HashSet::new();
    for toleration in at.items() {
        let key = ["key", "operator", "value", "effect"].map(|name| toleration.member(name).text());
        if !known.insert(key) {
            causes.duplicate_shown(&toleration, "core.Toleration", "");
        }
    }
}
