//! Where the data of a PersistentVolume is: one source of those that there are (`ValidatePersistentVolumeSpec`).

use crate::{
    at::At,
    causes::Causes,
    meta, names,
    pod::{paths, sources},
};

/// Bytes of the name of a volume, a colon and the portal of its iSCSI target.
const PORTAL_BYTES_MAX: usize = 64;
const TOO_MANY: &str = "may not specify more than 1 volume type";

/// A kind of source: its member, what errors about a second source call it, what errors about its own members call it, and its rule.
struct Source {
    member: &'static str,
    second: &'static str,
    shown: &'static str,
    judge: fn(&At<'_, '_>, &mut Causes),
}

const fn source(member: &'static str, judge: fn(&At<'_, '_>, &mut Causes)) -> Source {
    Source { member, second: member, shown: member, judge }
}

/// All sources in the order in which they are judged.
const SOURCES: [Source; 22] = [
    source("hostPath", sources::host_path),
    Source { shown: "persistentDisk", ..source("gcePersistentDisk", |at, causes| sources::disk("pdName", at, causes)) },
    source("awsElasticBlockStore", |at, causes| sources::disk("volumeID", at, causes)),
    source("glusterfs", glusterfs),
    source("flocker", sources::flocker),
    source("nfs", sources::nfs),
    source("rbd", sources::rbd),
    source("quobyte", sources::quobyte),
    Source { second: "cephFS", ..source("cephfs", sources::monitors) },
    source("iscsi", iscsi),
    source("cinder", |at, causes| {
        sources::with_texts(&["volumeID"], at, causes);
        secret(at, causes);
    }),
    source("fc", sources::fibre_channel),
    source("flexVolume", sources::flex),
    source("azureFile", azure_file),
    source("vsphereVolume", |at, causes| sources::with_texts(&["volumePath"], at, causes)),
    source("photonPersistentDisk", |at, causes| sources::with_texts(&["pdID"], at, causes)),
    source("portworxVolume", |at, causes| sources::with_texts(&["volumeID"], at, causes)),
    source("azureDisk", sources::azure_disk),
    source("scaleIO", |at, causes| sources::with_texts(&["gateway", "system", "volumeName"], at, causes)),
    source("local", local),
    source("storageos", storage_os),
    source("csi", csi),
];

/// Returns the members that are sources.
pub(crate) fn members() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().map(|source| source.member)
}

/// The one source of a volume. `has_affinity`: it says on which nodes it is, as one that is local must.
pub(crate) fn one_source(spec: &At<'_, '_>, volume_name: &str, has_affinity: bool, causes: &mut Causes) {
    let mut count = 0;
    for source in &SOURCES {
        let value = spec.member(source.member);
        if value.is_absent() {
            continue;
        }
        // A driver of its own is judged beside others.
        if count > 0 && source.member != "flexVolume" {
            causes.forbidden(&spec.member(source.second), TOO_MANY);
            continue;
        }
        count += 1;
        if source.member == "iscsi" {
            portal(&value, volume_name, causes);
            continue;
        }
        (source.judge)(&spec.member(source.shown).with(value.value()), causes);
        if source.member == "local" && !has_affinity {
            causes.required(&spec.member("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if count == 0 {
        causes.required(spec, "must specify a volume type");
    }
}

fn glusterfs(at: &At<'_, '_>, causes: &mut Causes) {
    let namespace = at.member("endpointsNamespace");
    sources::with_texts(&["endpoints", "path"], at, causes);
    match namespace.value().as_str() {
        None => {}
        Some("") => causes.invalid(&namespace, "if the endpointnamespace is set, it must be a valid namespace name"),
        Some(name) => causes.each_invalid(&namespace, names::label(name)),
    }
}

/// A reference to a Secret, if there is one: its name and its namespace must be there.
fn secret(at: &At<'_, '_>, causes: &mut Causes) {
    let reference = at.member("secretRef");
    if reference.is_present() {
        sources::with_texts(&["name", "namespace"], &reference, causes);
    }
}

fn portal(at: &At<'_, '_>, volume_name: &str, causes: &mut Causes) {
    let (target, initiator) = (at.member("targetPortal"), at.member("initiatorName"));
    meta::present(&target, "", causes);
    if initiator.is_present() && volume_name.len() + 1 + target.text().len() > PORTAL_BYTES_MAX {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        causes.invalid_text(&at.member("targetportal").with(target.value()), why);
    }
    iscsi(at, causes);
}

fn iscsi(at: &At<'_, '_>, causes: &mut Causes) {
    let (name, lun, secret, initiator) = (at.member("iqn"), at.member("lun"), at.member("secretRef"), at.member("initiatorName"));
    if meta::present(&name, "", causes) {
        initiator_name(&name, causes);
    }
    if let Some(why) = names::in_range(lun.integer(), 0, 255) {
        causes.invalid(&lun, &why);
    }
    if secret.is_present() {
        meta::present(&secret.member("name"), "", causes);
    } else if at.member("chapAuthDiscovery").is_true() || at.member("chapAuthSession").is_true() {
        causes.required(&secret, "");
    }
    if initiator.is_present() {
        initiator_name(&at.member("initiatorname").with(initiator.value()), causes);
    }
}

fn initiator_name(at: &At<'_, '_>, causes: &mut Causes) {
    if sources::initiator_is_valid(at.text()) != Some(true) {
        causes.invalid_text(at, "must be valid format");
    }
}

fn azure_file(at: &At<'_, '_>, causes: &mut Causes) {
    let namespace = at.member("secretNamespace");
    sources::with_texts(&["secretName", "shareName"], at, causes);
    if namespace.value().as_str() == Some("") {
        causes.required(&namespace, "");
    }
}

fn local(at: &At<'_, '_>, causes: &mut Causes) {
    let path = at.member("path");
    if meta::present(&path, "", causes) {
        paths::no_backsteps(&path, causes);
    }
}

fn storage_os(at: &At<'_, '_>, causes: &mut Causes) {
    let (name, namespace) = (at.member("volumeName"), at.member("volumeNamespace"));
    if meta::present(&name, "", causes) {
        meta::label(&name, causes);
    }
    if !namespace.is_zero() {
        meta::label(&namespace, causes);
    }
    secret(at, causes);
}

fn csi(at: &At<'_, '_>, causes: &mut Causes) {
    const SECRETS: [&str; 4] = ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    sources::csi_driver_name(&at.member("driver"), causes);
    sources::with_texts(&["volumeHandle"], at, causes);
    for reference in SECRETS.map(|name| at.member(name)).iter().filter(|reference| reference.is_present()) {
        let (name, namespace) = (reference.member("name"), reference.member("namespace"));
        if meta::present(&name, "", causes) {
            meta::subdomain(&name, causes);
        }
        if meta::present(&namespace, "", causes) {
            meta::label(&namespace, causes);
        }
    }
}
