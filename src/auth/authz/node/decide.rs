//! The decision about a request of a node, with its texts.

use std::sync::LazyLock;

use super::{NodeGraph, Sort, VertexRef};
use crate::authz::rbac::PolicyRule;
use crate::authz::{Attributes, Authorizer, Resource, Rules, Target, Verdict, bootstrap};
use crate::user::User;
use go::quote::quoted;

/// What kubelets are called.
pub(super) const USER_PREFIX: &str = "system:node:";
/// The group of all kubelets.
pub(super) const GROUP: &str = "system:nodes";
/// Where the leases of nodes are.
const LEASES: &str = "kube-node-lease";

/// What every node may do with resources that no rule below is about: those of the ClusterRole `system:node`.
static RULES: LazyLock<Vec<PolicyRule>> = LazyLock::new(|| {
    let role = bootstrap::objects().into_iter().find(|object| object.name == "system:node").expect("a bootstrap object");
    serde_json::from_value(role.value["rules"].clone()).expect("rules")
});

impl Authorizer for NodeGraph {
    fn decide(&self, asked: &Attributes<'_>) -> Verdict {
        let Some(node) = node_name(asked.user) else { return Verdict::no_opinion("") };
        if node.is_empty() {
            return Verdict::no_opinion(format!("unknown node for user {}", quoted(&asked.user.name)));
        }
        if let Target::Resource(resource) = &asked.target
            && let Some(verdict) = (Question { graph: self, node, verb: asked.verb, resource }).answer()
        {
            return verdict;
        }
        if RULES.iter().any(|rule| rule.allows(asked)) { Verdict::ALLOW } else { Verdict::no_opinion("") }
    }

    fn rules_for(&self, user: &User, _: &str) -> Rules {
        if node_name(user).is_none() {
            return Rules::default();
        }
        let error = "node authorizer does not support user rule resolution".to_owned();
        Rules { incomplete: true, errors: vec![error], ..Rules::default() }
    }
}

/// The node whose kubelet this is; may be empty.
fn node_name(user: &User) -> Option<&str> {
    let node = user.name.strip_prefix(USER_PREFIX)?;
    user.groups.iter().any(|group| group == GROUP).then_some(node)
}

/// A node asks for a resource.
struct Question<'a> {
    graph: &'a NodeGraph,
    node: &'a str,
    verb: &'a str,
    resource: &'a Resource<'a>,
}

