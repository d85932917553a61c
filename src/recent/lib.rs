//! A cache that is bounded by number, by bytes and by time: when it is full, what was used least recently goes.

use std::borrow::Borrow;
use std::hash::Hash;

use lru::LruCache;

/// Entries by their keys. `T` is the caller's clock, so that a pure caller has one that it is told.
#[derive(Debug)]
pub struct Recent<K: Eq + Hash, V, T> {
    entries: LruCache<K, Entry<V, T>>,
    /// Of all entries, as their callers count them.
    bytes: usize,
    count_max: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Entry<V, T> {
    value: V,
    bytes: usize,
    since: T,
    until: Option<T>,
}

impl<K: Eq + Hash, V, T: Copy + Ord> Recent<K, V, T> {
    /// Returns one for so many entries of so many bytes together.
    #[must_use]
    pub fn new(count_max: usize, bytes_max: usize) -> Self {
        Self { entries: LruCache::unbounded(), bytes: 0, count_max: count_max.max(1), bytes_max }
    }

    /// Returns what is kept under this key, unless its time is over. A clock that was set back makes nothing last longer.
    pub fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, now: T) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.forget(now);
        if self.entries.peek(key).is_some_and(|entry| entry.since > now) {
            // The clock was set back: when it comes here again, much may have changed.
            let entry = self.entries.pop(key)?;
            self.bytes -= entry.bytes;
            return None;
        }
        let entry = self.entries.get(key)?;
        entry.until.is_none_or(|until| now < until).then_some(&entry.value)
    }

    /// Keeps a value of about so many bytes, until this time if there is one. What takes more than half of the room is not kept.
    pub fn put(&mut self, key: K, value: V, bytes: usize, now: T, until: Option<T>) {
        if bytes > self.bytes_max / 2 || until.is_some_and(|until| until <= now) {
            return;
        }
        self.forget(now);
        if let Some(before) = self.entries.pop(&key) {
            self.bytes -= before.bytes;
        }
        while self.entries.len() >= self.count_max || self.bytes > self.bytes_max - bytes {
            self.pop();
        }
        self.bytes += bytes;
        self.entries.put(key, Entry { value, bytes, since: now, until });
    }

    /// Returns the bytes of all that is kept.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many entries are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Lets go of what is over, from the least recently used on, whoever asks: after a crowd there may be nobody who puts.
    pub fn forget(&mut self, now: T) {
        let had = self.entries.len();
        while self.entries.peek_lru().and_then(|(_, entry)| entry.until).is_some_and(|until| until <= now) {
            self.pop();
        }
        // The table of a crowd goes back, too.
        if had > 0 && self.entries.is_empty() {
            self.entries = LruCache::unbounded();
        }
    }

    /// Lets go of what was used least recently.
    pub fn pop(&mut self) {
        self.bytes -= self.entries.pop_lru().map_or(0, |(_, entry)| entry.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent() -> Recent<&'static str, u32, u32> {
        Recent::new(10, 1_000)
    }

    #[test]
    fn a_value_is_kept_for_its_time() {
        let mut kept = recent();
        kept.put("a", 1, 10, 5, Some(7));
        kept.put("none", 1, 10, 5, Some(5));
        kept.put("for good", 1, 10, 5, None);
        assert_eq!((kept.get("a", 6).copied(), kept.get("b", 6).copied(), kept.get("none", 5).copied()), (Some(1), None, None));
        assert_eq!((kept.get("a", 4).copied(), kept.get("a", 7).copied(), kept.get("for good", u32::MAX).copied()), (None, None, Some(1)));
        kept.put("for good", 2, 20, 8, None);
        assert_eq!((kept.get("for good", 8).copied(), kept.len(), kept.bytes()), (Some(2), 1, 20));
    }

    #[test]
    fn a_clock_that_was_set_back_forgets() {
        let mut kept = recent();
        kept.put("a", 1, 10, 50, Some(60));
        assert_eq!((kept.get("a", 40).copied(), kept.get("a", 55).copied(), kept.bytes()), (None, None, 0));
    }

    /// They stayed until as many others had come.
    #[test]
    fn what_is_over_is_forgotten_by_whoever_asks() {
        let mut kept = Recent::new(10, 1_000);
        (0..8).for_each(|key| kept.put(key, key, 100, 0, Some(1 + key)));
        assert_eq!((kept.get(&100, 5).copied(), kept.len(), kept.bytes()), (None, 3, 300));
        kept.put(9, 9, 100, 5, Some(6));
        assert_eq!((kept.get(&100, 8).copied(), kept.len(), kept.bytes()), (None, 0, 0));
    }

    #[test]
    fn memory_has_a_limit_and_what_is_used_stays() {
        let mut kept = Recent::new(10, 1_000);
        for key in 0..100 {
            kept.put(key, key, 1, 0, Some(100));
            kept.put(key, key, 501, 0, Some(100));
            assert!(kept.len() <= 10 && (key == 0 || kept.get(&0, 0).is_some()), "{key}");
        }
        assert!(kept.get(&99, 0).is_some() && kept.get(&1, 0).is_none());
        for key in 0..100 {
            kept.put(key, key, 400, 0, Some(100));
            assert!(kept.bytes() <= 1_000);
        }
        assert_eq!((kept.len(), kept.bytes()), (2, 800));
        kept.put(7, 7, 500, 0, None);
        kept.put(7, 7, 300, 0, None);
        assert_eq!((kept.len(), kept.bytes()), (2, 700), "an entry that is put again counts once");
    }
}
