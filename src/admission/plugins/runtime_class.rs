//! RuntimeClass: a Pod gets the overhead of its class, and is scheduled where the class runs.

use std::sync::Arc;

use serde_json::Value;

use super::{
    resources,
    write::{Cluster, Denial, Lookup, Verdict, Write},
};
use crate::tree;
use go::quote::quoted;

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

pub(super) fn mutate(write: &Write<'_>, pod: &mut Value, cluster: &dyn Cluster) -> Verdict {
    let Some(class) = class_of(write, pod, cluster)? else { return Ok(()) };
    if let Some(overhead) = tree::at(&class, &["overhead"]) {
        let fixed = resources::at(overhead, &["podFixed"]);
        let sent = resources::at(pod, &["spec", "overhead"]);
        if !sent.is_empty() && sent != fixed {
            return Err(OTHER_OVERHEAD.into());
        }
        if let Some(fixed) = tree::at(overhead, &["podFixed"]) {
            tree::member(pod, "spec").insert("overhead".to_owned(), fixed.clone());
        }
    }
    match tree::at(&class, &["scheduling"]) {
        Some(scheduling) => schedule(pod, scheduling),
        None => Ok(()),
    }
}

pub(super) fn validate(write: &Write<'_>, pod: &Value, cluster: &dyn Cluster) -> Verdict {
    if !is_judged(write) {
        return Ok(());
    }
    let class = class_of(write, pod, cluster)?;
    match class.as_ref().and_then(|class| tree::at(class, &["overhead"])) {
        Some(overhead) if resources::at(overhead, &["podFixed"]) != resources::at(pod, &["spec", "overhead"]) => Err(OTHER_OVERHEAD.into()),
        None if tree::at(pod, &["spec", "overhead"]).is_some() => {
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".into())
        }
        _ => Ok(()),
    }
}

fn is_judged(write: &Write<'_>) -> bool {
    write.creates() && write.is_of("", "pods")
}

fn class_of(write: &Write<'_>, pod: &Value, cluster: &dyn Cluster) -> Result<Option<Arc<Value>>, Denial> {
    let Some(name) = tree::at(pod, &["spec", "runtimeClassName"]).and_then(Value::as_str).filter(|_| is_judged(write)) else {
        return Ok(None);
    };
    match cluster.find(Lookup::RuntimeClass, "", name) {
        Some(class) => Ok(Some(class)),
        None => Err(format!("pod rejected: RuntimeClass {} not found", quoted(name)).into()),
    }
}

/// Adds what the class says of nodes.
fn schedule(pod: &mut Value, scheduling: &Value) -> Verdict {
    let spec = tree::member(pod, "spec");
    for (key, wanted) in tree::at(scheduling, &["nodeSelector"]).and_then(Value::as_object).into_iter().flatten() {
        let selector = tree::inner(spec, "nodeSelector");
        match selector.get(key) {
            Some(sent) if sent != wanted => {
                let (sent, wanted) = (sent.as_str().unwrap_or_default(), wanted.as_str().unwrap_or_default());
                let class = format!("runtimeClass.scheduling.nodeSelector[{key}] = {wanted}");
                return Err(format!("conflict: {class}; pod.spec.nodeSelector[{key}] = {sent}").into());
            }
            _ => drop(selector.insert(key.clone(), wanted.clone())),
        }
    }
    let all = [&Value::Object(spec.clone()), scheduling].map(|of| tree::items(of, &["tolerations"]).cloned().collect::<Vec<_>>()).concat();
    let merged = merged(&all);
    if !merged.is_empty() {
        spec.insert("tolerations".to_owned(), merged.into());
    }
    Ok(())
}

/// Tolerations that are merged; beyond that all are kept, for each is compared with each.
const MERGED_MAX: usize = 1_024;

/// The tolerations without those that another one includes.
fn merged(all: &[Value]) -> Vec<Value> {
    if all.len() > MERGED_MAX {
        return all.to_vec();
    }
    let mut merged: Vec<Value> = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let is_redundant =
            merged.iter().any(|kept| includes(kept, one)) || all[i + 1..].iter().any(|later| later != one && includes(later, one));
        if !is_redundant {
            merged.push(one.clone());
        }
    }
    merged
}

