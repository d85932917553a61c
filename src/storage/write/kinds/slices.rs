//! What the slices of Services and of devices get besides defaults (`pkg/registry/discovery/endpointslice`, `pkg/apis/resource/v1`).

use std::collections::HashSet;

use serde_json::Value;
use time::OffsetDateTime;

use super::tree;

const TOPOLOGY: &str = "deprecatedTopology";
const HOST: &str = "kubernetes.io/hostname";

/// Drops the topology that v1 has no more. An endpoint whose node was only told there keeps it by name; endpoints that stay the same keep all.
pub(super) fn drop_topology(slice: &mut Value, old: Option<&Value>) {
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
pub(super) fn time_taints(slice: &mut Value, now: OffsetDateTime) {
    let devices = slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut).into_iter().flatten();
    let taints = devices.filter_map(|device| device.get_mut("taints")?.as_array_mut()).flatten();
    for taint in taints.filter(|taint| tree::at(taint, &["timeAdded"]).is_none()) {
        tree::set(taint, &["timeAdded"], tree::rfc3339(now).into());
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
