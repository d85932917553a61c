//! What a Service loses when it becomes one of another type (`dropTypeDependentFields` of `pkg/registry/core/service`).

use serde_json::{Value, json};

use super::{
    row::{JudgedAsNew, Strategy},
    warnings::{address, addresses, annotation, items},
};
use crate::write::services::validate;
use crate::write::{part::Part, tree};
use builtins::endpoints;

pub(super) const SERVICES: Strategy = Strategy {
    storage: "services/specs",
    prepare_update: |part, old, new| {
        if part == Part::Main {
            drop_by_type(new, old);
        }
    },
    validate_update: |part, old, new| match part {
        Part::Status => validate::status(new, old),
        _ => Vec::new(),
    },
    warn: |_, new, warnings| warn(new, warnings),
    warn_status: |new, warnings| addresses(("status.loadBalancer.ingress", "", "ip"), new, warnings),
    ..Strategy::COMMON
};

/// Who made the endpoints of a Service: the addresses of controllers are in order.
const MANAGER: [&str; 3] = ["metadata", "labels", "endpoints.kubernetes.io/managed-by"];

pub(super) const ENDPOINTS: Strategy = Strategy {
    storage: "services/endpoints",
    judged_as_new: JudgedAsNew::Main,
    validate_create: endpoints::create,
    validate_update: |_, old, new| endpoints::update(old, new),
    warn: |_, new, warnings| warn_of_endpoints(new, warnings),
    ..Strategy::COMMON
};

const BALANCER: &str = "LoadBalancer";

/// Drops what the type does not need any more, if the client has not changed it, and the status of a load balancer that is none.
fn drop_by_type(new: &mut Value, old: &Value) {
    let of_type = |service: &Value, types: &[&str]| types.contains(&tree::text(service, &["spec", "type"]));
    let is_outside = |service: &Value| {
        let is_reached = !tree::texts(service, &["spec", "externalIPs"]).is_empty();
        of_type(service, &[BALANCER, "NodePort"]) || of_type(service, &["ClusterIP"]) && is_reached
    };
    let balances = |service: &Value| of_type(service, &[BALANCER]);
    drop_addresses(new, old);
    drop_ports(new, old);
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "externalTrafficPolicy"] {
        let is_needed = |service: &Value| if field == "externalTrafficPolicy" { is_outside(service) } else { balances(service) };
        let is_same = tree::at(new, &["spec", field]) == tree::at(old, &["spec", field]);
        if is_needed(old) && !is_needed(new) && is_same {
            tree::member(new, "spec").remove(field);
        }
    }
    if !balances(new) {
        tree::set(new, &["status", "loadBalancer"], json!({}));
    }
}

/// Drops the addresses of a Service that becomes a name outside, as far as the client has not changed them.
fn drop_addresses(new: &mut Value, old: &Value) {
    let is_outside = |service: &Value| tree::text(service, &["spec", "type"]) == "ExternalName";
    if is_outside(old) || !is_outside(new) {
        return;
    }
    let is_same =
        |new: &Value, fields: &[&str]| fields.iter().all(|field| tree::at(new, &["spec", field]) == tree::at(old, &["spec", field]));
    for fields in [&["clusterIP", "clusterIPs"][..], &["ipFamilies"], &["ipFamilyPolicy"]] {
        if is_same(new, fields) {
            fields.iter().for_each(|field| drop(tree::member(new, "spec").remove(*field)));
        }
    }
}

/// Drops the ports on nodes that the type does not have, if the client has named no other ones.
fn drop_ports(new: &mut Value, old: &Value) {
    let has_ports = |service: &Value| matches!(tree::text(service, &["spec", "type"]), BALANCER | "NodePort");
    let asks_health = |service: &Value| {
        let is_local = tree::text(service, &["spec", "externalTrafficPolicy"]) == "Local";
        tree::text(service, &["spec", "type"]) == BALANCER && is_local
    };
    let node_ports = |service: &Value| -> Vec<i64> {
        let ports = tree::at(service, &["spec", "ports"]).and_then(Value::as_array).into_iter().flatten();
        ports.filter_map(|port| tree::integer(port, &["nodePort"])).filter(|port| *port != 0).collect()
    };
    let before = node_ports(old);
    if has_ports(old) && !has_ports(new) && node_ports(new).iter().all(|port| before.contains(port)) {
        let ports = tree::member(new, "spec").get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
        ports.for_each(|port| drop(tree::object(port).remove("nodePort")));
    }
    let health = |service: &Value| tree::integer(service, &["spec", "healthCheckNodePort"]).unwrap_or(0);
    if asks_health(old) && !asks_health(new) && health(old) == health(new) {
        tree::member(new, "spec").remove("healthCheckNodePort");
    }
}

