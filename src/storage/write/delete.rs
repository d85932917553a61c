//! DELETE: at once, or marked and left to finalizers, to the kubelet, to the controllers (spec api-surface §8).

use std::{collections::HashSet, sync::Arc, time::Instant};

use serde_json::{Value, json};
use time::OffsetDateTime;

use super::{
    By, Writer,
    failure::{StatusSubject, WriteError},
    kinds,
    object_ref::{Current, ObjectRef},
    options::{DeleteOptions, Propagation, UNREAD, Unread},
    step::{Answers, Decider},
    strategy::is_finished,
    transaction::{Change, Decision, ReadFrom, WriteOutcome, at_revision},
    tree,
};
use catalogue::Served;
use etcd::{Outcome, RangeRequest};
use model::{Object, invalid::FieldError};
use registry::Resource;

/// Finalizers of the garbage collector: what they stand for is asked for anew by every DELETE.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Namespaces that stay (spec api-surface §5.5).
const NAMESPACES_KEPT: [&str; 3] = ["default", "kube-system", "kube-public"];

/// PriorityClasses that a DELETE of one object leaves; one of the collection takes them (measured).
const CLASSES_KEPT: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// How a pod ends when it does not say (spec api-surface §5.8), in seconds.
const POD_GRACE_DEFAULT: i64 = 30;

/// What a DELETE came to.
#[derive(Debug, PartialEq)]
pub enum Deletion {
    /// It is gone: the object as it was, with the revision of the deletion.
    Gone(Value),
    /// It is marked, and something holds it.
    Pending(Value),
    /// A value that cannot be read is gone.
    Unread,
}

impl DeleteOptions {
    /// What the deleter of a Job should know (measured).
    #[must_use]
    pub fn warning(&self, served: &Served) -> Option<&'static str> {
        let is_job = !served.is_custom() && &*served.storage.id == "jobs";
        let says_nothing = self.propagation.is_none() && self.orphan_dependents.is_none();
        (is_job && says_nothing).then_some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
             propagationPolicy=Orphan to suppress this warning",
        )
    }
}

impl Writer {
    /// Deletes one object.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete(
        &self,
        target: &ObjectRef,
        options: &DeleteOptions,
        by: &By<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Deletion, WriteError> {
        if &*target.served().storage.id == "priorityclasses" && CLASSES_KEPT.contains(&target.name.as_str()) {
            let why = "this is a system priority class and cannot be deleted".to_owned();
            return Err(WriteError::Forbidden { of: target.subject(), why, cause: None });
        }
        self.delete_one(target, options, by, warnings).await
    }

