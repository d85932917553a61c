//! Role based access control: an index of roles and bindings that is fed by their events and decides without looking at all of them (spec api-surface §13.1).

mod aggregation;
mod escalation;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use equivalent::Equivalent;
use go::quote::quoted;
use imbl::HashMap;
use serde::{Deserialize, Serialize};

use super::{Affected, Attributes, Authorizer, Decision, Reason, Rules, Target, Verdict, aggregate, or_default, shared_or_default};
use crate::user::User;

pub use aggregation::Aggregated;
pub use escalation::{Refusal, Write};
pub(super) use rule::missing;

/// The group of all kinds of RBAC.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// A kind of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rules for all namespaces and for paths.
    ClusterRole,
    /// Grants a ClusterRole everywhere.
    ClusterRoleBinding,
    /// Rules for one namespace.
    Role,
    /// Grants a Role or a ClusterRole in one namespace.
    RoleBinding,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::ClusterRole, Kind::ClusterRoleBinding, Kind::Role, Kind::RoleBinding];

    /// The kind of a resource of this group.
    #[must_use]
    pub fn of(resource: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.resource() == resource)
    }

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// As objects of the kind say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::ClusterRole => "ClusterRole",
            Kind::ClusterRoleBinding => "ClusterRoleBinding",
            Kind::Role => "Role",
            Kind::RoleBinding => "RoleBinding",
        }
    }

    /// The plural name in paths.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Kind::ClusterRole => "clusterroles",
            Kind::ClusterRoleBinding => "clusterrolebindings",
            Kind::Role => "roles",
            Kind::RoleBinding => "rolebindings",
        }
    }

    fn is_namespaced(self) -> bool {
        matches!(self, Kind::Role | Kind::RoleBinding)
    }
}

/// Verbs on resources, or on paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// What may be done; `*` is everything.
    #[serde(deserialize_with = "or_default")]
    pub verbs: Vec<String>,
    /// API groups; `*` is all.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// `pods`, `pods/log`, `*/scale`, `*`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names of objects; none is all.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths; a `*` at the end is a prefix.
    #[serde(rename = "nonResourceURLs", deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// What is used of a ClusterRole or a Role.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Role {
    #[serde(deserialize_with = "or_default")]
    metadata: Metadata,
    /// Shared with the answers that tell them.
    #[serde(deserialize_with = "shared_or_default")]
    pub(super) rules: Arc<[PolicyRule]>,
    pub(super) aggregation_rule: Option<aggregation::Rule>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Metadata {
    #[serde(deserialize_with = "or_default")]
    labels: std::collections::HashMap<String, String>,
}

/// What is used of a ClusterRoleBinding or a RoleBinding; namespace and name are those of its key.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Binding {
    #[serde(skip)]
    namespace: Arc<str>,
    #[serde(skip)]
    name: Arc<str>,
    pub(super) role_ref: RoleRef,
    #[serde(deserialize_with = "or_default")]
    subjects: Vec<Subject>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RoleRef {
    api_group: String,
    kind: String,
    name: String,
}

impl RoleRef {
    fn is_to(&self, kind: Kind, name: &str) -> bool {
        self.kind == kind.name() && self.name == name
    }
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    #[serde(deserialize_with = "or_default")]
    namespace: String,
}

/// Namespace and name; no namespace for kinds of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    namespace: Arc<str>,
    name: Arc<str>,
}

#[derive(Hash)]
struct KeyRef<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.name == *key.name && *self.namespace == *key.namespace
    }
}

/// Whom bindings of a namespace are for; of the cluster without one. A service account is the user that it is as a client.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bearer {
    namespace: Arc<str>,
    is_group: bool,
    name: Arc<str>,
}

struct BearerRef<'a> {
    namespace: &'a str,
    is_group: bool,
    name: &'a str,
}

impl Hash for Bearer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        BearerRef { namespace: &self.namespace, is_group: self.is_group, name: &self.name }.hash(state);
    }
}

impl Hash for BearerRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.namespace, self.is_group, self.name).hash(state);
    }
}

impl Equivalent<Bearer> for BearerRef<'_> {
    fn equivalent(&self, bearer: &Bearer) -> bool {
        self.is_group == bearer.is_group && *self.name == *bearer.name && *self.namespace == *bearer.namespace
    }
}

