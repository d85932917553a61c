//! NetworkPolicies (`pkg/apis/networking/validation`).

use std::{collections::HashSet, net::IpAddr};

use serde_json::Value;

use crate::{
    FieldError, addresses,
    at::At,
    causes::Causes,
    labels::{self, SelectorOptions},
    names,
};

/// Directions, and what a rule of each calls its peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// What an update lets stand because it was there before.
#[derive(Debug, Default)]
struct Known<'v> {
    selector: SelectorOptions,
    ranges: HashSet<&'v str>,
}

/// What is wrong with a new NetworkPolicy.
pub fn create(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| spec(&At::root(object).member("spec"), &Known::default(), causes))
}

/// What is wrong with a changed NetworkPolicy.
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let old = At::root(old);
    let old = old.member("spec");
    let pods = old.member("podSelector");
    let was_wrong = !Causes::of(|causes| labels::selector(&pods, SelectorOptions::default(), causes)).is_empty();
    let selector = SelectorOptions { any_value: was_wrong, ..SelectorOptions::default() };
    let known = Known { selector, ranges: ranges(&old) };
    Causes::of(|causes| spec(&At::root(new).member("spec"), &known, causes))
}

/// Returns all ranges of a policy, with the exceptions.
fn ranges<'v>(spec: &At<'_, 'v>) -> HashSet<&'v str> {
    let mut found = HashSet::new();
    for (direction, peers) in DIRECTIONS {
        for rule in spec.member(direction).items() {
            for peer in rule.member(peers).items() {
                let block = peer.member("ipBlock");
                if block.is_absent() {
                    continue;
                }
                found.insert(block.member("cidr").text());
                found.extend(block.member("except").items().map(|except| except.text()));
            }
        }
    }
    found
}

fn spec(at: &At<'_, '_>, known: &Known<'_>, causes: &mut Causes) {
    labels::selector(&at.member("podSelector"), known.selector, causes);
    for (direction, peers) in DIRECTIONS {
        for rule in at.member(direction).items() {
            rule.member("ports").items().for_each(|port| self::port(&port, causes));
            rule.member(peers).items().for_each(|peer| self::peer(&peer, known, causes));
        }
    }
    let types = at.member("policyTypes");
    if types.len() > 2 {
        causes.invalid(&types, "may not specify more than two policyTypes");
        return;
    }
    for kind in types.items().filter(|kind| !matches!(kind.text(), "Ingress" | "Egress")) {
        causes.not_supported(&kind, &["Ingress", "Egress"]);
    }
}

fn port(at: &At<'_, '_>, causes: &mut Causes) {
    let (protocol, port, end) = (at.member("protocol"), at.member("port"), at.member("endPort"));
    if protocol.is_present() && !matches!(protocol.text(), "TCP" | "UDP" | "SCTP") {
        causes.not_supported(&protocol, &["TCP", "UDP", "SCTP"]);
    }
    match port.value() {
        Value::Null if end.is_present() => causes.invalid(&end, "may not be specified when `port` is not specified"),
        Value::Null => {}
        Value::String(name) => {
            if end.is_present() {
                causes.invalid(&end, "may not be specified when `port` is non-numeric");
            }
            causes.each_invalid(&port, names::port_name(name));
        }
        number => {
            causes.each_invalid(&port, names::port_number(port.integer()));
            if let Some(last) = end.some_integer() {
                if last < port.integer() {
                    causes.invalid_as(&end, number, "must be greater than or equal to `port`");
                }
                causes.each_invalid(&end, names::port_number(last));
            }
        }
    }
}

fn peer(at: &At<'_, '_>, known: &Known<'_>, causes: &mut Causes) {
    let (pods, namespaces, block) = (at.member("podSelector"), at.member("namespaceSelector"), at.member("ipBlock"));
    labels::selector(&pods, known.selector, causes);
    labels::selector(&namespaces, known.selector, causes);
    if block.is_present() {
        self::block(&block, known, causes);
    }
    let others = pods.is_present() || namespaces.is_present();
    match (others, block.is_present()) {
        (false, false) => causes.required(at, "must specify a peer"),
        (true, true) => causes.forbidden(at, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn block(at: &At<'_, '_>, known: &Known<'_>, causes: &mut Causes) {
    let range = at.member("cidr");
    if range.is_zero() {
        return causes.required(&range, "");
    }
    self::range(&range, known, causes);
    let Some(outer) = addresses::parse_network(range.text()) else { return };
    for except in at.member("except").items() {
        self::range(&except, known, causes);
        if addresses::parse_network(except.text()).is_some_and(|inner| !is_strictly_inside(inner, outer)) {
            causes.invalid(&except, "must be a strict subset of `cidr`");
        }
    }
}

/// A range, unless it was somewhere in the policy before.
fn range(at: &At<'_, '_>, known: &Known<'_>, causes: &mut Causes) {
    if !known.ranges.contains(at.text()) {
        let _ = addresses::legacy_network(at, causes);
    }
}

/// Whether a range begins inside of another one and is smaller.
fn is_strictly_inside(inner: (IpAddr, u32), outer: (IpAddr, u32)) -> bool {
    let first = |(address, length)| addresses::masked(address, length);
    let begins = first(inner);
    begins.is_ipv4() == outer.0.is_ipv4() && addresses::masked(begins, outer.1) == first(outer) && outer.1 < inner.1
}
