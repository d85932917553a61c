//! ResourceQuotas.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use crate::{at::At, causes::Causes, quantities};
use model::invalid::FieldError;

const SCOPES: [&str; 7] =
    ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "VolumeAttributesClass", "CrossNamespacePodAffinity"];
const PAIRS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
/// Resources that the scopes of Pods, and of claims, are about.
const COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const MUST_EXIST: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

/// What is wrong with a new ResourceQuota.
#[must_use]
pub fn create(quota: &Value) -> Vec<FieldError> {
    let root = At::root(quota);
    Causes::of(|causes| {
        judge(&root.member("spec"), causes);
        counted(&root.member("status"), causes);
    })
}

/// What is wrong with a change of a ResourceQuota, whose scopes stay.
#[must_use]
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, spec) = (old.member("spec"), new.member("spec"));
    Causes::of(|causes| {
        judge(&spec, causes);
        let (was, is) = (old.member("scopes"), spec.member("scopes"));
        let set = |scopes: &At<'_, '_>| scopes.items().map(|scope| scope.text().to_owned()).collect::<BTreeSet<_>>();
        if set(&was) != set(&is) {
            causes.invalid(&is, "field is immutable");
        }
    })
}

/// What is wrong with the status of a ResourceQuota.
#[must_use]
pub fn update_status(_old: &Value, new: &Value) -> Vec<FieldError> {
    let root = At::root(new);
    let metadata = root.member("metadata");
    Causes::of(|causes| {
        if metadata.member("resourceVersion").text().is_empty() {
            causes.required(&root.member("resourceVersion"), "");
        }
        counted(&root.member("status"), causes);
    })
}

fn counted(status: &At<'_, '_>, causes: &mut Causes) {
    amounts(&status.member("hard"), causes);
    amounts(&status.member("used"), causes);
}

fn amounts(at: &At<'_, '_>, causes: &mut Causes) {
    for (name, amount) in at.entries() {
        quantities::resource_name(name, &amount, causes);
        if !name.contains('/') && !quantities::is_standard_of_quotas(name) {
            causes.invalid_json(&amount.with(&name.into()), "must be a standard resource for quota");
        }
        quantities::amount_of(name, &amount, causes);
    }
}

fn judge(spec: &At<'_, '_>, causes: &mut Causes) {
    let hard = spec.member("hard");
    amounts(&hard, causes);
    let mut unfit = Unfit { hard: &hard, counts: [None; SCOPES.len()] };
    scopes(&spec.member("scopes"), &mut unfit, causes);
    let selector = spec.member("scopeSelector");
    if selector.is_present() {
        scope_selector(&selector, &spec.member("scopes"), &mut unfit, causes);
    }
}

/// How many of the resources that are limited a scope is not about; each scope is looked at once.
struct Unfit<'s, 'p, 'v> {
    hard: &'s At<'p, 'v>,
    /// In the order of [`SCOPES`].
    counts: [Option<usize>; SCOPES.len()],
}

impl Unfit<'_, '_, '_> {
    fn count(&mut self, scope: &str) -> usize {
        let Some(place) = SCOPES.iter().position(|known| *known == scope) else { return 0 };
        let is_unfit = |name: &str| quantities::is_standard_of_quotas(name) && !is_about(scope, name);
        *self.counts[place].get_or_insert_with(|| self.hard.entries().filter(|(name, _)| is_unfit(name)).count())
    }

    /// Adds an error for each.
    fn add(&mut self, scope: &str, at: &At<'_, '_>, kind: &str, causes: &mut Causes) {
        for _ in 0..self.count(scope) {
            if causes.is_full() {
                return;
            }
            causes.invalid_shown(at, kind, "unsupported scope applied to resource");
        }
    }
}

/// Whether a scope is about a resource.
fn is_about(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => CLAIMS.contains(&resource),
        _ => resource == "pods" || COMPUTE.contains(&resource),
    }
}

fn scopes(at: &At<'_, '_>, unfit: &mut Unfit<'_, '_, '_>, causes: &mut Causes) {
    let mut known = HashSet::new();
    for scope in at.items() {
        let scope = scope.text();
        if causes.is_full() {
            return;
        }
        if !SCOPES.contains(&scope) {
            causes.invalid(at, "unsupported scope");
        }
        unfit.add(scope, at, "[]string", causes);
        known.insert(scope);
    }
    conflicts(&known, at, causes);
}

fn conflicts(known: &HashSet<&str>, at: &At<'_, '_>, causes: &mut Causes) {
    for _ in PAIRS.iter().filter(|pair| pair.iter().all(|scope| known.contains(scope))) {
        causes.invalid(at, "conflicting scopes");
    }
}

fn scope_selector(selector: &At<'_, '_>, scopes: &At<'_, '_>, unfit: &mut Unfit<'_, '_, '_>, causes: &mut Causes) {
    let expressions = selector.member("matchExpressions");
    let mut known = HashSet::new();
    for expression in expressions.items() {
        if causes.is_full() {
            return;
        }
        let scope = expression.member("scopeName");
        // Paths do not say which expression it is.
        requirement(&expressions, &expression, causes, |causes| {
            unfit.add(scope.text(), &expressions.with(selector.value()), "*core.ScopeSelector", causes);
        });
        known.insert(scope.text());
    }
    // The path is that of the expressions, the value the scopes beside them.
    conflicts(&known, &expressions.with(scopes.value()), causes);
}

fn requirement(at: &At<'_, '_>, expression: &At<'_, '_>, causes: &mut Causes, unfit: impl FnOnce(&mut Causes)) {
    let (scope, operator, values) = (expression.member("scopeName"), expression.member("operator"), expression.member("values"));
    let (at_scope, at_operator, at_values) = (at.member("scopeName"), at.member("operator"), at.member("values"));
    if !SCOPES.contains(&scope.text()) {
        causes.invalid_json(&at_scope.with(scope.value()), "unsupported scope");
    }
    unfit(causes);
    let must_exist = !matches!(scope.text(), "PriorityClass" | "VolumeAttributesClass") && SCOPES.contains(&scope.text());
    if must_exist && operator.text() != "Exists" {
        causes.invalid_json(&at_operator.with(operator.value()), MUST_EXIST);
    }
    match operator.text() {
        "In" | "NotIn" if values.len() == 0 => {
            causes.required(&at_values, "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector");
        }
        "Exists" | "DoesNotExist" if values.len() > 0 => {
            let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            causes.invalid(&at_values.with(values.value()), why);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => causes.invalid_json(&at_operator.with(operator.value()), "not a valid selector operator"),
    }
}
