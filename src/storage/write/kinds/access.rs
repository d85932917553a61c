//! What is wrong with roles and bindings besides their metadata (`pkg/apis/rbac/validation`): rules that are not whole, roles that cannot be meant, subjects
//! that are nobody. Whether somebody may write them is not asked here.

use catalogue::NameRule;
use model::{
    invalid::FieldError,
    legal::{wrong_key, wrong_value},
};
use serde_json::{Value, json};

use super::row::Strategy;
use crate::write::{metadata, tree};

const fn role(storage: &'static str) -> Strategy {
    Strategy {
        storage,
        validate_create: |role| validate_role(role, None),
        validate_update: |_, old, new| validate_role(new, Some(old)),
        ..Strategy::COMMON
    }
}

const fn binding(storage: &'static str) -> Strategy {
    Strategy {
        storage,
        validate_create: |binding| validate_binding(binding, None),
        validate_update: |_, old, new| validate_binding(new, Some(old)),
        ..Strategy::COMMON
    }
}

pub(super) const ALL: [Strategy; 4] = [role("roles"), role("clusterroles"), binding("rolebindings"), binding("clusterrolebindings")];

const GROUP: &str = "rbac.authorization.k8s.io";

/// Of a Role, or of a ClusterRole, which has no namespace. Values of selectors that were wrong before may stay so.
fn validate_role(role: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let is_namespaced = is_namespaced(role);
    let mut errors: Vec<FieldError> =
        items(role, "rules").iter().enumerate().flat_map(|(i, rule)| wrong_rule(rule, is_namespaced, &format!("rules[{i}]"))).collect();
    if !is_namespaced && let Some(aggregation) = tree::at(role, &["aggregationRule"]) {
        let selectors = items(aggregation, "clusterRoleSelectors");
        if selectors.is_empty() {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required("aggregationRule.clusterRoleSelectors", why));
        }
        let were = old.and_then(|old| tree::at(old, &["aggregationRule"])).map_or(&[][..], |old| items(old, "clusterRoleSelectors"));
        let any_value = were.iter().any(|selector| !wrong_selector(selector, "", false).is_empty());
        for (i, selector) in selectors.iter().enumerate() {
            let field = format!("aggregationRule.clusterRoleSelectors[{i}]");
            errors.extend(wrong_selector(selector, &field, any_value));
            if !wrong_selector(selector, &field, false).is_empty() {
                errors.push(FieldError::invalid(field, &Value::Null, "invalid label selector."));
            }
        }
    }
    errors
}

fn wrong_rule(rule: &Value, is_namespaced: bool, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let has = |name: &str| !items(rule, name).is_empty();
    if !has("verbs") {
        errors.push(FieldError::required(format!("{field}.verbs"), "verbs must contain at least one value"));
    }
    if has("nonResourceURLs") {
        let mut wrong = |why: &str| errors.push(FieldError::invalid(format!("{field}.nonResourceURLs"), &rule["nonResourceURLs"], why));
        if is_namespaced {
            wrong("namespaced rules cannot apply to non-resource URLs");
        }
        if has("apiGroups") || has("resources") || has("resourceNames") {
            wrong("rules cannot apply to both regular resources and non-resource URLs");
        }
        return errors;
    }
    for (name, why) in [
        ("apiGroups", "resource rules must supply at least one api group"),
        ("resources", "resource rules must supply at least one resource"),
    ] {
        if !has(name) {
            errors.push(FieldError::required(format!("{field}.{name}"), why));
        }
    }
    errors
}