impl Question<'_> {
    /// `None` for a resource that all nodes may use alike.
    fn answer(&self) -> Option<Verdict> {
        Some(match (self.resource.group, self.resource.resource) {
            ("", "secrets") => self.read(Sort::Secret),
            ("", "configmaps") => self.read(Sort::ConfigMap),
            ("", "persistentvolumeclaims") if self.resource.subresource == "status" => self.update_status(Sort::Claim),
            ("", "persistentvolumeclaims") => self.get(Sort::Claim),
            ("", "persistentvolumes") => self.get(Sort::Volume),
            ("resource.k8s.io", "resourceclaims") => self.get(Sort::ResourceClaim),
            ("storage.k8s.io", "volumeattachments") => self.get(Sort::Attachment),
            ("", "serviceaccounts") => self.service_account(),
            ("coordination.k8s.io", "leases") => self.lease(),
            ("storage.k8s.io", "csinodes") => self.csi_node(),
            ("resource.k8s.io", "resourceslices") => self.slice(),
            ("", "nodes") => self.node(),
            ("", "pods") => self.pod(),
            // Their feature is off in 1.36.
            ("certificates.k8s.io", "podcertificaterequests") => Verdict::no_opinion(""),
            _ => return None,
        })
    }

    fn update_status(&self, sort: Sort) -> Verdict {
        match self.verb {
            "update" | "patch" => self.related(sort),
            _ => Verdict::no_opinion("can only get/update/patch this type"),
        }
    }

    fn get(&self, sort: Sort) -> Verdict {
        match (self.verb, self.resource.subresource) {
            ("get", "") => self.related(sort),
            ("get", _) => Verdict::no_opinion("cannot get subresource"),
            _ => Verdict::no_opinion("can only get individual resources of this type"),
        }
    }

    fn read(&self, sort: Sort) -> Verdict {
        match (self.verb, self.resource.subresource, self.resource.namespace) {
            ("get" | "list" | "watch", "", "") => Verdict::no_opinion("can only read namespaced object of this type"),
            ("get" | "list" | "watch", "", _) => self.related(sort),
            ("get" | "list" | "watch", _, _) => Verdict::no_opinion("cannot read subresource"),
            _ => Verdict::no_opinion("can only read resources of this type"),
        }
    }

    /// Allows it if the object belongs to the node.
    fn related(&self, sort: Sort) -> Verdict {
        let Resource { namespace, name, .. } = *self.resource;
        if name.is_empty() {
            Verdict::no_opinion("No Object name found")
        } else if self.graph.belongs(VertexRef { sort, namespace, name }, self.node) {
            Verdict::ALLOW
        } else {
            Verdict::no_opinion(format!("no relationship found between node '{}' and this object", self.node))
        }
    }

    fn service_account(&self) -> Verdict {
        match (self.verb, self.resource.subresource, self.resource.name) {
            ("get", "", _) => self.read(Sort::ServiceAccount),
            ("create", _, "") => Verdict::no_opinion("can only create tokens for individual service accounts"),
            ("create", "token", _) => self.related(Sort::ServiceAccount),
            ("create", _, _) => Verdict::no_opinion("can only create token subresource of serviceaccount"),
            _ => Verdict::no_opinion("can only create tokens for individual service accounts"),
        }
    }

    fn lease(&self) -> Verdict {
        let Resource { namespace, name, .. } = *self.resource;
        match self.verb {
            "get" | "create" | "update" | "patch" | "delete" if namespace != LEASES => {
                Verdict::no_opinion(format!("can only access leases in the {} system namespace", quoted(LEASES)))
            }
            // The name is not known yet.
            "create" => Verdict::ALLOW,
            "get" | "update" | "patch" | "delete" if name == self.node => Verdict::ALLOW,
            "get" | "update" | "patch" | "delete" => {
                Verdict::no_opinion("can only access node lease with the same name as the requesting node")
            }
            _ => Verdict::no_opinion("can only get, create, update, patch, or delete a node lease"),
        }
    }

    fn csi_node(&self) -> Verdict {
        match self.verb {
            "get" | "create" | "update" | "patch" | "delete" if !self.resource.subresource.is_empty() => {
                Verdict::no_opinion("cannot authorize CSINode subresources")
            }
            "create" => Verdict::ALLOW,
            "get" | "update" | "patch" | "delete" if self.resource.name == self.node => Verdict::ALLOW,
            "get" | "update" | "patch" | "delete" => {
                Verdict::no_opinion("can only access CSINode with the same name as the requesting node")
            }
            _ => Verdict::no_opinion("can only get, create, update, patch, or delete a CSINode"),
        }
    }

    fn slice(&self) -> Verdict {
        match self.verb {
            _ if !self.resource.subresource.is_empty() => Verdict::no_opinion("cannot authorize ResourceSlice subresources"),
            "create" => Verdict::ALLOW,
            "get" | "update" | "patch" | "delete" => self.related(Sort::Slice),
            "watch" | "list" | "deletecollection" if self.selects_own() => Verdict::ALLOW,
            "watch" | "list" | "deletecollection" => {
                Verdict::no_opinion("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => Verdict::no_opinion(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn node(&self) -> Verdict {
        let (node, name) = (self.node, self.resource.name);
        match (self.resource.subresource, self.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Verdict::ALLOW,
            ("", "get" | "list" | "watch") if name == node => Verdict::ALLOW,
            ("", "get" | "list" | "watch") if name.is_empty() => {
                Verdict::no_opinion(format!("node '{node}' cannot read all nodes, only its own Node object"))
            }
            ("", "get" | "list" | "watch") => Verdict::no_opinion(format!("node '{node}' cannot read '{name}', only its own Node object")),
            _ => Verdict::no_opinion(""),
        }
    }

    fn pod(&self) -> Verdict {
        match (self.resource.subresource, self.verb) {
            ("", "get") => self.related(Sort::Pod),
            ("", "list" | "watch") if self.selects_own() => Verdict::ALLOW,
            ("", "list" | "watch") if !self.resource.name.is_empty() => self.related(Sort::Pod),
            ("", "list" | "watch") => Verdict::no_opinion("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Verdict::ALLOW,
            _ => Verdict::no_opinion(""),
        }
    }

    /// Whether the field selector leaves only objects of this node.
    fn selects_own(&self) -> bool {
        self.resource.selectors.wants("spec.nodeName", self.node)
    }
}
