//! A bounded cache by digests, in two generations.

use std::collections::HashMap;
use std::mem;

/// A digest.
pub type Key = [u8; 32];

/// A cache of two halves: when the young one is full, it becomes the old one, and what was there is dropped at once.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    young: HashMap<Key, V>,
    old: HashMap<Key, V>,
    /// Bytes of the young half.
    bytes: usize,
    half_max: usize,
    half_bytes_max: usize,
}

impl<V> Recent<V> {
    /// For so many, each of them small.
    pub(crate) fn new(max: usize) -> Recent<V> {
        Self::within(max, usize::MAX)
    }

    /// For so many, and so many bytes of them.
    pub(crate) fn within(max: usize, bytes_max: usize) -> Recent<V> {
        Recent { young: HashMap::new(), old: HashMap::new(), bytes: 0, half_max: max / 2, half_bytes_max: bytes_max / 2 }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub(crate) fn put(&mut self, key: Key, value: V) {
        self.put_large(key, value, 0);
    }

    /// Remembers something of so many bytes, unless a half has no room for it.
    pub(crate) fn put_large(&mut self, key: Key, value: V, bytes: usize) {
        if bytes > self.half_bytes_max {
            return;
        }
        if self.young.len() >= self.half_max || self.bytes > self.half_bytes_max - bytes {
            self.rotate();
        }
        self.bytes += bytes;
        self.young.insert(key, value);
    }

    /// The young half becomes the old one.
    pub(crate) fn rotate(&mut self) {
        self.old = mem::take(&mut self.young);
        self.bytes = 0;
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}