    /// The same for the server itself, of which no webhook is asked.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete_by_server(&self, target: &ObjectRef, options: &DeleteOptions) -> Result<Deletion, WriteError> {
        self.delete(target, options, &By::default(), &mut Vec::new()).await
    }

    async fn delete_one(
        &self,
        target: &ObjectRef,
        options: &DeleteOptions,
        by: &By<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Deletion, WriteError> {
        self.may_delete(target)?;
        let mut decider = Decider::new(&self.offload, self.admit(target, false, 0).await, target.answers(by.approver));
        let plugins = self.admission_of_deletion(target, by, options.dry_run).await?;
        let (plugins, told) = (plugins.as_ref(), warnings.len());
        match options.unread {
            Unread::Only => {
                decider.decide(false, |answers| answers.approve(None, Some(&Value::Null))).await??;
                return self.delete_unread(target).await?.ok_or_else(|| readable(target));
            }
            Unread::Deleted if !options.dry_run => {
                if let Some(deletion) = self.delete_unread(target).await? {
                    return Ok(deletion);
                }
            }
            Unread::Deleted | Unread::Kept => {}
        }
        let now = tree::now();
        let decide = |current: Option<&Current>, answers: &Answers<'_>| {
            if let Some(namespace) = current.filter(|_| is_namespace(target.served())) {
                self.terminating.note(namespace, Instant::now());
            }
            if let Some(current) = current.filter(|current| !is_pending(target, options, current)) {
                preconditions(target, options, current)?;
                answers.approve(None, Some(&current.tree))?;
                if let Some(plugins) = plugins {
                    warnings.truncate(told);
                    plugins.confirm_deletion(&current.tree, &completed((target, by), options, &current.tree), warnings)?;
                }
            }
            Ok(decide(target, options, current, now)?)
        };
        let marked = self.change(Change { dry_run: options.dry_run, plugins, ..Change::of(target) }, decider, decide).await?;
        let done = match marked {
            WriteOutcome::Put { tree, .. } if is_pod(target.served()) && is_finished(target.served(), &tree) => {
                if options.dry_run {
                    return Ok(Deletion::Gone(tree));
                }
                // A pod that nothing holds is marked first, and then goes: two events (spec api-surface §8.2).
                let decider = Decider::new(&self.offload, self.admit(target, false, 0).await, target.answers(None));
                let how = Change { read_from: ReadFrom::Etcd, ..Change::of(target) };
                self.change(how, decider, |current, _| Ok(finish(target, current))).await?
            }
            other => other,
        };
        Ok(match done {
            WriteOutcome::Removed { was, revision, .. } => Deletion::Gone(at_revision(was, revision)),
            WriteOutcome::Kept(tree) | WriteOutcome::Put { tree, .. } => Deletion::Pending(tree),
        })
    }

    /// Deletes what stands under the key, if that cannot be read: then its resource cannot be listed. Leaves what can be read.
    async fn delete_unread(&self, target: &ObjectRef) -> Result<Option<Deletion>, WriteError> {
        let key = target.key(&self.prefix);
        loop {
            let asking = target.resource.metrics.etcd_get();
            let answer = self.etcd(target.served()).range(RangeRequest { key: key.to_vec(), ..RangeRequest::default() }).await?;
            asking.succeeded();
            let Some(kv) = answer.kvs.into_iter().next() else { return Ok(None) };
            let revision = kv.mod_revision;
            match self.decoded(target, kv).await {
                Err(WriteError::Undecodable(why)) => match self.delete_if(target, revision).await? {
                    Outcome::Written(_) => {
                        tracing::warn!(%why, "deleted a value that cannot be read, as the client asked");
                        return Ok(Some(Deletion::Unread));
                    }
                    Outcome::Changed(_) => {}
                },
                Err(error) => return Err(error),
                Ok(_) => return Ok(None),
            }
        }
    }

    /// Deletes these objects one by one; those that are gone already are no error (spec api-surface §8.5).
    ///
    /// # Errors
    /// The first other one; what comes after it stays.
    pub async fn delete_each(
        &self,
        resource: &Arc<Resource>,
        objects: impl Iterator<Item = &Arc<Object>> + Send,
        options: &DeleteOptions,
        by: &By<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), WriteError> {
        let by = &By { is_of_many: true, ..*by };
        for object in objects {
            let namespace = Some(object.namespace()).filter(|n| !n.is_empty()).map(str::to_owned);
            let target = ObjectRef { resource: resource.clone(), namespace, name: object.name().to_owned() };
            match self.delete_one(&target, options, by, warnings).await {
                Ok(_) | Err(WriteError::NotFound(_)) => {}
                Err(WriteError::Denied(denial)) if denial.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn may_delete(&self, target: &ObjectRef) -> Result<(), WriteError> {
        if is_namespace(target.served()) && NAMESPACES_KEPT.contains(&target.name.as_str()) {
            return Err(WriteError::Forbidden { of: target.subject(), why: "this namespace may not be deleted".to_owned(), cause: None });
        }
        Ok(())
    }
}

/// The options as kube-apiserver's storage has completed them when it asks admission.
fn completed((target, by): (&ObjectRef, &By<'_>), options: &DeleteOptions, object: &Value) -> DeleteOptions {
    let mut options = options.clone();
    if is_pod(target.served()) && !by.is_of_many {
        options.grace_seconds = Some(pod_grace(&options, object));
    }
    if is_namespace(target.served()) {
        options.uid.get_or_insert_with(|| tree::text(object, &["metadata", "uid"]).to_owned());
    }
    options
}

/// The option is no way around finalizers.
fn readable(target: &ObjectRef) -> WriteError {
    let why = "is exclusively used to delete corrupt object(s), try again by removing this option";
    WriteError::Invalid { of: target.subject(), errors: vec![FieldError::invalid(UNREAD, &Value::Bool(true), why)] }
}

fn is_namespace(served: &Served) -> bool {
    &*served.storage.id == "namespaces"
}

fn is_pod(served: &Served) -> bool {
    &*served.storage.id == "pods"
}

/// Gone already counts as done: somebody else has finished it.
fn finish(target: &ObjectRef, current: Option<&Current>) -> Decision {
    match current {
        Some(current) if is_finished(target.served(), &current.tree) => Decision::Remove(None),
        _ => Decision::Leave,
    }
}

fn decide(target: &ObjectRef, options: &DeleteOptions, current: Option<&Current>, now: OffsetDateTime) -> Result<Decision, WriteError> {
    let Some(current) = current else { return Err(WriteError::NotFound(target.subject())) };
    preconditions(target, options, current)?;
    let (served, old) = (target.served(), &current.tree);
    let mut new = old.clone();
    set_finalizers(served, options, &mut new);
    let is_marked = tree::at(old, &["metadata", "deletionTimestamp"]).is_some();
    let grace = if is_pod(served) { pod_grace(options, old) } else { 0 };
    if is_marked {
        shorten(served, &mut new, grace, now);
    } else {
        mark(served, &mut new, grace, now);
    }
    // A pod is marked first, so that its kubelet and its watchers see it go; a namespace, so that it is emptied.
    let is_marked_first = is_pod(served) || is_namespace(served) && !is_marked;
    if is_finished(served, &new) && (!is_marked_first || new == *old) {
        return Ok(Decision::Remove(None));
    }
    Ok(match new == *old {
        // The end of such a one is under way: kube-apiserver's DELETE does not come to its storage.
        true if is_pod(served) || (kinds::of(served).is_held)(old) => Decision::Leave,
        true => Decision::Keep(new),
        false => Decision::Put(new),
    })
}

/// Whether a pod ends already, no later than it is asked to: then nothing is written, and nobody is asked.
fn is_pending(target: &ObjectRef, options: &DeleteOptions, current: &Current) -> bool {
    let left = tree::integer(&current.tree, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    let is_marked = tree::at(&current.tree, &["metadata", "deletionTimestamp"]).is_some();
    let is_sooner = options.grace_seconds.is_some_and(|grace| if grace < 0 { 1 } else { grace } < left);
    is_pod(target.served()) && is_marked && left != 0 && !is_sooner
}

/// Spec api-surface §8.1; the texts name the kind, not the resource.
pub(super) fn preconditions(target: &ObjectRef, options: &DeleteOptions, current: &Current) -> Result<(), WriteError> {
    let of = || StatusSubject::kind(target.served(), &target.name);
    let uid = tree::text(&current.tree, &["metadata", "uid"]);
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        );
        return Err(WriteError::Conflict { of: of(), why });
    }
    let revision = current.revision.0.to_string();
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != revision) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision}). The object might have \
             been modified"
        );
        return Err(WriteError::Conflict { of: of(), why });
    }
    Ok(())
}

