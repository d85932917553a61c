//! Audiences of tokens that a kubelet may ask for: those in the projected volumes of the pod, those of the CSI drivers of its volumes, and those that the
//! authorizers allow.

use serde_json::Value;

use crate::{Attributes, Cluster, Kind, Verdict, driver, forbid, tree};
use go::quote::quoted;

/// Volumes of a pod that are looked at: for each of them up to three objects are read.
const VOLUMES_MAX: usize = 1_024;

pub(crate) fn admit(request: &Value, pod: &Value, write: &Attributes<'_>, cluster: &dyn Cluster) -> Verdict {
    let audiences: Vec<&str> = tree::items(request, &["spec", "audiences"]).filter_map(Value::as_str).collect();
    let audience = match audiences[..] {
        [] => "",
        [audience] => audience,
        _ => return forbid("node may only request 0 or 1 audiences"),
    };
    let is_used = is_used(pod, audience, cluster).map_err(|why| format!("error validating audience {}: {why}", quoted(audience)))?;
    if is_used || cluster.may_request_audience(write.namespace, write.name, audience) {
        return Ok(());
    }
    forbid(format!(
        "audience {} not found in pod spec volume, {} is not authorized to request tokens for this audience",
        quoted(audience),
        write.user
    ))
}

/// Whether a volume of the pod needs tokens for this audience. What is wrong with its volumes counts only if none does.
fn is_used(pod: &Value, audience: &str, cluster: &dyn Cluster) -> Result<bool, String> {
    let mut errors: Vec<String> = Vec::new();
    for volume in tree::items(pod, &["spec", "volumes"]).take(VOLUMES_MAX) {
        let mut sources = tree::items(volume, &["projected", "sources"]).filter_map(|source| tree::at(source, &["serviceAccountToken"]));
        if sources.any(|token| tree::text(token, &["audience"]) == audience) {
            return Ok(true);
        }
        match of_driver(pod, volume, audience, cluster) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) if errors.contains(&why) => {}
            Err(why) => errors.push(why),
        }
    }
    match errors.as_slice() {
        [] => Ok(false),
        [why] => Err(why.clone()),
        _ => Err(format!("[{}]", errors.join(", "))),
    }
}

/// Whether the CSI driver of a volume wants tokens for this audience.
fn of_driver(pod: &Value, volume: &Value, audience: &str, cluster: &dyn Cluster) -> Result<bool, String> {
    let Some(driver) = driver::of_volume(pod, volume, cluster)? else { return Ok(false) };
    let driver = looked_up(cluster, Kind::CsiDriver, "", &driver)?;
    let wanted = tree::items(&driver, &["spec", "tokenRequests"]).any(|request| tree::text(request, &["audience"]) == audience);
    Ok(wanted)
}

/// An object; or that it is not there.
pub(crate) fn looked_up(cluster: &dyn Cluster, kind: Kind, namespace: &str, name: &str) -> Result<Value, String> {
    cluster.object(kind, namespace, name).ok_or_else(|| format!("{} {} not found", kind.singular(), quoted(name)))
}
