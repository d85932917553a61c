//! Sources of volumes, which most have texts that must be there. Those of a PersistentVolume share some.

use super::paths;
use crate::{at::At, causes::Causes, meta, names};

/// A source with texts that must be there.
pub(crate) fn with_texts(members: &[&str], at: &At<'_, '_>, causes: &mut Causes) {
    for member in members {
        meta::present(&at.member(member), "", causes);
    }
}

pub(crate) fn host_path(at: &At<'_, '_>, causes: &mut Causes) {
    const TYPES: [&str; 8] = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if !meta::present(&at.member("path"), "", causes) {
        return;
    }
    paths::no_backsteps(&at.member("path"), causes);
    let kind = at.member("type");
    if kind.is_present() && !TYPES.contains(&kind.text()) {
        causes.not_supported(&kind, &TYPES);
    }
}

pub(super) fn git_repo(at: &At<'_, '_>, causes: &mut Causes) {
    meta::present(&at.member("repository"), "", causes);
    paths::descending(&at.member("directory"), causes);
}

/// A disk of a cloud, named by `member`.
pub(crate) fn disk(member: &str, at: &At<'_, '_>, causes: &mut Causes) {
    meta::present(&at.member(member), "", causes);
    let partition = at.member("partition");
    if let Some(why) = names::in_range(partition.integer(), 0, 255) {
        // The text names another range than the one that is checked.
        causes.invalid(&partition, &why.replace("between 0", "between 1"));
    }
}

/// Keys of a Secret or ConfigMap, named by `member`, as files.
pub(super) fn files(member: &str, at: &At<'_, '_>, causes: &mut Causes) {
    meta::present(&at.member(member), "", causes);
    paths::mode(&at.member("defaultMode"), causes);
    at.member("items").items().for_each(|item| key_to_path(&item, causes));
}

pub(super) fn key_to_path(at: &At<'_, '_>, causes: &mut Causes) {
    meta::present(&at.member("key"), "", causes);
    meta::present(&at.member("path"), "", causes);
    paths::not_reserved(&at.member("path"), causes);
    paths::mode(&at.member("mode"), causes);
}

pub(crate) fn nfs(at: &At<'_, '_>, causes: &mut Causes) {
    with_texts(&["server", "path"], at, causes);
    let path = at.member("path");
    if !path.text().starts_with('/') {
        causes.invalid_text(&path, "must be an absolute path");
    }
}

pub(super) fn iscsi(at: &At<'_, '_>, causes: &mut Causes) {
    meta::present(&at.member("targetPortal"), "", causes);
    let (iqn, initiator) = (at.member("iqn"), at.member("initiatorName"));
    if meta::present(&iqn, "", causes) {
        initiator_name(&iqn, causes);
    }
    let lun = at.member("lun");
    if let Some(why) = names::in_range(lun.integer(), 0, 255) {
        causes.invalid(&lun, &why);
    }
    let authenticates = at.member("chapAuthDiscovery").is_true() || at.member("chapAuthSession").is_true();
    if authenticates && at.member("secretRef").is_absent() {
        causes.required(&at.member("secretRef"), "");
    }
    if initiator.is_present() {
        initiator_name(&at.member("initiatorname").with(initiator.value()), causes);
    }
}

/// The name of an iSCSI node, in one of its three formats.
fn initiator_name(at: &At<'_, '_>, causes: &mut Causes) {
    match initiator_is_valid(at.text()) {
        None => causes.invalid_text(at, "must be valid format starting with iqn, eui, or naa"),
        Some(false) => causes.invalid_text(at, "must be valid format"),
        Some(true) => {}
    }
}

/// Whether the name of an iSCSI node is right; `None` when it has none of the formats.
pub(crate) fn initiator_is_valid(name: &str) -> Option<bool> {
    let letters = |rest: &str, count: usize| {
        let mut rest = rest.chars();
        let separator = rest.next();
        let rest = rest.as_str();
        separator.is_some_and(|letter| letter != '\n') && rest.len() == count && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    match name.split_at_checked(3)? {
        ("iqn", _) => Some(has_qualified_name(name)),
        ("eui", rest) => Some(letters(rest, 16)),
        ("naa", rest) => Some(letters(rest, 32)),
        _ => None,
    }
}

/// `iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`, anywhere in the text.
fn has_qualified_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_wrong_at_end = |byte: &u8| b",;*&$|\t\n\x0c\r ".contains(byte);
    // After this byte all may stand at the end.
    let after_wrong = bytes.iter().rposition(is_wrong_at_end).map_or(0, |at| at + 1);
    let mut authority_end = 0;
    text.match_indices("iqn.").any(|(at, prefix)| {
        let date = at + prefix.len();
        let is_date = bytes.get(date..date + 8).is_some_and(|date| {
            date.iter().enumerate().all(|(i, byte)| match i {
                4 => *byte == b'-',
                7 => *byte == b'.',
                _ => byte.is_ascii_digit(),
            })
        });
        if !is_date {
            return false;
        }
        let authority = date + 8;
        if authority_end <= authority {
            let is_authority = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
            authority_end = authority + bytes[authority..].iter().take_while(is_authority).count();
        }
        let (end, colon) = (authority_end, bytes.get(authority_end));
        end > authority && colon == Some(&b':') && end + 1 < bytes.len() && end >= after_wrong
    })
}

