//! `pods` and their subresources: a kubelet makes mirror pods of its own, deletes and evicts what runs on it, and reports its status.

use serde_json::Value;

use crate::{Attributes, Cluster, Kind, Operation, Reason, Verdict, forbid, references, tree};
use go::quote::quoted;

/// The annotation of a pod that mirrors one which a kubelet has from elsewhere.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub(crate) fn admit(node: &str, write: &Attributes<'_>, cluster: &dyn Cluster) -> Verdict {
    match write.subresource {
        "" => whole(node, write, cluster),
        "status" => status(node, write),
        "eviction" => eviction(node, write, cluster),
        other => forbid(format!("unexpected pod subresource {}, only 'status' and 'eviction' are allowed", quoted(other))),
    }
}

fn whole(node: &str, write: &Attributes<'_>, cluster: &dyn Cluster) -> Verdict {
    match (write.operation, write.object) {
        (Operation::Create, Some(pod)) => created(node, pod, cluster),
        (Operation::Delete, _) => {
            // A collection names no pod, and finds none.
            let missing = || Reason::NotFound(Kind::Pod, write.name.to_owned());
            let pod = write.old.filter(|_| !write.name.is_empty()).ok_or_else(missing)?;
            if node_of(pod) != node {
                return forbid(format!("node {} can only delete pods with spec.nodeName set to itself", quoted(node)));
            }
            Ok(())
        }
        (operation, _) => forbid(format!(
            "unexpected operation {}, node {} can only create and delete mirror pods",
            quoted(operation.name()),
            quoted(node)
        )),
    }
}

fn created(node: &str, pod: &Value, cluster: &dyn Cluster) -> Verdict {
    let name = quoted(node);
    if tree::at(pod, &["metadata", "annotations", MIRROR]).is_none() {
        return forbid(format!("pod does not have {} annotation, node {name} can only create mirror pods", quoted(MIRROR)));
    }
    if node_of(pod) != node {
        return forbid(format!("node {name} can only create pods with spec.nodeName set to itself"));
    }
    let mut owners = tree::items(pod, &["metadata", "ownerReferences"]);
    let (Some(owner), None) = (owners.next(), owners.next()) else {
        let some = if tree::items(pod, &["metadata", "ownerReferences"]).next().is_some() { "a single" } else { "an" };
        return forbid(format!("node {name} can only create pods with {some} owner reference set to itself"));
    };
    let said = |member: &str| tree::text(owner, &[member]);
    if said("apiVersion") != "v1" || said("kind") != "Node" || said("name") != node {
        return forbid(format!("node {name} can only create pods with an owner reference set to itself"));
    }
    let is_set = |member: &str| tree::at(owner, &[member]) == Some(&Value::Bool(true));
    if !is_set("controller") {
        return forbid(format!("node {name} can only create pods with a controller owner reference set to itself"));
    }
    if is_set("blockOwnerDeletion") {
        return forbid(format!("node {name} must not set blockOwnerDeletion on an owner reference"));
    }
    let own = cluster.object(Kind::Node, "", node).ok_or_else(|| Reason::NotFound(Kind::Node, node.to_owned()))?;
    let uid = tree::text(&own, &["metadata", "uid"]);
    if said("uid") != uid {
        return forbid(format!("node {node} UID mismatch: expected {} got {uid}", said("uid")));
    }
    match references::first(pod) {
        Ok(None) => Ok(()),
        Ok(Some(resource)) => forbid(format!("node {name} can not create pods that reference {resource}")),
        Err(why) => forbid(format!("error checking mirror pod for API references: {why}")),
    }
}

fn status(node: &str, write: &Attributes<'_>) -> Verdict {
    let (Operation::Update, Some(new), Some(old)) = (write.operation, write.object, write.old) else {
        return unexpected(write);
    };
    let name = quoted(node);
    if node_of(old) != node {
        return forbid(format!("node {name} can only update pod status for pods with spec.nodeName set to itself"));
    }
    let same = |path: &[&str]| tree::same(tree::at(new, path), tree::at(old, path));
    if !same(&["metadata", "labels"]) {
        return forbid(format!("node {name} cannot update labels through pod status"));
    }
    if !same(&["status", "resourceClaimStatuses"]) {
        return forbid(format!("node {name} cannot update resource claim statues"));
    }
    // An empty message is one.
    let extended = ["status", "extendedResourceClaimStatus"];
    if tree::at(new, &extended) != tree::at(old, &extended) {
        return forbid(format!("node {name} cannot update extended resource claim status"));
    }
    Ok(())
}

fn eviction(node: &str, write: &Attributes<'_>, cluster: &dyn Cluster) -> Verdict {
    if write.operation != Operation::Create {
        return forbid(format!("unexpected operation {}", write.operation.name()));
    }
    if write.name.is_empty() {
        return forbid("could not determine pod from request data");
    }
    let pod = cluster.object(Kind::Pod, write.namespace, write.name);
    let pod = pod.ok_or_else(|| Reason::NotFound(Kind::Pod, write.name.to_owned()))?;
    if node_of(&pod) != node {
        return forbid(format!("node {node} can only evict pods with spec.nodeName set to itself"));
    }
    Ok(())
}

fn unexpected(write: &Attributes<'_>) -> Verdict {
    forbid(format!("unexpected operation {}", quoted(write.operation.name())))
}

/// Where a pod runs.
pub(crate) fn node_of(pod: &Value) -> &str {
    tree::text(pod, &["spec", "nodeName"])
}
