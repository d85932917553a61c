//! How a Pod begins: its phase, its class of service, and that it is held back (`PrepareForCreate` of `pkg/registry/core/pod`).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::tree;
use go::quantity;

/// The resources that make the class.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// The first status of a Pod.
pub(super) fn begin(pod: &mut Value) {
    let mut status = json!({"phase": "Pending", "qosClass": class(pod)});
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
pub(super) fn keep_class(new: &mut Value, old: &Value) {
    let class = tree::text(old, &["status", "qosClass"]);
    if tree::text(new, &["status", "qosClass"]).is_empty() && !class.is_empty() {
        tree::set(new, &["status", "qosClass"], class.into());
    }
}

/// Generations that the writer of the status does not tell stay what they were: that of the status, and those of conditions, the n-th of its type each.
pub(super) fn keep_observed(new: &mut Value, old: &Value) {
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

/// The class that is known of a Pod, or else follows from it.
pub(super) fn known_class(pod: &Value) -> &str {
    Some(tree::text(pod, &["status", "qosClass"])).filter(|class| !class.is_empty()).unwrap_or_else(|| class(pod))
}

/// `Guaranteed` when all that is used is limited to what is asked for, `BestEffort` when nothing is told (`ComputePodQOS`).
pub(super) fn class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let whole = spec.get("resources").filter(|resources| resources.is_object());
    let containers = |name: &str| spec.get(name).and_then(Value::as_array).into_iter().flatten().map(|container| &container["resources"]);
    let parts: Vec<&Value> = match whole {
        Some(whole) => vec![whole],
        None => containers("containers").chain(containers("initContainers")).collect(),
    };
    let (mut requests, mut limits, mut limited) = (Sum::default(), Sum::default(), true);
    for part in parts {
        requests.add(&part["requests"]);
        // Of a whole Pod only limits that are there are looked at.
        limited &= limits.add(&part["limits"]) == COUNTED.len() || whole.is_some() && part["limits"].as_object().is_none_or(Map::is_empty);
    }
    match (requests.0.is_empty() && limits.0.is_empty(), limited && requests == limits) {
        (true, _) => "BestEffort",
        (false, true) => "Guaranteed",
        (false, false) => "Burstable",
    }
}

/// How much of each resource; one that cannot be counted is not equal to anything.
#[derive(Default, PartialEq)]
struct Sum(BTreeMap<&'static str, f64>);

impl Sum {
    /// Adds those that are more than nothing; how many there were.
    fn add(&mut self, list: &Value) -> usize {
        let amounts = COUNTED.iter().filter_map(|name| Some((*name, list.get(*name)?.as_str()?)));
        let amounts: Vec<_> = amounts
            .map(|(name, text)| (name, quantity::approximate(text).unwrap_or(f64::NAN)))
            .filter(|(_, amount)| amount.is_nan() || *amount > 0.0)
            .collect();
        amounts.iter().for_each(|(name, amount)| *self.0.entry(*name).or_default() += amount);
        amounts.len()
    }
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

    #[test]
    fn classes() {
        let of = |spec: Value| class(&json!({"spec": spec}));
        let container = |requests: Value, limits: Value| json!({"resources": {"requests": requests, "limits": limits}});
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(of(json!({"containers": [{}]})), "BestEffort");
        assert_eq!(of(json!({"containers": [container(json!({"cpu": "0"}), json!({"gpu": "1"}))]})), "BestEffort");
        assert_eq!(of(json!({"containers": [container(json!({"cpu": "1000m", "memory": "1024Mi"}), both.clone())]})), "Guaranteed");
        assert_eq!(of(json!({"containers": [container(both.clone(), both.clone()), {}]})), "Burstable");
        assert_eq!(of(json!({"containers": [container(json!({"cpu": "1"}), both.clone())]})), "Burstable");
        assert_eq!(
            of(json!({"containers": [container(both.clone(), both.clone())], "resources": {"requests": {"cpu": "2"}}})),
            "Burstable"
        );
        assert_eq!(of(json!({"containers": [{}], "resources": {"requests": both, "limits": both}})), "Guaranteed");
    }
}
