//! The fields of a Service that depend on each other: cluster IPs, families and their policy (`pkg/registry/core/service/storage`, and
//! `ValidateServiceClusterIPsRelatedFields`).

use std::{collections::HashSet, net::IpAddr};

use serde_json::{Value, json};

use super::spec::{IPV4, IPV6, LOAD_BALANCER, NODE_PORT, NONE, PREFER_DUAL_STACK, Port, REQUIRE_DUAL_STACK, SINGLE_STACK, Spec};
use crate::write::kinds::warnings::address::sloppy;
use model::invalid::FieldError;

const CLUSTER_IPS: &str = "spec.clusterIPs";
const FAMILIES: &str = "spec.ipFamilies";
const POLICY: &str = "spec.ipFamilyPolicy";

/// The families that the server has ranges of, that of the first range first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Families {
    pub(super) first: &'static str,
    pub(super) has_both: bool,
}

impl Families {
    fn has(self, family: &str) -> bool {
        family == self.first || self.has_both && [IPV4, IPV6].contains(&family)
    }
}

fn other(family: &str) -> &'static str {
    if family == IPV4 { IPV6 } else { IPV4 }
}

/// The family of an address; of what is none, the text that kube-apiserver has for that.
pub(super) fn family_of(ip: &str) -> &'static str {
    match sloppy(ip).map(|ip| ip.to_canonical()) {
        Some(IpAddr::V4(_)) => IPV4,
        Some(IpAddr::V6(_)) => IPV6,
        None => "unknown",
    }
}

/// Fills in what a Service that was stored by an older release does not say (`defaultOnReadService`).
pub(super) fn complete_stored(families: Families, spec: &mut Spec) {
    normalize(spec, None);
    if spec.is_external_name() || !spec.families.is_empty() {
        return;
    }
    let (policy, all) = if spec.cluster_ip == NONE {
        match spec.has_selector {
            true => (SINGLE_STACK, vec![families.first]),
            false => (REQUIRE_DUAL_STACK, vec![families.first, other(families.first)]),
        }
    } else {
        let all: Vec<&str> = spec.cluster_ips.iter().map(|ip| family_of(ip)).collect();
        match all.len() {
            0 => return,
            1 => (SINGLE_STACK, all),
            _ => (REQUIRE_DUAL_STACK, all),
        }
    };
    spec.policy = Some(policy.to_owned());
    spec.families = all.into_iter().map(str::to_owned).collect();
}

/// Keeps `clusterIPs` what `clusterIP` says (`normalizeClusterIPs`).
pub(super) fn normalize(new: &mut Spec, old: Option<&Spec>) {
    let Some(old) = old else {
        if !new.cluster_ip.is_empty() && new.cluster_ips.is_empty() {
            new.cluster_ips = vec![new.cluster_ip.clone()];
        }
        return;
    };
    if !old.cluster_ips.is_empty() && new.cluster_ips.is_empty() && old.cluster_ip == new.cluster_ip {
        new.cluster_ips.clone_from(&old.cluster_ips);
    }
    if old.cluster_ip != new.cluster_ip && old.cluster_ips == new.cluster_ips {
        new.cluster_ips = if new.cluster_ip.is_empty() { Vec::new() } else { vec![new.cluster_ip.clone()] };
    }
}

/// Puts back what was allocated and the client did not send (`patchAllocatedValues`).
pub(super) fn keep_allocated(new: &mut Spec, old: &Spec) {
    if !old.is_external_name() && !new.is_external_name() {
        if new.cluster_ip.is_empty() {
            new.cluster_ip.clone_from(&old.cluster_ip);
        }
        if new.cluster_ips.is_empty() {
            new.cluster_ips.clone_from(&old.cluster_ips);
        }
    }
    if old.allocates_node_ports() && new.allocates_node_ports() {
        let used: Vec<i64> = old.node_ports().filter(|number| new.node_ports().any(|other| other == *number)).collect();
        // Of two ports with one name the last one counts.
        let known = |port: &Port| old.ports.iter().rev().find(|before| before.name == port.name).map_or(0, |before| before.node_port);
        for port in new.ports.iter_mut().filter(|port| port.node_port == 0) {
            let before = known(port);
            if !used.contains(&before) {
                port.node_port = before;
            }
        }
    }
    if old.needs_health_port() && new.needs_health_port() && new.health_port == 0 {
        new.health_port = old.health_port;
    }
}

