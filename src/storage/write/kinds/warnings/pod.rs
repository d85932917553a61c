//! Warnings about the spec of a Pod or of a template of Pods (`pkg/api/pod`).

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::{VOLUMES, address, annotation, annotations, below, items, labels, members, paths};
use crate::write::tree;
use go::{quantity, quote::quoted};

const ANNOTATIONS: [(&str, &str); 3] = [
    ("scheduler.alpha.kubernetes.io/critical-pod", "non-functional in v1.16+; use the \"priorityClassName\" field instead"),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR_OF: &str = "container.apparmor.security.beta.kubernetes.io/";
const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// The warnings about a Pod (`path` is empty) or a template there.
pub(in crate::write::kinds) fn of(path: &str, pod: &Value, warnings: &mut Vec<String>) {
    let (spec, at) = (&pod["spec"], below(path, "spec"));
    for label in members(spec, &["nodeSelector"]).keys() {
        warnings.extend(labels::renamed(label).map(|why| format!("{at}.nodeSelector[{label}]: {why}")));
    }
    node_affinity(&at, spec, warnings);
    for (i, constraint) in items(spec, &["topologySpreadConstraints"]).enumerate() {
        let (key, at) = (tree::text(constraint, &["topologyKey"]), format!("{at}.topologySpreadConstraints[{i}]"));
        warnings.extend(labels::renamed(key).map(|why| format!("{at}.topologyKey: {key} is {why}")));
        if tree::at(constraint, &["labelSelector"]).is_none() {
            warnings.push(format!("{at}.labelSelector: {NULL_SELECTOR}"));
        }
    }
    annotations(path, pod, &ANNOTATIONS, warnings);
    volumes(&at, spec, warnings);
    paths::of_volumes(spec, warnings);
    duplicates(&at, spec, warnings);
    fractions(&format!("{at}.overhead"), &spec["overhead"], &["memory", "ephemeral-storage"], warnings);
    let has_profile = |of: &Value, name: &str| tree::at(of, &["securityContext", name]).is_some();
    if !has_profile(spec, "seccompProfile") {
        annotations(path, pod, &[(SECCOMP, "non-functional in v1.27+; use the \"seccompProfile\" field instead")], warnings);
    }
    for (container, at) in containers(spec, &at) {
        let name = tree::text(container, &["name"]);
        let seccomp = format!("{SECCOMP_OF}{name}");
        if !has_profile(container, "seccompProfile") && annotation(pod, &seccomp).is_some() {
            warnings.push(format!(
                "{}[{seccomp}]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
                below(path, "metadata.annotations")
            ));
        }
        let armor = format!("{APP_ARMOR_OF}{name}");
        // A Pod gets the field of its annotation, a template does not.
        if !path.is_empty() && !has_profile(container, "appArmorProfile") && annotation(pod, &armor).is_some() {
            warnings.push(format!(
                "{}[{armor}]: deprecated since v1.30; use the \"appArmorProfile\" field instead",
                below(path, "metadata.annotations")
            ));
        }
        for name in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                fractions(&format!("{at}.resources.{list}"), &container["resources"][list], &[name], warnings);
            }
        }
        hidden_variables(&at, container, warnings);
    }
    ports(&at, spec, warnings);
    if tree::integer(spec, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        warnings.push(format!("{at}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    pod_affinity(&at, spec, warnings);
    for (i, server) in tree::texts(spec, &["dnsConfig", "nameservers"]).into_iter().enumerate() {
        warnings.extend(address::of_address(&format!("{at}.dnsConfig.nameservers[{i}]"), server));
    }
    for (i, alias) in items(spec, &["hostAliases"]).enumerate() {
        warnings.extend(address::of_address(&format!("{at}.hostAliases[{i}].ip"), tree::text(alias, &["ip"])));
    }
}

/// Fractions of bytes in the spec of a claim.
pub(in crate::write::kinds) fn claim_spec(path: &str, spec: &Value, warnings: &mut Vec<String>) {
    for list in ["requests", "limits"] {
        fractions(&format!("{path}.resources.{list}"), &spec["resources"][list], &["storage"], warnings);
    }
}

/// Amounts of these resources that are no whole numbers.
fn fractions(path: &str, list: &Value, names: &[&str], warnings: &mut Vec<String>) {
    let amounts = names.iter().filter_map(|name| Some((name, list.get(*name)?.as_str()?)));
    let fractions = amounts.filter(|(_, amount)| !quantity::is_whole(amount));
    warnings.extend(
        fractions.map(|(name, amount)| format!("{path}[{name}]: fractional byte value {} is invalid, must be an integer", quoted(amount))),
    );
}

/// Every container and its path, in the order in which Go visits them.
fn containers<'a>(spec: &'a Value, path: &str) -> Vec<(&'a Value, String)> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.iter().flat_map(|list| items(spec, &[list]).enumerate().map(move |(i, it)| (it, format!("{path}.{list}[{i}]")))).collect()
}

fn node_affinity(at: &str, spec: &Value, warnings: &mut Vec<String>) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let affinity = &spec["affinity"]["nodeAffinity"];
    for (i, term) in items(affinity, &[REQUIRED, "nodeSelectorTerms"]).enumerate() {
        labels::of_expressions(&format!("{at}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[{i}]"), term, false, warnings);
    }
    for (i, term) in items(affinity, &[PREFERRED]).enumerate() {
        labels::of_expressions(&format!("{at}.affinity.nodeAffinity.{PREFERRED}[{i}].preference"), &term["preference"], true, warnings);
    }
}

