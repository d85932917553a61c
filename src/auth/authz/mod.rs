//! Authorization: the question that every authorizer is asked, and its answer. An authorizer decides from memory and waits for nothing.

mod affected;
pub mod bootstrap;
mod chain;
pub mod config;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod golden;
pub mod node;
pub mod rbac;
mod request_info;
mod rules;
pub mod webhook;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::user::User;

pub use affected::Affected;
pub use chain::{AlwaysAllow, AlwaysDeny, Asking, Chain, Link, Masters, Open, Paths};
use rbac::Grant;
pub use request_info::RequestInfo;
pub use rules::{Rules, ToldRule};

/// What somebody wants to do.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// Who.
    pub user: &'a User,
    /// `get`, `list`, `watch`, `create`, …; of a path the lower-case HTTP method.
    pub verb: &'a str,
    /// To what.
    pub target: Target<'a>,
}

/// What a request is about.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// An object, or the objects, of a resource.
    Resource(Resource<'a>),
    /// A path that is no resource: `/metrics`.
    Path(&'a str),
}

/// An object, or the objects, of a resource. Empty strings where there is none, as in Kubernetes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resource<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Version of the group.
    pub version: &'a str,
    /// Plural name.
    pub resource: &'a str,
    /// Subresource.
    pub subresource: &'a str,
    /// Name of the object; of a list, watch or deletecollection the one that its field selector asks for.
    pub name: &'a str,
    /// What of a list, watch or deletecollection is asked for.
    pub selectors: &'a Selectors,
}

/// What the smallest piece of the heap takes.
const LEAST_BYTES: usize = 8;

/// What a list, watch or deletecollection selects (KEP-4601). What cannot be read of selectors is left out: they only narrow what is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selectors {
    /// Of the field selector.
    pub fields: Vec<Requirement>,
    /// Of the label selector.
    pub labels: Vec<Requirement>,
}

impl Selectors {
    /// Everything.
    pub const ALL: Selectors = Selectors { fields: Vec::new(), labels: Vec::new() };

    /// Bytes on the heap.
    fn weight(&self) -> usize {
        let text = |text: &String| text.len().next_multiple_of(LEAST_BYTES);
        let values = |values: &Vec<String>| values.iter().map(|value| size_of::<String>() + text(value)).sum::<usize>();
        let one = |one: &Requirement| size_of::<Requirement>() + text(&one.key) + values(&one.values);
        self.fields.iter().chain(&self.labels).map(one).sum()
    }

    /// Whether the field selector wants this field equal to this value.
    pub(crate) fn wants(&self, field: &str, value: &str) -> bool {
        let is_that =
            |one: &Requirement| one.key == field && one.operator == Operator::In && matches!(&one.values[..], [only] if only == value);
        self.fields.iter().any(is_that)
    }
}

impl Default for &Selectors {
    fn default() -> Self {
        static ALL: Selectors = Selectors::ALL;
        &ALL
    }
}

/// One requirement of a selector. As JSON it is that of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Requirement {
    /// The field or label.
    pub key: String,
    /// What is asked of it.
    pub operator: Operator,
    /// The values; none with `Exists` and `DoesNotExist`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Operators of a [`Requirement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[expect(missing_docs, reason = "the names are those of the API")]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// What an authorizer says. RBAC and the node authorizer tell what they could not find in the reason.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Yes, no, or ask the next one.
    pub decision: Decision,
    /// Why, for reviews, audit and 403 texts; may be empty.
    pub reason: Reason,
    /// Why somebody who was asked has not answered: the `evaluationError` of an access review. A yes has none; without a yes nothing is decided then, and who
    /// asked for something gets 500.
    pub error: Option<Box<str>>,
}

impl Verdict {
    /// Yes, without a reason.
    pub const ALLOW: Verdict = Verdict { decision: Decision::Allow, reason: Reason::NONE, error: None };

    /// Neither yes nor no.
    pub fn no_opinion(reason: impl Into<Cow<'static, str>>) -> Verdict {
        Verdict { decision: Decision::NoOpinion, reason: Reason::Text(reason.into()), error: None }
    }
}

/// The three answers of Kubernetes' authorizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes; nobody else is asked.
    Allow,
    /// No; nobody else is asked.
    Deny,
    /// Ask the next one; if there is none, no.
    NoOpinion,
}

/// Why an authorizer decided so. Most requests are allowed and nobody asks why, so the text of a grant is made only when it is shown.
#[derive(Clone, Debug)]
pub enum Reason {
    /// This text; may be empty.
    Text(Cow<'static, str>),
    /// A role binding allows it.
    Granted(Grant),
}

impl Reason {
    /// No reason.
    pub const NONE: Reason = Reason::Text(Cow::Borrowed(""));
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Text(text) => f.write_str(text),
            Reason::Granted(grant) => grant.fmt(f),
        }
    }
}

/// Decides from memory, at once.
pub trait Authorizer: Send + Sync {
    /// The answer for one request.
    fn decide(&self, asked: &Attributes<'_>) -> Verdict;

    /// What `user` may do in `namespace`; without rules, an authorizer that is not asked for them.
    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        let _ = (user, namespace);
        Rules::default()
    }
}

/// The same of a list that is shared.
fn shared_or_default<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Arc<[T]>, D::Error> {
    or_default::<D, Vec<T>>(deserializer).map(Into::into)
}

/// Go writes an empty list as `null`.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Several errors in one text, as `k8s.io/apimachinery/pkg/util/errors` joins them: each once, in brackets when there are several.
fn aggregate(errors: &[String]) -> String {
    let mut seen = HashSet::new();
    let different: Vec<&str> = errors.iter().map(String::as_str).filter(|error| seen.insert(*error)).collect();
    match different[..] {
        [only] => only.to_owned(),
        _ => format!("[{}]", different.join(", ")),
    }
}
