//! What the server does to an object before it stores it, whatever its kind: fields that are its own, status apart from spec, generation (spec
//! api-surface §5.1, §6). What one kind has of its own is in `kinds`.

use serde_json::{Map, Value};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    admin_access,
    custom::{self, Judge},
    failure::WriteError,
    kinds::{self, StatusMetadata},
    managed, metadata,
    object_ref::{Current, ObjectRef},
    part::Part,
    scale,
    transaction::Decision,
    tree, unapplied,
};
use admission::hooks::UserInfo;
use catalogue::{Origin, Served, defaults};
use go::strconv::parse_uint;
use model::invalid::FieldError;

/// Members of `metadata` that only the server sets (spec api-surface §5.1 step 3).
pub(super) const SERVER_SET: [&str; 5] = ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

/// What a new object has of its own, whatever is decided about it and how often.
pub(super) struct Birth {
    uid: String,
    at: OffsetDateTime,
}

impl Birth {
    pub(super) fn now() -> Self {
        Self { uid: Uuid::new_v4().to_string(), at: tree::now() }
    }
}

/// Makes what the requester sent into a new object, and judges it. Plugins and webhooks have changed it already.
pub(super) fn create(
    target: &ObjectRef,
    judge: Judge<'_>,
    mut object: Value,
    requester: Option<&UserInfo<'_>>,
    birth: &Birth,
    warnings: &mut Vec<String>,
) -> Result<Value, WriteError> {
    let served = target.served();
    if let Some(services) = judge.services {
        services.create(target, &mut object)?;
    }
    let kind = kinds::of(served);
    (kind.identify)(&mut object, requester);
    if tree::text(&object, &["metadata", "name"]).is_empty() {
        (kind.prepare_generated)(&mut object);
    }
    let metadata = tree::member(&mut object, "metadata");
    SERVER_SET.iter().for_each(|name| drop(metadata.remove(*name)));
    metadata.remove("resourceVersion");
    match &target.namespace {
        Some(namespace) => metadata.insert("namespace".into(), namespace.as_str().into()),
        None => metadata.remove("namespace"),
    };
    metadata.insert("name".into(), target.name.as_str().into());
    metadata.insert("uid".into(), birth.uid.as_str().into());
    metadata.insert("creationTimestamp".into(), tree::rfc3339(birth.at).into());
    if served.rules.generation && !kind.begins_as_sent {
        metadata.insert("generation".into(), 1.into());
    }
    clear_status(served, &mut object);
    kinds::drop_disabled(served, None, &mut object);
    (kind.prepare_create)(&mut object, warnings);
    (kind.stamp)(Part::Main, None, &mut object, birth.at);
    normalize(&mut object);
    let told = warnings_of(served, Part::Main, None, &object);
    let mut errors = metadata::validate_create(tree::metadata(&object), served.namespaced, &served.rules);
    let sent = judge.as_sent(&object);
    errors.extend(custom::wrong(judge.schema, Part::Main, None, &sent));
    errors.extend(admin_access::wrong_claim(&sent).filter(|_| judge.denies_admin));
    errors.extend(validate_create(served, &sent));
    errors.extend(judge.services.map(|services| services.validate(&sent, None)).unwrap_or_default());
    errors.extend(custom::wrong_inside(judge.schema, Part::Main, None, &sent));
    custom::add_broken_rules(judge, Part::Main, (&sent, None), &mut errors, warnings);
    WriteError::unless_valid(target.judged_subject(), errors)?;
    // Nobody is warned of what is wrong.
    warnings.extend(told);
    if let Some(plugins) = judge.plugins {
        plugins.validate(target, Part::Main, None, &object, warnings)?;
    }
    Ok(object)
}

