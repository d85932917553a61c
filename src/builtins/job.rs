//! Jobs, and the specs of Jobs that CronJobs have: what is asked for, and which Pods are the Job's own.

use serde_json::{Map, Value, json};

use crate::{at::At, causes::Causes, job_policies, job_update, labels, meta, names, selectors, template};
use model::invalid::FieldError;

pub use crate::job_status::update_status;

const INDEXED: &str = "Indexed";
const NON_INDEXED: &str = "NonIndexed";
/// Pods of an Indexed Job at one time.
const INDEXED_PARALLELISM_MAX: i64 = 100_000;
/// Indexes of an Indexed Job that may fail.
const FAILED_INDEXES_MAX: i64 = 100_000;
/// Completions from which the next two limits hold, if each index has its backoff limit.
const COMPLETIONS_SOFT_LIMIT: i64 = 100_000;
const PARALLELISM_OF_MANY_MAX: i64 = 10_000;
const FAILED_INDEXES_OF_MANY_MAX: i64 = 10_000;
/// Bytes of the name of a controller.
const MANAGED_BY_BYTES_MAX: usize = 63;
const MISMATCH: &str = "`selector` does not match template `labels`";

/// Labels of a Job's Pods by which it is selected: the uid, the name, and both as they were called before.
const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";
const OLD_UID: &str = "controller-uid";
const OLD_NAME: &str = "job-name";

/// What is wrong with a new Job.
#[must_use]
pub fn create(job: &Value) -> Vec<FieldError> {
    Causes::of(|causes| judge(&At::root(job), None, causes))
}

/// What is wrong with a change of a Job. The spec is judged twice.
#[must_use]
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    Causes::of(|causes| {
        judge(&new, Some(&old), causes);
        let old_spec = old.member("spec");
        whole_spec(&new.member("spec"), Some(&old_spec), causes);
        job_update::changes(&old, &new, causes);
    })
}

fn judge(job: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    let (spec, metadata) = (job.member("spec"), job.member("metadata"));
    generated(job, old.is_none_or(has_prefixed_labels), causes);
    let old_spec = old.map(|old| old.member("spec"));
    whole_spec(&spec, old_spec.as_ref(), causes);
    let completions = spec.member("completions").integer();
    if spec.member("completionMode").text() == INDEXED && completions > 0 {
        let name = metadata.member("name");
        let last = format!("{}-{}", name.text(), completions - 1);
        if !names::label(&last).is_empty() {
            causes.invalid(&name, &format!("will not able to create pod with invalid DNS label: {last}"));
        }
    }
}

/// Whether the Pods of a Job have the labels by which it is selected today.
fn has_prefixed_labels(job: &At<'_, '_>) -> bool {
    let spec = job.member("spec");
    let template = spec.member("template");
    let metadata = template.member("metadata");
    let labels = metadata.member("labels");
    labels.map().is_some_and(|labels| labels.contains_key(NAME) && labels.contains_key(UID))
}

/// The labels and the selector that the server makes, unless the Job brings its own.
fn generated(job: &At<'_, '_>, is_prefixed: bool, causes: &mut Causes) {
    let (spec, metadata) = (job.member("spec"), job.member("metadata"));
    let selector = spec.member("selector");
    if spec.member("manualSelector").is_true() || selector.is_absent() {
        return;
    }
    let (uid, name) = (metadata.member("uid"), metadata.member("name"));
    if uid.text().is_empty() {
        causes.required(&uid, "");
    }
    let template = spec.member("template");
    let of_template = template.member("metadata");
    let labels = of_template.member("labels");
    let wanted = [(OLD_UID, uid.text()), (OLD_NAME, name.text()), (UID, uid.text()), (NAME, name.text())];
    let wanted = if is_prefixed { &wanted[..] } else { &wanted[..2] };
    for (key, value) in wanted {
        let label = labels.key(key);
        let why = format!("must be '{value}'");
        if label.is_absent() {
            causes.required(&label, &why);
        } else if label.text() != *value {
            causes.invalid_as(&label, labels.value(), &why);
        }
    }
    let expected: Map<String, Value> = wanted.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    if selectors::is_usable(&selector) && !selectors::selects(&selector, Some(&expected)) {
        causes.invalid_shown(&selector, template::SELECTOR, "`selector` not auto-generated");
    }
}

/// The spec of a Job with its selector.
fn whole_spec(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    judge_spec(spec, old, causes);
    let selector = spec.member("selector");
    if selector.is_absent() {
        causes.required(&selector, "");
    } else {
        let any_value = old.is_some_and(|old| labels::has_wrong_value(&old.member("selector")));
        labels::selector(&selector, labels::SelectorOptions { any_value, ..Default::default() }, causes);
    }
    let template = spec.member("template");
    let metadata = template.member("metadata");
    let labels = metadata.member("labels");
    if selectors::is_usable(&selector) && !selectors::selects(&selector, labels.map()) {
        causes.invalid(&labels, MISMATCH);
    }
}

