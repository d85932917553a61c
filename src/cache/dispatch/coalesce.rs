//! Watches that were just woken may wait a moment, and take what comes meanwhile in one write (`--watch-gather`). One clock for a resource, none for a watch.
//!
//! How long depends on how many were woken: writing to a thousand connections takes a core ten milliseconds and more, and who would be last of them loses
//! little by waiting so long. Few wait for nobody.

use std::sync::Arc;

use super::group::Group;
use wake::Wake;

/// Three times the CPU that an event to a watch on a connection of its own takes, in microseconds (docs/performance.md, Heavy rates): so the writes to a group
/// leave at least two thirds of a core to everything else, clients among it where they are on the same machine.
pub const GATHER_EACH_US: u64 = 40;

/// How much time passes at least between two wakes of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// At most so many milliseconds; zero: none.
    pub most_ms: u64,
    /// For each watch that was woken, microseconds.
    pub each_us: u64,
}

impl Pause {
    fn after(self, woken: usize) -> u64 {
        self.most_ms.min(woken as u64 * self.each_us / 1_000)
    }
}

/// The groups of one resource that have news and wait.
#[derive(Default)]
pub(super) struct Coalescer {
    pause: Pause,
    late: Vec<Arc<Group>>,
    at_ms: Option<u64>,
}

impl Coalescer {
    /// Between two wakes of a group there is this pause.
    pub(super) fn new(pause: Pause) -> Self {
        Self { pause, ..Self::default() }
    }

    /// A group has news: its members are woken, or wait when they were woken a moment ago.
    pub(super) fn news(&mut self, group: &Arc<Group>, now_ms: u64, wake: &mut Wake) {
        let from = group.rest().earliest_ms();
        if now_ms >= from {
            self.wake(group, now_ms, wake);
        } else if group.rest().is_late_now() {
            self.late.push(group.clone());
            self.at_ms = Some(self.at_ms.map_or(from, |at| at.min(from)));
        }
    }

    /// When somebody who waits is to be woken.
    pub(super) fn at_ms(&self) -> Option<u64> {
        self.at_ms
    }

    /// Wakes those who wait, when it is time.
    pub(super) fn due(&mut self, now_ms: u64) -> Wake {
        let mut wake = Wake::default();
        if self.at_ms.is_some_and(|at| at <= now_ms) {
            self.at_ms = None;
            for group in std::mem::take(&mut self.late) {
                self.wake(&group, now_ms, &mut wake);
            }
        }
        wake
    }

    fn wake(&self, group: &Group, now_ms: u64, wake: &mut Wake) {
        let before = wake.0.len();
        group.waiting(&mut wake.0);
        group.rest().until(now_ms + self.pause.after(wake.0.len() - before));
    }

    /// Everybody is woken otherwise.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.pause);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::dispatch::{
        Dispatcher, GroupKey, GroupLimits,
        group::{Seat, Taken},
    };
    use codec::Encoder;
    use model::{Event, Filter, Revision, test_object};

    fn watch(dispatcher: &mut Dispatcher, name: &str) -> Seat {
        let encoder = Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", ""));
        let filter = Filter { name: Some(name.into()), ..Filter::default() };
        let seat = dispatcher.group(GroupKey { representation: "v1/configmaps".into(), filter: filter.into() }, encoder, Revision(1)).sit();
        assert!(seat.join(Revision(1)));
        seat
    }

    /// Takes everything, and waits.
    fn heard(seat: &Seat, seen: &mut Revision) -> usize {
        let mut out = Vec::new();
        while seat.take(seen, usize::MAX, &mut out, Waker::noop()) == Taken::Some {}
        out.len()
    }

    /// How many are woken by a change of this object.
    fn changed(dispatcher: &mut Dispatcher, name: &str, revision: u64, now_ms: u64) -> usize {
        let new = Some(Arc::new(test_object(name, revision)));
        let event = Event { revision: Revision(revision), old: None, new, at_ms: 0 };
        dispatcher.dispatch(&[Arc::new(event)], Revision(revision - 1), now_ms).0.len()
    }

    #[test]
    fn few_wait_for_nobody_and_many_no_longer_than_the_most() {
        let pause = Pause { most_ms: 40, each_us: GATHER_EACH_US };
        assert_eq!([1, 24, 25, 500, 1_000, 100_000].map(|woken| pause.after(woken)), [0, 0, 1, 20, 40, 40]);
        assert_eq!(Pause { most_ms: 0, ..pause }.after(1_000), 0);
    }

    #[test]
    fn who_was_just_woken_takes_several_at_once() {
        let mut dispatcher = Dispatcher::new(GroupLimits { gather: Pause { most_ms: 10, each_us: 10_000 }, ..GroupLimits::default() });
        let (busy, quiet) = (watch(&mut dispatcher, "busy"), watch(&mut dispatcher, "quiet"));
        let (mut of_busy, mut of_quiet) = (Revision(1), Revision(1));
        assert_eq!((heard(&busy, &mut of_busy), heard(&quiet, &mut of_quiet)), (0, 0));
        assert_eq!((changed(&mut dispatcher, "busy", 2, 5), dispatcher.late_at_ms()), (1, None), "the first after a rest goes out at once");
        assert_eq!(heard(&busy, &mut of_busy), 1);
        assert_eq!((changed(&mut dispatcher, "busy", 3, 8), dispatcher.late_at_ms()), (0, Some(15)));
        assert_eq!(changed(&mut dispatcher, "quiet", 4, 9), 1, "another group does not wait for it");
        assert_eq!((changed(&mut dispatcher, "busy", 5, 12), dispatcher.late_at_ms()), (0, Some(15)));
        assert_eq!(dispatcher.late(14).0.len(), 0);
        assert_eq!((dispatcher.late(15).0.len(), dispatcher.late_at_ms()), (1, None));
        assert_eq!(heard(&busy, &mut of_busy), 2);
        assert_eq!(heard(&quiet, &mut of_quiet), 1);
        assert_eq!(changed(&mut dispatcher, "busy", 6, 24), 0, "it was woken at 15");
        assert_eq!(changed(&mut dispatcher, "quiet", 7, 24), 1, "and this one at 9");
        assert_eq!((dispatcher.end_all().0.len(), dispatcher.late_at_ms()), (1, None), "an end waits for nobody");
    }
}
