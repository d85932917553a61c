//! `serviceaccounts/token`: a kubelet asks for tokens of the pods that run on it, for audiences that these need.

use serde_json::Value;

use crate::{Attributes, Cluster, Kind, Operation, Reason, Verdict, audience, forbid, pod, tree};

pub(crate) fn admit(node: &str, write: &Attributes<'_>, cluster: &dyn Cluster) -> Verdict {
    let (Operation::Create, "token", Some(request)) = (write.operation, write.subresource, write.object) else { return Ok(()) };
    let bound = tree::at(request, &["spec", "boundObjectRef"]).unwrap_or(&Value::Null);
    let said = |member: &str| tree::text(bound, &[member]);
    let (name, uid) = (said("name"), said("uid"));
    if said("apiVersion") != "v1" || said("kind") != "Pod" || name.is_empty() {
        return forbid("node requested token not bound to a pod");
    }
    if uid.is_empty() {
        return forbid("node requested token with a pod binding without a uid");
    }
    let pod = cluster.object(Kind::Pod, write.namespace, name).ok_or_else(|| Reason::NotFound(Kind::Pod, name.to_owned()))?;
    if uid != tree::text(&pod, &["metadata", "uid"]) {
        return forbid(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        ));
    }
    if pod::node_of(&pod) != node {
        return forbid("node requested token bound to a pod scheduled on a different node");
    }
    audience::admit(request, &pod, write, cluster)
}
