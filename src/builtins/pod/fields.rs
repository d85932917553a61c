//! References to fields of a Pod and to resources of its containers, which files and environment variables take their values from.

use crate::{at::At, causes::Causes, meta, names, quantities::Amount};

/// The fields that a file of a volume can have.
pub(super) const OF_FILES: [&str; 5] = ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// The fields that an environment variable can have.
pub(super) const OF_VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The fields that have a name (`ConvertDownwardAPIFieldLabel`).
const KNOWN: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] =
    ["limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"];
const DIVISORS_OF_BYTES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// A field of the Pod, one of `supported` (`validateObjectFieldSelector`).
pub(super) fn of_pod(at: &At<'_, '_>, supported: &[&str], causes: &mut Causes) {
    let (version, path) = (at.member("apiVersion"), at.member("fieldPath"));
    if !meta::present(&version, "", causes) || !meta::present(&path, "", causes) {
        return;
    }
    let converted = match internal(version.text(), path.text()) {
        Ok(converted) => converted,
        Err(why) => return causes.invalid_text(&path, &format!("error converting fieldPath: {why}")),
    };
    match subscripted(converted) {
        Some(("metadata.annotations", key)) => causes.each_invalid(&at.with(&key.into()), names::qualified(&key.to_lowercase())),
        Some((_, key)) => causes.each_invalid(&at.with(&key.into()), names::qualified(key)),
        None if !supported.contains(&converted) => causes.not_supported_text(&path.with(&converted.into()), supported),
        None => {}
    }
}

/// The name that Go has for a field internally.
fn internal<'t>(version: &str, path: &'t str) -> Result<&'t str, String> {
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    match subscripted(path) {
        Some(("metadata.annotations" | "metadata.labels", _)) => Ok(path),
        Some(_) => Err(format!("field label does not support subscript: {path}")),
        None if KNOWN.contains(&path) => Ok(path),
        None if path == "spec.host" => Ok("spec.nodeName"),
        None => Err(format!("field label not supported: {path}")),
    }
}

/// The parts of `path['key']`.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(path, _)| !path.is_empty())
}

/// A resource of a container, which a file of a volume must name (`validateContainerResourceFieldSelector`).
pub(super) fn of_container(at: &At<'_, '_>, is_file: bool, causes: &mut Causes) {
    let (container, resource) = (at.member("containerName"), at.member("resource"));
    if is_file && container.text().is_empty() {
        causes.required(&container, "");
    } else if resource.text().is_empty() {
        causes.required(&resource, "");
    } else if !RESOURCES.contains(&resource.text()) && !is_huge_pages(resource.text()) {
        causes.not_supported_text(&resource, &RESOURCES);
    }
    divisor(at, resource.text(), causes);
}

fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-")
}

fn divisor(at: &At<'_, '_>, resource: &str, causes: &mut Causes) {
    let divisor = at.member("divisor");
    if Amount::at(&divisor) == Amount::ZERO {
        return;
    }
    let name = match resource {
        "limits.cpu" | "requests.cpu" => {
            if !matches!(divisor.text(), "1m" | "1") {
                causes.invalid_as(&divisor, &resource.into(), "only divisor's values 1m and 1 are supported with the cpu resource");
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        resource if is_huge_pages(resource) => "hugepages",
        _ => return,
    };
    if !DIVISORS_OF_BYTES.contains(&divisor.text()) {
        let why = format!("only divisor's values {} are supported with the {name} resource", DIVISORS_OF_BYTES.join(", "));
        causes.invalid_as(&divisor, &resource.into(), &why);
    }
}
