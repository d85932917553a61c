//! ResourceClaim, ResourceClaimTemplate and DeviceClass (`pkg/apis/resource/validation`).
//!
//! Expressions of selectors are not compiled here, and nobody is asked whether a namespace allows the access of an administrator.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::{
    FieldError,
    at::At,
    causes::Causes,
    devices::{self, CONFIGS_MAX, configuration, itself, named, selectors, set, slice, toleration},
    equal::same,
    meta, quantities,
};

const IMMUTABLE: &str = "field is immutable";
const REQUESTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const CONSTRAINTS_MAX: usize = 32;

/// What is wrong with a new ResourceClaim.
pub fn create_claim(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| claim_spec(&At::root(object).member("spec"), causes))
}

/// What is wrong with a changed ResourceClaim.
pub fn update_claim(old: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| immutable(&At::root(new).member("spec"), &old["spec"], "resource.ResourceClaimSpec", causes))
}

/// What is wrong with a new ResourceClaimTemplate.
pub fn create_template(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| template(object, causes))
}

/// What is wrong with a changed ResourceClaimTemplate.
pub fn update_template(old: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        template(new, causes);
        immutable(&At::root(new).member("spec"), &old["spec"], "resource.ResourceClaimTemplateSpec", causes);
    })
}

/// What is wrong with a new DeviceClass.
pub fn create_class(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| class(object, &Value::Null, causes))
}

/// What is wrong with a changed DeviceClass.
pub fn update_class(old: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| class(new, old, causes))
}

/// A value of an internal type that may not change.
pub(crate) fn immutable(at: &At<'_, '_>, old: &Value, kind: &str, causes: &mut Causes) {
    if !same(at.value(), old) {
        causes.invalid_shown(at, kind, IMMUTABLE);
    }
}

fn template(object: &Value, causes: &mut Causes) {
    let root = At::root(object);
    let spec = root.member("spec");
    let metadata = spec.member("metadata");
    meta::labels_and_annotations_only(&metadata, causes);
    claim_spec(&spec.member("spec"), causes);
}

/// The requests of a claim by name, with the names of their alternatives.
pub(crate) struct Requests<'v>(HashMap<&'v str, HashSet<&'v str>>);

impl<'v> Requests<'v> {
    /// Returns those of `spec.devices`.
    pub(crate) fn of(devices: &At<'_, 'v>) -> Self {
        let requests = devices.member("requests");
        let alternatives = |request: &At<'_, 'v>| request.member("firstAvailable").items().map(|item| item.member("name").text()).collect();
        Self(requests.items().map(|request| (request.member("name").text(), alternatives(&request))).collect())
    }

    fn has(&self, name: &str) -> bool {
        let (first, second) = name.split_once('/').map_or((name, None), |(first, second)| (first, Some(second)));
        self.0.get(first).is_some_and(|alternatives| second.is_none_or(|second| alternatives.contains(second)))
    }

    /// A name of a request, or of one of its alternatives.
    pub(crate) fn judge(&self, at: &At<'_, '_>, causes: &mut Causes) {
        const UNKNOWN: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        if at.text().matches('/').count() > 1 {
            return causes.invalid_text(at, UNKNOWN);
        }
        at.text().split('/').for_each(|part| meta::label(&at.with(&part.into()), causes));
        if !self.has(at.text()) {
            causes.invalid_text(at, UNKNOWN);
        }
    }

    /// A set of such names.
    pub(crate) fn judge_all(&self, at: &At<'_, '_>, causes: &mut Causes) {
        set(at, REQUESTS_MAX, itself, causes, |name, causes| self.judge(name, causes));
    }
}

fn claim_spec(at: &At<'_, '_>, causes: &mut Causes) {
    let devices = at.member("devices");
    let names = Requests::of(&devices);
    set(&devices.member("requests"), REQUESTS_MAX, named, causes, request);
    slice(&devices.member("constraints"), CONSTRAINTS_MAX, causes, |it, causes| constraint(it, &names, causes));
    slice(&devices.member("config"), CONFIGS_MAX, causes, |it, causes| {
        names.judge_all(&it.member("requests"), causes);
        configuration(it, false, causes);
    });
}

fn request(at: &At<'_, '_>, causes: &mut Causes) {
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    meta::label(&at.member("name"), causes);
    let (exactly, alternatives) = (at.member("exactly"), at.member("firstAvailable"));
    match (exactly.is_present(), alternatives.len() > 0) {
        (false, false) => causes.required(at, ONE),
        (true, true) => causes.invalid_as(at, &Value::Null, &format!("{ONE}, but multiple fields are set")),
        (true, false) => wanted(&exactly, causes),
        (false, true) => set(&alternatives, ALTERNATIVES_MAX, named, causes, |it, causes| {
            meta::label(&it.member("name"), causes);
            wanted(it, causes);
        }),
    }
}

/// Which devices a request is for, and how many.
fn wanted(at: &At<'_, '_>, causes: &mut Causes) {
    devices::class(&at.member("deviceClassName"), causes);
    selectors(&at.member("selectors"), causes);
    let (mode, count) = (at.member("allocationMode"), at.member("count"));
    match mode.text() {
        "All" if count.integer() != 0 => causes.invalid(&count, "must not be specified when allocationMode is 'All'"),
        "All" => {}
        "ExactCount" => meta::positive(&count, causes),
        _ => causes.not_supported(&mode.or_empty(), &["All", "ExactCount"]),
    }
    at.member("tolerations").items().for_each(|it| toleration(&it, causes));
}

fn constraint(at: &At<'_, '_>, names: &Requests<'_>, causes: &mut Causes) {
    names.judge_all(&at.member("requests"), causes);
    let (equal, distinct) = (at.member("matchAttribute"), at.member("distinctAttribute"));
    match (equal.is_present(), distinct.is_present()) {
        (true, _) => devices::fully_qualified(&equal, causes),
        (false, true) => devices::fully_qualified(&distinct, causes),
        (false, false) => {
            causes.required(at, r#"exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set"#);
        }
    }
}

/// What is stored is not judged by its length again.
fn class(object: &Value, old: &Value, causes: &mut Causes) {
    let root = At::root(object);
    let spec = root.member("spec");
    selectors(&spec.member("selectors"), causes);
    let configs = spec.member("config");
    let is_stored = !old.is_null() && same(configs.value(), &old["spec"]["config"]);
    slice(&configs, CONFIGS_MAX, causes, |it, causes| configuration(it, is_stored, causes));
    let name = spec.member("extendedResourceName");
    if name.is_present() && !quantities::is_extended(name.text()) {
        causes.invalid(&name, "must be a valid extended resource name");
    }
}
