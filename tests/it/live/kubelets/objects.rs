//! Changes of objects that kubelets write, most of which are not theirs to make.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use crate::alone::Failure;

/// Sets members, each by its pointer, of which all but the last must be objects or not there.
pub(super) fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut of = object;
    for member in pointer.trim_start_matches('/').split('/') {
        let member = member.replace("~1", "/");
        of = match member.parse::<usize>() {
            Ok(at) if of.is_array() => &mut of[at],
            _ => &mut of[member],
        };
    }
    *of = value;
}

fn one_of(rng: &mut StdRng, changes: &[(&str, Value)]) -> (String, Value) {
    let (pointer, value) = changes.choose(rng).expect("not empty");
    ((*pointer).to_owned(), value.clone())
}

/// A mirror pod, right but for what a few changes make of it.
pub(super) fn mirror(rng: &mut StdRng, name: &str, node: &str, uid: &str) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": name, "annotations": {"kubernetes.io/config.mirror": "m"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": true}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    });
    for _ in 0..rng.random_range(0..3) {
        let (pointer, value) = if rng.random_bool(0.5) { about_owner(rng) } else { about_references(rng) };
        set(&mut pod, &pointer, value);
    }
    pod
}

fn about_owner(rng: &mut StdRng) -> (String, Value) {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": true});
    one_of(
        rng,
        &[
            ("/metadata/annotations", json!({"a": "b"})),
            ("/metadata/ownerReferences", json!([])),
            ("/metadata/ownerReferences", json!([owner, {"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "v"}])),
            ("/metadata/ownerReferences", json!([owner])),
            (
                "/metadata/ownerReferences",
                json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "blockOwnerDeletion": true}]),
            ),
            (
                "/metadata/ownerReferences",
                json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": true, "blockOwnerDeletion": true}]),
            ),
            (
                "/metadata/ownerReferences",
                json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "n1", "uid": "u", "controller": true}]),
            ),
            ("/metadata/name", Value::Null),
            ("/metadata/generateName", json!("some-")),
            ("/spec/nodeName", json!("n2")),
            ("/spec/nodeName", json!("")),
        ],
    )
}