/// A `LabelSelector`; with `any_value` the values of its expressions may be anything.
fn wrong_selector(selector: &Value, field: &str, any_value: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in tree::at(selector, &["matchLabels"]).and_then(Value::as_object).into_iter().flatten() {
        let field = format!("{field}.matchLabels");
        errors.extend(wrong_key(key).iter().map(|why| FieldError::invalid(&*field, &key.as_str().into(), why)));
        errors.extend(wrong_value(value.as_str().unwrap_or("")).iter().map(|why| FieldError::invalid(&*field, value, why)));
    }
    for (i, expression) in items(selector, "matchExpressions").iter().enumerate() {
        let at = |member: &str| format!("{field}.matchExpressions[{i}].{member}");
        let (operator, key, values) =
            (tree::text(expression, &["operator"]), tree::text(expression, &["key"]), items(expression, "values"));
        match (operator, values) {
            ("In" | "NotIn", []) => {
                errors.push(FieldError::required(at("values"), "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            ("Exists" | "DoesNotExist", [_, ..]) => {
                errors.push(FieldError::forbidden(at("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            _ => errors.push(FieldError::invalid(at("operator"), &operator.into(), "not a valid selector operator")),
        }
        errors.extend(wrong_key(key).iter().map(|why| FieldError::invalid(at("key"), &key.into(), why)));
        for (place, value) in values.iter().enumerate().filter(|_| !any_value) {
            let wrong = wrong_value(value.as_str().unwrap_or(""));
            errors.extend(wrong.iter().map(|why| FieldError::invalid(at(&format!("values[{place}]")), value, why)));
        }
    }
    errors
}

/// Of a RoleBinding, or of a ClusterRoleBinding, which has no namespace. What it binds stays.
fn validate_binding(binding: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let is_namespaced = is_namespaced(binding);
    let kinds = if is_namespaced { &["Role", "ClusterRole"][..] } else { &["ClusterRole"] };
    let of = |binding: &Value| ["apiGroup", "kind", "name"].map(|member| tree::text(binding, &["roleRef", member]).to_owned());
    let role = of(binding);
    let [group, kind, name] = &role;
    let mut errors = Vec::new();
    if group != GROUP {
        errors.push(FieldError::not_supported_text("roleRef.apiGroup", group, &[GROUP]));
    }
    if !kinds.contains(&kind.as_str()) {
        errors.push(FieldError::not_supported_text("roleRef.kind", kind, kinds));
    }
    if name.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    let wrong = metadata::wrong_name(NameRule::PathSegment, name, false);
    errors.extend(wrong.iter().map(|why| FieldError::invalid("roleRef.name", &name.as_str().into(), why)));
    for (i, subject) in items(binding, "subjects").iter().enumerate() {
        errors.extend(wrong_subject(subject, is_namespaced, &format!("subjects[{i}]")));
    }
    if old.is_some_and(|old| of(old) != role) {
        let value = json!({"APIGroup": group, "Kind": kind, "Name": name});
        errors.push(FieldError::invalid("roleRef", &value, "cannot change roleRef"));
    }
    errors
}

fn wrong_subject(subject: &Value, is_namespaced: bool, field: &str) -> Vec<FieldError> {
    let [kind, group, name, namespace] = ["kind", "apiGroup", "name", "namespace"].map(|member| tree::text(subject, &[member]));
    let at = |member: &str| format!("{field}.{member}");
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push(FieldError::required(at("name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            let wrong = if name.is_empty() { Vec::new() } else { metadata::wrong_name(NameRule::Subdomain, name, false) };
            errors.extend(wrong.iter().map(|why| FieldError::invalid(at("name"), &name.into(), why)));
            if !group.is_empty() {
                errors.push(FieldError::not_supported_text(at("apiGroup"), group, &[""]));
            }
            if !is_namespaced && namespace.is_empty() {
                errors.push(FieldError::required(at("namespace"), ""));
            }
        }
        "User" | "Group" if group == GROUP => {}
        "User" | "Group" => errors.push(FieldError::not_supported_text(at("apiGroup"), group, &[GROUP])),
        _ => errors.push(FieldError::not_supported_text(at("kind"), kind, &["ServiceAccount", "User", "Group"])),
    }
    errors
}

/// Kinds of the cluster begin with the word.
fn is_namespaced(object: &Value) -> bool {
    !tree::text(object, &["kind"]).starts_with("Cluster")
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    tree::at(value, &[name]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalogue::defaults;
    use model::invalid::joined;

    /// Recorded by `tests/data/authz/record.py`.
    #[test]
    fn texts_are_those_of_kube_apiserver() {
        let (mut wrong, mut right) = (0, 0);
        for line in include_str!("../../../../tests/data/authz/invalid.jsonl").lines() {
            let case: Value = serde_json::from_str(line).expect("a line is JSON");
            let mut object = case["object"].clone();
            let kind = case["kind"].as_str().expect("a kind");
            codec::normalize(&mut object, usize::MAX).expect("no limit");
            defaults::fill(&mut object, "rbac.authorization.k8s.io/v1", kind);
            let old = Some(&case["stored"]).filter(|stored| !stored.is_null());
            let errors = if kind.ends_with("Binding") { validate_binding(&object, old) } else { validate_role(&object, old) };
            let (ours, theirs) =
                (if errors.is_empty() { String::new() } else { joined(&errors) }, case["message"].as_str().expect("a message"));
            // Go looks at labels in any order.
            let in_order = |text: &str| {
                let mut parts: Vec<String> = text.trim_matches(['[', ']']).split(", aggregationRule.").map(str::to_owned).collect();
                parts.iter_mut().for_each(|part| *part = part.trim_start_matches("aggregationRule.").to_owned());
                parts.sort();
                parts
            };
            assert_eq!(in_order(&ours), in_order(theirs), "{object}");
            *if theirs.is_empty() { &mut right } else { &mut wrong } += 1;
        }
        assert!(wrong > 80 && right > 20, "{wrong} wrong, {right} right");
    }
}
