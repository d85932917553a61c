//! What a cluster needs to be extended by this server, as manifests: `watchcache aggregate --print-manifests`.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::admin;
use crate::config::Manifests;
use controllers::directory;

/// What the host gives custom resources (spec api-surface §2.3).
const GROUP_PRIORITY: u32 = 1000;
const VERSION_PRIORITY: u32 = 100;
/// What a ConfigMap may hold, bytes, and room for what is not the file.
const CONFIG_MAP_BYTES_MAX: usize = (1 << 20) - (4 << 10);
/// Where things are in the container.
const DEFINITIONS: &str = "/etc/watchcache/definitions";
const HOST: &str = "/etc/watchcache/host";
const LISTENER: &str = "/etc/watchcache/listener";
/// Where a pod finds who it is.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

const HEAD: &str = "# Resources that watchcache adds to a cluster, made by `watchcache aggregate --print-manifests`: apply all of it with kubectl.
# The certificate of the Secret lasts ten years, and its authority has signed nothing else. Made again, it is another one; then apply all again.
# A group that the cluster has CustomResourceDefinitions of is the cluster's: remove these first. Admission webhooks and policies of the cluster do not see the objects.
";

/// Returns the manifests.
///
/// # Errors
/// What is wrong with the definitions, one line each.
pub fn print(config: &Manifests) -> Result<String, String> {
    let files = directory::texts(&config.definitions).map_err(|why| format!("--definitions {}: {why}", config.definitions.display()))?;
    let definitions = directory::all_of(&files).map_err(|wrong| wrong.join("\n"))?;
    let service_name = format!("{}.{}.svc", config.name, config.namespace);
    let (authority, certificate, key) = admin::serving(&service_name, SystemTime::now())?;
    let mut documents = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": config.namespace, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } }),
        config.object("v1", "ServiceAccount", "", json!({})),
    ];
    documents.extend(config.rights());
    documents.push(config.object("v1", "ConfigMap", "-host", json!({ "data": { "kubeconfig": kubeconfig()? } })));
    for (nth, (file, text)) in files.iter().enumerate() {
        if text.len() > CONFIG_MAP_BYTES_MAX {
            return Err(format!("{file} has more than {CONFIG_MAP_BYTES_MAX} bytes, which no ConfigMap takes: split it"));
        }
        documents.push(config.object("v1", "ConfigMap", &definitions_map(nth), json!({ "data": { file: text } })));
    }
    let tls = json!({ "tls.crt": BASE64_STANDARD.encode(certificate), "tls.key": BASE64_STANDARD.encode(key) });
    documents.push(config.object("v1", "Secret", "-listener", json!({ "type": "kubernetes.io/tls", "data": tls })));
    let ports = json!([{ "name": "https", "port": 443, "targetPort": "https" }]);
    documents.push(config.object("v1", "Service", "", json!({ "spec": { "selector": config.labels(), "ports": ports } })));
    documents.push(config.stateful_set(files.len()));
    let bundle = BASE64_STANDARD.encode(authority);
    documents.extend(versions(&definitions).into_iter().map(|(group, version)| config.api_service(&group, &version, &bundle)));
    let mut text = HEAD.to_owned();
    for (nth, document) in documents.iter().enumerate() {
        text.push_str(if nth == 0 { "" } else { "---\n" });
        text.push_str(&yaml(document)?);
    }
    Ok(text)
}

fn yaml(document: &Value) -> Result<String, String> {
    let text = go::yaml::yaml(document.to_string().as_bytes()).map_err(|error| error.to_string())?;
    String::from_utf8(text).map_err(|error| error.to_string())
}

/// In the pod, the host is where its account says.
fn kubeconfig() -> Result<String, String> {
    yaml(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "host", "cluster": { "server": "https://kubernetes.default.svc", "certificate-authority": format!("{ACCOUNT}/ca.crt") } }],
        "users": [{ "name": "host", "user": { "tokenFile": format!("{ACCOUNT}/token") } }],
        "contexts": [{ "name": "host", "context": { "cluster": "host", "user": "host" } }],
        "current-context": "host",
    }))
}

