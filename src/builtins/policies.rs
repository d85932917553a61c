//! ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings (`pkg/apis/admissionregistration/validation`).
//!
//! Expressions of mutations are not compiled here, and `fieldRef` of a status is not read as a JSONPath.

use std::collections::HashSet;

use cel::Type;
use serde_json::{Value, json};

use crate::{
    FieldError,
    at::At,
    causes::Causes,
    conditions,
    expressions::{About, Expressions},
    match_rules::{
        FAILURE_POLICIES, REINVOCATION_POLICIES, bound, match_conditions, match_resources, mutating_operations, one_of, param_kind,
        required_one_of,
    },
    names,
};

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const PATCHES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];
const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const ANNOTATIONS_MAX: usize = 20;
const ANNOTATION_BYTES_MAX: usize = 5 << 10;

/// What is wrong with a new ValidatingAdmissionPolicy.
pub fn create_validating(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| validating(object, true, causes))
}

/// What is wrong with a changed ValidatingAdmissionPolicy: conditions of a match that have not changed are not judged again.
pub fn update_validating(old: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| validating(new, conditions_change(old, new), causes))
}

/// What is wrong with the status of a ValidatingAdmissionPolicy.
pub fn update_validating_status(_: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        let root = At::root(new);
        let status = root.member("status");
        let checking = status.member("typeChecking");
        for warning in checking.member("expressionWarnings").items() {
            if warning.member("warning").text().is_empty() {
                causes.required(&warning.member("warning"), "");
            }
            if warning.member("fieldRef").text().trim().is_empty() {
                causes.required(&warning.member("fieldRef"), "");
            }
        }
        conditions::conditions(&status.member("conditions"), causes);
    })
}

/// What is wrong with a new MutatingAdmissionPolicy.
pub fn create_mutating(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| mutating(object, true, causes))
}

/// What is wrong with a changed MutatingAdmissionPolicy.
pub fn update_mutating(old: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| mutating(new, conditions_change(old, new), causes))
}

/// What is wrong with a ValidatingAdmissionPolicyBinding, new or changed.
pub fn validating_binding(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        let root = At::root(object);
        let spec = root.member("spec");
        bound(&spec, causes);
        let resources = spec.member("matchResources");
        if resources.is_present() {
            match_resources(&resources, causes);
        }
        actions(&spec.member("validationActions"), causes);
    })
}

/// What is wrong with a MutatingAdmissionPolicyBinding, new or changed.
pub fn mutating_binding(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        let root = At::root(object);
        let spec = root.member("spec");
        bound(&spec, causes);
        let resources = spec.member("matchResources");
        if resources.is_present() {
            match_resources(&resources, causes);
            mutating_operations(&resources, causes);
        }
    })
}

/// Whether conditions of a match, or the parameters that they may name, are others.
fn conditions_change(old: &Value, new: &Value) -> bool {
    let (old, new) = (At::root(old), At::root(new));
    let (old, new) = (old.member("spec"), new.member("spec"));
    ["paramKind", "matchConditions"].into_iter().any(|name| {
        let (old, new) = (old.member(name), new.member(name));
        old.value() != new.value() && !(old.is_zero() && new.is_zero())
    })
}

/// What both kinds of policies have before their expressions.
fn constraints(spec: &At<'_, '_>, causes: &mut Causes) {
    required_one_of(&spec.member("failurePolicy"), &FAILURE_POLICIES, causes);
    let kind = spec.member("paramKind");
    if kind.is_present() {
        param_kind(&kind, causes);
    }
    let constraints = spec.member("matchConstraints");
    if constraints.is_absent() {
        return causes.required(&constraints, "");
    }
    match_resources(&constraints, causes);
    let rules = constraints.member("resourceRules");
    if rules.len() == 0 {
        causes.required(&rules, "");
    }
}

fn validating(object: &Value, judges_conditions: bool, causes: &mut Causes) {
    const ONE: &str = "validations or auditAnnotations must contain at least one item";
    let root = At::root(object);
    let (spec, metadata) = (root.member("spec"), root.member("metadata"));
    constraints(&spec, causes);
    let params = spec.member("paramKind").is_present();
    if judges_conditions {
        match_conditions(&spec.member("matchConditions"), params, causes);
    }
    let expressions = variables(&spec.member("variables"), params, causes);
    let (validations, annotations) = (spec.member("validations"), spec.member("auditAnnotations"));
    if validations.len() == 0 && annotations.len() == 0 {
        causes.required(&validations, ONE);
        causes.required(&annotations, ONE);
    }
    validations.items().for_each(|it| validation(&it, &expressions, causes));
    audit_annotations(&annotations, metadata.member("name").text(), &expressions, causes);
}

/// Variables, of which each may use those before it; returns what the other expressions may use.
fn variables(at: &At<'_, '_>, params: bool, causes: &mut Causes) -> Expressions {
    let mut expressions = Expressions::new(params, at.len() > 0);
    for variable in at.items() {
        let (name, expression) = (variable.member("name"), variable.member("expression"));
        if name.text().trim().is_empty() {
            causes.required(&name, "name is not specified");
        } else if !is_identifier(name.text()) {
            causes.invalid(&name, "must be a valid CEL identifier");
        }
        if expression.text().trim().is_empty() {
            causes.required(&expression, "expression is not specified");
        } else {
            expressions = expressions.declare(name.text(), &expression, causes);
        }
    }
    expressions
}

