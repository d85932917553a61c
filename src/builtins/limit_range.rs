//! LimitRanges.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use crate::{
    at::At,
    causes::Causes,
    names,
    quantities::{self, Amount},
};
use go::quantity;
use model::invalid::FieldError;

const STANDARD_TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];
/// Numbers below are compared in thousandths.
const MILLI_MAX: i64 = i64::MAX / 1000;
/// Billionths of a thousandth.
const MILLI: i128 = 1_000_000;

/// What is wrong with a new LimitRange.
#[must_use]
pub fn create(range: &Value) -> Vec<FieldError> {
    let root = At::root(range);
    let spec = root.member("spec");
    Causes::of(|causes| {
        let mut types = HashSet::new();
        for limit in spec.member("limits").items() {
            let kind = limit.member("type");
            limit_type(&kind, causes);
            if !types.insert(kind.text()) {
                causes.duplicate_shown(&kind, "string", "");
            }
            judge(&limit, causes);
        }
    })
}

/// What is wrong with a changed LimitRange, which is judged as a new one.
#[must_use]
pub fn update(_old: &Value, new: &Value) -> Vec<FieldError> {
    create(new)
}

fn limit_type(at: &At<'_, '_>, causes: &mut Causes) {
    let wrong = names::qualified(at.text());
    wrong.iter().for_each(|why| causes.invalid_json(at, why));
    if wrong.is_empty() && !at.text().contains('/') && !STANDARD_TYPES.contains(&at.text()) {
        causes.invalid_json(at, "must be a standard limit type or fully qualified");
    }
}

fn judge(limit: &At<'_, '_>, causes: &mut Causes) {
    let of_pod = limit.member("type").text() == "Pod";
    let mut keys = BTreeSet::new();
    let mut names_of = |member: &str, causes: &mut Causes| {
        let amounts = limit.member(member);
        for (name, at) in amounts.entries() {
            match limit.member("type").text() {
                "Pod" | "Container" => quantities::container_resource_name(name, &at, causes),
                _ => drop(quantities::resource_name(name, &at, causes)),
            }
            keys.insert(name);
        }
    };
    names_of("max", causes);
    names_of("min", causes);
    for member in ["default", "defaultRequest"] {
        if !of_pod {
            names_of(member, causes);
        } else if limit.member(member).len() > 0 {
            causes.forbidden(&limit.member(member), "may not be specified when `type` is 'Pod'");
        }
    }
    let has_storage = ["min", "max"].iter().any(|member| limit.member(member).key("storage").is_present());
    if limit.member("type").text() == "PersistentVolumeClaim" && !has_storage {
        causes.required(&limit.member("limits"), "either minimum or maximum storage value is required, but neither was provided");
    }
    names_of("maxLimitRequestRatio", causes);
    keys.into_iter().for_each(|name| compare(limit, name, of_pod, causes));
}

/// The amounts of one resource must fit each other.
fn compare(limit: &At<'_, '_>, name: &str, of_pod: bool, causes: &mut Causes) {
    let [least, most, preset, requested, ratios] =
        ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"].map(|member| limit.member(member));
    let [least, most, ratio] = [&least, &most, &ratios].map(|amounts| amounts.key(name));
    let of_container = |amounts: &At<'_, '_>| if of_pod { Value::Null } else { amounts.key(name).value().clone() };
    let (of_preset, of_requested) = (of_container(&preset), of_container(&requested));
    let (preset, requested) = (preset.key(name), requested.key(name));
    let (preset, requested) = (preset.with(&of_preset), requested.with(&of_requested));
    let mut order = |small: (&At<'_, '_>, &str), large: (&At<'_, '_>, &str), at: &At<'_, '_>, shown: &At<'_, '_>| {
        let both = small.0.is_present() && large.0.is_present();
        if both && Amount::at(small.0) > Amount::at(large.0) {
            let why = format!("{} value {} is greater than {} value {}", small.1, small.0.text(), large.1, large.0.text());
            causes.invalid_as(at, shown.value(), &why);
        }
    };
    let (min, max) = ((&least, "min"), (&most, "max"));
    order(min, max, &least, &least);
    order(min, (&requested, "default request"), &requested, &requested);
    order((&requested, "default request"), max, &requested, &requested);
    order((&requested, "default request"), (&preset, "default limit"), &requested, &requested);
    order(min, (&preset, "default"), &preset, &least);
    order((&preset, "default"), max, &preset, &most);
    ratio_fits(&ratio, &least, &most, causes);
    let both = preset.is_present() && requested.is_present();
    if !quantities::may_overcommit(name) && both && Amount::at(&preset) != Amount::at(&requested) {
        let (preset, shown) = (preset.text(), requested.text());
        causes.invalid(&requested, &format!("default value {preset} must equal to defaultRequest value {shown} in {name}"));
    }
}

/// A ratio of limit and request, which is at least one, and at most that of the largest and the smallest amount.
fn ratio_fits(ratio: &At<'_, '_>, least: &At<'_, '_>, most: &At<'_, '_>, causes: &mut Causes) {
    if ratio.is_absent() {
        return;
    }
    if Some(Amount::at(ratio)) < Amount::of("1") {
        causes.invalid(ratio, &format!("ratio {} is less than 1", ratio.text()));
    }
    if least.is_absent() || most.is_absent() {
        return;
    }
    let of = |at: &At<'_, '_>| in_64_bits(Amount::at(at).value());
    let is_small = [ratio, least, most].into_iter().all(|at| of(at) < MILLI_MAX);
    let (wanted, limit) = if is_small {
        (float(milli(ratio)) / 1000.0, float(milli(most)) / float(milli(least)))
    } else {
        (float(of(ratio)), float(of(most)) / float(of(least)))
    };
    if wanted > limit {
        let limit = if limit.is_infinite() { "-Inf".to_owned() } else { format!("{limit:.6}") };
        causes.invalid(ratio, &format!("ratio {} is greater than max/min = {limit}", ratio.text()));
    }
}

/// Returns an amount in thousandths, rounded away from zero.
fn milli(at: &At<'_, '_>) -> i64 {
    let nanos = quantity::nanos(at.text()).unwrap_or(0);
    let rest = nanos % MILLI;
    let rounded = if rest == 0 { nanos } else { (nanos - rest).saturating_add(MILLI * rest.signum()) };
    i64::try_from(rounded / MILLI).unwrap_or(0)
}

/// Returns a number, or what Go makes of one that has no 64 bits: nothing.
fn in_64_bits(number: i64) -> i64 {
    if matches!(number, i64::MIN | i64::MAX) { 0 } else { number }
}

#[expect(clippy::cast_precision_loss, reason = "Go computes with floats too")]
fn float(number: i64) -> f64 {
    number as f64
}
