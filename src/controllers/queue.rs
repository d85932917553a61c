//! What a controller looks at next: each key at most once, when it is due, later and later while it fails. Bounded by the keys that there are.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    time::{Duration, Instant},
};

use retry::Backoff;

/// Keys and when they are due.
pub(super) struct Queue<K> {
    backoff: Backoff,
    due: BTreeSet<(Instant, K)>,
    entries: HashMap<K, Entry>,
}

#[derive(Default)]
struct Entry {
    due: Option<Instant>,
    /// It is being worked on: what is added meanwhile waits for the end.
    is_running: bool,
    /// Failures in a row.
    failures: u32,
}

/// How work on a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// There is nothing to do until it is added again.
    Rest,
    /// It is looked at again after this time.
    Wait(Duration),
    /// It failed, and is tried again.
    Retry,
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// Returns an empty queue, whose failures wait so long.
    pub(super) fn new(backoff: Backoff) -> Self {
        Self { backoff, due: BTreeSet::new(), entries: HashMap::new() }
    }

    /// Has the key looked at at this time, or before if it is due before.
    pub(super) fn add(&mut self, key: K, at: Instant) {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.due.is_some_and(|due| due <= at) {
            return;
        }
        let before = entry.due.replace(at);
        if !entry.is_running {
            if let Some(before) = before {
                self.due.remove(&(before, key.clone()));
            }
            self.due.insert((at, key));
        }
    }

    /// Takes the first key that is due; it is said by [`Queue::done`] when its work has ended.
    pub(super) fn take(&mut self, now: Instant) -> Option<K> {
        if self.next_due()? > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        let entry = self.entries.get_mut(&key)?;
        (entry.due, entry.is_running) = (None, true);
        Some(key)
    }

    /// When the first key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Notes how the work on a key has ended.
    pub(super) fn done(&mut self, key: &K, after: After, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.is_running = false;
        let pause = match after {
            After::Rest => None,
            After::Wait(pause) => Some(pause),
            After::Retry => Some(self.backoff.wait(entry.failures)),
        };
        entry.failures = if after == After::Retry { entry.failures.saturating_add(1) } else { 0 };
        let again = pause.map(|pause| now + pause);
        entry.due = entry.due.into_iter().chain(again).min();
        match entry.due {
            Some(at) => drop(self.due.insert((at, key.clone()))),
            None => drop(self.entries.remove(key)),
        }
    }

    /// How many keys failed the last time.
    pub(super) fn failing(&self) -> usize {
        self.entries.values().filter(|entry| entry.failures > 0).count()
    }

    /// Whether nothing waits and nothing runs.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn queue() -> (Queue<&'static str>, Instant) {
        (Queue::new(Backoff::doubling(SECOND, SECOND * 4, 0.0)), Instant::now())
    }

    #[test]
    fn a_key_waits_once_and_for_the_earlier_time() {
        let (mut queue, now) = queue();
        queue.add("a", now + SECOND);
        queue.add("a", now);
        queue.add("a", now + SECOND * 2);
        assert_eq!((queue.take(now), queue.take(now)), (Some("a"), None));
        queue.done(&"a", After::Rest, now);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_is_added_during_the_work_is_looked_at_after_it() {
        let (mut queue, now) = queue();
        queue.add("a", now);
        assert_eq!(queue.take(now), Some("a"));
        queue.add("a", now);
        assert_eq!(queue.take(now), None, "never twice at once");
        queue.done(&"a", After::Wait(SECOND), now);
        assert_eq!(queue.take(now), Some("a"));
        queue.done(&"a", After::Wait(SECOND), now);
        assert_eq!((queue.take(now), queue.next_due()), (None, Some(now + SECOND)));
    }

    #[test]
    fn failures_wait_longer_and_longer_until_one_does_not_fail() {
        let (mut queue, mut now) = queue();
        queue.add("a", now);
        let mut waits = Vec::new();
        for _ in 0..4 {
            now = queue.next_due().expect("it waits");
            assert_eq!(queue.take(now), Some("a"));
            queue.done(&"a", After::Retry, now);
            waits.push(queue.next_due().expect("it is tried again") - now);
        }
        assert_eq!((waits, queue.failing()), (vec![SECOND, SECOND * 2, SECOND * 4, SECOND * 4], 1));
        now = queue.next_due().expect("it waits");
        assert_eq!(queue.take(now), Some("a"));
        queue.done(&"a", After::Rest, now);
        assert!(queue.is_empty());
    }
}
