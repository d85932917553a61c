//! The cluster in which kubelets write: two nodes and a third that is not there, what runs on them, and who may what.

use serde_json::{Value, json};

use crate::{
    alone::{Failure, asked},
    client::Client,
};

pub(super) const POD: &str = "/api/v1/namespaces/kubelets/pods";
pub(super) const CLAIM: &str = "/api/v1/namespaces/kubelets/persistentvolumeclaims";
pub(super) const ACCOUNT: &str = "/api/v1/namespaces/kubelets/serviceaccounts";
pub(super) const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces";
pub(super) const CSI_NODE: &str = "/apis/storage.k8s.io/v1/csinodes";
pub(super) const SLICE: &str = "/apis/resource.k8s.io/v1/resourceslices";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const DRIVER: &str = "/apis/storage.k8s.io/v1/csidrivers";

/// An audience that the roles allow, of the account `a1`.
pub(super) const ALLOWED: &str = "allowed";

/// Audiences that pods' volumes need, and some that none does.
pub(super) const AUDIENCES: [&str; 8] = ["projected", "inline", "claimed", "aws", "gce", ALLOWED, "unknown", "secrets"];

fn pod(name: &str, node: Value, volumes: &Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"nodeName": node, "serviceAccountName": "a1", "containers": [{"name": "c", "image": "i"}], "volumes": volumes},
    })
}

fn slice(name: &str, node: Value) -> Value {
    let mut spec = json!({"driver": "d.example.com", "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}});
    if node.is_null() {
        spec["allNodes"] = json!(true)
    } else {
        spec["nodeName"] = node
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Makes it, as an administrator.
pub(super) async fn make(admin: &Client) -> Result<(), Failure> {
    let volumes = json!([
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "projected"}}]}},
        {"name": "u", "projected": {"sources": [{"serviceAccountToken": {"path": "u"}}]}},
        {"name": "i", "csi": {"driver": "inline"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "c1"}},
        {"name": "e", "persistentVolumeClaim": {"claimName": "c2"}},
        {"name": "g", "gcePersistentDisk": {"pdName": "g"}},
    ]);
    let broken = json!([{"name": "c", "persistentVolumeClaim": {"claimName": "gone"}}, {"name": "d", "csi": {"driver": "gone"}}]);
    let driver = |name: &str, audience: &str| json!({"metadata": {"name": name}, "spec": {"tokenRequests": [{"audience": audience}]}});
    let volume = |name: &str, source: &str, value: Value| {
        json!({
            "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s", source: value},
        })
    };
    let claim = |name: &str, volume: &str| {
        json!({
            "metadata": {"name": name, "labels": {"a": "b"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume, "storageClassName": "s"},
        })
    };
    let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": name}});
    let volumes_at = "/api/v1/persistentvolumes";
    let all = json!({"metadata": {"name": "kubelets"}, "rules": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "create", "update", "patch", "delete", "deletecollection"]},
        {"apiGroups": [""], "resources": [ALLOWED], "resourceNames": ["a1"], "verbs": ["request-serviceaccounts-token-audience"]},
    ]});
    let binding = json!({
        "metadata": {"name": "kubelets"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kubelets"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:node:n1"}],
    });
    let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o"}]);
    let labels = json!({"kubernetes.io/hostname": "n1", "example.com/a": "b", "node-role.kubernetes.io/worker": ""});
    for (target, object) in [
        (format!("{RBAC}/clusterroles"), all),
        (format!("{RBAC}/clusterrolebindings"), binding),
        ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": "kubelets"}})),
        ("/api/v1/nodes".to_owned(), json!({"metadata": {"name": "n1", "labels": labels, "ownerReferences": owners}})),
        ("/api/v1/nodes".to_owned(), json!({"metadata": {"name": "n2"}})),
        (ACCOUNT.to_owned(), json!({"metadata": {"name": "a1"}})),
        (ACCOUNT.to_owned(), json!({"metadata": {"name": "a2"}})),
        (DRIVER.to_owned(), driver("inline", "inline")),
        (DRIVER.to_owned(), driver("claimed", "claimed")),
        (DRIVER.to_owned(), driver("ebs.csi.aws.com", "aws")),
        (DRIVER.to_owned(), driver("pd.csi.storage.gke.io", "gce")),
        (volumes_at.to_owned(), volume("pv1", "csi", json!({"driver": "claimed", "volumeHandle": "h"}))),
        (volumes_at.to_owned(), volume("pv2", "awsElasticBlockStore", json!({"volumeID": "vol-1"}))),
        (CLAIM.to_owned(), claim("c1", "pv1")),
        (CLAIM.to_owned(), claim("c2", "pv2")),
        (POD.to_owned(), pod("p1", json!("n1"), &volumes)),
        (POD.to_owned(), pod("p2", json!("n2"), &json!([]))),
        (POD.to_owned(), pod("p3", Value::Null, &json!([]))),
        (POD.to_owned(), pod("p4", json!("n1"), &broken)),
        (format!("{LEASE}/kube-node-lease/leases"), lease("n1")),
        (format!("{LEASE}/kubelets/leases"), lease("n1")),
        (CSI_NODE.to_owned(), json!({"metadata": {"name": "n1"}, "spec": {"drivers": []}})),
        (SLICE.to_owned(), slice("s1", json!("n1"))),
        (SLICE.to_owned(), slice("s2", json!("n2"))),
        (SLICE.to_owned(), slice("s3", Value::Null)),
    ] {
        asked(admin, ("POST", &target), Some(&object), 201).await?;
    }
    Ok(())
}
