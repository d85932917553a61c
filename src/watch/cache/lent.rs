//! Snapshots that slow readers hold and that the resource takes back: an old one keeps no object alive that the ring does not keep anyway.
//!
//! What has replaced the objects of a view are events of the ring, which hold both. When the ring forgets an event after the view's revision, a reader that is
//! still at the view could not go on from it either.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::view::View;
use model::Revision;

/// A view on loan.
pub struct Lent {
    revision: Revision,
    view: Mutex<Option<Arc<View>>>,
}

impl Lent {
    /// The view, unless it was taken back.
    #[must_use]
    pub fn view(&self) -> Option<Arc<View>> {
        lock(&self.view).clone()
    }
}

/// Everything that is on loan from one resource.
#[derive(Default)]
pub(super) struct Lender(Mutex<Vec<Weak<Lent>>>);

impl Lender {
    /// Lends a view whose reader goes on from this revision.
    pub(super) fn lend(&self, view: Arc<View>, revision: Revision) -> Arc<Lent> {
        let lent = Arc::new(Lent { revision, view: Mutex::new(Some(view)) });
        lock(&self.0).push(Arc::downgrade(&lent));
        lent
    }

    /// Takes back those whose readers could not go on: the ring has forgotten events up to here.
    pub(super) fn take_back(&self, forgotten: Revision) {
        let mut lent = lock(&self.0);
        lent.retain(|lent| {
            let Some(lent) = lent.upgrade() else { return false };
            let is_kept = lent.revision >= forgotten;
            if !is_kept {
                *lock(&lent.view) = None;
            }
            is_kept
        });
        let kept = lent.len();
        lent.shrink_to(2 * kept);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change under the lock is whole.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{replica::Replica, ring::RingLimits};

    #[test]
    fn what_the_ring_could_not_continue_is_taken_back() {
        let lender = Lender::default();
        let view = || Arc::new(Replica::new(RingLimits { events_max: 1, bytes_max: 1, window_ms: 0 }).view());
        let [old, new] = [10, 20].map(|revision| lender.lend(view(), Revision(revision)));
        drop(lender.lend(view(), Revision(30)));
        lender.take_back(Revision(10));
        assert!(old.view().is_some() && lock(&lender.0).len() == 2);
        lender.take_back(Revision(11));
        assert!(old.view().is_none() && new.view().is_some());
    }
}
