//! What the status of a Pod may say (`ValidatePodStatusUpdate`).

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

use serde_json::Value;

use super::{Options, update::annotations};
use crate::{
    FieldError, addresses,
    at::At,
    causes::Causes,
    labels::label_key,
    meta, names,
    quantities::{self, Amount},
};

/// Lists of the states of containers, beside the lists of the containers.
const LISTS: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];
/// Bytes of what is said about the health of a device.
const HEALTH_MESSAGE_BYTES_MAX: usize = 1_024;

/// What is wrong with a Pod whose status is written.
#[must_use]
pub fn update_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let options = Options { is_pod: true, ..Options::after(old) };
    Causes::of(|causes| {
        annotations(old, new, &options, causes);
        let (old, new) = (At::root(old), At::root(new));
        status(&old, &new, causes);
    })
}

fn status(old_pod: &At<'_, '_>, new_pod: &At<'_, '_>, causes: &mut Causes) {
    let (old, new) = (old_pod.member("status"), new_pod.member("status"));
    let (old_spec, spec) = (old_pod.member("spec"), new_pod.member("spec"));
    conditions(&new.member("conditions"), causes);
    if spec.member("nodeName").text() != old_spec.member("nodeName").text() {
        causes.forbidden(&new.member("nodeName"), "may not be changed directly");
    }
    nominated(&old_spec, &old, &new, causes);
    let observed = new.member("observedGeneration");
    if observed.integer() < 0 {
        causes.invalid(&observed, "must be a non-negative integer");
    }
    let class = new.member("qosClass");
    if class.text() != old.member("qosClass").text() {
        causes.invalid_json(&class, "field is immutable");
    }
    transitions(&old, &new, &old_spec, causes);
    claims(&new, &spec, causes);
    extended_claims(&new.member("extendedResourceClaimStatus"), &spec, causes);
    allocatable_claims(&new, &spec, causes);
    addresses_of(&old.member("podIPs"), &new.member("podIPs"), "[]core.PodIP", causes);
    let hosts = new.member("hostIPs");
    if hosts.len() > 0 && new.member("hostIP").text() != hosts.item(0).member("ip").text() {
        causes.invalid_text(&hosts.item(0).member("ip"), "must be equal to `hostIP`");
    }
    addresses_of(&old.member("hostIPs"), &hosts, "[]core.HostIP", causes);
    let system = spec.member("os");
    let system = if system.is_present() { system.member("name").text() } else { "linux" };
    for (list, _) in LISTS {
        new.member(list).items().for_each(|status| user(&status.member("user"), system, causes));
    }
    for (list, containers) in &LISTS[..2] {
        allocated(&new.member(list), &spec.member(containers), causes);
    }
    for status in new.member(LISTS[2].0).items() {
        if status.member("allocatedResourcesStatus").len() > 0 {
            causes.forbidden(&status.member("allocatedResourcesStatus"), "must not be specified in container status");
        }
    }
}

fn conditions(at: &At<'_, '_>, causes: &mut Causes) {
    for condition in at.items() {
        let (observed, kind) = (condition.member("observedGeneration"), condition.member("type"));
        if observed.integer() < 0 {
            causes.invalid(&observed, "must be a non-negative integer");
        }
        if !matches!(kind.text(), "PodScheduled" | "Ready" | "Initialized") {
            label_key(&condition.member("Type").with(kind.value()), causes);
        }
    }
}

/// The node that a Pod waits for.
fn nominated(old_spec: &At<'_, '_>, old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) {
    let at = new.member("nominatedNodeName");
    if at.text().is_empty() || at.text() == old.member("nominatedNodeName").text() {
        return;
    }
    meta::subdomain(&at, causes);
    if !old_spec.member("nodeName").text().is_empty() {
        causes.forbidden(&at, "may not be set on pods that are already bound to a node");
    }
}

/// Containers that have ended start again only if their policies let them.
fn transitions(old: &At<'_, '_>, new: &At<'_, '_>, spec: &At<'_, '_>, causes: &mut Causes) {
    for (list, containers) in LISTS {
        let is_ephemeral = containers == "ephemeralContainers";
        if !is_ephemeral && may_all_restart(spec) {
            continue;
        }
        let (known, statuses) = (old.member(list), new.member(list));
        let of_containers = spec.member(containers);
        let by_name = first_by_name(&of_containers);
        let now = first_by_name(&statuses);
        let mut times: HashMap<&str, usize> = HashMap::new();
        for status in statuses.items().filter(|status| status.value()["state"]["terminated"].is_null()) {
            *times.entry(status.value()["name"].as_str().unwrap_or_default()).or_default() += 1;
        }
        for (index, known) in known.items().enumerate() {
            let ended = &known.value()["state"]["terminated"];
            if ended.is_null() {
                continue;
            }
            let name = known.member("name").text();
            let code = ended["exitCode"].as_i64().unwrap_or_default();
            let again = match (is_ephemeral, times.get(name), now.get(name)) {
                (_, None, _) | (_, _, None) => 0,
                (true, Some(times), _) => *times,
                (false, Some(_), Some(_)) if by_name.get(name).is_some_and(|container| restarts(container, spec, code)) => 0,
                (false, ..) => 1,
            };
            let status = statuses.item(index);
            (0..again).for_each(|_| causes.forbidden(&status.member("state"), "may not be transitioned to non-terminated state"));
        }
    }
}

