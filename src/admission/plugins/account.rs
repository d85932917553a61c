//! ServiceAccount: a Pod has an account that exists, its token in each container, and the secrets that the account allows.

mod secrets;

use std::sync::Arc;

use serde_json::{Value, json};

use super::write::{Cluster, Denial, Lookup, Verdict, Write};
use crate::{Operation, references, tree};
use go::quote::quoted;

/// The account of Pods that name none.
const DEFAULT: &str = "default";
/// The annotation of a Pod that mirrors one which a kubelet has from elsewhere.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotation of an account whose Pods may only use its secrets.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
/// What the name of the volume with the token begins with.
const VOLUME: &str = "kube-api-access-";
/// Where containers find the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Seconds that the token lives. By this number the server knows the token and lets it live longer.
const TOKEN_SECONDS: i64 = 3_607;
/// The mode of files in projected volumes.
const DEFAULT_MODE: i64 = 0o644;

pub(super) fn mutate(write: &Write<'_>, pod: &mut Value, cluster: &dyn Cluster) -> Verdict {
    if !write.creates() || !write.is_of("", "pods") {
        return Ok(());
    }
    if !is_mirror(pod) {
        if account_name(pod).is_empty() {
            let spec = tree::member(pod, "spec");
            // Both names of the field are there.
            for name in ["serviceAccountName", "serviceAccount"] {
                spec.insert(name.to_owned(), DEFAULT.into());
            }
        }
        let account = account_of(write, pod, cluster)?;
        if mounts_token(&account, pod) {
            mount_token(pod, cluster);
        }
        add_pull_secrets(pod, &account);
    }
    validate(write, pod, cluster)
}

pub(super) fn validate(write: &Write<'_>, pod: &Value, cluster: &dyn Cluster) -> Verdict {
    match (write.group, write.resource, write.operation, write.subresource) {
        ("", "pods", Operation::Create, "") if is_mirror(pod) => refers_to_nothing(pod),
        ("", "pods", Operation::Create, "") => judged(write, pod, cluster, secrets::of_pod),
        ("", "pods", Operation::Update, "ephemeralcontainers") => judged(write, pod, cluster, secrets::of_ephemeral),
        _ => Ok(()),
    }
}

fn account_name(pod: &Value) -> &str {
    tree::text(pod, &["spec", "serviceAccountName"])
}

fn is_mirror(pod: &Value) -> bool {
    tree::at(pod, &["metadata", "annotations", MIRROR]).is_some()
}

fn account_of(write: &Write<'_>, pod: &Value, cluster: &dyn Cluster) -> Result<Arc<Value>, Denial> {
    let (namespace, name) = (write.namespace, account_name(pod));
    let missing = || format!("error looking up service account {namespace}/{name}: serviceaccount {} not found", quoted(name));
    Ok(cluster.find(Lookup::ServiceAccount, namespace, name).ok_or_else(missing)?)
}

fn refers_to_nothing(pod: &Value) -> Verdict {
    if !account_name(pod).is_empty() {
        return Err("a mirror pod may not reference service accounts".into());
    }
    if references::has_secrets(pod) {
        return Err("a mirror pod may not reference secrets".into());
    }
    let mut sources = tree::items(pod, &["spec", "volumes"]).flat_map(|volume| tree::items(volume, &["projected", "sources"]));
    if sources.any(|source| tree::at(source, &["serviceAccountToken"]).is_some()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections".into());
    }
    Ok(())
}

/// Judges the secrets of a Pod, if its account enforces that.
fn judged(write: &Write<'_>, pod: &Value, cluster: &dyn Cluster, secrets: fn(&Value, &Value) -> Result<(), String>) -> Verdict {
    if account_name(pod).is_empty() {
        let name = tree::text(pod, &["metadata", "name"]);
        return Err(format!("no service account specified for pod {}/{name}", write.namespace).into());
    }
    let account = account_of(write, pod, cluster)?;
    let enforces = matches!(tree::text(&account, &["metadata", "annotations", ENFORCE]), "1" | "t" | "T" | "TRUE" | "true" | "True");
    if enforces { Ok(secrets(&account, pod)?) } else { Ok(()) }
}

/// What the Pod says counts before what its account says.
fn mounts_token(account: &Value, pod: &Value) -> bool {
    let said = |of: &Value, path: &[&str]| tree::at(of, path).and_then(Value::as_bool);
    said(pod, &["spec", "automountServiceAccountToken"]).or_else(|| said(account, &["automountServiceAccountToken"])).unwrap_or(true)
}

/// Mounts the token in each container that has nothing in its place.
fn mount_token(pod: &mut Value, cluster: &dyn Cluster) {
    let known = tree::items(pod, &["spec", "volumes"]).map(|volume| tree::text(volume, &["name"])).find(|name| name.starts_with(VOLUME));
    let (name, is_there) = known.map_or_else(|| (cluster.generate(VOLUME), false), |name| (name.to_owned(), true));
    let spec = tree::member(pod, "spec");
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if tree::items(container, &["volumeMounts"]).any(|mount| tree::text(mount, &["mountPath"]) == MOUNT_PATH) {
                continue;
            }
            let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
            tree::list(tree::members(container), "volumeMounts").push(mount);
            is_mounted = true;
        }
    }
    if is_mounted && !is_there {
        tree::list(spec, "volumes").push(json!({"name": name, "projected": projected()}));
    }
}

/// The token, the authorities of the API server, and the namespace.
fn projected() -> Value {
    json!({"defaultMode": DEFAULT_MODE, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]})
}

/// A Pod that names no secrets to pull images with has those of its account.
fn add_pull_secrets(pod: &mut Value, account: &Value) {
    if tree::items(pod, &["spec", "imagePullSecrets"]).next().is_some() {
        return;
    }
    let secrets: Vec<Value> = tree::items(account, &["imagePullSecrets"])
        .map(|secret| match tree::text(secret, &["name"]) {
            "" => json!({}),
            name => json!({"name": name}),
        })
        .collect();
    if !secrets.is_empty() {
        tree::member(pod, "spec").insert("imagePullSecrets".to_owned(), secrets.into());
    }
}

#[cfg(test)]
mod tests;
