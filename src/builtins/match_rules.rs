//! Which requests webhooks and policies of admission are for: rules, conditions, parameters (`pkg/apis/admissionregistration/validation`).

use std::collections::HashSet;

use cel::Type;

use crate::{
    at::At,
    causes::Causes,
    expressions::{About, Expressions},
    labels::{self, SelectorOptions},
    names,
};

pub(crate) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(crate) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
pub(crate) const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// What can be mutated.
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const CONDITIONS_MAX: usize = 64;

/// A member that may be absent, or is one of these.
pub(crate) fn one_of(at: &At<'_, '_>, supported: &[&str], causes: &mut Causes) {
    if at.is_present() && !supported.contains(&at.text()) {
        causes.not_supported(at, supported);
    }
}

/// A member that must be there, and is one of these.
pub(crate) fn required_one_of(at: &At<'_, '_>, supported: &[&str], causes: &mut Causes) {
    if at.is_absent() {
        causes.required(at, "");
    }
    one_of(at, supported, causes);
}

/// Operations, groups, versions and resources.
pub(crate) fn rule(at: &At<'_, '_>, causes: &mut Causes) {
    let operations = at.member("operations");
    if operations.len() == 0 {
        causes.required(&operations, "");
    }
    alone(&operations, "operations", causes);
    for operation in operations.items().filter(|operation| !OPERATIONS.contains(&operation.text())) {
        causes.not_supported(&operation, &OPERATIONS);
    }
    let (groups, versions) = (at.member("apiGroups"), at.member("apiVersions"));
    if groups.len() == 0 {
        causes.required(&groups, "");
    }
    alone(&groups, "API groups", causes);
    if versions.len() == 0 {
        causes.required(&versions, "");
    }
    alone(&versions, "API versions", causes);
    versions.items().filter(|version| version.text().is_empty()).for_each(|version| causes.required(&version, ""));
    resources(&at.member("resources"), causes);
    one_of(&at.member("scope"), &SCOPES, causes);
}

/// Beside `*` nothing else may stand.
fn alone(at: &At<'_, '_>, what: &str, causes: &mut Causes) {
    if at.len() > 1 && at.items().any(|item| item.text() == "*") {
        causes.invalid(at, &format!("if '*' is present, must not specify other {what}"));
    }
}

fn resources(at: &At<'_, '_>, causes: &mut Causes) {
    if at.len() == 0 {
        causes.required(at, "");
    }
    let (mut all_of, mut of_all) = (HashSet::new(), HashSet::new());
    let (mut everything, mut every_resource, mut has_plain) = (false, false, false);
    for item in at.items() {
        let text = item.text();
        if text.is_empty() {
            causes.required(&item, "");
            continue;
        }
        everything |= text == "*/*";
        every_resource |= text == "*";
        let Some((resource, part)) = text.split_once('/') else {
            // The last one without a subresource decides.
            has_plain = text != "*";
            continue;
        };
        if all_of.contains(resource) {
            causes.invalid(&item, &format!("if '{resource}/*' is present, must not specify {text}"));
        }
        if of_all.contains(part) {
            causes.invalid(&item, &format!("if '*/{part}' is present, must not specify {text}"));
        }
        if part == "*" {
            all_of.insert(resource);
        }
        if resource == "*" {
            of_all.insert(part);
        }
    }
    if at.len() > 1 && everything {
        causes.invalid(at, "if '*/*' is present, must not specify other resources");
    }
    if every_resource && has_plain {
        causes.invalid(at, "if '*' is present, must not specify other resources without subresources");
    }
}

/// A rule with names of resources.
fn named_rule(at: &At<'_, '_>, causes: &mut Causes) {
    let (names, mut known) = (at.member("resourceNames"), HashSet::new());
    for name in names.items() {
        causes.each_invalid(&name, names::path_segment(name.text()));
        if !known.insert(name.text()) {
            causes.duplicate(&name);
        }
    }
    rule(at, causes);
}

/// `matchConstraints` of a policy or `matchResources` of a binding.
pub(crate) fn match_resources(at: &At<'_, '_>, causes: &mut Causes) {
    required_one_of(&at.member("matchPolicy"), &MATCH_POLICIES, causes);
    for name in ["namespaceSelector", "objectSelector"] {
        let selector = at.member(name);
        match selector.is_absent() {
            true => causes.required(&selector, ""),
            false => labels::selector(&selector, SelectorOptions::default(), causes),
        }
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        at.member(name).items().for_each(|rule| named_rule(&rule, causes));
    }
}

