//! When to compact unasked, and to where: etcd's periodic mode of `--auto-compaction-retention`. Time comes in as an argument.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Revisions are noted so many times in a retention period, as in etcd.
const NOTES_PER_PERIOD: u32 = 10;

/// Keeps the history of one period.
pub(super) struct Retention {
    period: Duration,
    next: Instant,
    /// When each revision was the newest, oldest first; those of a period and one before.
    notes: VecDeque<(Instant, i64)>,
}

impl Retention {
    pub(super) fn new(period: Duration, now: Instant) -> Self {
        Self { period, next: now, notes: VecDeque::new() }
    }

    /// When to ask again.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// The revision to compact to, now that `revision` is the newest.
    pub(super) fn due(&mut self, now: Instant, revision: i64) -> Option<i64> {
        if now < self.next {
            return None;
        }
        self.next = now + self.period / NOTES_PER_PERIOD;
        self.notes.push_back((now, revision));
        let mut old = None;
        while let Some((at, noted)) = self.notes.front()
            && now.saturating_duration_since(*at) >= self.period
        {
            old = Some(*noted);
            self.notes.pop_front();
        }
        old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_of_one_period_stays() {
        let now = Instant::now();
        let at = |seconds: u64| now + Duration::from_secs(seconds);
        let mut retention = Retention::new(Duration::from_secs(100), now);
        assert_eq!(retention.due(now, 5), None);
        assert_eq!(retention.due(at(9), 6), None, "not yet time");
        for tenth in 1..10 {
            assert_eq!(retention.due(at(tenth * 10), 5 + tenth as i64), None);
        }
        assert_eq!(retention.due(at(100), 99), Some(5));
        assert_eq!(retention.due(at(135), 100), Some(8));
        assert_eq!(retention.next(), at(145));
    }
}
