//! What the server does with a definition by itself: accept its names, establish it, clean up when it goes (spec api-surface §11.2). Pure: the
//! caller writes, deletes instances and asks again; the time comes as text.
//!
//! ```text
//! created ── names free ──▶ NamesAccepted, Installing ──▶ Established
//!    │                              ▲
//!    └── a name taken ──▶ NotAccepted, asked again when another definition of the group changes or goes
//! deleted ── finalizer, Pending ──▶ InProgress ── instances ──▶ DeleteInstances … ── none left ──▶ Finish
//! ```

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    approval::{Approval, approval, is_protected},
    conditions::{Condition, find, has, is_true, put, without},
    conversion::wrong_bundle,
    structural::{unsupported, wrong_structure},
    tree::{flag, list, member, object_mut, schema_in, text},
};
use go::quote::quoted;
use model::invalid::{FieldError, joined};

/// Keeps a definition until its instances are gone.
pub(super) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Resources of Kubernetes itself whose keys a definition of the same name would share: their values are never deleted for it.
const BUILT_IN: [(&str, &str); 2] = [("apiregistration.k8s.io", "apiservices"), ("apiextensions.k8s.io", "customresourcedefinitions")];

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write this whole v1 object: only its status changed.
    UpdateStatus(Value),
    /// Delete all instances, see whether some are left (kube-apiserver looks every 5 s for up to a minute), and ask again with the answer.
    DeleteInstances,
    /// Write this whole v1 object, without `FINALIZER`; when it has no finalizers at all, delete the definition instead.
    Finish(Value),
}

/// The next step for a v1 definition, `None` when all is done. `taken` are the names that definitions of its group have accepted;
/// `instances_left` is what is known after [`Step::DeleteInstances`]; `now` is RFC 3339 in seconds.
#[must_use]
pub fn next(definition: &Value, taken: &NamesInUse, instances_left: Option<bool>, now: &str) -> Option<Step> {
    if is_going(definition) && list(&definition["metadata"], "finalizers").iter().any(|finalizer| finalizer == FINALIZER) {
        return Some(clean_up(definition, instances_left, now));
    }
    let updated = judged(definition, now)
        .or_else(|| structured(definition, now))
        .or_else(|| named(definition, taken, now))
        .or_else(|| established(definition, now));
    updated.map(Step::UpdateStatus)
}

/// What DELETE makes of a definition that was not being deleted: marked, kept by `customresourcecleanup.apiextensions.k8s.io`, Terminating. The generation
/// stays.
#[must_use]
pub fn marked_for_deletion(definition: &Value, now: &str) -> Value {
    let mut object = definition.clone();
    let metadata = object_mut(&mut object, "metadata");
    metadata.entry("deletionTimestamp").or_insert(Value::from(now));
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    {
        finalizers.push(Value::from(FINALIZER));
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    put(&mut object, &terminating("True", "InstanceDeletionPending", message), now);
    object
}

/// Why the instances of a definition are not gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck<'a> {
    /// They could not be deleted, because of this.
    Failed(&'a str),
    /// Some are still there after a minute.
    Left,
}

/// The whole v1 definition that says why it is still there; none when it is not being cleaned up.
#[must_use]
pub fn stuck(definition: &Value, why: Stuck<'_>, now: &str) -> Option<Value> {
    let is_cleaned_up = is_going(definition) && list(&definition["metadata"], "finalizers").iter().any(|finalizer| finalizer == FINALIZER);
    let (reason, message) = match why {
        Stuck::Failed(why) => ("InstanceDeletionFailed", format!("could not issue all deletes: {why}")),
        Stuck::Left => ("InstanceDeletionCheck", "could not confirm zero CustomResources remaining: context deadline exceeded".to_owned()),
    };
    let condition = terminating("True", reason, &message);
    (is_cleaned_up && !has(definition, &condition)).then(|| with(definition, &condition, now))
}

fn is_going(definition: &Value) -> bool {
    member(&definition["metadata"], "deletionTimestamp").is_some()
}

fn clean_up(definition: &Value, instances_left: Option<bool>, now: &str) -> Step {
    let in_progress = terminating("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress");
    if !has(definition, &in_progress) {
        return Step::UpdateStatus(with(definition, &in_progress, now));
    }
    let (group, plural) = (text(&definition["spec"], "group"), text(&definition["spec"]["names"], "plural"));
    let done = if BUILT_IN.contains(&(group, plural)) {
        terminating("False", "OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
    } else if !is_true(definition, "Established") {
        terminating("False", "NeverEstablished", "resource was never established")
    } else if instances_left == Some(false) {
        terminating("False", "InstanceDeletionCompleted", "removed all instances")
    } else {
        return Step::DeleteInstances;
    };
    let mut object = with(definition, &done, now);
    let metadata = object_mut(&mut object, "metadata");
    if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        }
    }
    Step::Finish(object)
}