/// Rules of what mutates: nothing can be changed of what is deleted. The path has no index.
pub(crate) fn mutating_operations(at: &At<'_, '_>, causes: &mut Causes) {
    let rules = at.member("resourceRules");
    let place = rules.member("operations");
    for rule in rules.items() {
        for operation in rule.member("operations").items().filter(|operation| !MUTATING_OPERATIONS.contains(&operation.text())) {
            causes.not_supported(&place.with(operation.value()), &MUTATING_OPERATIONS);
        }
    }
}

/// Conditions of a match, each with a name of its own. `params`: they may use parameters.
pub(crate) fn match_conditions(at: &At<'_, '_>, params: bool, causes: &mut Causes) {
    if at.len() > CONDITIONS_MAX {
        causes.too_many(at, CONDITIONS_MAX);
    }
    let (mut known, expressions) = (HashSet::new(), Expressions::new(params, false));
    for condition in at.items() {
        let (name, expression) = (condition.member("name"), condition.member("expression"));
        match expression.text().trim() {
            "" => causes.required(&expression, ""),
            source => expressions.judge(&expression, source, About::Request, &[Type::Bool], causes),
        }
        match name.text() {
            "" => causes.required(&name, ""),
            text => {
                causes.each_invalid(&name, names::qualified(text));
                if !known.insert(text) {
                    causes.duplicate(&name);
                }
            }
        }
    }
}

/// The kind of a policy's parameters.
pub(crate) fn param_kind(at: &At<'_, '_>, causes: &mut Causes) {
    let (version, kind) = (at.member("apiVersion"), at.member("kind"));
    match version.text() {
        "" => causes.required(&version, ""),
        text if text != "/" && text.matches('/').count() > 1 => {
            causes.invalid(&version, &format!("unexpected GroupVersion string: {text}"))
        }
        text => group_version(&version, if text == "/" { "" } else { text }, causes),
    }
    let wrong = names::label_1035(&kind.text().to_lowercase());
    if kind.text().is_empty() {
        causes.required(&kind, "");
    } else if !wrong.is_empty() {
        causes.invalid(&kind, &format!("may have mixed case, but should otherwise match: {}", wrong.join(",")));
    }
}

fn group_version(at: &At<'_, '_>, text: &str, causes: &mut Causes) {
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    let wrong = if group.is_empty() { Vec::new() } else { names::subdomain(group) };
    if !wrong.is_empty() {
        causes.invalid_as(at, &group.into(), &wrong.join(","));
    }
    let wrong = names::label_1035(version);
    if version.is_empty() {
        causes.invalid(at, "version must be specified");
    } else if !wrong.is_empty() {
        causes.invalid_as(at, &version.into(), &wrong.join(","));
    }
}

/// A binding's policy, and which of its parameters it takes.
pub(crate) fn bound(spec: &At<'_, '_>, causes: &mut Causes) {
    let policy = spec.member("policyName");
    match policy.text() {
        "" => causes.required(&policy, ""),
        name => causes.each_invalid(&policy, names::subdomain(name)),
    }
    let param = spec.member("paramRef");
    if param.is_present() {
        param_ref(&param, causes);
    }
}

fn param_ref(at: &At<'_, '_>, causes: &mut Causes) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (name, selector, action) = (at.member("name"), at.member("selector"), at.member("parameterNotFoundAction"));
    let has_name = !name.text().is_empty();
    if has_name {
        causes.each_invalid(&name, names::path_segment(name.text()));
        if selector.is_present() {
            causes.forbidden(&name, EXCLUSIVE);
        }
    }
    if selector.is_present() {
        labels::selector(&selector, SelectorOptions::default(), causes);
        if has_name {
            causes.forbidden(&selector, EXCLUSIVE);
        }
    }
    if !has_name && selector.is_absent() {
        causes.required(at, "one of name or selector must be specified");
    }
    match action.text() {
        "" => causes.required(&action, ""),
        "Deny" | "Allow" => {}
        _ => causes.not_supported(&action, &["Deny", "Allow"]),
    }
}
