//! Learns by which labels and fields a resource should have an index: where selectors have looked in vain at many objects. Has no clock; the cacher's is
//! enough.

use parking_lot::Mutex;

use super::store::Store;
use model::{Filter, Term};

/// A scan of fewer objects costs less than what an index is worth.
const OBJECTS_MIN: usize = 1_000;

/// An index is made when so many objects for each one that is stored were looked at in vain: making it costs about as much.
const WORTH: u64 = 8;

/// Of what was counted, one part in so many is forgotten each time the cacher tidies (5 s).
pub(super) const FADING: u64 = 16;

/// A selector that returns one in so many of the objects it looks at needs no index.
const SELECTIVE: usize = 8;

/// Labels and fields that are counted at once, and those of one reader; another one replaces that with the least.
const TERMS_MAX: usize = 32;
const TERMS_EACH_MAX: usize = 8;

/// Who reads, as a number: a digest of the user's name; 0 for the server itself.
pub type Reader = u64;

/// What was looked at in vain, by what was asked and who did.
#[derive(Default)]
pub(super) struct Learner(Mutex<Vec<Counted>>);

struct Counted {
    term: Term,
    reader: Reader,
    in_vain: u64,
}

/// An index that is worth making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// By what.
    pub term: Term,
    /// Who looks in vain most without it.
    pub reader: Reader,
    /// How much was looked at in vain.
    pub in_vain: u64,
}

impl Learner {
    /// A reader with this filter has looked at so many objects and found so many.
    pub(super) fn scanned(&self, filter: &Filter, reader: Reader, looked: usize, found: usize) {
        let in_vain = looked.saturating_sub(found.saturating_mul(SELECTIVE)) as u64;
        if looked < OBJECTS_MIN || in_vain == 0 {
            return;
        }
        let mut counted = self.0.lock();
        for (term, _) in filter.equalities() {
            if let Some(known) = counted.iter_mut().find(|known| known.reader == reader && known.term == term) {
                known.in_vain += in_vain;
                continue;
            }
            // A reader who asks for ever new labels displaces only his own.
            let is_own = |known: &Counted| known.reader == reader;
            let is_at_share = counted.iter().filter(|known| is_own(known)).count() >= TERMS_EACH_MAX;
            if is_at_share || counted.len() >= TERMS_MAX {
                let mine = (0..counted.len()).filter(|at| !is_at_share || is_own(&counted[*at]));
                let Some(least) = mine.min_by_key(|at| counted[*at].in_vain) else { continue };
                counted.swap_remove(least);
            }
            counted.push(Counted { term, reader, in_vain });
        }
    }

