//! The rules that the restricted level has besides: a Pod gives away what containers have by themselves and do not need.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    baseline::{has_own_users, is_seccomp},
    checks::{Pod, Violation, bad, containers, context, named, plural, quoted, setters, wrong_values},
};
use crate::tree;

/// Kinds of volumes that may be used.
const VOLUMES: [&str; 9] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret"];

/// The other ones, in the order in which they are looked for.
const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn is_windows(pod: &Pod<'_>) -> bool {
    tree::text(pod.spec, &["os", "name"]) == "windows"
}

pub(super) fn privilege_escalation(pod: &Pod<'_>) -> Option<Violation> {
    let found = bad(pod, |container| context(container, &["allowPrivilegeEscalation"]) != Some(&Value::Bool(false)));
    if found.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&found));
    Violation::new("allowPrivilegeEscalation != false", detail)
}

pub(super) fn privilege_escalation_1_25(pod: &Pod<'_>) -> Option<Violation> {
    if is_windows(pod) { None } else { privilege_escalation(pod) }
}

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    fn list<'v>(container: &'v Value, name: &str) -> impl Iterator<Item = &'v str> + use<'v> {
        let list = context(container, &["capabilities", name]).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }
    fn added(container: &Value) -> impl Iterator<Item = &str> {
        list(container, "add").filter(|name| *name != "NET_BIND_SERVICE")
    }
    let keeping = bad(pod, |container| !list(container, "drop").any(|name| name == "ALL"));
    let adding = bad(pod, |container| added(container).next().is_some());
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", named(&keeping)));
    }
    if !adding.is_empty() {
        let names: BTreeSet<&str> = containers(pod).flat_map(added).collect();
        details.push(format!("{} must not include {} in securityContext.capabilities.add", named(&adding), quoted(names)));
    }
    if details.is_empty() { None } else { Violation::new("unrestricted capabilities", details.join("; ")) }
}

pub(super) fn capabilities_1_25(pod: &Pod<'_>) -> Option<Violation> {
    if is_windows(pod) { None } else { capabilities(pod) }
}

pub(super) fn volumes(pod: &Pod<'_>) -> Option<Violation> {
    let is_any = |volume: &Value, kinds: &[&'static str]| kinds.iter().copied().find(|kind| tree::at(volume, &[kind]).is_some());
    let found: Vec<&Value> = tree::items(pod.spec, &["volumes"]).filter(|volume| is_any(volume, &VOLUMES).is_none()).collect();
    if found.is_empty() {
        return None;
    }
    let kinds: BTreeSet<&str> = found.iter().map(|volume| is_any(volume, &OTHER_VOLUMES).unwrap_or("unknown")).collect();
    let (volumes, uses) = (plural(found.len(), "volume", "volumes"), plural(found.len(), "uses", "use"));
    let what = plural(kinds.len(), "restricted volume type", "restricted volume types");
    let names = quoted(found.iter().map(|volume| tree::text(volume, &["name"])));
    Violation::new("restricted volume types", format!("{volumes} {names} {uses} {what} {}", quoted(kinds)))
}

pub(super) fn non_root(pod: &Pod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let said = |of| context(of, &["runAsNonRoot"]).and_then(Value::as_bool);
    let whole = said(pod.spec);
    if let Some(setters) = setters(whole == Some(false), &bad(pod, |container| said(container) == Some(false))) {
        return Violation::new(REASON, format!("{setters} must not set securityContext.runAsNonRoot=false"));
    }
    let silent = bad(pod, |container| said(container).is_none() && whole != Some(true));
    if silent.is_empty() {
        return None;
    }
    Violation::new(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", named(&silent)))
}

/// The same where the users of the Pod are those of its node.
pub(super) fn non_root_of_host(pod: &Pod<'_>) -> Option<Violation> {
    if has_own_users(pod) { None } else { non_root(pod) }
}

pub(super) fn user(pod: &Pod<'_>) -> Option<Violation> {
    let is_root = |of: &Value| context(of, &["runAsUser"]).and_then(Value::as_i64) == Some(0);
    let setters = setters(is_root(pod.spec), &bad(pod, is_root))?;
    Violation::new("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}

/// The same where the users of the Pod are those of its node.
pub(super) fn user_of_host(pod: &Pod<'_>) -> Option<Violation> {
    if has_own_users(pod) { None } else { user(pod) }
}

pub(super) fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    const REASON: &str = "seccompProfile";
    let path = ["seccompProfile", "type"];
    let (of_pod, found, values) = wrong_values(pod, &path, |kind| !is_seccomp(kind));
    if let Some(setters) = setters(of_pod, &found) {
        return Violation::new(REASON, format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(values)));
    }
    let is_set = |of: &Value| context(of, &["seccompProfile"]).is_some();
    let silent = bad(pod, |container| !is_set(container) && !is_set(pod.spec));
    if silent.is_empty() {
        return None;
    }
    let detail = format!("pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"", named(&silent));
    Violation::new(REASON, detail)
}

pub(super) fn seccomp_1_25(pod: &Pod<'_>) -> Option<Violation> {
    if is_windows(pod) { None } else { seccomp(pod) }
}