/// Whether nothing about addresses changes of a Service that is content with one family: it never gets or loses an address by itself.
pub(super) fn stays_as_it_is(new: &Spec, old: &Spec) -> bool {
    let prefers = |policy: &Option<String>| policy.as_deref() == Some(PREFER_DUAL_STACK);
    new.kind == old.kind
        && matches!(&*new.kind, "ClusterIP" | NODE_PORT | LOAD_BALANCER)
        && prefers(&new.policy)
        && (old.policy.is_none() || prefers(&old.policy))
        && new.cluster_ips == old.cluster_ips
        && new.families == old.families
}

/// Decides the policy and the families (`initIPFamilyFields`).
///
/// # Errors
/// What is wrong with them.
pub(super) fn decide(families: Families, new: &mut Spec, old: Option<&Spec>) -> Result<(), Vec<FieldError>> {
    if new.is_external_name() || old.is_some_and(|old| stays_as_it_is(new, old)) {
        return Ok(());
    }
    let is_free_form = new.cluster_ip == NONE && !new.has_selector;
    if new.policy.is_none() {
        let before = old.and_then(|old| old.policy.clone());
        new.policy = Some(before.unwrap_or_else(|| if is_free_form { REQUIRE_DUAL_STACK } else { SINGLE_STACK }.to_owned()));
    }
    unless(related(new, old))?;
    unless(contradictions(families, new, old))?;
    if is_free_form {
        if new.families.is_empty() {
            new.families.push(families.first.to_owned());
        }
        if new.families.len() < 2 && new.policy.as_deref() != Some(SINGLE_STACK) {
            new.families.push(other(&new.families[0]).to_owned());
        }
        return Ok(());
    }
    let mut wrong = Vec::new();
    if new.policy.as_deref() == Some(REQUIRE_DUAL_STACK) && !families.has_both {
        wrong.push(of_policy(new, "this cluster is not configured for dual-stack services"));
    }
    let missing = new.families.iter().enumerate().filter(|(_, family)| !families.has(family));
    wrong.extend(
        missing.map(|(i, family)| FieldError::invalid(format!("{FAMILIES}[{i}]"), &json!(family), "not configured on this cluster")),
    );
    unless(wrong)?;
    if new.families.is_empty() {
        new.families.push(families.first.to_owned());
    }
    if new.policy.as_deref() != Some(SINGLE_STACK) && new.families.len() == 1 && families.has_both {
        new.families.push(other(&new.families[0]).to_owned());
    }
    Ok(())
}

fn unless(wrong: Vec<FieldError>) -> Result<(), Vec<FieldError>> {
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// An error of the policy, which Go shows as JSON.
fn of_policy(new: &Spec, why: &str) -> FieldError {
    match &new.policy {
        Some(policy) => FieldError::invalid_json(POLICY, policy, why),
        None => FieldError::invalid(POLICY, &Value::Null, why),
    }
}

/// What contradicts the policy; addresses tell their family, and a second address goes with the policy that wants one.
fn contradictions(families: Families, new: &mut Spec, old: Option<&Spec>) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let is_single = new.policy.as_deref() == Some(SINGLE_STACK);
    if let Some(old) = old {
        if is_single {
            if old.cluster_ips == new.cluster_ips {
                new.cluster_ips.truncate(1);
            }
            if old.families == new.families {
                new.families.truncate(1);
            }
        } else {
            let is_less = |new: &[String], old: &[String]| !new.is_empty() && new.len() < old.len();
            if is_less(&new.cluster_ips, &old.cluster_ips) {
                wrong.push(of_policy(new, "must be 'SingleStack' to release the secondary cluster IP"));
            }
            if is_less(&new.families, &old.families) {
                wrong.push(of_policy(new, "must be 'SingleStack' to release the secondary IP family"));
            }
        }
    }
    if is_single {
        let several = |what: &str| format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
        if new.cluster_ips.len() == 2 {
            wrong.push(of_policy(new, &several("cluster IPs")));
        }
        if new.families.len() == 2 {
            wrong.push(of_policy(new, &several("IP families")));
        }
    }
    for (i, ip) in new.cluster_ips.iter().enumerate() {
        if ip == NONE {
            break;
        }
        let family = family_of(ip);
        if i < new.families.len() {
            continue;
        }
        if families.has(family) {
            new.families.push(family.to_owned());
        } else {
            let why = format!("{family} is not configured on this cluster");
            wrong.push(FieldError::invalid(format!("{CLUSTER_IPS}[{i}]"), &new.shown_ips(), &why));
        }
    }
    wrong
}

