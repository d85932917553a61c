//! When containers start again, by their policies and rules, and after a resize.

use std::collections::HashSet;

use crate::{at::At, causes::Causes};

/// Policies of a container.
const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
/// Actions of rules. Those that restart all containers have their gate on.
const ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const RULES_MAX: usize = 20;
const CODES_MAX: usize = 255;

/// The policy and the rules of a container (`validateContainerRestartPolicy`).
pub(super) fn policy(container: &At<'_, '_>, causes: &mut Causes) {
    let (policy, rules) = (container.member("restartPolicy"), container.member("restartPolicyRules"));
    if policy.is_absent() {
        if rules.len() == 0 {
            return;
        }
        causes.required(&policy, "must specify restartPolicy when restart rules are used");
    } else if !POLICIES.contains(&policy.text()) {
        causes.not_supported(&policy, &POLICIES);
    }
    if rules.len() > RULES_MAX {
        causes.too_many(&rules, RULES_MAX);
    }
    rules.items().for_each(|rule| restart_rule(&rule, causes));
}

fn restart_rule(at: &At<'_, '_>, causes: &mut Causes) {
    let (action, codes) = (at.member("action"), at.member("exitCodes"));
    if !ACTIONS.contains(&action.text()) {
        causes.not_supported(&action.with(&action.text().into()), &ACTIONS);
    }
    if codes.is_absent() {
        return causes.required(&codes, "must be specified");
    }
    let (operator, values) = (codes.member("operator"), codes.member("values"));
    if !OPERATORS.contains(&operator.text()) {
        causes.not_supported(&operator.with(&operator.text().into()), &OPERATORS);
    }
    if values.len() > CODES_MAX {
        causes.too_many(&values, CODES_MAX);
    }
}

/// The same of a container that runs before the others (`validateInitContainerRestartPolicy`).
pub(super) fn init_policy(container: &At<'_, '_>, causes: &mut Causes) {
    let (policy_of, rules) = (container.member("restartPolicy"), container.member("restartPolicyRules"));
    if policy_of.is_present() {
        policy(container, causes);
    } else if rules.len() > 0 {
        causes.required(&policy_of, "must specify restartPolicy when restart rules are used");
    }
}

/// What a resize does to the container (`validateResizePolicy`); all errors have the path of the list.
pub(super) fn resize_policies(at: &At<'_, '_>, pod_policy: &str, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for item in at.items() {
        let (resource, policy) = (item.member("resourceName"), item.member("restartPolicy"));
        if !seen.insert(resource.text()) {
            causes.duplicate(&item.with(&resource.text().into()));
        }
        match resource.text() {
            "cpu" | "memory" => {}
            "" => causes.required(at, ""),
            _ => causes.not_supported(&at.with(resource.value()), &["cpu", "memory"]),
        }
        match policy.text() {
            "NotRequired" | "RestartContainer" => {}
            "" => causes.required(at, ""),
            _ => causes.not_supported(&at.with(policy.value()), &["NotRequired", "RestartContainer"]),
        }
        if pod_policy == "Never" && policy.text() != "NotRequired" {
            causes.invalid_json(&at.with(&policy.text().into()), "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}
