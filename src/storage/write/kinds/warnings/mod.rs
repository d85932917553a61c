//! What the writer of a built-in should know about it, though it is accepted: deprecated fields, odd addresses, values that hide each other
//! (`WarningsOnCreate`, `WarningsOnUpdate` of the strategies in `pkg/registry`).

pub(in crate::write) mod address;
mod labels;
mod paths;
mod pod;

use serde_json::{Map, Value};

use super::{Part, metadata, tree};
use catalogue::NameRule;
use go::{quantity, quote::quoted};

/// The warnings about an object of the storage `id`, which replaces `old`.
pub(super) fn of(id: &str, part: Part, old: Option<&Value>, new: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    match (id, part) {
        (_, Part::Status) => status(id, new, &mut warnings),
        (_, Part::Finalizers | Part::Approval | Part::EphemeralContainers | Part::Resize | Part::Server) => {}
        ("pods", _) if old.is_none() => {
            host_name("the Pod's hostname", new, &mut warnings);
            pod::of("", new, &mut warnings);
        }
        ("podtemplates", _) => template("template", old, new, new, &mut warnings),
        ("deployments" | "replicasets" | "controllers", _) => {
            if old.is_none() {
                host_name("Pod names and hostnames", new, &mut warnings);
            }
            // A changed ReplicationController is told about what it was.
            template("spec.template", old, new, if id == "controllers" { old.unwrap_or(new) } else { new }, &mut warnings);
        }
        ("daemonsets", _) if old.is_none_or(|old| at(old, "spec.template") != at(new, "spec.template")) => {
            template("spec.template", None, new, new, &mut warnings);
        }
        ("statefulsets", _) => {
            template("spec.template", old, new, new, &mut warnings);
            let spec = if old.is_some() { ".Spec" } else { "" };
            for (i, claim) in items(new, &["spec", "volumeClaimTemplates"]).enumerate() {
                pod::claim_spec(&format!("spec.volumeClaimTemplates[{i}]{spec}"), &claim["spec"], &mut warnings);
            }
            if tree::integer(new, &["spec", "revisionHistoryLimit"]).is_some_and(|limit| limit < 0) {
                warnings.push(
                    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned(),
                );
            }
        }
        ("jobs" | "cronjobs", _) => {
            if old.is_none() {
                host_name("Pod names and hostnames", new, &mut warnings);
            }
            let spec = if id == "jobs" { "spec" } else { "spec.jobTemplate.spec" };
            if is_counted(old, new) {
                job(spec, new, &mut warnings);
            }
            template(&format!("{spec}.template"), old, new, new, &mut warnings);
            let schedule = tree::text(new, &["spec", "schedule"]);
            if id == "cronjobs" && old.is_some() && schedule.contains("TZ") {
                warnings.push(
                    "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                     https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                        .to_owned(),
                );
            }
        }
        ("services/specs", _) => service(new, &mut warnings),
        ("services/endpoints", _) if tree::text(new, &ENDPOINTS_MANAGER) != "endpoint-controller" => {
            for (i, subset) in items(new, &["subsets"]).enumerate() {
                for list in ["addresses", "notReadyAddresses"] {
                    let all = items(subset, &[list]).enumerate();
                    warnings.extend(
                        all.filter_map(|(j, it)| address::of_address(&format!("subsets[{i}].{list}[{j}].ip"), tree::text(it, &["ip"]))),
                    );
                }
            }
        }
        ("endpointslices", _) => {
            if old.is_none() && tree::text(new, &["addressType"]) == "FQDN" {
                warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
            }
            if !matches!(tree::text(new, &MANAGER), "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
                for (i, endpoint) in items(new, &["endpoints"]).enumerate() {
                    let all = tree::texts(endpoint, &["addresses"]).into_iter().enumerate();
                    warnings.extend(all.filter_map(|(j, text)| address::of_address(&format!("endpoints[{i}].addresses[{j}]"), text)));
                }
            }
        }
        ("minions", _) => node(new, &mut warnings),
        ("persistentvolumes", _) => volume(new, &mut warnings),
        ("persistentvolumeclaims", _) => {
            annotations("", new, &CLAIM_ANNOTATIONS, &mut warnings);
            pod::claim_spec("spec", &new["spec"], &mut warnings);
        }
        ("secrets", _) => warnings.extend(key_pair(new)),
        ("serviceaccounts", _) if old.is_none_or(|old| annotation(old, MOUNTABLE).is_none()) && annotation(new, MOUNTABLE).is_some() => {
            warnings.push(format!(
                "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
            ))
        }
        ("resourcequotas", _) if old.is_none() => quota(new, &mut warnings),
        ("ingress", _) if old.is_none() => {
            const CLASS: &str = "kubernetes.io/ingress.class";
            if annotation(new, CLASS).is_some() && at(new, "spec.ingressClassName").is_none() {
                warnings.push(format!("annotation {} is deprecated, please use 'spec.ingressClassName' instead", quoted(CLASS)));
            }
        }
        ("networkpolicies", _) => {
            for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
                for (i, rule) in items(new, &["spec", rules]).enumerate() {
                    for (j, peer) in items(rule, &[peers]).enumerate().filter(|(_, peer)| tree::at(peer, &["ipBlock"]).is_some()) {
                        let path = format!("spec.{rules}[{i}].{peers}[{j}].ipBlock");
                        warnings.extend(address::of_range(&format!("{path}.cidr"), tree::text(peer, &["ipBlock", "cidr"])));
                        for (k, except) in tree::texts(peer, &["ipBlock", "except"]).into_iter().enumerate() {
                            warnings.extend(address::of_range(&format!("{path}.except[{k}]"), except));
                        }
                    }
                }
            }
        }
        ("storageclasses", _) => {
            for (i, topology) in items(new, &["allowedTopologies"]).enumerate() {
                for (j, expression) in items(topology, &["matchLabelExpressions"]).enumerate() {
                    let why = labels::renamed(tree::text(expression, &["key"]));
                    warnings.extend(why.map(|why| format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key: {why}")));
                }
            }
        }
        ("csistoragecapacities", _) => {
            labels::of_expressions("nodeTopology", &new["nodeTopology"], false, &mut warnings);
            for label in members(new, &["nodeTopology", "matchLabels"]).keys() {
                warnings.extend(labels::renamed(label).map(|why| format!("nodeTopology.matchLabels.{label}: {why}")));
            }
        }
        ("runtimeclasses", _) => {
            let labels = members(new, &["scheduling", "nodeSelector"]).keys();
            warnings.extend(labels.filter_map(|label| labels::renamed(label)).map(|why| format!("scheduling.nodeSelector: {why}")));
        }
        ("csidrivers", _) => {
            let requests = at(new, "spec.tokenRequests");
            let is_new = old.is_none_or(|old| at(old, "spec.tokenRequests") != requests);
            let has_some = items(new, &["spec", "tokenRequests"]).next().is_some();
            if is_new && has_some && at(new, "spec.serviceAccountTokenInSecrets").is_none() {
                warnings.push(
                    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of \
                     tokens in volume attributes"
                        .to_owned(),
                );
            }
        }
        ("resourceslices", _) => {
            let driver = tree::text(new, &["spec", "driver"]);
            if driver.chars().any(char::is_uppercase) {
                warnings.push(format!("spec.driver: driver names should be lowercase; {} contains uppercase characters", quoted(driver)));
            }
        }
        (
            "mutatingadmissionpolicies"
            | "mutatingadmissionpolicybindings"
            | "mutatingwebhookconfigurations"
            | "validatingadmissionpolicies"
            | "validatingadmissionpolicybindings"
            | "validatingwebhookconfigurations",
            _,
        ) if tree::text(new, &["metadata", "name"]).ends_with(STATIC) => warnings.push(format!(
            "metadata.name: names ending with {} are reserved for static manifest-based configurations and cannot be managed via the API",
            quoted(STATIC)
        )),
        _ => {}
    }
    warnings
}

/// Who made the endpoints of a Service: the addresses of controllers are in order.
const ENDPOINTS_MANAGER: [&str; 3] = ["metadata", "labels", "endpoints.kubernetes.io/managed-by"];
const MANAGER: [&str; 3] = ["metadata", "labels", "endpointslice.kubernetes.io/managed-by"];
const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";
const STATIC: &str = ".static.k8s.io";

const CLAIM_ANNOTATIONS: [(&str, &str); 1] =
    [("volume.beta.kubernetes.io/storage-class", "deprecated since v1.8; use \"storageClassName\" attribute instead")];
const VOLUME_ANNOTATIONS: [(&str, &str); 2] =
    [CLAIM_ANNOTATIONS[0], ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead")];

/// Volumes that are deprecated or do nothing any more.
const VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The elements of the list at a path; none when there is no list.
fn items<'a>(tree: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a Value> + use<'a> {
    tree::at(tree, path).and_then(Value::as_array).into_iter().flatten()
}

fn members<'a>(tree: &'a Value, path: &[&str]) -> &'a Map<String, Value> {
    tree::at(tree, path).and_then(Value::as_object).unwrap_or(&tree::NO_MEMBERS)
}

