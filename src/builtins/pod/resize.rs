//! What a resize may change: how much of the processor and of memory containers have (`ValidatePodResize`).

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::{Options, class, update::is_mirror, whole};
use crate::{FieldError, at::At, causes::Causes, equal::same};

/// The resources that may change.
const MUTABLE: [&str; 2] = ["cpu", "memory"];

static EMPTY: LazyLock<Value> = LazyLock::new(|| json!({}));

/// What is wrong with other resources of a Pod.
#[must_use]
pub fn resize(old: &Value, new: &Value) -> Vec<FieldError> {
    if is_mirror(old) {
        return vec![FieldError::forbidden("[]", "static pods cannot be resized")];
    }
    if old["spec"]["os"]["name"].as_str() == Some("windows") {
        return vec![FieldError::forbidden("[]", "windows pods cannot be resized")];
    }
    let options = Options { is_pod: true, ..Options::after(old) };
    Causes::of(|causes| {
        whole(new, &options, causes);
        let (old, new) = (At::root(old), At::root(new));
        judge(&old, &new, causes);
    })
}

fn judge(old_pod: &At<'_, '_>, new_pod: &At<'_, '_>, causes: &mut Causes) {
    let (old, new) = (old_pod.member("spec"), new_pod.member("spec"));
    if class::known_class(old_pod.value()) != class::class(new_pod.value()) {
        let status = new_pod.member("status");
        let class = status.member("qosClass");
        causes.invalid_json(&new.with(&class.text().into()), "Pod QOS Class may not change as a result of resizing");
    }
    let status = old_pod.member("status");
    let running = status.member("containerStatuses").items().map(|it| it.value()).find(|it| !it["state"]["running"].is_null()).cloned();
    if running.is_some_and(|running| running["resources"].is_null()) {
        causes.forbidden(&new, "Pod running on node without support for resize");
    }
    let mut whole = without_empty(new.member("resources").value());
    let has_amounts = |spec: &At<'_, '_>| ["requests", "limits"].iter().any(|list| spec.member("resources").member(list).len() > 0);
    if has_amounts(&old) || has_amounts(&new) {
        whole = whole_resources(&old, &new, causes);
    }
    if status.member("nodeAllocatableResourceClaimStatuses").len() > 0 {
        causes.forbidden(&new, "pods with node allocatable resource claims cannot be resized");
    }
    if has_other_containers(&old, &new, causes) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (known, wanted) in old.member(list).items().zip(new.member(list).items()) {
            removed(&known.member("resources"), &wanted.member("resources"), "resource", causes);
        }
    }
    let masked = containers(&old, &new, causes);
    if causes.is_empty() {
        let mut spec = new.map().cloned().unwrap_or_default();
        spec.extend(masked);
        spec.insert("resources".to_owned(), whole);
        if !same(&spec.into(), &normal(&old)) {
            causes.forbidden(&new, "only cpu and memory resources are mutable");
        }
    }
}

/// The spec with resources of containers that are there, as Go has them.
fn normal(spec: &At<'_, '_>) -> Value {
    let mut normal = spec.map().cloned().unwrap_or_default();
    for list in ["containers", "initContainers"] {
        let containers =
            spec.member(list).items().map(|container| with_resources(container.value(), &container.value()["resources"])).collect();
        normal.insert(list.to_owned(), Value::Array(containers));
    }
    let whole = spec.member("resources");
    normal.insert("resources".to_owned(), without_empty(whole.value()));
    normal.into()
}

