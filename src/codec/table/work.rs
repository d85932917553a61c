//! What the columns of a definition may cost: values that paths look at, counted for a row and for all rows of an answer.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Values that the paths of one row may look at, all columns together; the cells behind have no value. A value takes some twenty nanoseconds.
const ROW_VALUES_MAX: u64 = 1 << 17;
/// The same of all rows of an answer.
const ANSWER_VALUES_MAX: u64 = 1 << 25;

/// What is left for the rows of one answer; its clones are of the same.
#[derive(Clone, Debug)]
pub(super) struct OfAnswer(Arc<AtomicU64>);

impl Default for OfAnswer {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(ANSWER_VALUES_MAX)))
    }
}

#[cfg(test)]
impl OfAnswer {
    pub(super) fn of_rows(rows: u64) -> Self {
        Self(Arc::new(AtomicU64::new(rows * ROW_VALUES_MAX)))
    }
}

/// What is left for one row.
#[derive(Debug)]
pub(super) struct Work {
    left: u64,
    begun: u64,
    of: Option<OfAnswer>,
}

impl Work {
    /// For a row of an answer, or for one alone.
    pub(super) fn new(of: Option<&OfAnswer>) -> Self {
        let left = of.map_or(ROW_VALUES_MAX, |of| of.0.load(Relaxed).min(ROW_VALUES_MAX));
        Self { left, begun: left, of: of.cloned() }
    }

    /// Takes so many values more. `None`: there are not so many left.
    pub(super) fn take(&mut self, values: usize) -> Option<()> {
        let left = self.left.checked_sub(values as u64);
        self.left = left.unwrap_or(0);
        left.map(|_| ())
    }

    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(OfAnswer(left)) = &self.of {
            // One answer is written by one thread at a time.
            left.store(left.load(Relaxed).saturating_sub(self.begun - self.left), Relaxed);
        }
    }
}
