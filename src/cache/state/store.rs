//! Every object of a resource, ordered by the bytes of its storage key: the order that the API shows (spec list-watch §2.13).
//!
//! A clone is a snapshot: the tree is persistent and shares what did not change.

use std::{borrow::Borrow, cmp::Ordering, ops::Bound, sync::Arc};

use imbl::OrdSet;

use super::{
    index::Index,
    learner::{Due, Reader},
};
use model::{Filter, Object, Term};

/// Indexes of one resource. Each takes some 25 bytes an object, and a write moves the object in each.
pub(super) const INDEXES_MAX: usize = 8;

/// Indexes that are made for one reader, and how many times as much as the least used one another must spare to take its place.
const INDEXES_EACH_MAX: usize = INDEXES_MAX / 2;
const BETTER: u64 = 2;

/// Where an index goes.
enum Place {
    Free,
    /// In the place of another one.
    Of(usize),
}

/// Where several indexes know an object, the one with the fewest is taken; this many are counted.
const COUNTED: usize = 1_024;

/// Ordered persistent set of objects, and indexes of it that agree with it.
#[derive(Clone, Default)]
pub struct Store {
    set: OrdSet<Entry>,
    indexes: Vec<Index>,
    /// Of the objects.
    bytes: usize,
}

/// Orders an object by its key; the key lives inside the object only.
#[derive(Clone)]
struct Entry(Arc<Object>);

impl Store {
    /// From objects in any order; of two with the same key the later one stays.
    #[must_use]
    pub fn from_objects(mut objects: Vec<Arc<Object>>) -> Self {
        objects.sort_by(|a, b| a.key().cmp(b.key()));
        let set: OrdSet<Entry> = objects.into_iter().map(Entry).collect();
        let bytes = set.iter().map(|entry| entry.0.weight()).sum();
        Self { set, indexes: Vec::new(), bytes }
    }

    /// The object under a storage key.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<&Arc<Object>> {
        self.set.get(key).map(|e| &e.0)
    }

    /// Puts an object and returns the one it replaced.
    pub fn put(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let old = self.set.insert(Entry(object.clone())).map(|e| e.0);
        self.bytes = self.bytes + object.weight() - old.as_ref().map_or(0, |old| old.weight());
        self.indexes.iter_mut().for_each(|index| index.moved(old.as_ref(), Some(&object)));
        old
    }

    /// Removes what stands under a key and returns it.
    pub fn remove(&mut self, key: &[u8]) -> Option<Arc<Object>> {
        let old = self.set.remove(key).map(|e| e.0);
        self.bytes -= old.as_ref().map_or(0, |old| old.weight());
        self.indexes.iter_mut().for_each(|index| index.moved(old.as_ref(), None));
        old
    }

    /// The objects whose key starts with `prefix` and is at or after `from`, in key order.
    pub fn scan<'a>(&'a self, prefix: &'a [u8], from: &'a [u8]) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
        let start = if from > prefix { from } else { prefix };
        let end = past(prefix);
        // With both bounds the tree is walked by itself: a count of what is left of a long list touches no object.
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.set.range::<_, [u8]>((Bound::Included(start), end)).map(|e| &e.0)
    }

    /// How many these are, if that is known without a look at each: all of them, or none.
    #[must_use]
    pub fn count_at_once(&self, prefix: &[u8], from: &[u8]) -> Option<usize> {
        let (Some(first), Some(last)) = (self.set.get_min(), self.set.get_max()) else { return Some(0) };
        let has_all = [first, last].iter().all(|entry| entry.0.key().starts_with(prefix)) && from <= first.0.key();
        has_all.then_some(self.len())
    }

    /// Of the same objects those that a filter may match, and others only where no index tells them apart; in key order.
    pub fn select<'a>(&'a self, filter: &Filter, prefix: &'a [u8], from: &'a [u8]) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
        let filed = self.narrowest(filter, prefix, from).map(|(index, value)| index.scan(value, prefix, from));
        let all = filed.is_none().then(|| self.scan(prefix, from));
        filed.into_iter().flatten().chain(all.into_iter().flatten())
    }

    fn narrowest<'f>(&self, filter: &'f Filter, prefix: &[u8], from: &[u8]) -> Option<(&Index, &'f str)> {
        let mut asked = self.indexes.iter().filter_map(|index| Some((index, filter.asks(index.term())?)));
        let first = asked.next()?;
        let Some(second) = asked.next() else { return Some(first) };
        [first, second].into_iter().chain(asked).min_by_key(|(index, value)| index.scan(value, prefix, from).take(COUNTED).count())
    }

    /// Adds an index of exactly these objects; of one term there is one. Where there are as many as may be, it takes the place of the least used one, if that
    /// is used less.
    pub(super) fn add(&mut self, index: Index) {
        if self.is_indexed(index.term()) {
            return;
        }
        match self.place(index.reader(), index.spared()) {
            Some(Place::Free) => self.indexes.push(index),
            Some(Place::Of(least)) => self.indexes[least] = index,
            None => {}
        }
    }

    /// Whether an index would be added.
    pub(super) fn has_place(&self, due: &Due) -> bool {
        self.place(due.reader, due.in_vain).is_some()
    }

    /// Where an index goes that would spare so much. A reader who has his share takes no place but of his own.
    fn place(&self, reader: Reader, spares: u64) -> Option<Place> {
        let is_at_share = self.indexes.iter().filter(|index| index.reader() == reader).count() >= INDEXES_EACH_MAX;
        if !is_at_share && self.indexes.len() < INDEXES_MAX {
            return Some(Place::Free);
        }
        let may_go = (0..self.indexes.len()).filter(|at| !is_at_share || self.indexes[*at].reader() == reader);
        let least = may_go.min_by_key(|at| self.indexes[*at].spared())?;
        (self.indexes[least].spared().saturating_mul(BETTER) < spares).then_some(Place::Of(least))
    }

    /// Drops the indexes that nobody has used for long.
    pub(super) fn drop_unused(&mut self, now_ms: u64) {
        let objects = self.set.len();
        self.indexes.retain_mut(|index| index.is_used(objects, now_ms));
    }

    /// Drops all indexes.
    pub(super) fn drop_indexes(&mut self) {
        self.indexes = Vec::new();
    }

    /// Whether there is an index by this.
    pub(super) fn is_indexed(&self, term: &Term) -> bool {
        self.indexes.iter().any(|index| index.term() == term)
    }

    /// Number of indexes.
    #[must_use]
    pub fn indexes(&self) -> usize {
        self.indexes.len()
    }

    /// What its indexes are by.
    pub fn indexed(&self) -> impl Iterator<Item = &Term> {
        self.indexes.iter().map(Index::term)
    }

    /// Bytes that its objects hold.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
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

