//! Rules of numbers that many kinds share: counters of a status, numbers or percentages, and what may not change.

use serde_json::Value;

use crate::{at::At, causes::Causes, equal, meta, names};

/// Integers that are not below zero, in this order; one that is absent is zero.
pub(crate) fn none_negative(at: &At<'_, '_>, members: &[&str], causes: &mut Causes) {
    members.iter().for_each(|member| meta::not_negative(&at.member(member), causes));
}

/// Counters that are not more than another one.
pub(crate) fn at_most(at: &At<'_, '_>, members: &[&str], of: &str, why: &str, causes: &mut Causes) {
    let most = at.member(of).integer();
    for counter in members.iter().map(|member| at.member(member)).filter(|counter| counter.integer() > most) {
        causes.invalid_as(&counter, &counter.integer().into(), why);
    }
}

/// A counter that an update does not decrease, nor leaves out once it is there.
pub(crate) fn not_decremented(new: &At<'_, '_>, old: &At<'_, '_>, causes: &mut Causes) {
    let is_less = match (new.some_integer(), old.some_integer()) {
        (Some(new), Some(old)) => new < old,
        (new, old) => new.is_none() && old.is_some(),
    };
    if is_less {
        causes.invalid_as(new, &new.integer().into(), "cannot be decremented");
    }
}

/// A number that is not below zero, or a percentage.
pub(crate) fn number_or_percent(at: &At<'_, '_>, causes: &mut Causes) {
    match at.value().as_str() {
        Some(text) => {
            if let Some(why) = names::percent(text) {
                causes.invalid_json(at, why);
            }
        }
        None => meta::not_negative(at, causes),
    }
}

/// A percentage that is at most the whole.
pub(crate) fn at_most_all(at: &At<'_, '_>, causes: &mut Causes) {
    if percent(at).is_some_and(|percent| percent > 100) {
        causes.invalid_json(at, "must not be greater than 100%");
    }
}

/// Returns the number, or that of the percentage; of another text what Go's `IntValue` makes of it.
pub(crate) fn number_of(at: &At<'_, '_>) -> i64 {
    match at.value() {
        Value::String(text) => percent(at).unwrap_or_else(|| text.parse().unwrap_or(0)),
        _ => at.integer(),
    }
}

/// Returns the number of a percentage; the largest one of digits that are too many, as Go's `Atoi` does.
fn percent(at: &At<'_, '_>) -> Option<i64> {
    let text = at.value().as_str().filter(|text| names::percent(text).is_none())?;
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

/// A value of an internal type that an update may not change.
pub(crate) fn immutable(new: &At<'_, '_>, old: &At<'_, '_>, kind: &str, causes: &mut Causes) {
    if !equal::same(new.value(), old.value()) {
        causes.invalid_shown(new, kind, "field is immutable");
    }
}
