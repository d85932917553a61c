//! Endpoints and EndpointSlices (`pkg/apis/core/validation`, `pkg/apis/discovery/validation`).

use std::{collections::HashSet, net::IpAddr};

use serde_json::Value;

use crate::{FieldError, addresses, at::At, causes::Causes, equal::same, labels, meta, names};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const IMMUTABLE: &str = "field is immutable";
const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const TOPOLOGY_MAX: usize = 16;
const HINTS_MAX: usize = 8;

/// What is wrong with new Endpoints.
pub fn create(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| subsets(&At::root(object).member("subsets"), causes))
}

/// What is wrong with changed Endpoints. Subsets that stay as they were may be wrong.
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    unless_same(old, new, "subsets", create(new))
}

/// Returns the errors, but none if the member is as it was.
fn unless_same(old: &Value, new: &Value, member: &str, errors: Vec<FieldError>) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    if !errors.is_empty() && same(old.member(member).value(), new.member(member).value()) { Vec::new() } else { errors }
}

fn subsets(at: &At<'_, '_>, causes: &mut Causes) {
    for subset in at.items() {
        let (ready, others, ports) = (subset.member("addresses"), subset.member("notReadyAddresses"), subset.member("ports"));
        if ready.len() == 0 && others.len() == 0 {
            causes.required(&subset, "must specify `addresses` or `notReadyAddresses`");
        }
        ready.items().for_each(|address| self::address(&address, causes));
        others.items().for_each(|address| self::address(&address, causes));
        ports.items().for_each(|port| self::port(&port, ports.len() > 1, causes));
    }
}

fn address(at: &At<'_, '_>, causes: &mut Causes) {
    let (ip, host, node) = (at.member("ip"), at.member("hostname"), at.member("nodeName"));
    let _ = addresses::legacy_address(&ip, causes);
    if !host.is_zero() {
        meta::label(&host, causes);
    }
    if node.is_present() {
        meta::subdomain(&node, causes);
    }
    reachable(&ip, causes);
}

fn port(at: &At<'_, '_>, is_named: bool, causes: &mut Causes) {
    let (name, number, protocol) = (at.member("name"), at.member("port"), at.member("protocol"));
    if !name.is_zero() {
        meta::label(&name, causes);
    } else if is_named {
        causes.required(&name, "");
    }
    if let Some(why) = names::port_number(number.integer()) {
        causes.invalid_as(&number, &number.integer().into(), &why);
    }
    if protocol.is_zero() {
        causes.required(&protocol, "");
    } else if !PROTOCOLS.contains(&protocol.text()) {
        causes.not_supported(&protocol, &PROTOCOLS);
    }
    application(&at.member("appProtocol"), causes);
}

fn application(at: &At<'_, '_>, causes: &mut Causes) {
    if at.is_present() {
        causes.each_invalid(at, names::qualified(at.text()));
    }
}

