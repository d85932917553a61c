//! Fields of features that are off: what a write loses of them (`disabled.txt`).

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

use super::table::{Step, steps};

/// Where a kind has the spec of a Pod.
const POD_SPECS: [(&str, &str); 8] = [
    ("v1/Pod", "spec"),
    ("v1/PodTemplate", "template.spec"),
    ("v1/ReplicationController", "spec.template.spec"),
    ("apps/v1/DaemonSet", "spec.template.spec"),
    ("apps/v1/Deployment", "spec.template.spec"),
    ("apps/v1/ReplicaSet", "spec.template.spec"),
    ("apps/v1/StatefulSet", "spec.template.spec"),
    ("batch/v1/Job", "spec.template.spec"),
];
/// As above, of the template of a template.
const CRON_JOB: (&str, &str) = ("batch/v1/CronJob", "spec.jobTemplate.spec.template.spec");

/// The features of each kind, each with the ways to its fields.
static TABLE: LazyLock<HashMap<&'static str, Vec<Vec<Way>>>> = LazyLock::new(|| read(include_str!("disabled.txt")));

/// The way to a field.
struct Way {
    steps: Vec<Step>,
    /// Whether what holds the field goes with it when it was the last.
    with_holder: bool,
}

/// Takes the fields of features that are off out of an object, but those that `old` uses already.
pub fn drop_disabled(object: &mut Value, old: Option<&Value>, api_version: &str, kind: &str) {
    for feature in TABLE.get(format!("{api_version}/{kind}").as_str()).into_iter().flatten() {
        let in_use = |way: &Way| old.is_some_and(|old| is_there(old, &way.steps));
        if !feature.iter().any(in_use) {
            for way in feature {
                remove(object, &way.steps, way.with_holder);
            }
        }
    }
}

fn is_there(value: &Value, way: &[Step]) -> bool {
    match (way.split_first(), value) {
        (None, value) => !value.is_null(),
        (Some((Step::Member(name), rest)), Value::Object(members)) => members.get(*name).is_some_and(|member| is_there(member, rest)),
        (Some((Step::Elements, rest)), Value::Array(elements)) => elements.iter().any(|element| is_there(element, rest)),
        (Some((Step::Values, rest)), Value::Object(members)) => members.values().any(|member| is_there(member, rest)),
        _ => false,
    }
}

/// Takes the field away; whether something was.
fn remove(value: &mut Value, way: &[Step], with_holder: bool) -> bool {
    match (way, value) {
        ([Step::Member(name)], Value::Object(members)) => members.remove(*name).is_some(),
        ([Step::Member(name), rest @ ..], Value::Object(members)) => {
            let Some(member) = members.get_mut(*name) else { return false };
            let removed = remove(member, rest, with_holder);
            let is_empty = member.as_object().is_some_and(serde_json::Map::is_empty);
            if removed && with_holder && rest.len() == 1 && is_empty {
                members.remove(*name);
            }
            removed
        }
        ([Step::Elements, rest @ ..], Value::Array(elements)) => {
            elements.iter_mut().fold(false, |removed, element| remove(element, rest, with_holder) | removed)
        }
        ([Step::Values, rest @ ..], Value::Object(members)) => {
            members.values_mut().fold(false, |removed, member| remove(member, rest, with_holder) | removed)
        }
        _ => false,
    }
}

fn read(text: &'static str) -> HashMap<&'static str, Vec<Vec<Way>>> {
    let mut table: HashMap<&'static str, Vec<Vec<Way>>> = HashMap::new();
    for feature in text.split("\n[").skip(1) {
        let mut of_kinds: HashMap<&'static str, Vec<Way>> = HashMap::new();
        for line in feature.lines().skip(1).filter(|line| !line.is_empty()) {
            let (kind, path) = line.split_once(' ').expect("a test reads every line");
            let with_holder = path.contains('?');
            let plain = |step| if let Step::Member(name) = step { Step::Member(name.trim_end_matches('?')) } else { step };
            let way = |prefix: &'static str| Way { steps: steps(prefix).into_iter().chain(steps(path)).map(plain).collect(), with_holder };
            match kind {
                "pod" => POD_SPECS.iter().chain([&CRON_JOB]).for_each(|(kind, spec)| of_kinds.entry(kind).or_default().push(way(spec))),
                kind => of_kinds.entry(kind).or_default().push(way("")),
            }
        }
        of_kinds.into_iter().for_each(|(kind, ways)| table.entry(kind).or_default().push(ways));
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::types::{Shape, TypeRef};

    fn dropped(mut object: Value, old: Option<&Value>, api_version: &str, kind: &str) -> Value {
        drop_disabled(&mut object, old, api_version, kind);
        object
    }

    #[test]
    fn fields_of_features_that_are_off_are_lost() {
        let lease = json!({"spec": {"strategy": "s", "holderIdentity": "h"}});
        assert_eq!(dropped(lease.clone(), None, "coordination.k8s.io/v1", "Lease"), json!({"spec": {"holderIdentity": "h"}}));
        assert_eq!(dropped(lease.clone(), Some(&lease), "coordination.k8s.io/v1", "Lease"), lease, "what is in use stays");
        let set = |more: Value| json!({"spec": {"template": {"spec": {"containers": [{"lifecycle": more}]}}}});
        assert_eq!(
            dropped(set(json!({"stopSignal": "SIGTERM"})), None, "apps/v1", "Deployment"),
            json!({"spec": {"template": {"spec": {"containers": [{}]}}}})
        );
        assert_eq!(
            dropped(set(json!({"stopSignal": "SIGTERM", "preStop": {}})), None, "apps/v1", "Deployment"),
            set(json!({"preStop": {}}))
        );
        assert_eq!(dropped(set(json!({})), None, "apps/v1", "Deployment"), set(json!({})), "nothing was taken from it");
    }

    #[test]
    fn one_field_in_use_keeps_those_of_its_feature() {
        let slice = |name: &str| json!({"spec": {"devices": [{"attributes": {"a": {name: [1]}}}]}});
        let kept = dropped(slice("ints"), Some(&slice("bools")), "resource.k8s.io/v1", "ResourceSlice");
        assert_eq!(kept, slice("ints"));
        assert_eq!(
            dropped(slice("ints"), None, "resource.k8s.io/v1", "ResourceSlice"),
            json!({"spec": {"devices": [{"attributes": {"a": {}}}]}})
        );
    }

    /// Every way leads to a field of its kind.
    #[test]
    fn every_field_exists() {
        for (kind, features) in TABLE.iter() {
            let (api_version, name) = kind.rsplit_once('/').expect("a version and a kind");
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            for way in features.iter().flatten() {
                let mut shape = Shape::Struct(TypeRef::of(group, version, name).expect("a built-in kind"));
                for step in &way.steps {
                    shape = match (shape, step) {
                        (Shape::Struct(it), Step::Member(name)) => it.field(name).unwrap_or_else(|| panic!("{kind} {name}")).shape.clone(),
                        (Shape::Array(of), Step::Elements) | (Shape::Map(of), Step::Values) => *of,
                        (shape, _) => panic!("{kind}: {shape:?}"),
                    };
                }
            }
        }
        assert!(TABLE.contains_key("batch/v1/CronJob") && TABLE.contains_key("v1/Node"));
    }
}
