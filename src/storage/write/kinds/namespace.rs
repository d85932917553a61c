//! Namespaces: born with a finalizer, labelled with their name, Terminating while they are being deleted (spec api-surface §5.5).

use serde_json::{Value, json};
use time::OffsetDateTime;

use super::row::{JudgedAsNew, Strategy};
use crate::write::{part::Part, tree};
use builtins::cluster;
use model::invalid::FieldError;

/// The finalizer that a namespace is born with (spec api-surface §5.5).
const FINALIZER: &str = "kubernetes";

pub(super) const NAMESPACES: Strategy = Strategy {
    storage: "namespaces",
    prepare_create,
    prepare_update,
    take,
    mark: Some(mark),
    is_held,
    judged_as_new: JudgedAsNew::Main,
    validate_create: cluster::create_namespace,
    validate_update,
    ..Strategy::COMMON
};

fn prepare_create(namespace: &mut Value, _: &mut Vec<String>) {
    let finalizers = tree::texts(namespace, &["spec", "finalizers"]);
    if !finalizers.contains(&FINALIZER) {
        let all: Vec<&str> = finalizers.into_iter().chain([FINALIZER]).collect();
        let all = json!(all);
        tree::set(namespace, &["spec", "finalizers"], all);
    }
    tree::set(namespace, &["status"], json!({"phase": "Active"}));
    label(namespace);
}

fn prepare_update(part: Part, old: &Value, new: &mut Value) {
    if part == Part::Main {
        match tree::at(old, &["spec", "finalizers"]).cloned() {
            Some(finalizers) => tree::set(new, &["spec", "finalizers"], finalizers),
            None => drop(tree::member(new, "spec").remove("finalizers")),
        }
    }
    label(new);
}

/// `/finalize`: all but the status is taken (measured).
fn take(_: Part, old: &Value, mut wanted: Value) -> Value {
    tree::take_over(tree::object(&mut wanted), old.as_object().unwrap_or(&tree::NO_MEMBERS), "status");
    if tree::texts(&wanted, &["spec", "finalizers"]).is_empty() {
        tree::member(&mut wanted, "spec").remove("finalizers");
    }
    label(&mut wanted);
    wanted
}

fn mark(namespace: &mut Value, now: OffsetDateTime) {
    tree::set(namespace, &["metadata", "deletionTimestamp"], tree::rfc3339(now).into());
    tree::set(namespace, &["status", "phase"], "Terminating".into());
}

fn is_held(namespace: &Value) -> bool {
    !tree::texts(namespace, &["spec", "finalizers"]).is_empty()
}

fn validate_update(part: Part, old: &Value, new: &Value) -> Vec<FieldError> {
    match part {
        Part::Main => cluster::update_namespace(old, new),
        Part::Status => cluster::update_namespace_status(old, new),
        Part::Finalizers => cluster::finalize_namespace(old, new),
        _ => Vec::new(),
    }
}

fn label(object: &mut Value) {
    let name = tree::text(object, &["metadata", "name"]).to_owned();
    tree::set(object, &["metadata", "labels", "kubernetes.io/metadata.name"], name.into());
}
