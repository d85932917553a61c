//! PodTopologyLabels: a Pod has the zone and the region of its node as labels, from when it is bound.

use serde_json::Value;

use super::write::{Cluster, Lookup, Write};
use crate::{Operation, tree};

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

pub(super) fn mutate(write: &Write<'_>, object: &mut Value, cluster: &dyn Cluster) {
    if write.operation != Operation::Create || (write.group, write.resource) != ("", "pods") {
        return;
    }
    let node = match write.subresource {
        "" => tree::text(object, &["spec", "nodeName"]),
        "binding" if tree::text(object, &["target", "kind"]) == "Node" => tree::text(object, &["target", "name"]),
        _ => return,
    };
    // A node that is not there has no labels.
    let Some(node) = Some(node).filter(|name| !name.is_empty()).and_then(|name| cluster.find(Lookup::Node, "", name)) else { return };
    for label in LABELS {
        if let Some(value) = tree::at(&node, &["metadata", "labels", label]) {
            tree::inner(tree::member(object, "metadata"), "labels").insert(label.to_owned(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::{
        Plugin,
        testing::{Objects, admitted, creation, pod},
    };

    /// The cases of `TestPodTopology`.
    #[test]
    fn the_labels_of_the_node_are_copied() {
        let [zone, region] = LABELS;
        let node = |labels: Value| json!({"metadata": {"name": "n", "labels": labels}});
        let bound = |kind: &str| json!({"metadata": {"name": "p"}, "target": {"kind": kind, "name": "n"}});
        let binding = Write { subresource: "binding", ..creation("pods") };
        let running = pod(&json!({"nodeName": "n"}));
        for (labels, write, sent, want) in [
            (json!({zone: "z", region: "r", "x": "y"}), binding, bound("Node"), json!({zone: "z", region: "r"})),
            (json!({zone: "z"}), binding, bound("Node"), json!({zone: "z"})),
            (json!({"x": "y"}), binding, bound("Node"), Value::Null),
            (json!({zone: "z"}), binding, bound("Other"), Value::Null),
            (json!({zone: "z", region: "r"}), creation("pods"), running, json!({zone: "z", region: "r"})),
            (json!({zone: "z"}), creation("pods"), pod(&json!({})), Value::Null),
            (json!({zone: "z"}), creation("pods"), pod(&json!({"nodeName": "gone"})), Value::Null),
        ] {
            let cluster = Objects::of(Lookup::Node, &[node(labels)]);
            let made = admitted(Plugin::PodTopologyLabels, &write, &sent, &cluster).expect("nothing is refused");
            assert_eq!(made["metadata"]["labels"], want, "{sent}");
        }
        let cluster = Objects::of(Lookup::Node, &[node(json!({zone: "z"}))]);
        let sent = json!({"metadata": {"labels": {zone: "mine", "x": "y"}}, "spec": {"nodeName": "n"}});
        let made = admitted(Plugin::PodTopologyLabels, &creation("pods"), &sent, &cluster).expect("nothing is refused");
        assert_eq!(made["metadata"]["labels"], json!({zone: "z", "x": "y"}), "those of the node count");
    }
}
