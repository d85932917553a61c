//! What containers and Pods may do on their host: users, groups, kernel parameters, mounts of `/proc`.

use std::collections::HashSet;

use super::{Options, containers, profiles, windows};
use crate::{at::At, causes::Causes, names};

/// Bytes of the name of a kernel parameter.
const SYSCTL_BYTES_MAX: usize = 253;

/// The security context of a container (`ValidateSecurityContext`), of a cluster that allows privileged ones.
pub(super) fn of_container(at: &At<'_, '_>, host_users: bool, causes: &mut Causes) {
    if at.is_absent() {
        return;
    }
    ids(at, &["runAsUser", "runAsGroup"], causes);
    let proc = at.member("procMount");
    if proc.is_present() {
        if !matches!(proc.text(), "Default" | "Unmasked") {
            causes.not_supported(&proc, &["Default", "Unmasked"]);
        }
        if host_users && proc.text() == "Unmasked" {
            causes.invalid(&proc, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    profiles::seccomp(&at.member("seccompProfile"), causes);
    escalation(at, causes);
    windows::options(&at.member("windowsOptions"), causes);
    profiles::app_armor(&at.member("appArmorProfile"), causes);
}

/// Who may not become more may not be more already.
fn escalation(at: &At<'_, '_>, causes: &mut Causes) {
    if at.member("allowPrivilegeEscalation").value() != &serde_json::Value::Bool(false) {
        return;
    }
    let mut refuse = |why: &str| causes.invalid_shown(at, "core.SecurityContext", why);
    if at.member("privileged").is_true() {
        refuse("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
    let capabilities = at.member("capabilities");
    let added = capabilities.member("add");
    for _ in added.items().filter(|capability| capability.text() == "CAP_SYS_ADMIN") {
        refuse("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
    }
}

fn ids(at: &At<'_, '_>, members: &[&str], causes: &mut Causes) {
    for member in members.iter().map(|member| at.member(member)).filter(At::is_present) {
        causes.each_invalid(&member, names::id(member.integer()));
    }
}

/// The security context of a Pod (`validatePodSpecSecurityContext`).
pub(super) fn of_pod(spec: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    let at = spec.member("securityContext");
    ids(&at, &["fsGroup", "runAsUser", "runAsGroup"], causes);
    for group in at.member("supplementalGroups").items() {
        causes.each_invalid(&group, names::id(group.integer()));
    }
    let shared = spec.member("shareProcessNamespace");
    if shared.is_true() && spec.member("hostPID").is_true() {
        causes
            .invalid(&at.member("shareProcessNamespace").with(shared.value()), "ShareProcessNamespace and HostPID cannot both be enabled");
    }
    sysctls(spec, options, causes);
    one_of(&at.member("fsGroupChangePolicy"), &["Always", "OnRootMismatch"], causes);
    profiles::seccomp(&at.member("seccompProfile"), causes);
    windows::options(&at.member("windowsOptions"), causes);
    profiles::app_armor(&at.member("appArmorProfile"), causes);
    one_of(&at.member("supplementalGroupsPolicy"), &["Merge", "Strict"], causes);
    let policies: &[&str] = if options.any_se_linux_change { &["MountOption", "Recursive"] } else { &["Recursive"] };
    one_of(&at.member("seLinuxChangePolicy"), policies, causes);
}

fn one_of(at: &At<'_, '_>, supported: &[&str], causes: &mut Causes) {
    if at.is_present() && !supported.contains(&at.text()) {
        causes.not_supported(at, supported);
    }
}

fn sysctls(spec: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    const WHY: &str =
        "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let context = spec.member("securityContext");
    let mut taken = HashSet::new();
    for sysctl in context.member("sysctls").items() {
        let name = sysctl.member("name");
        if name.text().is_empty() {
            causes.required(&name, "");
        } else if !is_sysctl(name.text()) {
            causes.invalid(&name, WHY);
        } else if taken.contains(name.text()) {
            causes.duplicate(&name);
        }
        if let Some(why) = of_host(name.text(), spec).filter(|_| !options.any_sysctl) {
            causes.invalid_text(&name, why);
        }
        taken.insert(name.text());
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_segment = |segment: &str| {
        let ends = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let bytes = segment.as_bytes();
        let known = bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
        known && ends(bytes.first()) && ends(bytes.last())
    };
    name.len() <= SYSCTL_BYTES_MAX && name.split(['.', '/']).all(is_segment)
}

/// Why a Pod that uses a namespace of the host cannot set a parameter of it (`ValidateHostSysctl`).
pub(super) fn of_host(sysctl: &str, spec: &At<'_, '_>) -> Option<&'static str> {
    const IPC: [&str; 10] = [
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    let normal = normal_sysctl(sysctl);
    let name = normal.split_once('*').map_or(&*normal, |(name, _)| name);
    if name.starts_with("net.") {
        return spec.member("hostNetwork").is_true().then_some("may not be specified when 'hostNetwork' is true");
    }
    let is_ipc = IPC.contains(&name) || name.starts_with("fs.mqueue.");
    (is_ipc && spec.member("hostIPC").is_true()).then_some("may not be specified when 'hostIPC' is true")
}

/// The name with dots between its parts: when a slash comes first, slashes are dots and dots slashes.
fn normal_sysctl(name: &str) -> String {
    if name.find(['.', '/']).is_some_and(|at| name.as_bytes()[at] == b'/') {
        let swap = |letter| match letter {
            '/' => '.',
            '.' => '/',
            other => other,
        };
        return name.chars().map(swap).collect();
    }
    name.to_owned()
}

/// With users of its own, a Pod cannot have the namespaces of its host (`validateHostUsers`).
pub(super) fn host_users(spec: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    const WHY: &str = "when `hostUsers` is false";
    if spec.member("hostUsers").value() != &serde_json::Value::Bool(false) {
        return;
    }
    if spec.member("hostNetwork").is_true() && !options.any_host_network {
        causes.forbidden(&spec.member("hostNetwork"), WHY);
    }
    for (member, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.member(member).is_true() {
            causes.forbidden(&spec.member(shown), WHY);
        }
    }
    if !options.any_volume_devices {
        containers::each(spec, |container| {
            if container.member("volumeDevices").len() > 0 {
                causes.forbidden(&container.member("volumeDevices"), WHY);
            }
        });
    }
}
