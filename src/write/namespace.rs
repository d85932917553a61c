//! The namespace of a new object must be there and stay (spec api-surface §5.5).

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{
    Writer,
    failure::{Named, Terminating, WriteError},
    place::{Current, Place},
    tree,
};

/// How long etcd is asked about a namespace after its deletion, for the cache may not have heard of it (spec api-surface §5.5).
const LEAVING: Duration = Duration::from_secs(30);

/// Namespaces that are remembered to be leaving. When more leave at once, etcd is asked about all.
const LEAVING_MAX: usize = 4_096;

/// Namespaces that were deleted here a moment ago.
#[derive(Default)]
pub(super) struct Leaving {
    since: Mutex<HashMap<String, Instant>>,
}

impl Leaving {
    /// A namespace is about to be deleted.
    pub(super) fn note(&self, name: &str, now: Instant) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.retain(|_, at| now.saturating_duration_since(*at) < LEAVING);
        // The empty name, which no namespace has, stands for all.
        let name = if since.len() < LEAVING_MAX { name } else { "" };
        since.insert(name.to_owned(), now);
    }

    fn has(&self, name: &str, now: Instant) -> bool {
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let is_leaving = |name: &str| since.get(name).is_some_and(|at| now.saturating_duration_since(*at) < LEAVING);
        !since.is_empty() && (is_leaving(name) || is_leaving(""))
    }
}

impl Writer {
    /// Whether an object may be created at this place.
    pub(super) async fn namespace_takes(&self, place: &Place) -> Result<(), WriteError> {
        let Some(namespace) = &place.namespace else { return Ok(()) };
        let found = self.namespace(namespace).await?;
        let missing = || Named { group: String::new(), kind: "namespaces".to_owned(), name: namespace.clone() };
        let found = found.ok_or_else(|| WriteError::NotFound(missing()))?;
        if tree::text(&found.tree, &["status", "phase"]) == "Terminating" {
            return Err(WriteError::Forbidden {
                of: place.named(),
                why: format!("unable to create new content in namespace {namespace} because it is being terminated"),
                cause: Some(Terminating { namespace: namespace.clone() }),
            });
        }
        Ok(())
    }

    /// kube-apiserver waits 50 ms for its cache before it asks etcd; asking at once comes to the same.
    async fn namespace(&self, name: &str) -> Result<Option<Current>, WriteError> {
        let shelf = self.shelf.load();
        let Some(resource) = shelf.find("", "v1", "namespaces").cloned() else { return Ok(None) };
        let place = Place { resource, namespace: None, name: name.to_owned() };
        let cached = if self.leaving.has(name, Instant::now()) { None } else { self.cached(&place).await };
        match cached {
            Some(found) => Ok(Some(found)),
            None => self.fresh(&place).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_is_remembered_for_a_while_and_within_bounds() {
        let (leaving, now) = (Leaving::default(), Instant::now());
        assert!(!leaving.has("a", now));
        leaving.note("a", now);
        assert!(leaving.has("a", now) && !leaving.has("b", now) && !leaving.has("a", now + LEAVING));
        for n in 0..LEAVING_MAX {
            leaving.note(&n.to_string(), now);
        }
        assert!(leaving.has("b", now), "all are asked about when too many leave");
        leaving.note("c", now + LEAVING);
        assert!(!leaving.has("b", now + LEAVING) && leaving.has("c", now + LEAVING));
    }
}
