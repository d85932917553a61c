//! The filters that watches hold: one for all watches that ask the same, and all together no more than a limit.
//!
//! A selector may be as long as the head of a request, and a watch holds it for hours. What is equal is found by its hash and shared by every group
//! of every resource; who would bring one filter too many is told to come later.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use intern::{Guard, Interned, Interner};
use model::Filter;

/// Most bytes of different filters that watches hold. A filter by one label or field takes 300 bytes, one of 9,000 requirements 260 KiB: every node of the
/// largest cluster has room for a few of its own forty times over.
pub const FILTERS_BYTES_MAX: usize = 64 << 20;

/// Filters that a user is the first to bring may have this part of what is left: who has many leaves room for others.
const PART: usize = 2;

/// Larger filters have three quarters of all, so that a few users with long selectors, or the many names of one, leave room for a namespace, a node's name and
/// what else is short.
const SMALL_BYTES: usize = 4 << 10;

/// All filters that watches hold.
pub struct Filters {
    bytes_max: usize,
    filters: Arc<Interner<Filter>>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    bytes: usize,
    /// Of these, those that each user has brought.
    users: HashMap<Arc<str>, usize>,
}

/// A filter that others may hold as well; cheap to clone, to compare and to hash.
pub type SharedFilter = Interned<Filter>;

/// The bytes of a filter, counted as its user's until nobody holds it.
struct Counted {
    filters: Arc<Filters>,
    user: Arc<str>,
    weight: usize,
}

/// There is no room for another filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many different selectors are watched, please try again later")]
pub struct NoRoom;

impl Filters {
    /// None yet; together they may have so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, filters: Arc::default(), held: Mutex::default() })
    }

    /// The filter as others hold it, or one that this user is the first to bring.
    ///
    /// # Errors
    /// [`NoRoom`] when nobody holds it and it is too large for what is left, or for what this user may have of that.
    pub fn hold(self: &Arc<Self>, filter: &Filter, user: &str) -> Result<SharedFilter, NoRoom> {
        self.filters.intern(Cow::Borrowed(filter), |filter| self.count(filter, user).map(|counted| Some(Box::new(counted) as Guard)))
    }

    fn count(self: &Arc<Self>, filter: &Filter, user: &str) -> Result<Counted, NoRoom> {
        let (weight, mut held) = (filter.weight(), self.held.lock());
        let (user, own) = match held.users.get_key_value(user) {
            Some((user, own)) => (user.clone(), *own),
            None => (user.into(), 0),
        };
        let bytes_max = if weight > SMALL_BYTES { self.bytes_max - self.bytes_max / 4 } else { self.bytes_max };
        if own.saturating_add(weight) > bytes_max.saturating_sub(held.bytes) / PART {
            return Err(NoRoom);
        }
        held.bytes += weight;
        held.users.insert(user.clone(), own + weight);
        Ok(Counted { filters: self.clone(), user, weight })
    }

    /// Bytes that are held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.held.lock().bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut held = self.filters.held.lock();
        held.bytes -= self.weight;
        let left = held.users.get_mut(&self.user).map(|own| {
            *own -= self.weight;
            *own
        });
        if left == Some(0) {
            held.users.remove(&self.user);
        }
    }
}

impl std::fmt::Debug for Filters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filters").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::selector::{LabelMatcher, parse};

    fn filter(text: &str) -> Filter {
        Filter { labels: LabelMatcher::new(&parse::labels(text).expect("a selector")), ..Filter::default() }
    }

    fn long(seed: usize) -> Filter {
        filter(&(0..9_000).map(|n| format!("!k{}", n + seed)).collect::<Vec<_>>().join(","))
    }

    /// 500 watches with one selector of 9,000 requirements held 1.2 MB each.
    #[test]
    fn what_is_equal_is_held_once() {
        let filters = Filters::new(FILTERS_BYTES_MAX);
        let watches: Vec<_> = (0..500).map(|_| filters.hold(&long(0), "jane").expect("room")).collect();
        assert!(filters.bytes() < 400 << 10, "{} bytes", filters.bytes());
        assert!(watches.iter().all(|watch| std::ptr::eq(&**watch, &*watches[0])));
        let again = filters.hold(&filter("a=1,b!=2"), "jane").expect("room");
        assert_eq!(again, filters.hold(&filter("b!=2,a in (1)"), "bob").expect("room"));
        drop((watches, again));
        let held = filters.held.lock();
        assert_eq!((held.bytes, filters.filters.len(), held.users.len()), (0, 0, 0), "what nobody holds is forgotten");
    }

    #[test]
    fn what_differs_has_a_limit() {
        let weight = long(1).weight();
        let filters = Filters::new(10 * weight);
        let mut watches: Vec<_> = (1..3).map(|seed| filters.hold(&long(seed * 9_000), "jane").expect("room")).collect();
        assert_eq!(filters.hold(&long(90_000), "jane").expect_err("she has her part"), NoRoom);
        watches.push(filters.hold(&long(90_000), "bob").expect("others have theirs"));
        watches.push(filters.hold(&long(90_000), "jane").expect("it is there already"));
        watches.push(filters.hold(&filter("a=1"), "jane").expect("there is room for a small one"));
        watches.remove(1);
        watches.push(filters.hold(&long(99_000), "jane").expect("there is room again"));
        let others = (0..10).map_while(|nth| filters.hold(&long(200_000 + nth * 9_000), &nth.to_string()).ok());
        watches.extend(others);
        assert!(watches.len() < 10 && filters.bytes() <= 10 * weight);
    }

    /// 18 users with long selectors left no room for anybody's.
    #[test]
    fn large_ones_of_many_users_leave_room_for_small_ones() {
        let bytes_max = 64 * long(1).weight();
        let filters = Filters::new(bytes_max);
        let mut seeds = (0..).map(|nth| nth * 10_000);
        let mut watches = Vec::new();
        for user in 0..18 {
            watches.extend(std::iter::from_fn(|| filters.hold(&long(seeds.next()?), &user.to_string()).ok()));
        }
        assert!((bytes_max / 2..=bytes_max * 3 / 4).contains(&filters.bytes()), "{} of {bytes_max}", filters.bytes());
        let small = (0..1_000).map(|nth| filters.hold(&filter(&format!("a={nth}")), &format!("node-{nth}")));
        assert_eq!(small.collect::<Result<Vec<_>, _>>().expect("room for small ones").len(), 1_000);
    }

    /// Who counts it does not matter.
    #[test]
    fn equal_is_equal() {
        let counted = Filters::new(FILTERS_BYTES_MAX).hold(&filter("a=1"), "jane").expect("room");
        let plain = SharedFilter::from(filter("a=1"));
        assert_eq!(counted, plain);
        assert_eq!(HashMap::from([(counted, 1)]).get(&plain), Some(&1));
        assert_ne!(plain, SharedFilter::from(filter("a=2")));
    }
}
