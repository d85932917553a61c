//! Snapshots that slow readers hold and that the resource takes back: an old one keeps no object alive that the ring does not keep anyway.
//!
//! What has replaced the objects of a snapshot are events of the ring, which hold both. When the ring forgets an event after the snapshot's revision, a reader
//! that is still at the snapshot could not go on from it either.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::snapshot::Snapshot;
use model::Revision;

/// A snapshot on loan.
pub struct Lent {
    revision: Revision,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    number: u64,
    lender: Weak<Lender>,
}

impl Lent {
    /// The snapshot, unless it was taken back.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.lock().clone()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(lender) = self.lender.upgrade() else { return };
        let mut loans = lender.0.lock();
        loans.lent.remove(&self.number);
    }
}

/// Everything that is on loan from one resource.
#[derive(Default)]
pub(super) struct Lender(Mutex<Loans>);

#[derive(Default)]
struct Loans {
    next: u64,
    /// Only what somebody holds.
    lent: BTreeMap<u64, Weak<Lent>>,
}

impl Lender {
    /// Lends a snapshot whose reader goes on from this revision.
    pub(super) fn lend(self: &Arc<Self>, snapshot: Arc<Snapshot>, revision: Revision) -> Arc<Lent> {
        let mut loans = self.0.lock();
        loans.next += 1;
        let number = loans.next;
        let lent = Arc::new(Lent { revision, snapshot: Mutex::new(Some(snapshot)), number, lender: Arc::downgrade(self) });
        loans.lent.insert(number, Arc::downgrade(&lent));
        lent
    }

    /// Takes back those whose readers could not go on: the ring has forgotten events up to here.
    pub(super) fn take_back(&self, forgotten: Revision) {
        // Let go of after the lock: the last of one takes the lock.
        let mut lent = Vec::new();
        self.0.lock().lent.retain(|_, one| {
            let Some(one) = one.upgrade() else { return false };
            let is_kept = one.revision >= forgotten;
            if !is_kept {
                *one.snapshot.lock() = None;
            }
            lent.push(one);
            is_kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{resource::ResourceState, ring::RingLimits};

    #[test]
    fn what_the_ring_could_not_continue_is_taken_back() {
        let lender = Arc::<Lender>::default();
        let snapshot = || Arc::new(ResourceState::new(RingLimits { events_max: 1, bytes_max: 1, window_ms: 0 }).snapshot());
        let [old, new] = [10, 20].map(|revision| lender.lend(snapshot(), Revision(revision)));
        // Until something was taken back they stayed.
        drop(lender.lend(snapshot(), Revision(30)));
        assert_eq!(lender.0.lock().lent.len(), 2);
        lender.take_back(Revision(10));
        assert!(old.snapshot().is_some() && lender.0.lock().lent.len() == 2);
        lender.take_back(Revision(11));
        assert!(old.snapshot().is_none() && new.snapshot().is_some());
    }
}
