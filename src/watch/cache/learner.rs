//! Learns by which labels and fields a resource should have an index: where selectors have looked in vain at many objects. Has no clock; the cacher's is enough.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::store::{INDEXES_MAX, Store};
use model::{Filter, Term};

/// A scan of fewer objects costs less than what an index is worth.
const OBJECTS_MIN: usize = 1_000;

/// An index is made when so many objects for each one that is stored were looked at in vain: making it costs about as much.
const WORTH: u64 = 8;

/// Of what was counted, one part in so many is forgotten each time the cacher tidies (5 s).
const FADING: u64 = 16;

/// A selector that returns one in so many of the objects it looks at needs no index.
const SELECTIVE: usize = 8;

/// Labels and fields that are counted at once; another one replaces that with the least.
const TERMS_MAX: usize = 32;

/// What was looked at in vain, by what was asked.
#[derive(Default)]
pub(super) struct Learner(Mutex<Vec<Counted>>);

struct Counted {
    term: Term,
    in_vain: u64,
}

impl Learner {
    /// A reader with this filter has looked at so many objects and found so many.
    pub(super) fn scanned(&self, filter: &Filter, looked: usize, found: usize) {
        let in_vain = looked.saturating_sub(found.saturating_mul(SELECTIVE)) as u64;
        if looked < OBJECTS_MIN || in_vain == 0 {
            return;
        }
        let mut counted = self.lock();
        for (term, _) in filter.equalities() {
            if let Some(known) = counted.iter_mut().find(|known| known.term == term) {
                known.in_vain += in_vain;
                continue;
            }
            if counted.len() >= TERMS_MAX {
                let Some(least) = (0..counted.len()).min_by_key(|at| counted[*at].in_vain) else { continue };
                counted.swap_remove(least);
            }
            counted.push(Counted { term, in_vain });
        }
    }

    /// By what this store should have an index, if it is worth its while now. To be asked now and then.
    pub(super) fn due(&self, store: &Store) -> Option<Term> {
        let mut counted = self.lock();
        counted.retain_mut(|known| {
            known.in_vain -= known.in_vain.div_ceil(FADING);
            known.in_vain > 0 && !store.is_indexed(&known.term)
        });
        let worth = WORTH * store.len().max(OBJECTS_MIN) as u64;
        let most = (0..counted.len()).max_by_key(|at| counted[*at].in_vain)?;
        (store.indexes() < INDEXES_MAX && counted[most].in_vain >= worth).then(|| counted.swap_remove(most).term)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cache::index::Index;
    use model::{
        selector::{Field, FieldMatcher, FieldTerm},
        test_object,
    };

    fn by_field(field: u16) -> Filter {
        let term = FieldTerm { field: Field::Declared(field), equal: true, value: "x".into() };
        Filter { fields: FieldMatcher::new(&[term]), ..Filter::default() }
    }

    fn store(objects: u64) -> Store {
        Store::from_objects((0..objects).map(|at| Arc::new(test_object(&format!("o{at}"), at + 1))).collect())
    }

    #[test]
    fn what_is_asked_often_in_vain_is_due_once() {
        let (learner, mut store) = (Learner::default(), store(2_000));
        for _ in 0..8 {
            learner.scanned(&by_field(0), 2_000, 20);
            assert_eq!(learner.due(&store), None);
        }
        (0..4).for_each(|_| learner.scanned(&by_field(0), 2_000, 20));
        let term = learner.due(&store);
        assert_eq!(term, Some(Term::Field(Field::Declared(0))));
        assert_eq!(learner.due(&store), None, "it is being made");
        (0..20).for_each(|_| learner.scanned(&by_field(0), 2_000, 20));
        store.add(Index::of(Term::Field(Field::Declared(0)), &store));
        assert_eq!(learner.due(&store), None, "it is there");
        (0..20).for_each(|_| learner.scanned(&by_field(1), 2_000, 20));
        assert_eq!(learner.due(&store), Some(Term::Field(Field::Declared(1))));
    }

    #[test]
    fn what_is_asked_seldom_or_finds_much_is_not_due() {
        let (learner, store) = (Learner::default(), store(2_000));
        for _ in 0..100 {
            learner.scanned(&by_field(0), 2_000, 400);
            learner.scanned(&by_field(1), 900, 0);
            learner.scanned(&Filter::default(), 2_000, 0);
        }
        assert_eq!(learner.due(&store), None);
        // A scan every 15 s fades before it is worth an index.
        for _ in 0..200 {
            learner.scanned(&by_field(2), 2_000, 0);
            assert_eq!((0..3).find_map(|_| learner.due(&store)), None);
        }
    }

    #[test]
    fn the_number_of_terms_is_bounded() {
        let (learner, store) = (Learner::default(), store(1_000));
        (0..1_000).for_each(|field| learner.scanned(&by_field(field), 1_000, 0));
        assert_eq!(learner.lock().len(), TERMS_MAX);
        (0..12).for_each(|_| learner.scanned(&by_field(7), 1_000, 0));
        assert_eq!(learner.due(&store), Some(Term::Field(Field::Declared(7))), "what is asked often is not displaced");
    }
}