/// Makes what a client wants the object to be into what it becomes, and judges it.
pub(super) fn update(
    target: &ObjectRef,
    judge: Judge<'_>,
    part: Part,
    current: &Current,
    mut wanted: Value,
    warnings: &mut Vec<String>,
) -> Result<Decision, WriteError> {
    let (served, old) = (target.served(), &current.tree);
    let kind = kinds::of(served);
    if let Some(plugins) = judge.plugins {
        let sent = tree::text(&wanted, &["metadata", "resourceVersion"]).to_owned();
        plugins.mutate(target, part, Some(old), &mut wanted, warnings)?;
        // A webhook may say that it means another state.
        let said = tree::text(&wanted, &["metadata", "resourceVersion"]);
        if said != sent {
            check_revision(target, said, current)?;
        }
    }
    let services = judge.services.filter(|_| part == Part::Main);
    let completed = services.map(|services| services.update(target, old, &mut wanted)).transpose()?;
    let old = completed.as_ref().unwrap_or(old);
    // Every part has its managers.
    let managers = tree::metadata(&wanted).get("managedFields").cloned();
    let mut new = match part {
        Part::Main => with_old_status(served, old, wanted),
        Part::Status => with_new_status(served, old, wanted),
        Part::Finalizers | Part::Approval | Part::EphemeralContainers | Part::Resize => (kind.take)(part, old, wanted),
        Part::Server => wanted,
    };
    let metadata = tree::member(&mut new, "metadata");
    keep_server_set(metadata, tree::metadata(old));
    match managers {
        Some(managers) => drop(metadata.insert("managedFields".into(), managers)),
        None => drop(metadata.remove("managedFields")),
    }
    // A client may give a namespace to what has none (measured).
    if target.namespace.is_none() {
        metadata.remove("namespace");
    }
    kinds::drop_disabled(served, Some(old), &mut new);
    (kind.prepare_update)(part, old, &mut new);
    (kind.stamp)(part, Some(old), &mut new, judge.now);
    normalize(&mut new);
    count_generation(served, part, old, &mut new, judge);
    let told = warnings_of(served, part, Some(old), &new);
    kinds::drop_counted(served, old, &mut new);
    let again = kinds::is_judged_as_new(served, part);
    let mut errors = metadata::validate_update(tree::metadata(&new), tree::metadata(old), served.namespaced, again, &served.rules);
    errors.extend(kinds::repeated::again(served, part, &errors));
    let sent = judge.as_sent(&new);
    errors.extend(custom::wrong(judge.schema, part, Some(old), &sent));
    errors.extend(admin_access::wrong_status(part, old, &sent).filter(|_| judge.denies_admin));
    errors.extend(validate_update(served, part, old, &sent));
    errors.extend(services.map(|services| services.validate(&sent, Some(old))).unwrap_or_default());
    errors.extend(custom::wrong_inside(judge.schema, part, Some(old), &sent));
    custom::add_broken_rules(judge, part, (&sent, Some(old)), &mut errors, warnings);
    WriteError::unless_valid(target.judged_subject(), errors)?;
    warnings.extend(told);
    if let Some(plugins) = judge.plugins {
        plugins.validate(target, part, Some(old), &new, warnings)?;
    }
    managed::keep_times(old, &mut new);
    Ok(if new == *(kind.comparable)(&current.tree) { Decision::Keep(new) } else { Decision::Put(new) })
}

/// What the writer of a new or changed object should know about it, though it is accepted.
fn warnings_of(served: &Served, part: Part, old: Option<&Value>, new: &Value) -> Vec<String> {
    if served.is_custom() {
        return metadata::finalizer_warnings(tree::metadata(new), old.map(tree::metadata));
    }
    let mut warnings = kinds::warned(&served.storage.id, part, old, new);
    warnings.extend(unapplied::warnings(&served.storage.id, part, old, new));
    warnings
}

/// What is wrong with a new object besides its metadata.
fn validate_create(served: &Served, object: &Value) -> Vec<FieldError> {
    match &served.origin {
        Origin::Custom(custom) => scale::validate(custom.scale.as_ref(), Part::Main, object),
        _ => (kinds::of(served).validate_create)(object),
    }
}

