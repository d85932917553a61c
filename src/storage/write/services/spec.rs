//! The fields of a Service that allocation reads and writes.

use serde_json::{Value, json};

use crate::write::tree;

pub(super) const CLUSTER_IP: &str = "ClusterIP";
pub(super) const NODE_PORT: &str = "NodePort";
pub(super) const LOAD_BALANCER: &str = "LoadBalancer";
pub(super) const EXTERNAL_NAME: &str = "ExternalName";
/// The cluster IP of a headless Service.
pub(super) const NONE: &str = "None";
pub(super) const SINGLE_STACK: &str = "SingleStack";
pub(super) const PREFER_DUAL_STACK: &str = "PreferDualStack";
pub(super) const REQUIRE_DUAL_STACK: &str = "RequireDualStack";
pub(super) const IPV4: &str = "IPv4";
pub(super) const IPV6: &str = "IPv6";

/// What a Service says of its addresses and ports. A number that is absent is 0, a text or list that is absent is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spec {
    pub(super) kind: String,
    pub(super) cluster_ip: String,
    pub(super) cluster_ips: Vec<String>,
    pub(super) families: Vec<String>,
    pub(super) policy: Option<String>,
    pub(super) ports: Vec<Port>,
    pub(super) has_selector: bool,
    pub(super) balancer_ports: Option<bool>,
    pub(super) external_traffic: String,
    pub(super) health_port: i64,
}

/// One of the ports.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) protocol: String,
    pub(super) port: i64,
    pub(super) node_port: i64,
}

impl Spec {
    pub(super) fn of(service: &Value) -> Self {
        let text = |name: &str| tree::text(service, &["spec", name]).to_owned();
        let texts = |name: &str| tree::texts(service, &["spec", name]).into_iter().map(str::to_owned).collect();
        let ports = tree::at(service, &["spec", "ports"]).and_then(Value::as_array).into_iter().flatten();
        let selector = tree::at(service, &["spec", "selector"]).and_then(Value::as_object);
        Self {
            kind: text("type"),
            cluster_ip: text("clusterIP"),
            cluster_ips: texts("clusterIPs"),
            families: texts("ipFamilies"),
            policy: tree::at(service, &["spec", "ipFamilyPolicy"]).and_then(Value::as_str).map(str::to_owned),
            ports: ports.map(Port::of).collect(),
            has_selector: selector.is_some_and(|selector| !selector.is_empty()),
            balancer_ports: tree::at(service, &["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool),
            external_traffic: text("externalTrafficPolicy"),
            health_port: tree::integer(service, &["spec", "healthCheckNodePort"]).unwrap_or(0),
        }
    }

    /// Puts what is allocated into a Service, and nothing else.
    pub(super) fn write_into(&self, service: &mut Value) {
        let spec = tree::member(service, "spec");
        let mut put = |name: &str, value: Value, is_empty: bool| match is_empty {
            true => drop(spec.remove(name)),
            false => drop(spec.insert(name.to_owned(), value)),
        };
        put("clusterIP", json!(self.cluster_ip), self.cluster_ip.is_empty());
        put("clusterIPs", json!(self.cluster_ips), self.cluster_ips.is_empty());
        put("ipFamilies", json!(self.families), self.families.is_empty());
        put("ipFamilyPolicy", json!(self.policy), self.policy.is_none());
        put("healthCheckNodePort", json!(self.health_port), self.health_port == 0);
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
        for (found, port) in ports.zip(&self.ports) {
            match port.node_port {
                0 => drop(tree::object(found).remove("nodePort")),
                number => drop(tree::object(found).insert("nodePort".to_owned(), number.into())),
            }
        }
    }

    pub(super) fn is_external_name(&self) -> bool {
        self.kind == EXTERNAL_NAME
    }

    /// Whether its only cluster IP is `None`.
    pub(super) fn is_headless(&self) -> bool {
        self.cluster_ips == [NONE]
    }

    /// Whether its type may have node ports.
    pub(super) fn has_node_ports(&self) -> bool {
        matches!(&*self.kind, NODE_PORT | LOAD_BALANCER)
    }

    /// Whether ports that are not named are allocated.
    pub(super) fn allocates_node_ports(&self) -> bool {
        self.kind == NODE_PORT || self.kind == LOAD_BALANCER && self.balancer_ports.unwrap_or(true)
    }

    /// Whether load balancers ask nodes for its health.
    pub(super) fn needs_health_port(&self) -> bool {
        self.kind == LOAD_BALANCER && self.external_traffic == "Local"
    }

    pub(super) fn node_ports(&self) -> impl Iterator<Item = i64> {
        self.ports.iter().map(|port| port.node_port).filter(|number| *number != 0)
    }

    /// All node ports that it holds, of its health too.
    pub(super) fn held_ports(&self) -> Vec<i64> {
        let health = Some(self.health_port).filter(|number| self.needs_health_port() && *number > 0);
        self.node_ports().chain(health).collect()
    }

    /// The addresses that it holds.
    pub(super) fn held_addresses(&self) -> Vec<String> {
        if self.is_external_name() || self.cluster_ips.first().is_some_and(|ip| ip == NONE) { Vec::new() } else { self.cluster_ips.clone() }
    }

    /// The cluster IPs as errors show them.
    pub(super) fn shown_ips(&self) -> Value {
        if self.cluster_ips.is_empty() { Value::Null } else { json!(self.cluster_ips) }
    }
}

impl Port {
    fn of(port: &Value) -> Self {
        let text = |name: &str| tree::text(port, &[name]).to_owned();
        let number = |name: &str| tree::integer(port, &[name]).unwrap_or(0);
        Self { name: text("name"), protocol: text("protocol"), port: number("port"), node_port: number("nodePort") }
    }
}
