//! The rules of single kinds for writes: first status, fields that are merged or generated, fields that cannot change (spec api-surface §5.5, §5.8, §6,
//! §8.3). Everything else about a write is the same for all kinds.

mod access;
mod pod;
mod pod_parts;
mod service;
mod signing;
mod signing_spec;
mod slices;
mod volume;
mod warnings;
mod workload;

pub(super) use warnings::address;

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use super::{Requester, custom, metadata, scale, services, strategy::Part, tree, unapplied};
use catalogue::{Origin, Served, defaults, definition};
use model::invalid::FieldError;

/// Bytes of all data of a ConfigMap or a Secret (spec api-surface §5.7).
const DATA_BYTES_MAX: usize = 1_048_576;

/// The finalizer that a namespace is born with (spec api-surface §5.5).
const NAMESPACE_FINALIZER: &str = "kubernetes";

/// The storage of CertificateSigningRequests.
const SIGNING_REQUESTS: &str = "certificatesigningrequests";

/// The storage of CustomResourceDefinitions.
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// A served resource as the rules below name it.
fn id(served: &Served) -> &str {
    if served.is_custom() { "" } else { &served.storage.id }
}

/// The kubelet brings the status of a node when it creates it.
pub(super) fn creates_status(served: &Served) -> bool {
    id(served) == "minions"
}

/// Fields of a new object that say who made it.
pub(super) fn identify(served: &Served, object: &mut Value, requester: Option<&Requester<'_>>) {
    if id(served) == SIGNING_REQUESTS {
        signing::identify(object, requester);
    }
}

/// An object as Go's decoder hands it on: with what else a conversion to the internal type gives it. Whoever sent the object manages that too.
pub(super) fn decoded<'v>(served: &Served, object: &'v Value) -> Cow<'v, Value> {
    match id(served) {
        "jobs" => workload::with_labels(object),
        "daemonsets" => workload::with_count(object),
        _ => Cow::Borrowed(object),
    }
}

/// Fields that a new object gets; what its writer should know about them.
pub(super) fn prepare_create(served: &Served, object: &mut Value, warnings: &mut Vec<String>) {
    match id(served) {
        "namespaces" => {
            let finalizers = tree::texts(object, &["spec", "finalizers"]);
            if !finalizers.contains(&NAMESPACE_FINALIZER) {
                let all: Vec<&str> = finalizers.into_iter().chain([NAMESPACE_FINALIZER]).collect();
                let all = json!(all);
                tree::set(object, &["spec", "finalizers"], all);
            }
            tree::set(object, &["status"], json!({"phase": "Active"}));
            label_namespace(object);
        }
        "secrets" => prepare_secret(object),
        "serviceaccounts" => only_names(object),
        "minions" => taint_node(object),
        "pods" => {
            pod::begin(object);
            pod_parts::confine(object, warnings);
        }
        "persistentvolumes" => volume::begin(object),
        "persistentvolumeclaims" => {
            tree::set(object, &["status", "phase"], "Pending".into());
            volume::same_sources(object, None);
        }
        "jobs" => workload::select(object),
        "daemonsets" => workload::count_template(object, None),
        "endpointslices" => slices::drop_topology(object, None),
        "resourceslices" => slices::time_taints(object, tree::now()),
        DEFINITIONS => {
            definition::defaulted(object);
            definition::prepare_create(object);
        }
        _ => {}
    }
}

/// What a new object gets before its name is generated: the real server copies it then, so a Job's labels are no longer those of its Pods.
pub(super) fn prepare_generated(served: &Served, object: &mut Value) {
    if id(served) == "jobs" {
        workload::label(object);
    }
}

/// Fields that follow from what an update changed, and those that it must leave alone.
pub(super) fn prepare_update(served: &Served, part: Part, old: &Value, new: &mut Value) {
    match (id(served), part) {
        ("namespaces", Part::Main) => {
            let finalizers = tree::at(old, &["spec", "finalizers"]).cloned();
            match finalizers {
                Some(finalizers) => tree::set(new, &["spec", "finalizers"], finalizers),
                None => drop(tree::member(new, "spec").remove("finalizers")),
            }
            label_namespace(new);
        }
        ("namespaces", _) => label_namespace(new),
        ("secrets", _) => prepare_secret(new),
        ("serviceaccounts", _) => only_names(new),
        ("pods", Part::Status) => {
            pod::keep_class(new, old);
            pod::keep_observed(new, old);
        }
        ("resourceslices", _) => slices::time_taints(new, tree::now()),
        ("services/specs", Part::Main) => service::drop_by_type(new, old),
        ("persistentvolumes", Part::Status) => volume::time_phase(new, old, tree::now()),
        ("persistentvolumeclaims", Part::Main) => volume::same_sources(new, Some(old)),
        ("jobs", Part::Main) => workload::label(new),
        ("daemonsets", _) => workload::count_template(new, Some(old)),
        (SIGNING_REQUESTS, Part::Main) => tree::take_over(tree::object(new), old.as_object().unwrap_or(&tree::NO_MEMBERS), "spec"),
        (SIGNING_REQUESTS, Part::Status) => signing::keep_verdicts(new, old, tree::now()),
        (SIGNING_REQUESTS, Part::Approval) => signing::time_conditions(new, old, tree::now()),
        (DEFINITIONS, Part::Main) => {
            definition::defaulted(new);
            definition::prepare_update(new, old);
        }
        (DEFINITIONS, Part::Status) => {
            definition::defaulted(new);
            definition::prepare_status_update(new, old);
        }
        _ => {}
    }
}