/// Explicit orphanDependents, then propagationPolicy, then what the object has already, then the kind's own default (spec api-surface §8.2 step 2).
fn set_finalizers(served: &Served, options: &DeleteOptions, object: &mut Value) {
    let had = tree::texts(object, &["metadata", "finalizers"]);
    let mut finalizers: Vec<String> = had.iter().filter(|f| !matches!(**f, ORPHAN | FOREGROUND)).map(|f| (*f).to_owned()).collect();
    let collected = match (options.orphan_dependents, options.propagation) {
        _ if &*served.storage.id == "events" => None,
        (Some(true), _) | (None, Some(Propagation::Orphan)) => Some(ORPHAN),
        (None, Some(Propagation::Foreground)) => Some(FOREGROUND),
        (Some(false), _) | (None, Some(Propagation::Background)) => None,
        (None, None) if had.contains(&ORPHAN) => Some(ORPHAN),
        (None, None) if had.contains(&FOREGROUND) => Some(FOREGROUND),
        (None, None) => orphans_by_default(served).then_some(ORPHAN),
    };
    finalizers.extend(collected.map(str::to_owned));
    // What is asked for already keeps its place.
    let known: HashSet<&str> = had.iter().copied().collect();
    if finalizers.len() == had.len() && finalizers.iter().all(|f| known.contains(f.as_str())) {
        return;
    }
    let metadata = tree::member(object, "metadata");
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(finalizers));
    }
}