fn about_references(rng: &mut StdRng) -> (String, Value) {
    let volume = |source: &str, value: Value| ("/spec/volumes", json!([{"name": "v", source: value}]));
    let projected = |source: &str, value: Value| ("/spec/volumes", json!([{"name": "v", "projected": {"sources": [{source: value}]}}]));
    one_of(
        rng,
        &[
            ("/spec/serviceAccountName", json!("a1")),
            ("/spec/serviceAccount", json!("a1")),
            ("/spec/imagePullSecrets", json!([{"name": "s"}])),
            ("/spec/containers/0/envFrom", json!([{"secretRef": {"name": "s"}}])),
            ("/spec/containers/0/envFrom", json!([{"configMapRef": {"name": "s"}}])),
            ("/spec/containers/0/env", json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}])),
            ("/spec/containers/0/env", json!([{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}}])),
            ("/spec/containers/0/env", json!([{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])),
            ("/spec/initContainers", json!([{"name": "i", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}])),
            ("/spec/resourceClaims", json!([{"name": "r", "resourceClaimName": "r"}])),
            volume("secret", json!({"secretName": "s"})),
            volume("configMap", json!({"name": "s"})),
            volume("configMap", json!({})),
            volume("secret", json!({})),
            volume("emptyDir", json!({})),
            volume("hostPath", json!({"path": "/"})),
            volume("nfs", json!({"server": "s", "path": "/"})),
            volume("rbd", json!({"monitors": ["m"], "image": "i", "secretRef": {"name": "s"}})),
            volume("cephfs", json!({"monitors": ["m"]})),
            volume("iscsi", json!({"targetPortal": "127.0.0.1", "iqn": "iqn.2001-04.com.example:s", "lun": 0, "secretRef": {"name": "s"}})),
            volume("azureFile", json!({"secretName": "s", "shareName": "s"})),
            volume("azureFile", json!({"secretName": "", "shareName": "s"})),
            volume("glusterfs", json!({"endpoints": "e", "path": "p"})),
            volume("csi", json!({"driver": "inline"})),
            volume("csi", json!({"driver": "inline", "nodePublishSecretRef": {"name": "s"}})),
            volume("persistentVolumeClaim", json!({"claimName": "c1"})),
            volume(
                "ephemeral",
                json!({"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}),
            ),
            volume("downwardAPI", json!({"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]})),
            ("/spec/volumes", json!([{"name": "v"}])),
            projected("secret", json!({"name": "s"})),
            projected("configMap", json!({"name": "s"})),
            projected("configMap", json!({})),
            projected("serviceAccountToken", json!({"path": "p"})),
            projected("downwardAPI", json!({"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]})),
            projected("clusterTrustBundle", json!({"name": "b", "path": "p"})),
        ],
    )
}

/// A change of a Node.
pub(super) fn of_node(rng: &mut StdRng) -> (String, Value) {
    let label = *[
        "a",
        "example.com/a",
        "kubernetes.io~1hostname",
        "beta.kubernetes.io~1os",
        "node.kubernetes.io~1b",
        "x.kubelet.kubernetes.io~1b",
        "node-role.kubernetes.io~1worker",
        "node-role.kubernetes.io~1master",
        "k8s.io~1a",
        "notk8s.io~1a",
        "node-restriction.kubernetes.io~1a",
        "b.node-restriction.kubernetes.io~1a",
    ]
    .choose(rng)
    .expect("not empty");
    let label = label.replacen("example.com/", "example.com~1", 1);
    let value = if rng.random_bool(0.3) { Value::Null } else { json!(["", "v"].choose(rng)) };
    if rng.random_bool(0.4) {
        return (format!("/metadata/labels/{label}"), value);
    }
    one_of(
        rng,
        &[
            ("/metadata/labels", json!({"k8s.io/b": "", "k8s.io/a": "", "x": "y"})),
            ("/metadata/annotations", json!({"a": "b"})),
            ("/metadata/ownerReferences", json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "p", "uid": "p"}])),
            ("/metadata/ownerReferences", json!([])),
            ("/spec/taints", json!([{"key": "a", "effect": "NoSchedule"}])),
            ("/spec/taints", json!([])),
            ("/spec/unschedulable", json!(true)),
            ("/spec/configSource", json!({"configMap": {"namespace": "n", "name": "c", "kubeletConfigKey": "k"}})),
            ("/status/conditions", json!([{"type": "Ready", "status": "True"}])),
            ("/status/capacity", json!({"cpu": "4"})),
        ],
    )
}

/// A change of a pod's status, or of what a write of the status leaves alone.
pub(super) fn of_pod_status(rng: &mut StdRng) -> (String, Value) {
    one_of(
        rng,
        &[
            ("/status/phase", json!("Running")),
            ("/status/message", json!("m")),
            ("/status/conditions", json!([{"type": "Ready", "status": "True"}])),
            ("/metadata/labels", json!({"app": "y"})),
            ("/metadata/labels/app", Value::Null),
            ("/metadata/annotations", json!({"a": "b"})),
            ("/status/resourceClaimStatuses", json!([{"name": "r", "resourceClaimName": "s"}])),
            ("/status/extendedResourceClaimStatus", json!({"resourceClaimName": "r", "requestMappings": []})),
        ],
    )
}

/// A change of a claim.
pub(super) fn of_claim(rng: &mut StdRng) -> (String, Value) {
    one_of(
        rng,
        &[
            ("/status/capacity", json!({"storage": "2Gi"})),
            ("/status/conditions", json!([{"type": "Resizing", "status": "True"}])),
            ("/status/allocatedResources", json!({"storage": "2Gi"})),
            ("/status/allocatedResourceStatuses", json!({"storage": "NodeResizeInProgress"})),
            ("/status/phase", json!("Lost")),
            ("/status/accessModes", json!(["ReadOnlyMany"])),
            ("/status/currentVolumeAttributesClassName", json!("k")),
            ("/status/modifyVolumeStatus", json!({"targetVolumeAttributesClassName": "k", "status": "Pending"})),
            ("/metadata/labels", json!({"a": "<&>", "z": "ü"})),
            ("/metadata/labels/a", Value::Null),
            ("/metadata/annotations", json!({"a": "\"\\\n"})),
            ("/metadata/finalizers", json!(["example.com/f", "example.com/g"])),
            ("/metadata/ownerReferences", json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}])),
            ("/spec/resources/requests/storage", json!("2Gi")),
            ("/spec/resources/requests/storage", json!("1073741824")),
            ("/spec/resources/limits", json!({"storage": "3Gi"})),
            ("/spec/selector", json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]})),
            ("/spec/volumeName", json!("pv9")),
            ("/spec/volumeMode", json!("Block")),
            ("/spec/storageClassName", Value::Null),
            ("/spec/volumeAttributesClassName", json!("v")),
            ("/spec/dataSource", json!({"kind": "PersistentVolumeClaim", "name": "d"})),
            ("/spec/dataSourceRef", json!({"apiGroup": "g.example.com", "kind": "K", "name": "d"})),
        ],
    )
}

/// The text of a certificate request of this name, perhaps broken.
pub(super) fn request(rng: &mut StdRng, name: &str) -> Result<String, Failure> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, name);
    let pem = params.serialize_request(&KeyPair::generate()?)?.pem()?;
    Ok(match rng.random_range(0..8) {
        0 => "none".to_owned(),
        1 => pem.replace("CERTIFICATE REQUEST", "CERTIFICATE"),
        2 => format!("before\n{pem}after\n"),
        _ => pem,
    })
}