/// What is wrong with a change besides that of the metadata.
fn validate_update(served: &Served, part: Part, old: &Value, new: &Value) -> Vec<FieldError> {
    if let Origin::Custom(custom) = &served.origin {
        return scale::validate(custom.scale.as_ref(), part, new);
    }
    // An object that was stored before there was a rule can still be changed by the server itself.
    if part == Part::Server {
        return Vec::new();
    }
    let judge = kinds::of(served).validate_update;
    let errors = judge(part, old, new);
    if errors.is_empty() {
        return errors;
    }
    // An object that an older release stored lacks the defaults that came later, and so seems to change.
    let mut filled = old.clone();
    defaults::fill(&mut filled, &served.stored_as, &served.kind);
    if filled == *old { errors } else { judge(part, &filled, new) }
}

/// Whether a write that leaves this object behind takes it away: it is being deleted and nothing holds it any more (spec api-surface §8.4).
pub(super) fn is_finished(served: &Served, object: &Value) -> bool {
    let held = !tree::texts(object, &["metadata", "finalizers"]).is_empty() || (kinds::of(served).is_held)(object);
    let grace = tree::integer(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    tree::at(object, &["metadata", "deletionTimestamp"]).is_some() && !held && grace == 0
}

/// Judges the `resourceVersion` of what a client sent against the object that is there (spec api-surface §6.1).
pub(super) fn check_revision(target: &ObjectRef, sent: &str, current: &Current) -> Result<(), WriteError> {
    if matches!(sent, "" | "0") {
        if target.served().rules.unconditional_update {
            return Ok(());
        }
        let error = FieldError::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
        return Err(WriteError::Invalid { of: target.subject(), errors: vec![error] });
    }
    let revision = parse_uint(sent).map_err(WriteError::Raw)?;
    if revision == current.revision.0 { Ok(()) } else { Err(WriteError::modified(target.subject())) }
}

/// What a client says that the object is; what is empty says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preconditions<'a> {
    pub(super) uid: &'a str,
    /// As text: `0` and `01` are no revision of an object.
    pub(super) revision: &'a str,
}

impl Preconditions<'_> {
    /// Judges them as kube-apiserver's storage does, before anything else is looked at (spec api-surface §6.1).
    pub(super) fn check(self, target: &ObjectRef, current: &Current, dry_run: bool) -> Result<(), WriteError> {
        let uid = tree::text(&current.tree, &["metadata", "uid"]);
        let revision = current.revision.0.to_string();
        let of = [("UID", self.uid, uid), ("ResourceVersion", self.revision, &revision)];
        match of.into_iter().find(|(_, wanted, found)| !wanted.is_empty() && wanted != found) {
            Some((what, wanted, found)) => {
                Err(WriteError::Conflict { of: target.subject(), why: unmet(target, dry_run, what, wanted, found) })
            }
            None => Ok(()),
        }
    }
}

/// Tells of a precondition that does not hold. A dry run does not come to the storage that knows the prefix of the keys.
pub(super) fn unmet(target: &ObjectRef, dry_run: bool, what: &str, wanted: &str, found: &str) -> String {
    let key = target.key(if dry_run { "/" } else { "/registry/" });
    let key = String::from_utf8_lossy(&key);
    format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: \
         {wanted}, {what} in object meta: {found}"
    )
}

/// Judges the revision that a client sent of an object to be created: it has none yet (spec api-surface §5.2). That is judged last, and not in a dry run.
pub(super) fn no_revision(sent: &str) -> Result<(), WriteError> {
    match sent.parse::<u64>() {
        Ok(revision) if revision != 0 => Err(WriteError::Raw("resourceVersion should not be set on objects to be created".to_owned())),
        _ => Ok(()),
    }
}

/// A new object has no status but what its kind begins with; Go prints the empty struct of a built-in.
fn clear_status(served: &Served, object: &mut Value) {
    if !served.has_subresource("status") || kinds::of(served).creates_status {
        return;
    }
    let members = tree::object(object);
    members.remove("status");
    if !served.is_custom() {
        members.insert("status".into(), Value::Object(Map::new()));
    }
}