/// What is wrong with addresses, families and policy in themselves (`ValidateServiceClusterIPsRelatedFields`).
pub(super) fn related(new: &Spec, old: Option<&Spec>) -> Vec<FieldError> {
    if new.is_external_name() {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    let of_ips = |why: &str| FieldError::invalid(CLUSTER_IPS, &new.shown_ips(), why);
    match (new.cluster_ip.is_empty(), new.cluster_ips.first()) {
        (false, None) => wrong.push(FieldError::required(CLUSTER_IPS, "")),
        (false, Some(first)) if *first != new.cluster_ip => wrong.push(of_ips("first value must match `clusterIP`")),
        (true, Some(_)) => wrong.push(of_ips("must be empty when `clusterIP` is not specified")),
        _ => {}
    }
    let mut known = HashSet::new();
    for (i, family) in new.families.iter().enumerate() {
        let field = format!("{FAMILIES}[{i}]");
        if ![IPV4, IPV6].contains(&&**family) {
            wrong.push(FieldError::not_supported(&field, &json!(family), &[IPV4, IPV6]));
        }
        if !known.insert(family) {
            wrong.push(FieldError::duplicate(field, &json!(family)));
        }
    }
    const POLICIES: [&str; 3] = [PREFER_DUAL_STACK, REQUIRE_DUAL_STACK, SINGLE_STACK];
    if let Some(policy) = new.policy.as_deref().filter(|policy| !POLICIES.contains(policy)) {
        wrong.push(FieldError::not_supported(POLICY, &json!(policy), &POLICIES));
    }
    wrong.extend(wrong_ips(new, old));
    wrong
}

/// What is wrong with the addresses, alone and beside their families.
fn wrong_ips(new: &Spec, old: Option<&Spec>) -> Vec<FieldError> {
    let of_ips = |why: &str| FieldError::invalid(CLUSTER_IPS, &new.shown_ips(), why);
    let mut wrong = Vec::new();
    let known = old.map_or(&[][..], |old| &old.cluster_ips);
    let mut has_invalid = false;
    for (i, ip) in new.cluster_ips.iter().enumerate() {
        if i == 0 && ip == NONE {
            if new.cluster_ips.len() > 1 {
                has_invalid = true;
                wrong.push(of_ips("'None' must be the first and only value"));
            }
            continue;
        }
        let why = if known.contains(ip) { Vec::new() } else { wrong_ip(ip) };
        has_invalid |= !why.is_empty();
        wrong.extend(why.into_iter().map(|why| FieldError::invalid(format!("{CLUSTER_IPS}[{i}]"), &json!(ip), why)));
    }
    if new.cluster_ips.len() > 2 {
        wrong.push(of_ips("may only hold up to 2 values"));
    }
    if has_invalid {
        return wrong;
    }
    let read = if new.cluster_ips.iter().all(|ip| sloppy(ip).is_some()) { &new.cluster_ips[..] } else { &[] };
    let is_of = |family: &str| read.iter().any(|ip| family_of(ip) == family);
    if new.cluster_ips.len() > 1 {
        // One that is no address was there before.
        let unread = new.cluster_ips.iter().enumerate().find(|(_, ip)| sloppy(ip).is_none());
        if let Some((i, ip)) = unread {
            let why = format!("failed to check for dual stack with error:invalid IP[{i}]: {ip}");
            wrong.push(FieldError::internal(CLUSTER_IPS, &why));
        }
        if !(is_of(IPV4) && is_of(IPV6)) {
            wrong.push(of_ips("may specify no more than one IP for each IP family"));
        }
    }
    if !new.is_headless() {
        for (i, (ip, family)) in new.cluster_ips.iter().zip(&new.families).enumerate() {
            let is_wrong = match &**family {
                IPV4 => family_of(ip) == IPV6,
                IPV6 => family_of(ip) != IPV6,
                _ => false,
            };
            if is_wrong {
                let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
                wrong.push(FieldError::invalid(format!("{CLUSTER_IPS}[{i}]"), &json!(ip), &why));
            }
        }
    }
    wrong
}

/// Why a text is no address for a field that was once read more loosely (`IsValidIPForLegacyField`).
pub(super) fn wrong_ip(text: &str) -> Vec<&'static str> {
    if sloppy(text).is_none() {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"];
    }
    match text.parse::<IpAddr>() {
        Err(_) => vec!["must not have leading 0s"],
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => vec!["must not be an IPv4-mapped IPv6 address"],
        Ok(_) => Vec::new(),
    }
}