/// The items of a list by name, of each name the first.
fn first_by_name<'v>(at: &At<'_, 'v>) -> HashMap<&'v str, &'v Value> {
    let mut first = HashMap::new();
    for item in at.items() {
        first.entry(item.member("name").text()).or_insert(item.value());
    }
    first
}

/// Whether a rule restarts all containers (`AllContainersCouldRestart`).
fn may_all_restart(spec: &At<'_, '_>) -> bool {
    ["initContainers", "containers"].iter().any(|list| {
        spec.member(list).items().any(|container| {
            container.member("restartPolicyRules").items().any(|rule| rule.member("action").text() == "RestartAllContainers")
        })
    })
}

/// Whether a container that has ended starts again (`ContainerShouldRestart`).
fn restarts(container: &Value, spec: &At<'_, '_>, code: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "Always" => Some(true),
        "OnFailure" => Some(code != 0),
        "Never" => Some(false),
        _ => None,
    };
    let own = container["restartPolicy"].as_str();
    let rule = container["restartPolicyRules"].as_array().into_iter().flatten().find(|rule| {
        let codes = &rule["exitCodes"];
        let is_in = codes["values"].as_array().into_iter().flatten().any(|known| known.as_i64() == Some(code));
        match codes["operator"].as_str() {
            Some("In") => is_in,
            Some("NotIn") => !is_in,
            _ => false,
        }
    });
    let by_rule =
        rule.filter(|_| own.is_some()).is_some_and(|rule| matches!(rule["action"].as_str(), Some("Restart" | "RestartAllContainers")));
    by_rule || own.and_then(by_policy).or_else(|| by_policy(spec.member("restartPolicy").text())).unwrap_or(true)
}

/// Claims that were made for the Pod (`validatePodResourceClaimStatuses`).
fn claims(status: &At<'_, '_>, spec: &At<'_, '_>, causes: &mut Causes) {
    let of_spec = spec.member("resourceClaims");
    let known: HashSet<&str> = of_spec.items().map(|claim| claim.value()["name"].as_str().unwrap_or_default()).collect();
    let mut taken = HashSet::new();
    for claim in status.member("resourceClaimStatuses").items() {
        let (name, of) = (claim.member("name"), claim.member("resourceClaimName"));
        if !known.contains(name.text()) {
            causes.invalid_text(&name, "must match the name of an entry in `spec.resourceClaims`");
        }
        if !taken.insert(name.text()) {
            causes.duplicate(&name.with(&name.text().into()));
        }
        if of.is_present() {
            names::subdomain(of.text()).iter().for_each(|why| causes.invalid_json(&of, why));
        }
    }
}

/// The claim of resources that have their own names (`validatePodExtendedResourceClaimStatus`).
fn extended_claims(at: &At<'_, '_>, spec: &At<'_, '_>, causes: &mut Causes) {
    if at.is_absent() {
        return;
    }
    let mappings = at.member("requestMappings");
    if mappings.len() == 0 {
        causes.required(&mappings, "at least one request mapping is required");
    }
    let (init, regular) = (spec.member("initContainers"), spec.member("containers"));
    let containers: HashMap<&str, &Value> =
        init.items().chain(regular.items()).map(|it| (it.value()["name"].as_str().unwrap_or_default(), it.value())).collect();
    let mut taken = HashSet::new();
    for mapping in mappings.items() {
        let (container, resource, request) =
            (mapping.member("containerName"), mapping.member("resourceName"), mapping.member("requestName"));
        match containers.get(container.text()) {
            None => causes.invalid_text(&container, "must match the name of an entry in spec.initContainers.name or spec.containers.name"),
            Some(known) if known["resources"]["requests"].get(resource.text()).is_none() => {
                let why = "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests";
                causes.invalid_text(&resource, why);
            }
            Some(_) => {}
        }
        // The path leaves the mapping out.
        meta::label(&at.member("requestName").with(request.value()), causes);
        if !taken.insert((container.text(), resource.text(), request.text())) {
            for part in [&container, &resource, &request] {
                causes.duplicate(&part.with(&part.text().into()));
            }
        }
    }
    let claim = at.member("resourceClaimName");
    if meta::present(&claim, "", causes) {
        meta::subdomain(&claim, causes);
    }
}