/// A binding, and the first of its subjects that is the bearer in question.
#[derive(Clone, Debug, PartialEq)]
struct Bound {
    binding: Arc<Binding>,
    subject: usize,
}

impl Bound {
    /// The order in which bindings of a namespace are looked at.
    fn rank(&self) -> (&str, usize) {
        (&self.binding.name, self.subject)
    }
}

/// All roles, and all bindings by whom they are for. A clone costs nothing and never changes: the program changes one and shows it to readers when it is done.
/// An update costs what it touches: the role, or the bindings of the same subjects in the same namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RbacIndex {
    cluster_roles: HashMap<Arc<str>, Arc<Role>>,
    roles: HashMap<Key, Arc<Role>>,
    bindings: HashMap<Key, Arc<Binding>>,
    /// Sorted by the bindings' names.
    bound: HashMap<Bearer, Arc<Vec<Bound>>>,
}

impl RbacIndex {
    /// Takes in an object as JSON, in place of the one that has its name. `namespace` is looked at only for kinds that have one.
    ///
    /// # Errors
    /// It is no such object. Then it grants nothing, and the one before it is gone.
    pub fn put(&mut self, kind: Kind, namespace: &str, name: &str, object: &[u8]) -> Result<(), serde_json::Error> {
        if kind.is_namespaced() && namespace.is_empty() {
            // A binding without its namespace would bind everywhere.
            return Ok(());
        }
        let parsed = match kind {
            Kind::ClusterRole => serde_json::from_slice(object).map(|role| drop(self.cluster_roles.insert(name.into(), Arc::new(role)))),
            Kind::Role => serde_json::from_slice(object).map(|role| {
                let key = Key { namespace: namespace.into(), name: name.into() };
                self.roles.insert(key, Arc::new(role));
            }),
            Kind::ClusterRoleBinding => serde_json::from_slice(object).map(|binding| self.bind("", name, binding)),
            Kind::RoleBinding => serde_json::from_slice(object).map(|binding| self.bind(namespace, name, binding)),
        };
        if parsed.is_err() {
            self.remove(kind, namespace, name);
        }
        parsed
    }

    /// Forgets an object; does nothing when it is not there.
    pub fn remove(&mut self, kind: Kind, namespace: &str, name: &str) {
        match kind {
            Kind::ClusterRole => drop(self.cluster_roles.remove(name)),
            Kind::Role => drop(self.roles.remove(&KeyRef { namespace, name })),
            Kind::ClusterRoleBinding => self.unbind("", name),
            Kind::RoleBinding if namespace.is_empty() => {}
            Kind::RoleBinding => self.unbind(namespace, name),
        }
    }

    fn bind(&mut self, namespace: &str, name: &str, binding: Binding) {
        let key = Key { namespace: namespace.into(), name: name.into() };
        let binding = Arc::new(Binding { namespace: Arc::clone(&key.namespace), name: Arc::clone(&key.name), ..binding });
        if self.bindings.get(&key) == Some(&binding) {
            return;
        }
        self.unbind(namespace, name);
        for (subject, of) in binding.subjects.iter().enumerate() {
            let Some(bearer) = of.bearer(&binding.namespace) else { continue };
            let bucket = Arc::make_mut(self.bound.entry(bearer).or_default());
            // One that is there is the same binding by a subject before.
            if let Err(place) = bucket.binary_search_by(|bound| bound.binding.name.cmp(&binding.name)) {
                bucket.insert(place, Bound { binding: Arc::clone(&binding), subject });
            }
        }
        self.bindings.insert(key, binding);
    }

    fn unbind(&mut self, namespace: &str, name: &str) {
        let Some(binding) = self.bindings.remove(&KeyRef { namespace, name }) else { return };
        for bearer in binding.subjects.iter().filter_map(|subject| subject.bearer(&binding.namespace)) {
            let Some(bucket) = self.bound.get_mut(&bearer) else { continue };
            if let Ok(place) = bucket.binary_search_by(|bound| bound.binding.name.cmp(&binding.name)) {
                Arc::make_mut(bucket).remove(place);
            }
            if bucket.is_empty() {
                self.bound.remove(&bearer);
            }
        }
    }