fn with_old_status(served: &Served, old: &Value, mut new: Value) -> Value {
    if served.has_subresource("status")
        && let Some(old) = old.as_object()
    {
        tree::take_over(tree::object(&mut new), old, "status");
    }
    new
}

/// The object with another status; how much of the metadata may change with it is the kind's own (spec api-surface §6.3).
fn with_new_status(served: &Served, old: &Value, wanted: Value) -> Value {
    let mut new = old.clone();
    let Value::Object(mut wanted) = wanted else { return new };
    let mut sent = wanted.get_mut("metadata").and_then(Value::as_object_mut).map(std::mem::take).unwrap_or_default();
    match kinds::of(served).status_metadata {
        StatusMetadata::Without(names) => {
            names.iter().for_each(|name| tree::take_over(&mut sent, tree::metadata(old), name));
            tree::object(&mut new).insert("metadata".into(), sent.into());
        }
        StatusMetadata::Nothing => {
            if let Some(fields) = sent.remove("managedFields") {
                tree::member(&mut new, "metadata").insert("managedFields".into(), fields);
            }
        }
    }
    tree::take_over(tree::object(&mut new), &wanted, "status");
    new
}

/// Fills in what a client may leave away, and puts back what it cannot even try to change; what else differs is judged (spec api-surface §6.1).
fn keep_server_set(new: &mut Map<String, Value>, old: &Map<String, Value>) {
    for name in ["generation", "selfLink", "resourceVersion"] {
        tree::take_over(new, old, name);
    }
    for name in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(time) = old.get(name).filter(|time| !time.is_null()) {
            new.insert(name.to_owned(), time.clone());
        }
    }
    for name in ["uid", "name", "namespace"] {
        if new.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
            tree::take_over(new, old, name);
        }
    }
    if new.get("deletionGracePeriodSeconds").is_none_or(Value::is_null) {
        tree::take_over(new, old, "deletionGracePeriodSeconds");
    }
}

