//! Makes long scans yield their thread: by the clock, whatever the objects and the selectors are like.

use std::time::{Duration, Instant};

/// A scan yields after so long: a thread that every connection waits for should be free within the time of a small request.
pub(super) const SCAN_TIME: Duration = Duration::from_millis(1);

/// Steps between two readings of the clock. A step takes 5 to 300 ns (an object, one of its labels), the clock 30.
const STEPS: usize = 256;

/// Counts the time of one scan since it last yielded.
pub(super) struct Yielder {
    since: Instant,
    steps: usize,
}

impl Default for Yielder {
    fn default() -> Self {
        Self { since: Instant::now(), steps: 0 }
    }
}

impl Yielder {
    /// Whether it is time to yield, after so many more steps.
    pub(super) fn is_due(&mut self, steps: usize) -> bool {
        self.steps += steps;
        if self.steps < STEPS {
            return false;
        }
        self.steps = 0;
        self.since.elapsed() >= SCAN_TIME
    }

    /// Yields to other tasks.
    pub(super) async fn yield_now(&mut self) {
        tokio::task::yield_now().await;
        self.since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However few or many looks one step is: the clock is looked at in time.
    #[test]
    fn a_scan_is_due_by_the_clock() {
        let mut yielder = Yielder::default();
        assert!(!yielder.is_due(STEPS), "it has just begun");
        std::thread::sleep(SCAN_TIME);
        assert!((1..STEPS).all(|_| !yielder.is_due(1)), "the clock is not looked at for every look");
        assert!(yielder.is_due(1));
        assert!(yielder.is_due(100 * STEPS), "one large object is looked at at once");
    }
}