    /// Adds those from whom the change of an object may have taken something: what it was is in this index, what it is in `after`. Rights only add up, so what
    /// is new takes nothing.
    pub fn lost(&self, after: &RbacIndex, kind: Kind, namespace: &str, name: &str, affected: &mut Affected) {
        let bindings: Vec<&Arc<Binding>> = match kind {
            Kind::ClusterRole => {
                let (Some(before), now) = (self.cluster_roles.get(name), after.cluster_roles.get(name)) else { return };
                if now.is_some_and(|now| now.rules == before.rules) {
                    return;
                }
                self.bindings.values().filter(|binding| binding.role_ref.is_to(kind, name)).collect()
            }
            Kind::Role => {
                let key = KeyRef { namespace, name };
                let (Some(before), now) = (self.roles.get(&key), after.roles.get(&key)) else { return };
                if now.is_some_and(|now| now.rules == before.rules) {
                    return;
                }
                let here = self.bindings.values().filter(|binding| *binding.namespace == *namespace);
                here.filter(|binding| binding.role_ref.is_to(kind, name)).collect()
            }
            Kind::ClusterRoleBinding | Kind::RoleBinding => {
                let key = KeyRef { namespace: if kind.is_namespaced() { namespace } else { "" }, name };
                let before = self.bindings.get(&key);
                before.filter(|before| after.bindings.get(&key) != Some(before)).into_iter().collect()
            }
        };
        for binding in bindings {
            for bearer in binding.subjects.iter().filter_map(|subject| subject.bearer(&binding.namespace)) {
                if bearer.is_group { affected.add_group(&bearer.name) } else { affected.add_user(&bearer.name) }
            }
        }
    }

    /// The bindings of a namespace for this user; of the cluster without one.
    fn buckets<'a>(&'a self, namespace: &'a str, user: &'a User) -> impl Iterator<Item = &'a [Bound]> {
        let user_name = BearerRef { namespace, is_group: false, name: &user.name };
        let groups = user.groups.iter().map(move |group| BearerRef { namespace, is_group: true, name: group });
        std::iter::once(user_name).chain(groups).filter_map(|bearer| self.bound.get(&bearer)).map(|bucket| bucket.as_slice())
    }

    /// The same, each once and sorted.
    fn applying<'a>(&'a self, namespace: &'a str, user: &'a User) -> Vec<&'a Bound> {
        let mut all: Vec<&Bound> = self.buckets(namespace, user).flatten().collect();
        all.sort_by_key(|bound| bound.rank());
        all.dedup_by_key(|bound| &bound.binding.name);
        all
    }

    /// The rules of the role that a binding names.
    fn rules_of(&self, binding: &Binding) -> Option<&Arc<[PolicyRule]>> {
        self.resolve(&binding.role_ref, &binding.namespace)
    }

    fn resolve(&self, role: &RoleRef, namespace: &str) -> Option<&Arc<[PolicyRule]>> {
        let found = match &*role.kind {
            "ClusterRole" => self.cluster_roles.get(&*role.name),
            "Role" => self.roles.get(&KeyRef { namespace, name: &role.name }),
            _ => None,
        };
        found.map(|role| &role.rules)
    }

    /// The first binding of a namespace, by name, that allows it; those whose role is not there are told.
    fn granted<'a>(&'a self, namespace: &'a str, asked: &Attributes<'a>, dangling: &mut Vec<&'a Binding>) -> Option<&'a Bound> {
        /// Roles that are remembered: one that is bound often is looked through once.
        const REFUSING_MAX: usize = 16;
        let mut refusing: Vec<*const [PolicyRule]> = Vec::new();
        let mut first: Option<&Bound> = None;
        for bucket in self.buckets(namespace, asked.user) {
            for bound in bucket {
                if first.is_some_and(|first| first.rank() < bound.rank()) {
                    break;
                }
                match self.rules_of(&bound.binding) {
                    Some(rules) if refusing.contains(&Arc::as_ptr(rules)) => {}
                    Some(rules) if rules.iter().any(|rule| rule.allows(asked)) => {
                        first = Some(bound);
                        break;
                    }
                    Some(rules) if refusing.len() < REFUSING_MAX => refusing.push(Arc::as_ptr(rules)),
                    Some(_) => {}
                    None => dangling.push(&bound.binding),
                }
            }
        }
        first
    }

    /// Every rule that is the user's in a namespace, those of a role once, and the bindings whose role is not there; in the order of the bindings.
    fn held<'a>(&'a self, user: &'a User, namespace: &'a str) -> (Vec<&'a PolicyRule>, Vec<&'a Binding>) {
        let (mut rules, mut dangling, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for bound in scopes(namespace).flat_map(|scope| self.applying(scope, user)) {
            match self.rules_of(&bound.binding) {
                Some(of) if seen.insert(Arc::as_ptr(of)) => rules.extend(of.iter()),
                Some(_) => {}
                None => dangling.push(&*bound.binding),
            }
        }
        (rules, dangling)
    }
}

