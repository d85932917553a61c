//! May you: the question that every authorizer is asked, and its answer. An authorizer decides from memory; it waits for nothing.

use std::borrow::Cow;

use crate::user::User;

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
    /// An object, or the objects, of a resource. Empty strings where there is none, as in Kubernetes.
    Resource {
        /// Namespace.
        namespace: &'a str,
        /// API group; empty for the core group.
        group: &'a str,
        /// Version of the group.
        version: &'a str,
        /// Plural name.
        resource: &'a str,
        /// Subresource.
        subresource: &'a str,
        /// Name of the object; of a list, watch or deletecollection the one that its field selector asks for.
        name: &'a str,
    },
    /// A path that is no resource: `/metrics`.
    Path(&'a str),
}

/// What an authorizer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Yes, no, or ask the next one.
    pub decision: Decision,
    /// Why, for reviews, audit and 403 texts; may be empty.
    pub reason: Cow<'static, str>,
    /// What kept the authorizer from knowing everything (`evaluationError`).
    pub error: Option<String>,
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

/// Decides from memory, at once.
pub trait Authorizer: Send + Sync {
    /// The answer for one request.
    fn decide(&self, asked: &Attributes<'_>) -> Verdict;
}