fn warn(service: &Value, warnings: &mut Vec<String>) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let spec = &service["spec"];
    let (kind, text) = (tree::text(spec, &["type"]), |name: &str| tree::text(spec, &[name]));
    let (external, is_headless) = (tree::texts(spec, &["externalIPs"]), kind == "ClusterIP" && text("clusterIP") == "None");
    if annotation(service, HINTS).is_some() {
        warnings.push(format!("annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"));
    }
    if !matches!(text("clusterIP"), "" | "None") {
        let all = tree::texts(spec, &["clusterIPs"]).into_iter().enumerate();
        warnings.extend(all.filter_map(|(i, ip)| address::of_address(&format!("spec.clusterIPs[{i}]"), ip)));
    }
    if is_headless {
        let ignored = [
            ("loadBalancerIP", !text("loadBalancerIP").is_empty()),
            ("externalIPs", !external.is_empty()),
            ("SessionAffinity", text("sessionAffinity") != "None"),
        ];
        warnings.extend(ignored.iter().filter(|(_, is)| *is).map(|(name, _)| format!("spec.{name} is ignored for headless services")));
    }
    warnings.extend(external.iter().enumerate().filter_map(|(i, ip)| address::of_address(&format!("spec.externalIPs[{i}]"), ip)));
    if !external.is_empty() && !is_headless && kind != "ExternalName" {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    warnings.extend(address::of_address("spec.loadBalancerIP", text("loadBalancerIP")));
    for (i, range) in tree::texts(spec, &["loadBalancerSourceRanges"]).into_iter().enumerate() {
        warnings.extend(address::of_range(&format!("spec.loadBalancerSourceRanges[{i}]"), range));
    }
    if kind == "ExternalName" && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !text("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text("trafficDistribution") == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
}

fn warn_of_endpoints(endpoints: &Value, warnings: &mut Vec<String>) {
    if tree::text(endpoints, &MANAGER) == "endpoint-controller" {
        return;
    }
    for (i, subset) in items(endpoints, &["subsets"]).enumerate() {
        for list in ["addresses", "notReadyAddresses"] {
            let all = items(subset, &[list]).enumerate();
            warnings
                .extend(all.filter_map(|(j, it)| address::of_address(&format!("subsets[{i}].{list}[{j}].ip"), tree::text(it, &["ip"]))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_type_does_not_need_goes() {
        let service = |kind: &str, class: &str| json!({"spec": {"type": kind, "loadBalancerClass": class, "externalTrafficPolicy": "Local"}, "status": {"loadBalancer": {"ingress": [{"ip": "1"}]}}});
        let after = |mut new: Value| {
            drop_by_type(&mut new, &service(BALANCER, "c"));
            new
        };
        let gone = json!({"loadBalancer": {}});
        assert_eq!(after(service("ClusterIP", "c")), json!({"spec": {"type": "ClusterIP"}, "status": gone}));
        assert_eq!(after(service("ClusterIP", "d"))["spec"]["loadBalancerClass"], json!("d"), "validation speaks of it");
        assert_eq!(after(service("NodePort", "c"))["spec"], json!({"type": "NodePort", "externalTrafficPolicy": "Local"}));
        assert_eq!(after(service(BALANCER, "c")), service(BALANCER, "c"));
    }

    #[test]
    fn what_was_allocated_goes_with_the_type_that_needs_it() {
        let service = |kind: &str, port: i64| {
            json!({"spec": {"type": kind, "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80, "nodePort": port}], "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000}})
        };
        let after = |mut new: Value| {
            drop_by_type(&mut new, &service(BALANCER, 30000));
            new["spec"].take()
        };
        let inside = after(service("ClusterIP", 30000));
        assert_eq!((&inside["ports"], inside.get("healthCheckNodePort")), (&json!([{"port": 80}]), None));
        assert_eq!(inside["clusterIP"], json!("10.0.0.1"));
        assert_eq!(after(service("ClusterIP", 30001))["ports"][0]["nodePort"], json!(30001), "validation speaks of it");
        assert_eq!(after(service("ExternalName", 30000)), json!({"type": "ExternalName", "ports": [{"port": 80}]}));
        let mut other = service("ExternalName", 30000);
        other["spec"]["clusterIP"] = json!("10.0.0.2");
        assert_eq!(after(other)["clusterIPs"], json!(["10.0.0.1"]), "validation speaks of it");
    }
}
