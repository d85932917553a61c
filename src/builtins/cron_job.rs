//! CronJobs.

use serde_json::Value;

use crate::{at::At, causes::Causes, cron, job, meta, template, zones};
use model::invalid::FieldError;

/// Bytes of a part of the name of a time zone.
const ZONE_PART_BYTES_MAX: usize = 14;

/// What is wrong with a new CronJob. The length of its name is judged with the name.
#[must_use]
pub fn create(cron_job: &Value) -> Vec<FieldError> {
    let root = At::root(cron_job);
    Causes::of(|causes| judge(&root.member("spec"), None, causes))
}

/// What is wrong with a change of a CronJob.
#[must_use]
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let old = old.member("spec");
    Causes::of(|causes| judge(&new.member("spec"), Some(&old), causes))
}

fn judge(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    let (text, zone) = (spec.member("schedule"), spec.member("timeZone"));
    if text.text().is_empty() {
        causes.required(&text, "");
    } else {
        let had_zone = old.is_some_and(|old| old.member("schedule").text().contains("TZ"));
        schedule(&text, &zone, had_zone, causes);
    }
    meta::not_negative(&spec.member("startingDeadlineSeconds"), causes);
    if old.is_none_or(|old| old.member("timeZone").value() != zone.value()) {
        time_zone(&zone, causes);
    }
    let policy = spec.member("concurrencyPolicy");
    match policy.text() {
        "Allow" | "Forbid" | "Replace" => {}
        "" => causes.required(&policy, ""),
        _ => causes.not_supported(&policy, &["Allow", "Forbid", "Replace"]),
    }
    let template = spec.member("jobTemplate");
    let old = old.map(|old| old.member("jobTemplate"));
    job_template(&template.member("spec"), old.as_ref().map(|old| old.member("spec")).as_ref(), causes);
    meta::not_negative(&spec.member("successfulJobsHistoryLimit"), causes);
    meta::not_negative(&spec.member("failedJobsHistoryLimit"), causes);
}

/// The schedule, which names its zone only if it did before zones had a field of their own.
fn schedule(at: &At<'_, '_>, zone: &At<'_, '_>, had_zone: bool, causes: &mut Causes) {
    if let Err(why) = cron::judge(at.text()) {
        causes.invalid(at, &why);
    }
    match (at.text().contains("TZ"), had_zone) {
        (true, true) if zone.is_present() => causes.invalid(at, "cannot use both timeZone field and TZ or CRON_TZ in schedule"),
        (true, false) => causes.invalid(at, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
        _ => {}
    }
}

fn time_zone(at: &At<'_, '_>, causes: &mut Causes) {
    let Some(name) = at.value().as_str() else { return };
    if name.is_empty() {
        causes.invalid_json(at, "timeZone must be nil or non-empty string");
        return;
    }
    if !name.split('/').all(is_zone_part) {
        causes.invalid_json(at, &format!("unknown time zone {name}"));
        return;
    }
    if name.eq_ignore_ascii_case("Local") {
        causes.invalid_json(at, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
    }
    if let Some(why) = zones::unknown(name) {
        causes.invalid_json(at, &why);
    }
}

/// `[A-Za-z.\-_0-9+]{1,14}`, but neither a directory nor an option.
fn is_zone_part(part: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    !matches!(part, "" | "." | "..") && !part.starts_with('-') && part.len() <= ZONE_PART_BYTES_MAX && part.bytes().all(is_known)
}

/// The spec of the Jobs, whose selector the server makes.
fn job_template(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    job::judge_spec(spec, old, causes);
    let (selector, manual) = (spec.member("selector"), spec.member("manualSelector"));
    if selector.is_present() {
        causes.invalid_shown(&selector, template::SELECTOR, "`selector` will be auto-generated");
    }
    if manual.is_true() {
        causes.not_supported(&manual, &["nil", "false"]);
    }
}
