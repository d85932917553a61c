//! How a Pod begins: its phase, its class of service, and that it is held back (`PrepareForCreate` of `pkg/registry/core/pod`).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    pod_parts,
    row::{JudgedAsNew, RESET_FOR_STATUS, StatusMetadata, Strategy},
    warnings::{self, addresses, host_name},
};
use crate::write::{part::Part, tree};
use model::invalid::FieldError;

pub(super) const PODS: Strategy = Strategy {
    storage: "pods",
    prepare_create,
    prepare_update,
    take,
    judged_as_new: JudgedAsNew::Main,
    status_metadata: StatusMetadata::Without(&["deletionTimestamp", "ownerReferences"]),
    validate_create: builtins::pod::create,
    validate_update,
    warn,
    warn_status,
    ..Strategy::COMMON
};

fn prepare_create(pod: &mut Value, warnings: &mut Vec<String>) {
    begin(pod);
    pod_parts::confine(pod, warnings);
}

fn prepare_update(part: Part, old: &Value, new: &mut Value) {
    if part == Part::Status {
        keep_class(new, old);
        keep_observed(new, old);
    }
}

fn take(part: Part, old: &Value, wanted: Value) -> Value {
    match part {
        Part::EphemeralContainers => pod_parts::with_ephemeral_containers(old, wanted, RESET_FOR_STATUS),
        Part::Resize => pod_parts::with_resources(old, wanted, RESET_FOR_STATUS),
        _ => wanted,
    }
}

fn validate_update(part: Part, old: &Value, new: &Value) -> Vec<FieldError> {
    match part {
        Part::Main => builtins::pod::update(old, new),
        Part::Status => builtins::pod::update_status(old, new),
        Part::EphemeralContainers => builtins::pod::update_ephemeral_containers(old, new),
        Part::Resize => builtins::pod::resize(old, new),
        Part::Finalizers | Part::Approval | Part::Server => Vec::new(),
    }
}

fn warn(old: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
    if old.is_none() {
        host_name("the Pod's hostname", new, warnings);
        warnings::pod::of("", new, warnings);
    }
}

fn warn_status(new: &Value, warnings: &mut Vec<String>) {
    addresses(("status.podIPs", ".ip", "ip"), new, warnings);
    addresses(("status.hostIPs", ".ip", "ip"), new, warnings);
}

/// The first status of a Pod.
fn begin(pod: &mut Value) {
    let mut status = json!({"phase": "Pending", "qosClass": builtins::pod::class(pod)});
    if tree::at(pod, &["spec", "schedulingGates"]).and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": tree::text(pod, &["metadata", "creationTimestamp"]),
            "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    tree::set(pod, &["status"], status);
    merge_label_keys(pod);
}

/// The class stays when who writes the status does not know it.
fn keep_class(new: &mut Value, old: &Value) {
    let class = tree::text(old, &["status", "qosClass"]);
    if tree::text(new, &["status", "qosClass"]).is_empty() && !class.is_empty() {
        tree::set(new, &["status", "qosClass"], class.into());
    }
}

/// Generations that the writer of the status does not tell stay what they were: that of the status, and those of conditions, the n-th of its type each.
fn keep_observed(new: &mut Value, old: &Value) {
    const OBSERVED: &str = "observedGeneration";
    let untold = |holder: &Value| tree::integer(holder, &[OBSERVED]).unwrap_or(0) == 0;
    let keep = |holder: &mut Value, known: Option<&Value>| {
        if let Some(known) = known.and_then(|known| tree::integer(known, &[OBSERVED])).filter(|known| *known != 0 && untold(holder)) {
            tree::set(holder, &[OBSERVED], known.into());
        }
    };
    if let Some(status) = new.get_mut("status") {
        keep(status, old.get("status"));
    }
    let mut known: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for condition in tree::at(old, &["status", "conditions"]).and_then(Value::as_array).into_iter().flatten().rev() {
        known.entry(tree::text(condition, &["type"])).or_default().push(condition);
    }
    for condition in new.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let same = known.get_mut(tree::text(condition, &["type"])).and_then(Vec::pop);
        keep(condition, same);
    }
}

/// Adds the values of the labels that are named to the selectors of affinities and spreads (`mutatePodAffinity`, `mutateTopologySpreadConstraints`).
fn merge_label_keys(pod: &mut Value) {
    let labels = tree::at(pod, &["metadata", "labels"]).cloned().unwrap_or(Value::Null);
    let mut merge = |term: &mut Value| {
        for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            let keys: Vec<String> = tree::texts(term, &[keys]).into_iter().map(str::to_owned).collect();
            let found = keys.iter().filter_map(|key| Some(json!({"key": key, "operator": operator, "values": [labels.get(key)?]})));
            let found: Vec<Value> = found.collect();
            let Some(selector) = term.get_mut("labelSelector").filter(|selector| selector.is_object() && !found.is_empty()) else {
                continue;
            };
            let mut all = tree::at(selector, &["matchExpressions"]).and_then(Value::as_array).cloned().unwrap_or_default();
            all.extend(found);
            tree::set(selector, &["matchExpressions"], all.into());
        }
    };
    let Some(spec) = pod.get_mut("spec") else { return };
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let list = |name: &str| format!("/affinity/{affinity}/{name}DuringSchedulingIgnoredDuringExecution");
        let preferred = spec.pointer_mut(&list("preferred")).and_then(Value::as_array_mut).into_iter().flatten();
        preferred.filter_map(|term| term.get_mut("podAffinityTerm")).for_each(&mut merge);
        spec.pointer_mut(&list("required")).and_then(Value::as_array_mut).into_iter().flatten().for_each(&mut merge);
    }
    spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut).into_iter().flatten().for_each(&mut merge);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_are_merged_into_selectors() {
        let term = json!({"labelSelector": {}, "matchLabelKeys": ["a", "b"], "mismatchLabelKeys": ["c"]});
        let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term], "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}});
        let mut pod = json!({"metadata": {"labels": {"a": "1", "c": "3"}}, "spec": {"affinity": affinity, "topologySpreadConstraints": [{"matchLabelKeys": ["a"]}, term]}});
        merge_label_keys(&mut pod);
        let made = json!([{"key": "a", "operator": "In", "values": ["1"]}, {"key": "c", "operator": "NotIn", "values": ["3"]}]);
        let affinity = &pod["spec"]["affinity"]["podAffinity"];
        assert_eq!(affinity["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"]["matchExpressions"], made);
        assert_eq!(
            affinity["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]["labelSelector"]["matchExpressions"],
            made
        );
        let spread = &pod["spec"]["topologySpreadConstraints"];
        assert_eq!((&spread[0], &spread[1]["labelSelector"]["matchExpressions"]), (&json!({"matchLabelKeys": ["a"]}), &made));
    }

    #[test]
    fn observed_generations_stay() {
        let condition = |kind: &str, generation: i64| json!({"type": kind, "observedGeneration": generation});
        let pod = |generation: i64, conditions: Value| json!({"status": {"observedGeneration": generation, "conditions": conditions}});
        let old = pod(3, json!([condition("a", 1), condition("b", 2), condition("a", 4)]));
        let mut new = json!({"status": {"conditions": [condition("a", 0), {"type": "a"}, condition("b", 9), {"type": "a"}]}});
        keep_observed(&mut new, &old);
        assert_eq!(new, pod(3, json!([condition("a", 1), condition("a", 4), condition("b", 9), {"type": "a"}])));
    }
}
