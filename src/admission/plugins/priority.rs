//! Priority: a Pod has the priority of its PriorityClass, and there is at most one class for Pods that name none.

use std::sync::Arc;

use serde_json::Value;

use super::write::{Cluster, Denial, Lookup, Verdict, Write};
use crate::{Operation, tree};

const CLASSES: (&str, &str) = ("scheduling.k8s.io", "priorityclasses");

/// How a Pod treats others when no class is the default one.
const PREEMPT: &str = "PreemptLowerPriority";

/// The class of a Pod.
struct Class {
    name: String,
    priority: i64,
    preemption: Option<String>,
}

impl Class {
    fn of(class: &Value) -> Self {
        let preemption = tree::at(class, &["preemptionPolicy"]).and_then(Value::as_str);
        Self {
            name: tree::text(class, &["metadata", "name"]).to_owned(),
            priority: value(class),
            preemption: preemption.map(str::to_owned),
        }
    }
}

pub(super) fn mutate(write: &Write<'_>, pod: &mut Value, cluster: &dyn Cluster) -> Verdict {
    if !write.is_of("", "pods") {
        return Ok(());
    }
    match write.operation {
        Operation::Create => set(pod, cluster),
        Operation::Update => {
            keep(write.old.unwrap_or(&Value::Null), pod);
            Ok(())
        }
        Operation::Delete => Ok(()),
    }
}

/// Refuses a second class for Pods that name none.
pub(super) fn validate(write: &Write<'_>, class: &Value, cluster: &dyn Cluster) -> Verdict {
    if !write.is_of(CLASSES.0, CLASSES.1) || !is_default(class) {
        return Ok(());
    }
    let classes = cluster.list(Lookup::PriorityClass, "");
    let Some(known) = default_of(&classes) else { return Ok(()) };
    let name = tree::text(known, &["metadata", "name"]);
    let is_same = write.operation == Operation::Update && name == tree::text(class, &["metadata", "name"]);
    if is_same { Ok(()) } else { Err(format!("PriorityClass {name} is already marked as default. Only one default can exist").into()) }
}

fn value(class: &Value) -> i64 {
    class["value"].as_i64().unwrap_or(0)
}

fn is_default(class: &Value) -> bool {
    class["globalDefault"] == true
}

/// The default class; of several the one of the lowest value.
fn default_of(classes: &[Value]) -> Option<&Value> {
    classes.iter().filter(|class| is_default(class)).min_by_key(|class| value(class))
}

fn class_of(pod: &Value, cluster: &dyn Cluster) -> Result<Class, Denial> {
    let name = tree::text(pod, &["spec", "priorityClassName"]);
    if name.is_empty() {
        let classes: Arc<Vec<Value>> = cluster.list(Lookup::PriorityClass, "");
        let default = default_of(&classes).map(Class::of);
        return Ok(default.unwrap_or_else(|| Class { name: String::new(), priority: 0, preemption: Some(PREEMPT.to_owned()) }));
    }
    match cluster.find(Lookup::PriorityClass, "", name) {
        Some(class) => Ok(Class::of(&class)),
        None => Err(format!("no PriorityClass with name {name} was found").into()),
    }
}

fn set(pod: &mut Value, cluster: &dyn Cluster) -> Verdict {
    let Class { name, priority, preemption } = class_of(pod, cluster)?;
    let spec = tree::member(pod, "spec");
    if let Some(sent) = spec.get("priority").and_then(Value::as_i64).filter(|sent| *sent != priority) {
        let why = "must not be provided in pod spec; priority admission controller computed";
        return Err(format!("the integer value of priority ({sent}) {why} {priority} from the given PriorityClass name").into());
    }
    if !name.is_empty() {
        spec.insert("priorityClassName".to_owned(), name.into());
    }
    spec.insert("priority".to_owned(), priority.into());
    let Some(preemption) = preemption else { return Ok(()) };
    if let Some(sent) = spec.get("preemptionPolicy").and_then(Value::as_str).filter(|sent| *sent != preemption) {
        let why = "must not be provided in pod spec; priority admission controller computed";
        return Err(format!("the string value of PreemptionPolicy ({sent}) {why} {preemption} from the given PriorityClass name").into());
    }
    spec.insert("preemptionPolicy".to_owned(), preemption.into());
    Ok(())
}

