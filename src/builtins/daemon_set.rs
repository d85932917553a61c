//! DaemonSets. How often their template has changed is counted by the server itself, so nothing is judged of it.

use serde_json::Value;

use crate::{at::At, causes::Causes, labels, meta, numbers, selectors, template};
use model::invalid::FieldError;

/// What is wrong with a new DaemonSet.
#[must_use]
pub fn create(set: &Value) -> Vec<FieldError> {
    let root = At::root(set);
    Causes::of(|causes| judge(&root.member("spec"), None, causes))
}

/// What is wrong with a change of a DaemonSet.
#[must_use]
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, spec) = (old.member("spec"), new.member("spec"));
    Causes::of(|causes| {
        template::same_selector(&spec, &old, causes);
        judge(&spec, Some(&old), causes);
    })
}

/// What is wrong with the status of a DaemonSet.
#[must_use]
pub fn update_status(old: &Value, new: &Value) -> Vec<FieldError> {
    const COUNTERS: [&str; 9] = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    let (old, new) = (At::root(old), At::root(new));
    let (old, status) = (old.member("status"), new.member("status"));
    Causes::of(|causes| {
        numbers::none_negative(&status, &COUNTERS, causes);
        numbers::not_decremented(&status.member("collisionCount"), &old.member("collisionCount"), causes);
    })
}

fn judge(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    let (own, pods) = (spec.member("selector"), spec.member("template"));
    let any_value = old.is_some_and(|old| labels::has_wrong_value(&old.member("selector")));
    labels::selector(&own, labels::SelectorOptions { any_value, ..Default::default() }, causes);
    if selectors::is_usable(&own) {
        template::selected(&own, &pods, causes);
    }
    template::not_everything(&own, "daemonset", causes);
    let old = old.map(|old| old.member("template"));
    template::pods(&pods, old.as_ref(), causes);
    template::always_running(&pods, "DaemonSet", causes);
    meta::not_negative(&spec.member("minReadySeconds"), causes);
    strategy(&spec.member("updateStrategy"), causes);
    meta::not_negative(&spec.member("revisionHistoryLimit"), causes);
}

/// How a DaemonSet replaces its Pods.
fn strategy(at: &At<'_, '_>, causes: &mut Causes) {
    let rolling = at.member("rollingUpdate");
    match at.member("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_absent() => causes.required(&rolling, ""),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.member("maxUnavailable"), rolling.member("maxSurge"));
            numbers::number_or_percent(&unavailable, causes);
            numbers::number_or_percent(&surge, causes);
            numbers::at_most_all(&unavailable, causes);
            numbers::at_most_all(&surge, causes);
            match (numbers::number_of(&unavailable), numbers::number_of(&surge)) {
                (0, 0) => causes.required(&unavailable, "cannot be 0 when maxSurge is 0"),
                (0, _) | (_, 0) => {}
                _ => causes.invalid_shown(&surge, "intorstring", "may not be set when maxUnavailable is non-zero"),
            }
        }
        _ => causes.not_supported_shown(at, "apps.DaemonSetUpdateStrategy", &["RollingUpdate", "OnDelete"]),
    }
}
