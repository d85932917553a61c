//! The check against privilege escalation: whoever writes a role or a binding must hold the rights that it gives.

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use super::rule::{missing, quoted_list, told};
use super::{Binding, GROUP, Kind, PolicyRule, RbacIndex, Role, RoleRef, not_found, unsupported};
use crate::authz::{Attributes, Authorizer, Decision, Resource, Target, aggregate};
use crate::user::{MASTERS, User};
use go::quote::quoted;

/// Words of the writer's rules that the parts of the new ones are compared with: about 0.1 s. The rules of `admin` have some 300 words, and as many parts.
const WORDS_MAX: usize = 20_000_000;

/// A write of an RBAC object, before the object is validated.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The writer.
    pub user: &'a User,
    /// Kind of the object.
    pub kind: Kind,
    /// Namespace of the request; empty for kinds of the cluster.
    pub namespace: &'a str,
    /// Name in the request's path; empty for a POST.
    pub name: &'a str,
    /// The new object, with its defaults.
    pub object: &'a Value,
    /// The object that it replaces.
    pub stored: Option<&'a Value>,
}

/// Why an RBAC object may not be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// 403: the text after `is forbidden: `.
    #[error("{0}")]
    Forbidden(String),
    /// 404: a role that a binding names. The status is about the resource that is written and this name.
    #[error("{0}")]
    NotFound(String),
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// 500.
    #[error("{0}")]
    Internal(String),
}

impl RbacIndex {
    /// Whether the writer may write it. Members of `system:masters` may write everything; so may, for roles, who is allowed to `escalate` them, and for
    /// bindings, who is allowed to `bind` the role (`authorizer` is asked), and everyone may change what only garbage collection is about. All others must
    /// hold every right that the role has.
    ///
    /// # Errors
    /// What the answer is instead.
    pub fn confirm_no_escalation(&self, authorizer: &dyn Authorizer, write: &Write<'_>) -> Result<(), Refusal> {
        if write.user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        match write.kind {
            Kind::ClusterRole | Kind::Role => self.confirm_role(authorizer, write),
            Kind::ClusterRoleBinding | Kind::RoleBinding => self.confirm_binding(authorizer, write),
        }
    }

    fn confirm_role(&self, authorizer: &dyn Authorizer, write: &Write<'_>) -> Result<(), Refusal> {
        if write.is_allowed(authorizer, "escalate", GROUP, write.kind.resource(), write.name) || write.is_for_garbage_collection() {
            return Ok(());
        }
        let role = Role::deserialize(write.object).map_err(malformed)?;
        self.confirm_rules(write, &role.rules)?;
        let aggregates = |role: &Role| role.aggregation_rule.as_ref().is_some_and(|rule| !rule.cluster_role_selectors.is_empty());
        let did = write.stored.map(Role::deserialize).transpose().map_err(malformed)?;
        if write.kind == Kind::ClusterRole && (aggregates(&role) || did.as_ref().is_some_and(aggregates)) {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            self.confirm_rules(write, &everything()).map_err(|_| Refusal::Forbidden(why.to_owned()))?;
        }
        Ok(())
    }

    fn confirm_binding(&self, authorizer: &dyn Authorizer, write: &Write<'_>) -> Result<(), Refusal> {
        let role = Binding::deserialize(write.object).map_err(malformed)?.role_ref;
        let resource = match &*role.kind {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            _ => "",
        };
        let may_bind = || !resource.is_empty() && write.is_allowed(authorizer, "bind", &role.api_group, resource, &role.name);
        if write.is_for_garbage_collection() || may_bind() {
            return Ok(());
        }
        let Some(rules) = self.resolve(&role, write.namespace) else {
            return Err(unresolved(&role, write.namespace));
        };
        self.confirm_rules(write, rules)
    }

    fn confirm_rules(&self, write: &Write<'_>, wanted: &[PolicyRule]) -> Result<(), Refusal> {
        let (held, dangling) = self.held(write.user, write.namespace);
        let Some(missing) = missing(held.iter().copied(), wanted, WORDS_MAX) else {
            return Err(Refusal::Forbidden("the rules are too many to be compared with those that the user holds".to_owned()));
        };
        if missing.is_empty() {
            return Ok(());
        }
        let User { name, groups, .. } = write.user;
        let mut why = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            quoted(name),
            quoted_list(groups),
            told(missing)
        );
        if !dangling.is_empty() {
            // kube-apiserver reads the roles in the name of the request, and so their errors name its resource.
            let error = |binding: &&Binding| match &*binding.role_ref.kind {
                "Role" | "ClusterRole" => not_found(write.kind.resource(), &binding.role_ref.name),
                kind => unsupported(kind),
            };
            let errors: Vec<String> = dangling.iter().map(error).collect();
            why.push_str(&format!("; resolution errors: [{}]", aggregate(&errors)));
        }
        Err(Refusal::Forbidden(why))
    }
}

impl Write<'_> {
    fn is_allowed(&self, authorizer: &dyn Authorizer, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        let target = Resource { namespace: self.namespace, group, version: "*", resource, name, ..Resource::default() };
        authorizer.decide(&Attributes { user: self.user, verb, target: Target::Resource(target) }).decision == Decision::Allow
    }

    /// Whether it changes nothing but owners, finalizers and who manages fields.
    fn is_for_garbage_collection(&self) -> bool {
        self.stored.is_some_and(|stored| without_owners(stored) == without_owners(self.object))
    }
}

fn malformed(error: serde_json::Error) -> Refusal {
    Refusal::BadRequest(error.to_string())
}

/// The error of reading a role that is not there, in the words of kube-apiserver's storage.
fn unresolved(role: &RoleRef, namespace: &str) -> Refusal {
    let is_namespaced = match &*role.kind {
        "Role" => true,
        "ClusterRole" => false,
        kind => return Refusal::Internal(unsupported(kind)),
    };
    let segment = match &*role.name {
        "." | ".." => vec![format!("may not be '{}'", role.name)],
        name => ['/', '%'].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect(),
    };
    if is_namespaced && namespace.is_empty() {
        Refusal::BadRequest("Namespace parameter required.".to_owned())
    } else if role.name.is_empty() {
        Refusal::BadRequest("Name parameter required.".to_owned())
    } else if !segment.is_empty() {
        Refusal::BadRequest(format!("Name parameter invalid: {}: {}", quoted(&role.name), segment.join(";")))
    } else {
        Refusal::NotFound(role.name.clone())
    }
}

/// The rights that an aggregating role could gather.
fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    let resources = PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() };
    [resources, PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() }]
}

/// The object without what garbage collection changes, and without what is empty.
fn without_owners(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
            metadata.remove(name);
        }
    }
    drop_empty(&mut object);
    object
}

/// Go does not tell an empty list from none.
fn drop_empty(value: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    match value {
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        Value::Object(members) => {
            members.values_mut().for_each(drop_empty);
            *members = std::mem::take(members).into_iter().filter(|(_, value)| !is_empty(value)).collect::<Map<_, _>>();
        }
        _ => {}
    }
}
