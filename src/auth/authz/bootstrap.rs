//! The default roles and bindings of a cluster, and how existing ones are brought up to date (spec api-surface §13.3).

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::rbac::{Binding, Kind, Role, missing};

/// Recorded from kube-apiserver by `tests/data/authz/record.py`: a line for each object, cluster roles first.
const OBJECTS: &str = include_str!("bootstrap/objects.jsonl");

/// With the value `false` an object is left as it is.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// An object that should be there.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, which must be there first; empty for kinds of the cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The object.
    pub value: Value,
}

/// What is to be done so that an object is as it should be.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing.
    Keep,
    /// Create the object that should be there.
    Create,
    /// Replace the one that is there by this.
    Update(Value),
    /// Delete the one that is there and create the other: a binding's role cannot change.
    Recreate,
}

/// All objects, in the order in which kube-apiserver makes them.
#[must_use]
pub fn objects() -> Vec<Object> {
    OBJECTS.lines().map(object).collect()
}

fn object(line: &str) -> Object {
    let value: Value = serde_json::from_str(line).expect("a test reads all lines");
    let kind = Kind::named(text(&value, "kind")).expect("a test reads all lines");
    let metadata = &value["metadata"];
    let (namespace, name) = (text(metadata, "namespace").to_owned(), text(metadata, "name").to_owned());
    Object { kind, namespace, name, value }
}

/// What to do about an object, `stored` being the one that is there now. Labels, annotations, rules, selectors and subjects that are missing are added, never
/// taken away; only aggregation ends where none is wanted. What cannot be understood is left as it is.
#[must_use]
pub fn reconcile(wanted: &Object, stored: Option<&Value>) -> Step {
    let Some(stored) = stored else { return Step::Create };
    if stored["metadata"]["annotations"][AUTOUPDATE] == "false" {
        return Step::Keep;
    }
    let mut new = stored.clone();
    for name in ["annotations", "labels"] {
        add_texts(&mut new, &wanted.value, name);
    }
    let understood = match wanted.kind {
        Kind::ClusterRole | Kind::Role => add_rules(&mut new, &wanted.value),
        Kind::ClusterRoleBinding | Kind::RoleBinding => match has_other_role(stored, &wanted.value) {
            Some(true) => return Step::Recreate,
            Some(false) => add_subjects(&mut new, &wanted.value),
            None => None,
        },
    };
    if understood.is_none() || new == *stored { Step::Keep } else { Step::Update(new) }
}

/// Adds the members of `metadata.NAME` that are not there.
fn add_texts(new: &mut Value, wanted: &Value, name: &str) {
    let wanted = wanted["metadata"][name].as_object().into_iter().flatten();
    let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let mut texts = metadata.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, value) in wanted {
        texts.entry(key.clone()).or_insert_with(|| value.clone());
    }
    if !texts.is_empty() {
        metadata.insert(name.to_owned(), texts.into());
    }
}

/// Adds the parts of rules, and the selectors, that are not there; `None` if one of both is no role.
fn add_rules(new: &mut Value, wanted: &Value) -> Option<()> {
    let (is, should) = (Role::deserialize(&*new).ok()?, Role::deserialize(wanted).ok()?);
    let members = new.as_object_mut()?;
    // What is wanted is short, so that this takes no time.
    for rule in missing(is.rules.iter(), &should.rules, usize::MAX)? {
        list(members, "rules")?.push(serde_json::to_value(rule).ok()?);
    }
    let Some(should) = should.aggregation_rule else {
        if is.aggregation_rule.is_some() {
            members.remove("aggregationRule");
        }
        return Some(());
    };
    let there = is.aggregation_rule.unwrap_or_default().cluster_role_selectors;
    let written = wanted["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    for (selector, written) in should.cluster_role_selectors.iter().zip(written) {
        if !there.contains(selector) {
            let aggregation = members.entry("aggregationRule").or_insert(Value::Null);
            if aggregation.is_null() {
                *aggregation = json!({});
            }
            list(aggregation.as_object_mut()?, "clusterRoleSelectors")?.push(written.clone());
        }
    }
    Some(())
}

/// The list of this name; made if there is none.
fn list<'a>(members: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Vec<Value>> {
    let value = members.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = json!([]);
    }
    value.as_array_mut()
}

fn has_other_role(stored: &Value, wanted: &Value) -> Option<bool> {
    let role = |binding: &Value| Binding::deserialize(binding).ok().map(|binding| binding.role_ref);
    Some(role(stored)? != role(wanted)?)
}

fn add_subjects(new: &mut Value, wanted: &Value) -> Option<()> {
    let identity = |subject: &Value| ["kind", "apiGroup", "name", "namespace"].map(|member| text(subject, member).to_owned());
    let there: Vec<_> = new["subjects"].as_array().into_iter().flatten().map(identity).collect();
    for subject in wanted["subjects"].as_array()?.iter().filter(|subject| !there.contains(&identity(subject))) {
        list(new.as_object_mut()?, "subjects")?.push(subject.clone());
    }
    Some(())
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objects were changed or deleted under a kube-apiserver that was then started again.
    #[test]
    fn repairs_are_those_of_kube_apiserver() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/authz/repairs.jsonl");
        let cases = std::fs::read_to_string(path).expect("a file of the tree");
        let all = objects();
        let mut steps = [0; 4];
        for case in cases.lines() {
            let case: Value = serde_json::from_str(case).expect("a case");
            let is_it = |object: &&Object| {
                case["kind"] == object.value["kind"] && case["name"] == object.name && case["namespace"] == object.namespace
            };
            let wanted = all.iter().find(is_it).expect("a bootstrap object");
            let before = Some(&case["before"]).filter(|before| !before.is_null());
            let (step, ours) = match reconcile(wanted, before) {
                Step::Keep => (0, case["before"].clone()),
                Step::Create => (1, wanted.value.clone()),
                Step::Update(new) => (2, new),
                Step::Recreate => (3, wanted.value.clone()),
            };
            steps[step] += 1;
            assert_eq!(ours, case["after"], "{case}");
            assert_eq!(reconcile(wanted, Some(&ours)), Step::Keep, "it is repaired, or protected");
        }
        assert!(steps.iter().all(|count| *count > 0), "{steps:?}");
    }

    #[test]
    fn what_is_there_is_kept() {
        let all = objects();
        assert_eq!(all.len(), 133);
        for object in &all {
            assert_eq!(reconcile(object, Some(&object.value)), Step::Keep, "{}", object.name);
            assert_eq!(reconcile(object, None), Step::Create);
            assert_eq!(object.namespace.is_empty(), matches!(object.kind, Kind::ClusterRole | Kind::ClusterRoleBinding));
        }
    }

    #[test]
    fn what_is_no_role_is_kept() {
        let object = &objects()[1];
        for broken in [json!(null), json!([]), json!({"metadata": {}, "rules": 7}), json!({"metadata": 1, "aggregationRule": "x"})] {
            assert_eq!(reconcile(object, Some(&broken)), Step::Keep, "{broken}");
        }
    }
}