/// Whether a protected group was approved.
fn judged(definition: &Value, now: &str) -> Option<Value> {
    if !is_protected(text(&definition["spec"], "group")) {
        return None;
    }
    let (said, message) = approval(definition);
    let (status, reason) = match said {
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Invalid => ("False", "InvalidAnnotation"),
        Approval::Approved => ("True", "ApprovedAnnotation"),
        Approval::Bypassed => ("False", "UnapprovedAnnotation"),
    };
    changed(definition, &Condition { kind: "KubernetesAPIApprovalPolicyConformant", status, reason, message: &message }, now)
}

/// Whether all schemas are structural. Only definitions of Kubernetes before 1.22, which may preserve unknown fields, can have others.
fn structured(definition: &Value, now: &str) -> Option<Value> {
    const KIND: &str = "NonStructuralSchema";
    let spec = &definition["spec"];
    let mut errors = Vec::new();
    if flag(spec, "preserveUnknownFields") {
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &Value::Bool(true), "must be false"));
    }
    for (i, version) in list(spec, "versions").iter().enumerate() {
        let Some(schema) = member(version, "schema").and_then(schema_in) else { continue };
        if let Some(why) = unsupported(schema) {
            let message = format!("failed to check validation schema for version {}: {why}", text(version, "name"));
            return changed(definition, &Condition { kind: KIND, status: "Unknown", reason: "StructuralError", message: &message }, now);
        }
        errors.extend(wrong_structure(schema, &format!("spec.versions[{i}].schema.openAPIV3Schema"), false));
    }
    if errors.is_empty() {
        return without(definition, KIND);
    }
    changed(definition, &Condition { kind: KIND, status: "True", reason: "Violations", message: &joined(&errors) }, now)
}

/// Takes the names that are free; the reason is the last name that is not.
fn named(definition: &Value, taken: &NamesInUse, now: &str) -> Option<Value> {
    let (asked, had) = (&definition["spec"]["names"], &definition["status"]["acceptedNames"]);
    if asked == had {
        return None;
    }
    let own = Names::accepted(definition);
    let is_taken = |is_kind: bool, name: &str| {
        let (taken, own) = if is_kind { (&taken.kinds, &own.kinds) } else { (&taken.resources, &own.resources) };
        taken.contains_key(name) || own.iter().any(|own| own == name)
    };
    let mut accepted = had.clone();
    let mut conflict = None;
    for (name, reason, is_kind) in [
        ("plural", "PluralConflict", false),
        ("singular", "SingularConflict", false),
        ("shortNames", "ShortNamesConflict", false),
        ("kind", "KindConflict", true),
        ("listKind", "ListKindConflict", true),
    ] {
        match clash(asked, had, name, |name| is_taken(is_kind, name)) {
            Some(message) => conflict = Some((reason, message)),
            None => take(&mut accepted, asked, name),
        }
    }
    take(&mut accepted, asked, "categories");
    let free = conflict.is_none();
    let (reason, message) = conflict.unwrap_or(("NoConflicts", "no conflicts found".to_owned()));
    let condition = Condition { kind: "NamesAccepted", status: if free { "True" } else { "False" }, reason, message: &message };
    if accepted == *had && has(definition, &condition) {
        return None;
    }
    let mut object = with(definition, &condition, now);
    object["status"]["acceptedNames"] = accepted;
    if free && !is_true(definition, "Established") {
        put(&mut object, &not_established("Installing", "the initial names have been accepted"), now);
    } else if find(definition, "Established").is_none() {
        put(&mut object, &not_established("NotAccepted", "not all names are accepted"), now);
    }
    Some(object)
}

/// The names that a definition has accepted: no other of its group may have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Names {
    /// Those of a v1 definition.
    #[must_use]
    pub fn accepted(definition: &Value) -> Self {
        Self::of(&definition["status"]["acceptedNames"])
    }

    /// The group of a v1 definition and its names, read without its schemas; nothing of what is no definition.
    #[must_use]
    pub fn read(json: &[u8]) -> (String, Self) {
        let head: Head = serde_json::from_slice(json).unwrap_or_default();
        (head.spec.group, Self::of(&head.status.accepted_names))
    }

    /// Whether all of these are among others.
    #[must_use]
    pub fn is_within(&self, others: &Self) -> bool {
        let within = |these: &[String], those: &[String]| these.iter().all(|name| those.contains(name));
        within(&self.resources, &others.resources) && within(&self.kinds, &others.kinds)
    }

    fn of(names: &Value) -> Self {
        let owned = |name| text(names, name).to_owned();
        let short = list(names, "shortNames").iter().filter_map(Value::as_str).map(str::to_owned);
        Self {
            resources: ["plural", "singular"].map(owned).into_iter().chain(short).collect(),
            kinds: ["kind", "listKind"].map(owned).to_vec(),
        }
    }
}

