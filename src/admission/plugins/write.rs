//! What plugins are given, what they may look up, and what they find.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;

use crate::{
    Operation,
    hooks::{self, HookKind},
};
use go::quote::quoted;

/// The note for the audit log about labels of Pod Security that cannot be read.
pub(super) const ERROR: &str = "pod-security.kubernetes.io/error";

/// A kind of object that plugins look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lookup {
    /// `priorityclasses`.
    PriorityClass,
    /// `storageclasses`.
    StorageClass,
    /// `ingressclasses`.
    IngressClass,
    /// `runtimeclasses`.
    RuntimeClass,
    /// `serviceaccounts`.
    ServiceAccount,
    /// `nodes`.
    Node,
    /// `limitranges`.
    LimitRange,
    /// `namespaces`.
    Namespace,
    /// `pods`.
    Pod,
    /// `resourcequotas`.
    ResourceQuota,
    /// `mutatingwebhookconfigurations`.
    MutatingWebhookConfiguration,
    /// `validatingwebhookconfigurations`.
    ValidatingWebhookConfiguration,
    /// `mutatingadmissionpolicies`.
    MutatingPolicy,
    /// `mutatingadmissionpolicybindings`.
    MutatingBinding,
    /// `validatingadmissionpolicies`.
    ValidatingPolicy,
    /// `validatingadmissionpolicybindings`.
    ValidatingBinding,
}

impl Lookup {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::PriorityClass,
        Self::StorageClass,
        Self::IngressClass,
        Self::RuntimeClass,
        Self::ServiceAccount,
        Self::Node,
        Self::LimitRange,
        Self::Namespace,
        Self::Pod,
        Self::ResourceQuota,
        Self::MutatingWebhookConfiguration,
        Self::ValidatingWebhookConfiguration,
        Self::MutatingPolicy,
        Self::MutatingBinding,
        Self::ValidatingPolicy,
        Self::ValidatingBinding,
    ];

    /// Returns the API group and the plural name.
    #[must_use]
    pub const fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::PriorityClass => ("scheduling.k8s.io", "priorityclasses"),
            Self::StorageClass => ("storage.k8s.io", "storageclasses"),
            Self::IngressClass => ("networking.k8s.io", "ingressclasses"),
            Self::RuntimeClass => ("node.k8s.io", "runtimeclasses"),
            Self::ServiceAccount => ("", "serviceaccounts"),
            Self::Node => ("", "nodes"),
            Self::LimitRange => ("", "limitranges"),
            Self::Namespace => ("", "namespaces"),
            Self::Pod => ("", "pods"),
            Self::ResourceQuota => ("", "resourcequotas"),
            Self::MutatingWebhookConfiguration => (hooks::GROUP, HookKind::Mutating.resource()),
            Self::ValidatingWebhookConfiguration => (hooks::GROUP, HookKind::Validating.resource()),
            Self::MutatingPolicy => (hooks::GROUP, "mutatingadmissionpolicies"),
            Self::MutatingBinding => (hooks::GROUP, "mutatingadmissionpolicybindings"),
            Self::ValidatingPolicy => (hooks::GROUP, "validatingadmissionpolicies"),
            Self::ValidatingBinding => (hooks::GROUP, "validatingadmissionpolicybindings"),
        }
    }
}

/// What plugins find out about other objects.
pub trait Cluster {
    /// Returns the object of this namespace, empty for cluster-scoped kinds, and name.
    fn find(&self, kind: Lookup, namespace: &str, name: &str) -> Option<Arc<Value>>;

    /// Returns the objects of a namespace, or all of a cluster-scoped kind, in the order of their names.
    fn list(&self, kind: Lookup, namespace: &str) -> Arc<Vec<Value>>;

    /// Returns the first Pods of a namespace, at most so many, and how many there are.
    fn pods(&self, namespace: &str, most: usize) -> (Vec<Value>, usize);