/// Claims of what a node can allocate (`validateNodeAllocatableResourceClaimStatus`), whose gate is off: only those that were there before are seen.
fn allocatable_claims(status: &At<'_, '_>, spec: &At<'_, '_>, causes: &mut Causes) {
    let (of_spec, of_status) = (spec.member("resourceClaims"), status.member("resourceClaimStatuses"));
    let known: HashSet<&str> =
        of_spec.items().chain(of_status.items()).filter_map(|claim| claim.value()["resourceClaimName"].as_str()).collect();
    for claim in status.member("nodeAllocatableResourceClaimStatuses").items() {
        let (name, containers, resources) = (claim.member("resourceClaimName"), claim.member("containers"), claim.member("resources"));
        meta::present(&name, "must not be empty", causes);
        if !known.contains(name.text()) {
            causes.invalid_text(&name, "no mapping found in pod reference");
        }
        if containers.len() == 0 {
            causes.required(&containers, "must not be empty");
        }
        if resources.len() == 0 {
            causes.required(&resources, "must not be empty");
        }
        for (resource, amount) in resources.entries() {
            if !quantities::is_native(resource) {
                causes.invalid_json(&amount.with(&resource.into()), "must be a node allocatable resource name");
            }
            if Amount::at(&amount).is_negative() {
                causes.invalid(&amount, "must be non-negative");
            }
        }
    }
}

/// Addresses of which those that were there before may be as they are; there is one of each family.
fn addresses_of(old: &At<'_, '_>, new: &At<'_, '_>, of: &str, causes: &mut Causes) {
    let known: HashSet<&str> = old.items().map(|address| address.value()["ip"].as_str().unwrap_or_default()).collect();
    for address in new.items() {
        let ip = address.member("ip");
        if !known.contains(ip.text()) {
            addresses::legacy_address(&address.with(&ip.text().into()), causes);
        }
    }
    if new.len() < 2 {
        return;
    }
    let parsed: Vec<Option<IpAddr>> = new.items().map(|address| addresses::parse(address.member("ip").text())).collect();
    if let Some(wrong) = parsed.iter().position(Option::is_none) {
        let error = format!("failed to check for dual stack with error:invalid IP[{wrong}]: {}", new.item(wrong).member("ip").text());
        causes.add(FieldError::internal(new.to_string(), &error));
    }
    let families = |is_4: bool| parsed.iter().flatten().any(|address| address.is_ipv4() == is_4);
    let is_dual = parsed.iter().all(Option::is_some) && families(true) && families(false);
    if !is_dual || new.len() > 2 {
        causes.invalid_shown(new, of, "may specify no more than one IP for each IP family");
    }
}

fn user(at: &At<'_, '_>, system: &str, causes: &mut Causes) {
    let linux = at.member("linux");
    if linux.is_absent() {
        return;
    }
    match system {
        "windows" => causes.forbidden(&linux, "cannot be set for a windows pod"),
        "linux" => {
            for id in ["uid", "gid"].map(|member| linux.member(member)) {
                causes.each_invalid(&id, names::id(id.integer()));
            }
            for group in linux.member("supplementalGroups").items() {
                causes.each_invalid(&group, names::id(group.integer()));
            }
        }
        _ => {}
    }
}

/// The health of devices that containers have (`validateContainerStatusAllocatedResourcesStatus`).
fn allocated(statuses: &At<'_, '_>, containers: &At<'_, '_>, causes: &mut Causes) {
    let by_name = first_by_name(containers);
    for status in statuses.items() {
        let container = by_name.get(status.member("name").text());
        for resource in status.member("allocatedResourcesStatus").items() {
            if let Some(container) = container {
                of_container(&resource.member("name"), container, causes);
            }
            devices(&resource.member("resources"), causes);
        }
    }
}

fn of_container(at: &At<'_, '_>, container: &Value, causes: &mut Causes) {
    let resources = &container["resources"];
    let (is_there, why) = match at.text().strip_prefix("claim:") {
        Some(wanted) => {
            let is_named = |claim: &Value| {
                let (name, request) = (claim["name"].as_str().unwrap_or_default(), claim["request"].as_str().unwrap_or_default());
                if request.is_empty() {
                    wanted == name
                } else {
                    wanted.strip_prefix(name).and_then(|rest| rest.strip_prefix('/')) == Some(request)
                }
            };
            let why = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
            (resources["claims"].as_array().into_iter().flatten().any(is_named), why)
        }
        None => (resources["requests"].get(at.text()).is_some(), "must match one of the container's resource requests"),
    };
    if !is_there {
        causes.invalid_json(at, why);
    }
}

fn devices(at: &At<'_, '_>, causes: &mut Causes) {
    const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
    let mut taken = HashSet::new();
    for device in at.items() {
        let (health, message, id) = (device.member("health"), device.member("message"), device.member("resourceID"));
        if !HEALTH.contains(&health.text()) {
            causes.not_supported(&health.with(&health.text().into()), &HEALTH);
        }
        if message.is_present() {
            if message.text().is_empty() {
                causes.required(&message, "must be non-empty if specified");
            } else if message.text().len() > HEALTH_MESSAGE_BYTES_MAX {
                causes.too_long(&message, HEALTH_MESSAGE_BYTES_MAX);
            }
        }
        if !taken.insert(id.text()) {
            causes.duplicate(&id.with(&id.text().into()));
        }
    }
}
