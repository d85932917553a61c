//! How long a scan keeps its thread: by the clock, whatever the objects and the selectors are like.

use std::time::{Duration, Instant};

/// After so long a scan lets others run. A thread that is waited for by every connection should be free within the time of a small request.
pub(super) const SCAN_TIME: Duration = Duration::from_millis(1);

/// Looks between two looks at the clock. A look takes 5 to 300 ns (at an object, at one of its labels), the clock 30.
const LOOKS: usize = 256;

/// The time of one scan since it last rested.
pub(super) struct Pace {
    since: Instant,
    looks: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { since: Instant::now(), looks: 0 }
    }
}

impl Pace {
    /// Whether it is time to rest, after so many more looks.
    pub(super) fn is_due(&mut self, looks: usize) -> bool {
        self.looks += looks;
        if self.looks < LOOKS {
            return false;
        }
        self.looks = 0;
        self.since.elapsed() >= SCAN_TIME
    }

    /// Lets others run.
    pub(super) async fn rest(&mut self) {
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
        let mut pace = Pace::default();
        assert!(!pace.is_due(LOOKS), "it has just begun");
        std::thread::sleep(SCAN_TIME);
        assert!((1..LOOKS).all(|_| !pace.is_due(1)), "the clock is not looked at for every look");
        assert!(pace.is_due(1));
        assert!(pace.is_due(100 * LOOKS), "one large object is looked at at once");
    }
}