/// What [`Names::read`] looks at.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    spec: HeadSpec,
    status: HeadStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeadSpec {
    group: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HeadStatus {
    accepted_names: Value,
}

/// Names that definitions of one group have accepted, each with how many have it.
#[derive(Debug, Default)]
pub struct NamesInUse {
    resources: HashMap<String, usize>,
    kinds: HashMap<String, usize>,
}

impl NamesInUse {
    /// Whether nobody has any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.kinds.is_empty()
    }

    /// A definition has these.
    pub fn add(&mut self, names: &Names) {
        for (of, names) in [(&mut self.resources, &names.resources), (&mut self.kinds, &names.kinds)] {
            for name in names {
                *of.entry(name.clone()).or_default() += 1;
            }
        }
    }

    /// One that was added has them no longer.
    pub fn remove(&mut self, names: &Names) {
        for (of, names) in [(&mut self.resources, &names.resources), (&mut self.kinds, &names.kinds)] {
            for name in names {
                if let Some(count) = of.get_mut(name) {
                    *count -= 1;
                    if *count == 0 {
                        of.remove(name);
                    }
                }
            }
        }
    }
}

/// Why a name cannot be taken. Several short names are told together, as Go joins errors: each text once.
fn clash(asked: &Value, had: &Value, name: &str, used: impl Fn(&str) -> bool) -> Option<String> {
    let in_use = |name: &str| format!("{} is already in use", quoted(name));
    if name != "shortNames" {
        let (asked, had) = (text(asked, name), text(had, name));
        return (asked != had && used(asked)).then(|| in_use(asked));
    }
    let mut known: BTreeSet<&str> = list(had, name).iter().filter_map(Value::as_str).collect();
    let new = list(asked, name).iter().filter_map(Value::as_str).filter(|short| known.insert(short));
    let told: Vec<String> = new.filter(|short| used(short)).map(in_use).collect();
    match told.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

fn take(accepted: &mut Value, asked: &Value, name: &str) {
    let Some(accepted) = accepted.as_object_mut() else { return };
    match member(asked, name) {
        Some(value) => accepted.insert(name.to_owned(), value.clone()),
        None => accepted.remove(name),
    };
}

/// Names accepted: served from now on, unless the bundle of its webhook is none.
fn established(definition: &Value, now: &str) -> Option<Value> {
    if !is_true(definition, "NamesAccepted") || is_true(definition, "Established") {
        return None;
    }
    let bundle = definition.pointer("/spec/conversion/webhook/clientConfig").map_or("", |config| text(config, "caBundle"));
    let condition = if wrong_bundle(bundle).is_some() {
        not_established("InvalidCABundle", "The conversion webhook CABundle is invalid")
    } else {
        Condition { status: "True", ..not_established("InitialNamesAccepted", "the initial names have been accepted") }
    };
    changed(definition, &condition, now)
}

fn not_established<'c>(reason: &'c str, message: &'c str) -> Condition<'c> {
    Condition { kind: "Established", status: "False", reason, message }
}

fn terminating<'c>(status: &'static str, reason: &'c str, message: &'c str) -> Condition<'c> {
    Condition { kind: "Terminating", status, reason, message }
}

fn changed(definition: &Value, condition: &Condition<'_>, now: &str) -> Option<Value> {
    (!has(definition, condition)).then(|| with(definition, condition, now))
}

fn with(definition: &Value, condition: &Condition<'_>, now: &str) -> Value {
    let mut object = definition.clone();
    put(&mut object, condition, now);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_says_why_it_is_still_there() {
        let going = marked_for_deletion(&json!({"metadata": {"name": "a"}, "spec": {}}), "then");
        let reason = |definition: &Value| find(definition, "Terminating").map(|condition| condition["reason"].clone());
        let left = stuck(&going, Stuck::Left, "now").expect("it did not say so");
        assert_eq!(reason(&left), Some(json!("InstanceDeletionCheck")));
        assert_eq!(stuck(&left, Stuck::Left, "later"), None, "it says so");
        let failed = stuck(&left, Stuck::Failed("etcd is away"), "later").expect("another reason");
        assert_eq!(reason(&failed), Some(json!("InstanceDeletionFailed")));
        assert_eq!(find(&failed, "Terminating").expect("it is there")["message"], "could not issue all deletes: etcd is away");
        assert_eq!(stuck(&json!({"metadata": {}}), Stuck::Left, "now"), None, "nobody deletes it");
    }
}
