//! Nodes. Taints and avoided Pods in annotations, which are older than the fields, are not judged.

use std::collections::HashSet;

use serde_json::Value;

use crate::{addresses, at::At, causes::Causes, labels, meta, names, quantities};
use model::invalid::FieldError;

/// Bytes of the name of a feature that a node declares.
const FEATURE_BYTES_MAX: usize = 253;
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const ONE_REFERENCE: &str = "exactly one reference subfield must be non-nil";
const SAME_RANGES: &str = "node updates may not change podCIDR except from \"\" to valid";

/// What is wrong with a new Node.
#[must_use]
pub fn create(node: &Value) -> Vec<FieldError> {
    Causes::of(|causes| judge(&At::root(node), causes))
}

/// What is wrong with a change of a Node.
#[must_use]
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    Causes::of(|causes| {
        judge(&new, causes);
        changes(&old, &new, causes);
    })
}

/// What is wrong with the status of a Node.
#[must_use]
pub fn update_status(old: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| changes(&At::root(old), &At::root(new), causes))
}

fn judge(node: &At<'_, '_>, causes: &mut Causes) {
    let (metadata, spec, status) = (node.member("metadata"), node.member("spec"), node.member("status"));
    // Kubernetes puts some fields of the spec and the status below `metadata`.
    let at = metadata.member("taints");
    taints(&at.with(spec.member("taints").value()), causes);
    resources(&status, causes);
    let info = status.member("nodeInfo");
    let at = metadata.member("nodeSwapStatus");
    let swap = at.with(info.member("swap").value());
    let capacity = swap.member("capacity");
    if capacity.is_present() {
        meta::positive(&capacity, causes);
    }
    features(&status.member("declaredFeatures"), causes);
    ranges(&spec.member("podCIDRs"), causes);
}

fn changes(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) {
    let (metadata, spec, status) = (new.member("metadata"), new.member("spec"), new.member("status"));
    let was = old.member("spec");
    resources(&status, causes);
    features(&status.member("declaredFeatures"), causes);
    addresses_once(&status.member("addresses"), causes);
    let (ranges, ranges_before) = (spec.member("podCIDRs"), was.member("podCIDRs"));
    let others = if ranges_before.len() == 0 {
        0
    } else if ranges_before.len() != ranges.len() {
        1
    } else {
        ranges_before.items().zip(ranges.items()).filter(|(was, is)| was.text() != is.text()).count()
    };
    (0..others).for_each(|_| causes.forbidden(&ranges, SAME_RANGES));
    let (provider, provider_before) = (spec.member("providerID"), was.member("providerID"));
    if !provider_before.text().is_empty() && provider_before.text() != provider.text() {
        causes.forbidden(&provider, "node updates may not change providerID except from \"\" to valid");
    }
    config_source(&spec.member("configSource"), false, causes);
    let config = status.member("config");
    for member in ["assigned", "active", "lastKnownGood"] {
        config_source(&config.member(member), true, causes);
    }
    let at = metadata.member("taints");
    taints(&at.with(spec.member("taints").value()), causes);
    if spec.member("externalID").text() != was.member("externalID").text() {
        causes.forbidden(&spec.member("externalID"), "may not be updated");
    }
}

fn resources(status: &At<'_, '_>, causes: &mut Causes) {
    for amounts in [status.member("capacity"), status.member("allocatable")] {
        // The name of a resource is a step of the path as members are.
        for (name, amount) in amounts.entries() {
            quantities::amount_of(name, &amounts.member(name).with(amount.value()), causes);
        }
    }
}

fn taints(at: &At<'_, '_>, causes: &mut Causes) {
    let mut known = HashSet::new();
    for taint in at.items() {
        let (key, value, effect) = (taint.member("key"), taint.member("value"), taint.member("effect"));
        labels::label_key(&key, causes);
        let wrong = names::label_value(value.text());
        if !wrong.is_empty() {
            causes.invalid(&value, &wrong.join(";"));
        }
        if effect.text().is_empty() {
            causes.required(&effect, "");
        } else if !EFFECTS.contains(&effect.text()) {
            causes.not_supported(&effect, &EFFECTS);
        }
        if !known.insert((effect.text(), key.text())) {
            causes.duplicate_shown(&taint, "core.Taint", "taints must be unique by key and effect pair");
        }
    }
}

/// Names of features: sorted, each once.
fn features(at: &At<'_, '_>, causes: &mut Causes) {
    let mut last: Option<&str> = None;
    for feature in at.items() {
        let name = feature.text();
        match last {
            Some(last) if last == name => causes.duplicate(&feature),
            Some(last) if last > name => causes.invalid(&feature, "list must be sorted alphabetically"),
            _ => {}
        }
        if let Some(why) = wrong_feature(name) {
            causes.invalid(&feature, &why);
        }
        last = Some(name);
    }
}

/// `[A-Z][a-zA-Z0-9]*(\/[a-zA-Z][a-zA-Z0-9]*)*`
fn wrong_feature(name: &str) -> Option<String> {
    let shown = go::quote::quoted(name);
    if name.len() > FEATURE_BYTES_MAX {
        return Some(format!("invalid feature name {shown}: must be no more than {FEATURE_BYTES_MAX} characters"));
    }
    let is_segment =
        |part: &str| part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let fits = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('/').all(is_segment);
    (!fits).then(|| {
        format!(
            "invalid feature name {shown}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or \
             MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
        )
    })
}

/// Ranges of addresses of Pods: one of each family at most.
fn ranges(at: &At<'_, '_>, causes: &mut Causes) {
    let read: Vec<_> = at.items().map(|range| addresses::legacy_network(&range, causes)).collect();
    if at.len() < 2 {
        return;
    }
    let unread = at.items().enumerate().find(|(_, range)| addresses::parse_network(range.text()).is_none());
    if let Some((index, range)) = unread {
        let text = range.text();
        let why = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {text})"
        );
        causes.add(FieldError::internal(at.to_string(), &why));
    }
    let families: HashSet<bool> = read.into_iter().flatten().map(|(address, _)| address.is_ipv4()).collect();
    if unread.is_some() || families.len() < 2 || at.len() > 2 {
        causes.invalid(at, "may specify no more than one CIDR for each IP family");
    }
}

fn addresses_once(at: &At<'_, '_>, causes: &mut Causes) {
    let mut known = HashSet::new();
    for address in at.items() {
        if !known.insert((address.member("type").text(), address.member("address").text())) {
            causes.duplicate_shown(&address, "core.NodeAddress", "");
        }
    }
}

/// Where a kubelet has its configuration; a status says which version it was.
fn config_source(at: &At<'_, '_>, in_status: bool, causes: &mut Causes) {
    if at.is_absent() {
        return;
    }
    let map = at.member("configMap");
    if map.is_absent() {
        causes.invalid_shown(at, "*core.NodeConfigSource", ONE_REFERENCE);
        return;
    }
    for member in ["uid", "resourceVersion"] {
        let of_version = map.member(member);
        match (in_status, of_version.text().is_empty()) {
            (true, true) => causes.required(&of_version, ""),
            (false, false) => causes.forbidden(&of_version, &format!("{member} must not be set in spec")),
            _ => {}
        }
    }
    for (member, wrong) in
        [("namespace", names::label as fn(&str) -> Vec<String>), ("name", names::subdomain), ("kubeletConfigKey", names::config_key)]
    {
        let name = map.member(member);
        if meta::present(&name, "", causes) {
            causes.each_invalid(&name, wrong(name.text()));
        }
    }
}
