//! `nodes` and `nodes/status`: a kubelet writes its own Node only, and there nothing that brings it work or rights.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{Attributes, Operation, Verdict, forbid, tree};
use go::quote::quoted;

/// Labels of Kubernetes that a kubelet may set on its Node.
const LABELS: &[&str] = &[
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Domains of Kubernetes in which it may set any.
const LABEL_DOMAINS: &[&str] = &["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The domain of labels that isolate nodes from their kubelets.
const RESTRICTED_DOMAIN: &str = "node-restriction.kubernetes.io";

/// Kubernetes' own domains.
const OWN_DOMAINS: &[&str] = &["kubernetes.io", "k8s.io"];

pub(crate) fn admit(node: &str, write: &Attributes<'_>) -> Verdict {
    if write.name != node {
        return forbid(format!("node {} is not allowed to modify node {}", quoted(node), quoted(write.name)));
    }
    match (write.operation, write.object, write.old) {
        (Operation::Create, Some(object), _) => created(node, object),
        (Operation::Update, Some(object), Some(old)) => updated(node, object, old),
        _ => Ok(()),
    }
}

fn created(node: &str, object: &Value) -> Verdict {
    if tree::at(object, &["spec", "configSource"]).is_some() {
        return forbid(format!("node {} is not allowed to create pods with a non-nil configSource", quoted(node)));
    }
    let labels = forbidden_labels(object, &Value::Null);
    if !labels.is_empty() {
        return forbid(format!("node {} is not allowed to set the following labels: {labels}", quoted(node)));
    }
    Ok(())
}

fn updated(node: &str, object: &Value, old: &Value) -> Verdict {
    let of = |path: &[&str]| (tree::at(object, path), tree::at(old, path));
    // An old kubelet may leave it out.
    let (source, old_source) = of(&["spec", "configSource"]);
    if source.is_some() && source != old_source {
        return forbid(format!("node {} is not allowed to update configSource to a new non-nil configSource", quoted(node)));
    }
    let (taints, old_taints) = of(&["spec", "taints"]);
    if !tree::same(taints, old_taints) {
        return forbid(format!("node {} is not allowed to modify taints", quoted(node)));
    }
    let (owners, old_owners) = of(&["metadata", "ownerReferences"]);
    if !tree::same(owners, old_owners) {
        return forbid(format!("node {} is not allowed to modify ownerReferences", quoted(node)));
    }
    let labels = forbidden_labels(object, old);
    if !labels.is_empty() {
        return forbid(format!("is not allowed to modify labels: {labels}"));
    }
    Ok(())
}

/// The labels that differ and are not for a kubelet to set, change or remove; in order, with commas between them.
fn forbidden_labels(object: &Value, old: &Value) -> String {
    let none = Map::new();
    let [new, old] = [object, old].map(|object| tree::at(object, &["metadata", "labels"]).and_then(Value::as_object).unwrap_or(&none));
    let names: BTreeSet<&str> = new.keys().chain(old.keys()).map(String::as_str).collect();
    let forbidden: Vec<&str> = names.into_iter().filter(|name| new.get(*name) != old.get(*name) && is_forbidden(name)).collect();
    forbidden.join(", ")
}

fn is_forbidden(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within = |of: &[&str]| of.iter().any(|of| domain == *of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.')));
    within(&[RESTRICTED_DOMAIN]) || within(OWN_DOMAINS) && !LABELS.contains(&label) && !within(LABEL_DOMAINS)
}
