//! What controllers' objects get besides defaults: the labels by which a Job finds its Pods, the count of a DaemonSet's templates
//! (`pkg/registry/batch/job`, `pkg/registry/apps/daemonset`).

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{
    row::{JudgedAsNew, StatusMetadata, Strategy, of_main, of_parts},
    warnings::{at, host_name, is_counted, items, pod, template},
};
use crate::write::{part::Part, tree};
use builtins::{cron_job, daemon_set, job, replicas, stateful_set};

pub(super) const JOBS: Strategy = Strategy {
    storage: "jobs",
    decoded: with_labels,
    prepare_generated: label,
    prepare_create: |job, _| select(job),
    prepare_update: |part, _, job| {
        if part == Part::Main {
            label(job);
        }
    },
    judged_as_new: JudgedAsNew::Main,
    validate_create: job::create,
    validate_update: |part, old, new| of_parts(part, || job::update(old, new), || job::update_status(old, new)),
    warn: |old, new, warnings| warn_of_job("spec", old, new, warnings),
    ..Strategy::COMMON
};

// What a controller says of its CronJob is not judged.
pub(super) const CRON_JOBS: Strategy = Strategy {
    storage: "cronjobs",
    validate_create: cron_job::create,
    validate_update: |part, old, new| of_main(part, || cron_job::update(old, new)),
    warn: warn_of_cron_job,
    ..Strategy::COMMON
};

pub(super) const DAEMON_SETS: Strategy = Strategy {
    storage: "daemonsets",
    decoded: with_count,
    prepare_create: |set, _| count_template(set, None),
    prepare_update: |_, old, new| count_template(new, Some(old)),
    validate_create: daemon_set::create,
    validate_update: |part, old, new| of_parts(part, || daemon_set::update(old, new), || daemon_set::update_status(old, new)),
    warn: warn_of_daemon_set,
    ..Strategy::COMMON
};

// A Deployment's revision is an annotation (spec api-surface §6.2).
pub(super) const DEPLOYMENTS: Strategy = Strategy {
    storage: "deployments",
    status_metadata: StatusMetadata::Without(&["labels"]),
    counted_metadata: Some("annotations"),
    validate_create: replicas::create_deployment,
    validate_update: |part, old, new| {
        of_parts(part, || replicas::update_deployment(old, new), || replicas::update_deployment_status(old, new))
    },
    warn: |old, new, warnings| warn_of_replicas(old, new, new, warnings),
    ..Strategy::COMMON
};

pub(super) const REPLICA_SETS: Strategy = Strategy {
    storage: "replicasets",
    validate_create: replicas::create_replica_set,
    validate_update: |part, old, new| {
        of_parts(part, || replicas::update_replica_set(old, new), || replicas::update_replica_set_status(old, new))
    },
    warn: |old, new, warnings| warn_of_replicas(old, new, new, warnings),
    ..Strategy::COMMON
};

// A change of a ReplicationController is warned of by what it was.
pub(super) const REPLICATION_CONTROLLERS: Strategy = Strategy {
    storage: "controllers",
    validate_create: replicas::create_replication_controller,
    validate_update: |part, old, new| {
        of_parts(part, || replicas::update_replication_controller(old, new), || replicas::update_replication_controller_status(old, new))
    },
    warn: |old, new, warnings| warn_of_replicas(old, new, old.unwrap_or(new), warnings),
    ..Strategy::COMMON
};

pub(super) const STATEFUL_SETS: Strategy = Strategy {
    storage: "statefulsets",
    validate_create: stateful_set::create,
    validate_update: |part, old, new| of_parts(part, || stateful_set::update(old, new), || stateful_set::update_status(old, new)),
    warn: warn_of_stateful_set,
    ..Strategy::COMMON
};

pub(super) const POD_TEMPLATES: Strategy = Strategy {
    storage: "podtemplates",
    validate_create: builtins::pod::create_template,
    validate_update: |part, old, new| if part == Part::Main { builtins::pod::update_template(old, new) } else { Vec::new() },
    warn: |old, new, warnings| template("template", old, new, new, warnings),
    ..Strategy::COMMON
};

/// Where v1 shows how often the template of a DaemonSet was changed.
const TEMPLATES: &str = "deprecated.daemonset.template.generation";

/// Gives the Pods of a Job its uid as a label, and makes the Job select it. A Job without labels gets those of its Pods, if they had some: Go's
/// two maps are then one.
fn select(job: &mut Value) {
    let labelled = tree::at(job, &["spec", "template", "metadata", "labels"]).is_some();
    if tree::at(job, &["spec", "manualSelector"]) != Some(&Value::Bool(true)) {
        generate(job);
    }
    if labelled {
        label(job);
    }
}

/// A Job without labels with those of its Pods.
fn with_labels(job: &Value) -> Cow<'_, Value> {
    let is_without =
        tree::at(job, &["metadata", "labels"]).is_none() && tree::at(job, &["spec", "template", "metadata", "labels"]).is_some();
    changed_if(is_without, job, label)
}

/// A DaemonSet with the count of its templates, which is 0 if nothing is said of it.
fn with_count(set: &Value) -> Cow<'_, Value> {
    let is_without = tree::at(set, &["metadata", "annotations", TEMPLATES]).is_none();
    changed_if(is_without, set, |set| tree::set(set, &["metadata", "annotations", TEMPLATES], "0".into()))
}

