//! Ingresses, network policies and addresses.

use serde_json::Value;

use super::{
    row::{JudgedAsNew, RESET_FOR_STATUS, StatusMetadata, Strategy},
    warnings::{address, addresses, annotation, at, items},
};
use crate::write::{part::Part, tree};
use builtins::{ingress, ip_range, network_policy};
use go::quote::quoted;

pub(super) const INGRESSES: Strategy = Strategy {
    storage: "ingress",
    judged_as_new: JudgedAsNew::Main,
    validate_create: ingress::create,
    validate_update: |part, old, new| match part {
        Part::Status => ingress::update_status(old, new),
        _ => ingress::update(old, new),
    },
    warn: warn_of_class,
    warn_status: |new, warnings| addresses(("status.loadBalancer.ingress", "", "ip"), new, warnings),
    ..Strategy::COMMON
};

pub(super) const INGRESS_CLASSES: Strategy = Strategy {
    storage: "ingressclasses",
    judged_as_new: JudgedAsNew::Main,
    validate_create: ingress::create_class,
    validate_update: |_, old, new| ingress::update_class(old, new),
    ..Strategy::COMMON
};

pub(super) const IP_ADDRESSES: Strategy = Strategy {
    storage: "ipaddresses",
    judged_as_new: JudgedAsNew::Main,
    validate_create: ip_range::create_address,
    validate_update: |_, old, new| ip_range::update_address(old, new),
    ..Strategy::COMMON
};

pub(super) const SERVICE_CIDRS: Strategy = Strategy {
    storage: "servicecidrs",
    status_metadata: StatusMetadata::Without(RESET_FOR_STATUS),
    validate_create: ip_range::create_service_range,
    validate_update: |part, old, new| match part {
        Part::Main => ip_range::update_service_range(old, new),
        _ => Vec::new(),
    },
    ..Strategy::COMMON
};

pub(super) const NETWORK_POLICIES: Strategy = Strategy {
    storage: "networkpolicies",
    validate_create: network_policy::create,
    validate_update: |_, old, new| network_policy::update(old, new),
    warn: warn_of_ranges,
    ..Strategy::COMMON
};

fn warn_of_class(old: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
    const CLASS: &str = "kubernetes.io/ingress.class";
    if old.is_none() && annotation(new, CLASS).is_some() && at(new, "spec.ingressClassName").is_none() {
        warnings.push(format!("annotation {} is deprecated, please use 'spec.ingressClassName' instead", quoted(CLASS)));
    }
}

fn warn_of_ranges(_: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in items(new, &["spec", rules]).enumerate() {
            for (j, peer) in items(rule, &[peers]).enumerate().filter(|(_, peer)| tree::at(peer, &["ipBlock"]).is_some()) {
                let path = format!("spec.{rules}[{i}].{peers}[{j}].ipBlock");
                warnings.extend(address::of_range(&format!("{path}.cidr"), tree::text(peer, &["ipBlock", "cidr"])));
                for (k, except) in tree::texts(peer, &["ipBlock", "except"]).into_iter().enumerate() {
                    warnings.extend(address::of_range(&format!("{path}.except[{k}]"), except));
                }
            }
        }
    }
}
