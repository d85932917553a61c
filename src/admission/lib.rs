//! What kubelets may write, and who approves and signs certificates: the admission plugins NodeRestriction, CertificateApproval, CertificateSigning and
//! CertificateSubjectRestriction of kube-apiserver, with the feature gates that 1.36 has by default. Its other plugins, which change and judge what anybody
//! writes, are in [`plugins`].
//!
//! Objects are JSON trees with the defaults and the normal form of their types. Of no kind that is judged here do the served versions differ in a field
//! that counts, so an object may be in the version of the request or in that of storage.

mod audience;
mod certificate;
mod claim;
pub mod criteria;
mod diff;
mod driver;
pub mod hooks;
mod node;
pub mod plugins;
mod pod;
pub mod policies;
mod references;
mod signing;
mod token;
mod tree;

use serde_json::Value;

use go::quote::quoted;

/// What the names of nodes' users begin with.
const NODE_USER: &str = "system:node:";

/// The group of nodes.
const NODES: &str = "system:nodes";

/// What certificates are asked for with.
const SIGNING_REQUESTS: (&str, &str) = ("certificates.k8s.io", "certificatesigningrequests");

/// The namespace of the leases with which nodes say that they live.
const LEASES_NAMESPACE: &str = "kube-node-lease";

/// What a write does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It is changed: by PUT or PATCH.
    Update,
    /// It is deleted, alone or with a collection.
    Delete,
}

impl Operation {
    /// Returns the name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A write, as admission sees it. Empty strings where there is none, as in Kubernetes.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// Create, update or delete.
    pub operation: Operation,
    /// API group.
    pub group: &'a str,
    /// Plural name.
    pub resource: &'a str,
    /// Subresource.
    pub subresource: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name in the path, or else that of an object that is created; of a collection none.
    pub name: &'a str,
    /// The object that was sent, or what a patch makes of the one that is there; of a deletion none.
    pub object: Option<&'a Value>,
    /// The object that is there.
    pub old: Option<&'a Value>,
}

/// A kind of object that is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `nodes`.
    Node,
    /// `pods`.
    Pod,
    /// `csidrivers`.
    CsiDriver,
    /// `persistentvolumeclaims`.
    Claim,
    /// `persistentvolumes`.
    Volume,
}

impl Kind {
    /// API group and plural name.
    #[must_use]
    pub fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Node => ("", "nodes"),
            Self::Pod => ("", "pods"),
            Self::CsiDriver => ("storage.k8s.io", "csidrivers"),
            Self::Claim => ("", "persistentvolumeclaims"),
            Self::Volume => ("", "persistentvolumes"),
        }
    }

    /// The name in a 404, which is singular.
    fn singular(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Pod => "pod",
            Self::CsiDriver => "csidriver.storage.k8s.io",
            Self::Claim => "persistentvolumeclaim",
            Self::Volume => "persistentvolume",
        }
    }
}

/// What is known of the cluster.
pub trait Cluster {
    /// The object of this namespace, empty for cluster-scoped kinds, and name.
    fn object(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value>;

    /// Whether the authorizers allow the user who writes to ask for tokens of this account for this audience: the verb
    /// `request-serviceaccounts-token-audience` of a resource with the audience's name.
    fn may_request_audience(&self, namespace: &str, account: &str, audience: &str) -> bool;

    /// Whether the authorizers allow the user who writes to `approve` or `sign` for this signer.
    fn may_act_for_signer(&self, verb: &'static str, signer: &str) -> bool;
}

/// Why a write is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 403 of the object that was to be written, under its plural name.
    Forbidden {
        /// The name in the message.
        name: String,
        /// Text after `is forbidden: `.
        why: String,
    },
    /// 404 of an object that the verdict depends on, under its singular name.
    NotFound {
        /// Singular name of its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
}

/// Why a write is refused, before it is known how the answer names the object.
#[derive(Debug)]
enum Reason {
    Forbidden(String),
    NotFound(Kind, String),
}

impl From<String> for Reason {
    fn from(why: String) -> Self {
        Self::Forbidden(why)
    }
}

type Verdict = Result<(), Reason>;

/// Refuses with this text.
fn forbid(why: impl Into<String>) -> Verdict {
    Err(Reason::Forbidden(why.into()))
}

/// Returns the name of the node whose kubelet has this user; none of other users. It is empty if the user does not name it.
#[must_use]
pub fn node_of<'u>(user: &'u str, groups: &[String]) -> Option<&'u str> {
    user.strip_prefix(NODE_USER).filter(|_| groups.iter().any(|group| group == NODES))
}

