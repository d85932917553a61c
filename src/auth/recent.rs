//! Remembers a bounded number of things by their digests.

use std::collections::HashMap;
use std::mem;

/// A digest.
pub type Key = [u8; 32];

/// What was used lately. Two halves: when the young one is full, it becomes the old one, and what was there is forgotten at once.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    young: HashMap<Key, V>,
    old: HashMap<Key, V>,
    half_max: usize,
}

impl<V> Recent<V> {
    /// For so many.
    pub(crate) fn new(max: usize) -> Recent<V> {
        Recent { young: HashMap::new(), old: HashMap::new(), half_max: max / 2 }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub(crate) fn put(&mut self, key: Key, value: V) {
        if self.young.len() >= self.half_max {
            self.turn();
        }
        self.young.insert(key, value);
    }

    /// The young half becomes the old one.
    pub(crate) fn turn(&mut self) {
        self.old = mem::take(&mut self.young);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}
