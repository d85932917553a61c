//! What of the API a pod refers to: a mirror pod refers to nothing.

use serde_json::Value;

use crate::tree;
use go::quote::quoted;

/// Volumes that need nothing of the API, but for a secret that some name.
const PLAIN: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Volumes that need something, and what; the first one counts.
const BOUND: &[(&str, &str)] = &[
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// The same of the sources of a projected volume.
const PROJECTED: &[(&str, &str)] = &[
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// Where volumes name a secret. Of a volume with several sources the first one counts.
const SECRETS: &[(&str, &[&str])] = &[
    ("azureFile", &["secretName"]),
    ("cephfs", &["secretRef", "name"]),
    ("cinder", &["secretRef", "name"]),
    ("flexVolume", &["secretRef", "name"]),
    ("projected", &[]),
    ("rbd", &["secretRef", "name"]),
    ("secret", &["secretName"]),
    ("scaleIO", &["secretRef", "name"]),
    ("iscsi", &["secretRef", "name"]),
    ("storageos", &["secretRef", "name"]),
    ("csi", &["nodePublishSecretRef", "name"]),
];

/// The same of ConfigMaps.
const CONFIG_MAPS: &[(&str, &[&str])] = &[("projected", &[]), ("configMap", &["name"])];

/// Returns what a pod refers to, if anything: the first of it.
///
/// # Errors
/// There is a volume of which that cannot be told.
pub(crate) fn first(pod: &Value) -> Result<Option<&'static str>, String> {
    let has = |path: &[&str]| !tree::text(pod, path).is_empty();
    if has(&["spec", "serviceAccountName"]) || has(&["spec", "serviceAccount"]) {
        return Ok(Some("serviceaccounts"));
    }
    if has_secrets(pod) {
        return Ok(Some("secrets"));
    }
    if named(pod, "configMapRef", "configMapKeyRef", CONFIG_MAPS, "configMap") {
        return Ok(Some("configmaps"));
    }
    if tree::items(pod, &["spec", "resourceClaims"]).next().is_some() {
        return Ok(Some("resourceclaims"));
    }
    tree::items(pod, &["spec", "volumes"]).find_map(|volume| of_volume(volume).transpose()).transpose()
}

/// Whether a pod refers to a secret.
pub(crate) fn has_secrets(pod: &Value) -> bool {
    let pulls = tree::items(pod, &["spec", "imagePullSecrets"]).any(|secret| !tree::text(secret, &["name"]).is_empty());
    pulls || named(pod, "secretRef", "secretKeyRef", SECRETS, "secret")
}

fn of_volume(volume: &Value) -> Result<Option<&'static str>, String> {
    let has = |member: &str| tree::at(volume, &[member]).is_some();
    if PLAIN.iter().any(|member| has(member)) {
        return Ok(None);
    }
    let name = || quoted(tree::text(volume, &["name"]));
    if let Some((_, resource)) = BOUND.iter().find(|(member, _)| has(member)) {
        return Ok(Some(resource));
    }
    let Some(projected) = tree::at(volume, &["projected"]) else {
        return Err(format!("unknown volume type for volume  {}", name()));
    };
    for source in tree::items(projected, &["sources"]) {
        if let Some((_, resource)) = PROJECTED.iter().find(|(member, _)| tree::at(source, &[member]).is_some()) {
            return Ok(Some(resource));
        }
        if tree::at(source, &["downwardAPI"]).is_none() {
            return Err(format!("unknown source for projected volume {}", name()));
        }
    }
    Ok(None)
}

/// Whether a container or a volume names an object: `whole` and `key` are members of containers' environments, `source` that of a projected volume's sources.
fn named(pod: &Value, whole: &str, key: &str, volumes: &[(&str, &[&str])], source: &str) -> bool {
    let is_named = |of: &Value, path: &[&str]| !tree::text(of, path).is_empty();
    let in_containers = ["initContainers", "containers", "ephemeralContainers"].iter().any(|list| {
        tree::items(pod, &["spec", list]).any(|container| {
            tree::items(container, &["envFrom"]).any(|from| is_named(from, &[whole, "name"]))
                || tree::items(container, &["env"]).any(|variable| is_named(variable, &["valueFrom", key, "name"]))
        })
    });
    in_containers
        || tree::items(pod, &["spec", "volumes"]).any(|volume| {
            let Some((member, path)) = volumes.iter().find(|(member, _)| tree::at(volume, &[member]).is_some()) else { return false };
            let of = &volume[*member];
            if path.is_empty() { tree::items(of, &["sources"]).any(|of| is_named(of, &[source, "name"])) } else { is_named(of, path) }
        })
}
