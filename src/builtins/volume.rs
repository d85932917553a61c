//! PersistentVolumes (`pkg/apis/core/validation`, `pkg/volume/validation`).

use serde_json::{Map, Value};

use crate::{
    FieldError,
    at::At,
    causes::Causes,
    claim, claim_spec,
    equal::same,
    internal, lines, names, node_selector, quantities,
    volume_sources::{members, one_source},
};

const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
const IMMUTABLE: &str = "field is immutable";
const INLINE: &str = "may not be specified in the context of inline volumes";
/// Sources that are mounted with options.
const WITH_OPTIONS: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];
/// Labels that have another name now.
const RENAMED: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// What is wrong with a new volume.
pub fn create(object: &Value) -> Vec<FieldError> {
    judged(object, false)
}

fn judged(object: &Value, any_label: bool) -> Vec<FieldError> {
    Causes::of(|causes| {
        volume(object, any_label, causes);
        mount_options(&At::root(object), causes);
    })
}

fn volume(object: &Value, any_label: bool, causes: &mut Causes) {
    let root = At::root(object);
    let (spec, metadata) = (root.member("spec"), root.member("metadata"));
    let affinity = spec.member("nodeAffinity");
    capacity_and_modes(&spec, causes);
    if affinity.is_present() {
        node_affinity(&affinity, any_label, causes);
    }
    one_source(&spec, metadata.member("name").text(), affinity.is_present(), causes);
    no_recycled_root(&spec, causes);
    claim_spec::class(&spec.member("storageClassName"), causes);
    let mode = spec.member("volumeMode");
    if mode.is_present() && !matches!(mode.text(), "Block" | "Filesystem") {
        causes.not_supported(&mode, &["Block", "Filesystem"]);
    }
    attributes_class(&spec, causes);
}

/// The volume of an attachment that is no object by itself (`ValidatePersistentVolumeSpec` of one that is inline).
pub(crate) fn inline_spec(spec: &At<'_, '_>, causes: &mut Causes) {
    let (csi, policy, mode) = (spec.member("csi"), spec.member("persistentVolumeReclaimPolicy"), spec.member("volumeMode"));
    let forbid = |name: &str, causes: &mut Causes| {
        if !spec.member(name).is_zero() || name != "capacity" && name != "storageClassName" && spec.member(name).is_present() {
            causes.forbidden(&spec.member(name), INLINE);
        }
    };
    forbid("claimRef", causes);
    forbid("capacity", causes);
    if csi.is_absent() {
        causes.required(&csi, "has to be specified in the context of inline volumes");
    }
    modes(spec, causes);
    if !policy.is_zero() && policy.text() != "Retain" {
        causes.forbidden(&policy, "may only be Retain in the context of inline volumes");
    }
    forbid("nodeAffinity", causes);
    one_source(spec, "", false, causes);
    no_recycled_root(spec, causes);
    forbid("storageClassName", causes);
    if mode.is_present() && mode.text() != "Filesystem" {
        causes.forbidden(&mode, "may not specify volumeMode other than Filesystem in the context of inline volumes");
    }
}

fn modes(spec: &At<'_, '_>, causes: &mut Causes) {
    let modes = spec.member("accessModes");
    if modes.len() == 0 {
        causes.required(&modes, "");
    }
    claim_spec::access_modes(&modes, causes);
}

fn capacity_and_modes(spec: &At<'_, '_>, causes: &mut Causes) {
    const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
    let (capacity, policy) = (spec.member("capacity"), spec.member("persistentVolumeReclaimPolicy"));
    modes(spec, causes);
    if capacity.len() == 0 {
        causes.required(&capacity, "");
    }
    if capacity.key("storage").is_absent() || capacity.len() > 1 {
        causes.not_supported(&capacity, &["storage"]);
    }
    for (_, amount) in capacity.entries() {
        claim::basic(&amount, causes);
        quantities::positive(&amount, causes);
    }
    if !policy.is_zero() && !POLICIES.contains(&policy.text()) {
        causes.not_supported(&policy, &POLICIES);
    }
}

fn node_affinity(at: &At<'_, '_>, any_label: bool, causes: &mut Causes) {
    let required = at.member("required");
    if required.is_absent() {
        causes.required(&required, "must specify required node constraints");
    } else {
        node_selector::node_selector(&required, any_label, causes);
    }
}

/// The root of a node is not given to the next claim with all that is in it.
fn no_recycled_root(spec: &At<'_, '_>, causes: &mut Causes) {
    let (host, policy) = (spec.member("hostPath"), spec.member("persistentVolumeReclaimPolicy"));
    if host.is_present() && policy.text() == "Recycle" && is_root(host.member("path").text()) {
        causes.forbidden(&policy, "may not be 'recycle' for a hostPath mount of '/'");
    }
}

