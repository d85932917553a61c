//! Taints that a Pod tolerates.

use std::collections::HashSet;

use super::Options;
use crate::{at::At, causes::Causes, labels::label_key, names};
use go::quote::quoted;

/// `ValidateTolerations`.
pub(crate) fn tolerations(at: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    at.items().for_each(|toleration| one(&toleration, options, causes));
}

fn one(at: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    let (key, operator, effect) = (at.member("key"), at.member("operator"), at.member("effect"));
    if !key.text().is_empty() {
        label_key(&key, causes);
    } else if operator.text() != "Exists" {
        causes.invalid_json(&operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"");
    }
    if at.member("tolerationSeconds").is_present() && effect.text() != "NoExecute" {
        causes.invalid_json(&effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    operator_and_value(at, options, causes);
    if !effect.text().is_empty() {
        taint_effect(&effect, causes);
    }
}

fn operator_and_value(at: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    let (operator, value) = (at.member("operator"), at.member("value"));
    let shown = value.text().into();
    match operator.text() {
        "Equal" | "" => {
            let whys = names::label_value(value.text());
            if !whys.is_empty() {
                causes.invalid_as(&operator, &shown, &whys.join(";"));
            }
        }
        "Exists" if !value.text().is_empty() => causes.invalid_as(&operator, &shown, "value must be empty when `operator` is 'Exists'"),
        "Exists" => {}
        "Lt" | "Gt" if options.any_toleration => number(&value.with(&shown), causes),
        "Lt" | "Gt" => causes.not_supported(&operator, &["Equal", "Exists", "Lt", "Gt"]),
        _ => causes.not_supported(&operator, &["Equal", "Exists"]),
    }
}

/// A number that a taint is compared with.
fn number(at: &At<'_, '_>, causes: &mut Causes) {
    let text = at.text();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = text == "0" || digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.is_empty() && !digits.starts_with('0');
    if text.is_empty() {
        causes.invalid(at, "must be non-empty");
    } else if !is_canonical {
        causes.invalid(at, "must be a valid decimal integer in canonical form");
    }
    if text.parse::<i64>().is_err() {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_number = !unsigned.is_empty() && unsigned.bytes().all(|digit| digit.is_ascii_digit());
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        causes.invalid(at, &format!("strconv.ParseInt: parsing {}: {why}", quoted(text)));
    }
}

/// What a taint does (`validateTaintEffect`), of one that is there.
pub(crate) fn taint_effect(at: &At<'_, '_>, causes: &mut Causes) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !EFFECTS.contains(&at.text()) {
        causes.not_supported(at, &EFFECTS);
    }
}

/// An update adds tolerations, and changes no more of those that are there than how long they last (`validateOnlyAddedTolerations`).
pub(super) fn only_added(new: &At<'_, '_>, old: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    let known: HashSet<String> = new.items().map(|toleration| without_seconds(&toleration)).collect();
    if old.items().any(|toleration| !known.contains(&without_seconds(&toleration))) {
        return causes.forbidden(new, "existing toleration can not be modified except its tolerationSeconds");
    }
    tolerations(new, options, causes);
}

fn without_seconds(toleration: &At<'_, '_>) -> String {
    let members = ["key", "operator", "value", "effect"].map(|member| quoted(toleration.member(member).text()));
    members.join(",")
}
