//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration (`pkg/apis/admissionregistration/validation`).

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    FieldError,
    at::At,
    causes::Causes,
    labels::{self, SelectorOptions},
    match_rules::{FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, match_conditions, one_of, rule},
    names, webhook,
};

const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
/// Versions of AdmissionReview that the server speaks.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const SECONDS_MAX: i64 = 30;

/// What an update must keep; what was wrong before may stay so.
struct Demands {
    no_side_effects: bool,
    known_review: bool,
    unique_names: bool,
    right_values: bool,
    conditions: bool,
}

impl Demands {
    const ALL: Self = Self { no_side_effects: true, known_review: true, unique_names: true, right_values: true, conditions: true };

    fn after(old: &Value, new: &Value) -> Self {
        let (root, new) = (At::root(old), At::root(new));
        let (hooks, new) = (root.member("webhooks"), new.member("webhooks"));
        let mut names = HashSet::new();
        let selectors_are_right = |hook: &At<'_, '_>| {
            let wrong = |name: &str| Causes::of(|causes| labels::selector(&hook.member(name), SelectorOptions::default(), causes));
            wrong("namespaceSelector").is_empty() && wrong("objectSelector").is_empty()
        };
        let same = |(old, new): (At<'_, '_>, At<'_, '_>)| old.member("matchConditions").value() == new.member("matchConditions").value();
        Self {
            no_side_effects: hooks.items().all(|hook| NO_SIDE_EFFECTS.contains(&hook.member("sideEffects").text())),
            known_review: hooks.items().all(|hook| hook.member("admissionReviewVersions").len() == 0 || speaks(&hook)),
            unique_names: hooks.items().all(|hook| names.insert(hook.member("name").text())),
            right_values: hooks.items().all(|hook| selectors_are_right(&hook)),
            conditions: hooks.len() != new.len() || !hooks.items().zip(new.items()).all(same),
        }
    }
}

/// What is wrong with a new configuration, of either kind.
pub fn create(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| configuration(object, &Demands::ALL, causes))
}

/// What is wrong with a changed one.
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| configuration(new, &Demands::after(old, new), causes))
}

fn configuration(object: &Value, demands: &Demands, causes: &mut Causes) {
    let root = At::root(object);
    let mut names = HashSet::new();
    for hook in root.member("webhooks").items() {
        self::hook(&hook, demands, causes);
        reviews(&hook.member("admissionReviewVersions"), demands, causes);
        let name = hook.member("name");
        if demands.unique_names && !name.text().is_empty() && !names.insert(name.text()) {
            causes.duplicate(&name);
        }
    }
}

fn hook(at: &At<'_, '_>, demands: &Demands, causes: &mut Causes) {
    qualified_name(&at.member("name"), causes);
    at.member("rules").items().for_each(|it| rule(&it, causes));
    one_of(&at.member("failurePolicy"), &FAILURE_POLICIES, causes);
    one_of(&at.member("matchPolicy"), &MATCH_POLICIES, causes);
    side_effects(&at.member("sideEffects"), demands, causes);
    let seconds = at.member("timeoutSeconds");
    if seconds.some_integer().is_some_and(|seconds| !(1..=SECONDS_MAX).contains(&seconds)) {
        causes.invalid(&seconds, "the timeout value must be between 1 and 30 seconds");
    }
    let options = SelectorOptions { any_value: !demands.right_values, ..SelectorOptions::default() };
    labels::selector(&at.member("namespaceSelector"), options, causes);
    labels::selector(&at.member("objectSelector"), options, causes);
    // Only those that mutate have it.
    one_of(&at.member("reinvocationPolicy"), &REINVOCATION_POLICIES, causes);
    webhook::client_config(&at.member("clientConfig"), causes);
    if demands.conditions {
        match_conditions(&at.member("matchConditions"), false, causes);
    }
}

/// A name of three labels or more (`IsFullyQualifiedName`).
fn qualified_name(at: &At<'_, '_>, causes: &mut Causes) {
    let wrong = names::subdomain(at.text());
    if at.text().is_empty() {
        causes.required(at, "");
    } else if !wrong.is_empty() {
        causes.invalid(at, &wrong.join(","));
    } else if at.text().split('.').count() < 3 {
        causes.invalid(at, "should be a domain with at least three segments separated by dots");
    }
}

fn side_effects(at: &At<'_, '_>, demands: &Demands, causes: &mut Causes) {
    let supported = if demands.no_side_effects { &NO_SIDE_EFFECTS[..] } else { &SIDE_EFFECTS };
    match at.is_absent() {
        true => causes.required(at, &format!("must specify one of {}", supported.join(", "))),
        false => one_of(at, supported, causes),
    }
}

fn reviews(at: &At<'_, '_>, demands: &Demands, causes: &mut Causes) {
    if at.len() == 0 {
        return causes.required(at, &format!("must specify one of {}", REVIEWS.join(", ")));
    }
    let mut known = HashSet::new();
    for version in at.items() {
        match known.insert(version.text()) {
            true => causes.each_invalid(&version, names::label_1035(version.text())),
            false => causes.invalid(&version, "duplicate version"),
        }
    }
    if demands.known_review && !REVIEWS.iter().any(|review| known.contains(review)) {
        causes.invalid(at, &format!("must include at least one of {}", REVIEWS.join(", ")));
    }
}

fn speaks(hook: &At<'_, '_>) -> bool {
    hook.member("admissionReviewVersions").items().any(|version| REVIEWS.contains(&version.text()))
}