/// Whether a path is `/` once it is cleaned.
fn is_root(path: &str) -> bool {
    let mut depth = 0usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn attributes_class(spec: &At<'_, '_>, causes: &mut Causes) {
    let (class, csi) = (spec.member("volumeAttributesClassName"), spec.member("csi"));
    match class.value().as_str() {
        None => return,
        Some("") => causes.required(&class, "an empty string is disallowed"),
        Some(name) => causes.each_invalid(&class, names::subdomain(name)),
    }
    if csi.is_absent() {
        causes.required(&csi, "has to be specified when using volumeAttributesClassName");
    }
}

/// An annotation with options, of a volume that is mounted without.
fn mount_options(root: &At<'_, '_>, causes: &mut Causes) {
    let (spec, metadata) = (root.member("spec"), root.member("metadata"));
    let annotations = metadata.member("annotations");
    if annotations.key(MOUNT_OPTIONS).is_present() && !WITH_OPTIONS.iter().any(|name| spec.member(name).is_present()) {
        causes.forbidden(&annotations.member(MOUNT_OPTIONS), "may not specify mount options for this volume type");
    }
}

/// What is wrong with a changed volume. Go judges the volume by itself twice.
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (before, root) = (At::root(old), At::root(new));
    let (before, spec) = (before.member("spec"), root.member("spec"));
    let (affinity, now_affinity) = (before.member("nodeAffinity"), spec.member("nodeAffinity"));
    let any_label = node_selector::has_wrong_value(&affinity.member("required"));
    let mut errors = judged(new, any_label);
    errors.extend(Causes::of(|causes| {
        volume(new, any_label, causes);
        same_source(&before, &spec, causes);
        let mode = spec.member("volumeMode");
        if before.member("volumeMode").value() != mode.value() {
            causes.invalid_shown(&root.member("volumeMode").with(mode.value()), "*string", IMMUTABLE);
        }
        if affinity.is_present() && !is_same_affinity(affinity.value(), now_affinity.value()) {
            let shown = root.member("nodeAffinity");
            let why = "field is immutable, except for updating from beta label to GA";
            causes.invalid_shown(&shown.with(now_affinity.value()), "*core.VolumeNodeAffinity", why);
        }
        let class = spec.member("volumeAttributesClassName");
        if before.member("volumeAttributesClassName").is_present() && class.is_absent() {
            causes.forbidden(&class, "update from non-nil value to nil is forbidden");
        }
    }));
    errors
}

/// The source stays; a CSI volume may get the Secret that is needed to grow.
fn same_source(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) {
    const SECRET: &str = "controllerExpandSecretRef";
    let source = |spec: &At<'_, '_>| -> Map<String, Value> {
        let present = members().map(|name| (name, spec.member(name).value())).filter(|(_, value)| !value.is_null());
        present.map(|(name, value)| (name.to_owned(), value.clone())).collect()
    };
    let (before, mut now) = (source(old), source(new));
    if let (Some(csi), Some(Value::Object(new))) = (before.get("csi"), now.get_mut("csi"))
        && csi[SECRET].is_null()
    {
        new.remove(SECRET);
    }
    let (before, now) = (Value::Object(before), Value::Object(now));
    if !same(&before, &now) {
        let shown = |source| internal::shown("core.PersistentVolumeSource", source);
        let why = format!("spec.persistentvolumesource is immutable after creation\n{}", lines::difference(&shown(&before), &shown(&now)));
        causes.forbidden(&new.member("persistentvolumesource"), &why);
    }
}

/// Whether two affinities are the same, but for labels that have another name now.
fn is_same_affinity(old: &Value, new: &Value) -> bool {
    let terms = |affinity: &Value| affinity["required"]["nodeSelectorTerms"].as_array().cloned().unwrap_or_default();
    let (old_terms, new_terms) = (terms(old), terms(new));
    let is_same_list = |old: &Value, new: &Value, name: &str| {
        let list = |term: &Value| term[name].as_array().cloned().unwrap_or_default();
        let (old, new) = (list(old), list(new));
        old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| is_same_requirement(old, new))
    };
    new.is_object()
        && old["required"].is_null() == new["required"].is_null()
        && old_terms.len() == new_terms.len()
        && old_terms
            .iter()
            .zip(&new_terms)
            .all(|(old, new)| is_same_list(old, new, "matchExpressions") && is_same_list(old, new, "matchFields"))
}

fn is_same_requirement(old: &Value, new: &Value) -> bool {
    let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
    let (before, now) = (text(old, "key"), text(new, "key"));
    let renamed = RENAMED.iter().find(|(known, _)| *known == before).map_or("", |(_, renamed)| renamed);
    (before == now || renamed == now) && text(old, "operator") == text(new, "operator") && same(&old["values"], &new["values"])
}
