//! How well a Pod is served when its node is short of something (`ComputePodQOS`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::quantities::Amount;

/// The resources that make the class.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// Returns the class that is known of a Pod, or else follows from it.
#[must_use]
pub fn known_class(pod: &Value) -> &str {
    pod["status"]["qosClass"].as_str().filter(|class| !class.is_empty()).unwrap_or_else(|| class(pod))
}

/// Returns `Guaranteed` when all that is used is limited to what is asked for, `BestEffort` when nothing is said, else `Burstable`.
#[must_use]
pub fn class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let whole = spec.get("resources").filter(|resources| resources.is_object());
    let containers = |name: &str| spec[name].as_array().into_iter().flatten().map(|container| &container["resources"]);
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

/// How much of each resource.
#[derive(Default, PartialEq, Eq)]
struct Sum(BTreeMap<&'static str, Amount>);

impl Sum {
    /// Adds those that are more than nothing; how many there were.
    fn add(&mut self, list: &Value) -> usize {
        let amounts = COUNTED.iter().filter_map(|name| Some((*name, Amount::of(list[*name].as_str()?)?)));
        let amounts: Vec<_> = amounts.filter(|(_, amount)| *amount > Amount::ZERO).collect();
        for (name, amount) in &amounts {
            let sum = self.0.entry(*name).or_default();
            *sum = sum.plus(*amount);
        }
        amounts.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
