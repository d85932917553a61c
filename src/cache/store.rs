//! Every object of a resource, ordered by the bytes of its storage key: the order that the API shows (spec list-watch §2.13).
//!
//! A clone is a snapshot: the tree is persistent and shares what did not change.

use std::{borrow::Borrow, cmp::Ordering, ops::Bound, sync::Arc};

use imbl::OrdSet;

use crate::model::Object;

/// Ordered persistent set of objects.
#[derive(Clone, Default)]
pub struct Store {
    set: OrdSet<Entry>,
}

/// Orders an object by its key; the key lives inside the object only.
#[derive(Clone)]
struct Entry(Arc<Object>);

impl Store {
    /// From objects in any order; of two with the same key the later one stays.
    #[must_use]
    pub fn from_objects(mut objects: Vec<Arc<Object>>) -> Self {
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        Self { set: objects.into_iter().map(Entry).collect() }
    }

    /// The object under a storage key.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<&Arc<Object>> {
        self.set.get(key).map(|e| &e.0)
    }

    /// Puts an object and returns the one it replaced.
    pub fn put(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        self.set.insert(Entry(object)).map(|e| e.0)
    }

    /// Removes what stands under a key and returns it.
    pub fn remove(&mut self, key: &[u8]) -> Option<Arc<Object>> {
        self.set.remove(key).map(|e| e.0)
    }

    /// The objects whose key starts with `prefix` and is at or after `from`, in key order.
    pub fn scan<'a>(&'a self, prefix: &'a [u8], from: &'a [u8]) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
        let start = if from > prefix { from } else { prefix };
        self.set.range::<_, [u8]>((Bound::Included(start), Bound::Unbounded)).map(|e| &e.0).take_while(move |o| o.key.starts_with(prefix))
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }
}

impl Borrow<[u8]> for Entry {
    fn borrow(&self) -> &[u8] {
        &self.0.key
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}