/// An update that does not say them keeps what the creation has set.
fn keep(old: &Value, pod: &mut Value) {
    for name in ["priority", "preemptionPolicy"] {
        if let Some(known) = tree::at(old, &["spec", name])
            && tree::at(pod, &["spec", name]).is_none()
        {
            tree::member(pod, "spec").insert(name.to_owned(), known.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::{
        Plugin,
        testing::{Objects, admitted, creation, pod, update},
    };

    fn class(name: &str, value: i64, is_default: bool, preemption: Option<&str>) -> Value {
        let mut class = json!({"metadata": {"name": name}, "value": value, "globalDefault": is_default});
        if let Some(preemption) = preemption {
            class["preemptionPolicy"] = preemption.into();
        }
        class
    }

    /// The cases of `TestPodAdmission`.
    #[test]
    fn a_pod_has_the_priority_of_its_class() {
        let default = class("default1", 1_000, true, None);
        let other = class("nondefault1", 2_000, false, None);
        let never = class("nopreemption", 3_000, false, Some("Never"));
        let system = class("system-cluster-critical", 2_000_000_000, true, None);
        let all = &[default.clone(), other.clone(), never][..];
        for (classes, spec, want) in [
            (all, json!({"priorityClassName": "default1"}), Ok(json!({"priorityClassName": "default1", "priority": 1_000}))),
            (all, json!({"priorityClassName": "nondefault1"}), Ok(json!({"priorityClassName": "nondefault1", "priority": 2_000}))),
            (all, json!({}), Ok(json!({"priorityClassName": "default1", "priority": 1_000}))),
            (&[], json!({}), Ok(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}))),
            (&[other], json!({"priority": 0}), Ok(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}))),
            (&[default.clone(), system], json!({}), Ok(json!({"priorityClassName": "default1", "priority": 1_000}))),
            (
                all,
                json!({"priorityClassName": "nopreemption"}),
                Ok(json!({"priorityClassName": "nopreemption", "priority": 3_000, "preemptionPolicy": "Never"})),
            ),
            (
                all,
                json!({"priorityClassName": "default1", "preemptionPolicy": "Never"}),
                Ok(json!({"priorityClassName": "default1", "priority": 1_000, "preemptionPolicy": "Never"})),
            ),
            (all, json!({"priorityClassName": "missing"}), Err("no PriorityClass with name missing was found")),
            (
                all,
                json!({"priorityClassName": "default1", "priority": 5}),
                Err(
                    "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 1000 from the given \
                     PriorityClass name",
                ),
            ),
            (
                all,
                json!({"priorityClassName": "nopreemption", "preemptionPolicy": "PreemptLowerPriority"}),
                Err(
                    "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller \
                     computed Never from the given PriorityClass name",
                ),
            ),
        ] {
            let cluster = Objects::of(Lookup::PriorityClass, classes);
            let made = admitted(Plugin::Priority, &creation("pods"), &pod(&spec), &cluster).map(|pod| pod["spec"].clone());
            assert_eq!(made, want.map_err(str::to_owned), "{spec}");
        }
    }

    #[test]
    fn an_update_keeps_the_priority() {
        let old = pod(&json!({"priority": 7, "preemptionPolicy": "Never"}));
        let made = admitted(Plugin::Priority, &update("pods", &old), &pod(&json!({})), &Objects::default());
        assert_eq!(made, Ok(old.clone()));
        let sent = pod(&json!({"priority": 8, "preemptionPolicy": "Never"}));
        assert_eq!(admitted(Plugin::Priority, &update("pods", &old), &sent, &Objects::default()), Ok(sent), "validation refuses this");
        let status = Write { subresource: "status", ..update("pods", &old) };
        assert_eq!(admitted(Plugin::Priority, &status, &pod(&json!({})), &Objects::default()), Ok(pod(&json!({}))));
    }

    /// The cases of `TestPriorityClassAdmission` and `TestDefaultPriority`.
    #[test]
    fn there_is_one_default_class() {
        let (one, two) = (class("one", 1, true, None), class("two", 2, true, None));
        let of =
            |operation, old| Write { operation, group: CLASSES.0, resource: CLASSES.1, subresource: "", namespace: "", old, user: "user" };
        let refused = Err("PriorityClass one is already marked as default. Only one default can exist".to_owned());
        for (known, write, sent, want) in [
            (&[][..], of(Operation::Create, None), &one, Ok(one.clone())),
            (std::slice::from_ref(&one), of(Operation::Create, None), &two, refused.clone()),
            (std::slice::from_ref(&one), of(Operation::Create, None), &one, refused.clone()),
            (std::slice::from_ref(&one), of(Operation::Update, Some(&two)), &two, refused),
            (std::slice::from_ref(&one), of(Operation::Update, Some(&one)), &one, Ok(one.clone())),
            (std::slice::from_ref(&one), of(Operation::Create, None), &class("n", 3, false, None), Ok(class("n", 3, false, None))),
        ] {
            assert_eq!(admitted(Plugin::Priority, &write, sent, &Objects::of(Lookup::PriorityClass, known)), want, "{sent}");
        }
    }
}
