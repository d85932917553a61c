//! How what has failed is tried again: how long it waits before the next try, and how often it says why.

use std::time::{Duration, Instant};

/// Waits that grow with each failure in a row.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait, without its jitter.
    pub max: Duration,
    /// Each wait is so many times the one before.
    pub factor: f64,
    /// Up to this part of a wait is added at random, or taken away if it is negative.
    pub jitter: f64,
}

impl Backoff {
    /// Returns waits that double from `first` to `max`.
    #[must_use]
    pub const fn doubling(first: Duration, max: Duration, jitter: f64) -> Self {
        Self { first, max, factor: 2.0, jitter }
    }

    /// Returns the wait after a failure before which there were `failures` in a row.
    #[must_use]
    pub fn wait(&self, failures: u32) -> Duration {
        let power = i32::try_from(failures).unwrap_or(i32::MAX);
        let full = (self.first.as_secs_f64() * self.factor.powi(power)).min(self.max.as_secs_f64());
        let wait = full * (1.0 + self.jitter * rand::random::<f64>());
        Duration::try_from_secs_f64(wait).unwrap_or(self.max)
    }
}

/// Limits how often a failure that lasts is logged. (`telemetry` limits all lines of one place in the code, which is more often.)
#[derive(Debug)]
pub struct Reminder {
    every: Duration,
    last: Option<Instant>,
}

impl Reminder {
    /// Returns one that is due at once, and then once in `every`.
    #[must_use]
    pub const fn every(every: Duration) -> Self {
        Self { every, last: None }
    }

    /// Returns whether the failure should be logged now; then it is not due again for a while.
    pub fn is_due(&mut self) -> bool {
        self.is_due_at(Instant::now())
    }

    fn is_due_at(&mut self, now: Instant) -> bool {
        let is_due = self.last.is_none_or(|last| now.saturating_duration_since(last) >= self.every);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_the_longest_and_keep_their_jitter() {
        let second = Duration::from_secs(1);
        let exact = Backoff::doubling(second, second * 300, 0.0);
        let waits: Vec<u64> = (0..12).map(|failures| exact.wait(failures).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        for failures in (0..100).chain([u32::MAX]) {
            let full = exact.wait(failures);
            let (shorter, longer) = (Backoff { jitter: -0.5, ..exact }.wait(failures), Backoff { jitter: 0.2, ..exact }.wait(failures));
            assert!(shorter >= full / 2 && shorter <= full, "{failures}: {shorter:?} of {full:?}");
            assert!(longer >= full && longer <= full.mul_f64(1.2), "{failures}: {longer:?} of {full:?}");
        }
        let unlimited = Backoff { first: second, max: Duration::MAX, factor: 1.5, jitter: 0.2 };
        assert!(unlimited.wait(1) >= second.mul_f64(1.5) && unlimited.wait(1_000) == Duration::MAX);
    }

    #[test]
    fn a_failure_that_lasts_is_logged_once_in_a_while() {
        let (mut reminder, start) = (Reminder::every(Duration::from_secs(10)), Instant::now());
        let due: Vec<u64> = (0..25).filter(|second| reminder.is_due_at(start + Duration::from_secs(*second))).collect();
        assert_eq!(due, [0, 10, 20]);
    }
}
