//! The scopes of quotas: which objects one counts.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Counter, pods::has_deadline};
use crate::tree;

/// Whether a quota counts an object by all of its scopes.
pub(super) fn match_all(counter: &Counter, quota: &Value, object: &Value) -> bool {
    all(quota).all(|scope| matches(counter, &scope, object))
}

/// Returns the scopes of a quota, all with an operator.
pub(super) fn all(quota: &Value) -> impl Iterator<Item = Cow<'_, Value>> {
    let plain = tree::items(quota, &["spec", "scopes"]);
    let selected = tree::items(quota, &["spec", "scopeSelector", "matchExpressions"]);
    plain.map(|scope| Cow::Owned(json!({"scopeName": scope, "operator": "Exists"}))).chain(selected.map(Cow::Borrowed))
}

/// Whether an object is in a scope.
pub(super) fn matches(counter: &Counter, expression: &Value, object: &Value) -> bool {
    let operator = tree::text(expression, &["operator"]);
    match (counter, tree::text(expression, &["scopeName"])) {
        (Counter::Pods, "Terminating") => has_deadline(object),
        (Counter::Pods, "NotTerminating") => !has_deadline(object),
        (Counter::Pods, "BestEffort") => is_best_effort(object),
        (Counter::Pods, "NotBestEffort") => !is_best_effort(object),
        (Counter::Pods, "PriorityClass") => {
            let class = tree::text(object, &["spec", "priorityClassName"]);
            selects(operator, expression, &[class].into_iter().filter(|class| !class.is_empty()).collect::<Vec<_>>())
        }
        (Counter::Pods, "CrossNamespacePodAffinity") => has_foreign_terms(object),
        (Counter::Claims, "VolumeAttributesClass") => selects(operator, expression, &attributes_classes(object)),
        _ => false,
    }
}

/// Whether one of the values of an object is selected; one that has none is selected by what excludes.
fn selects(operator: &str, expression: &Value, values: &[&str]) -> bool {
    let is_listed = |value: &&str| tree::items(expression, &["values"]).any(|listed| listed.as_str() == Some(*value));
    match operator {
        "Exists" => !values.is_empty(),
        "DoesNotExist" => values.is_empty(),
        "In" => values.iter().any(is_listed),
        "NotIn" => values.is_empty() || values.iter().any(|value| !is_listed(value)),
        _ => false,
    }
}

fn is_best_effort(pod: &Value) -> bool {
    tree::text(pod, &["status", "qosClass"]) == "BestEffort"
}

fn attributes_classes(claim: &Value) -> Vec<&str> {
    const PATHS: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    PATHS.iter().map(|path| tree::text(claim, path)).filter(|class| !class.is_empty()).collect()
}

/// Whether the affinities of a Pod look into other namespaces.
fn has_foreign_terms(pod: &Value) -> bool {
    let is_foreign = |term: &Value| tree::items(term, &["namespaces"]).next().is_some() || tree::at(term, &["namespaceSelector"]).is_some();
    ["podAffinity", "podAntiAffinity"].iter().any(|affinity| {
        let list = |name| tree::items(pod, &["spec", "affinity", affinity, name]);
        list("requiredDuringSchedulingIgnoredDuringExecution").any(is_foreign)
            || list("preferredDuringSchedulingIgnoredDuringExecution").any(|weighted| is_foreign(&weighted["podAffinityTerm"]))
    })
}
