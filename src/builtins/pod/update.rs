//! What an update of a Pod may change: little, and what else it wants is shown (`ValidatePodUpdate`).

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{
    Options,
    containers::image_without_spaces,
    profiles::{self, APP_ARMOR_OF, MIRROR},
    tolerations, whole,
};
use crate::{FieldError, at::At, causes::Causes, equal::same, internal, lines::difference, meta, names};

const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What is wrong with a Pod that replaces `old`.
#[must_use]
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let options = Options { is_pod: true, ..Options::after(old) };
    Causes::of(|causes| {
        whole(new, &options, causes);
        annotations(old, new, &options, causes);
        let (old, new) = (At::root(old), At::root(new));
        spec(&old.member("spec"), &new.member("spec"), &options, causes);
    })
}

/// Annotations that stay what they are, and then all of them again (`ValidatePodSpecificAnnotationUpdates`).
pub(super) fn annotations(old: &Value, new: &Value, options: &Options, causes: &mut Causes) {
    let (old, new) = (At::root(old), At::root(new));
    let (of_old, of_new) = (old.member("metadata"), new.member("metadata"));
    let (old, annotations) = (of_old.member("annotations"), of_new.member("annotations"));
    let mut forbid = |key: &str, app_armor: &str, mirror: &str| {
        if key.starts_with(APP_ARMOR_OF) {
            causes.forbidden(&annotations.key(key), &format!("may not {app_armor} AppArmor annotations"));
        }
        if key == MIRROR {
            causes.forbidden(&annotations.key(key), &format!("may not {mirror} mirror pod annotation"));
        }
    };
    for (key, value) in old.entries() {
        if annotations.key(key).value() != value.value() {
            forbid(key, "remove or update", "remove or update");
        }
    }
    for (key, _) in annotations.entries() {
        if old.key(key).is_absent() {
            forbid(key, "add", "add");
        }
    }
    profiles::annotations(&annotations, &new.member("spec"), options, causes);
}

fn spec(old: &At<'_, '_>, new: &At<'_, '_>, options: &Options, causes: &mut Causes) {
    for list in ["containers", "initContainers"] {
        let (known, list) = (old.member(list), new.member(list));
        if known.len() != list.len() {
            return causes.forbidden(&list, "pod updates may not add or remove containers");
        }
        for container in list.items() {
            meta::present(&container.member("image"), "", causes);
            image_without_spaces(&container, causes);
        }
    }
    if !deadline(old, new, causes) {
        return;
    }
    tolerations::only_added(&new.member("tolerations"), &old.member("tolerations"), options, causes);
    only_deleted_gates(&old.member("schedulingGates"), &new.member("schedulingGates"), causes);
    if !same(old.value(), new.value()) {
        others(old, new, causes);
    }
}

/// Returns whether it may go on.
fn deadline(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) -> bool {
    let at = new.member("activeDeadlineSeconds");
    let known = old.member("activeDeadlineSeconds").some_integer();
    match (known, at.some_integer()) {
        (Some(_), None) => causes.invalid(&at, "must not update from a positive integer to nil value"),
        (known, Some(wanted)) => {
            if let Some(why) = names::in_range(wanted, 0, i32::MAX.into()) {
                causes.invalid(&at, &why);
                return false;
            }
            if known.is_some_and(|known| known < wanted) {
                causes.invalid(&at, "must be less than or equal to previous value");
                return false;
            }
        }
        (None, None) => {}
    }
    true
}

fn only_deleted_gates(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) {
    let last: HashMap<&str, usize> =
        new.items().enumerate().map(|(index, gate)| (gate.value()["name"].as_str().unwrap_or_default(), index)).collect();
    let known: Vec<&str> = old.items().map(|gate| gate.value()["name"].as_str().unwrap_or_default()).collect();
    let known: std::collections::HashSet<&str> = known.into_iter().collect();
    for (index, gate) in new.items().enumerate() {
        let name = gate.member("name");
        if last.get(name.text()) == Some(&index) && !known.contains(name.text()) {
            causes.forbidden(&name, &format!("only deletion is allowed, but found new scheduling gate '{}'", name.text()));
        }
    }
}

/// All that an update does not change is put back; what is left is shown.
fn others(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) {
    let Some(known) = old.map() else { return };
    let Some(mut munged) = new.map().cloned() else { return };
    for list in ["containers", "initContainers"] {
        let containers = munged.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, known) in containers.zip(known.get(list).and_then(Value::as_array).into_iter().flatten()) {
            if let Some(container) = container.as_object_mut() {
                put_back("image", container, known.as_object().unwrap_or(&Map::new()));
            }
        }
    }
    for member in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        put_back(member, &mut munged, known);
    }
    let grace = |spec: &Map<String, Value>| spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if grace(known).is_some_and(|grace| grace < 0) && grace(&munged) == Some(1) {
        put_back("terminationGracePeriodSeconds", &mut munged, known);
    }
    if old.member("schedulingGates").len() > 0 {
        directives(old, new, &mut munged, causes);
    }
    let munged = Value::Object(munged);
    if !same(&munged, old.value()) {
        let shown = difference(&internal::shown("core.PodSpec", old.value()), &internal::shown("core.PodSpec", &munged));
        causes.forbidden(new, &format!("pod updates may not change fields other than {CHANGEABLE}\n{shown}"));
    }
}