/// The first DELETE of kinds that have a way of their own to be marked; false for the others.
pub(super) fn mark(served: &Served, object: &mut Value, now: OffsetDateTime) -> bool {
    match id(served) {
        "namespaces" => {
            tree::set(object, &["metadata", "deletionTimestamp"], tree::rfc3339(now).into());
            tree::set(object, &["status", "phase"], "Terminating".into());
        }
        DEFINITIONS => *object = definition::marked_for_deletion(object, &tree::rfc3339(now)),
        _ => return false,
    }
    true
}

/// What the writer of a new or changed object should know about it, though it is accepted.
pub(super) fn warnings(served: &Served, part: Part, old: Option<&Value>, new: &Value) -> Vec<String> {
    match id(served) {
        _ if served.is_custom() => metadata::finalizer_warnings(tree::metadata(new), old.map(tree::metadata)),
        DEFINITIONS => definition::warnings(new, old),
        id => warnings::of(id, part, old, new).into_iter().chain(unapplied::warnings(id, part, old, new)).collect(),
    }
}

/// What a write of `/status` leaves of the metadata that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusMetadata {
    /// All of it but these members, which stay what they are.
    Without(&'static [&'static str]),
    /// Nothing but `managedFields`.
    Nothing,
}

/// Members of `metadata` that most strategies of `/status` with a rule about them leave alone. Those that are not here are judged as in any update.
const RESET_FOR_STATUS: &[&str] =
    &["deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers", "ownerReferences"];

/// Built-ins whose update is judged as a new object is, besides: of their metadata that is `generateName`, for the name cannot change (measured on each).
const JUDGED_AS_NEW: &[&str] = &[
    "configmaps",
    "controllerrevisions",
    "csinodes",
    "csistoragecapacities",
    "endpointslices",
    "flowschemas",
    "ingress",
    "ingressclasses",
    "ipaddresses",
    "jobs",
    "limitranges",
    "minions",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "prioritylevelconfigurations",
    "resourceclaims",
    "resourceclaimtemplates",
    "runtimeclasses",
    "secrets",
    "serviceaccounts",
    "services/endpoints",
    "storageclasses",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "volumeattachments",
    "volumeattributesclasses",
];

/// Whether an update is judged as a new object is. `/status` is so of VolumeAttachments alone.
pub(super) fn is_judged_as_new(served: &Served, part: Part) -> bool {
    match part {
        Part::Main => JUDGED_AS_NEW.contains(&id(served)),
        Part::Status => id(served) == "volumeattachments",
        Part::EphemeralContainers | Part::Resize => true,
        Part::Finalizers | Part::Approval | Part::Server => false,
    }
}

/// Returns what the strategy of `/status` does with metadata (spec api-surface §6.3).
pub(super) fn status_metadata(served: &Served) -> StatusMetadata {
    StatusMetadata::Without(match id(served) {
        _ if served.is_custom() => return StatusMetadata::Nothing,
        "flowschemas" | "prioritylevelconfigurations" => return StatusMetadata::Nothing,
        "resourceclaims" | "servicecidrs" | "validatingadmissionpolicies" | "volumeattachments" => RESET_FOR_STATUS,
        "apiregistration.k8s.io/apiservices" => &["labels", "annotations", "finalizers", "ownerReferences"],
        "deployments" => &["labels"],
        "pods" => &["deletionTimestamp", "ownerReferences"],
        _ => &[],
    })
}

/// Whether a new object has the generation that its client sent: a CSIDriver is only counted from there (measured).
pub(super) fn begins_as_sent(served: &Served) -> bool {
    id(served) == "csidrivers"
}