/// The spec of a Job without its selector.
pub(crate) fn judge_spec(spec: &At<'_, '_>, old: Option<&At<'_, '_>>, causes: &mut Causes) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    counts.iter().for_each(|count| meta::not_negative(&spec.member(count), causes));
    if spec.member("maxFailedIndexes").is_present() && spec.member("backoffLimitPerIndex").is_absent() {
        causes.required(&spec.member("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    let manager = spec.member("managedBy");
    if manager.is_present() {
        domain_path(&manager, causes);
        if manager.text().len() > MANAGED_BY_BYTES_MAX {
            causes.too_long(&manager, MANAGED_BY_BYTES_MAX);
        }
    }
    completion_mode(spec, causes);
    job_policies::failure(spec, causes);
    job_policies::success(spec, causes);
    job_policies::replacement(spec, causes);
    let old = old.map(|old| old.member("template"));
    template::pods(&spec.member("template"), old.as_ref(), causes);
    restart_policy(spec, causes);
}

/// A path below a domain, such as `acme.io/foo` (`IsDomainPrefixedPath`).
fn domain_path(at: &At<'_, '_>, causes: &mut Causes) {
    if at.text().is_empty() {
        causes.required(at, "");
        return;
    }
    let Some((domain, path)) = at.text().split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty()) else {
        causes.invalid(at, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        return;
    };
    names::subdomain(domain).iter().for_each(|why| causes.invalid_as(at, &domain.into(), why));
    if let Some(why) = names::http_path(path) {
        causes.invalid_as(at, &path.into(), why);
    }
}

fn completion_mode(spec: &At<'_, '_>, causes: &mut Causes) {
    let mode = spec.member("completionMode");
    if mode.is_present() && !matches!(mode.text(), INDEXED | NON_INDEXED) {
        causes.not_supported(&mode, &[NON_INDEXED, INDEXED]);
    }
    if mode.text() == INDEXED {
        indexed(spec, causes);
    }
    if mode.is_absent() || mode.text() == NON_INDEXED {
        for limit in ["backoffLimitPerIndex", "maxFailedIndexes"].map(|limit| spec.member(limit)).iter().filter(|limit| limit.is_present())
        {
            causes.invalid(limit, "requires indexed completion mode");
        }
    }
}

/// The numbers of a Job whose Pods have indexes.
fn indexed(spec: &At<'_, '_>, causes: &mut Causes) {
    let (completions, parallelism, failed) = (spec.member("completions"), spec.member("parallelism"), spec.member("maxFailedIndexes"));
    if completions.is_absent() {
        causes.required(&completions, "when completion mode is Indexed");
    }
    if parallelism.integer() > INDEXED_PARALLELISM_MAX {
        let why = format!("must be less than or equal to {INDEXED_PARALLELISM_MAX} when completion mode is Indexed");
        causes.invalid(&parallelism, &why);
    }
    if completions.is_present() && failed.is_present() && failed.integer() > completions.integer() {
        causes.invalid(&failed, "must be less than or equal to completions");
    }
    if failed.integer() > FAILED_INDEXES_MAX {
        causes.invalid(&failed, &format!("must be less than or equal to {FAILED_INDEXES_MAX}"));
    }
    if completions.integer() > COMPLETIONS_SOFT_LIMIT && spec.member("backoffLimitPerIndex").is_present() {
        let of_many = |max: i64| {
            format!(
                "must be less than or equal to {max} when completions are above {COMPLETIONS_SOFT_LIMIT} and used with backoff limit per index"
            )
        };
        if failed.is_absent() {
            causes.required(&failed, &format!("must be specified when completions is above {COMPLETIONS_SOFT_LIMIT}"));
        }
        if parallelism.integer() > PARALLELISM_OF_MANY_MAX {
            causes.invalid(&parallelism, &of_many(PARALLELISM_OF_MANY_MAX));
        }
        if failed.integer() > FAILED_INDEXES_OF_MANY_MAX {
            causes.invalid(&failed, &of_many(FAILED_INDEXES_OF_MANY_MAX));
        }
    }
}

/// Pods of a Job end.
fn restart_policy(spec: &At<'_, '_>, causes: &mut Causes) {
    let template = spec.member("template");
    let pod = template.member("spec");
    let policy = pod.member("restartPolicy");
    match policy.text() {
        "" | "Always" => causes.required(&policy, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" if spec.member("podFailurePolicy").is_absent() => {}
        "OnFailure" => causes.invalid(&policy, "only \"Never\" is supported when podFailurePolicy is specified"),
        _ => causes.not_supported(&policy, &["OnFailure", "Never"]),
    }
}
