//! What is wrong with a Service besides its metadata (`validateService`, and what `ValidateServiceUpdate` adds).

use std::{collections::HashSet, net::IpAddr};

use serde_json::{Value, json};

use super::{
    families::{changed, related, wrong_ip},
    spec::{CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, Spec},
};
use crate::write::{kinds::warnings::address, metadata, tree};
use catalogue::NameRule;
use model::{
    invalid::{FieldError, FieldErrorKind},
    legal,
};

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
/// Longest time for which a client stays with its Pod, in seconds.
const AFFINITY_MAX: i64 = 86_400;

/// A Service, and what is found wrong with it.
struct Judged<'a> {
    service: &'a Value,
    old: Option<&'a Value>,
    spec: Spec,
    wrong: Vec<FieldError>,
}

pub(super) fn service(service: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut judged = Judged { service, old, spec: Spec::of(service), wrong: Vec::new() };
    if let Some(old) = old.map(Spec::of) {
        judged.wrong.extend(changed(&judged.spec, &old));
        judged.updated_balancer(&old);
    }
    judged.annotations();
    judged.kind();
    judged.ports();
    judged.selector();
    judged.affinity();
    let before = old.map(Spec::of);
    judged.wrong.extend(related(&judged.spec, before.as_ref()));
    judged.external_ips();
    judged.type_itself();
    judged.duplicates();
    judged.sources();
    judged.balancer();
    judged.traffic();
    judged.wrong
}

