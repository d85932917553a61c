//! Events, in the form of `v1`. They have two sets of rules: one for those that write them as `v1`, and a stricter one for `events.k8s.io/v1`.

use serde_json::Value;

use crate::{at::At, causes::Causes, equal, meta, names, numbers};
use model::invalid::FieldError;

const TEXT_BYTES_MAX: usize = 128;
const NOTE_BYTES_MAX: usize = 1024;
const OTHER_NAMESPACE: &str = "does not match event.namespace";
const UNSET: &str = "needs to be unset";

/// The version in which a client writes an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1`.
    Core,
    /// `events.k8s.io/v1`.
    Events,
}

/// What is wrong with a new Event.
#[must_use]
pub fn create(event: &Value, version: Version) -> Vec<FieldError> {
    let root = At::root(event);
    Causes::of(|causes| {
        common(&root, version, causes);
        if version == Version::Events {
            series(&root.member("series"), causes);
            strict(&root, causes);
        }
    })
}

/// What is wrong with a change of an Event.
#[must_use]
pub fn update(old: &Value, new: &Value, version: Version) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    Causes::of(|causes| {
        common(&new, version, causes);
        if version == Version::Events {
            let repeated = new.member("series");
            if !equal::same(repeated.value(), old.member("series").value()) {
                series(&repeated, causes);
            }
            unchanged(&old, &new, causes);
        }
    })
}

/// What holds in each version: events with a time of the new kind say more about who reports them.
fn common(event: &At<'_, '_>, version: Version, causes: &mut Causes) {
    let metadata = event.member("metadata");
    let (namespace, object) = (metadata.member("namespace"), event.member("involvedObject"));
    let (of_object, namespace) = (object.member("namespace"), namespace.text());
    if event.member("eventTime").is_absent() {
        let fits = match of_object.text() {
            "" => matches!(namespace, "" | "default"),
            of_object => of_object == namespace,
        };
        if !fits {
            causes.invalid_text(&of_object, OTHER_NAMESPACE);
        }
    } else {
        if of_object.text().is_empty() && !matches!(namespace, "default" | "kube-system") {
            causes.invalid_text(&of_object, OTHER_NAMESPACE);
        }
        reported(event, version, causes);
    }
    let at = event.member("namespace");
    names::subdomain(namespace).iter().for_each(|why| causes.invalid_as(&at, &namespace.into(), why));
}

/// Who reports an event, and what has been done.
fn reported(event: &At<'_, '_>, version: Version, causes: &mut Causes) {
    let controller = event.member(if version == Version::Core { "reportingComponent" } else { "reportingController" });
    let named = event.member("reportingComponent");
    let controller = controller.with(named.value());
    meta::present(&controller, "", causes);
    names::qualified(controller.text()).iter().for_each(|why| causes.invalid_text(&controller, why));
    for text in ["reportingInstance", "action", "reason"].map(|member| event.member(member)) {
        meta::present(&text, "", causes);
        short(&text, TEXT_BYTES_MAX, causes);
    }
    short(&event.member("message"), NOTE_BYTES_MAX, causes);
}

fn short(at: &At<'_, '_>, bytes_max: usize, causes: &mut Causes) {
    if at.text().len() > bytes_max {
        causes.invalid_as(at, &"".into(), &format!("can have at most {bytes_max} characters"));
    }
}

fn series(at: &At<'_, '_>, causes: &mut Causes) {
    if at.is_absent() {
        return;
    }
    if at.member("count").integer() < 2 {
        causes.invalid_as(&at.member("count"), &"".into(), "should be at least 2");
    }
    if at.member("lastObservedTime").is_absent() {
        causes.required(&at.member("lastObservedTime"), "");
    }
}

/// What a new event of `events.k8s.io/v1` must say, and must not say any more.
fn strict(event: &At<'_, '_>, causes: &mut Causes) {
    let (time, kind) = (event.member("eventTime"), event.member("type"));
    if time.is_absent() {
        causes.required(&time, "");
    }
    if !matches!(kind.text(), "Normal" | "Warning") {
        causes.invalid_as(&kind, &"".into(), &format!("has invalid value: {}", kind.text()));
    }
    let source = event.member("source");
    let of_source = ["component", "host"].iter().any(|member| !source.member(member).is_zero());
    for (member, is_set) in [
        ("firstTimestamp", event.member("firstTimestamp").is_present()),
        ("lastTimestamp", event.member("lastTimestamp").is_present()),
        ("count", event.member("count").integer() != 0),
        ("source", of_source),
    ] {
        if is_set {
            causes.invalid_as(&event.member(member), &"".into(), UNSET);
        }
    }
}

/// What an update through `events.k8s.io/v1` may not change. One reason is judged twice.
fn unchanged(old: &At<'_, '_>, new: &At<'_, '_>, causes: &mut Causes) {
    const MEMBERS: [(&str, &str, &str); 14] = [
        ("involvedObject", "involvedObject", "core.ObjectReference"),
        ("reason", "reason", ""),
        ("message", "message", ""),
        ("source", "source", "core.EventSource"),
        ("firstTimestamp", "firstTimestamp", "time"),
        ("lastTimestamp", "lastTimestamp", "time"),
        ("count", "count", "int"),
        ("reason", "reason", ""),
        ("type", "type", ""),
        ("eventTime", "eventTime", "time"),
        ("action", "action", ""),
        ("related", "related", "*core.ObjectReference"),
        ("reportingComponent", "reportingController", ""),
        ("reportingInstance", "reportingInstance", ""),
    ];
    for (member, shown, kind) in MEMBERS {
        let (is, was) = (new.member(member), old.member(member));
        let at = new.member(shown);
        let at = at.with(is.value());
        // Plain strings are quoted in their own way.
        if kind.is_empty() {
            if is.text() != was.text() {
                causes.invalid_text(&at, "field is immutable");
            }
        } else if kind != "int" || is.integer() != was.integer() {
            numbers::immutable(&at, &was, kind, causes);
        }
    }
}