/// Judges the containers one by one; returns them as they would be had nothing changed that may.
fn containers(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) -> Map<String, Value> {
    let mut masked = Map::new();
    let mut list = Vec::new();
    for (known, wanted) in old.member("containers").items().zip(new.member("containers").items()) {
        let container = with_mutable_of(wanted.value(), known.value());
        if !same(&container, &with_resources(known.value(), &known.value()["resources"])) {
            causes.forbidden(new, "only cpu and memory resources are mutable");
        }
        list.push(container);
    }
    masked.insert("containers".to_owned(), list.into());
    let mut list = Vec::new();
    for (known, wanted) in old.member("initContainers").items().zip(new.member("initContainers").items()) {
        let container = with_mutable_of(wanted.value(), known.value());
        if !same(&container, &with_resources(known.value(), &known.value()["resources"])) {
            causes.forbidden(&wanted, "only cpu and memory resources for init or sidecar containers are mutable");
        }
        if !same(wanted.value(), known.value()) && wanted.member("restartPolicy").text() != "Always" {
            for policy in wanted.member("resizePolicy").items() {
                if policy.member("restartPolicy").text() == "RestartContainer" {
                    causes.forbidden(&wanted, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized");
                }
            }
        }
        list.push(container);
    }
    masked.insert("initContainers".to_owned(), list.into());
    masked
}

/// Judges the resources of the whole Pod; returns them as they would be had nothing changed that may.
fn whole_resources(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) -> Value {
    let (known, at) = (old.member("resources"), new.member("resources"));
    if known.is_present() && at.is_absent() {
        causes.forbidden(&at, "pod-level resources cannot be removed");
        return Value::Null;
    }
    if known.is_present() {
        removed(&known, &at, "pod-level resource", causes);
    }
    if at.is_absent() {
        return Value::Null;
    }
    let mut resources = at.map().cloned().unwrap_or_default();
    for list in ["requests", "limits"] {
        resources.insert(list.to_owned(), mutable_of(&at.value()[list], &known.value()[list]));
    }
    let is_empty = |list: &Value| list.as_object().is_none_or(Map::is_empty) && list.as_array().is_none_or(Vec::is_empty);
    let masked = if known.is_absent() && resources.values().all(is_empty) { Value::Null } else { resources.into() };
    if !same(&without_empty(&masked), &without_empty(known.value())) {
        causes.forbidden(new, "only cpu and memory resources are mutable at pod-level");
    }
    without_empty(&masked)
}

/// Resources that were asked for or limited and are no longer named.
fn removed(old: &At<'_, '_>, new: &At<'_, '_>, what: &str, causes: &mut Causes) {
    for list in ["requests", "limits"] {
        let (known, list_at) = (old.member(list), new.member(list));
        if known.entries().any(|(name, _)| list_at.key(name).is_absent()) {
            causes.forbidden(&list_at, &format!("{what} {list} cannot be removed"));
        }
    }
}

/// A container as it would be had nothing of its resources changed that may change. It has no claims then.
fn with_mutable_of(new: &Value, old: &Value) -> Value {
    let (wanted, known) = (&new["resources"], &old["resources"]);
    let resources =
        json!({"limits": mutable_of(&wanted["limits"], &known["limits"]), "requests": mutable_of(&wanted["requests"], &known["requests"])});
    with_resources(new, &resources)
}

/// A container with these resources, of which there may be none.
fn with_resources(container: &Value, resources: &Value) -> Value {
    let mut container = container.clone();
    if let Some(members) = container.as_object_mut() {
        members.insert("resources".to_owned(), without_empty(if resources.is_null() { &EMPTY } else { resources }));
    }
    container
}

/// Amounts with those of `old` that may change.
fn mutable_of(new: &Value, old: &Value) -> Value {
    let mut amounts = new.as_object().cloned().unwrap_or_default();
    for name in MUTABLE {
        match old.get(name) {
            Some(amount) => amounts.insert(name.to_owned(), amount.clone()),
            None => amounts.remove(name),
        };
    }
    amounts.into()
}

/// Resources that name no empty lists.
fn without_empty(resources: &Value) -> Value {
    let mut resources = resources.clone();
    if let Some(members) = resources.as_object_mut() {
        members.retain(|_, list| !list.is_null() && list.as_object().is_none_or(|list| !list.is_empty()));
    }
    resources
}

/// Whether containers came, went, or stand elsewhere, which is reported.
fn has_other_containers(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) -> bool {
    let before = causes.len();
    for name in ["containers", "initContainers"] {
        let (known, list) = (old.member(name), new.member(name));
        if known.len() != list.len() {
            causes.forbidden(&list, &format!("{name} may not be added or removed on resize"));
            continue;
        }
        for (known, wanted) in known.items().zip(list.items()) {
            if known.member("name").text() != wanted.member("name").text() {
                causes.forbidden(&wanted.member("name"), &format!("{name} may not be renamed or reordered on resize"));
            }
        }
    }
    causes.len() > before
}