/// The value at `spec.template`.
fn at<'a>(tree: &'a Value, path: &str) -> Option<&'a Value> {
    tree::at(tree, &path.split('.').collect::<Vec<_>>())
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    tree::at(object, &["metadata", "annotations", name])
}

/// `path.name`, or the name alone.
fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn annotations(path: &str, object: &Value, known: &[(&str, &str)], warnings: &mut Vec<String>) {
    let found = known.iter().filter(|(name, _)| annotation(object, name).is_some());
    warnings.extend(found.map(|(name, why)| format!("{}[{name}]: {why}", below(path, "metadata.annotations"))));
}

/// Whether the generation counted this change.
fn is_counted(old: Option<&Value>, new: &Value) -> bool {
    let generation = |object: &Value| tree::integer(object, &["metadata", "generation"]);
    old.is_none_or(|old| generation(old) != generation(new))
}

/// The template at `path` of `of`, if the object is new or was counted.
fn template(path: &str, old: Option<&Value>, new: &Value, of: &Value, warnings: &mut Vec<String>) {
    if let Some(template) = at(of, path).filter(|_| is_counted(old, new)) {
        pod::of(path, template, warnings);
    }
}

/// A name that becomes a host's name should be one.
fn host_name(used_in: &str, object: &Value, warnings: &mut Vec<String>) {
    let wrong = metadata::wrong_name(NameRule::Label, tree::text(object, &["metadata", "name"]), false);
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
}

