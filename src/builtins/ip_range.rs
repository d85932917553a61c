//! IPAddresses and ServiceCIDRs (`pkg/apis/networking/validation`).

use serde_json::Value;

use crate::{FieldError, addresses, at::At, causes::Causes, ingress::path_segment, names};

const IMMUTABLE: &str = "field is immutable";

/// What is wrong with a new IPAddress.
pub fn create_address(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| parent(&At::root(object).member("spec").member("parentRef"), causes))
}

/// What is wrong with a changed IPAddress.
pub fn update_address(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, new) = (old.member("spec"), new.member("spec"));
    let (old, new) = (old.member("parentRef"), new.member("parentRef"));
    let names = ["group", "resource", "namespace", "name"];
    let is_same = names.iter().all(|name| old.member(name).text() == new.member(name).text());
    Causes::of(|causes| {
        parent(&new, causes);
        if !is_same || old.is_present() != new.is_present() {
            causes.invalid_shown(&new, "*networking.ParentReference", IMMUTABLE);
        }
    })
}

/// The object that an address belongs to.
fn parent(at: &At<'_, '_>, causes: &mut Causes) {
    if at.is_absent() {
        return causes.required(at, "");
    }
    let (group, namespace) = (at.member("group"), at.member("namespace"));
    if !group.is_zero() {
        causes.each_invalid(&group, names::subdomain(group.text()));
    }
    path_segment(&at.member("resource"), causes);
    path_segment(&at.member("name"), causes);
    if !namespace.is_zero() {
        causes.each_invalid(&namespace, names::path_segment(namespace.text()));
    }
}

/// What is wrong with a new ServiceCIDR.
pub fn create_service_range(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| spec(&At::root(object).member("spec"), causes))
}

/// What is wrong with a changed ServiceCIDR: a second range may be added, nothing else.
pub fn update_service_range(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, spec) = (old.member("spec"), new.member("spec"));
    let (old, new) = (old.member("cidrs"), spec.member("cidrs"));
    Causes::of(|causes| {
        let grows = (old.len(), new.len()) == (1, 2);
        if old.len() != new.len() && !grows {
            return causes.invalid(&new, IMMUTABLE);
        }
        let changed = old.items().zip(new.items()).filter(|(old, new)| old.text() != new.text());
        changed.for_each(|(_, new)| causes.invalid(&new, IMMUTABLE));
        if grows {
            self::spec(&spec, causes);
        }
    })
}

fn spec(at: &At<'_, '_>, causes: &mut Causes) {
    let ranges = at.member("cidrs");
    match ranges.len() {
        0 => return causes.required(&ranges, "at least one CIDR required"),
        1 | 2 => {}
        _ => return causes.invalid_shown(&ranges.with(at.value()), "networking.ServiceCIDRSpec", "may only hold up to 2 values"),
    }
    ranges.items().for_each(|range| addresses::network(&range, causes));
    let is_v4 = |index: usize| addresses::parse_network(ranges.item(index).text()).map(|(address, _)| address.is_ipv4());
    if ranges.len() == 2 && is_v4(0).is_some() && is_v4(0) == is_v4(1) {
        causes.invalid(&ranges, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64");
    }
}
