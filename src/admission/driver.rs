//! The CSI driver of a pod's volume: named there, by its claim's volume, or the one that has taken over a kind of volume that Kubernetes had built in.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{Cluster, Kind, audience::looked_up, tree};

/// Kinds of volumes whose driver has taken over, and that driver.
const TAKEN_OVER: &[(&str, &str)] = &[
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

/// Labels with the zones of a volume: the first one that is not empty counts.
const ZONES: [&str; 2] = ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"];

/// Between the zones of a volume that is in several.
const ZONES_SEPARATOR: &str = "__";

/// Returns the driver of a pod's volume, if it has one.
///
/// # Errors
/// A claim or a volume is not there, or the volume does not suit its driver.
pub(crate) fn of_volume(pod: &Value, volume: &Value, cluster: &dyn Cluster) -> Result<Option<String>, String> {
    let metadata = |member: &str| tree::text(pod, &["metadata", member]);
    if tree::at(volume, &["ephemeral", "volumeClaimTemplate"]).is_some() {
        let claim = format!("{}-{}", metadata("name"), tree::text(volume, &["name"]));
        return of_claim(metadata("namespace"), &claim, cluster);
    }
    if let Some(claim) = tree::at(volume, &["persistentVolumeClaim"]) {
        return of_claim(metadata("namespace"), tree::text(claim, &["claimName"]), cluster);
    }
    if let Some(csi) = tree::at(volume, &["csi"]) {
        return Ok(named(csi));
    }
    taken_over(volume, |kind, source| match kind {
        "awsElasticBlockStore" => ebs_disk(source),
        "azureDisk" => azure_disk(source),
        _ => Ok(()),
    })
}

fn of_claim(namespace: &str, claim: &str, cluster: &dyn Cluster) -> Result<Option<String>, String> {
    let claim = looked_up(cluster, Kind::Claim, namespace, claim)?;
    let volume = looked_up(cluster, Kind::Volume, "", tree::text(&claim, &["spec", "volumeName"]))?;
    if let Some(csi) = tree::at(&volume, &["spec", "csi"]) {
        return Ok(named(csi));
    }
    let Some(spec) = tree::at(&volume, &["spec"]) else { return Ok(None) };
    taken_over(spec, |kind, source| match kind {
        "awsElasticBlockStore" => ebs_disk(source),
        "azureDisk" => azure_disk(source),
        "azureFile" => azure_secret(spec, source),
        "gcePersistentDisk" => gce_region(&volume),
        _ => Ok(()),
    })
}

fn named(csi: &Value) -> Option<String> {
    Some(tree::text(csi, &["driver"]).to_owned()).filter(|driver| !driver.is_empty())
}

/// The driver that has taken over, if `suits` finds that it takes this source.
fn taken_over(of: &Value, suits: impl Fn(&str, &Value) -> Result<(), String>) -> Result<Option<String>, String> {
    let Some((kind, driver)) = TAKEN_OVER.iter().find(|(kind, _)| tree::at(of, &[kind]).is_some()) else { return Ok(None) };
    suits(kind, &of[*kind])?;
    Ok(Some((*driver).to_owned()))
}

/// A volume is named plainly, or by a URL whose path it is.
fn ebs_disk(source: &Value) -> Result<(), String> {
    let id = tree::text(source, &["volumeID"]);
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(()) };
    let path = rest.split(['?', '#']).next().unwrap_or_default().split_once('/').map_or("", |(_, path)| path).trim_matches('/');
    if path.starts_with("vol-") && !path.contains('/') {
        return Ok(());
    }
    Err(format!("failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({id})"))
}

fn azure_disk(source: &Value) -> Result<(), String> {
    match tree::at(source, &["kind"]).and_then(Value::as_str) {
        Some(kind) if !kind.eq_ignore_ascii_case("managed") => Err(format!("kind({kind}) is not supported in csi migration")),
        _ => Ok(()),
    }
}

/// The namespace of the secret is that of the source, or else the claim's.
fn azure_secret(spec: &Value, source: &Value) -> Result<(), String> {
    let own = tree::at(source, &["secretNamespace"]).and_then(Value::as_str);
    let namespace = own.unwrap_or_else(|| tree::text(spec, &["claimRef", "namespace"]));
    if namespace.is_empty() {
        return Err("could not find a secret namespace in PersistentVolumeSource or ClaimRef".to_owned());
    }
    Ok(())
}

/// A volume in several zones is in one region.
fn gce_region(volume: &Value) -> Result<(), String> {
    let label = ZONES.iter().map(|label| tree::text(volume, &["metadata", "labels", label])).find(|zones| !zones.is_empty());
    let zones: Vec<&str> = label.unwrap_or_default().split(ZONES_SEPARATOR).collect();
    if zones.len() < 2 {
        return Ok(());
    }
    let mut regions = BTreeSet::new();
    for zone in zones {
        match zone.split('-').collect::<Vec<_>>()[..] {
            [place, region, _] => regions.insert(format!("{place}-{region}")),
            _ => {
                return Err(format!(
                    "failed to get region from zones: zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
                ));
            }
        };
    }
    if regions.len() == 1 {
        return Ok(());
    }
    let told: Vec<String> = regions.iter().map(|region| format!("{region}:{{}}")).collect();
    Err(format!("failed to get region from zones: multiple or no regions gotten from zones, got: map[{}]", told.join(" ")))
}