/// An address that packets to a Service come to (`ValidateEndpointIP`).
pub(crate) fn reachable(at: &At<'_, '_>, causes: &mut Causes) {
    let Some(address) = addresses::parse(at.text()) else { return causes.invalid_text(at, "must be a valid IP address") };
    let (is_near, is_near_group) = match address {
        IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(address) => (address.is_unicast_link_local(), address.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        causes.invalid(at, &format!("may not be unspecified ({})", at.text()));
    }
    let wrong = [
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (is_near, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (is_near_group, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ];
    wrong.iter().filter(|(is_wrong, _)| *is_wrong).for_each(|(_, why)| causes.invalid(at, why));
}

/// What is wrong with a new EndpointSlice.
pub fn create_slice(object: &Value) -> Vec<FieldError> {
    let mut errors = slice_head(object);
    errors.extend(slice_endpoints(object));
    errors
}

/// What is wrong with a changed EndpointSlice. Endpoints that stay as they were may be wrong.
pub fn update_slice(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = slice_head(new);
    errors.extend(unless_same(old, new, "endpoints", slice_endpoints(new)));
    let root = At::root(new);
    let kind = root.member("addressType");
    if At::root(old).member("addressType").text() != kind.text() {
        errors.extend(Causes::of(|causes| causes.invalid_json(&kind, IMMUTABLE)));
    }
    errors
}

/// What is wrong with the type of the addresses and with the ports.
fn slice_head(object: &Value) -> Vec<FieldError> {
    const KINDS: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
    let root = At::root(object);
    let (kind, ports) = (root.member("addressType"), root.member("ports"));
    Causes::of(|causes| {
        if kind.is_zero() {
            causes.required(&kind, "");
        } else if !KINDS.contains(&kind.text()) {
            causes.not_supported(&kind, &KINDS);
        }
        slice_ports(&ports, causes);
    })
}

fn slice_ports(at: &At<'_, '_>, causes: &mut Causes) {
    if at.len() > PORTS_MAX {
        return causes.too_many(at, PORTS_MAX);
    }
    let mut known = HashSet::new();
    for port in at.items() {
        let (name, protocol) = (port.member("name"), port.member("protocol"));
        if !name.is_zero() {
            meta::label(&name, causes);
        }
        if !known.insert(name.text()) {
            causes.duplicate_shown(&name, "string", "");
        }
        if protocol.is_absent() {
            causes.required(&protocol, "");
        } else if !PROTOCOLS.contains(&protocol.text()) {
            causes.not_supported(&protocol, &PROTOCOLS);
        }
        application(&port.member("appProtocol"), causes);
    }
}

fn slice_endpoints(object: &Value) -> Vec<FieldError> {
    let root = At::root(object);
    let (kind, endpoints) = (root.member("addressType"), root.member("endpoints"));
    Causes::of(|causes| {
        if endpoints.len() > ENDPOINTS_MAX {
            return causes.too_many(&endpoints, ENDPOINTS_MAX);
        }
        endpoints.items().for_each(|endpoint| self::endpoint(&endpoint, kind.text(), causes));
    })
}

fn endpoint(at: &At<'_, '_>, kind: &str, causes: &mut Causes) {
    let (addresses, node, topology) = (at.member("addresses"), at.member("nodeName"), at.member("deprecatedTopology"));
    match addresses.len() {
        0 => causes.required(&addresses, "must contain at least 1 address"),
        1..=ADDRESSES_MAX => {}
        _ => causes.too_many(&addresses, ADDRESSES_MAX),
    }
    addresses.items().for_each(|address| slice_address(&addresses, &address, kind, causes));
    if node.is_present() {
        meta::subdomain(&node, causes);
    }
    if topology.len() > TOPOLOGY_MAX {
        causes.too_many(&topology, TOPOLOGY_MAX);
    }
    labels::labels(&topology, causes);
    let (host, hints) = (at.member("hostname"), at.member("hints"));
    if host.is_present() {
        meta::label(&host, causes);
    }
    self::hints(&hints, causes);
}

/// An address of a type that is known; those of others are not judged.
fn slice_address(all: &At<'_, '_>, at: &At<'_, '_>, kind: &str, causes: &mut Causes) {
    let before = causes.len();
    let (is_right, why) = match kind {
        "IPv4" => {
            let address = addresses::legacy_address(at, causes);
            (address.is_some_and(|address| address.is_ipv4()), "must be an IPv4 address")
        }
        "IPv6" => {
            addresses::address(at, causes);
            (addresses::parse(at.text()).is_some_and(|address| address.is_ipv6()), "must be an IPv6 address")
        }
        "FQDN" => return domain(at, causes),
        _ => return,
    };
    if causes.len() > before {
        return;
    }
    if !is_right {
        causes.invalid(&all.with(at.value()), why);
    }
    reachable(at, causes);
}

/// A domain of two parts at least, which may end in a dot (`IsFullyQualifiedDomainName`).
fn domain(at: &At<'_, '_>, causes: &mut Causes) {
    if at.is_zero() {
        return causes.required(at, "");
    }
    let name = at.text().strip_suffix('.').unwrap_or(at.text());
    let shown = |text: &str| Value::from(text);
    let why = names::subdomain(name);
    if !why.is_empty() {
        return causes.invalid_as(at, &shown(name), &why.join(","));
    }
    if !name.contains('.') {
        return causes.invalid_as(at, &shown(name), "should be a domain with at least two segments separated by dots");
    }
    let wrong = name.split('.').map(|label| (label, names::label(label))).find(|(_, why)| !why.is_empty());
    if let Some((label, why)) = wrong {
        causes.invalid_as(at, &shown(label), &why.join(","));
    }
}

fn hints(at: &At<'_, '_>, causes: &mut Causes) {
    for (list, judge) in [("forZones", names::label_value as fn(&str) -> Vec<String>), ("forNodes", names::subdomain)] {
        let targets = at.member(list);
        if targets.len() > HINTS_MAX {
            return causes.too_many(&targets, HINTS_MAX);
        }
        let mut known = HashSet::new();
        for target in targets.items() {
            let name = target.member("name");
            if !known.insert(name.text()) {
                causes.duplicate(&name.with(&name.text().into()));
            }
            judge(name.text()).iter().for_each(|why| causes.invalid_text(&name, why));
        }
    }
}
