//! The status of a Job: which numbers, indexes and conditions go together. A rule is asked only when something that it is about has changed.

use std::collections::HashSet;

use serde_json::Value;

use crate::{at::At, causes::Causes, job_indexes, meta};
use go::time;
use model::invalid::FieldError;

/// A Job and the conditions of it that are true.
struct Job<'v> {
    status: At<'v, 'v>,
    spec: At<'v, 'v>,
    is_complete: bool,
    is_failed: bool,
    will_fail: bool,
    has_met: bool,
}

impl<'v> Job<'v> {
    fn of(root: &'v At<'v, 'v>) -> Self {
        let status = root.member("status");
        let is = |kind: &str| has_condition(&status, kind, "True");
        let (is_complete, is_failed) = (is("Complete"), is("Failed"));
        let (will_fail, has_met) = (is("FailureTarget"), is("SuccessCriteriaMet"));
        Self { status, spec: root.member("spec"), is_complete, is_failed, will_fail, has_met }
    }

    fn is_finished(&self) -> bool {
        self.is_complete || self.is_failed
    }

    fn at(&self, member: &'static str) -> At<'_, 'v> {
        self.status.member(member)
    }

    fn number(&self, member: &'static str) -> i64 {
        self.at(member).integer()
    }
}

fn has_condition(status: &At<'_, '_>, kind: &str, wanted: &str) -> bool {
    let conditions = status.member("conditions");
    conditions.items().any(|it| it.member("type").text() == kind && it.member("status").text() == wanted)
}

/// What changed, as far as rules ask.
#[expect(clippy::struct_excessive_bools, reason = "each is asked by itself")]
struct Changed {
    finished: bool,
    complete: bool,
    failed: bool,
    failure_target: bool,
    success_met: bool,
    completed_indexes: bool,
    failed_indexes: bool,
    active: bool,
    start: bool,
    completion: bool,
    uncounted: bool,
    ready: bool,
    terminating: bool,
}

impl Changed {
    fn between(old: &Job<'_>, new: &Job<'_>) -> Self {
        let is = |member| old.at(member).value() != new.at(member).value();
        Self {
            finished: old.is_finished() != new.is_finished(),
            complete: old.is_complete != new.is_complete,
            failed: old.is_failed != new.is_failed,
            failure_target: old.will_fail != new.will_fail,
            success_met: old.has_met != new.has_met,
            completed_indexes: old.at("completedIndexes").text() != new.at("completedIndexes").text(),
            failed_indexes: is("failedIndexes"),
            active: old.number("active") != new.number("active"),
            start: is("startTime"),
            completion: is("completionTime"),
            uncounted: !crate::equal::same(old.at("uncountedTerminatedPods").value(), new.at("uncountedTerminatedPods").value()),
            ready: is("ready"),
            terminating: is("terminating"),
        }
    }
}

/// What is wrong with the status of a Job.
#[must_use]
pub fn update_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, new) = (Job::of(&old), Job::of(&new));
    let changed = Changed::between(&old, &new);
    Causes::of(|causes| {
        for count in ["active", "succeeded", "failed", "ready", "terminating"] {
            meta::not_negative(&new.at(count), causes);
        }
        uncounted(&new.at("uncountedTerminatedPods"), causes);
        conditions_and_times(&new, &changed, causes);
        finished(&new, &changed, causes);
        indexes(&new, &changed, causes);
        pods(&new, &changed, causes);
        success(&new, causes);
        since(&old, &new, &changed, causes);
    })
}

/// The uids of Pods that have ended and are not counted yet: each once.
fn uncounted(at: &At<'_, '_>, causes: &mut Causes) {
    let mut known = HashSet::new();
    for list in ["succeeded", "failed"].map(|name| at.member(name)) {
        for uid in list.items() {
            if uid.text().is_empty() {
                causes.invalid_json(&uid, "must not be empty");
            } else if !known.insert(uid.text()) {
                causes.duplicate_shown(&uid, "string", "");
            }
        }
    }
}

