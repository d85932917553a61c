//! What health checks find.

use std::sync::Arc;

use cache::state::snapshot::Fault;
use registry::{Resource, ServedResources};
use serde_json::Value;
use upstream::Reason;

/// A check and what is wrong, if anything.
pub type Check = (&'static str, Option<Wrong>);

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub(super) why: String,
    /// The endpoint fails with it; else it is only told.
    pub(super) fails: bool,
    /// The list of checks says why.
    pub(super) is_told: bool,
}

impl Wrong {
    pub(super) fn fails(why: impl Into<String>) -> Self {
        Self { why: why.into(), fails: true, is_told: false }
    }

    pub(super) fn noted(why: impl Into<String>) -> Self {
        Self { why: why.into(), fails: false, is_told: false }
    }

    /// What is only told, and may be read by whoever reads the list of checks.
    pub(super) fn told(why: impl Into<String>) -> Self {
        Self { why: why.into(), fails: false, is_told: true }
    }
}

/// What this server knows of an API server behind it.
pub trait Behind: Send + Sync {
    /// What `/readyz` says of it: of upstream, of what that serves, and of the etcd that should be its own.
    fn checks(&self, resources: &ServedResources) -> Vec<Check>;

    /// What `/watchcache/status` says of it.
    fn status(&self) -> Value;

    /// Whether objects come from it, and not from an etcd.
    fn is_source(&self) -> bool;

    /// Which resources were asked for that it does not bring, or not yet, and why.
    fn not_followed(&self, resources: &ServedResources) -> Option<String>;

    /// How it has failed last, if it ever has.
    fn fault(&self) -> Option<Arc<Fault>>;

    /// Why it answers requests for a resource now that could be answered from memory; none when they are.
    fn forwarded_for(&self, resource: &Resource) -> Option<Reason>;

    /// Whether it answered when it was looked at last.
    fn answers(&self) -> bool;
}
