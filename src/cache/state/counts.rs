//! How many objects are left after the pages of lists that were shown last: the next page of the same list need not count them again.
//!
//! What a revision has in a life of the resource never changes, so what is remembered is never wrong.

use std::collections::VecDeque;

use parking_lot::Mutex;

use model::{Epoch, Revision};

/// Places remembered, of all lists of a resource that are being paged through.
const PLACES_MAX: usize = 256;

/// A place has so many bytes at most. It is a key that is there, or the beginning that a client chose, which has any length.
const PLACE_BYTES_MAX: usize = 1 << 10;

/// Fewer objects are counted as fast as they are found here.
const WORTH: usize = 1_000;

/// Where a page of a list begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'k> {
    /// The life of the resource that the list is of.
    pub epoch: Epoch,
    /// The revision of the list.
    pub revision: Revision,
    /// What all keys of the list begin with.
    pub prefix: &'k [u8],
    /// The first key that the page may have.
    pub from: &'k [u8],
}

/// The places that were told last.
#[derive(Default)]
pub(super) struct Counts(Mutex<VecDeque<Counted>>);

struct Counted {
    epoch: Epoch,
    revision: Revision,
    prefix: Box<[u8]>,
    from: Box<[u8]>,
    objects: usize,
}

impl Counted {
    fn place(&self) -> Place<'_> {
        Place { epoch: self.epoch, revision: self.revision, prefix: &self.prefix, from: &self.from }
    }
}

impl Counts {
    /// How many objects are there and after it, if that was told.
    pub(super) fn find(&self, place: Place<'_>) -> Option<usize> {
        self.0.lock().iter().rev().find(|counted| counted.place() == place).map(|counted| counted.objects)
    }

    /// So many objects are there and after it.
    pub(super) fn tell(&self, Place { epoch, revision, prefix, from }: Place<'_>, objects: usize) {
        if objects < WORTH || prefix.len() + from.len() > PLACE_BYTES_MAX {
            return;
        }
        let mut counted = self.0.lock();
        if counted.len() == PLACES_MAX {
            counted.pop_front();
        }
        counted.push_back(Counted { epoch, revision, prefix: prefix.into(), from: from.into(), objects });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart_and_the_oldest_go() {
        let counts = Counts::default();
        let place = Place { epoch: Epoch(1), revision: Revision(7), prefix: b"/a/", from: b"/a/k" };
        counts.tell(place, WORTH);
        counts.tell(Place { from: b"/a/l", ..place }, WORTH - 1);
        assert_eq!(counts.find(place), Some(WORTH));
        let others = [
            Place { epoch: Epoch(2), ..place },
            Place { revision: Revision(8), ..place },
            Place { prefix: b"/a", ..place },
            Place { from: b"/a/l", ..place },
        ];
        assert_eq!(others.map(|other| counts.find(other)), [None; 4]);
        let long = Place { from: &[b'x'; PLACE_BYTES_MAX], ..place };
        counts.tell(long, WORTH);
        assert_eq!(counts.find(long), None);
        (0..PLACES_MAX as u64).for_each(|at| counts.tell(Place { revision: Revision(100 + at), ..place }, 2_000));
        assert_eq!((counts.find(place), counts.find(Place { revision: Revision(100), ..place })), (None, Some(2_000)));
    }
}
