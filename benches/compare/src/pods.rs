//! The Pods of a run, as a real control plane writes them: a spec with defaults that admission would add, then a status by the kubelet, both with managed
//! fields. Served, one has about 8 KB. Knows JSON, not servers.

use serde_json::{Value, json};

use crate::load::Stamp;

/// Where they are.
pub(crate) const COLLECTION: &str = "/api/v1/namespaces/compare-pods/pods";

/// Who makes a Pod, and who tells its state: the names under which managed fields are kept.
pub(crate) const MAKER: &str = "kube-controller-manager";
pub(crate) const TELLER: &str = "kubelet";

/// The Pod `index` with the stamp `seq`, as its ReplicaSet makes it.
pub(crate) fn made(name: &str, index: u64, seq: u64) -> String {
    pod(name, index, seq).to_string()
}

/// The same with the status of a Pod that runs.
pub(crate) fn told(name: &str, index: u64, seq: u64) -> String {
    let mut pod = pod(name, index, seq);
    pod["status"] = status(name, index);
    pod.to_string()
}

fn pod(name: &str, index: u64, seq: u64) -> Value {
    let app = format!("app-{:03}", index % 300);
    let container = |name: &str, port: u64| {
        json!({
            "name": name, "image": format!("registry.example.com/team/{app}-{name}:1.2.{}", index % 7), "imagePullPolicy": "IfNotPresent",
            "args": ["--listen", format!(":{port}"), "--log-level", "info", "--config", "/etc/app/config.yaml"],
            "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
                {"name": "REGION", "value": "eu-1"}, {"name": "DATABASE", "value": format!("postgres://{app}.example.com:5432/{app}")},
            ],
            "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "livenessProbe": probe("/healthz", port), "readinessProbe": probe("/readyz", port),
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app", "readOnly": true}, {"name": "token", "mountPath": "/var/run/secrets/token", "readOnly": true}],
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "compare-pods", "generateName": format!("{app}-7d4b9c6f5-"),
            "labels": {"app": app, "pod-template-hash": "7d4b9c6f5", "team": format!("team-{}", index % 12), "tier": "backend"},
            "annotations": {"compare.example.com/stamp": Stamp(seq).to_string(), "prometheus.io/scrape": "true", "prometheus.io/port": "8080",
                "checksum/config": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-7d4b9c6f5"),
                "uid": format!("6f1c2d3e-0000-4000-8000-{:012x}", index % 300), "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "nodeName": format!("node-{:03}", index % 150), "serviceAccountName": "default", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30, "enableServiceLinks": true, "securityContext": {"runAsNonRoot": true, "fsGroup": 2000},
            "containers": [container("app", 8080), container("sidecar", 9090)],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": format!("{app}-config"), "defaultMode": 420}},
                {"name": "token", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}},
            ],
        },
    })
}

fn probe(path: &str, port: u64) -> Value {
    json!({"httpGet": {"path": path, "port": port, "scheme": "HTTP"}, "initialDelaySeconds": 5, "periodSeconds": 10, "timeoutSeconds": 1,
        "successThreshold": 1, "failureThreshold": 3})
}

fn status(name: &str, index: u64) -> Value {
    let began = "2026-11-23T18:03:24Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": began});
    let container = |container: &str| {
        json!({"name": container, "ready": true, "started": true, "restartCount": 0, "image": format!("registry.example.com/team/{container}:1.2.3"),
            "imageID": "registry.example.com/team/app@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
            "containerID": format!("containerd://{name}-{container}-fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9"),
            "state": {"running": {"startedAt": began}}, "lastState": {}})
    };
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let address = format!("10.42.{}.{}", index / 250 % 250, index % 250 + 1);
    json!({"phase": "Running", "conditions": conditions, "hostIP": "192.0.2.2", "hostIPs": [{"ip": "192.0.2.2"}], "podIP": address, "podIPs": [{"ip": address}],
        "startTime": began, "qosClass": "Burstable", "containerStatuses": [container("app"), container("sidecar")]})
}
