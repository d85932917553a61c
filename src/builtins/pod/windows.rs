//! What Windows containers are given, and what Pods of one system may not have of the other.

use super::containers;
use crate::{at::At, causes::Causes, names};

const CREDENTIALS_KIB_MAX: usize = 64;
const DOMAIN_BYTES_MAX: usize = 256;
const USER_BYTES_MAX: usize = 104;
/// Bytes of a name of NetBIOS and of a part of a DNS name.
const NET_BIOS_MAX: usize = 15;
const DNS_PART_MAX: usize = 63;

/// `validateWindowsSecurityContextOptions`.
pub(super) fn options(at: &At<'_, '_>, causes: &mut Causes) {
    let (name, credentials, user) = (at.member("gmsaCredentialSpecName"), at.member("gmsaCredentialSpec"), at.member("runAsUserName"));
    if name.is_present() {
        names::subdomain(name.text()).iter().for_each(|why| causes.invalid_json(&name, why));
    }
    if credentials.is_present() {
        match credentials.text().len() {
            0 => causes.invalid_json(&credentials, "gmsaCredentialSpec cannot be an empty string"),
            bytes if bytes > CREDENTIALS_KIB_MAX << 10 => {
                causes.invalid_json(&credentials, &format!("gmsaCredentialSpec size must be under {CREDENTIALS_KIB_MAX} KiB"));
            }
            _ => {}
        }
    }
    if user.is_present() {
        user_name(&user, causes);
    }
}

fn user_name(at: &At<'_, '_>, causes: &mut Causes) {
    let text = at.text();
    if text.is_empty() {
        return causes.invalid_json(at, "runAsUserName cannot be an empty string");
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return causes.invalid_json(at, "runAsUserName cannot contain control characters");
    }
    let (domain, user) = match text.split_once('\\') {
        Some((_, user)) if user.contains('\\') => {
            return causes.invalid_json(at, "runAsUserName cannot contain more than one backslash");
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, text),
    };
    let mut unless = |right: bool, why: String| {
        if !right {
            causes.invalid_json(at, &why);
        }
    };
    let is_short = domain.is_none_or(|domain| domain.len() < DOMAIN_BYTES_MAX);
    unless(is_short, format!("runAsUserName's Domain length must be under {DOMAIN_BYTES_MAX} characters"));
    let is_domain = domain.is_none_or(|domain| is_net_bios(domain) || is_dns(domain));
    unless(is_domain, "runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    unless(!user.is_empty(), "runAsUserName's User cannot be empty".to_owned());
    unless(user.len() <= USER_BYTES_MAX, format!("runAsUserName's User length must not be longer than {USER_BYTES_MAX} characters"));
    let only_dots = !user.is_empty() && user.bytes().all(|byte| matches!(byte, b'.' | b' '));
    unless(!only_dots, "runAsUserName's User cannot contain only periods or spaces".to_owned());
    let has_wrong = user.bytes().any(|byte| b"\"/\\:;|=,+*?<>@[]".contains(&byte));
    unless(!has_wrong, "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]".to_owned());
}

fn is_net_bios(domain: &str) -> bool {
    let is_wrong = |letter: char| "\\/:*?\"<>|".contains(letter);
    let count = domain.chars().count();
    (1..=NET_BIOS_MAX).contains(&count) && !domain.starts_with('.') && !domain.contains(is_wrong)
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|part| {
        let bytes = part.as_bytes();
        let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let known = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        bytes.len() <= DNS_PART_MAX && known && ends(bytes.first()) && ends(bytes.last())
    })
}

/// Containers that are processes of the host are so all together, and use its network (`validateWindowsHostProcessPod`).
pub(super) fn host_processes(spec: &At<'_, '_>, causes: &mut Causes) {
    let (context, network) = (spec.member("securityContext"), spec.member("hostNetwork"));
    let windows = context.member("windowsOptions");
    let whole = windows.member("hostProcess").value().as_bool();
    let (mut count, mut of_host) = (0, 0);
    containers::each(spec, |container| {
        count += 1;
        let context = container.member("securityContext");
        let windows = context.member("windowsOptions");
        let process = windows.member("hostProcess");
        let own = process.value().as_bool();
        if let (Some(whole), Some(own)) = (whole, own)
            && whole != own
        {
            causes.invalid(&process, &format!("pod hostProcess value must be identical if both are specified, was {whole}"));
        }
        of_host += usize::from(own.or(whole) == Some(true));
    });
    if of_host == 0 {
        return;
    }
    if of_host != count {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        causes.invalid_as(spec, &"".into(), why);
    }
    if !network.is_true() {
        causes.invalid_as(&network, &false.into(), "hostNetwork must be true if pod contains any hostProcess containers");
    }
}

/// What a Pod of Linux may not have (`validateLinux`).
pub(super) fn not_for_linux(spec: &At<'_, '_>, causes: &mut Causes) {
    let mut judge = |context: &At<'_, '_>| {
        if context.member("windowsOptions").is_present() {
            causes.forbidden(&context.member("windowsOptions"), "windows options cannot be set for a linux pod");
        }
    };
    judge(&spec.member("securityContext"));
    containers::each(spec, |container| judge(&container.member("securityContext")));
}

/// Members of a Pod that Windows does not have, in order: of its security context, or of itself.
const NOT_OF_POD: [(bool, &str); 15] = [
    (true, "appArmorProfile"),
    (true, "seLinuxOptions"),
    (false, "hostUsers"),
    (false, "hostPID"),
    (false, "hostIPC"),
    (true, "seccompProfile"),
    (true, "fsGroup"),
    (true, "fsGroupChangePolicy"),
    (true, "sysctls"),
    (false, "shareProcessNamespace"),
    (true, "runAsUser"),
    (true, "runAsGroup"),
    (true, "supplementalGroups"),
    (true, "supplementalGroupsPolicy"),
    (true, "seLinuxChangePolicy"),
];
const NOT_OF_CONTAINER: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// What a Pod of Windows may not have (`validateWindows`).
pub(super) fn not_for_windows(spec: &At<'_, '_>, causes: &mut Causes) {
    const WHY: &str = "cannot be set for a windows pod";
    let context = spec.member("securityContext");
    for (of_context, member) in NOT_OF_POD {
        let at = if of_context { context.member(member) } else { spec.member(member) };
        let is_set = match member {
            "hostPID" | "hostIPC" => at.is_true(),
            "sysctls" => at.len() > 0,
            _ => at.is_present(),
        };
        if is_set {
            causes.forbidden(&at, WHY);
        }
    }
    containers::each(spec, |container| {
        let context = container.member("securityContext");
        for at in NOT_OF_CONTAINER.iter().map(|member| context.member(member)).filter(At::is_present) {
            causes.forbidden(&at, WHY);
        }
    });
}