fn put_back(member: &str, munged: &mut Map<String, Value>, known: &Map<String, Value>) {
    match known.get(member) {
        Some(value) => munged.insert(member.to_owned(), value.clone()),
        None => munged.remove(member),
    };
}

/// While a Pod is held back, its choice of nodes may become narrower.
fn directives(old: &At<'_, '_>, new: &At<'_, '_>, munged: &mut Map<String, Value>, causes: &mut Causes) {
    let (known, selector) = (old.member("nodeSelector"), new.member("nodeSelector"));
    if !same(known.value(), selector.value()) {
        if known.entries().any(|(key, value)| selector.key(key).value() != value.value()) {
            causes.invalid(&selector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)");
        }
        put_back("nodeSelector", munged, old.map().unwrap_or(&Map::new()));
    }
    let (of_old, of_new) = (old.member("affinity"), new.member("affinity"));
    let (known, nodes) = (of_old.member("nodeAffinity"), of_new.member("nodeAffinity"));
    if same(known.value(), nodes.value()) {
        return;
    }
    narrower(&known, &nodes, causes);
    let has_pods = of_new.member("podAffinity").is_present() || of_new.member("podAntiAffinity").is_present();
    if of_new.is_absent() {
        munged.insert("affinity".to_owned(), json!({"nodeAffinity": known.value()}));
    } else if of_old.is_absent() && !has_pods {
        munged.remove("affinity");
    } else if let Some(affinity) = munged.get_mut("affinity").and_then(Value::as_object_mut) {
        put_back("nodeAffinity", affinity, of_old.map().unwrap_or(&Map::new()));
    }
}

fn narrower(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let (of_old, of_new) = (old.member(REQUIRED), new.member(REQUIRED));
    let (known, terms) = (of_old.member("nodeSelectorTerms"), of_new.member("nodeSelectorTerms"));
    if known.len() > 0 && known.len() != terms.len() {
        return causes.invalid_shown(
            &terms,
            "[]core.NodeSelectorTerm",
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        );
    }
    for (known, term) in known.items().zip(terms.items()) {
        if !has_only_additions(&known, &term) {
            causes.invalid_shown(&term, "core.NodeSelectorTerm", "only additions are allowed (no mutations or deletions)");
        }
    }
}

/// An empty term selects nothing, and so stays empty.
fn has_only_additions(old: &At<'_, '_>, new: &At<'_, '_>) -> bool {
    const LISTS: [&str; 2] = ["matchExpressions", "matchFields"];
    let is_empty = |term: &At<'_, '_>| LISTS.iter().all(|list| term.member(list).len() == 0);
    if is_empty(old) && !is_empty(new) {
        return false;
    }
    LISTS.iter().all(|list| {
        let (known, list) = (old.member(list), new.member(list));
        known.len() <= list.len() && known.items().zip(list.items()).all(|(known, wanted)| same(known.value(), wanted.value()))
    })
}

/// What is wrong with other containers that look inside (`ValidatePodEphemeralContainersUpdate`).
#[must_use]
pub fn update_ephemeral_containers(old: &Value, new: &Value) -> Vec<FieldError> {
    let options = Options { is_pod: true, ..Options::after(old) };
    if is_mirror(old) {
        return vec![FieldError::forbidden("[]", "static pods do not support ephemeral containers")];
    }
    Causes::of(|causes| {
        whole(new, &options, causes);
        annotations(old, new, &options, causes);
        let (old, new) = (At::root(old), At::root(new));
        let (of_old, of_new) = (old.member("spec"), new.member("spec"));
        let list = of_new.member("ephemeralContainers");
        let wanted: HashMap<&str, &Value> =
            list.items().map(|container| (container.value()["name"].as_str().unwrap_or_default(), container.value())).collect();
        for known in of_old.member("ephemeralContainers").items() {
            let name = go::quote::quoted(known.member("name").text());
            match wanted.get(known.member("name").text()) {
                None => causes.forbidden(&list, &format!("existing ephemeral containers {name} may not be removed\n")),
                Some(wanted) if !same(known.value(), wanted) => {
                    let shown = |container: &Value| internal::shown("core.EphemeralContainer", container);
                    let changed = difference(&shown(known.value()), &shown(wanted));
                    causes.forbidden(&list, &format!("existing ephemeral containers {name} may not be changed\n{changed}"));
                }
                Some(_) => {}
            }
        }
    })
}

/// Whether a kubelet shows a Pod that it has by itself.
pub(super) fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(MIRROR).is_some()
}