/// Completions of an Indexed Job that are too many to be followed.
fn job(path: &str, object: &Value, warnings: &mut Vec<String>) {
    let spec = at(object, path).unwrap_or(&Value::Null);
    let count = |name: &str| tree::integer(spec, &[name]).unwrap_or(0);
    if tree::text(spec, &["completionMode"]) == "Indexed" && count("completions") > 100_000 && count("parallelism") > 10_000 {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to \
             track completedIndexes when a big number of indexes fail"
        ));
    }
}

fn status(id: &str, new: &Value, warnings: &mut Vec<String>) {
    let mut tell = |list: &str, field: &str, member: &str| {
        for (i, item) in items(new, &list.split('.').collect::<Vec<_>>()).enumerate() {
            warnings.extend(address::of_address(&format!("{list}[{i}]{field}"), tree::text(item, &[member])));
        }
    };
    match id {
        "pods" => {
            tell("status.podIPs", ".ip", "ip");
            tell("status.hostIPs", ".ip", "ip");
        }
        "services/specs" | "ingress" => tell("status.loadBalancer.ingress", "", "ip"),
        _ => {}
    }
}

fn service(service: &Value, warnings: &mut Vec<String>) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let spec = &service["spec"];
    let (kind, text) = (tree::text(spec, &["type"]), |name: &str| tree::text(spec, &[name]));
    let (external, is_headless) = (tree::texts(spec, &["externalIPs"]), kind == "ClusterIP" && text("clusterIP") == "None");
    if annotation(service, HINTS).is_some() {
        warnings.push(format!("annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"));
    }
    if !matches!(text("clusterIP"), "" | "None") {
        let all = tree::texts(spec, &["clusterIPs"]).into_iter().enumerate();
        warnings.extend(all.filter_map(|(i, ip)| address::of_address(&format!("spec.clusterIPs[{i}]"), ip)));
    }
    if is_headless {
        let ignored = [
            ("loadBalancerIP", !text("loadBalancerIP").is_empty()),
            ("externalIPs", !external.is_empty()),
            ("SessionAffinity", text("sessionAffinity") != "None"),
        ];
        warnings.extend(ignored.iter().filter(|(_, is)| *is).map(|(name, _)| format!("spec.{name} is ignored for headless services")));
    }
    warnings.extend(external.iter().enumerate().filter_map(|(i, ip)| address::of_address(&format!("spec.externalIPs[{i}]"), ip)));
    if !external.is_empty() && !is_headless && kind != "ExternalName" {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    warnings.extend(address::of_address("spec.loadBalancerIP", text("loadBalancerIP")));
    for (i, range) in tree::texts(spec, &["loadBalancerSourceRanges"]).into_iter().enumerate() {
        warnings.extend(address::of_range(&format!("spec.loadBalancerSourceRanges[{i}]"), range));
    }
    if kind == "ExternalName" && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !text("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text("trafficDistribution") == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
}

fn node(node: &Value, warnings: &mut Vec<String>) {
    if at(node, "spec.configSource").is_some() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !tree::text(node, &["spec", "externalID"]).is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    for (i, range) in tree::texts(node, &["spec", "podCIDRs"]).into_iter().enumerate() {
        warnings.extend(address::of_range(&format!("spec.podCIDRs[{i}]"), range));
    }
}

fn volume(volume: &Value, warnings: &mut Vec<String>) {
    // In this order, and no others.
    const OF_VOLUMES: [&str; 6] = ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"];
    annotations("", volume, &VOLUME_ANNOTATIONS, warnings);
    if tree::text(volume, &["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic \
             provisioning."
                .to_owned(),
        );
    }
    for (i, term) in items(volume, &["spec", "nodeAffinity", "required", "nodeSelectorTerms"]).enumerate() {
        labels::of_expressions(&format!("spec.nodeAffinity.required.nodeSelectorTerms[{i}]"), term, false, warnings);
    }
    for name in OF_VOLUMES.iter().filter(|name| tree::at(volume, &["spec", name]).is_some()) {
        let why = VOLUMES.iter().find(|(known, _)| known == name).map_or("", |(_, why)| why);
        let shown = if *name == "storageos" { "storageOS" } else { name };
        warnings.push(format!("spec.{shown}: {why}"));
    }
}

/// Requests that are more than their limits.
fn quota(quota: &Value, warnings: &mut Vec<String>) {
    let hard = members(quota, &["spec", "hard"]);
    let amount = |name: &str| Some((name.to_owned(), hard.get(name)?.as_str()?));
    for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let alone = || amount(name).filter(|_| matches!(name, "cpu" | "memory"));
        let (request, limit) = (amount(&format!("requests.{name}")).or_else(alone), amount(&format!("limits.{name}")));
        if let (Some((request, wanted)), Some((limit, most))) = (request, limit)
            && quantity::approximate(wanted) > quantity::approximate(most)
        {
            warnings.push(format!("ResourceQuota {request} ({wanted}) should be less than {limit} ({most})"));
        }
    }
}

/// What is plainly wrong with the certificate and the key of a Secret: that there are none.
fn key_pair(secret: &Value) -> Option<String> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    if tree::text(secret, &["type"]) != "kubernetes.io/tls" {
        return None;
    }
    let has_block = |name: &str| {
        let bytes = BASE64_STANDARD.decode(tree::text(secret, &["data", name])).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains("-----BEGIN ")
    };
    let missing = [("tls.crt", "certificate"), ("tls.key", "key")].into_iter().find(|(name, _)| !has_block(name))?;
    Some(format!("tls: failed to find any PEM data in {} input", missing.1))
}

#[cfg(test)]
mod tests;
