//! PodDisruptionBudgets.

use serde_json::Value;

use crate::{at::At, causes::Causes, conditions, labels, numbers};
use model::invalid::FieldError;

/// What is wrong with a new PodDisruptionBudget.
#[must_use]
pub fn create(budget: &Value) -> Vec<FieldError> {
    let root = At::root(budget);
    Causes::of(|causes| judge(&root.member("spec"), false, causes))
}

/// What is wrong with a change of a PodDisruptionBudget.
#[must_use]
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let old = old.member("spec");
    let was_wrong = !Causes::of(|causes| labels::selector(&old.member("selector"), labels::SelectorOptions::default(), causes)).is_empty();
    Causes::of(|causes| judge(&new.member("spec"), was_wrong, causes))
}

/// What is wrong with the status of a PodDisruptionBudget.
#[must_use]
pub fn update_status(_old: &Value, new: &Value) -> Vec<FieldError> {
    let root = At::root(new);
    let status = root.member("status");
    Causes::of(|causes| {
        conditions::conditions(&status.member("conditions"), causes);
        numbers::none_negative(&status, &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"], causes);
    })
}

fn judge(spec: &At<'_, '_>, any_value: bool, causes: &mut Causes) {
    let (available, unavailable, policy) =
        (spec.member("minAvailable"), spec.member("maxUnavailable"), spec.member("unhealthyPodEvictionPolicy"));
    if available.is_present() && unavailable.is_present() {
        causes.invalid_shown(spec, "policy.PodDisruptionBudgetSpec", "minAvailable and maxUnavailable cannot be both set");
    }
    for pods in [available, unavailable].iter().filter(|pods| pods.is_present()) {
        numbers::number_or_percent(pods, causes);
        numbers::at_most_all(pods, causes);
    }
    labels::selector(&spec.member("selector"), labels::SelectorOptions { any_value, ..Default::default() }, causes);
    if policy.is_present() && !matches!(policy.text(), "AlwaysAllow" | "IfHealthyBudget") {
        causes.not_supported(&policy, &["AlwaysAllow", "IfHealthyBudget"]);
    }
}