    /// What this store should have an index by, if it is worth its while now. To be asked now and then.
    pub(super) fn due(&self, store: &Store) -> Option<Due> {
        let mut counted = self.0.lock();
        counted.retain_mut(|known| {
            known.in_vain -= known.in_vain.div_ceil(FADING);
            known.in_vain > 0 && !store.is_indexed(&known.term)
        });
        let worth = WORTH * store.len().max(OBJECTS_MIN) as u64;
        let of_all = |term: &Term| counted.iter().filter(|known| known.term == *term).map(|known| known.in_vain).sum::<u64>();
        // Of each term the one who looks most stands for all who do.
        let most = counted.iter().map(|known| (of_all(&known.term), known.in_vain, known));
        let most = most.filter(|(all, _, _)| *all >= worth);
        let due = most.map(|(all, own, known)| (own, Due { term: known.term.clone(), reader: known.reader, in_vain: all }));
        let due = due.filter(|(_, due)| store.has_place(due)).max_by_key(|(own, due)| (due.in_vain, *own)).map(|(_, due)| due)?;
        counted.retain(|known| known.term != due.term);
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::state::{index::Index, store::INDEXES_MAX};
    use model::{
        selector::{Field, FieldMatcher, FieldTerm},
        test_object,
    };

    fn by_field(field: u16) -> Filter {
        let term = FieldTerm { field: Field::Declared(field), equal: true, value: "x".into() };
        Filter { fields: FieldMatcher::new(&[term]), ..Filter::default() }
    }

    fn due(field: u16) -> Due {
        Due { term: Term::Field(Field::Declared(field)), reader: 1, in_vain: 100_000 }
    }

    fn by_what(due: Option<Due>) -> Option<u16> {
        due.map(|due| match due.term {
            Term::Field(Field::Declared(field)) => field,
            other => panic!("{other:?}"),
        })
    }

    fn store(objects: u64) -> Store {
        Store::from_objects((0..objects).map(|at| Arc::new(test_object(&format!("o{at}"), at + 1))).collect())
    }

    #[test]
    fn what_is_asked_often_in_vain_is_due_once() {
        let (learner, mut store) = (Learner::default(), store(2_000));
        for _ in 0..8 {
            learner.scanned(&by_field(0), 1, 2_000, 20);
            assert_eq!(learner.due(&store), None);
        }
        (0..4).for_each(|_| learner.scanned(&by_field(0), 1, 2_000, 20));
        assert_eq!(by_what(learner.due(&store)), Some(0));
        assert_eq!(learner.due(&store), None, "it is being made");
        (0..20).for_each(|_| learner.scanned(&by_field(0), 1, 2_000, 20));
        store.add(Index::of(due(0), &store));
        assert_eq!(learner.due(&store), None, "it is there");
        (0..20).for_each(|_| learner.scanned(&by_field(1), 1, 2_000, 20));
        assert_eq!(by_what(learner.due(&store)), Some(1));
    }

    #[test]
    fn what_is_asked_seldom_or_finds_much_is_not_due() {
        let (learner, store) = (Learner::default(), store(2_000));
        for _ in 0..100 {
            learner.scanned(&by_field(0), 1, 2_000, 400);
            learner.scanned(&by_field(1), 1, 900, 0);
            learner.scanned(&Filter::default(), 1, 2_000, 0);
        }
        assert_eq!(learner.due(&store), None);
        // A scan every 15 s fades before it is worth an index.
        for _ in 0..200 {
            learner.scanned(&by_field(2), 1, 2_000, 0);
            assert_eq!((0..3).find_map(|_| learner.due(&store)), None);
        }
    }

    #[test]
    fn the_number_of_terms_is_bounded() {
        let (learner, store) = (Learner::default(), store(1_000));
        (0..1_000).for_each(|field| learner.scanned(&by_field(field), 1, 1_000, 0));
        assert_eq!(learner.0.lock().len(), TERMS_EACH_MAX);
        (0..1_000).for_each(|nth| learner.scanned(&by_field(nth), 10 + u64::from(nth), 1_000, 0));
        assert_eq!(learner.0.lock().len(), TERMS_MAX);
        (0..12).for_each(|_| learner.scanned(&by_field(7), 2, 1_000, 0));
        assert_eq!(by_what(learner.due(&store)), Some(7), "what is asked often is not displaced");
    }

    /// Whoever comes first with ever new labels has half of the places at most, and keeps none that others need more.
    #[test]
    fn nobody_has_all_places_and_use_decides() {
        let (learner, mut store) = (Learner::default(), store(2_000));
        let asks = |field: u16, reader: Reader, times: usize| {
            (0..times).for_each(|_| learner.scanned(&by_field(field), reader, 2_000, 0));
        };
        let makes = |store: &mut Store| {
            let index = learner.due(store).map(|due| Index::of(due, store))?;
            store.add(index);
            Some(())
        };
        for field in 0..20 {
            asks(field, 1, 20);
            makes(&mut store);
        }
        assert_eq!(store.indexes(), INDEXES_MAX / 2, "one reader");
        for reader in 2..10 {
            asks(100 + reader as u16, reader, 20);
            makes(&mut store);
        }
        assert_eq!(store.indexes(), INDEXES_MAX);
        asks(200, 50, 20);
        assert!(makes(&mut store).is_none(), "all others are as new");
        // All but one are used.
        for now in 0..200 {
            for field in (0..20).chain(101..110).filter(|field| *field != 103) {
                let filter = by_field(field);
                assert!(store.select(&filter, b"/", b"").count() <= 2_000);
            }
            store.drop_unused(now);
        }
        assert!(store.is_indexed(&due(103).term));
        asks(200, 50, 40);
        assert!(makes(&mut store).is_some() && store.indexes() == INDEXES_MAX);
        assert!(store.is_indexed(&due(200).term) && !store.is_indexed(&due(103).term), "it takes the place of the least used one");
    }
}
