//! Amounts of resources by name, and what a Pod asks for as a whole.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::tree;
use go::amount::Amount;

/// Amounts by the name of the resource.
pub(super) type Resources = BTreeMap<String, Amount>;

/// Returns the amounts at a path; what is no quantity counts as nothing.
pub(super) fn at(of: &Value, path: &[&str]) -> Resources {
    let members = tree::at(of, path).and_then(Value::as_object).into_iter().flatten();
    members.map(|(name, text)| (name.clone(), text.as_str().and_then(Amount::parse).unwrap_or(Amount::ZERO))).collect()
}

/// Adds the amounts of `more`.
pub(super) fn add(to: &mut Resources, more: &Resources) {
    for (name, amount) in more {
        match to.get_mut(name) {
            Some(sum) => sum.add(amount),
            None => drop(to.insert(name.clone(), amount.clone())),
        }
    }
}

/// Raises each amount to that of `other`.
pub(super) fn raise(to: &mut Resources, other: &Resources) {
    for (name, amount) in other {
        if to.get(name).is_none_or(|known| amount > known) {
            to.insert(name.clone(), amount.clone());
        }
    }
}

/// Returns what the containers of a Pod ask for (`requests`) or may use (`limits`) together: those that run at once are added, and those that run before
/// are each looked at beside the ones that are restarted.
pub(super) fn of_containers(pod: &Value, what: &str) -> Resources {
    of_containers_by(pod, |container, _| at(container, &["resources", what]))
}

/// Returns the same of what `of` says of each container, and whether it runs before the others.
pub(super) fn of_containers_by(pod: &Value, of: impl Fn(&Value, bool) -> Resources) -> Resources {
    let mut sum = Resources::new();
    for container in tree::items(pod, &["spec", "containers"]) {
        add(&mut sum, &of(container, false));
    }
    let (mut restarted, mut before) = (Resources::new(), Resources::new());
    for container in tree::items(pod, &["spec", "initContainers"]) {
        let own = of(container, true);
        if tree::text(container, &["restartPolicy"]) == "Always" {
            add(&mut sum, &own);
            add(&mut restarted, &own);
            raise(&mut before, &restarted);
        } else {
            let mut beside = own;
            add(&mut beside, &restarted);
            raise(&mut before, &beside);
        }
    }
    raise(&mut sum, &before);
    sum
}

/// Returns the same with what the whole Pod says itself of the resources that `counts`.
pub(super) fn of_pod(pod: &Value, what: &str, counts: impl Fn(&str) -> bool) -> Resources {
    let mut sum = of_containers(pod, what);
    sum.extend(at(pod, &["spec", "resources", what]).into_iter().filter(|(name, _)| counts(name)));
    sum
}

/// Whether a whole Pod may say of this resource how much it asks for.
pub(super) fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_runs_at_once_is_added() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let restarted = |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        for (before, containers, want) in [
            (vec![], vec![container("100m"), container("200m")], "300m"),
            (vec![container("1")], vec![container("100m"), container("200m")], "1"),
            (vec![container("1"), restarted("500m")], vec![container("200m")], "1"),
            (vec![restarted("500m"), container("1")], vec![container("200m")], "1500m"),
            (vec![restarted("500m"), restarted("1"), container("100m")], vec![container("200m")], "1700m"),
        ] {
            let pod = json!({"spec": {"initContainers": before, "containers": containers}});
            assert_eq!(of_containers(&pod, "requests")["cpu"].to_string(), want, "{pod}");
        }
        let pod = json!({"spec": {"containers": [container("1")], "resources": {"requests": {"cpu": "3", "x/y": "1"}}}});
        let whole = of_pod(&pod, "requests", is_of_pods);
        assert_eq!((whole["cpu"].to_string(), whole.len()), ("3".to_owned(), 1));
    }
}
