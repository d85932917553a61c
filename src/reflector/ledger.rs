//! How many bytes of objects all resources may have together: a load that would go beyond that is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The part of `--memory-budget`, in percent, that objects may have: the rest is for history, watches, answers under way.
const OBJECTS_PART: u64 = 75;
/// Bytes of an object in memory beside its JSON.
const OBJECT_BYTES: usize = 512;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Ledger {
    held: AtomicUsize,
    max: usize,
}

/// What one load has; it is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    ledger: Arc<Ledger>,
    bytes: usize,
}

impl Ledger {
    /// Within this budget of the whole process, if there is one.
    pub(crate) fn within(budget: Option<u64>) -> Arc<Self> {
        let max = budget.map_or(usize::MAX, |bytes| usize::try_from(bytes / 100 * OBJECTS_PART).unwrap_or(usize::MAX));
        Arc::new(Self { held: AtomicUsize::new(0), max })
    }

    /// A load begins.
    pub(crate) fn begin(self: &Arc<Self>) -> Held {
        Held { ledger: self.clone(), bytes: 0 }
    }
}

impl Held {
    /// Takes room for so many objects with so many bytes of JSON.
    ///
    /// # Errors
    /// There is none, in words for people. What was taken until now stays taken.
    pub(crate) fn take(&mut self, objects: usize, bytes: usize) -> Result<(), String> {
        let more = bytes.saturating_add(objects.saturating_mul(OBJECT_BYTES));
        let fits = |held: usize| held.checked_add(more).filter(|all| *all <= self.ledger.max);
        match self.ledger.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => {
                self.bytes += more;
                Ok(())
            }
            Err(held) => Err(format!(
                "its objects have more than {} bytes, and those of other resources {}: --memory-budget leaves {} for objects",
                self.bytes,
                held - self.bytes,
                self.ledger.max
            )),
        }
    }

    /// Gives back what was taken, and begins anew.
    pub(crate) fn anew(&self) -> Self {
        self.ledger.begin()
    }

    /// Bytes that were taken.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ledger.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_within_the_budget() {
        let ledger = Ledger::within(Some(10_000));
        let mut first = ledger.begin();
        first.take(1, 3_000).expect("there is room");
        let mut second = ledger.begin();
        second.take(1, 3_000).expect("there is room");
        let why = second.take(1, 1_000).expect_err("there is none");
        assert!(why.contains("more than 3512 bytes, and those of other resources 3512") && why.contains("leaves 7500"), "{why}");
        drop(first);
        second.take(1, 1_000).expect("there is room again");
        drop(second);
        assert_eq!(ledger.held.load(Ordering::Relaxed), 0);
        Ledger::within(None).begin().take(1_000, usize::MAX / 2).expect("without a budget there is room");
    }
}
