//! What controllers of Pods share: the selector of their Pods and the template of these.

use serde_json::Value;

use crate::{
    at::At,
    causes::Causes,
    claim_spec::{self, claim_spec},
    equal, labels,
    pod::{self, Options},
    selectors,
};

/// What Go calls the type of a selector.
pub(crate) const SELECTOR: &str = "*v1.LabelSelector";
const MISMATCH: &str = "`selector` does not match template `labels`";

/// The template of Pods; what is wrong in the old one may stay.
pub(crate) fn pods(template: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    pod::template(template, &after(old), causes);
}

/// Returns what may stand in a template after an older one.
fn after(old: Option<&At<'_, '_>>) -> Options {
    old.map(|old| Options::after(old.value())).unwrap_or_default()
}

/// Annotations that a Pod of this spec may have.
pub(crate) fn pod_annotations(at: &At<'_, '_>, spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    pod::specific_annotations(at, spec, &after(old), causes);
}

/// The spec of a claim of volumes.
pub(crate) fn claim(spec: &At<'_, '_>, causes: &mut Causes) {
    claim_spec(spec, claim_spec::Options::default(), causes);
}

/// The selector that a controller must have, and that must select something in particular.
pub(crate) fn selector(selector: &At<'_, '_>, kind: &str, causes: &mut Causes) {
    if selector.is_absent() {
        causes.required(selector, "");
        return;
    }
    labels::selector(selector, labels::SelectorOptions::default(), causes);
    not_everything(selector, kind, causes);
}

/// A selector that is there and selects everything.
pub(crate) fn not_everything(selector: &At<'_, '_>, kind: &str, causes: &mut Causes) {
    if selector.is_present() && selectors::is_empty(selector) {
        causes.invalid_shown(selector, SELECTOR, &format!("empty selector is invalid for {kind}"));
    }
}

/// A selector that Go can read, but that does not select the Pods of the template. One that is absent selects none.
pub(crate) fn selected(selector: &At<'_, '_>, template: &At<'_, '_>, causes: &mut Causes) {
    let metadata = template.member("metadata");
    let labels = metadata.member("labels");
    if !selectors::selects(selector, labels.map()) {
        causes.invalid(&labels, MISMATCH);
    }
}

/// Pods that are started again always, and have no deadline, as a controller of `kind` needs them.
pub(crate) fn always_running(template: &At<'_, '_>, kind: &str, causes: &mut Causes) {
    let spec = template.member("spec");
    let (policy, deadline) = (spec.member("restartPolicy"), spec.member("activeDeadlineSeconds"));
    if policy.text() != "Always" {
        causes.not_supported_shown(&policy, "string", &["Always"]);
    }
    if deadline.is_present() {
        causes.forbidden(&deadline, &format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// The selector and the template of a Deployment or a ReplicaSet.
pub(crate) fn of_replicas(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    let (own, template) = (spec.member("selector"), spec.member("template"));
    selector(&own, "deployment", causes);
    if !selectors::is_usable(&own) {
        causes.invalid_shown(&own, SELECTOR, "invalid label selector");
        return;
    }
    if own.is_absent() || !selectors::is_empty(&own) {
        selected(&own, &template, causes);
    }
    let old = old.map(|old| old.member("template"));
    pods(&template, old.as_ref(), causes);
    always_running(&template, "ReplicaSet", causes);
}

/// A selector that an update may not change.
pub(crate) fn same_selector(new: &At<'_, '_>, old: &At<'_, '_>, causes: &mut Causes) {
    let (new, old) = (new.member("selector"), old.member("selector"));
    if !equal::same(old.value(), new.value()) {
        causes.invalid_shown(&new, SELECTOR, "field is immutable");
    }
}

/// Returns a template without these members of its spec.
pub(crate) fn without(template: &Value, members: &[&str]) -> Value {
    let mut template = template.clone();
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|name, _| !members.contains(&name.as_str()));
    }
    template
}
