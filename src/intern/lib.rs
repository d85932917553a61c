//! Interns values: equal ones are there once, for as long as anybody holds one, with the guard that accounts for it.

use std::{
    any::Any,
    borrow::Cow,
    fmt,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    ops::Deref,
    sync::{Arc, LazyLock, Weak},
};

use dashmap::{DashMap, Entry as Slot};

/// Accounts for a value until it is dropped.
pub type Guard = Box<dyn Any + Send + Sync>;

/// The values of a type. Bounded by those who hold them.
pub struct Interner<T> {
    by_hash: DashMap<u64, Vec<Weak<Entry<T>>>>,
}

/// An interned value.
pub struct Interned<T>(Arc<Entry<T>>);

struct Entry<T> {
    value: T,
    hash: u64,
    interner: Option<Arc<Interner<T>>>,
    _guard: Option<Guard>,
}

impl<T: Clone + Eq + Hash> Interner<T> {
    /// Returns the value as others hold it; or the first of its kind, which `guard` may refuse.
    ///
    /// # Errors
    /// What `guard` says.
    pub fn intern<E>(self: &Arc<Self>, value: Cow<'_, T>, guard: impl FnOnce(&T) -> Result<Option<Guard>, E>) -> Result<Interned<T>, E> {
        let hash = hash(&*value);
        // Dropped after the lock: the last of one takes the lock.
        let mut others = Vec::new();
        let entry = self.by_hash.entry(hash);
        if let Slot::Occupied(same) = &entry {
            for other in same.get().iter().filter_map(Weak::upgrade) {
                if other.value == *value {
                    return Ok(Interned(other));
                }
                others.push(other);
            }
        }
        let guard = guard(&value)?;
        let one = Arc::new(Entry { value: value.into_owned(), hash, interner: Some(self.clone()), _guard: guard });
        entry.or_default().push(Arc::downgrade(&one));
        Ok(Interned(one))
    }
}

impl<T> Interner<T> {
    /// Returns how many different values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_hash.iter().map(|same| same.len()).sum()
    }

    /// Returns whether nobody holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { by_hash: DashMap::new() }
    }
}

/// A value that is not interned, and has no guard.
impl<T: Hash> From<T> for Interned<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(Entry { hash: hash(&value), value, interner: None, _guard: None }))
    }
}

/// Where it is equal it is the same, as a rule; who accounts for it does not matter.
impl<T: PartialEq> PartialEq for Interned<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.hash == other.0.hash && self.0.value == other.0.value)
    }
}

impl<T: Eq> Eq for Interned<T> {}

impl<T> Hash for Interned<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl<T: fmt::Debug> fmt::Debug for Interned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}

/// With keys that no client knows.
fn hash(value: &impl Hash) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(value)
}

impl<T> Clone for Interned<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Interned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        let Some(interner) = &self.interner else { return };
        let is_gone = |_: &u64, same: &mut Vec<Weak<Entry<T>>>| {
            same.retain(|other| other.strong_count() > 0);
            same.is_empty()
        };
        // The table of a crowd goes back, too.
        if interner.by_hash.remove_if_mut(&self.hash, is_gone).is_some() && interner.by_hash.is_empty() {
            interner.by_hash.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_equal_is_there_once_and_counted_until_nobody_holds_it() {
        let (interner, counted) = (Arc::<Interner<String>>::default(), Arc::new(()));
        let intern = |text: &str| {
            interner.intern(Cow::Owned(text.to_owned()), |_| Ok::<_, ()>(Some(Box::new(counted.clone()) as Guard))).expect("room")
        };
        let (first, second, other) = (intern("a"), intern("a"), intern("b"));
        assert!(Arc::ptr_eq(&first.0, &second.0) && *first == "a" && *other == "b");
        assert_eq!((interner.len(), Arc::strong_count(&counted)), (2, 3));
        drop((first, other));
        assert_eq!((interner.len(), Arc::strong_count(&counted)), (1, 2));
        assert!(interner.intern(Cow::Owned("c".to_owned()), |_| Err(())).is_err());
        let (same, other) = (Interned::from("a".to_owned()), Interned::from("b".to_owned()));
        assert!(second == same && second != other && hash(&second) == hash(&same), "who accounts for it does not matter");
        drop(second);
        assert_eq!((interner.len(), Arc::strong_count(&counted)), (0, 1));
    }
}