fn changed_if(wanted: bool, object: &Value, change: impl FnOnce(&mut Value)) -> Cow<'_, Value> {
    if !wanted {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    change(&mut object);
    Cow::Owned(object)
}

/// A Job without labels has those of its Pods.
fn label(job: &mut Value) {
    if let Some(labels) = tree::at(job, &["spec", "template", "metadata", "labels"]).cloned() {
        tree::member(job, "metadata").entry("labels").or_insert(labels);
    }
}

fn generate(job: &mut Value) {
    let part = |name: &str| tree::text(job, &["metadata", name]).to_owned();
    let (name, uid) = (part("name"), part("uid"));
    for (label, text) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        set_absent(job, &["spec", "template", "metadata", "labels", label], text);
    }
    set_absent(job, &["spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"], &uid);
}

fn set_absent(object: &mut Value, path: &[&str], text: &str) {
    if tree::at(object, path).is_none() {
        tree::set(object, path, text.into());
    }
}

/// One more when the template is another; nobody else can count.
fn count_template(new: &mut Value, old: Option<&Value>) {
    let warnings = |object: &Value| tree::text(object, &["metadata", "annotations", TEMPLATES]).parse::<i64>().unwrap_or(0);
    let template = |object: &Value| tree::at(object, &["spec", "template"]).cloned();
    let count = match old {
        None => warnings(new).max(1),
        Some(old) => warnings(old).wrapping_add(i64::from(template(old) != template(new))),
    };
    tree::set(new, &["metadata", "annotations", TEMPLATES], json!(count.to_string()));
}

fn warn_of_replicas(old: Option<&Value>, new: &Value, of: &Value, warnings: &mut Vec<String>) {
    if old.is_none() {
        host_name("Pod names and hostnames", new, warnings);
    }
    template("spec.template", old, new, of, warnings);
}

fn warn_of_daemon_set(old: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
    if old.is_none_or(|old| at(old, "spec.template") != at(new, "spec.template")) {
        template("spec.template", None, new, new, warnings);
    }
}

fn warn_of_stateful_set(old: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
    template("spec.template", old, new, new, warnings);
    let spec = if old.is_some() { ".Spec" } else { "" };
    for (i, claim) in items(new, &["spec", "volumeClaimTemplates"]).enumerate() {
        pod::claim_spec(&format!("spec.volumeClaimTemplates[{i}]{spec}"), &claim["spec"], warnings);
    }
    if tree::integer(new, &["spec", "revisionHistoryLimit"]).is_some_and(|limit| limit < 0) {
        warnings
            .push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
    }
}

/// Warns of a Job, whose spec is at `spec`.
fn warn_of_job(spec: &str, old: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
    if old.is_none() {
        host_name("Pod names and hostnames", new, warnings);
    }
    if is_counted(old, new) {
        many_completions(spec, new, warnings);
    }
    template(&format!("{spec}.template"), old, new, new, warnings);
}

fn warn_of_cron_job(old: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
    warn_of_job("spec.jobTemplate.spec", old, new, warnings);
    if old.is_some() && tree::text(new, &["spec", "schedule"]).contains("TZ") {
        warnings.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        );
    }
}

/// Completions of an Indexed Job that are too many to be followed.
fn many_completions(path: &str, object: &Value, warnings: &mut Vec<String>) {
    let spec = at(object, path).unwrap_or(&Value::Null);
    let count = |name: &str| tree::integer(spec, &[name]).unwrap_or(0);
    if tree::text(spec, &["completionMode"]) == "Indexed" && count("completions") > 100_000 && count("parallelism") > 10_000 {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to \
             track completedIndexes when a big number of indexes fail"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_counted() {
        let set =
            |image: &str, count: &str| json!({"metadata": {"annotations": {TEMPLATES: count}}, "spec": {"template": {"image": image}}});
        let counted = |mut new: Value, old: Option<&Value>| {
            count_template(&mut new, old);
            tree::text(&new, &["metadata", "annotations", TEMPLATES]).to_owned()
        };
        let old = set("a", "4");
        assert_eq!((counted(set("a", "x"), None), counted(set("a", "3"), None)), ("1".to_owned(), "3".to_owned()));
        let most = set("a", &i64::MAX.to_string());
        assert_eq!(counted(set("b", ""), Some(&most)), i64::MIN.to_string(), "as Go counts");
        assert_eq!((counted(set("a", "9"), Some(&old)), counted(set("b", "9"), Some(&old))), ("4".to_owned(), "5".to_owned()));
    }

    #[test]
    fn a_job_with_a_selector_of_its_own_is_left_alone() {
        let job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"manualSelector": true, "template": {}}});
        let mut same = job.clone();
        select(&mut same);
        assert_eq!(same, job);
        let mut own = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"metadata": {"labels": {"job-name": "x"}}}}});
        select(&mut own);
        assert_eq!(
            (&own["spec"]["template"]["metadata"]["labels"]["job-name"], &own["spec"]["selector"]["matchLabels"]),
            (&json!("x"), &json!({"batch.kubernetes.io/controller-uid": "u"}))
        );
    }
}