    /// Returns a name that begins with this and that nobody has.
    fn generate(&self, base: &str) -> String;
}

/// A write, as plugins see it. Empty strings where there is none.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Create or update.
    pub operation: Operation,
    /// API group.
    pub group: &'a str,
    /// Plural name.
    pub resource: &'a str,
    /// Subresource.
    pub subresource: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// The object that is there.
    pub old: Option<&'a Value>,
    /// The user; empty of what the server itself writes.
    pub user: &'a str,
}

impl Write<'_> {
    /// Whether the object itself is created.
    pub(super) fn creates(&self) -> bool {
        self.operation == Operation::Create && self.subresource.is_empty()
    }

    /// Whether this is about the resource itself, through no subresource.
    pub(super) fn is_of(&self, group: &str, resource: &str) -> bool {
        (self.group, self.resource, self.subresource) == (group, resource, "")
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// 403.
    Forbidden {
        /// The text after `is forbidden: `.
        why: String,
        /// What clients match on, if there is anything: a reason of `details.causes`.
        cause: Option<&'static str>,
        /// The answer names the object as the request does: not at all where the server has made its name.
        as_requested: bool,
    },
    /// 422, where the request has a name that names the object.
    Invalid(Vec<Wrong>),
    /// 500 with this text, where kube-apiserver forgets to make another one of it.
    Failed(String),
}

/// A field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Its path.
    pub field: String,
    /// Its value.
    pub value: String,
    /// What it must be.
    pub why: String,
}

impl Denial {
    pub(super) fn with_cause(why: String, cause: &'static str) -> Self {
        Self::Forbidden { why, cause: Some(cause), as_requested: false }
    }
}

impl From<String> for Denial {
    fn from(why: String) -> Self {
        Self::Forbidden { why, cause: None, as_requested: false }
    }
}

impl From<&str> for Denial {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

pub(crate) type Verdict = Result<(), Denial>;

/// What else plugins have to say of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// For the client.
    pub warnings: Vec<String>,
    /// Annotations of the event in the audit log.
    pub annotations: Vec<Annotation>,
    /// What PodSecurity has found, for its metrics.
    pub security: Vec<SecurityCount>,
}

/// What PodSecurity has found, as kube-apiserver counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityCount {
    /// A Pod was judged by a level.
    Judged {
        /// It breaks the level.
        is_denied: bool,
        /// The level.
        level: &'static str,
        /// The minor whose rules count; none for the newest.
        minor: Option<u64>,
        /// `enforce`, `audit` or `warn`.
        mode: &'static str,
    },
    /// The write is exempt.
    Exempt,
    /// Labels cannot be read, or, if nothing was judged, the namespace.
    Failed {
        /// Nothing was judged.
        is_fatal: bool,
    },
}

/// An annotation of the event in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its value.
    pub value: String,
    /// Only an event that has the request's object has it.
    pub of_request: bool,
}

impl Notes {
    pub(super) fn annotate(&mut self, name: &'static str, value: String) {
        self.annotations.push(Annotation { name: name.into(), value, of_request: false });
    }

    /// Notes this under any name; `of_request`: where the objects of requests are noted.
    pub fn annotate_as(&mut self, name: String, value: String, of_request: bool) {
        self.annotations.push(Annotation { name: name.into(), value, of_request });
    }

    /// Notes labels that cannot be read.
    pub(super) fn unread(&mut self, wrong: &[Wrong]) {
        if !wrong.is_empty() {
            self.security.push(SecurityCount::Failed { is_fatal: false });
        }
        let texts: Vec<String> =
            wrong.iter().map(|Wrong { field, value, why }| format!("{field}: Invalid value: {}: {why}", quoted(value))).collect();
        match texts.as_slice() {
            [] => {}
            [one] => self.annotate(ERROR, format!("Failed to parse policy: {one}")),
            many => self.annotate(ERROR, format!("Failed to parse policy: [{}]", many.join(", "))),
        }
    }
}
