//! Values that many hold and that are equal: each is there once, for as long as anybody holds it, with whatever counts it.

use std::{
    any::Any,
    hash::{BuildHasher, Hash, RandomState},
    ops::Deref,
    sync::{Arc, Weak},
};

use dashmap::{DashMap, Entry};

/// What counts a value until it is gone.
pub type Count = Box<dyn Any + Send + Sync>;

/// All values of a kind. Bounded by those who hold them.
pub struct Shelf<T> {
    /// With keys that no client knows.
    keys: RandomState,
    by_hash: DashMap<u64, Vec<Weak<One<T>>>>,
}

/// A value that others may hold as well.
pub struct Shared<T>(Arc<One<T>>);

struct One<T> {
    value: T,
    hash: u64,
    shelf: Option<Arc<Shelf<T>>>,
    _count: Option<Count>,
}

impl<T: Eq + Hash> Shelf<T> {
    /// The value as others hold it; or the first of its kind, which `count` may refuse.
    ///
    /// # Errors
    /// What `count` says.
    pub fn hold<E>(self: &Arc<Self>, value: T, count: impl FnOnce(&T) -> Result<Option<Count>, E>) -> Result<Shared<T>, E> {
        let hash = self.keys.hash_one(&value);
        // Let go of after the lock: the last of one takes the lock.
        let mut others = Vec::new();
        let entry = self.by_hash.entry(hash);
        if let Entry::Occupied(same) = &entry {
            for other in same.get().iter().filter_map(Weak::upgrade) {
                if other.value == value {
                    return Ok(Shared(other));
                }
                others.push(other);
            }
        }
        let count = count(&value)?;
        let one = Arc::new(One { value, hash, shelf: Some(self.clone()), _count: count });
        entry.or_default().push(Arc::downgrade(&one));
        Ok(Shared(one))
    }
}

impl<T> Shelf<T> {
    /// How many different values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_hash.iter().map(|same| same.len()).sum()
    }

    /// Whether nobody holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { keys: RandomState::new(), by_hash: DashMap::new() }
    }
}

/// One that nobody else finds, and nobody counts.
impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(One { value, hash: 0, shelf: None, _count: None }))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> Drop for One<T> {
    fn drop(&mut self) {
        let Some(shelf) = &self.shelf else { return };
        let is_gone = |_: &u64, same: &mut Vec<Weak<One<T>>>| {
            same.retain(|other| other.strong_count() > 0);
            same.is_empty()
        };
        // The table of a crowd goes back, too.
        if shelf.by_hash.remove_if_mut(&self.hash, is_gone).is_some() && shelf.by_hash.is_empty() {
            shelf.by_hash.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_equal_is_there_once_and_counted_until_nobody_holds_it() {
        let (shelf, counted) = (Arc::<Shelf<String>>::default(), Arc::new(()));
        let hold = |text: &str| shelf.hold(text.to_owned(), |_| Ok::<_, ()>(Some(Box::new(counted.clone()) as Count))).expect("room");
        let (first, second, other) = (hold("a"), hold("a"), hold("b"));
        assert!(Arc::ptr_eq(&first.0, &second.0) && *first == "a" && *other == "b");
        assert_eq!((shelf.len(), Arc::strong_count(&counted)), (2, 3));
        drop((first, other));
        assert_eq!((shelf.len(), Arc::strong_count(&counted)), (1, 2));
        assert!(shelf.hold("c".to_owned(), |_| Err(())).is_err());
        drop(second);
        assert_eq!((shelf.len(), Arc::strong_count(&counted)), (0, 1));
    }
}