/// `[_a-zA-Z][_a-zA-Z0-9]*` that is no word of CEL.
fn is_identifier(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    letters && !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit()) && !cel::is_word(name)
}

fn validation(at: &At<'_, '_>, expressions: &Expressions, causes: &mut Causes) {
    const EMPTY: &str = "must be non-empty if specified";
    let is_blank = |at: &At<'_, '_>| !at.text().is_empty() && at.text().trim().is_empty();
    let (expression, message, message_expression) = (at.member("expression"), at.member("message"), at.member("messageExpression"));
    match expression.text() {
        text if text.trim().is_empty() => causes.required(&expression, "expression is not specified"),
        source => expressions.judge(&expression, source, About::Request, &[Type::Bool], causes),
    }
    match message_expression.text() {
        "" => {}
        text if text.trim().is_empty() => causes.invalid(&message_expression, EMPTY),
        source => expressions.judge(&message_expression, source, About::Message, &[Type::String], causes),
    }
    if is_blank(&message) {
        causes.invalid(&message, EMPTY);
    } else if message.text().trim().contains(['\n', '\r']) {
        causes.invalid(&message, "must not contain line breaks");
    }
    one_of(&at.member("reason"), &REASONS, causes);
}

fn audit_annotations(at: &At<'_, '_>, policy: &str, expressions: &Expressions, causes: &mut Causes) {
    if at.len() > ANNOTATIONS_MAX {
        let shown = |it: At<'_, '_>| json!({"Key": it.member("key").text(), "ValueExpression": it.member("valueExpression").text()});
        let shown: Value = at.items().map(shown).collect();
        causes.invalid_as(at, &shown, &format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations"));
    }
    let mut known = HashSet::new();
    for annotation in at.items() {
        let (key, expression) = (annotation.member("key"), annotation.member("valueExpression"));
        if policy.is_empty() {
            causes.invalid(&key.or_empty(), "requires metadata.name be non-empty");
        } else {
            let name = Value::from(format!("{policy}/{}", key.text()));
            let named = key.with(&name);
            causes.each_invalid(&named, names::qualified(named.text()));
        }
        match expression.text().trim() {
            "" => causes.required(&expression, "valueExpression is not specified"),
            long if long.len() > ANNOTATION_BYTES_MAX => {
                causes.required(&expression, &format!("must not exceed {ANNOTATION_BYTES_MAX} bytes in length"));
            }
            source => {
                let types = [Type::String, Type::Null];
                expressions.judge_shown(&expression, source, expression.text(), About::Request, &types, causes);
            }
        }
        if !known.insert(key.text()) {
            causes.duplicate(&key.or_empty());
        }
    }
}

fn mutating(object: &Value, judges_conditions: bool, causes: &mut Causes) {
    let root = At::root(object);
    let spec = root.member("spec");
    constraints(&spec, causes);
    mutating_operations(&spec.member("matchConstraints"), causes);
    let params = spec.member("paramKind").is_present();
    if judges_conditions {
        match_conditions(&spec.member("matchConditions"), params, causes);
    }
    let expressions = variables(&spec.member("variables"), params, causes);
    let mutations = spec.member("mutations");
    if mutations.len() == 0 {
        causes.required(&mutations, "mutations must contain at least one item");
    }
    mutations.items().for_each(|it| mutation(&it, &expressions, causes));
    let reinvocation = spec.member("reinvocationPolicy");
    match reinvocation.text() {
        "" => causes.required(&reinvocation, ""),
        _ => one_of(&reinvocation, &REINVOCATION_POLICIES, causes),
    }
}

fn mutation(at: &At<'_, '_>, expressions: &Expressions, causes: &mut Causes) {
    let (kind, apply, patch) = (at.member("patchType"), at.member("applyConfiguration"), at.member("jsonPatch"));
    let (wanted, other, result) = match kind.text() {
        "" => return causes.required(&kind, ""),
        "JSONPatch" => (&patch, (&apply, "{applyConfiguration}"), Type::list(Type::object("JSONPatch"))),
        "ApplyConfiguration" => (&apply, (&patch, "{jsonPatch}"), Type::object("Object")),
        _ => return causes.not_supported(&kind, &PATCHES),
    };
    let expression = wanted.member("expression");
    if wanted.is_absent() {
        causes.required(wanted, &format!("must be specified when patchType is {}", kind.text()));
    } else {
        match expression.text().trim() {
            "" => causes.required(&expression, ""),
            source => expressions.judge(&expression, source, About::Patch, &[result], causes),
        }
    }
    let (other, shown) = other;
    if other.is_present() {
        causes.invalid_as(other, &shown.into(), &format!("must not be specified when patchType is {}", kind.text()));
    }
}

fn actions(at: &At<'_, '_>, causes: &mut Causes) {
    let mut known = HashSet::new();
    for action in at.items() {
        one_of(&action.or_empty(), &ACTIONS, causes);
        if !known.insert(action.text()) {
            causes.duplicate_json(&action.or_empty());
        }
    }
    if known.contains("Deny") && known.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        causes.invalid(at, why);
    }
    if known.is_empty() {
        causes.required(at, "at least one validation action is required");
    }
}
