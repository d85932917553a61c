//! Near which nodes and which other Pods a Pod wants to be, and how Pods are spread.

use std::collections::{HashMap, HashSet};

use super::Options;
use crate::{
    at::At,
    causes::Causes,
    labels::{SelectorOptions, label_key, selector},
    meta, names,
    node_selector::{node_selector, node_selector_term},
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// `validateAffinity`.
pub(super) fn affinity(at: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    let nodes = at.member("nodeAffinity");
    if nodes.member(REQUIRED).is_present() {
        node_selector(&nodes.member(REQUIRED), options.any_node_value, causes);
    }
    for preferred in nodes.member(PREFERRED).items() {
        weight(&preferred.member("weight"), causes);
        node_selector_term(&preferred.member("preference"), true, causes);
    }
    for member in ["podAffinity", "podAntiAffinity"] {
        let pods = at.member(member);
        pods.member(REQUIRED).items().for_each(|required| term(&required, options, causes));
        for preferred in pods.member(PREFERRED).items() {
            weight(&preferred.member("weight"), causes);
            term(&preferred.member("podAffinityTerm"), options, causes);
        }
    }
}

fn weight(at: &At<'_, '_>, causes: &mut Causes) {
    if !(1..=100).contains(&at.integer()) {
        causes.invalid_as(at, &at.integer().into(), "must be in the range 1-100");
    }
}

fn term(at: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    term_selectors(at, options.any_selector_value, causes);
    for namespace in at.member("namespaces").items() {
        causes.each_invalid(&at.member("namespace").with(namespace.value()), names::label(namespace.text()));
    }
    label_keys(at, causes);
    let key = at.member("topologyKey");
    meta::present(&key, "can not be empty", causes);
    label_key(&key, causes);
}

/// `ValidatePodAffinityTermSelector`.
pub(super) fn term_selectors(at: &At<'_, '_>, any_value: bool, causes: &mut Causes) {
    let options = SelectorOptions { any_value, any_operator: false };
    selector(&at.member("labelSelector"), options, causes);
    selector(&at.member("namespaceSelector"), options, causes);
}

/// Whether a term has a selector that is wrong, which an update may keep (`hasInvalidLabelValueInAffinitySelector`).
pub(super) fn has_wrong_selector(spec: &At<'_, '_>) -> bool {
    let affinity = spec.member("affinity");
    let is_wrong = |term: &At<'_, '_>| !Causes::of(|causes| term_selectors(term, false, causes)).is_empty();
    ["podAffinity", "podAntiAffinity"].iter().any(|member| {
        let pods = affinity.member(member);
        let required = pods.member(REQUIRED).items().any(|term| is_wrong(&term));
        required || pods.member(PREFERRED).items().any(|preferred| is_wrong(&preferred.member("podAffinityTerm")))
    })
}

/// The selector of nodes that a Pod requires.
pub(super) fn required_nodes(spec: &At<'_, '_>, look: impl FnOnce(&At<'_, '_>)) {
    let affinity = spec.member("affinity");
    let nodes = affinity.member("nodeAffinity");
    look(&nodes.member(REQUIRED));
}

/// Keys whose values are those of the Pod (`ValidateMatchLabelKeysAndMismatchLabelKeys`).
pub(super) fn label_keys(at: &At<'_, '_>, causes: &mut Causes) {
    let (matched, mismatched, labels) = (at.member("matchLabelKeys"), at.member("mismatchLabelKeys"), at.member("labelSelector"));
    for keys in [&matched, &mismatched].into_iter().filter(|keys| keys.len() > 0) {
        if labels.is_absent() {
            causes.forbidden(keys, "must not be specified when labelSelector is not set");
        } else {
            keys.items().for_each(|key| label_key(&key, causes));
        }
    }
    if labels.is_present() {
        let places: HashMap<&str, usize> = matched.items().enumerate().map(|(index, key)| (key.text(), index)).collect();
        let match_labels = labels.member("matchLabels");
        let mut seen: HashSet<&str> = match_labels.entries().map(|(key, _)| key).collect();
        for expression in labels.member("matchExpressions").items() {
            let key = expression.member("key").text();
            if let Some(index) = places.get(key).filter(|_| seen.contains(key)) {
                // The path names the term, as if it were a list.
                causes.invalid_as(&at.item(*index), &key.into(), "exists in both matchLabelKeys and labelSelector");
            }
            seen.insert(key);
        }
    }
    let others: HashSet<&str> = mismatched.items().map(|key| key.value().as_str().unwrap_or_default()).collect();
    for key in matched.items().filter(|key| others.contains(key.text())) {
        causes.invalid(&key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// Keys as they were judged before they were added to the selector (`ValidateMatchLabelKeysInTopologySpread`).
fn older_label_keys(at: &At<'_, '_>, causes: &mut Causes) {
    let (keys, labels) = (at.member("matchLabelKeys"), at.member("labelSelector"));
    if keys.len() == 0 {
        return;
    }
    if labels.is_absent() {
        causes.forbidden(&keys, "must not be specified when labelSelector is not set");
    }
    let (match_labels, expressions) = (labels.member("matchLabels"), labels.member("matchExpressions"));
    let mut selected: HashSet<&str> = match_labels.entries().map(|(key, _)| key).collect();
    selected.extend(expressions.items().map(|expression| expression.value()["key"].as_str().unwrap_or_default()));
    for key in keys.items() {
        label_key(&key, causes);
        if selected.contains(key.text()) {
            causes.invalid(&key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

/// `validateTopologySpreadConstraints`.
pub(super) fn spread(at: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
    for constraint in at.items() {
        *counts.entry(repeated(&constraint)).or_default() += 1;
    }
    for constraint in at.items() {
        meta::positive(&constraint.member("maxSkew"), causes);
        meta::present(&constraint.member("topologyKey"), "can not be empty", causes);
        let action = constraint.member("whenUnsatisfiable");
        if !ACTIONS.contains(&action.text()) {
            causes.not_supported(&action.with(&action.text().into()), &ACTIONS);
        }
        let (key, action) = repeated(&constraint);
        let left = counts.entry((key, action)).or_default();
        *left -= 1;
        if *left > 0 {
            let shown = format!("{{{key}, {action}}}").into();
            causes.duplicate(&constraint.member("{topologyKey, whenUnsatisfiable}").with(&shown));
        }
        min_domains(&constraint.member("minDomains"), action, causes);
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"].map(|member| constraint.member(member)) {
            if policy.is_present() && !matches!(policy.text(), "Honor" | "Ignore") {
                causes.not_supported(&policy, &["Honor", "Ignore"]);
            }
        }
        if options.any_spread_keys {
            older_label_keys(&constraint, causes)
        } else {
            spread_keys(&constraint, causes)
        }
        if !options.any_spread_selector {
            selector(&constraint.member("labelSelector"), SelectorOptions::default(), causes);
        }
    }
}

/// What no two constraints may have in common.
fn repeated<'v>(constraint: &At<'_, 'v>) -> (&'v str, &'v str) {
    (constraint.member("topologyKey").text(), constraint.member("whenUnsatisfiable").text())
}

fn min_domains(at: &At<'_, '_>, action: &str, causes: &mut Causes) {
    if at.is_absent() {
        return;
    }
    meta::positive(at, causes);
    if action != "DoNotSchedule" {
        causes.invalid(at, &format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"));
    }
}

/// The keys of a constraint, which has none that must not match.
pub(super) fn spread_keys(constraint: &At<'_, '_>, causes: &mut Causes) {
    label_keys(constraint, causes);
}
