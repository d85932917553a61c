//! What quotas count of Pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    plugins::resources::{self, Resources},
    tree,
};
use go::amount::Amount;

const COUNTED: [&str; 11] = [
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];

/// What each container must say if a quota counts it.
const REQUIRED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";
const DEVICES: &str = "deviceclass.resource.kubernetes.io/";

/// Whether a resource is one of Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(super) fn counts(name: &str) -> bool {
    let asked = name.strip_prefix(REQUESTS);
    let is_extended = asked.is_some_and(|asked| !is_native(name) || asked.starts_with(DEVICES));
    COUNTED.contains(&name) || name.starts_with(HUGE_PAGES) || asked.is_some_and(|asked| asked.starts_with(HUGE_PAGES)) || is_extended
}

/// Whether a Pod ends by itself at a time.
pub(super) fn has_deadline(pod: &Value) -> bool {
    tree::at(pod, &["spec", "activeDeadlineSeconds"]).and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0)
}

pub(super) fn usage(pod: &Value) -> Resources {
    let mut used: Resources = std::iter::once(("count/pods".to_owned(), Amount::whole(1))).collect();
    if matches!(tree::text(pod, &["status", "phase"]), "Failed" | "Succeeded") {
        return used;
    }
    let mut requests = resources::of_containers_by(pod, |container, is_init| effective(pod, container, is_init, "requests"));
    let mut limits = resources::of_containers_by(pod, |container, is_init| effective(pod, container, is_init, "limits"));
    for (what, sum) in [("requests", &mut requests), ("limits", &mut limits)] {
        sum.extend(resources::at(pod, &["spec", "resources", what]).into_iter().filter(|(name, _)| resources::is_of_pods(name)));
    }
    let overhead = resources::at(pod, &["spec", "overhead"]);
    resources::add(&mut requests, &overhead);
    for (name, more) in overhead {
        if let Some(limit) = limits.get_mut(&name).filter(|limit| !limit.is_zero()) {
            limit.add(&more);
        }
    }
    used.extend(counted(&requests, &limits));
    used
}

/// What a container uses: when it is being resized, the most of what it asks for, has been promised and has.
fn effective(pod: &Value, container: &Value, is_init: bool, what: &str) -> Resources {
    let asked = resources::at(container, &["resources", what]);
    if is_init && tree::text(container, &["restartPolicy"]) != "Always" {
        return asked;
    }
    let name = tree::text(container, &["name"]);
    let statuses = ["containerStatuses", "initContainerStatuses"].into_iter().flat_map(|list| tree::items(pod, &["status", list]));
    let status = statuses.into_iter().find(|status| tree::text(status, &["name"]) == name);
    let Some(status) = status.filter(|status| tree::at(status, &["resources"]).is_some()) else { return asked };
    let mut most = if is_infeasible(pod) { Resources::new() } else { asked };
    resources::raise(&mut most, &resources::at(status, &["resources", what]));
    if what == "requests" {
        resources::raise(&mut most, &resources::at(status, &["allocatedResources"]));
    }
    most
}

/// Whether a Pod waits for a resize that its node cannot do.
fn is_infeasible(pod: &Value) -> bool {
    let pending = tree::items(pod, &["status", "conditions"]).find(|condition| tree::text(condition, &["type"]) == "PodResizePending");
    pending.is_some_and(|condition| tree::text(condition, &["reason"]) == "Infeasible")
}

/// Requests and limits under the names of quotas.
fn counted(requests: &Resources, limits: &Resources) -> Resources {
    let mut used: Resources = std::iter::once(("pods".to_owned(), Amount::whole(1))).collect();
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(request) = requests.get(name) {
            used.insert(name.to_owned(), request.clone());
            used.insert(format!("{REQUESTS}{name}"), request.clone());
        }
        if let Some(limit) = limits.get(name) {
            used.insert(format!("limits.{name}"), limit.clone());
        }
    }
    for (name, request) in requests {
        let is_huge = name.starts_with(HUGE_PAGES);
        if is_huge {
            used.insert(name.clone(), request.clone());
        }
        if is_huge || !is_native(name) && !name.starts_with(REQUESTS) || name.starts_with(DEVICES) {
            used.insert(format!("{REQUESTS}{name}"), request.clone());
        }
    }
    used
}

/// Which containers do not say what quotas count.
pub(super) fn missing(counted_names: &[&str], pod: &Value) -> Option<String> {
    let of_pod = ["requests", "limits"]
        .iter()
        .any(|what| resources::at(pod, &["spec", "resources", what]).keys().any(|name| resources::is_of_pods(name)));
    if of_pod {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in ["containers", "initContainers"].into_iter().flat_map(|list| tree::items(pod, &["spec", list])) {
        let of = |what: &str| resources::at(container, &["resources", what]);
        let said = counted(&of("requests"), &of("limits"));
        for name in REQUIRED.into_iter().filter(|name| counted_names.contains(name) && !said.contains_key(*name)) {
            missing.entry(name).or_default().insert(tree::text(container, &["name"]));
        }
    }
    if missing.is_empty() {
        return None;
    }
    let texts: Vec<String> = missing
        .into_iter()
        .map(|(name, containers)| format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(",")))
        .collect();
    Some(format!("must specify {}", texts.join("; ")))
}
