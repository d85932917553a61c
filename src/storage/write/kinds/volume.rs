//! What volumes and claims get besides defaults: when a phase began, and the older name of a data source (`pkg/registry/core/persistentvolume`,
//! `pkg/api/persistentvolumeclaim`).

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use super::{
    row::{JudgedAsNew, RESET_FOR_STATUS, StatusMetadata, Strategy},
    warnings::{CLAIM_ANNOTATIONS, VOLUMES as DEPRECATED, annotations, at, items, labels, members, pod},
};
use crate::write::{part::Part, tree};
use builtins::{attachment, claim, csi, storage_class};

const VOLUME_ANNOTATIONS: [(&str, &str); 2] =
    [CLAIM_ANNOTATIONS[0], ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead")];

pub(super) const VOLUMES: Strategy = Strategy {
    storage: "persistentvolumes",
    judged_as_new: JudgedAsNew::Main,
    prepare_create: |volume, _| begin(volume),
    stamp: |part, old, new, now| {
        if let (Part::Status, Some(old)) = (part, old) {
            time_phase(new, old, now);
        }
    },
    validate_create: builtins::volume::create,
    validate_update: |part, old, new| match part {
        Part::Main => builtins::volume::update(old, new),
        _ => Vec::new(),
    },
    warn: |_, volume, warnings| warn_of_volume(volume, warnings),
    ..Strategy::COMMON
};

pub(super) const CLAIMS: Strategy = Strategy {
    storage: "persistentvolumeclaims",
    judged_as_new: JudgedAsNew::Main,
    prepare_create: |claim, _| {
        tree::set(claim, &["status", "phase"], "Pending".into());
        same_sources(claim, None);
    },
    prepare_update: |part, old, new| {
        if part == Part::Main {
            same_sources(new, Some(old));
        }
    },
    validate_create: claim::create,
    validate_update: |part, old, new| match part {
        Part::Status => claim::update_status(old, new),
        _ => claim::update(old, new),
    },
    warn: |_, new, warnings| {
        annotations("", new, &CLAIM_ANNOTATIONS, warnings);
        pod::claim_spec("spec", &new["spec"], warnings);
    },
    ..Strategy::COMMON
};

const fn judged_as_new(storage: &'static str) -> Strategy {
    Strategy { storage, judged_as_new: JudgedAsNew::Main, ..Strategy::COMMON }
}

pub(super) const OTHERS: [Strategy; 6] = [
    Strategy { validate_create: csi::create_node, validate_update: |_, old, new| csi::update_node(old, new), ..judged_as_new("csinodes") },
    Strategy {
        validate_create: storage_class::create_attributes,
        validate_update: |_, old, new| storage_class::update_attributes(old, new),
        ..judged_as_new("volumeattributesclasses")
    },
    Strategy {
        judged_as_new: JudgedAsNew::MainAndStatus,
        status_metadata: StatusMetadata::Without(RESET_FOR_STATUS),
        validate_create: attachment::create,
        validate_update: |_, old, new| attachment::update(old, new),
        ..judged_as_new("volumeattachments")
    },
    Strategy {
        validate_create: storage_class::create,
        validate_update: |_, old, new| storage_class::update(old, new),
        warn: |_, new, warnings| warn_of_topologies(new, warnings),
        ..judged_as_new("storageclasses")
    },
    Strategy {
        validate_create: csi::create_capacity,
        validate_update: |_, old, new| csi::update_capacity(old, new),
        warn: |_, new, warnings| warn_of_topology(new, warnings),
        ..judged_as_new("csistoragecapacities")
    },
    Strategy {
        storage: "csidrivers",
        // It is only counted from what its client sent (measured).
        begins_as_sent: true,
        validate_create: csi::create_driver,
        validate_update: |_, old, new| csi::update_driver(old, new),
        warn: warn_of_tokens,
        ..Strategy::COMMON
    },
];

const SINCE: &str = "lastPhaseTransitionTime";

/// The first status of a volume.
fn begin(volume: &mut Value) {
    let now = tree::text(volume, &["metadata", "creationTimestamp"]).to_owned();
    tree::set(volume, &["status"], json!({"phase": "Pending", SINCE: now}));
}

/// A phase that changed began now, unless its writer knows better.
fn time_phase(new: &mut Value, old: &Value, now: OffsetDateTime) {
    let part = |object: &Value, name: &str| tree::text(object, &["status", name]).to_owned();
    let (warnings, known) = (part(new, SINCE), part(old, SINCE));
    let since = if part(new, "phase") == part(old, "phase") {
        if warnings.is_empty() { known } else { warnings }
    } else if warnings.is_empty() || warnings == known {
        tree::rfc3339(now)
    } else {
        warnings
    };
    if !since.is_empty() {
        tree::set(new, &["status", SINCE], since.into());
    }
}

/// Gives `dataSource` and `dataSourceRef` the same source, and drops an old-style one that is neither a claim nor a snapshot.
fn same_sources(claim: &mut Value, old: Option<&Value>) {
    let in_use = |spec: &Map<String, Value>| is_there(spec, "dataSource") || is_there(spec, "dataSourceRef");
    let kept = old.and_then(|old| old.get("spec")).and_then(Value::as_object).is_some_and(in_use);
    let referred = old.is_some_and(|old| tree::at(old, &["spec", "dataSourceRef"]).is_some());
    let Some(Value::Object(spec)) = claim.get_mut("spec") else { return };
    // Sources in other namespaces are a feature that is off by default.
    if !referred && spec.get("dataSourceRef").is_some_and(|reference| !tree::text(reference, &["namespace"]).is_empty()) {
        spec.remove("dataSourceRef");
    }
    let reference = spec.get("dataSourceRef").filter(|reference| reference.is_object());
    match (spec.get("dataSource").filter(|source| source.is_object()), reference) {
        (Some(source), None) if kept || is_claim_or_snapshot(source) => {
            let source = source.clone();
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (Some(_), None) => drop(spec.remove("dataSource")),
        (None, Some(reference)) if tree::text(reference, &["namespace"]).is_empty() => {
            let mut source = reference.clone();
            tree::object(&mut source).remove("namespace");
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

fn is_there(spec: &Map<String, Value>, name: &str) -> bool {
    spec.get(name).is_some_and(Value::is_object)
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    let of = (tree::text(source, &["apiGroup"]), tree::text(source, &["kind"]));
    matches!(of, ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"))
}

fn warn_of_volume(volume: &Value, warnings: &mut Vec<String>) {
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
        let why = DEPRECATED.iter().find(|(known, _)| known == name).map_or("", |(_, why)| why);
        let shown = if *name == "storageos" { "storageOS" } else { name };
        warnings.push(format!("spec.{shown}: {why}"));
    }
}

fn warn_of_topologies(new: &Value, warnings: &mut Vec<String>) {
    for (i, topology) in items(new, &["allowedTopologies"]).enumerate() {
        for (j, expression) in items(topology, &["matchLabelExpressions"]).enumerate() {
            let why = labels::renamed(tree::text(expression, &["key"]));
            warnings.extend(why.map(|why| format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key: {why}")));
        }
    }
}

fn warn_of_topology(new: &Value, warnings: &mut Vec<String>) {
    labels::of_expressions("nodeTopology", &new["nodeTopology"], false, warnings);
    for label in members(new, &["nodeTopology", "matchLabels"]).keys() {
        warnings.extend(labels::renamed(label).map(|why| format!("nodeTopology.matchLabels.{label}: {why}")));
    }
}

fn warn_of_tokens(old: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_two_names() {
        let source = json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "o"});
        for name in ["dataSource", "dataSourceRef"] {
            let mut claim = json!({"spec": {name: source}});
            same_sources(&mut claim, None);
            assert_eq!(claim["spec"], json!({"dataSource": source, "dataSourceRef": source}));
        }
        let far = json!({"spec": {"dataSourceRef": {"kind": "Foo", "name": "o", "namespace": "n"}}});
        let (mut new, mut known) = (far.clone(), far.clone());
        same_sources(&mut new, None);
        same_sources(&mut known, Some(&far));
        assert_eq!((new, known), (json!({"spec": {}}), far));
        let mut odd = json!({"spec": {"dataSource": {"kind": "Foo", "name": "o"}}});
        same_sources(&mut odd, None);
        assert_eq!(odd["spec"], json!({}));
    }

    #[test]
    fn phases_begin() {
        let now = tree::parsed("2026-01-02T03:04:05Z").expect("a time");
        let volume = |phase: &str, since: &str| json!({"status": {"phase": phase, SINCE: since}});
        let since = |mut new: Value| {
            time_phase(&mut new, &volume("Pending", "then"), now);
            tree::text(&new, &["status", SINCE]).to_owned()
        };
        assert_eq!(since(volume("Bound", "then")), "2026-01-02T03:04:05Z");
        assert_eq!((since(volume("Bound", "x")), since(volume("Pending", ""))), ("x".to_owned(), "then".to_owned()));
    }
}