pub(crate) fn flocker(at: &At<'_, '_>, causes: &mut Causes) {
    let (name, uuid) = (at.member("datasetName"), at.member("datasetUUID"));
    match (name.text().is_empty(), uuid.text().is_empty()) {
        (true, true) => causes.required(at, "one of datasetName and datasetUUID is required"),
        (false, false) => causes.invalid_as(at, &"resource".into(), "datasetName and datasetUUID can not be specified simultaneously"),
        _ => {}
    }
    if name.text().contains('/') {
        causes.invalid_text(&name, "must not contain '/'");
    }
}

pub(crate) fn rbd(at: &At<'_, '_>, causes: &mut Causes) {
    monitors(at, causes);
    meta::present(&at.member("image"), "", causes);
}

pub(crate) fn monitors(at: &At<'_, '_>, causes: &mut Causes) {
    if at.member("monitors").len() == 0 {
        causes.required(&at.member("monitors"), "");
    }
}

pub(super) fn cinder(at: &At<'_, '_>, causes: &mut Causes) {
    meta::present(&at.member("volumeID"), "", causes);
    secret_reference(at, causes);
}

fn secret_reference(at: &At<'_, '_>, causes: &mut Causes) {
    let reference = at.member("secretRef");
    if reference.is_present() {
        meta::present(&reference.member("name"), "", causes);
    }
}

pub(crate) fn quobyte(at: &At<'_, '_>, causes: &mut Causes) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (at.member("registry"), at.member("tenant"));
    if registry.text().is_empty() {
        causes.required(&registry, PAIRS);
    } else if tenant.text().len() >= 65 {
        causes.required(&tenant, "must be a UUID and may not exceed a length of 64 characters");
    } else {
        registry.text().split(',').filter(|pair| !is_host_and_port(pair)).for_each(|_| causes.invalid(&registry, PAIRS));
    }
    meta::present(&at.member("volume"), "", causes);
}

/// Whether Go's `SplitHostPort` takes a text.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let has_brackets = |text: &str| text.contains(['[', ']']);
    match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']').is_some_and(|host| !has_brackets(host)) && !has_brackets(port),
        None => !host.contains(':') && !has_brackets(text),
    }
}

pub(crate) fn fibre_channel(at: &At<'_, '_>, causes: &mut Causes) {
    let (targets, wwids, lun) = (at.member("targetWWNs"), at.member("wwids"), at.member("lun"));
    match (targets.len(), wwids.len()) {
        (0, 0) => causes.required(&targets, "must specify either targetWWNs or wwids, but not both"),
        (1.., 1..) => causes.invalid(&targets, "targetWWNs and wwids can not be specified simultaneously"),
        _ => {}
    }
    if targets.len() > 0 {
        if lun.is_absent() {
            causes.required(&lun, "lun is required if targetWWNs is specified");
        } else if let Some(why) = names::in_range(lun.integer(), 0, 255) {
            causes.invalid(&lun, &why);
        }
    }
}

pub(crate) fn flex(at: &At<'_, '_>, causes: &mut Causes) {
    meta::present(&at.member("driver"), "", causes);
    for (key, option) in at.member("options").entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let domain = format!(".{}", namespace.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            causes.invalid_as(&option, &key.into(), "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub(crate) fn azure_disk(at: &At<'_, '_>, causes: &mut Causes) {
    const MODES: [&str; 3] = ["None", "ReadOnly", "ReadWrite"];
    const KINDS: [&str; 3] = ["Dedicated", "Managed", "Shared"];
    const MANAGED: [&str; 1] = ["/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"];
    const BLOB: [&str; 1] = ["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"];
    with_texts(&["diskName", "diskURI"], at, causes);
    let (mode, kind, uri) = (at.member("cachingMode"), at.member("kind"), at.member("diskURI"));
    if mode.is_present() && !MODES.contains(&mode.text()) {
        causes.not_supported(&mode, &MODES);
    }
    if kind.is_present() && !KINDS.contains(&kind.text()) {
        causes.not_supported(&kind, &KINDS);
    }
    match kind.value().as_str() {
        Some("Managed") if !uri.text().starts_with("/subscriptions/") => causes.not_supported_text(&uri, &MANAGED),
        Some("Managed") | None => {}
        Some(_) if !uri.text().starts_with("https://") => causes.not_supported_text(&uri, &BLOB),
        Some(_) => {}
    }
}

pub(super) fn storage_os(at: &At<'_, '_>, causes: &mut Causes) {
    if meta::present(&at.member("volumeName"), "", causes) {
        meta::label(&at.member("volumeName"), causes);
    }
    if !at.member("volumeNamespace").text().is_empty() {
        meta::label(&at.member("volumeNamespace"), causes);
    }
    secret_reference(at, causes);
}

pub(super) fn csi(at: &At<'_, '_>, causes: &mut Causes) {
    csi_driver_name(&at.member("driver"), causes);
    let reference = at.member("nodePublishSecretRef");
    if reference.is_present() && meta::present(&reference.member("name"), "", causes) {
        // The path leaves the reference out.
        meta::subdomain(&at.member("name").with(reference.member("name").value()), causes);
    }
}

/// `ValidateCSIDriverName`.
pub(crate) fn csi_driver_name(at: &At<'_, '_>, causes: &mut Causes) {
    if !meta::present(at, "", causes) {
        return;
    }
    if at.text().len() > 63 {
        causes.too_long(at, 63);
    }
    causes.each_invalid(at, names::subdomain(&at.text().to_lowercase()));
}

/// When an image is pulled.
pub(super) fn pull_policy(at: &At<'_, '_>, causes: &mut Causes) {
    match at.text() {
        "Always" | "IfNotPresent" | "Never" => {}
        "" => causes.required(at, ""),
        _ => causes.not_supported(at, &["Always", "IfNotPresent", "Never"]),
    }
}
