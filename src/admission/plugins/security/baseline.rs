//! The rules of the baseline level: a Pod gets nothing of its node that containers do not have by themselves.

use std::collections::BTreeSet;

use serde_json::Value;

use super::checks::{Pod, Violation, bad, containers, context, named, plural, quoted, setters, wrong_values};
use crate::tree;

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The kernel parameters that are allowed, and from which version of the rule on.
const SYSCTLS: [(&str, u8); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

fn annotations<'v>(pod: &Pod<'v>) -> impl Iterator<Item = (&'v str, &'v str)> + use<'v> {
    let all = tree::at(pod.metadata, &["annotations"]).and_then(Value::as_object).into_iter().flatten();
    all.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
}

pub(super) fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    let (of_pod, found, values) = wrong_values(pod, &["appArmorProfile", "type"], |kind| !matches!(kind, "RuntimeDefault" | "Localhost"));
    let is_wrong = |profile: &str| !(matches!(profile, "" | "runtime/default") || profile.starts_with("localhost/"));
    let annotated = annotations(pod).filter(|(name, profile)| name.starts_with(APP_ARMOR_ANNOTATION) && is_wrong(profile));
    let mut annotated: Vec<String> = annotated.map(|(name, profile)| format!("{name}={}", go::quote::quoted(profile))).collect();
    annotated.sort_unstable();
    let by_annotation = (!annotated.is_empty()).then(|| plural(annotated.len(), "annotation", "annotations").to_owned());
    let all: Vec<String> = setters(of_pod, &found).into_iter().chain(by_annotation).collect();
    if all.is_empty() {
        return None;
    }
    let reason = plural(values.len() + annotated.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles");
    let values = quoted(values.into_iter().chain(annotated.iter().map(String::as_str)));
    Violation::new(reason, format!("{} must not set AppArmor profile type to {values}", all.join(" and ")))
}

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let added = |container| {
        let list = context(container, &["capabilities", "add"]).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).filter(|name| !CAPABILITIES.contains(name))
    };
    let found = bad(pod, |container| added(container).next().is_some());
    let names: BTreeSet<&str> = containers(pod).flat_map(added).collect();
    if found.is_empty() {
        return None;
    }
    let detail = format!("{} must not include {} in securityContext.capabilities.add", named(&found), quoted(names));
    Violation::new("non-default capabilities", detail)
}

pub(super) fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|name| pod.spec[*name] == true);
    let shared: Vec<String> = shared.map(|name| format!("{name}=true")).collect();
    if shared.is_empty() { None } else { Violation::new("host namespaces", shared.join(", ")) }
}

pub(super) fn host_paths(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = tree::items(pod.spec, &["volumes"]).filter(|volume| tree::at(volume, &["hostPath"]).is_some());
    let names: Vec<&str> = volumes.map(|volume| tree::text(volume, &["name"])).collect();
    if names.is_empty() {
        return None;
    }
    Violation::new("hostPath volumes", format!("{} {}", plural(names.len(), "volume", "volumes"), quoted(names)))
}

pub(super) fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let taken =
        |container| tree::items(container, &["ports"]).filter_map(|port| tree::at(port, &["hostPort"])?.as_i64()).filter(|port| *port != 0);
    let found = bad(pod, |container| taken(container).next().is_some());
    let ports: BTreeSet<String> = containers(pod).flat_map(taken).map(|port| port.to_string()).collect();
    if found.is_empty() {
        return None;
    }
    let (uses, what) = (plural(found.len(), "uses", "use"), plural(ports.len(), "hostPort", "hostPorts"));
    let ports: Vec<String> = ports.into_iter().collect();
    Violation::new("hostPort", format!("{} {uses} {what} {}", named(&found), ports.join(", ")))
}

pub(super) fn hosts(pod: &Pod<'_>) -> Option<Violation> {
    const HANDLERS: [&[&str]; 5] =
        [&["livenessProbe"], &["readinessProbe"], &["startupProbe"], &["lifecycle", "postStart"], &["lifecycle", "preStop"]];
    fn named_hosts(container: &Value) -> impl Iterator<Item = &str> {
        let handlers = HANDLERS.into_iter().filter_map(|path| tree::at(container, path));
        handlers
            .flat_map(|handler| [tree::text(handler, &["httpGet", "host"]), tree::text(handler, &["tcpSocket", "host"])])
            .filter(|host| !host.is_empty())
    }
    let found: BTreeSet<&str> = bad(pod, |container| named_hosts(container).next().is_some()).into_iter().collect();
    let found: Vec<&str> = found.into_iter().collect();
    let hosts: BTreeSet<&str> = containers(pod).flat_map(named_hosts).collect();
    if found.is_empty() {
        return None;
    }
    let uses = plural(found.len(), "uses", "use");
    let what = plural(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    Violation::new("probe or lifecycle host", format!("{} {uses} {what} {}", named(&found), quoted(hosts)))
}

pub(super) fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let found = bad(pod, |container| context(container, &["privileged"]) == Some(&Value::Bool(true)));
    if found.is_empty() {
        return None;
    }
    Violation::new("privileged", format!("{} must not set securityContext.privileged=true", named(&found)))
}

pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let mounted = |container| context(container, &["procMount"]).and_then(Value::as_str).filter(|kind| *kind != "Default");
    let found = bad(pod, |container| mounted(container).is_some());
    let kinds: BTreeSet<&str> = containers(pod).filter_map(mounted).collect();
    if found.is_empty() {
        return None;
    }
    Violation::new("procMount", format!("{} must not set securityContext.procMount to {}", named(&found), quoted(kinds)))
}

/// The same where the users of the Pod are those of its node.
pub(super) fn proc_mount_of_host(pod: &Pod<'_>) -> Option<Violation> {
    if has_own_users(pod) { None } else { proc_mount(pod) }
}

/// Whether the users of a Pod are its own, so that its root is none of the node.
pub(super) fn has_own_users(pod: &Pod<'_>) -> bool {
    pod.spec["hostUsers"] == false
}

pub(super) fn se_linux(pod: &Pod<'_>) -> Option<Violation> {
    options(pod, &["", "container_t", "container_init_t", "container_kvm_t"])
}

pub(super) fn se_linux_1_31(pod: &Pod<'_>) -> Option<Violation> {
    options(pod, &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"])
}

fn options(pod: &Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let said = |of, name: &str| context(of, &["seLinuxOptions", name]).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = |of| said(of, "type").filter(|kind| !allowed.contains(kind));
    let is_wrong = |of| kind(of).is_some() || said(of, "user").is_some() || said(of, "role").is_some();
    let setters = setters(is_wrong(pod.spec), &bad(pod, is_wrong))?;
    let all = || std::iter::once(pod.spec).chain(containers(pod));
    let kinds: BTreeSet<&str> = all().filter_map(kind).collect();
    let mut data = Vec::new();
    if !kinds.is_empty() {
        data.push(format!("{} {}", plural(kinds.len(), "type", "types"), quoted(kinds)));
    }
    for name in ["user", "role"] {
        data.extend(all().any(|of| said(of, name).is_some()).then(|| format!("{name} may not be set")));
    }
    Violation::new("seLinuxOptions", format!("{setters} set forbidden securityContext.seLinuxOptions: {}", data.join("; ")))
}

/// What was before the field of a security context.
pub(super) fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let is_wrong = |profile: &str| !(matches!(profile, "runtime/default" | "docker/default") || profile.starts_with("localhost/"));
    let names: BTreeSet<&str> = containers(pod).map(|container| tree::text(container, &["name"])).collect();
    let is_ours = |name: &str| name == SECCOMP_OF_POD || name.strip_prefix(SECCOMP_OF_CONTAINER).is_some_and(|of| names.contains(of));
    let found = annotations(pod).filter(|(name, profile)| is_ours(name) && is_wrong(profile));
    let found: BTreeSet<String> = found.map(|(name, profile)| format!("{name}={}", go::quote::quoted(profile))).collect();
    if found.is_empty() {
        return None;
    }
    let what = plural(found.len(), "annotation", "annotations");
    let found: Vec<String> = found.into_iter().collect();
    Violation::new("seccompProfile", format!("forbidden {what} {}", found.join(", ")))
}

pub(super) fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    let (of_pod, found, values) = wrong_values(pod, &["seccompProfile", "type"], |kind| !is_seccomp(kind));
    let setters = setters(of_pod, &found)?;
    Violation::new("seccompProfile", format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(values)))
}

/// Whether a profile may be named.
pub(super) fn is_seccomp(kind: &str) -> bool {
    matches!(kind, "Localhost" | "RuntimeDefault")
}

pub(super) fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    parameters(pod, 0)
}

pub(super) fn sysctls_1_27(pod: &Pod<'_>) -> Option<Violation> {
    parameters(pod, 27)
}

pub(super) fn sysctls_1_29(pod: &Pod<'_>) -> Option<Violation> {
    parameters(pod, 29)
}

pub(super) fn sysctls_1_32(pod: &Pod<'_>) -> Option<Violation> {
    parameters(pod, 32)
}

fn parameters(pod: &Pod<'_>, minor: u8) -> Option<Violation> {
    let is_allowed = |name: &str| SYSCTLS.iter().any(|(known, from)| *known == name && *from <= minor);
    let set = context(pod.spec, &["sysctls"]).and_then(Value::as_array).into_iter().flatten();
    let found: Vec<&str> = set.map(|one| tree::text(one, &["name"])).filter(|name| !is_allowed(name)).collect();
    if found.is_empty() { None } else { Violation::new("forbidden sysctls", found.join(", ")) }
}

pub(super) fn windows_host_process(pod: &Pod<'_>) -> Option<Violation> {
    let is_set = |of: &Value| context(of, &["windowsOptions", "hostProcess"]) == Some(&Value::Bool(true));
    let setters = setters(is_set(pod.spec), &bad(pod, is_set))?;
    Violation::new("hostProcess", format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"))
}