/// What an update may not change (`validateUpgradeDowngradeClusterIPs`, `validateUpgradeDowngradeIPFamilies`).
pub(super) fn changed(new: &Spec, old: &Spec) -> Vec<FieldError> {
    if new.is_external_name() || old.is_external_name() {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    let set = |what: &[String]| if what.is_empty() { Value::Null } else { json!(what) };
    let released = |what: &str| format!("must be set to 'SingleStack' when releasing the secondary {what}");
    let is_single = new.policy.as_deref() == Some(SINGLE_STACK);
    if !(old.is_headless() && new.is_headless()) {
        let at = |i: usize, why: &str| FieldError::invalid(format!("{CLUSTER_IPS}[{i}]"), &new.shown_ips(), why);
        let (before, now) = (&old.cluster_ips, &new.cluster_ips);
        if before.len() == now.len() {
            let moved = before.iter().zip(now).enumerate().filter(|(_, (before, now))| before != now);
            wrong.extend(moved.map(|(i, _)| at(i, "may not change once set")));
        } else {
            if before.len() > now.len() && now.is_empty() {
                wrong.push(at(0, "primary clusterIP can not be unset"));
            }
            if let (Some(before), Some(now)) = (before.first(), now.first())
                && before != now
            {
                wrong.push(at(0, "may not change once set"));
            }
            if before.len() > now.len() && now.len() == 1 && !is_single {
                wrong.push(of_policy(new, &released("clusterIP")));
            }
        }
    }
    if new.is_headless() || old.is_headless() {
        return wrong;
    }
    let first = format!("{FAMILIES}[0]");
    let (before, now) = (&old.families, &new.families);
    if before.len() == now.len() {
        let moved = before.iter().zip(now).filter(|(before, now)| before != now);
        wrong.extend(moved.map(|_| FieldError::invalid(&first, &set(now), "may not change once set")));
        return wrong;
    }
    if before.len() > now.len() && new.cluster_ips.is_empty() {
        wrong.push(FieldError::invalid(&first, &set(now), "primary ipFamily can not be unset"));
    }
    if let (Some(before), Some(now)) = (before.first(), now.first())
        && before != now
    {
        wrong.push(FieldError::invalid(&first, &new.shown_ips(), "may not change once set"));
    }
    if before.len() > now.len() && now.len() == 1 && !is_single {
        wrong.push(of_policy(new, &released("ipFamily")));
    }
    wrong
}
