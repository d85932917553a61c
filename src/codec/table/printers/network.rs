//! The rows of services, endpoints, ingresses, policies and addresses.

use std::collections::BTreeSet;

use super::Printer;
use crate::table::{
    cell::{NONE, Row, UNSET, first_three, joined, labels, scalar, selector_or_none},
    node::Node,
};

const fn printer(print: fn(&Node<'_>, &mut Row<'_>)) -> Printer {
    Printer { paths: &[], print }
}

pub(super) const PRINTERS: &[(&str, Printer)] = &[
    ("/services", printer(service)),
    ("/endpoints", printer(endpoints)),
    ("discovery.k8s.io/endpointslices", printer(endpoint_slice)),
    ("networking.k8s.io/ingresses", printer(ingress)),
    ("networking.k8s.io/ingressclasses", printer(ingress_class)),
    ("networking.k8s.io/networkpolicies", printer(network_policy)),
    ("networking.k8s.io/servicecidrs", printer(service_cidr)),
    ("networking.k8s.io/ipaddresses", printer(ip_address)),
];

fn service(object: &Node<'_>, row: &mut Row<'_>) {
    let spec = object.at("spec");
    let cluster_ip = spec.at("clusterIPs").items().first().unwrap_or(spec.at("clusterIP")).text();
    let ports = joined(spec.at("ports").items().iter().map(service_port), ",");
    row.name(object).text(spec.at("type").text()).text_or(cluster_ip, NONE).text(&external_ip(object));
    row.text_or(&ports, NONE).age(object).text(&labels(spec.at("selector")));
}

fn service_port(port: &Node<'_>) -> String {
    let (number, protocol) = (port.at("port").int(), port.at("protocol").text());
    match port.at("nodePort").int() {
        node_port if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_ip(service: &Node<'_>) -> String {
    let spec = service.at("spec");
    let external = spec.at("externalIPs").items().iter().map(|ip| ip.text().to_owned());
    let (addresses, nothing) = match spec.at("type").text() {
        "ClusterIP" | "NodePort" => (external.collect::<Vec<_>>(), NONE),
        "LoadBalancer" => (balancers(service).into_iter().map(str::to_owned).chain(external).collect(), "<pending>"),
        "ExternalName" => return spec.at("externalName").text().to_owned(),
        _ => return "<unknown>".to_owned(),
    };
    if addresses.is_empty() { nothing.to_owned() } else { addresses.join(",") }
}

/// The addresses or names of the load balancers, each once, sorted.
fn balancers<'n>(object: &'n Node<'_>) -> BTreeSet<&'n str> {
    let ingress = object.path("status.loadBalancer.ingress").items();
    ingress.iter().map(|point| point.at("ip").text_or(point.at("hostname").text())).filter(|text| !text.is_empty()).collect()
}

fn endpoints(object: &Node<'_>, row: &mut Row<'_>) {
    let subsets = object.at("subsets").items();
    let all = subsets.iter().flat_map(addresses);
    let text = if subsets.is_empty() { NONE.to_owned() } else { first_three(all) };
    row.name(object).text(&text).age(object);
}

/// Each port with each address; without ports the addresses alone.
fn addresses(subset: &Node<'_>) -> Vec<String> {
    let ips = || subset.at("addresses").items().iter().map(|address| address.at("ip").text());
    match subset.at("ports").items() {
        [] => ips().map(str::to_owned).collect(),
        ports => ports.iter().flat_map(|port| ips().map(|ip| host_port(ip, port.at("port").int()))).collect(),
    }
}

/// Go's `net.JoinHostPort`.
fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn endpoint_slice(object: &Node<'_>, row: &mut Row<'_>) {
    let ports = object.at("ports").items().iter().map(|port| match (port.at("port"), port.at("name")) {
        (Node::Int(number), _) => number.to_string(),
        (_, Node::Text(name)) => name.to_string(),
        _ => "*".to_owned(),
    });
    let addresses = object.at("endpoints").items().iter().flat_map(|endpoint| endpoint.at("addresses").items()).map(Node::text);
    row.name(object).text(object.at("addressType").text());
    row.text_or(&first_three(ports), UNSET).text_or(&first_three(addresses), UNSET).age(object);
}

fn ingress(object: &Node<'_>, row: &mut Row<'_>) {
    let spec = object.at("spec");
    let ports = if spec.at("tls").items().is_empty() { "80" } else { "80, 443" };
    row.name(object).pointer_or(spec.at("ingressClassName"), NONE).text(&hosts(spec.at("rules").items()));
    row.text(&joined(balancers(object), ",")).text(ports).age(object);
}

/// Three hosts; the number of the others counts the rules, also those without a host.
fn hosts(rules: &[Node<'_>]) -> String {
    const SHOWN: usize = 3;
    let mut shown = Vec::new();
    for rule in rules {
        if shown.len() == SHOWN {
            return format!("{} + {} more...", shown.join(","), rules.len() - SHOWN);
        }
        shown.extend(Some(rule.at("host").text()).filter(|host| !host.is_empty()));
    }
    if shown.is_empty() { "*".to_owned() } else { shown.join(",") }
}

fn ingress_class(object: &Node<'_>, row: &mut Row<'_>) {
    let name = object.path("metadata.name").text();
    let is_default = object.path("metadata.annotations").at("ingressclass.kubernetes.io/is-default-class").text() == "true";
    let parameters = object.path("spec.parameters");
    let parameters = match parameters.at("apiGroup") {
        _ if !parameters.is_there() => NONE.to_owned(),
        Node::Text(group) => format!("{}.{group}/{}", parameters.at("kind").text(), parameters.at("name").text()),
        _ => format!("{}/{}", parameters.at("kind").text(), parameters.at("name").text()),
    };
    row.text(&if is_default { format!("{name} (default)") } else { name.to_owned() });
    row.text(object.path("spec.controller").text()).text(&parameters).age(object);
}

fn network_policy(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).text(&selector_or_none(object.path("spec.podSelector"))).age(object);
}

fn service_cidr(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).text(&joined(object.path("spec.cidrs").items().iter().map(scalar), ",")).age(object);
}

/// Three cells under two columns, as kube-apiserver has it.
fn ip_address(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).text(&parent(object.path("spec.parentRef"))).age(object);
}

/// `services/ns/name`, `gateways.gateway.networking.k8s.io/ns/name`.
fn parent(reference: &Node<'_>) -> String {
    if !reference.is_there() {
        return NONE.to_owned();
    }
    let (group, resource) = (reference.at("group").text(), reference.at("resource").text());
    let kind = if group.is_empty() { resource.to_lowercase() } else { format!("{resource}.{group}").to_lowercase() };
    let parts = [&*kind, reference.at("namespace").text(), reference.at("name").text()];
    let [kind, namespace, name] = parts;
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") }
}
