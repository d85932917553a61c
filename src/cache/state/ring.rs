//! The recent past of a resource: its events in revision order, and the floor below which they are incomplete.
//!
//! The floor alone decides 410 (guarantee Resumable).

use std::sync::Arc;

use imbl::Vector;

use model::{Event, GivenUp, Revision};

/// Up to so many events age evicts none, while their bytes are at most [`RING_BYTES_KEPT`]: an idle resource can replay hours (spec list-watch §6.2 keeps at
/// least 100). [`RingLimits`] evict all the same.
pub const RING_EVENTS_KEPT: usize = 1_000;

/// Up to so many bytes of objects age evicts none, of at most [`RING_EVENTS_KEPT`] events: what nobody changes any more holds no more, though it had large
/// objects.
pub const RING_BYTES_KEPT: usize = 8 << 20;

/// How much past a ring may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// Most events (spec list-watch §0.2: 102,400).
    pub events_max: usize,
    /// Most bytes of events and of the objects that only they hold.
    pub bytes_max: usize,
    /// Events younger than this many milliseconds are kept while count and bytes allow (spec list-watch §0.2: 75 s).
    pub window_ms: u64,
}

impl RingLimits {
    /// With that given up.
    #[must_use]
    pub fn without(&self, given_up: GivenUp) -> Self {
        let most =
            |events: usize, bytes: usize| Self { events_max: self.events_max.min(events), bytes_max: self.bytes_max.min(bytes), ..*self };
        match given_up {
            GivenUp::Nothing | GivenUp::Messages | GivenUp::Blocks | GivenUp::Snapshots => *self,
            GivenUp::OldHistory => most(self.events_max / 4, self.bytes_max / 4),
            GivenUp::History => most(RING_EVENTS_KEPT, self.bytes_max / 16),
        }
    }
}

/// Revisioned events, oldest first. A clone is a snapshot.
#[derive(Clone, Default)]
pub struct Ring {
    events: Vector<Arc<Event>>,
    /// The highest revision that may be missing.
    floor: Revision,
    /// Of its events, with the objects that they replaced: each version of an object is counted once.
    bytes: usize,
}

/// The ring does not reach back to what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOld {
    /// The lowest revision that could be resumed from.
    pub floor: Revision,
}

impl Ring {
    /// An empty ring that knows everything after `floor`.
    #[must_use]
    pub fn starting_at(floor: Revision) -> Self {
        Self { events: Vector::new(), floor, bytes: 0 }
    }

    /// The highest revision that may be missing: `since(seen)` works exactly when `floor ≤ seen`.
    #[must_use]
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the bytes that history adds to the current objects: its events, and of each the object before it. A version of an object is counted once,
    /// here or with the current objects.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends an event. Revisions never go back (guarantee Ordered).
    pub fn push(&mut self, event: Arc<Event>) {
        debug_assert!(self.events.last().is_none_or(|last| last.revision <= event.revision), "the ring never goes back");
        debug_assert!(event.revision > self.floor, "an event is newer than what is forgotten");
        self.bytes += event.weight();
        self.events.push_back(event);
    }

    /// Drops what the limits do not allow at `now_ms`. Whole revisions need not go together: the floor says what may be missing.
    pub fn evict(&mut self, limits: &RingLimits, now_ms: u64) {
        while let Some(oldest) = self.events.front() {
            let over = self.events.len() > limits.events_max || self.bytes > limits.bytes_max;
            let many = self.events.len() > RING_EVENTS_KEPT || self.bytes > RING_BYTES_KEPT;
            let aged = many && now_ms.saturating_sub(oldest.at_ms) > limits.window_ms;
            if !over && !aged {
                return;
            }
            self.bytes -= oldest.weight();
            self.floor = oldest.revision;
            self.events.pop_front();
        }
    }

    /// Where the events after `seen` begin, as an index for [`Ring::at`].
    ///
    /// # Errors
    /// [`TooOld`] when an event after `seen` may be missing.
    pub fn since(&self, seen: Revision) -> Result<usize, TooOld> {
        if seen < self.floor {
            return Err(TooOld { floor: self.floor });
        }
        Ok(self.after(seen))
    }

    /// Index of the first kept event with a revision above `seen`.
    #[must_use]
    pub fn after(&self, seen: Revision) -> usize {
        let (mut low, mut high) = (0, self.events.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.events.get(middle).is_some_and(|e| e.revision <= seen) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Its events, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        self.events.iter()
    }

    /// The event at an index.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<&Arc<Event>> {
        self.events.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{test_object as object, test_object_with_tail};

    /// A change of an object that was there.
    fn event(revision: u64, at_ms: u64) -> Arc<Event> {
        let [old, new] = [revision - 1, revision].map(|revision| Some(Arc::new(object("a", revision))));
        Arc::new(Event { revision: Revision(revision), old, new, at_ms })
    }

    #[test]
    fn floor_alone_decides() {
        let mut ring = Ring::starting_at(Revision(10));
        for revision in [12, 12, 15] {
            ring.push(event(revision, 0));
        }
        assert_eq!(ring.since(Revision(9)), Err(TooOld { floor: Revision(10) }));
        assert_eq!(ring.since(Revision(10)), Ok(0));
        assert_eq!(ring.since(Revision(12)), Ok(2));
        assert_eq!(ring.since(Revision(99)), Ok(3));
        ring.evict(&RingLimits { events_max: 2, bytes_max: usize::MAX, window_ms: 0 }, 0);
        assert_eq!((ring.len(), ring.floor()), (2, Revision(12)));
        assert_eq!(ring.since(Revision(11)), Err(TooOld { floor: Revision(12) }));
    }

    #[test]
    fn bytes_come_and_go() {
        let mut ring = Ring::starting_at(Revision(0));
        for revision in 11..=60 {
            ring.push(event(revision, 0));
        }
        let one = event(11, 0).weight();
        assert_eq!(ring.bytes, 50 * one);
        ring.evict(&RingLimits { events_max: 100, bytes_max: 10 * one, window_ms: u64::MAX }, 0);
        assert_eq!((ring.len(), ring.bytes, ring.floor()), (10, 10 * one, Revision(50)));
    }

    #[test]
    fn age_shrinks_only_what_is_beyond_the_kept() {
        let mut ring = Ring::starting_at(Revision(0));
        for revision in 1..=(RING_EVENTS_KEPT as u64 + 500) {
            ring.push(event(revision, revision));
        }
        let limits = RingLimits { events_max: 1 << 20, bytes_max: usize::MAX, window_ms: 100 };
        ring.evict(&limits, 300);
        assert_eq!(ring.floor(), Revision(199), "events of the last 100 ms stay");
        ring.evict(&limits, 1 << 40);
        assert_eq!(ring.len(), RING_EVENTS_KEPT);
    }

    /// Each resource that was once busy with large objects kept 64 MiB for good.
    #[test]
    fn of_large_objects_fewer_are_kept() {
        let mut ring = Ring::starting_at(Revision(0));
        for revision in 1..=500 {
            let large = test_object_with_tail(&object("a", revision), &" ".repeat(64 << 10));
            ring.push(Arc::new(Event { revision: Revision(revision), old: Some(Arc::new(large)), new: None, at_ms: revision }));
        }
        let limits = RingLimits { events_max: 1 << 20, bytes_max: 1 << 30, window_ms: 100 };
        ring.evict(&limits, 200);
        assert_eq!(ring.floor(), Revision(99), "events of the last 100 ms stay");
        ring.evict(&limits, 1 << 40);
        assert!(ring.bytes <= RING_BYTES_KEPT && ring.len() > 100, "{} events", ring.len());
    }
}