/// What a change loses after the generation has counted it: most kinds lose it before.
pub(super) fn drop_counted(served: &Served, old: &Value, new: &mut Value) {
    match id(served) {
        "endpointslices" => slices::drop_topology(new, Some(old)),
        "resourceslices" => defaults::drop_disabled(new, Some(old), &served.stored_as, &served.kind),
        _ => {}
    }
}

/// Fields of features that are off, but for the kinds that lose them later.
pub(super) fn drop_disabled(served: &Served, old: Option<&Value>, object: &mut Value) {
    if !served.is_custom() && (old.is_none() || id(served) != "resourceslices") {
        defaults::drop_disabled(object, old, &served.stored_as, &served.kind);
    }
}

/// Definitions have a form of their own, and are counted in it; a PriorityClass stays at 1 (measured).
pub(super) fn counts_itself(served: &Served) -> bool {
    matches!(id(served), DEFINITIONS | "priorityclasses")
}

/// What is there, in the form that `prepare_update` gives to what comes.
pub(super) fn comparable<'a>(served: &Served, old: &'a Value) -> Cow<'a, Value> {
    if id(served) == DEFINITIONS { Cow::Owned(definition::normal(old)) } else { Cow::Borrowed(old) }
}

/// The member of `metadata` that counts like the spec: a Deployment's revision is an annotation (spec api-surface §6.2), and controllers find
/// the slices of a Service by label (measured).
pub(super) fn counted_metadata(served: &Served) -> Option<&'static str> {
    match id(served) {
        "deployments" => Some("annotations"),
        "endpointslices" => Some("labels"),
        _ => None,
    }
}

/// Whether something besides `metadata.finalizers` keeps an object that is being deleted.
pub(super) fn is_held(served: &Served, object: &Value) -> bool {
    id(served) == "namespaces" && !tree::texts(object, &["spec", "finalizers"]).is_empty()
}

/// `/finalize` of a namespace: all but the status is taken (measured).
pub(super) fn with_finalizers(old: &Value, mut wanted: Value) -> Value {
    tree::take_over(tree::object(&mut wanted), old.as_object().unwrap_or(&tree::NO_MEMBERS), "status");
    if tree::texts(&wanted, &["spec", "finalizers"]).is_empty() {
        tree::member(&mut wanted, "spec").remove("finalizers");
    }
    label_namespace(&mut wanted);
    wanted
}

/// `/approval` of a certificate request: of the status only the conditions are taken.
pub(super) fn with_approval(old: &Value, wanted: Value) -> Value {
    signing::with_conditions(old, wanted)
}

/// `/ephemeralcontainers` of a Pod.
pub(super) fn with_ephemeral_containers(old: &Value, wanted: Value) -> Value {
    pod_parts::with_ephemeral_containers(old, wanted, RESET_FOR_STATUS)
}

/// `/resize` of a Pod.
pub(super) fn with_resources(old: &Value, wanted: Value) -> Value {
    pod_parts::with_resources(old, wanted, RESET_FOR_STATUS)
}

/// What is wrong with a new object besides its metadata.
pub(super) fn validate_create(served: &Served, object: &Value) -> Vec<FieldError> {
    if let Origin::Custom(custom) = &served.origin {
        return scale::validate(custom.scale.as_ref(), Part::Main, object);
    }
    match id(served) {
        "configmaps" | "secrets" => data_size(object),
        DEFINITIONS => definition::validate_create(object, &custom::Heads),
        "apiregistration.k8s.io/apiservices" => {
            metadata::version_group(tree::text(object, &["metadata", "name"]), object).into_iter().collect()
        }
        SIGNING_REQUESTS => signing::validate_create(object),
        "roles" | "clusterroles" => access::validate_role(object, None),
        "rolebindings" | "clusterrolebindings" => access::validate_binding(object, None),
        _ => Vec::new(),
    }
}

/// What is wrong with a change besides that of the metadata.
pub(super) fn validate_update(served: &Served, part: Part, old: &Value, new: &Value) -> Vec<FieldError> {
    if let Origin::Custom(custom) = &served.origin {
        return scale::validate(custom.scale.as_ref(), part, new);
    }
    match (id(served), part) {
        ("configmaps" | "secrets", _) => {
            immutable_data(old, new).into_iter().chain(secret_type(served, old, new)).chain(data_size(new)).collect()
        }
        ("services/specs", Part::Status) => services::wrong_status(new, old),
        ("namespaces", Part::Status) => wrong_phase(new).into_iter().collect(),
        ("namespaces", Part::Finalizers) => metadata::bare_finalizers("spec.finalizers", &tree::texts(new, &["spec", "finalizers"])),
        (DEFINITIONS, Part::Main) => definition::validate_update(new, old, &custom::Heads),
        (DEFINITIONS, Part::Status) => definition::validate_status_update(new),
        ("pods", Part::EphemeralContainers) => pod_parts::validate_ephemeral_containers(new, old),
        ("pods", Part::Resize) => pod_parts::validate_resources(new, old),
        (SIGNING_REQUESTS, _) => signing::validate_update(new, old, part),
        ("roles" | "clusterroles", _) => access::validate_role(new, Some(old)),
        ("rolebindings" | "clusterrolebindings", _) => access::validate_binding(new, Some(old)),
        _ => Vec::new(),
    }
}

