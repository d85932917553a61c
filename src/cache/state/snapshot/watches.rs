//! How many watches of a resource there are, and what their groups hold.

use std::sync::Arc;

use super::Published;
use crate::state::sync::{AtomicUsize, Ordering};

/// The counts of one resource.
#[derive(Default)]
pub(super) struct WatchCounts {
    /// Watches that are open.
    open: AtomicUsize,
    /// Groups of watches; its cacher writes.
    groups: AtomicUsize,
    /// Bytes of the groups' logs; its cacher writes when it tidies.
    log_bytes: AtomicUsize,
}

/// A watch that is open, as long as this lives.
pub struct OpenWatch(Arc<Published>);

impl OpenWatch {
    /// One more of this resource.
    #[must_use]
    pub fn of(published: Arc<Published>) -> Self {
        published.watches.open.fetch_add(1, Ordering::Relaxed);
        Self(published)
    }
}

impl std::ops::Deref for OpenWatch {
    type Target = Arc<Published>;

    fn deref(&self) -> &Arc<Published> {
        &self.0
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.watches.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Published {
    /// How many watches are open.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.watches.open.load(Ordering::Relaxed)
    }

    /// Notes how many groups of watches there are.
    pub fn tell_groups(&self, groups: usize) {
        self.watches.groups.store(groups, Ordering::Relaxed);
    }

    /// Notes how many bytes their logs hold.
    pub fn tell_log_bytes(&self, bytes: usize) {
        self.watches.log_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns how many groups of watches there are.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.watches.groups.load(Ordering::Relaxed)
    }

    /// Returns how many bytes the groups' logs held when they were tidied last.
    #[must_use]
    pub fn log_bytes(&self) -> usize {
        self.watches.log_bytes.load(Ordering::Relaxed)
    }
}