/// Spec api-surface §17, fact 5.
fn orphans_by_default(served: &Served) -> bool {
    matches!(&*served.storage.id, "jobs" | "controllers")
}

/// Spec api-surface §8.2 step 3.
fn pod_grace(options: &DeleteOptions, pod: &Value) -> i64 {
    let unscheduled = tree::text(pod, &["spec", "nodeName"]).is_empty();
    if unscheduled || matches!(tree::text(pod, &["status", "phase"]), "Succeeded" | "Failed") {
        return 0;
    }
    let own = tree::integer(pod, &["spec", "terminationGracePeriodSeconds"]);
    let grace = options.grace_seconds.or(own).unwrap_or(POD_GRACE_DEFAULT);
    if grace < 0 { 1 } else { grace }
}

/// The first DELETE of an object that something holds, or that ends slowly.
fn mark(served: &Served, object: &mut Value, grace: i64, now: OffsetDateTime) {
    if let Some(mark) = kinds::of(served).mark {
        return mark(object, now);
    }
    let metadata = tree::member(object, "metadata");
    metadata.insert("deletionTimestamp".into(), tree::after(now, grace).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    if let Some(generation) = tree::integer(object, &["metadata", "generation"]).filter(|g| *g > 0) {
        tree::set(object, &["metadata", "generation"], generation.wrapping_add(1).into());
    }
}

/// A later DELETE: only a shorter time changes anything (spec api-surface §8.2 step 3).
fn shorten(served: &Served, object: &mut Value, grace: i64, now: OffsetDateTime) {
    let left = tree::integer(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    if !is_pod(served) || grace >= left {
        return;
    }
    let ends = tree::parsed(tree::text(object, &["metadata", "deletionTimestamp"]));
    let sooner = ends.and_then(|ends| ends.checked_sub(time::Duration::seconds(left - grace))).map_or(now, |sooner| sooner.max(now));
    let metadata = tree::member(object, "metadata");
    metadata.insert("deletionTimestamp".into(), tree::rfc3339(sooner).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::object_ref::test_object_ref;
    use model::Revision;

    fn decided(target: &ObjectRef, options: &DeleteOptions, tree: Value) -> Result<Decision, WriteError> {
        let now = tree::parsed("2026-01-01T00:00:00Z").expect("a time");
        decide(target, options, Some(&Current { tree, revision: Revision(7), is_large: false, stored: None }), now)
    }

    fn put(decision: Result<Decision, WriteError>) -> Value {
        match decision.expect("allowed") {
            Decision::Put(tree) => tree,
            other => panic!("{other:?} where a change is expected"),
        }
    }

    #[test]
    fn what_nothing_holds_goes_at_once() {
        let target = test_object_ref("", "configmaps", Some("n"), "c");
        assert_eq!(decided(&target, &DeleteOptions::default(), json!({"metadata": {"uid": "u"}})), Ok(Decision::Remove(None)));
    }

    #[test]
    fn a_generation_at_its_limit_wraps() {
        let target = test_object_ref("", "configmaps", Some("n"), "c");
        let held = json!({"metadata": {"uid": "u", "generation": i64::MAX, "finalizers": ["ex.io/f"]}});
        let marked = put(decided(&target, &DeleteOptions::default(), held));
        assert_eq!(tree::integer(&marked, &["metadata", "generation"]), Some(i64::MIN), "as Go counts");
    }

    #[test]
    fn a_namespace_is_marked_before_it_goes() {
        let target = test_object_ref("", "namespaces", None, "n");
        let marked = put(decided(&target, &DeleteOptions::default(), json!({"metadata": {"uid": "u"}})));
        assert_eq!(tree::text(&marked, &["status", "phase"]), "Terminating");
        assert_eq!(decided(&target, &DeleteOptions::default(), marked), Ok(Decision::Remove(None)));
    }

    #[test]
    fn finalizers_hold_and_a_second_delete_changes_nothing() {
        let target = test_object_ref("apps", "deployments", Some("n"), "d");
        let marked = put(decided(&target, &DeleteOptions::default(), json!({"metadata": {"generation": 2, "finalizers": ["x.io/f"]}})));
        assert_eq!(
            marked,
            json!({"metadata": {"generation": 3, "finalizers": ["x.io/f"], "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}})
        );
        assert_eq!(decided(&target, &DeleteOptions::default(), marked.clone()), Ok(Decision::Keep(marked)));
    }

    #[test]
    fn propagation_becomes_a_finalizer() {
        let (jobs, configs) = (test_object_ref("batch", "jobs", Some("n"), "j"), test_object_ref("", "configmaps", Some("n"), "c"));
        let with = |propagation| DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        let finalizers = |tree: &Value| tree::texts(tree, &["metadata", "finalizers"]).join(",");
        assert_eq!(finalizers(&put(decided(&jobs, &DeleteOptions::default(), json!({"metadata": {}})))), "orphan");
        assert_eq!(decided(&jobs, &with(Propagation::Background), json!({"metadata": {}})), Ok(Decision::Remove(None)));
        let foreground = put(decided(&configs, &with(Propagation::Foreground), json!({"metadata": {"finalizers": ["x"]}})));
        assert_eq!(finalizers(&foreground), "x,foregroundDeletion");
        assert_eq!(finalizers(&put(decided(&configs, &with(Propagation::Orphan), foreground))), "x,orphan");
    }

    #[test]
    fn preconditions_name_the_kind() {
        let target = test_object_ref("", "configmaps", Some("n"), "c");
        let wrong = DeleteOptions { uid: Some("v".to_owned()), ..DeleteOptions::default() };
        let Err(WriteError::Conflict { of, why }) = decided(&target, &wrong, json!({"metadata": {"uid": "u"}})) else {
            panic!("no conflict")
        };
        assert_eq!(
            (of.kind.as_str(), why.starts_with("the UID in the precondition (v) does not match the UID in record (u).")),
            ("ConfigMap", true)
        );
    }

    #[test]
    fn a_running_pod_ends_slowly_and_can_be_hurried() {
        let target = test_object_ref("", "pods", Some("n"), "p");
        let pod = json!({"metadata": {"generation": 1}, "spec": {"nodeName": "node", "terminationGracePeriodSeconds": 60}, "status": {"phase": "Running"}});
        let marked = put(decided(&target, &DeleteOptions::default(), pod.clone()));
        assert_eq!(tree::text(&marked, &["metadata", "deletionTimestamp"]), "2026-01-01T00:01:00Z");
        assert_eq!(decided(&target, &DeleteOptions::default(), marked.clone()), Ok(Decision::Leave));
        let hurried = put(decided(&target, &DeleteOptions { grace_seconds: Some(20), ..DeleteOptions::default() }, marked));
        assert_eq!(tree::text(&hurried, &["metadata", "deletionTimestamp"]), "2026-01-01T00:00:20Z");
        let unscheduled = put(decided(&target, &DeleteOptions::default(), json!({"metadata": {}, "spec": {}})));
        assert!(is_finished(target.served(), &unscheduled), "marked first, so that watchers see it go");
        assert_eq!(decided(&target, &DeleteOptions::default(), unscheduled), Ok(Decision::Remove(None)));
    }
}