fn pod_affinity(at: &str, spec: &Value, warnings: &mut Vec<String>) {
    for affinity in ["podAffinity", "podAntiAffinity"] {
        for (list, inner) in
            [("requiredDuringSchedulingIgnoredDuringExecution", ""), ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm")]
        {
            for (i, term) in items(spec, &["affinity", affinity, list]).enumerate() {
                let term = if inner.is_empty() { term } else { &term[inner] };
                if tree::at(term, &["labelSelector"]).is_none() {
                    let selector = below(inner, "labelSelector");
                    warnings.push(format!("{at}.affinity.{affinity}.{list}[{i}].{selector}: {NULL_SELECTOR}"));
                }
            }
        }
    }
}

fn volumes(at: &str, spec: &Value, warnings: &mut Vec<String>) {
    for (i, volume) in items(spec, &["volumes"]).enumerate() {
        for (name, why) in VOLUMES {
            // The claim of a volume is told about before the last two.
            if name == "cephfs" {
                claim_spec(
                    &format!("{at}.volumes[{i}].ephemeral.volumeClaimTemplate.spec"),
                    &volume["ephemeral"]["volumeClaimTemplate"]["spec"],
                    warnings,
                );
            }
            if tree::at(volume, &[name]).is_some() {
                let shown = if name == "storageos" { "storageOS" } else { name };
                warnings.push(format!("{at}.volumes[{i}].{shown}: {why}"));
            }
        }
    }
}

fn duplicates(at: &str, spec: &Value, warnings: &mut Vec<String>) {
    for (list, member) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut known = HashSet::new();
        for (i, item) in items(spec, &[list]).enumerate() {
            let text = tree::text(item, &[member]);
            if !known.insert(text) {
                warnings.push(format!("{at}.{list}[{i}].{member}: duplicate {member} {}", quoted(text)));
            }
        }
    }
    for (i, _) in items(spec, &["imagePullSecrets"]).enumerate().filter(|(_, item)| tree::text(item, &["name"]).is_empty()) {
        warnings.push(format!("{at}.imagePullSecrets[{i}].name: invalid empty name \"\""));
    }
}

/// Variables that are set twice, but not by means of the first value.
fn hidden_variables(at: &str, container: &Value, warnings: &mut Vec<String>) {
    let mut known = HashSet::new();
    for (i, variable) in items(container, &["env"]).enumerate() {
        let (name, value) = (tree::text(variable, &["name"]), tree::text(variable, &["value"]));
        let reference = format!("$({name})");
        let hides = tree::at(variable, &["valueFrom"]).is_some() || value == reference || !value.contains(&reference);
        if !known.insert(name) && hides {
            warnings.push(format!("{at}.env[{i}]: hides previous definition of {}, which may be dropped when using apply", quoted(name)));
        }
    }
}

/// A port of a container, and its path.
struct Port<'a> {
    path: String,
    host: i64,
    address: &'a str,
}

fn ports(at: &str, spec: &Value, warnings: &mut Vec<String>) {
    let all: Vec<(&Value, String)> = containers(spec, at)
        .into_iter()
        .flat_map(|(container, at)| items(container, &["ports"]).enumerate().map(move |(i, port)| (port, format!("{at}.ports[{i}]"))))
        .collect();
    let mut known: BTreeMap<(i64, &str), Vec<Port<'_>>> = BTreeMap::new();
    for (port, path) in &all {
        let (number, text) = (|name: &str| tree::integer(port, &[name]).unwrap_or(0), |name: &str| tree::text(port, &[name]));
        let own = Port { path: path.clone(), host: number("hostPort"), address: text("hostIP") };
        let (inner, protocol) = (number("containerPort"), text("protocol"));
        if !own.address.is_empty() && own.host == 0 {
            warnings.push(format!(
                "{path}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{inner} Protocol:{protocol} HostIP:{}}}",
                text("name"),
                own.address
            ));
        }
        let others = known.entry((inner, protocol)).or_default();
        for other in others.iter() {
            let how = if own.address == other.address && own.host == other.host {
                "duplicate"
            } else if own.host == 0 || other.host == 0 {
                "overlapping"
            } else if own.host == other.host && own.address.is_empty() != other.address.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{path}: {how} port definition with {}", other.path));
        }
        others.push(own);
    }
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for (port, path) in all.iter().filter(|(port, _)| !tree::text(port, &["name"]).is_empty()) {
        let name = tree::text(port, &["name"]);
        match names.get(name) {
            Some(other) => warnings.push(format!(
                "{path}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                quoted(name)
            )),
            None => drop(names.insert(name, path)),
        }
    }
}
