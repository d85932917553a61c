//! What a Job makes of Pods that fail, when it counts as done, and when Pods are replaced.

use std::collections::HashSet;

use crate::{at::At, causes::Causes, job_indexes, meta, names};

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const CONDITIONS_MAX: usize = 20;
/// Bytes of the indexes of a rule.
const INDEXES_BYTES_MAX: usize = 64 * 1024;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// The `podFailurePolicy` of a Job, if it has one.
pub(crate) fn failure(spec: &At<'_, '_>, causes: &mut Causes) {
    let policy = spec.member("podFailurePolicy");
    let rules = policy.member("rules");
    if rules.len() > RULES_MAX {
        causes.too_many(&rules, RULES_MAX);
    }
    let template = spec.member("template");
    let pod = template.member("spec");
    let (containers, first) = (pod.member("containers"), pod.member("initContainers"));
    let names: HashSet<&str> = containers.items().chain(first.items()).map(|container| container.member("name").text()).collect();
    let has_limit = spec.member("backoffLimitPerIndex").is_present();
    rules.items().for_each(|rule| failure_rule(&rule, has_limit, &names, causes));
}

fn failure_rule(rule: &At<'_, '_>, has_limit: bool, containers: &HashSet<&str>, causes: &mut Causes) {
    let action = rule.member("action");
    match action.text() {
        "" => causes.required(&action, &valid(&ACTIONS)),
        "FailIndex" if !has_limit => causes.invalid_json(&action, "requires the backoffLimitPerIndex to be set"),
        known if ACTIONS.contains(&known) => {}
        _ => causes.not_supported(&action, &ACTIONS),
    }
    let (codes, conditions) = (rule.member("onExitCodes"), rule.member("onPodConditions"));
    if codes.is_present() {
        exit_codes(&codes, containers, causes);
    }
    pod_conditions(&conditions, causes);
    match (codes.is_present(), conditions.len() > 0) {
        (true, true) => causes.invalid_unshown(rule, "specifying both OnExitCodes and OnPodConditions is not supported"),
        (false, false) => causes.invalid_unshown(rule, "specifying one of OnExitCodes and OnPodConditions is required"),
        _ => {}
    }
}

/// Returns what is said of a text that must be one of these and is missing.
fn valid(texts: &[&str]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("\"{text}\"")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn exit_codes(at: &At<'_, '_>, containers: &HashSet<&str>, causes: &mut Causes) {
    let (operator, container, values) = (at.member("operator"), at.member("containerName"), at.member("values"));
    match operator.text() {
        "" => causes.required(&operator, &valid(&OPERATORS)),
        known if OPERATORS.contains(&known) => {}
        _ => causes.not_supported(&operator, &OPERATORS),
    }
    if container.is_present() && !containers.contains(container.text()) {
        causes.invalid(&container, "must be one of the container or initContainer names in the pod template");
    }
    if values.len() == 0 {
        causes.invalid(&values, "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        causes.too_many(&values, EXIT_CODES_MAX);
    }
    let (mut known, mut last, mut is_ordered) = (HashSet::new(), None, true);
    for code in values.items() {
        let number = code.integer();
        if operator.text() == "In" && number == 0 {
            causes.invalid(&code, "must not be 0 for the In operator");
        }
        if !known.insert(number) {
            causes.duplicate(&code);
        }
        is_ordered &= last.is_none_or(|last| last <= number);
        last = Some(number);
    }
    if !is_ordered {
        causes.invalid(&values, "must be ordered");
    }
}

fn pod_conditions(at: &At<'_, '_>, causes: &mut Causes) {
    if at.len() > CONDITIONS_MAX {
        causes.too_many(at, CONDITIONS_MAX);
    }
    for pattern in at.items() {
        let (kind, status) = (pattern.member("type"), pattern.member("status"));
        names::qualified(kind.text()).iter().for_each(|why| causes.invalid_text(&kind, why));
        match status.text() {
            "" => causes.required(&status, &valid(&STATUSES)),
            known if STATUSES.contains(&known) => {}
            _ => causes.not_supported(&status, &STATUSES),
        }
    }
}

/// The `successPolicy` of a Job, if it has one.
pub(crate) fn success(spec: &At<'_, '_>, causes: &mut Causes) {
    let policy = spec.member("successPolicy");
    if policy.is_absent() {
        return;
    }
    if spec.member("completionMode").text() != "Indexed" {
        causes.invalid_shown(&policy, "batch.SuccessPolicy", "requires indexed completion mode");
        return;
    }
    let rules = policy.member("rules");
    if rules.len() == 0 {
        causes.required(&rules, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > RULES_MAX {
        causes.too_many(&rules, RULES_MAX);
    }
    let completions = spec.member("completions").integer();
    rules.items().for_each(|rule| success_rule(&rule, completions, causes));
}

fn success_rule(rule: &At<'_, '_>, completions: i64, causes: &mut Causes) {
    let (count, indexes) = (rule.member("succeededCount"), rule.member("succeededIndexes"));
    if count.is_absent() && indexes.is_absent() {
        causes.required(rule, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if indexes.is_present() {
        if indexes.text().len() > INDEXES_BYTES_MAX {
            causes.too_long(&indexes, INDEXES_BYTES_MAX);
        }
        match job_indexes::count(indexes.text(), completions) {
            Ok(counted) => total = counted,
            Err(why) => causes.invalid(&indexes, &format!("error parsing succeededIndexes: {why}")),
        }
    }
    if count.is_present() {
        meta::not_negative(&count, causes);
        let mut most = |max: i64, of: &str| {
            if count.integer() > max {
                causes.invalid(&count, &format!("must be less than or equal to {max} (the number of {of})"));
            }
        };
        most(completions, "specified completions");
        if indexes.is_present() {
            most(total, "indexes in the specified succeededIndexes field");
        }
    }
}

/// The `podReplacementPolicy` of a Job, if it has one.
pub(crate) fn replacement(spec: &At<'_, '_>, causes: &mut Causes) {
    const FAILED: &str = "Failed";
    let policy = spec.member("podReplacementPolicy");
    let supported: &[&str] = if spec.member("podFailurePolicy").is_present() { &[FAILED] } else { &[FAILED, "TerminatingOrFailed"] };
    if policy.value().as_str().is_some_and(|policy| !supported.contains(&policy)) {
        causes.not_supported(&policy, supported);
    }
}
