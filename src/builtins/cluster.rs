//! Small kinds that the cluster itself lives by: Namespaces, Leases, PriorityClasses, ControllerRevisions.

use serde_json::Value;

use crate::{at::At, causes::Causes, meta, names, numbers};
use model::invalid::FieldError;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
/// The largest value of a PriorityClass of users.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
/// The classes that may begin with it, and their values.
const SYSTEM_CLASSES: [(&str, i64); 2] = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
/// The strategies of coordinated leader election that need no domain.
const LEASE_STRATEGIES: [&str; 1] = ["OldestEmulationVersion"];

/// What is wrong with a new Namespace.
#[must_use]
pub fn create_namespace(namespace: &Value) -> Vec<FieldError> {
    let root = At::root(namespace);
    let spec = root.member("spec");
    let finalizers = spec.member("finalizers");
    // All have the path of the list.
    Causes::of(|causes| finalizers.items().for_each(|name| finalizer(&finalizers.with(name.value()), causes)))
}

/// What is wrong with a change of a Namespace, whose finalizers are judged again.
#[must_use]
pub fn update_namespace(_old: &Value, new: &Value) -> Vec<FieldError> {
    create_namespace(new)
}

/// What is wrong with the finalizers that `/finalize` leaves.
#[must_use]
pub fn finalize_namespace(_old: &Value, new: &Value) -> Vec<FieldError> {
    let root = At::root(new);
    let spec = root.member("spec");
    Causes::of(|causes| spec.member("finalizers").items().for_each(|name| finalizer(&name, causes)))
}

/// What is wrong with the status of a Namespace, which is Terminating exactly while it is being deleted.
#[must_use]
pub fn update_namespace_status(_old: &Value, new: &Value) -> Vec<FieldError> {
    let root = At::root(new);
    let status = root.member("status");
    let phase = At::named("status.Phase", status.member("phase").value());
    let (wanted, why) = if root.member("metadata").member("deletionTimestamp").is_absent() {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    } else {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    };
    Causes::of(|causes| {
        if phase.text() != wanted {
            causes.invalid_json(&phase, why);
        }
    })
}

fn finalizer(at: &At<'_, '_>, causes: &mut Causes) {
    let name = at.text();
    names::qualified(name).iter().for_each(|why| causes.invalid_text(at, why));
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        causes.invalid_text(at, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

/// What is wrong with a new Lease.
#[must_use]
pub fn create_lease(lease: &Value) -> Vec<FieldError> {
    let root = At::root(lease);
    Causes::of(|causes| lease_spec(&root.member("spec"), causes))
}

/// What is wrong with a changed Lease, which is judged as a new one.
#[must_use]
pub fn update_lease(_old: &Value, new: &Value) -> Vec<FieldError> {
    create_lease(new)
}

fn lease_spec(spec: &At<'_, '_>, causes: &mut Causes) {
    let duration = spec.member("leaseDurationSeconds");
    if duration.some_integer().is_some_and(|seconds| seconds <= 0) {
        causes.invalid(&duration, "must be greater than 0");
    }
    meta::not_negative(&spec.member("leaseTransitions"), causes);
    let strategy = spec.member("strategy");
    if strategy.is_present() {
        // The path has the name twice.
        lease_strategy(strategy.text(), &strategy.member("strategy"), causes);
    }
    let holder = spec.member("preferredHolder");
    if !holder.text().is_empty() && strategy.text().is_empty() {
        causes.forbidden(&holder, "may only be specified if `strategy` is defined");
    }
}

/// A strategy of coordinated leader election: one that is known, or a qualified name.
fn lease_strategy(strategy: &str, at: &At<'_, '_>, causes: &mut Causes) {
    let shown = strategy.into();
    let at = at.with(&shown);
    if strategy.contains('/') {
        names::qualified(strategy).iter().for_each(|why| causes.invalid_json(&at, why));
    } else if !LEASE_STRATEGIES.contains(&strategy) {
        causes.not_supported(&at, &LEASE_STRATEGIES);
    }
}

/// What is wrong with a new PriorityClass.
#[must_use]
pub fn create_priority_class(class: &Value) -> Vec<FieldError> {
    let root = At::root(class);
    let (metadata, value) = (root.member("metadata"), root.member("value"));
    let name = metadata.member("name");
    Causes::of(|causes| {
        if name.text().starts_with(SYSTEM_PREFIX) {
            if let Some(why) = no_system_class(name.text(), value.integer(), root.member("globalDefault").is_true()) {
                let why = format!("priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}");
                causes.forbidden(&name, &why);
            }
        } else if value.integer() > USER_PRIORITY_MAX {
            causes.forbidden(&value, &format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"));
        }
        let policy = root.member("preemptionPolicy");
        match policy.value().as_str() {
            None | Some("PreemptLowerPriority" | "Never") => {}
            Some("") => causes.required(&policy, ""),
            Some(_) => causes.not_supported(&policy, &["PreemptLowerPriority", "Never"]),
        }
    })
}

/// Returns why a class is not one of those that Kubernetes has by itself.
fn no_system_class(name: &str, value: i64, is_default: bool) -> Option<String> {
    let Some((_, wanted)) = SYSTEM_CLASSES.into_iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value != wanted {
        return Some(format!("value of {name} PriorityClass must be {wanted}"));
    }
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

/// What is wrong with a change of a PriorityClass.
#[must_use]
pub fn update_priority_class(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    Causes::of(|causes| {
        if old.member("value").integer() != new.member("value").integer() {
            causes.forbidden(&new.member("value"), "may not be changed in an update.");
        }
        numbers::immutable(&new.member("preemptionPolicy"), &old.member("preemptionPolicy"), "*string", causes);
    })
}

/// What is wrong with a new ControllerRevision.
#[must_use]
pub fn create_controller_revision(revision: &Value) -> Vec<FieldError> {
    let root = At::root(revision);
    let data = root.member("data");
    Causes::of(|causes| {
        meta::not_negative(&root.member("revision"), causes);
        match data.value() {
            Value::Object(_) => {}
            Value::Null => causes.required(&data, "data is mandatory"),
            _ => causes.required(&data, "data must be a valid JSON object"),
        }
    })
}

/// What is wrong with a change of a ControllerRevision.
#[must_use]
pub fn update_controller_revision(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    Causes::of(|causes| {
        meta::not_negative(&new.member("revision"), causes);
        // Go compares the bytes.
        if old.member("data").value() != new.member("data").value() {
            causes.invalid_shown(&new.member("data"), "raw", "field is immutable");
        }
    })
}
