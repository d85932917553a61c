//! What the slices of Services and of devices get besides defaults (`pkg/registry/discovery/endpointslice`, `pkg/apis/resource/v1`).

use std::collections::HashSet;

use serde_json::Value;
use time::OffsetDateTime;

use super::{
    row::{JudgedAsNew, Strategy, of_main},
    warnings::{address, items},
};
use crate::write::tree;
use builtins::{endpoints, resource_slice};
use go::quote::quoted;

/// Who made the slices of a Service: the addresses of controllers are in order.
const MANAGER: [&str; 3] = ["metadata", "labels", "endpointslice.kubernetes.io/managed-by"];

pub(super) const ENDPOINT_SLICES: Strategy = Strategy {
    storage: "endpointslices",
    judged_as_new: JudgedAsNew::Main,
    validate_create: endpoints::create_slice,
    validate_update: |_, old, new| endpoints::update_slice(old, new),
    prepare_create: |slice, _| drop_topology(slice, None),
    drop_counted: |old, new| drop_topology(new, Some(old)),
    // Controllers find the slices of a Service by label (measured).
    counted_metadata: Some("labels"),
    warn,
    ..Strategy::COMMON
};

pub(super) const RESOURCE_SLICES: Strategy = Strategy {
    storage: "resourceslices",
    stamp: |_, _, slice, now| time_taints(slice, now),
    is_counted_before_features: true,
    validate_create: resource_slice::create,
    validate_update: |part, old, new| of_main(part, || resource_slice::update(old, new)),
    warn: |_, new, warnings| warn_of_driver(new, warnings),
    ..Strategy::COMMON
};

const TOPOLOGY: &str = "deprecatedTopology";
const HOST: &str = "kubernetes.io/hostname";

/// Drops the topology that v1 has no more. An endpoint whose node was only told there keeps it by name; endpoints that stay the same keep all.
fn drop_topology(slice: &mut Value, old: Option<&Value>) {
    let known = old.and_then(|old| tree::at(old, &["endpoints"]));
    if old.is_some() && known == tree::at(slice, &["endpoints"]) {
        return;
    }
    let hosts = known.and_then(Value::as_array).into_iter().flatten().map(|endpoint| tree::text(endpoint, &[TOPOLOGY, HOST]));
    let hosts: HashSet<&str> = hosts.filter(|host| !host.is_empty()).collect();
    for endpoint in slice.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        let host = tree::text(endpoint, &[TOPOLOGY, HOST]).to_owned();
        if hosts.contains(host.as_str()) && tree::at(endpoint, &["nodeName"]).is_none() {
            tree::set(endpoint, &["nodeName"], host.into());
        }
        tree::object(endpoint).remove(TOPOLOGY);
    }
}

/// Tells since when devices are tainted.
fn time_taints(slice: &mut Value, now: OffsetDateTime) {
    let devices = slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut).into_iter().flatten();
    let taints = devices.filter_map(|device| device.get_mut("taints")?.as_array_mut()).flatten();
    for taint in taints.filter(|taint| tree::at(taint, &["timeAdded"]).is_none()) {
        tree::set(taint, &["timeAdded"], tree::rfc3339(now).into());
    }
}

fn warn(old: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
    if old.is_none() && tree::text(new, &["addressType"]) == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    if matches!(tree::text(new, &MANAGER), "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
        return;
    }
    for (i, endpoint) in items(new, &["endpoints"]).enumerate() {
        let all = tree::texts(endpoint, &["addresses"]).into_iter().enumerate();
        warnings.extend(all.filter_map(|(j, text)| address::of_address(&format!("endpoints[{i}].addresses[{j}]"), text)));
    }
}

fn warn_of_driver(slice: &Value, warnings: &mut Vec<String>) {
    let driver = tree::text(slice, &["spec", "driver"]);
    if driver.chars().any(char::is_uppercase) {
        warnings.push(format!("spec.driver: driver names should be lowercase; {} contains uppercase characters", quoted(driver)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn topology_goes_and_nodes_stay() {
        let slice = |address: &str| json!({"endpoints": [{"addresses": [address], TOPOLOGY: {HOST: "n"}}]});
        let mut new = slice("1");
        drop_topology(&mut new, None);
        assert_eq!(new, json!({"endpoints": [{"addresses": ["1"]}]}));
        let mut new = slice("2");
        drop_topology(&mut new, Some(&slice("1")));
        assert_eq!(new, json!({"endpoints": [{"addresses": ["2"], "nodeName": "n"}]}));
        let mut same = slice("1");
        drop_topology(&mut same, Some(&slice("1")));
        assert_eq!(same, slice("1"));
    }

    #[test]
    fn taints_have_times() {
        let now = tree::parsed("2026-01-02T03:04:05Z").expect("a time");
        let mut slice = json!({"spec": {"devices": [{"taints": [{"key": "k"}, {"timeAdded": "then"}]}, {}]}});
        time_taints(&mut slice, now);
        assert_eq!(
            slice["spec"]["devices"],
            json!([{"taints": [{"key": "k", "timeAdded": "2026-01-02T03:04:05Z"}, {"timeAdded": "then"}]}, {}])
        );
    }
}