/// What is wrong with the status of a load balancer (`ValidateServiceStatusUpdate`).
pub(in crate::write) fn status(new: &Value, old: &Value) -> Vec<FieldError> {
    const INGRESS: &str = "status.loadBalancer.ingress";
    let ingress =
        |service: &Value| tree::at(service, &["status", "loadBalancer", "ingress"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let all = ingress(new);
    if tree::text(new, &["spec", "type"]) != LOAD_BALANCER && !all.is_empty() {
        return vec![FieldError::forbidden(INGRESS, "may only be used when `spec.type` is 'LoadBalancer'")];
    }
    let before = ingress(old);
    let known: HashSet<&str> = before.iter().map(|one| tree::text(one, &["ip"])).collect();
    let mut wrong = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let field = |name: &str| format!("{INGRESS}[{i}].{name}");
        let (ip, host, mode) = (tree::text(one, &["ip"]), tree::text(one, &["hostname"]), one.get("ipMode").and_then(Value::as_str));
        if !ip.is_empty() && !known.contains(ip) {
            wrong.extend(wrong_ip(ip).into_iter().map(|why| FieldError::invalid(field("ip"), &json!(ip), why)));
        }
        match mode {
            None if !ip.is_empty() => wrong.push(FieldError::required(field("ipMode"), "must be specified when `ip` is set")),
            Some(_) if ip.is_empty() => wrong.push(FieldError::forbidden(field("ipMode"), "may not be specified when `ip` is not set")),
            Some(mode) if !["Proxy", "VIP"].contains(&mode) => {
                wrong.push(FieldError::not_supported(field("ipMode"), &json!(mode), &["Proxy", "VIP"]));
            }
            _ => {}
        }
        if !host.is_empty() {
            wrong.extend(legal::wrong_subdomain(host).iter().map(|why| FieldError::invalid(field("hostname"), &json!(host), why)));
            if address::sloppy(host).is_some() {
                wrong.push(FieldError::invalid(field("hostname"), &json!(host), "must be a DNS name, not an IP address"));
            }
        }
    }
    wrong
}

impl Judged<'_> {
    fn text(&self, name: &str) -> &str {
        tree::text(self.service, &["spec", name])
    }

    fn at(&self, name: &str) -> Option<&Value> {
        tree::at(self.service, &["spec", name])
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        annotation(self.service, name)
    }

    fn texts(&self, name: &str) -> Vec<String> {
        tree::texts(self.service, &["spec", name]).into_iter().map(str::to_owned).collect()
    }

    fn before(&self, name: &str) -> HashSet<String> {
        self.old.map(|old| tree::texts(old, &["spec", name]).into_iter().map(|text| text.trim().to_owned()).collect()).unwrap_or_default()
    }

    /// An `Unsupported value` unless the text is one of these.
    fn one_of(&mut self, field: &str, value: &str, known: &[&str]) {
        if !known.contains(&value) {
            self.wrong.push(FieldError::not_supported(field, &json!(value), known));
        }
    }

    fn updated_balancer(&mut self, old: &Spec) {
        let class = |service: &Value| tree::at(service, &["spec", "loadBalancerClass"]).cloned().unwrap_or(Value::Null);
        let now = class(self.service);
        let stays = old.kind == LOAD_BALANCER && self.spec.kind == LOAD_BALANCER;
        if stays && self.old.is_some_and(|old| class(old) != now) {
            const FIELD: &str = "spec.loadBalancerClass";
            const FIXED: &str = "may not change once set";
            self.wrong.push(match now.as_str() {
                Some(now) => FieldError::invalid_json(FIELD, now, FIXED),
                None => FieldError::invalid(FIELD, &now, FIXED),
            });
        }
        self.balancer_class();
        if old.needs_health_port() && self.spec.needs_health_port() && old.health_port != self.spec.health_port {
            self.wrong.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
        }
    }

    fn balancer_class(&mut self) {
        const FIELD: &str = "spec.loadBalancerClass";
        let Some(class) = self.at("loadBalancerClass").and_then(Value::as_str).map(str::to_owned) else { return };
        if self.spec.kind == LOAD_BALANCER {
            self.wrong.extend(legal::wrong_key(&class).iter().map(|why| FieldError::invalid(FIELD, &json!(class), why)));
        } else {
            self.wrong.push(FieldError::forbidden(FIELD, ONLY_BALANCER));
        }
    }

    fn annotations(&mut self) {
        if let (Some(mode), Some(hints)) = (self.annotation(MODE), self.annotation(HINTS))
            && mode != hints
        {
            let why = format!("must match annotations[{HINTS}] when both are specified");
            let error = FieldError::invalid(format!("metadata.annotations[{MODE}]"), &json!(mode), &why);
            self.wrong.push(error);
        }
    }

    fn kind(&mut self) {
        let (kind, is_headless) = (self.spec.kind.clone(), self.spec.is_headless());
        if self.spec.ports.is_empty() && !is_headless && kind != EXTERNAL_NAME {
            self.wrong.push(FieldError::required("spec.ports", ""));
        }
        if matches!(&*kind, LOAD_BALANCER | NODE_PORT) && is_headless {
            let why = format!("may not be set to 'None' for {kind} services");
            self.wrong.push(FieldError::invalid("spec.clusterIPs[0]", &json!("None"), &why));
        }
        if kind != EXTERNAL_NAME {
            return;
        }
        let set = [
            ("clusterIPs", !self.spec.cluster_ips.is_empty()),
            ("ipFamilies", !self.spec.families.is_empty()),
            ("ipFamilyPolicy", self.spec.policy.is_some()),
        ];
        let set = set.iter().filter(|(_, is_set)| *is_set);
        self.wrong.extend(set.map(|(name, _)| FieldError::forbidden(format!("spec.{name}"), "may not be set for ExternalName services")));
        let name = self.text("externalName").to_owned();
        let name = name.strip_suffix('.').unwrap_or(&name);
        if name.is_empty() {
            self.wrong.push(FieldError::required("spec.externalName", ""));
        } else {
            let why = legal::wrong_subdomain(name);
            self.wrong.extend(why.iter().map(|why| FieldError::invalid("spec.externalName", &json!(name), why)));
        }
    }

    fn ports(&mut self) {
        let ports = self.at("ports").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut names: HashSet<&str> = HashSet::new();
        for (i, port) in ports.iter().enumerate() {
            let field = |name: &str| format!("spec.ports[{i}].{name}");
            let text = |name: &str| tree::text(port, &[name]);
            let name = text("name");
            if name.is_empty() {
                if ports.len() > 1 {
                    self.wrong.push(FieldError::required(field("name"), ""));
                }
            } else {
                let why = metadata::wrong_name(NameRule::Label, name, false);
                self.wrong.extend(why.iter().map(|why| FieldError::invalid(field("name"), &json!(name), why)));
                if !names.insert(name) {
                    self.wrong.push(FieldError::duplicate(field("name"), &json!(name)));
                }
            }
            let number = tree::integer(port, &["port"]).unwrap_or(0);
            self.wrong.extend(wrong_number(number).map(|why| FieldError::invalid(field("port"), &json!(number), why)));
            match text("protocol") {
                "" => self.wrong.push(FieldError::required(field("protocol"), "")),
                protocol => self.one_of(&field("protocol"), protocol, &["SCTP", "TCP", "UDP"]),
            }
            let target = port.get("targetPort").cloned().unwrap_or(json!(0));
            self.wrong.extend(wrong_target(&target).into_iter().map(|why| FieldError::invalid(field("targetPort"), &target, why)));
            if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
                let why = legal::wrong_key(protocol);
                self.wrong.extend(why.iter().map(|why| FieldError::invalid(field("appProtocol"), &json!(protocol), why)));
            }
        }
    }

    fn selector(&mut self) {
        let selector = self.at("selector").and_then(Value::as_object).cloned().unwrap_or_default();
        for (key, value) in &selector {
            let error = |text: &str, why: &String| FieldError::invalid("spec.selector", &json!(text), why);
            self.wrong.extend(legal::wrong_key(key).iter().map(|why| error(key, why)));
            let value = value.as_str().unwrap_or_default();
            self.wrong.extend(legal::wrong_value(value).iter().map(|why| error(value, why)));
        }
    }

    fn affinity(&mut self) {
        const CONFIG: &str = "spec.sessionAffinityConfig";
        let (affinity, config) = (self.text("sessionAffinity").to_owned(), self.at("sessionAffinityConfig").cloned());
        match &*affinity {
            "" => self.wrong.push(FieldError::required("spec.sessionAffinity", "")),
            kind => self.one_of("spec.sessionAffinity", kind, &["ClientIP", "None"]),
        }
        if affinity == "None" && config.is_some() {
            self.wrong.push(FieldError::forbidden(CONFIG, "must not be set when session affinity is None"));
        }
        if affinity != "ClientIP" {
            return;
        }
        let missing = |field: String| FieldError::required(field, "when session affinity type is ClientIP");
        let client = config.as_ref().map(|config| config.get("clientIP").filter(|client| !client.is_null()));
        let timeout = client.map(|client| client.map(|client| client.get("timeoutSeconds").and_then(Value::as_i64)));
        match timeout {
            None => self.wrong.push(missing(CONFIG.to_owned())),
            Some(None) => self.wrong.push(missing(format!("{CONFIG}.clientIP"))),
            Some(Some(None)) => self.wrong.push(missing(format!("{CONFIG}.clientIP.timeoutSeconds"))),
            Some(Some(Some(timeout))) if !(1..=AFFINITY_MAX).contains(&timeout) => {
                let why = format!("must be greater than 0 and less than {AFFINITY_MAX}");
                self.wrong.push(FieldError::invalid(format!("{CONFIG}.clientIP.timeoutSeconds"), &json!(timeout), &why));
            }
            Some(Some(Some(_))) => {}
        }
    }

    fn external_ips(&mut self) {
        let known = self.before("externalIPs");
        for (i, text) in self.texts("externalIPs").iter().enumerate() {
            let why = if known.contains(text) { Vec::new() } else { wrong_ip(text) };
            let why: Vec<String> = if why.is_empty() { wrong_endpoint(text) } else { why.into_iter().map(str::to_owned).collect() };
            self.wrong.extend(why.iter().map(|why| FieldError::invalid(format!("spec.externalIPs[{i}]"), &json!(text), why)));
        }
    }

    fn type_itself(&mut self) {
        let kind = self.spec.kind.clone();
        match &*kind {
            "" => self.wrong.push(FieldError::required("spec.type", "")),
            kind => self.one_of("spec.type", kind, &[CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT]),
        }
        if kind == CLUSTER_IP {
            let odd = self.spec.ports.iter().enumerate().filter(|(_, port)| port.node_port != 0);
            let errors =
                odd.map(|(i, _)| FieldError::forbidden(format!("spec.ports[{i}].nodePort"), "may not be used when `type` is 'ClusterIP'"));
            self.wrong.extend(errors.collect::<Vec<_>>());
        }
    }

    fn duplicates(&mut self) {
        let ports = &self.spec.ports;
        let mut node_ports = HashSet::new();
        for (i, port) in ports.iter().enumerate().filter(|(_, port)| port.node_port != 0) {
            if !node_ports.insert((&port.protocol, port.node_port)) {
                self.wrong.push(FieldError::duplicate(format!("spec.ports[{i}].nodePort"), &json!(port.node_port)));
            }
        }
        let mut numbers = HashSet::new();
        for (i, port) in ports.iter().enumerate() {
            if !numbers.insert((&port.protocol, port.port)) {
                // Go shows a port with nothing else, in the order of its members.
                let protocol = json!(port.protocol);
                let message = format!(
                    r#"Duplicate value: {{"Name":"","Protocol":{protocol},"AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}"#,
                    port.port
                );
                self.wrong.push(FieldError { field: format!("spec.ports[{i}]"), kind: FieldErrorKind::Duplicate, message });
            }
        }
    }

    fn sources(&mut self) {
        const FIELD: &str = "spec.LoadBalancerSourceRanges";
        let ranges = self.texts("loadBalancerSourceRanges");
        let is_balancer = self.spec.kind == LOAD_BALANCER;
        if !ranges.is_empty() {
            if !is_balancer {
                self.wrong.push(FieldError::forbidden(FIELD, ONLY_BALANCER));
            }
            let known = self.before("loadBalancerSourceRanges");
            for (i, range) in ranges.iter().map(|range| range.trim()).enumerate().filter(|(_, range)| !known.contains(*range)) {
                self.wrong.extend(wrong_range(range).map(|why| FieldError::invalid(format!("{FIELD}[{i}]"), &json!(range), why)));
            }
            return;
        }
        let Some(ranges) = self.annotation(SOURCES).map(str::to_owned) else { return };
        let field = format!("metadata.annotations[{SOURCES}]");
        if !is_balancer {
            self.wrong.push(FieldError::forbidden(&field, ONLY_BALANCER));
        }
        let is_known = self.old.and_then(|old| annotation(old, SOURCES)).is_some_and(|old| old == ranges);
        if !is_known && !ranges.trim().is_empty() {
            for range in ranges.trim().split(',').map(str::trim) {
                self.wrong.extend(wrong_range(range).map(|why| FieldError::invalid(&field, &json!(range), why)));
            }
        }
    }

    fn balancer(&mut self) {
        match (self.spec.balancer_ports, self.spec.kind == LOAD_BALANCER) {
            (Some(_), false) => self.wrong.push(FieldError::forbidden("spec.allocateLoadBalancerNodePorts", ONLY_BALANCER)),
            (None, true) => self.wrong.push(FieldError::required("allocateLoadBalancerNodePorts", "")),
            _ => {}
        }
        self.balancer_class();
    }

    fn traffic(&mut self) {
        const POLICIES: [&str; 2] = ["Cluster", "Local"];
        let has_external_ips = !self.texts("externalIPs").is_empty();
        let is_reached = self.spec.has_node_ports() || self.spec.kind == CLUSTER_IP && has_external_ips;
        let outside = self.spec.external_traffic.clone();
        match (is_reached, &*outside) {
            (false, "") => {}
            (false, policy) => {
                let why = "may only be set for externally-accessible services";
                self.wrong.push(FieldError::invalid("spec.externalTrafficPolicy", &json!(policy), why));
            }
            (true, "") => self.wrong.push(FieldError::required("spec.externalTrafficPolicy", "")),
            (true, policy) => self.one_of("spec.externalTrafficPolicy", policy, &POLICIES),
        }
        const HEALTH: &str = "spec.healthCheckNodePort";
        match (self.spec.needs_health_port(), self.spec.health_port) {
            (false, 0) => {}
            (false, port) => {
                let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
                self.wrong.push(FieldError::invalid(HEALTH, &json!(port), why));
            }
            (true, 0) => self.wrong.push(FieldError::required(HEALTH, "")),
            (true, port) => self.wrong.extend(wrong_number(port).map(|why| FieldError::invalid(HEALTH, &json!(port), why))),
        }
        match self.at("internalTrafficPolicy").and_then(Value::as_str).map(str::to_owned) {
            None if matches!(&*self.spec.kind, NODE_PORT | LOAD_BALANCER | CLUSTER_IP) => {
                self.wrong.push(FieldError::required("spec.internalTrafficPolicy", ""));
            }
            None => {}
            Some(policy) => self.one_of("spec.internalTrafficPolicy", &policy, &POLICIES),
        }
        const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        if let Some(distribution) = self.at("trafficDistribution").and_then(Value::as_str).filter(|text| !DISTRIBUTIONS.contains(text)) {
            let error = FieldError::not_supported_text("spec.trafficDistribution", distribution, &DISTRIBUTIONS);
            self.wrong.push(error);
        }
    }
}

