//! Which secrets the Pods of an account may use.

use std::collections::HashSet;

use serde_json::Value;

use crate::tree;

/// Judges volumes, containers and the secrets that images are pulled with.
///
/// # Errors
/// The Pod names a secret that its account does not.
pub(super) fn of_pod(account: &Value, pod: &Value) -> Result<(), String> {
    let mountable = names(account, "secrets");
    let owner = tree::text(account, &["metadata", "name"]);
    for volume in tree::items(pod, &["spec", "volumes"]).filter(|volume| tree::at(volume, &["secret"]).is_some()) {
        let secret = tree::text(volume, &["secret", "secretName"]);
        if !mountable.contains(secret) {
            let of = format!("volume with secret.secretName=\"{secret}\" is not allowed");
            return Err(format!("{of} because service account {owner} does not reference that secret"));
        }
    }
    of_containers("init container", pod, "initContainers", &mountable, owner)?;
    of_containers("container", pod, "containers", &mountable, owner)?;
    let pulled = names(account, "imagePullSecrets");
    for (i, secret) in tree::items(pod, &["spec", "imagePullSecrets"]).enumerate() {
        let secret = tree::text(secret, &["name"]);
        if !pulled.contains(secret) {
            let of = format!("imagePullSecrets[{i}].name=\"{secret}\" is not allowed");
            return Err(format!("{of} because service account {owner} does not reference that imagePullSecret"));
        }
    }
    Ok(())
}

/// Judges the containers that are added to a Pod that runs.
///
/// # Errors
/// One names a secret that the account does not.
pub(super) fn of_ephemeral(account: &Value, pod: &Value) -> Result<(), String> {
    let owner = tree::text(account, &["metadata", "name"]);
    of_containers("ephemeral container", pod, "ephemeralContainers", &names(account, "secrets"), owner)
}

fn names<'a>(account: &'a Value, list: &str) -> HashSet<&'a str> {
    tree::items(account, &[list]).map(|secret| tree::text(secret, &["name"])).collect()
}

fn of_containers(what: &str, pod: &Value, list: &str, mountable: &HashSet<&str>, owner: &str) -> Result<(), String> {
    for container in tree::items(pod, &["spec", list]) {
        let name = tree::text(container, &["name"]);
        let refuse = |by: String, secret: &str| {
            let of = format!("{what} {name} with {by} referencing secret.secretName=\"{secret}\" is not allowed");
            Err(format!("{of} because service account {owner} does not reference that secret"))
        };
        for variable in tree::items(container, &["env"]).filter(|variable| tree::at(variable, &["valueFrom", "secretKeyRef"]).is_some()) {
            let secret = tree::text(variable, &["valueFrom", "secretKeyRef", "name"]);
            if !mountable.contains(secret) {
                return refuse(format!("envVar {}", tree::text(variable, &["name"])), secret);
            }
        }
        for from in tree::items(container, &["envFrom"]).filter(|from| tree::at(from, &["secretRef"]).is_some()) {
            let secret = tree::text(from, &["secretRef", "name"]);
            if !mountable.contains(secret) {
                return refuse("envFrom".to_owned(), secret);
            }
        }
    }
    Ok(())
}