fn conditions_and_times(job: &Job<'_>, changed: &Changed, causes: &mut Causes) {
    let (conditions, completion, start) = (job.at("conditions"), job.at("completionTime"), job.at("startTime"));
    if (changed.complete || changed.failed) && job.is_complete && job.is_failed {
        causes.invalid_unshown(&conditions, "cannot set Complete=True and Failed=true conditions");
    }
    if (changed.complete || changed.failure_target) && job.is_complete && job.will_fail {
        causes.invalid_unshown(&conditions, "cannot set Complete=True and FailureTarget=true conditions");
    }
    if changed.complete || changed.completion {
        if completion.is_present() && !job.is_complete {
            causes.invalid_shown(&completion, "*time", "cannot set completionTime when there is no Complete=True condition");
        }
        if completion.is_absent() && job.is_complete {
            causes.required(&completion, "completionTime is required for Complete jobs");
        }
    }
    if (changed.start || changed.completion) && is_before(completion.text(), start.text()) {
        causes.invalid_shown(&completion, "*time", "must be equal to or after `startTime`");
    }
    if (changed.failed || changed.failed_indexes) && job.is_failed && !job.will_fail {
        causes.invalid_unshown(&conditions, "cannot set Failed=True condition without the FailureTarget=true condition");
    }
    if (changed.complete || changed.success_met) && job.is_complete && !job.has_met {
        causes.invalid_unshown(&conditions, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
}

/// Whether both are times, and the first comes before the second.
fn is_before(first: &str, second: &str) -> bool {
    matches!((time::parse(first), time::parse(second)), (Ok(first), Ok(second)) if first < second)
}

fn finished(job: &Job<'_>, changed: &Changed, causes: &mut Causes) {
    if !job.is_finished() {
        return;
    }
    let (active, start, uncounted) = (job.at("active"), job.at("startTime"), job.at("uncountedTerminatedPods"));
    if (changed.finished || changed.active) && active.integer() > 0 {
        causes.invalid(&active, "active>0 is invalid for finished job");
    }
    let is_suspended_for_nothing = job.spec.member("suspend").is_true() && job.spec.member("completions").some_integer() == Some(0);
    if (changed.finished || changed.start) && !is_suspended_for_nothing && start.is_absent() {
        causes.required(&start, "startTime is required for finished job");
    }
    let count = uncounted.member("succeeded").len() + uncounted.member("failed").len();
    if (changed.finished || changed.uncounted) && count > 0 {
        causes.invalid_shown(&uncounted, "*batch.UncountedTerminatedPods", "must be empty for finished job");
    }
}

fn indexes(job: &Job<'_>, changed: &Changed, causes: &mut Causes) {
    let (completed, failed) = (job.at("completedIndexes"), job.at("failedIndexes"));
    let (completions, limit) = (job.spec.member("completions"), job.spec.member("backoffLimitPerIndex"));
    let most = completions.integer();
    if changed.completed_indexes
        && completions.is_present()
        && let Err(why) = job_indexes::count(completed.text(), most)
    {
        causes.invalid_text(&completed, &format!("error parsing completedIndexes: {why}"));
    }
    if changed.failed_indexes
        && completions.is_present()
        && limit.is_present()
        && failed.is_present()
        && let Err(why) = job_indexes::count(failed.text(), most)
    {
        causes.invalid_json(&failed, &format!("error parsing failedIndexes: {why}"));
    }
    if changed.completed_indexes && !completed.text().is_empty() && job.spec.member("completionMode").text() != "Indexed" {
        causes.invalid_text(&completed, "cannot set non-empty completedIndexes when non-indexed completion mode");
    }
    if changed.failed_indexes && limit.is_absent() && failed.is_present() {
        causes.invalid_text(&failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null");
    }
    if (changed.failed_indexes || changed.completed_indexes)
        && completions.is_present()
        && let Some(index) = job_indexes::overlap(completed.text(), failed.text(), most)
    {
        causes.invalid_text(&failed, &format!("failedIndexes and completedIndexes overlap at index: {index}"));
    }
}

fn pods(job: &Job<'_>, changed: &Changed, causes: &mut Causes) {
    let (terminating, ready) = (job.at("terminating"), job.at("ready"));
    if (changed.finished || changed.terminating) && terminating.integer() > 0 && job.is_finished() {
        causes.invalid(&terminating, "terminating>0 is invalid for finished job");
    }
    if (changed.ready || changed.active) && ready.is_present() && ready.integer() > job.number("active") {
        causes.invalid(&ready, "cannot set more ready pods than active");
    }
}

fn success(job: &Job<'_>, causes: &mut Causes) {
    let conditions = job.at("conditions");
    if job.has_met && job.is_failed {
        causes.invalid_unshown(&conditions, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if job.has_met && job.will_fail {
        causes.invalid_unshown(&conditions, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    if job.spec.member("successPolicy").is_present() && !job.has_met && job.is_complete {
        causes.invalid_unshown(&conditions, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True");
    }
}

/// What may not change from what was there.
fn since(old: &Job<'_>, new: &Job<'_>, changed: &Changed, causes: &mut Causes) {
    let conditions = new.at("conditions");
    for (name, was, is) in [
        ("Failed", old.is_failed, new.is_failed),
        ("Complete", old.is_complete, new.is_complete),
        ("FailureTarget", old.will_fail, new.will_fail),
    ] {
        if was && !is {
            causes.invalid_unshown(&conditions, &format!("cannot disable the terminal {name}=True condition"));
        }
    }
    let (failed, succeeded) = (new.at("failed"), new.at("succeeded"));
    if failed.integer() < old.number("failed") {
        causes.invalid_as(&failed, &failed.integer().into(), "cannot decrease the failed counter");
    }
    let is_elastic = new.spec.member("completionMode").text() == "Indexed"
        && new.spec.member("completions").value() == new.spec.member("parallelism").value();
    if !is_elastic && succeeded.integer() < old.number("succeeded") {
        causes.invalid_as(&succeeded, &succeeded.integer().into(), "cannot decrease the succeeded counter");
    }
    let (completion, start) = (new.at("completionTime"), new.at("startTime"));
    if completion.is_present() && old.at("completionTime").is_present() && changed.completion {
        causes.invalid_shown(&completion, "*time", "field is immutable");
    }
    let is_resuming = has_condition(&old.status, "Suspended", "True") && has_condition(&new.status, "Suspended", "False");
    if changed.start && !is_resuming && old.at("startTime").is_present() && !new.spec.member("suspend").is_true() {
        causes.invalid_shown(&start, "*time", "field is immutable for unsuspended job once set");
    }
    if old.has_met && !new.has_met {
        causes.invalid_unshown(&conditions, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if old.is_complete && !old.has_met && new.has_met {
        causes.invalid_unshown(&conditions, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions");
    }
}