/// Whether what is tolerated by `one` is tolerated by `wide`.
fn includes(wide: &Value, one: &Value) -> bool {
    if wide == one {
        return true;
    }
    let said = |name: &'static str| (tree::text(wide, &[name]), tree::text(one, &[name]));
    let (wide_operator, operator) = said("operator");
    let (wide_key, key) = said("key");
    if key != wide_key && !(wide_key.is_empty() && wide_operator == "Exists") {
        return false;
    }
    let (wide_effect, effect) = said("effect");
    if effect != wide_effect && !wide_effect.is_empty() {
        return false;
    }
    let seconds = |of: &Value| tree::at(of, &["tolerationSeconds"]).and_then(Value::as_i64);
    if wide_effect == "NoExecute"
        && let Some(most) = seconds(wide)
        && seconds(one).is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    let (wide_value, value) = said("value");
    match wide_operator {
        "Equal" | "" => operator == "Equal" && value == wide_value,
        "Exists" => true,
        _ => false,
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

    fn class(members: Value) -> Objects {
        let mut class = members;
        class["metadata"] = json!({"name": "bar"});
        Objects::of(Lookup::RuntimeClass, &[class])
    }

    /// The cases of `TestSetOverhead` and `TestValidateOverhead`.
    #[test]
    fn a_pod_has_the_overhead_of_its_class() {
        let overhead = json!({"cpu": "100m", "memory": "1"});
        let with = || class(json!({"overhead": {"podFixed": overhead}}));
        let without = || class(json!({}));
        for (cluster, sent, want) in [
            (with(), json!({"runtimeClassName": "bar"}), Ok(overhead.clone())),
            (with(), json!({"runtimeClassName": "bar", "overhead": overhead}), Ok(overhead.clone())),
            (with(), json!({"runtimeClassName": "bar", "overhead": {"cpu": "0.1", "memory": "1000m"}}), Ok(overhead.clone())),
            (with(), json!({"runtimeClassName": "bar", "overhead": {"cpu": "10"}}), Err(OTHER_OVERHEAD)),
            (without(), json!({"runtimeClassName": "bar"}), Ok(Value::Null)),
            (
                without(),
                json!({"runtimeClassName": "bar", "overhead": overhead}),
                Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
            ),
            (
                with(),
                json!({"overhead": overhead}),
                Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
            ),
            (with(), json!({"runtimeClassName": "gone"}), Err(r#"pod rejected: RuntimeClass "gone" not found"#)),
        ] {
            let made = admitted(Plugin::RuntimeClass, &creation("pods"), &pod(&sent), &cluster).map(|pod| pod["spec"]["overhead"].clone());
            assert_eq!(made, want.map_err(str::to_owned), "{sent}");
        }
        let sent = pod(&json!({"runtimeClassName": "gone"}));
        assert_eq!(admitted(Plugin::RuntimeClass, &update("pods", &sent), &sent, &without()), Ok(sent.clone()), "only new Pods are judged");
    }

    /// The cases of `TestSetScheduling`.
    #[test]
    fn a_pod_runs_where_its_class_does() {
        let toleration = json!({"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"});
        let other = json!({"key": "fizz", "operator": "Equal", "value": "buzz", "effect": "NoSchedule"});
        for (scheduling, sent, want) in [
            (json!({}), json!({}), Ok((Value::Null, Value::Null))),
            (
                json!({"nodeSelector": {"foo": "bar"}, "tolerations": [toleration]}),
                json!({}),
                Ok((json!({"foo": "bar"}), json!([toleration]))),
            ),
            (json!({"nodeSelector": {"foo": "bar"}}), json!({"nodeSelector": {"foo": "bar"}}), Ok((json!({"foo": "bar"}), Value::Null))),
            (
                json!({"nodeSelector": {"foo": "bar"}, "tolerations": [toleration]}),
                json!({"nodeSelector": {"fizz": "buzz"}, "tolerations": [other]}),
                Ok((json!({"fizz": "buzz", "foo": "bar"}), json!([other, toleration]))),
            ),
            (
                json!({"nodeSelector": {"foo": "bar"}}),
                json!({"nodeSelector": {"foo": "conflict"}}),
                Err("conflict: runtimeClass.scheduling.nodeSelector[foo] = bar; pod.spec.nodeSelector[foo] = conflict"),
            ),
            (json!({"tolerations": [toleration]}), json!({"tolerations": [toleration]}), Ok((Value::Null, json!([toleration])))),
        ] {
            let mut sent = sent;
            sent["runtimeClassName"] = "bar".into();
            let cluster = class(json!({"scheduling": scheduling}));
            let made = admitted(Plugin::RuntimeClass, &creation("pods"), &pod(&sent), &cluster);
            let made = made.map(|pod| (pod["spec"]["nodeSelector"].clone(), pod["spec"]["tolerations"].clone()));
            assert_eq!(made, want.map_err(str::to_owned), "{sent}");
        }
    }

    /// Cases of `TestMergeTolerations`.
    #[test]
    fn a_toleration_that_another_one_includes_goes() {
        let all = json!({"operator": "Exists"});
        let ever = json!({"key": "foo", "operator": "Exists", "effect": "NoExecute"});
        let long = json!({"key": "foo", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20});
        let short = json!({"key": "foo", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10});
        let value = json!({"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoExecute", "tolerationSeconds": 10});
        for (sent, want) in [
            (vec![&short, &long], vec![&long]),
            (vec![&ever, &long], vec![&ever]),
            (vec![&long, &ever], vec![&ever]),
            (vec![&value, &long], vec![&long]),
            (vec![&value, &value], vec![&value]),
            (vec![&value, &all, &short], vec![&all]),
        ] {
            let sent: Vec<Value> = sent.into_iter().cloned().collect();
            assert_eq!(merged(&sent).iter().collect::<Vec<_>>(), want, "{sent:?}");
        }
    }
}
