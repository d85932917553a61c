//! What controllers' objects get besides defaults: the labels by which a Job finds its Pods, the count of a DaemonSet's templates
//! (`pkg/registry/batch/job`, `pkg/registry/apps/daemonset`).

use std::borrow::Cow;

use serde_json::{Value, json};

use super::tree;

/// Where v1 shows how often the template of a DaemonSet was changed.
const TEMPLATES: &str = "deprecated.daemonset.template.generation";

/// Gives the Pods of a Job its uid as a label, and makes the Job select it. A Job without labels gets those of its Pods, if they had some: Go's
/// two maps are then one.
pub(super) fn select(job: &mut Value) {
    let labelled = tree::at(job, &["spec", "template", "metadata", "labels"]).is_some();
    if tree::at(job, &["spec", "manualSelector"]) != Some(&Value::Bool(true)) {
        generate(job);
    }
    if labelled {
        label(job);
    }
}

/// A Job without labels with those of its Pods.
pub(super) fn with_labels(job: &Value) -> Cow<'_, Value> {
    let is_without =
        tree::at(job, &["metadata", "labels"]).is_none() && tree::at(job, &["spec", "template", "metadata", "labels"]).is_some();
    changed_if(is_without, job, label)
}

/// A DaemonSet with the count of its templates, which is 0 if nothing is said of it.
pub(super) fn with_count(set: &Value) -> Cow<'_, Value> {
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
pub(super) fn label(job: &mut Value) {
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
pub(super) fn count_template(new: &mut Value, old: Option<&Value>) {
    let warnings = |object: &Value| tree::text(object, &["metadata", "annotations", TEMPLATES]).parse::<i64>().unwrap_or(0);
    let template = |object: &Value| tree::at(object, &["spec", "template"]).cloned();
    let count = match old {
        None => warnings(new).max(1),
        Some(old) => warnings(old).wrapping_add(i64::from(template(old) != template(new))),
    };
    tree::set(new, &["metadata", "annotations", TEMPLATES], json!(count.to_string()));
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
