//! The namespace of a new object must be there and stay (spec api-surface §5.5); it is ours, or that of the cluster that this server extends.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use super::{
    Writer,
    failure::{ForbiddenCause, StatusSubject, WriteError},
    object_ref::{Current, ObjectRef},
    tree,
};
use upstream::host::{Phase, Unknown};

/// How long etcd is asked about a namespace after its deletion, because the cache may not know of it yet (spec api-surface §5.5).
const REMEMBERED_FOR: Duration = Duration::from_secs(30);

/// Namespaces that are remembered to be terminating. When there are more at once, etcd is asked about all.
const TERMINATING_MAX: usize = 4_096;

/// The namespaces that were deleted here a moment ago.
#[derive(Default)]
pub(super) struct TerminatingNamespaces {
    since: Mutex<HashMap<String, Instant>>,
}

impl TerminatingNamespaces {
    /// Notes that this namespace is about to be deleted. It exists: names that a client made up are not kept.
    pub(super) fn note(&self, namespace: &Current, now: Instant) {
        let mut recent = self.recent(now);
        // The empty name, which no namespace has, stands for all.
        let name = if recent.len() < TERMINATING_MAX { tree::text(&namespace.tree, &["metadata", "name"]) } else { "" };
        recent.insert(name.to_owned(), now);
    }

    fn has(&self, name: &str, now: Instant) -> bool {
        let recent = self.recent(now);
        recent.contains_key(name) || recent.contains_key("")
    }

    /// Those that are remembered still; the others are forgotten.
    fn recent(&self, now: Instant) -> MutexGuard<'_, HashMap<String, Instant>> {
        let mut since = self.since.lock();
        since.retain(|_, at| now.saturating_duration_since(*at) < REMEMBERED_FOR);
        since
    }
}

impl Writer {
    /// Checks that the namespace of a new object exists and is not being terminated.
    ///
    /// # Errors
    /// See [`WriteError`]: the namespace is not there, or is being terminated.
    pub async fn check_namespace(&self, target: &ObjectRef) -> Result<(), WriteError> {
        let Some(namespace) = &target.namespace else { return Ok(()) };
        let phase = match &self.host {
            Some(host) => host.phase(namespace, fair::asker()).await?,
            None => self.namespace(namespace).await?.map(|found| match tree::text(&found.tree, &["status", "phase"]) {
                "Terminating" => Phase::Terminating,
                _ => Phase::Active,
            }),
        };
        let missing = || StatusSubject { group: String::new(), kind: "namespaces".to_owned(), name: namespace.clone() };
        if phase.ok_or_else(|| WriteError::NotFound(missing()))? == Phase::Terminating {
            return Err(WriteError::Forbidden {
                of: target.subject(),
                why: format!("unable to create new content in namespace {namespace} because it is being terminated"),
                cause: Some(ForbiddenCause::Terminating(namespace.clone())),
            });
        }
        Ok(())
    }

    /// kube-apiserver waits 50 ms for its cache before it asks etcd; asking at once comes to the same.
    pub(super) async fn namespace(&self, name: &str) -> Result<Option<Current>, WriteError> {
        let resources = self.resources.load();
        let Some(resource) = resources.find("", "v1", "namespaces").cloned() else { return Ok(None) };
        let target = ObjectRef { resource, namespace: None, name: name.to_owned() };
        let cached = if self.terminating.has(name, Instant::now()) { None } else { self.cached(&target).await };
        match cached {
            Some(found) => Ok(Some(found)),
            None => self.fresh(&target).await,
        }
    }
}

impl From<Unknown> for WriteError {
    fn from(unknown: Unknown) -> Self {
        match unknown {
            Unknown::TooMany(too_many) => WriteError::TooMany(too_many.to_string()),
            Unknown::NoAnswer(why) => WriteError::Internal(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use model::Revision;

    fn named(name: &str) -> Current {
        Current { tree: json!({"metadata": {"name": name}}), revision: Revision(7), is_large: false, stored: None }
    }

    #[test]
    fn what_leaves_is_remembered_for_a_while_and_within_bounds() {
        let (terminating, now) = (TerminatingNamespaces::default(), Instant::now());
        assert!(!terminating.has("a", now));
        terminating.note(&named("a"), now);
        assert!(terminating.has("a", now) && !terminating.has("b", now));
        for n in 0..TERMINATING_MAX {
            terminating.note(&named(&n.to_string()), now);
        }
        assert!(terminating.has("b", now), "all are asked about when too many leave");
        terminating.note(&named("c"), now + REMEMBERED_FOR);
        assert!(!terminating.has("b", now + REMEMBERED_FOR) && terminating.has("c", now + REMEMBERED_FOR));
        assert!(!terminating.has("c", now + 2 * REMEMBERED_FOR) && terminating.recent(now).is_empty(), "who asks forgets");
    }
}
