//! Objects that kube-apiserver's strategies judged, and what they said: the same must be said here. The paths and texts of each file were written by the
//! strategies of Kubernetes 1.36.3.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{FieldError, claim_status, claims, flow, policies, resource_slice, webhooks};

/// What judges a kind: a new object, and a change of a part of it (`old`, `new`).
type Judge = (fn(&Value) -> Vec<FieldError>, fn(&str, &Value, &Value) -> Vec<FieldError>);

fn judge(kind: &str) -> Judge {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => (webhooks::create, |_, old, new| webhooks::update(old, new)),
        "ValidatingAdmissionPolicy" => (policies::create_validating, |part, old, new| match part {
            "status" => policies::update_validating_status(old, new),
            _ => policies::update_validating(old, new),
        }),
        "MutatingAdmissionPolicy" => (policies::create_mutating, |_, old, new| policies::update_mutating(old, new)),
        "ValidatingAdmissionPolicyBinding" => (policies::validating_binding, |_, _, new| policies::validating_binding(new)),
        "MutatingAdmissionPolicyBinding" => (policies::mutating_binding, |_, _, new| policies::mutating_binding(new)),
        "FlowSchema" => (flow::flow_schema, |part, old, new| match part {
            "status" => flow::update_status(old, new),
            _ => flow::flow_schema(new),
        }),
        "PriorityLevelConfiguration" => (flow::priority_level, |part, old, new| match part {
            "status" => flow::update_status(old, new),
            _ => flow::priority_level(new),
        }),
        "DeviceClass" => (claims::create_class, |_, old, new| claims::update_class(old, new)),
        "ResourceClaimTemplate" => (claims::create_template, |_, old, new| claims::update_template(old, new)),
        "ResourceClaim" => (claims::create_claim, |part, old, new| match part {
            "status" => claim_status::update_claim_status(old, new),
            _ => claims::update_claim(old, new),
        }),
        "ResourceSlice" => (resource_slice::create, |_, old, new| resource_slice::update(old, new)),
        kind => panic!("{kind} is not judged"),
    }
}

/// What was said and is said here; in any order where Go's is any.
fn answers(case: &Value) -> (Vec<String>, Vec<String>) {
    let text = |name: &str| case[name].as_str().unwrap_or_default();
    let (create, update) = judge(text("kind"));
    let found = if case["old"].is_null() { create(&case["object"]) } else { update(text("part"), &case["old"], &case["object"]) };
    let mut ours: Vec<String> = found.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
    let mut theirs: Vec<String> = case["errors"].as_array().into_iter().flatten().filter_map(|it| Some(it.as_str()?.to_owned())).collect();
    if case["unordered"] == true {
        ours.sort();
        theirs.sort();
    }
    (ours, theirs)
}

/// Compares cases; returns how many there are of each kind, and what differs.
fn compare(cases: &str) -> (BTreeMap<String, usize>, Vec<String>) {
    let (mut counts, mut different) = (BTreeMap::<String, usize>::new(), Vec::new());
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).expect("a line is JSON");
        let (ours, theirs) = answers(&case);
        *counts.entry(case["kind"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        if ours != theirs {
            different.push(format!("{line}\n  ours   {ours:#?}\n  theirs {theirs:#?}"));
        }
    }
    (counts, different)
}

#[test]
fn texts_are_those_of_kube_apiserver() {
    for file in [include_str!("testdata/policies.jsonl"), include_str!("testdata/devices.jsonl")] {
        let (counts, different) = compare(file);
        assert!(different.is_empty(), "{}", different.join("\n"));
        assert!(counts.values().all(|count| *count > 5), "{counts:?}");
    }
}