/// A namespace is Terminating exactly while it is being deleted (measured).
fn wrong_phase(namespace: &Value) -> Option<FieldError> {
    let phase = tree::text(namespace, &["status", "phase"]);
    let (wanted, why) = match tree::at(namespace, &["metadata", "deletionTimestamp"]) {
        None => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
        Some(_) => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    };
    (phase != wanted).then(|| FieldError::invalid("status.Phase", &phase.into(), why))
}

/// A new node takes no Pods until it is ready (the admission plugin TaintNodesByCondition).
fn taint_node(node: &mut Value) {
    const NOT_READY: (&str, &str) = ("node.kubernetes.io/not-ready", "NoSchedule");
    let is_taint = |taint: &Value| (taint["key"].as_str(), taint["effect"].as_str()) == (Some(NOT_READY.0), Some(NOT_READY.1));
    let mut taints = tree::at(node, &["spec", "taints"]).and_then(Value::as_array).cloned().unwrap_or_default();
    if !taints.iter().any(is_taint) {
        taints.push(json!({"key": NOT_READY.0, "effect": NOT_READY.1}));
        tree::set(node, &["spec", "taints"], taints.into());
    }
}

fn label_namespace(object: &mut Value) {
    let name = tree::text(object, &["metadata", "name"]).to_owned();
    tree::set(object, &["metadata", "labels", "kubernetes.io/metadata.name"], name.into());
}

/// Gives a Secret its type.
fn prepare_secret(object: &mut Value) {
    if tree::text(object, &["type"]).is_empty() {
        tree::set(object, &["type"], "Opaque".into());
    }
}

/// Puts `stringData`, which is for writing only, into `data` (spec api-surface §5.8).
pub(super) fn encode_string_data(object: &mut Value) {
    let Some(Value::Object(texts)) = tree::object(object).remove("stringData") else { return };
    for (name, text) in texts {
        let encoded = BASE64_STANDARD.encode(text.as_str().unwrap_or(""));
        tree::member(object, "data").insert(name, encoded.into());
    }
}

/// Of the Secrets of a ServiceAccount only their names are kept (measured).
fn only_names(object: &mut Value) {
    for secret in object.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        tree::object(secret).retain(|name, _| name == "name");
    }
}

/// The bytes of all values, decoded where they are base64.
fn data_size(object: &Value) -> Vec<FieldError> {
    let values = |name: &str| object.get(name).and_then(Value::as_object).into_iter().flat_map(Map::values).filter_map(Value::as_str);
    let is_secret = tree::text(object, &["kind"]) == "Secret";
    let decoded = |text: &str| (text.len() / 4 * 3).saturating_sub(text.bytes().rev().take_while(|b| *b == b'=').count());
    let data: usize = values("data").map(|text| if is_secret { decoded(text) } else { text.len() }).sum();
    let binary: usize = values("binaryData").map(decoded).sum();
    if data + binary > DATA_BYTES_MAX {
        vec![FieldError::too_long(if is_secret { "data" } else { "[]" }, DATA_BYTES_MAX)]
    } else {
        Vec::new()
    }
}

/// `immutable: true` is for ever (spec api-surface §6.3).
fn immutable_data(old: &Value, new: &Value) -> Vec<FieldError> {
    const WHY: &str = "field is immutable when `immutable` is set";
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return Vec::new();
    }
    let changed = |name: &str| tree::at(old, &[name]) != tree::at(new, &[name]);
    let flag = (new.get("immutable") != Some(&Value::Bool(true))).then(|| FieldError::forbidden("immutable", WHY));
    let fields = ["data", "binaryData"].into_iter().filter(|name| changed(name)).map(|name| FieldError::forbidden(name, WHY));
    flag.into_iter().chain(fields).collect()
}

fn secret_type(served: &Served, old: &Value, new: &Value) -> Option<FieldError> {
    let (old, new) = (old.get("type"), new.get("type"));
    (id(served) == "secrets" && old != new).then(|| FieldError::invalid("type", new.unwrap_or(&Value::Null), "field is immutable"))
}