/// The first key after all that start with `prefix`; none when there is no such key.
pub(super) fn past(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

impl Borrow<[u8]> for Entry {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
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
        self.0.key().cmp(other.0.key())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use model::{LabelSet, Parts, Revision};

    fn object(key: &[u8]) -> Arc<Object> {
        Arc::new(Object::new(Parts {
            key,
            scope_at: 0,
            name_at: 0,
            revision: Revision(1),
            tail: b"",
            head_at: 0,
            rv_at: (0, 0),
            managed_end: 0,
            managed_fields: None,
            uid_hash: 0,
            labels: &LabelSet::default(),
            fields: &[],
        }))
    }

    #[test]
    fn the_key_after_a_prefix() {
        assert_eq!(past(b"/a/"), Some(b"/a0".to_vec()));
        assert_eq!(past(b"/a\xFF\xFF"), Some(b"/b".to_vec()));
        assert_eq!((past(b""), past(b"\xFF")), (None, None));
    }

    proptest! {
        /// Keys of few letters, so that prefixes of one another, bounds outside of the prefix and trees of several levels all come up.
        #[test]
        fn a_scan_is_what_a_filter_finds(
            keys in prop::collection::btree_set(prop::collection::vec(prop::sample::select(b"/ab0\xFF".to_vec()), 0..6), 0..400),
            prefix in prop::collection::vec(prop::sample::select(b"/ab0\xFF".to_vec()), 0..3),
            from in prop::collection::vec(prop::sample::select(b"/ab0\xFF".to_vec()), 0..5),
        ) {
            let store = Store::from_objects(keys.iter().map(|key| object(key)).collect());
            let want: Vec<&[u8]> = keys.iter().map(Vec::as_slice).filter(|key| key.starts_with(&prefix) && **key >= from[..]).collect();
            let found: Vec<&[u8]> = store.scan(&prefix, &from).map(|o| o.key()).collect();
            prop_assert_eq!(found, want.clone());
            prop_assert_eq!(store.scan(&prefix, &from).count(), want.len());
            prop_assert!(store.count_at_once(&prefix, &from).is_none_or(|count| count == want.len()));
        }
    }
}