/// Bindings of the cluster come first, then those of the namespace that is asked about, if any.
fn scopes(namespace: &str) -> impl Iterator<Item = &str> {
    std::iter::once("").chain((!namespace.is_empty()).then_some(namespace))
}

impl Authorizer for RbacIndex {
    fn decide(&self, asked: &Attributes<'_>) -> Verdict {
        let namespace = match asked.target {
            Target::Resource(resource) => resource.namespace,
            Target::Path(_) => "",
        };
        let mut dangling = Vec::new();
        for scope in scopes(namespace) {
            if let Some(bound) = self.granted(scope, asked, &mut dangling) {
                return Verdict { decision: Decision::Allow, reason: Reason::Granted(Grant(bound.clone())), error: None };
            }
        }
        if dangling.is_empty() {
            return Verdict::no_opinion("");
        }
        dangling.sort_by_key(|binding| (&binding.namespace, &binding.name));
        Verdict::no_opinion(format!("RBAC: {}", aggregate(&errors(&dangling))))
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        let (mut rules, mut dangling) = (Rules::default(), Vec::new());
        for bound in scopes(namespace).flat_map(|scope| self.applying(scope, user)) {
            match self.rules_of(&bound.binding) {
                Some(of) => rules.of_roles.push(of.clone()),
                None => dangling.push(&*bound.binding),
            }
        }
        rules.errors = errors(&dangling);
        rules
    }
}

fn errors(dangling: &[&Binding]) -> Vec<String> {
    let error = |binding: &&Binding| match &*binding.role_ref.kind {
        kind @ ("Role" | "ClusterRole") => not_found(&kind.to_ascii_lowercase(), &binding.role_ref.name),
        kind => unsupported(kind),
    };
    dangling.iter().map(error).collect()
}

fn not_found(resource: &str, name: &str) -> String {
    format!("{resource}.{GROUP} {} not found", quoted(name))
}

fn unsupported(kind: &str) -> String {
    format!("unsupported role reference kind: {}", quoted(kind))
}

impl Subject {
    /// Who that is in a binding of this namespace; nobody if it is of an unknown kind, or a service account of no namespace.
    fn bearer(&self, binding_namespace: &Arc<str>) -> Option<Bearer> {
        let name = match &*self.kind {
            "User" | "Group" => (&*self.name).into(),
            "ServiceAccount" => match self.namespace_in(binding_namespace) {
                "" => return None,
                namespace => format!("system:serviceaccount:{namespace}:{}", self.name).into(),
            },
            _ => return None,
        };
        Some(Bearer { namespace: Arc::clone(binding_namespace), is_group: self.kind == "Group", name })
    }

    fn namespace_in<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() { binding_namespace } else { &self.namespace }
    }
}

/// A binding that allows something; prints the reason as kube-apiserver does.
#[derive(Clone, Debug)]
pub struct Grant(Bound);

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Binding { namespace, name, role_ref, subjects } = &*self.0.binding;
        let subject = &subjects[self.0.subject];
        let (kind, name) = match &**namespace {
            "" => (Kind::ClusterRoleBinding, quoted(name)),
            namespace => (Kind::RoleBinding, quoted(&format!("{name}/{namespace}"))),
        };
        let who = match &*subject.kind {
            "ServiceAccount" => format!("{}/{}", subject.name, subject.namespace_in(namespace)),
            _ => subject.name.clone(),
        };
        write!(
            f,
            "RBAC: allowed by {} {name} of {} {} to {} {}",
            kind.name(),
            role_ref.kind,
            quoted(&role_ref.name),
            subject.kind,
            quoted(&who)
        )
    }
}
