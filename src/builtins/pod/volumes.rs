//! The volumes of a Pod: their names, and that each has one source (`ValidateVolumes`).

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Scope, projected, sources};
use crate::{at::At, causes::Causes, claim_spec, meta, names, quantities::Amount};
use go::quote::quoted;

/// Bytes of the name of a volume and of an iSCSI portal together.
const PORTAL_BYTES_MAX: usize = 64;

/// A rule of one kind of source.
type Rule = fn(&At<'_, '_>, &Scope<'_>, &mut Causes);

/// A kind of source: its member, its name when there are several, its name in the paths of its rule, and the rule.
struct Kind(&'static str, &'static str, &'static str, Rule);

const KINDS: [Kind; 30] = [
    Kind("emptyDir", "emptyDir", "emptyDir", |at, _, causes| empty_dir(at, causes)),
    Kind("hostPath", "hostPath", "hostPath", |at, _, causes| sources::host_path(at, causes)),
    Kind("gitRepo", "gitRepo", "gitRepo", |at, _, causes| sources::git_repo(at, causes)),
    Kind("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", |at, _, causes| sources::disk("pdName", at, causes)),
    Kind("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", |at, _, causes| sources::disk("volumeID", at, causes)),
    Kind("secret", "secret", "secret", |at, _, causes| sources::files("secretName", at, causes)),
    Kind("nfs", "nfs", "nfs", |at, _, causes| sources::nfs(at, causes)),
    Kind("iscsi", "iscsi", "iscsi", |at, _, causes| sources::iscsi(at, causes)),
    Kind("glusterfs", "glusterfs", "glusterfs", |at, _, causes| sources::with_texts(&["endpoints", "path"], at, causes)),
    Kind("flocker", "flocker", "flocker", |at, _, causes| sources::flocker(at, causes)),
    Kind("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", |at, _, causes| {
        sources::with_texts(&["claimName"], at, causes);
    }),
    Kind("rbd", "rbd", "rbd", |at, _, causes| sources::rbd(at, causes)),
    Kind("cinder", "cinder", "cinder", |at, _, causes| sources::cinder(at, causes)),
    Kind("cephfs", "cephFS", "cephfs", |at, _, causes| sources::monitors(at, causes)),
    Kind("quobyte", "quobyte", "quobyte", |at, _, causes| sources::quobyte(at, causes)),
    Kind("downwardAPI", "downwarAPI", "downwardAPI", |at, _, causes| projected::downward_api(at, causes)),
    Kind("fc", "fc", "fc", |at, _, causes| sources::fibre_channel(at, causes)),
    Kind("flexVolume", "flexVolume", "flexVolume", |at, _, causes| sources::flex(at, causes)),
    Kind("configMap", "configMap", "configMap", |at, _, causes| sources::files("name", at, causes)),
    Kind("azureFile", "azureFile", "azureFile", |at, _, causes| sources::with_texts(&["secretName", "shareName"], at, causes)),
    Kind("vsphereVolume", "vsphereVolume", "vsphereVolume", |at, _, causes| sources::with_texts(&["volumePath"], at, causes)),
    Kind("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |at, _, causes| {
        sources::with_texts(&["pdID"], at, causes)
    }),
    Kind("portworxVolume", "portworxVolume", "portworxVolume", |at, _, causes| sources::with_texts(&["volumeID"], at, causes)),
    Kind("azureDisk", "azureDisk", "azureDisk", |at, _, causes| sources::azure_disk(at, causes)),
    Kind("storageos", "storageos", "storageos", |at, _, causes| sources::storage_os(at, causes)),
    Kind("projected", "projected", "projected", projected::projected),
    Kind("scaleIO", "scaleIO", "scaleIO", |at, _, causes| sources::with_texts(&["gateway", "system", "volumeName"], at, causes)),
    Kind("csi", "csi", "csi", |at, _, causes| sources::csi(at, causes)),
    Kind("ephemeral", "ephemeral", "ephemeral", |at, _, causes| ephemeral(at, causes)),
    Kind("image", "image", "image", image),
];

/// Judges all volumes; returns those that are right by their names.
pub(super) fn volumes<'v>(at: &At<'_, 'v>, scope: &Scope<'v>, causes: &mut Causes) -> HashMap<&'v str, &'v Value> {
    let made: HashSet<String> = made_claims(at, scope);
    let mut right = HashMap::new();
    for volume in at.items() {
        let before = causes.len();
        source(&volume, scope, causes);
        let name = volume.member("name");
        if meta::present(&name, "", causes) {
            meta::label(&name, causes);
        }
        if right.contains_key(name.text()) {
            causes.duplicate(&name);
        }
        if causes.len() == before {
            right.insert(name.text(), volume.value());
        }
        let claim = volume.member("persistentVolumeClaim");
        if claim.is_present() && made.contains(claim.member("claimName").text()) {
            causes.invalid_text(&claim.member("claimName"), "must not reference a PVC that gets created for an ephemeral volume");
        }
    }
    right
}

/// The names of the claims that ephemeral volumes of a Pod get.
fn made_claims(at: &At<'_, '_>, scope: &Scope<'_>) -> HashSet<String> {
    let Some(pod) = scope.pod_name() else { return HashSet::new() };
    let ephemeral = at.items().filter(|volume| volume.member("ephemeral").is_present());
    ephemeral.map(|volume| format!("{pod}-{}", volume.member("name").text())).collect()
}

fn source(at: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    let mut has_one = false;
    for Kind(member, among_others, in_paths, rule) in KINDS {
        let source = at.member(member);
        if source.is_absent() {
            continue;
        }
        let is_first = !std::mem::replace(&mut has_one, true);
        if is_first {
            rule(&at.member(in_paths).with(source.value()), scope, causes);
        } else {
            causes.forbidden(&at.member(among_others), "may not specify more than 1 volume type");
        }
        match member {
            "iscsi" => portal(at, causes),
            "ephemeral" if is_first => claim_name(at, scope, causes),
            _ => {}
        }
    }
    if !has_one {
        causes.required(at, "must specify a volume type");
    }
}

fn empty_dir(at: &At<'_, '_>, causes: &mut Causes) {
    let limit = at.member("sizeLimit");
    if Amount::at(&limit).is_negative() {
        causes.forbidden(&limit, "SizeLimit field must be a valid resource quantity");
    }
}

fn portal(at: &At<'_, '_>, causes: &mut Causes) {
    let (name, iscsi) = (at.member("name"), at.member("iscsi"));
    let bytes = name.text().len() + ":".len() + iscsi.member("targetPortal").text().len();
    if iscsi.member("initiatorName").is_present() && bytes > PORTAL_BYTES_MAX {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        causes.invalid_text(&name, why);
    }
}

fn ephemeral(at: &At<'_, '_>, causes: &mut Causes) {
    let template = at.member("volumeClaimTemplate");
    if template.is_absent() {
        causes.required(&template, "");
    } else {
        claim_spec::claim_template(&template, claim_spec::Options::default(), causes);
    }
}

fn claim_name(at: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    let name = at.member("name");
    let Some(pod) = scope.pod_name().filter(|_| !name.text().is_empty()) else { return };
    let claim = format!("{pod}-{}", name.text());
    for why in names::subdomain(&claim) {
        causes.invalid_text(&name, &format!("PVC name {}: {why}", quoted(&claim)));
    }
}

fn image(at: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    if scope.options.is_pod {
        meta::present(&at.member("reference"), "", causes);
    }
    sources::pull_policy(&at.member("pullPolicy"), causes);
}