/// Returns a number of bytes as a quantity, in the largest binary unit that divides it.
fn quantity(bytes: u64) -> String {
    let units = [(30, "Gi"), (20, "Mi"), (10, "Ki")];
    let unit = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

fn definitions_map(nth: usize) -> String {
    format!("-definitions-{nth}")
}

/// The group versions that are served.
fn versions(definitions: &[Value]) -> Vec<(String, String)> {
    let mut found = BTreeMap::new();
    for definition in definitions {
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        let served = definition["spec"]["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
        found.extend(served.filter_map(|version| version["name"].as_str()).map(|version| ((group.to_owned(), version.to_owned()), ())));
    }
    found.into_keys().collect()
}

impl Manifests {
    /// An object of this server, with this besides its head.
    fn object(&self, api_version: &str, kind: &str, suffix: &str, rest: Value) -> Value {
        let metadata = json!({ "name": format!("{}{suffix}", self.name), "namespace": self.namespace, "labels": self.labels() });
        let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata });
        for (member, value) in rest.as_object().into_iter().flatten() {
            object[member] = value.clone();
        }
        object
    }

    fn labels(&self) -> Value {
        json!({ "app.kubernetes.io/name": self.name })
    }

    /// It asks the host who somebody is and what he may do, reads whom the host believes, and follows namespaces.
    fn rights(&self) -> Vec<Value> {
        let (api, group) = ("rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io");
        let name = format!("watchcache:{}:{}", self.namespace, self.name);
        let subjects = json!([{ "kind": "ServiceAccount", "name": self.name, "namespace": self.namespace }]);
        let binding = |kind: &str, metadata: Value, role: (&str, &str)| {
            let role = json!({ "apiGroup": group, "kind": role.0, "name": role.1 });
            json!({ "apiVersion": api, "kind": kind, "metadata": metadata, "roleRef": role, "subjects": subjects })
        };
        let namespaces = json!([{ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"] }]);
        vec![
            json!({ "apiVersion": api, "kind": "ClusterRole", "metadata": { "name": name }, "rules": namespaces }),
            binding("ClusterRoleBinding", json!({ "name": name }), ("ClusterRole", &name)),
            binding("ClusterRoleBinding", json!({ "name": format!("{name}:auth-delegator") }), ("ClusterRole", "system:auth-delegator")),
            binding(
                "RoleBinding",
                json!({ "name": name, "namespace": "kube-system" }),
                ("Role", "extension-apiserver-authentication-reader"),
            ),
        ]
    }

    fn stateful_set(&self, files: usize) -> Value {
        let probe = |path: &str| json!({ "path": path, "port": "https", "scheme": "HTTPS" });
        let definitions: Vec<Value> =
            (0..files).map(|nth| json!({ "configMap": { "name": format!("{}{}", self.name, definitions_map(nth)) } })).collect();
        let container = json!({
            "name": "watchcache",
            "image": self.image,
            "args": [
                "serve",
                "--data-dir=/var/lib/watchcache/data",
                "--insecure-port=0",
                "--secure-port=6443",
                format!("--tls-cert-file={LISTENER}/tls.crt"),
                format!("--tls-private-key-file={LISTENER}/tls.key"),
                format!("--kubeconfig={HOST}/kubeconfig"),
                format!("--definitions={DEFINITIONS}"),
                format!("--memory-budget={}", self.memory_limit / 3 * 2),
                "--log-format=json",
            ],
            "ports": [{ "name": "https", "containerPort": 6443 }],
            "startupProbe": { "httpGet": probe("/readyz"), "periodSeconds": 2, "failureThreshold": 60 },
            "livenessProbe": { "httpGet": probe("/livez") },
            "readinessProbe": { "httpGet": probe("/readyz"), "periodSeconds": 5 },
            "securityContext": { "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] } },
            "resources": { "requests": { "cpu": "100m", "memory": quantity(self.memory_limit / 8) }, "limits": { "memory": quantity(self.memory_limit) } },
            "volumeMounts": [
                { "name": "data", "mountPath": "/var/lib/watchcache" },
                { "name": "definitions", "mountPath": DEFINITIONS, "readOnly": true },
                { "name": "host", "mountPath": HOST, "readOnly": true },
                { "name": "listener", "mountPath": LISTENER, "readOnly": true },
            ],
        });
        let user = 65532;
        let pod = json!({
            "serviceAccountName": self.name,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": 20,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": user,
                "runAsGroup": user,
                "fsGroup": user,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [container],
            "volumes": [
                { "name": "definitions", "projected": { "sources": definitions } },
                { "name": "host", "configMap": { "name": format!("{}-host", self.name) } },
                { "name": "listener", "secret": { "secretName": format!("{}-listener", self.name), "defaultMode": 0o440 } },
            ],
        });
        let mut claim = json!({
            "metadata": { "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": self.storage } } },
        });
        if let Some(class) = &self.storage_class {
            claim["spec"]["storageClassName"] = json!(class);
        }
        let spec = json!({
            // The store has one writer and one directory: a second replica would be another store.
            "replicas": 1,
            "serviceName": self.name,
            "selector": { "matchLabels": self.labels() },
            "template": { "metadata": { "labels": self.labels() }, "spec": pod },
            "volumeClaimTemplates": [claim],
        });
        self.object("apps/v1", "StatefulSet", "", json!({ "spec": spec }))
    }

    fn api_service(&self, group: &str, version: &str, bundle: &str) -> Value {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": { "name": format!("{version}.{group}"), "labels": self.labels() },
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": GROUP_PRIORITY,
                "versionPriority": VERSION_PRIORITY,
                "service": { "name": self.name, "namespace": self.namespace, "port": 443 },
                "caBundle": bundle,
            },
        })
    }
}
