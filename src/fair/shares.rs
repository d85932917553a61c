//! Something that all askers take of, of which each may have a part of what is left: who takes much leaves some for everybody who comes later.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

/// How many times what is left one asker may have: alone seven of eight parts.
const TIMES: usize = 7;

/// The part of all that [`Leaves::Quarter`] leaves.
const QUARTER: usize = 4;

/// Up to this part of all an asker has little.
const LITTLE: usize = 1_024;

/// So much of something, and who has how much of it.
#[derive(Debug)]
pub struct Shares {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Only those who have some.
    askers: HashMap<Arc<str>, usize>,
}

/// What somebody leaves of all, besides a part of what is left. One who takes much may have many names: what is left then is for others than those who take
/// much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// For what is needed briefly.
    Nothing,
    /// For what lasts, where other things are brief.
    Quarter,
    /// Where everything lasts: those who have little leave nothing, the others a quarter.
    QuarterWhenLarge,
}

/// What one asker has taken; given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    asker: Arc<str>,
    amount: usize,
}

impl Shares {
    /// Of so much, of which nothing is taken.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: Mutex::default() })
    }

    /// Takes this much, if there is as much and this asker may have it.
    pub fn take(self: &Arc<Self>, asker: &str, amount: usize, leaves: Leaves) -> Option<Share> {
        let mut taken = self.taken();
        let own = taken.askers.get(asker).copied().unwrap_or(0).saturating_add(amount);
        let reserved = match leaves {
            Leaves::Nothing => 0,
            Leaves::QuarterWhenLarge if own <= self.max / LITTLE => 0,
            Leaves::Quarter | Leaves::QuarterWhenLarge => self.max / QUARTER,
        };
        let left = self.max.saturating_sub(reserved).saturating_sub(taken.all);
        let fits = amount <= left && own <= left.saturating_mul(TIMES);
        fits.then(|| self.give(&mut taken, asker, amount))
    }

    /// Takes this much, whatever is left.
    pub fn take_anyway(self: &Arc<Self>, asker: &str, amount: usize) -> Share {
        self.give(&mut self.taken(), asker, amount)
    }

    /// How much is taken.
    #[must_use]
    pub fn all(&self) -> usize {
        self.taken().all
    }

    fn give(self: &Arc<Self>, taken: &mut Taken, asker: &str, amount: usize) -> Share {
        let (asker, own) = match taken.askers.get_key_value(asker) {
            Some((asker, own)) => (asker.clone(), *own),
            None => (asker.into(), 0),
        };
        taken.all += amount;
        taken.askers.insert(asker.clone(), own + amount);
        Share { shares: self.clone(), asker, amount }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        taken.all -= self.amount;
        let left = taken.askers.get_mut(&self.asker).map(|own| {
            *own -= self.amount;
            *own
        });
        if left == Some(0) {
            taken.askers.remove(&self.asker);
            // After a crowd of them the table is given back.
            if taken.askers.is_empty() {
                taken.askers = HashMap::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as much as there is for this asker, one by one.
    fn flood(shares: &Arc<Shares>, asker: &str, leaves: Leaves) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(asker, 1, leaves)).collect()
    }

    #[test]
    fn one_asker_leaves_some_for_the_next() {
        let shares = Shares::new(400);
        let first = flood(&shares, "a", Leaves::Nothing);
        let second = flood(&shares, "b", Leaves::Nothing);
        // The last one of a part is given while there is room for it.
        assert_eq!((first.len(), second.len(), shares.all()), (350, 44, 394));
        drop(first);
        assert_eq!(flood(&shares, "a", Leaves::Nothing).len(), 312);
        drop(second);
        assert!(shares.taken().askers.is_empty() && shares.all() == 0);
    }

    #[test]
    fn many_names_leave_a_quarter() {
        for (leaves, much) in [(Leaves::Quarter, 1), (Leaves::QuarterWhenLarge, 5)] {
            let shares = Shares::new(4 * LITTLE);
            let all: Vec<_> = (0..50).flat_map(|nth| flood(&shares, &nth.to_string(), leaves)).collect();
            assert!((3 * LITTLE - 1..=3 * LITTLE + 50 * 4).contains(&all.len()), "{}", all.len());
            assert!(shares.take("late", much, leaves).is_none(), "{leaves:?}");
            let brief = shares.take("late", 1, Leaves::Nothing).expect("a quarter is left");
            assert_eq!(shares.take("other", 4, leaves).is_some(), leaves == Leaves::QuarterWhenLarge, "little is not much");
            let forced = shares.take_anyway("0", 5_000);
            assert!(shares.take("late", 1, Leaves::Nothing).is_none());
            drop((forced, brief, all));
            assert!(shares.taken().askers.is_empty() && shares.all() == 0);
        }
    }
}