/// Whether writes of this resource are judged whoever writes.
#[must_use]
pub fn judges_everybody(group: &str, resource: &str) -> bool {
    (group, resource) == SIGNING_REQUESTS
}

/// Judges a write, by the kubelet of this node if there is one.
///
/// # Errors
/// It is not for this user to write.
pub fn admit(node: Option<&str>, write: &Attributes<'_>, cluster: &dyn Cluster) -> Result<(), Refusal> {
    let mut verdict = node.map_or(Ok(()), |node| judge(node, write, cluster));
    if judges_everybody(write.group, write.resource) {
        verdict = verdict.and_then(|()| signing::admit(write, cluster));
    }
    verdict.map_err(|reason| match reason {
        Reason::Forbidden(why) => Refusal::Forbidden { name: named(write).to_owned(), why },
        Reason::NotFound(kind, name) => Refusal::NotFound { kind: kind.singular(), name },
    })
}

fn judge(node: &str, write: &Attributes<'_>, cluster: &dyn Cluster) -> Verdict {
    if node.is_empty() {
        return forbid(format!("could not determine node from user {}", quoted(write.user)));
    }
    match (write.group, write.resource) {
        ("", "pods") => pod::admit(node, write, cluster),
        ("", "nodes") => node::admit(node, write),
        ("", "persistentvolumeclaims") => claim::admit(node, write),
        ("", "serviceaccounts") => token::admit(node, write, cluster),
        ("certificates.k8s.io", "podcertificaterequests") => forbid("PodCertificateRequest feature gate is disabled"),
        SIGNING_REQUESTS => certificate::admit(node, write),
        ("coordination.k8s.io", "leases") => lease(node, write),
        ("storage.k8s.io", "csinodes") => csi_node(node, write),
        ("resource.k8s.io", "resourceslices") => slice(node, write),
        _ => Ok(()),
    }
}

fn lease(node: &str, write: &Attributes<'_>) -> Verdict {
    if write.namespace != LEASES_NAMESPACE {
        return forbid(format!("can only access leases in the {} system namespace", quoted(LEASES_NAMESPACE)));
    }
    if own_name(write) != node {
        return forbid("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn csi_node(node: &str, write: &Attributes<'_>) -> Verdict {
    if own_name(write) != node {
        return forbid("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}

/// Updates are for the authorizer, which knows the slice that is there.
fn slice(node: &str, write: &Attributes<'_>) -> Verdict {
    let (slice, verb) = match write.operation {
        Operation::Create => (write.object, "create"),
        Operation::Delete => (write.old, "delete"),
        Operation::Update => return Ok(()),
    };
    if slice.and_then(|slice| tree::at(slice, &["spec", "nodeName"])).and_then(Value::as_str) != Some(node) {
        return forbid(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"));
    }
    Ok(())
}

/// The name of the object that is written: a new one says it itself.
fn own_name<'a>(write: &Attributes<'a>) -> &'a str {
    match (write.operation, write.object) {
        (Operation::Create, Some(object)) => tree::text(object, &["metadata", "name"]),
        _ => write.name,
    }
}

/// The name in a 403: no name has been generated yet.
fn named<'a>(write: &Attributes<'a>) -> &'a str {
    let said = |member: &str| write.object.map(|object| tree::text(object, &["metadata", member])).filter(|name| !name.is_empty());
    Some(write.name).filter(|name| !name.is_empty()).or_else(|| said("name")).or_else(|| said("generateName")).unwrap_or("Unknown")
}

#[cfg(test)]
mod tests;