fn annotation<'a>(service: &'a Value, name: &str) -> Option<&'a str> {
    tree::at(service, &["metadata", "annotations", name]).and_then(Value::as_str)
}

fn wrong_number(port: i64) -> Option<&'static str> {
    (!(1..=65535).contains(&port)).then_some("must be between 1 and 65535, inclusive")
}

/// Why a text or a number is no target port.
fn wrong_target(target: &Value) -> Vec<&'static str> {
    let Some(name) = target.as_str() else { return wrong_number(target.as_i64().unwrap_or(0)).into_iter().collect() };
    let wrong = [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() && !byte.is_ascii_uppercase() || byte == b'-'),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    wrong.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, why)| why).collect()
}

/// Why packets to this address do not come to Services (`ValidateEndpointIP`).
fn wrong_endpoint(text: &str) -> Vec<String> {
    let Some(ip) = address::sloppy(text).map(|ip| ip.to_canonical()) else { return vec!["must be a valid IP address".to_owned()] };
    let (is_near, is_near_group) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    let wrong = [
        (ip.is_unspecified(), format!("may not be unspecified ({text})")),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (is_near, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (is_near_group, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()),
    ];
    wrong.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, why)| why).collect()
}

/// Why a text is no range for a field that was once read more loosely (`IsValidCIDRForLegacyField`).
fn wrong_range(text: &str) -> Option<&'static str> {
    let Some((network, length, bits)) = address::range(text) else {
        return Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    };
    let strict = text.split_once('/').and_then(|(ip, length)| Some((ip.parse::<IpAddr>().ok()?, length)));
    match strict {
        Some((_, length)) if length.len() > 1 && length.starts_with('0') => Some("must not have leading 0s in IP or prefix length"),
        None => Some("must not have leading 0s in IP or prefix length"),
        Some((IpAddr::V6(ip), _)) if ip.to_ipv4_mapped().is_some() => Some("must not have an IPv4-mapped IPv6 address"),
        Some(_) if address::masked(network, length, bits) != network => Some("must not have bits set beyond the prefix length"),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Services that kube-apiserver 1.36.3 has judged. Go looks at the entries of a selector in any order.
    #[test]
    fn recorded_cases() {
        for line in include_str!("recorded.jsonl").lines() {
            let case: Value = serde_json::from_str(line).expect("a case is JSON");
            let errors = match (case["op"].as_str(), case.get("old")) {
                (Some("Service/status"), Some(old)) => status(&case["object"], old),
                (_, old) => service(&case["object"], old),
            };
            let text = |error: &FieldError| format!("{}|{}: {}", error.kind.cause(), error.field, error.message);
            let mut found: Vec<String> = errors.iter().map(text).collect();
            let mut wanted: Vec<String> = serde_json::from_value(case["errors"].clone()).expect("errors are texts");
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{line}");
        }
    }
}