/// One more when anything but metadata and status changed (spec api-surface §6.2). A float is no integer there, although both are stored alike.
fn count_generation(served: &Served, part: Part, old: &Value, new: &mut Value, judge: Judge<'_>) {
    if !served.rules.generation || matches!(part, Part::Status | Part::Server) || kinds::of(served).counts_itself {
        return;
    }
    let is_spec = |name: &str| match name {
        "metadata" | "kind" | "apiVersion" => false,
        "status" => !served.has_subresource("status"),
        _ => true,
    };
    let spec = |object: &Value| -> Map<String, Value> {
        let members = object.as_object().into_iter().flatten();
        members.filter(|(name, _)| is_spec(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let counted = kinds::of(served).counted_metadata;
    let has_changed = spec(old) != spec(&judge.as_sent(new));
    if has_changed || counted.is_some_and(|name| tree::metadata(old).get(name) != tree::metadata(new).get(name)) {
        let generation = tree::integer(old, &["metadata", "generation"]).unwrap_or(0).wrapping_add(1);
        tree::member(new, "metadata").insert("generation".into(), generation.into());
    }
}

/// The form in which Go keeps an ObjectMeta.
fn normalize(object: &mut Value) {
    metadata::normalize(tree::member(object, "metadata"));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::write::object_ref::test_object_ref;
    use model::Revision;

    fn current(tree: Value) -> Current {
        Current { tree, revision: Revision(7), is_large: false, stored: None }
    }

    /// What an update changes the object to, if it changes it.
    fn changed(target: &ObjectRef, part: Part, old: &Current, wanted: Value) -> Result<Option<Value>, WriteError> {
        Ok(match update(target, Judge::default(), part, old, wanted, &mut Vec::new())? {
            Decision::Put(new) => Some(new),
            _ => None,
        })
    }

    fn deployment(replicas: i64, annotation: &str, status: i64) -> Value {
        let pods = json!({"metadata": {"labels": {"l": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let mut deployment = json!({"kind": "Deployment", "apiVersion": "apps/v1",
            "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"l": "1"}, "annotations": {"a": annotation}},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"l": "1"}}, "strategy": {"type": "Recreate"}, "template": pods},
            "status": {"replicas": status}});
        defaults::fill(&mut deployment, "apps/v1", "Deployment");
        deployment
    }

    fn generation(tree: &Value) -> i64 {
        tree::integer(tree, &["metadata", "generation"]).expect("a number")
    }

    #[test]
    fn what_only_the_server_sets_is_not_taken_from_a_client() {
        let target = test_object_ref("apps", "deployments", Some("n"), "d");
        let mut sent = deployment(1, "x", 5);
        tree::member(&mut sent, "metadata").insert("deletionTimestamp".into(), "2026-01-01T00:00:00Z".into());
        tree::member(&mut sent, "metadata").remove("resourceVersion");
        let new = create(&target, Judge::default(), sent, None, &Birth::now(), &mut Vec::new()).expect("valid");
        assert_ne!(tree::text(&new, &["metadata", "uid"]), "u");
        assert_ne!(tree::text(&new, &["metadata", "creationTimestamp"]), "2026-01-01T00:00:00Z");
        assert_eq!((generation(&new), tree::at(&new, &["metadata", "deletionTimestamp"])), (1, None));
        assert_eq!(new.get("status"), Some(&json!({})));
    }

    #[test]
    fn an_object_to_be_created_has_no_revision() {
        for fine in ["", "0", "abc"] {
            assert_eq!(no_revision(fine), Ok(()), "{fine}");
        }
        assert!(matches!(no_revision("5"), Err(WriteError::Raw(text)) if text.starts_with("resourceVersion should not")));
        let target = test_object_ref("", "configmaps", Some("n"), "c");
        let sent = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", "resourceVersion": "5"}});
        let new = create(&target, Judge::default(), sent, None, &Birth::now(), &mut Vec::new()).expect("judged by its caller");
        assert_eq!(tree::at(&new, &["metadata", "resourceVersion"]), None);
    }

    #[test]
    fn spec_and_status_are_written_apart() {
        let target = test_object_ref("apps", "deployments", Some("n"), "d");
        let old = current(deployment(1, "x", 5));
        let main = changed(&target, Part::Main, &old, deployment(2, "x", 9)).expect("valid").expect("a change");
        assert_eq!((tree::integer(&main, &["spec", "replicas"]), tree::integer(&main, &["status", "replicas"])), (Some(2), Some(5)));
        let status = changed(&target, Part::Status, &old, deployment(2, "x", 9)).expect("valid").expect("a change");
        assert_eq!((tree::integer(&status, &["spec", "replicas"]), tree::integer(&status, &["status", "replicas"])), (Some(1), Some(9)));
        assert_eq!((generation(&main), generation(&status)), (4, 3));
        assert_eq!(changed(&target, Part::Main, &old, deployment(1, "x", 9)), Ok(None), "a status through the main listener is no change");
    }

    /// A Job that was stored before Jobs had a completion mode, which may not change.
    #[test]
    fn a_default_that_came_later_is_no_change() {
        let target = test_object_ref("batch", "jobs", Some("n"), "j");
        let labels =
            json!({"controller-uid": "u", "job-name": "j", "batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j"});
        let pods = json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let mut job = json!({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j", "namespace": "n", "uid": "u", "labels": {"l": "1"}},
            "spec": {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}, "template": pods}});
        defaults::fill(&mut job, "batch/v1", "Job");
        let mut old = job.clone();
        tree::member(&mut old, "spec").remove("completionMode");
        assert!(changed(&target, Part::Main, &current(old.clone()), job.clone()).expect("valid").is_some());
        tree::set(&mut job, &["spec", "completionMode"], "Indexed".into());
        tree::set(&mut job, &["spec", "completions"], 1.into());
        assert!(changed(&target, Part::Main, &current(old), job).is_err());
    }

    #[test]
    fn annotations_of_a_deployment_count_as_spec_and_labels_do_not() {
        let target = test_object_ref("apps", "deployments", Some("n"), "d");
        let old = current(deployment(1, "x", 5));
        let annotated = changed(&target, Part::Main, &old, deployment(1, "y", 5)).expect("valid").expect("a change");
        let mut wanted = deployment(1, "x", 5);
        tree::set(&mut wanted, &["metadata", "labels", "l"], "2".into());
        let labelled = changed(&target, Part::Main, &old, wanted.clone()).expect("valid").expect("a change");
        assert_eq!((generation(&annotated), generation(&labelled)), (4, 3));
        assert_eq!(changed(&target, Part::Status, &old, wanted), Ok(None), "the status listener of Deployments takes no labels");
    }

    #[test]
    fn what_has_no_namespace_gets_none() {
        let target = test_object_ref("", "nodes", None, "n");
        let node = |namespace: &str, label: &str| json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "uid": "u", "namespace": namespace, "labels": {"l": label}}});
        let old = current(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "uid": "u", "labels": {"l": "1"}}}));
        for part in [Part::Main, Part::Status] {
            let new = changed(&target, part, &old, node("x", "2")).expect("valid").expect("a change");
            assert_eq!((tree::at(&new, &["metadata", "namespace"]), tree::text(&new, &["metadata", "labels", "l"])), (None, "2"));
            assert_eq!(changed(&target, part, &old, node("x", "1")), Ok(None), "nothing else is wanted");
        }
        let new = create(&target, Judge::default(), node("x", "1"), None, &Birth::now(), &mut Vec::new()).expect("valid");
        assert_eq!(tree::at(&new, &["metadata", "namespace"]), None);
    }

    #[test]
    fn revisions_and_uids_are_judged() {
        let target = test_object_ref("coordination.k8s.io", "leases", Some("n"), "l");
        let lease = current(json!({"metadata": {"uid": "u"}}));
        assert!(check_revision(&target, "7", &lease).is_ok());
        assert!(matches!(check_revision(&target, "8", &lease), Err(WriteError::Conflict { .. })));
        assert!(matches!(check_revision(&target, "0", &lease), Err(WriteError::Invalid { of, .. }) if of.kind == "leases"));
        for sent in ["x", "+7"] {
            let want = format!(r#"strconv.ParseUint: parsing "{sent}": invalid syntax"#);
            assert!(matches!(check_revision(&target, sent, &lease), Err(WriteError::Raw(text)) if text == want));
        }
        let config = test_object_ref("", "configmaps", Some("n"), "c");
        assert!(check_revision(&config, "0", &lease).is_ok());
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn preconditions_are_compared_as_texts() {
        let target = test_object_ref("", "pods", Some("n"), "p");
        let pod = current(json!({"metadata": {"uid": "u"}}));
        let told = |uid, revision, dry_run| match (Preconditions { uid, revision }).check(&target, &pod, dry_run) {
            Ok(()) => String::new(),
            Err(WriteError::Conflict { why, .. }) => why,
            Err(other) => panic!("{other:?}"),
        };
        for (uid, revision) in [("", ""), ("u", ""), ("", "7"), ("u", "7")] {
            assert_eq!(told(uid, revision, false), "");
        }
        let begin =
            "StorageError: invalid object, Code: 4, Key: /registry/pods/n/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed:";
        assert_eq!(told("v", "8", false), format!("{begin} UID in precondition: v, UID in object meta: u"));
        for revision in ["8", "0", "07", "x"] {
            let want = format!("{begin} ResourceVersion in precondition: {revision}, ResourceVersion in object meta: 7");
            assert_eq!(told("u", revision, false), want);
        }
        assert!(told("v", "", true).contains(" Key: /pods/n/p, "), "a dry run");
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn what_may_not_change_is_put_back_or_refused() {
        let target = test_object_ref("", "configmaps", Some("n"), "c");
        let object = |more: Value| {
            let mut object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}});
            tree::member(&mut object, "metadata").extend(more.as_object().expect("members").clone());
            object
        };
        let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0, "finalizers": ["x.io/f"]});
        let told = |old: &Value, more: Value| {
            let mut wanted = object(old.clone());
            tree::member(&mut wanted, "metadata").extend(more.as_object().expect("members").clone());
            match changed(&target, Part::Main, &current(object(old.clone())), wanted) {
                Ok(None) => "same".to_owned(),
                Err(WriteError::Invalid { errors, .. }) => errors.into_iter().map(|error| error.field).collect::<Vec<_>>().join(" "),
                other => panic!("{other:?}"),
            }
        };
        let time = "2030-01-01T00:00:00Z";
        let none = json!({});
        for (old, more, want) in [
            (&none, json!({"creationTimestamp": time, "selfLink": "/x", "generation": 9}), "same"),
            (&none, json!({"deletionTimestamp": time}), "metadata.deletionTimestamp"),
            (&none, json!({"deletionGracePeriodSeconds": 5}), "metadata.deletionGracePeriodSeconds"),
            (&none, json!({"uid": "v"}), "metadata.uid"),
            (&none, json!({"generateName": "A_"}), "metadata.generateName"),
            (&deleting, json!({"deletionTimestamp": time}), "same"),
            (&deleting, json!({"deletionGracePeriodSeconds": null}), "same"),
            (&deleting, json!({"deletionGracePeriodSeconds": 5}), "metadata.deletionGracePeriodSeconds"),
        ] {
            assert_eq!(told(old, more.clone()), want, "{more}");
        }
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn a_status_leaves_of_the_metadata_what_its_kind_says() {
        let written = |group: &str, resource: &str, namespace: Option<&str>| {
            let target = test_object_ref(group, resource, namespace, "x");
            let spec = match resource {
                "volumeattachments" => json!({"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}),
                _ => json!({}),
            };
            let object = |text: &str| {
                json!({"metadata": {"name": "x", "uid": "u", "namespace": namespace, "labels": {"l": text}, "annotations": {"a": text},
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": text, "uid": "o"}]}, "spec": spec})
            };
            let new = changed(&target, Part::Status, &current(object("old")), object("new")).expect("valid");
            let Some(new) = new else { return String::new() };
            let owner = tree::at(&new, &["metadata", "ownerReferences"]).map(|owners| owners[0]["name"].as_str().unwrap_or(""));
            let told = [("l", tree::text(&new, &["metadata", "labels", "l"])), ("a", tree::text(&new, &["metadata", "annotations", "a"]))];
            let changed = told.into_iter().chain([("o", owner.unwrap_or(""))]).filter(|(_, text)| *text == "new");
            changed.map(|(name, _)| name).collect()
        };
        assert_eq!(written("", "nodes", None), "lao");
        assert_eq!(written("", "pods", Some("n")), "la");
        assert_eq!(written("apps", "deployments", Some("n")), "ao");
        for (group, resource, namespace) in [
            ("storage.k8s.io", "volumeattachments", None),
            ("networking.k8s.io", "servicecidrs", None),
            ("resource.k8s.io", "resourceclaims", Some("n")),
            ("admissionregistration.k8s.io", "validatingadmissionpolicies", None),
            ("flowcontrol.apiserver.k8s.io", "flowschemas", None),
            ("apiregistration.k8s.io", "apiservices", None),
        ] {
            assert_eq!(written(group, resource, namespace), "", "{resource}");
        }
    }

    #[test]
    fn the_last_finalizer_of_what_is_being_deleted_ends_it() {
        let target = test_object_ref("", "namespaces", None, "n");
        let object = |spec: Value, finalizers: Value| json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}, "spec": {"finalizers": spec}});
        assert!(is_finished(target.served(), &object(json!([]), json!([]))));
        assert!(!is_finished(target.served(), &object(json!(["kubernetes"]), json!([]))));
        assert!(!is_finished(target.served(), &object(json!([]), json!(["x"]))));
        assert!(!is_finished(target.served(), &json!({"metadata": {}})));
    }
}
