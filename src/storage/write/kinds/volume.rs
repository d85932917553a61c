//! What volumes and claims get besides defaults: when a phase began, and the older name of a data source (`pkg/registry/core/persistentvolume`,
//! `pkg/api/persistentvolumeclaim`).

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use super::tree;

const SINCE: &str = "lastPhaseTransitionTime";

/// The first status of a volume.
pub(super) fn begin(volume: &mut Value) {
    let now = tree::text(volume, &["metadata", "creationTimestamp"]).to_owned();
    tree::set(volume, &["status"], json!({"phase": "Pending", SINCE: now}));
}

/// A phase that changed began now, unless its writer knows better.
pub(super) fn time_phase(new: &mut Value, old: &Value, now: OffsetDateTime) {
    let part = |object: &Value, name: &str| tree::text(object, &["status", name]).to_owned();
    let (warnings, known) = (part(new, SINCE), part(old, SINCE));
    let since = if part(new, "phase") == part(old, "phase") {
        if warnings.is_empty() { known } else { warnings }
    } else if warnings.is_empty() || warnings == known {
        tree::rfc3339(now)
    } else {
        warnings
    };
    if !since.is_empty() {
        tree::set(new, &["status", SINCE], since.into());
    }
}

/// Gives `dataSource` and `dataSourceRef` the same source, and drops an old-style one that is neither a claim nor a snapshot.
pub(super) fn same_sources(claim: &mut Value, old: Option<&Value>) {
    let in_use = |spec: &Map<String, Value>| is_there(spec, "dataSource") || is_there(spec, "dataSourceRef");
    let kept = old.and_then(|old| old.get("spec")).and_then(Value::as_object).is_some_and(in_use);
    let referred = old.is_some_and(|old| tree::at(old, &["spec", "dataSourceRef"]).is_some());
    let Some(Value::Object(spec)) = claim.get_mut("spec") else { return };
    // Sources in other namespaces are a feature that is off by default.
    if !referred && spec.get("dataSourceRef").is_some_and(|reference| !tree::text(reference, &["namespace"]).is_empty()) {
        spec.remove("dataSourceRef");
    }
    let reference = spec.get("dataSourceRef").filter(|reference| reference.is_object());
    match (spec.get("dataSource").filter(|source| source.is_object()), reference) {
        (Some(source), None) if kept || is_claim_or_snapshot(source) => {
            let source = source.clone();
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (Some(_), None) => drop(spec.remove("dataSource")),
        (None, Some(reference)) if tree::text(reference, &["namespace"]).is_empty() => {
            let mut source = reference.clone();
            tree::object(&mut source).remove("namespace");
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

fn is_there(spec: &Map<String, Value>, name: &str) -> bool {
    spec.get(name).is_some_and(Value::is_object)
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    let of = (tree::text(source, &["apiGroup"]), tree::text(source, &["kind"]));
    matches!(of, ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_two_names() {
        let source = json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "o"});
        for name in ["dataSource", "dataSourceRef"] {
            let mut claim = json!({"spec": {name: source}});
            same_sources(&mut claim, None);
            assert_eq!(claim["spec"], json!({"dataSource": source, "dataSourceRef": source}));
        }
        let far = json!({"spec": {"dataSourceRef": {"kind": "Foo", "name": "o", "namespace": "n"}}});
        let (mut new, mut known) = (far.clone(), far.clone());
        same_sources(&mut new, None);
        same_sources(&mut known, Some(&far));
        assert_eq!((new, known), (json!({"spec": {}}), far));
        let mut odd = json!({"spec": {"dataSource": {"kind": "Foo", "name": "o"}}});
        same_sources(&mut odd, None);
        assert_eq!(odd["spec"], json!({}));
    }

    #[test]
    fn phases_begin() {
        let now = tree::parsed("2026-01-02T03:04:05Z").expect("a time");
        let volume = |phase: &str, since: &str| json!({"status": {"phase": phase, SINCE: since}});
        let since = |mut new: Value| {
            time_phase(&mut new, &volume("Pending", "then"), now);
            tree::text(&new, &["status", SINCE]).to_owned()
        };
        assert_eq!(since(volume("Bound", "then")), "2026-01-02T03:04:05Z");
        assert_eq!((since(volume("Bound", "x")), since(volume("Pending", ""))), ("x".to_owned(), "then".to_owned()));
    }
}
