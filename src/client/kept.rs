//! Answers that are kept for a while, so that the same question is not asked again. Bounded in number and bytes; the oldest go first.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// See the file's header. Two halves: when the young one is full, it becomes the old one, and what was there is forgotten at once.
#[derive(Debug)]
pub struct Kept<K, A> {
    halves: Mutex<Halves<K, A>>,
    half_count_max: usize,
    half_bytes_max: usize,
}

#[derive(Debug)]
struct Halves<K, A> {
    young: HashMap<K, Entry<A>>,
    old: HashMap<K, Entry<A>>,
    /// Of the young half.
    bytes: usize,
    /// When no answer of the young half is good any more, and none of the old one.
    ends: [Option<Instant>; 2],
}

#[derive(Debug)]
struct Entry<A> {
    answer: A,
    until: Instant,
}

impl<K: Eq + Hash, A: Clone> Kept<K, A> {
    /// For so many answers of so many bytes together.
    #[must_use]
    pub fn new(count_max: usize, bytes_max: usize) -> Self {
        let halves = Halves { young: HashMap::new(), old: HashMap::new(), bytes: 0, ends: [None; 2] };
        Kept { halves: Mutex::new(halves), half_count_max: count_max / 2, half_bytes_max: bytes_max / 2 }
    }

    /// The answer, if it is still good.
    pub fn get(&self, key: &K) -> Option<A> {
        let (mut halves, now) = (self.halves.lock(), Instant::now());
        halves.forget(now);
        let entry = halves.young.get(key).or_else(|| halves.old.get(key))?;
        (now < entry.until).then(|| entry.answer.clone())
    }

    /// Keeps an answer of about so many bytes for this long.
    pub fn put(&self, key: K, answer: A, bytes: usize, time: Duration) {
        if time.is_zero() || bytes > self.half_bytes_max {
            return;
        }
        let (mut halves, now) = (self.halves.lock(), Instant::now());
        halves.forget(now);
        if halves.young.len() >= self.half_count_max || halves.bytes + bytes > self.half_bytes_max {
            halves.old = mem::take(&mut halves.young);
            halves.bytes = 0;
            halves.ends = [None, halves.ends[0]];
        }
        let until = now + time;
        halves.bytes += bytes;
        halves.ends[0] = halves.ends[0].max(Some(until));
        halves.young.insert(key, Entry { answer, until });
    }
}

impl<K, A> Halves<K, A> {
    /// Lets go of a half when all of it is over: after a crowd no answer may come that turns them.
    fn forget(&mut self, now: Instant) {
        let is_over = |end: Option<Instant>| end.is_some_and(|end| end <= now);
        if is_over(self.ends[0]) {
            (self.young, self.bytes, self.ends[0]) = (HashMap::new(), 0, None);
        }
        if is_over(self.ends[1]) {
            (self.old, self.ends[1]) = (HashMap::new(), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_its_time() {
        let kept = Kept::new(10, 1000);
        kept.put("a", 1, 10, Duration::from_secs(2));
        kept.put("none", 1, 10, Duration::ZERO);
        assert_eq!((kept.get(&"a"), kept.get(&"b"), kept.get(&"none")), (Some(1), None, None));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(kept.get(&"a"), None);
    }

    /// They stayed until as many others had come.
    #[tokio::test(start_paused = true)]
    async fn what_is_over_is_forgotten_by_whoever_asks() {
        let kept = Kept::new(10, 1000);
        for key in 0..8 {
            kept.put(key, key, 100, Duration::from_secs(1 + key));
        }
        let count = |kept: &Kept<u64, u64>| {
            let halves = kept.halves.lock();
            (halves.young.len(), halves.old.len(), halves.bytes)
        };
        assert_eq!(count(&kept), (3, 5, 300));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!((kept.get(&100), count(&kept)), (None, (3, 0, 300)));
        kept.put(9, 9, 100, Duration::from_secs(1));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!((kept.get(&100), count(&kept)), (None, (0, 0, 0)));
    }

    #[tokio::test]
    async fn memory_has_a_limit() {
        let kept = Kept::new(10, 1000);
        for key in 0..100 {
            kept.put(key, key, 1, Duration::from_secs(100));
            kept.put(key, key, 501, Duration::from_secs(100));
        }
        let count = |kept: &Kept<i32, i32>| {
            let halves = kept.halves.lock();
            halves.young.len() + halves.old.len()
        };
        assert!(count(&kept) <= 10 && kept.get(&99).is_some() && kept.get(&1).is_none());
        for key in 0..100 {
            kept.put(key, key, 400, Duration::from_secs(100));
        }
        assert_eq!(count(&kept), 2);
    }
}
