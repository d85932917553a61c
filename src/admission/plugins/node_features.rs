//! NodeDeclaredFeatureValidator: a change of a Pod that is bound may only need what its node has declared.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    resources,
    write::{Cluster, Lookup, Verdict, Write},
};
use crate::{Operation, tree};
use go::{amount::Amount, quote::quoted};

/// Whether the change from one Pod to another needs a feature.
type Needs = fn(&Value, &Value) -> bool;

/// Features that a change of a Pod may need, by name.
const FEATURES: [(&str, Needs); 2] =
    [("InPlacePodLevelResourcesVerticalScaling", resizes_pod), ("InPlacePodVerticalScalingInitContainers", resizes_init_container)];

pub(super) fn validate(write: &Write<'_>, pod: &Value, cluster: &dyn Cluster) -> Verdict {
    let is_judged = write.operation == Operation::Update && (write.group, write.resource) == ("", "pods");
    let Some(old) = write.old.filter(|_| is_judged && matches!(write.subresource, "" | "resize")) else { return Ok(()) };
    let name = tree::text(pod, &["spec", "nodeName"]);
    if name.is_empty() {
        return Ok(());
    }
    let needed: Vec<&str> = FEATURES.iter().filter(|(_, needs)| needs(old, pod)).map(|(name, _)| *name).collect();
    if needed.is_empty() {
        return Ok(());
    }
    let node = cluster.find(Lookup::Node, "", name).ok_or_else(|| format!("node {} not found", quoted(name)))?;
    let declares = |feature: &&str| tree::items(&node, &["status", "declaredFeatures"]).any(|declared| declared == *feature);
    let missing: Vec<&str> = needed.into_iter().filter(|feature| !declares(feature)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("pod update requires features {} which are not available on node {}", missing.join(", "), quoted(name)).into())
}

/// Whether the resources of the Pod as a whole change.
fn resizes_pod(old: &Value, pod: &Value) -> bool {
    let asked = |pod: &Value| tree::at(pod, &["spec", "resources"]).filter(|resources| !resources.is_null()).map(amounts);
    asked(old) != asked(pod)
}

/// Whether the resources of a container change that ends before the others begin.
fn resizes_init_container(old: &Value, pod: &Value) -> bool {
    let is_sidecar = |container: &Value| tree::text(container, &["restartPolicy"]) == "Always";
    let before = tree::items(old, &["spec", "initContainers"]);
    before.zip(tree::items(pod, &["spec", "initContainers"])).any(|(before, now)| {
        let asked = |container: &Value| amounts(tree::at(container, &["resources"]).unwrap_or(&Value::Null));
        !is_sidecar(before) && asked(before) != asked(now)
    })
}

type Amounts = BTreeMap<String, Amount>;

/// What is asked for, by value: `1` and `1000m` are the same.
fn amounts(of: &Value) -> (Amounts, Amounts, Vec<Value>) {
    (resources::at(of, &["limits"]), resources::at(of, &["requests"]), tree::items(of, &["claims"]).cloned().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::{
        Plugin,
        testing::{Objects, admitted, update},
    };

    fn a_pod(node: &str, cpu: &str, init: &str, restarts: Value) -> Value {
        let resources = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let init = json!([{"name": "i", "restartPolicy": restarts, "resources": resources(init)}]);
        json!({"spec": {"nodeName": node, "resources": resources(cpu), "initContainers": init, "containers": [{"name": "c"}]}})
    }

    /// The cases of `TestAdmission`, with the features that there are.
    #[test]
    fn a_node_has_declared_what_a_change_needs() {
        let node = |name: &str, features: Value| json!({"metadata": {"name": name}, "status": {"declaredFeatures": features}});
        let cluster = Objects::of(
            Lookup::Node,
            &[
                node("none", Value::Null),
                node("pods", json!(["InPlacePodLevelResourcesVerticalScaling"])),
                node("inits", json!(["Other", "InPlacePodVerticalScalingInitContainers"])),
            ],
        );
        let why = |features: &str, node: &str| {
            Some(format!("pod update requires features {features} which are not available on node \"{node}\""))
        };
        let (of_pod, of_init) = ("InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers");
        let both = format!("{of_pod}, {of_init}");
        for (node, cpu, init, restarts, want) in [
            ("none", "2", "1", Value::Null, why(of_pod, "none")),
            ("none", "1", "2", Value::Null, why(of_init, "none")),
            ("none", "2", "2", Value::Null, why(&both, "none")),
            ("none", "1000m", "1000m", Value::Null, None),
            ("none", "1", "2", "Always".into(), None),
            ("pods", "2", "1", Value::Null, None),
            ("pods", "2", "2", Value::Null, why(of_init, "pods")),
            ("inits", "2", "2", Value::Null, why(of_pod, "inits")),
            ("inits", "1", "2", Value::Null, None),
            ("gone", "2", "1", Value::Null, Some("node \"gone\" not found".to_owned())),
            ("gone", "1", "1", Value::Null, None),
            ("", "2", "2", Value::Null, None),
        ] {
            let (old, new) = (a_pod(node, "1", "1", restarts.clone()), a_pod(node, cpu, init, restarts));
            for subresource in ["", "resize", "status"] {
                let write = Write { subresource, ..update("pods", &old) };
                let made = admitted(Plugin::NodeDeclaredFeatureValidator, &write, &new, &cluster);
                let want = want.clone().filter(|_| subresource != "status");
                assert_eq!(made.err(), want, "{node} {cpu} {init} {subresource}");
            }
        }
    }
}
