//! PersistentVolumeClaimResize: only what a StorageClass lets grow may grow. PodResizeValidator: a Pod may ask for no more than its node has.

use serde_json::Value;

use super::{
    classes::STORAGE_CLASS,
    resources,
    write::{Cluster, Denial, Lookup, Verdict, Write},
};
use crate::{Operation, tree};
use go::{amount::Amount, quote::quoted};

pub(super) fn claim(write: &Write<'_>, claim: &Value, cluster: &dyn Cluster) -> Verdict {
    let Some(old) = write.old.filter(|_| write.operation == Operation::Update && write.is_of("", "persistentvolumeclaims")) else {
        return Ok(());
    };
    let size = |claim: &Value| resources::at(claim, &["spec", "resources", "requests"]).remove("storage").unwrap_or(Amount::ZERO);
    if size(claim) <= size(old) {
        return Ok(());
    }
    if tree::text(old, &["status", "phase"]) != "Bound" {
        return Err("Only bound persistent volume claims can be expanded".into());
    }
    let (class, old_class) = (class_of(claim), class_of(old));
    let found = Some(class).filter(|class| !class.is_empty() && *class == old_class);
    let found = found.and_then(|class| cluster.find(Lookup::StorageClass, "", class));
    if found.is_some_and(|class| class["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    Err("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize".into())
}

fn class_of(claim: &Value) -> &str {
    let annotated = tree::at(claim, &["metadata", "annotations", STORAGE_CLASS]).and_then(Value::as_str);
    annotated.unwrap_or_else(|| tree::text(claim, &["spec", "storageClassName"]))
}

pub(super) fn pod(write: &Write<'_>, pod: &Value, cluster: &dyn Cluster) -> Verdict {
    let is_resize = (write.operation, write.group, write.resource, write.subresource) == (Operation::Update, "", "pods", "resize");
    let Some(old) = write.old.filter(|_| is_resize) else { return Ok(()) };
    let name = tree::text(pod, &["spec", "nodeName"]);
    let generation = |pod: &Value| tree::at(pod, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
    if name.is_empty() || generation(pod) == generation(old) {
        return Ok(());
    }
    let node = cluster.find(Lookup::Node, "", name).ok_or_else(|| format!("node {} not found", quoted(name)))?;
    if let Some(system) = tree::at(&node, &["metadata", "labels", "kubernetes.io/os"]).and_then(Value::as_str).filter(|os| *os != "linux") {
        let why = format!("pod resize is only supported on linux nodes, node {} is {}", quoted(name), quoted(system));
        return Err(Denial::with_cause(why, "UnsupportedPlatform"));
    }
    fits(pod, &node)
}

/// Whether a node has what a Pod asks for.
fn fits(pod: &Value, node: &Value) -> Verdict {
    let mut asked = resources::of_pod(pod, "requests", resources::is_of_pods);
    resources::add(&mut asked, &resources::at(pod, &["spec", "overhead"]));
    let allocatable = resources::at(node, &["status", "allocatable"]);
    let missing = |name: &str, number: fn(&Amount) -> i64| {
        let (asked, there) = (asked.get(name).unwrap_or(&Amount::ZERO), allocatable.get(name).unwrap_or(&Amount::ZERO));
        (asked > there).then(|| format!("{name}, requested: {}, allocatable: {}", number(asked), number(there)))
    };
    let missing: Vec<String> = [missing("cpu", Amount::milli_value), missing("memory", Amount::value)].into_iter().flatten().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!("node didn't have enough allocatable resources: {}", missing.join("; "));
    Err(Denial::with_cause(why, "NodeCapacity"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::{
        Plugin,
        testing::{Objects, admitted, update},
    };

    fn a_claim(size: &str, class: Option<&str>, phase: &str) -> Value {
        let mut claim = json!({"spec": {"resources": {"requests": {"storage": size}}}, "status": {"phase": phase}});
        if let Some(class) = class {
            claim["spec"]["storageClassName"] = class.into();
        }
        claim
    }

    /// The cases of `TestPVCResizeAdmission`.
    #[test]
    fn a_claim_grows_where_its_class_lets_it() {
        let gold = json!({"metadata": {"name": "gold"}, "allowVolumeExpansion": true});
        let silver = json!({"metadata": {"name": "silver"}, "allowVolumeExpansion": false});
        let cluster = Objects::of(Lookup::StorageClass, &[gold, silver]);
        let refused = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        for (class, new_class, size, phase, want) in [
            (Some("gold"), Some("gold"), "2Gi", "Bound", None),
            (Some("gold"), Some("gold"), "2Gi", "Pending", Some("Only bound persistent volume claims can be expanded")),
            (Some("silver"), Some("silver"), "2Gi", "Bound", Some(refused)),
            (Some("gone"), Some("gone"), "2Gi", "Bound", Some(refused)),
            (None, None, "2Gi", "Bound", Some(refused)),
            (Some("silver"), Some("gold"), "2Gi", "Bound", Some(refused)),
            (None, None, "1024Mi", "Bound", None),
            (None, None, "1Mi", "Bound", None),
        ] {
            let (old, new) = (a_claim("1Gi", class, phase), a_claim(size, new_class, phase));
            let made = admitted(Plugin::PersistentVolumeClaimResize, &update("persistentvolumeclaims", &old), &new, &cluster);
            assert_eq!(made.err().as_deref(), want, "{class:?} {size} {phase}");
        }
        let (old, new) = (a_claim("1Gi", None, "Bound"), a_claim("2Gi", None, "Bound"));
        let status = Write { subresource: "status", ..update("persistentvolumeclaims", &old) };
        assert_eq!(admitted(Plugin::PersistentVolumeClaimResize, &status, &new, &cluster), Ok(new));
    }

    fn a_pod(generation: i64, node: &str, cpu: &str, memory: &str) -> Value {
        let resources = json!({"requests": {"cpu": cpu, "memory": memory}});
        json!({"metadata": {"generation": generation}, "spec": {"nodeName": node, "overhead": {"cpu": "100m"}, "containers": [{"resources": resources}]}})
    }

    /// The cases of `TestPodResize`.
    #[test]
    fn a_pod_asks_for_no_more_than_its_node_has() {
        let node = |name: &str, os: &str| json!({"metadata": {"name": name, "labels": {"kubernetes.io/os": os}}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}});
        let bare = json!({"metadata": {"name": "bare"}, "status": {}});
        let cluster = Objects::of(Lookup::Node, &[node("linux", "linux"), node("windows", "windows"), bare]);
        let few = "node didn't have enough allocatable resources: ";
        for (new, want) in [
            (a_pod(2, "linux", "1900m", "1Gi"), None),
            (a_pod(1, "linux", "100", "1Gi"), None),
            (a_pod(2, "", "100", "1Gi"), None),
            (a_pod(2, "gone", "1", "1Gi"), Some(r#"node "gone" not found"#.to_owned())),
            (
                a_pod(2, "windows", "1", "1Gi"),
                Some(r#"pod resize is only supported on linux nodes, node "windows" is "windows""#.to_owned()),
            ),
            (a_pod(2, "linux", "2", "1Gi"), Some(format!("{few}cpu, requested: 2100, allocatable: 2000"))),
            (a_pod(2, "linux", "1", "2Gi"), Some(format!("{few}memory, requested: 2147483648, allocatable: 1073741824"))),
            (a_pod(2, "bare", "1", "1"), Some(format!("{few}cpu, requested: 1100, allocatable: 0; memory, requested: 1, allocatable: 0"))),
        ] {
            let old = a_pod(1, "linux", "1", "1");
            let write = Write { subresource: "resize", ..update("pods", &old) };
            assert_eq!(admitted(Plugin::PodResizeValidator, &write, &new, &cluster).err(), want, "{new}");
            assert_eq!(admitted(Plugin::PodResizeValidator, &update("pods", &old), &new, &cluster), Ok(new.clone()));
        }
    }
}
