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
}

/// The class stays when who writes the status does not know it.
pub(super) fn keep_class(new: &mut Value, old: &Value) {
    let class = tree::text(old, &["status", "qosClass"]);
    if tree::text(new, &["status", "qosClass"]).is_empty() && !class.is_empty() {
        tree::set(new, &["status", "qosClass"], class.into());
    }
}

/// `Guaranteed` when all that is used is limited to what is asked for, `BestEffort` when nothing is told (`ComputePodQOS`).
fn class(pod: &Value) -> &'static str {
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
