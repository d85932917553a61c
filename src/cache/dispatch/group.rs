//! Watchers that ask the same thing: one filter, one encoding, one log of frames, a cursor each.
//!
//! A plain mutex guards the log, its members' cursors and their wakers together, so that "nothing pending" and "wake me" are one step and no wake
//! is lost. It is held for the copy of a few shared pointers; sockets are never touched under it (decision 0003).

pub mod untaken;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::Waker,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::{coalesce::Pause, filters::SharedFilter, left::Left};
use codec::{Encoder, Unencodable};
use model::Revision;

/// Most frames a group's log holds for members that do not keep up; one that falls out replays from the ring.
pub const GROUP_FRAMES_MAX: usize = 1_024;

/// Most bytes of frames a group's log holds for members that do not keep up.
pub const GROUP_BYTES_MAX: usize = 1 << 20;

/// How much a group's log holds for members that do not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Most frames.
    pub frames_max: usize,
    /// Most bytes of frames.
    pub bytes_max: usize,
    /// How long members that were just woken may wait for more.
    pub gather: Pause,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self { frames_max: GROUP_FRAMES_MAX, bytes_max: GROUP_BYTES_MAX, gather: Pause::default() }
    }
}

/// What makes two watchers the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupKey {
    /// Names the encoder, e.g. `apps/v1/deployments`: watchers of two served versions get other bytes.
    pub representation: Arc<str>,
    /// Scope and selectors.
    pub filter: SharedFilter,
}

/// One event as a group's members get it.
#[derive(Clone, Debug)]
pub struct EncodedEvent {
    /// Revision of the change.
    pub revision: Revision,
    /// The event on the wire, whole, shared by all members and by groups of the same encoder; or why it has no such encoding.
    pub bytes: Result<Bytes, Unencodable>,
}

impl EncodedEvent {
    fn len(&self) -> usize {
        self.bytes.as_ref().map_or(0, Bytes::len)
    }
}

/// A group of watchers. The cacher writes its log, members read it.
pub struct Group {
    key: GroupKey,
    encoder: Arc<Encoder>,
    log: Mutex<Log>,
    rest: Rest,
    /// Told when nobody is in it any more.
    left: Arc<Left>,
}

/// When a group may be woken again; only its cacher looks and writes.
#[derive(Default)]
pub(super) struct Rest {
    earliest_ms: AtomicU64,
    late: AtomicBool,
}

impl Rest {
    pub(super) fn earliest_ms(&self) -> u64 {
        self.earliest_ms.load(Relaxed)
    }

    /// It is woken now, and not again before this time.
    pub(super) fn until(&self, earliest_ms: u64) {
        self.earliest_ms.store(earliest_ms, Relaxed);
        self.late.store(false, Relaxed);
    }

    /// It has news and is not woken yet: whether that is new.
    pub(super) fn is_late_now(&self) -> bool {
        !self.late.swap(true, Relaxed)
    }
}

struct Log {
    frames: VecDeque<EncodedEvent>,
    /// Sequence number of the first frame held. A cursor is a sequence number, not a revision: a revision may be many frames.
    first: u64,
    /// Every matching event above this revision is in `frames`, or was taken by every live member.
    floor: Revision,
    bytes: usize,
    members: Vec<Option<Member>>,
    free: Vec<usize>,
    ended: bool,
    limits: GroupLimits,
}

struct Member {
    /// Next frame to take; `None` while it catches up from the ring and holds nothing back.
    cursor: Option<u64>,
    waker: Option<Waker>,
}

/// A member's place in its group; leaving is dropping it.
pub struct Seat {
    group: Arc<Group>,
    index: usize,
}

/// What a live member found.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// Frames were taken; there may be more.
    Some,
    /// Nothing is pending, the waker is registered.
    Nothing,
    /// The log has moved past the cursor: catch up from the ring.
    Behind,
    /// The next frame has no encoding; those before it were taken.
    Unencodable(Unencodable),
    /// The group has ended and everything was taken.
    Ended,
}

impl Group {
    /// A group whose log begins after `floor`, the revision the resource is at.
    pub(super) fn new(key: GroupKey, encoder: Arc<Encoder>, floor: Revision, limits: GroupLimits, left: Arc<Left>) -> Self {
        let log = Log { frames: VecDeque::new(), first: 0, floor, bytes: 0, members: Vec::new(), free: Vec::new(), ended: false, limits };
        Self { key, encoder, log: Mutex::new(log), rest: Rest::default(), left }
    }

    pub(super) fn rest(&self) -> &Rest {
        &self.rest
    }

    /// What its members asked for.
    #[must_use]
    pub fn key(&self) -> &GroupKey {
        &self.key
    }

    /// How its members' events are written.
    #[must_use]
    pub fn encoder(&self) -> &Arc<Encoder> {
        &self.encoder
    }

    /// Takes a seat, not yet live.
    #[must_use]
    pub fn sit(self: &Arc<Self>) -> Seat {
        let mut log = self.log();
        let member = Some(Member { cursor: None, waker: None });
        let index = if let Some(index) = log.free.pop() {
            log.members[index] = member;
            index
        } else {
            log.members.push(member);
            log.members.len() - 1
        };
        drop(log);
        Seat { group: self.clone(), index }
    }

    /// Appends the frames of one batch, after dropping those that nobody needs. `published` is what every reader can already load: only up to there
    /// may the log forget, so that a member with a fresh snapshot can always join.
    pub(super) fn append(&self, frames: impl Iterator<Item = EncodedEvent>, published: Revision) {
        let mut log = self.log();
        log.trim(published, Revision::ZERO);
        for frame in frames {
            log.bytes += frame.len();
            log.frames.push_back(frame);
        }
    }

    /// Takes the wakers of the members that wait. The caller wakes them after the snapshot is published.
    pub(super) fn waiting(&self, into: &mut Vec<Waker>) {
        let mut log = self.log();
        into.extend(log.members.iter_mut().flatten().filter_map(|m| m.waker.take()));
    }

    /// No frame comes any more; members take what is there and end.
    pub(super) fn end(&self, into: &mut Vec<Waker>) {
        self.log().ended = true;
        self.waiting(into);
    }

    /// Drops frames nobody needs, without appending, and those up to `forgotten`, which the ring has dropped as well: so all groups together hold no more
    /// than the ring, in each encoding. Whether any member is left.
    pub(super) fn tidy(&self, published: Revision, forgotten: Revision) -> bool {
        let mut log = self.log();
        log.trim(published, forgotten);
        log.shrink();
        drop(log);
        self.has_members()
    }

    /// Whether anybody is in it.
    pub(super) fn has_members(&self) -> bool {
        let log = self.log();
        log.members.len() > log.free.len()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }
}

impl Log {
    /// Shrinks capacity after a burst to at most twice the need. Free seats between taken ones stay: their numbers are stable.
    fn shrink(&mut self) {
        while self.members.pop_if(|member| member.is_none()).is_some() {}
        let seats = self.members.len();
        self.free.retain(|index| *index < seats);
        self.members.shrink_to(2 * seats);
        self.free.shrink_to(2 * self.free.len());
        self.frames.shrink_to(2 * self.frames.len());
    }

    fn trim(&mut self, published: Revision, forgotten: Revision) {
        let needed = self.members.iter().flatten().filter_map(|m| m.cursor).min().unwrap_or(u64::MAX);
        while let Some(frame) = self.frames.front() {
            let over = self.frames.len() > self.limits.frames_max || self.bytes > self.limits.bytes_max;
            let kept = self.first >= needed && frame.revision > forgotten && !over;
            if frame.revision > published || kept {
                return;
            }
            self.bytes -= frame.len();
            self.floor = frame.revision;
            self.first += 1;
            self.frames.pop_front();
        }
    }
}

impl Seat {
    /// The group.
    #[must_use]
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Goes live after `seen`: every event up to `seen` that matches was taken from a snapshot. Fails when the log has already forgotten something
    /// newer than the snapshot: load a newer one.
    #[must_use]
    pub fn join(&self, seen: Revision) -> bool {
        let mut log = self.group.log();
        if log.floor > seen {
            return false;
        }
        let before = log.frames.iter().take_while(|f| f.revision <= seen).count() as u64;
        let cursor = log.first + before;
        log.member(self.index).cursor = Some(cursor);
        true
    }

    /// Takes pending frames whose revision is above `seen`, until `budget` bytes and then to the end of a revision: one revision goes out whole.
    /// Moves `seen`. When nothing is pending, registers the waker in the same step.
    pub fn take(&self, seen: &mut Revision, budget: usize, out: &mut Vec<Bytes>, waker: &Waker) -> Taken {
        let mut log = self.group.log();
        let Some(cursor) = log.member(self.index).cursor else { return Taken::Behind };
        if cursor < log.first {
            log.member(self.index).cursor = None;
            return Taken::Behind;
        }
        let (mut next, mut taken, mut bytes, mut unencodable) = (cursor, false, 0, None);
        let skip = usize::try_from(cursor - log.first).expect("a log has fewer frames than memory has bytes");
        for frame in log.frames.iter().skip(skip) {
            if bytes >= budget && frame.revision > *seen {
                break;
            }
            next += 1;
            // Up to a future resourceVersion nothing is shown (spec list-watch §4.1 row 8); one revision may be several frames.
            if frame.revision > *seen || (taken && frame.revision == *seen) {
                match &frame.bytes {
                    Ok(frame) => {
                        bytes += frame.len();
                        out.push(frame.clone());
                    }
                    Err(why) => {
                        unencodable = Some(why.clone());
                        break;
                    }
                }
                *seen = frame.revision;
                taken = true;
            }
        }
        let ended = log.ended;
        let member = log.member(self.index);
        member.cursor = Some(next);
        if let Some(why) = unencodable {
            return Taken::Unencodable(why);
        }
        match (taken, ended) {
            (true, _) => Taken::Some,
            (false, true) => Taken::Ended,
            (false, false) => {
                if member.waker.as_ref().is_none_or(|w| !w.will_wake(waker)) {
                    member.waker = Some(waker.clone());
                }
                Taken::Nothing
            }
        }
    }

    /// Whether the group has ended (a reset, an undecodable value, shutdown).
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.group.log().ended
    }
}

impl Log {
    fn member(&mut self, index: usize) -> &mut Member {
        self.members[index].as_mut().expect("a seat is taken until it is dropped")
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let is_empty = {
            let mut log = self.group.log();
            log.members[self.index] = None;
            log.free.push(self.index);
            log.members.len() == log.free.len()
        };
        if is_empty {
            self.group.left.tell(&self.group);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use proptest::prelude::*;

    use super::*;
    use model::Filter;

    const SMALL: GroupLimits = GroupLimits { frames_max: 8, bytes_max: 60, gather: Pause { most_ms: 0, each_us: 0 } };

    fn group(limits: GroupLimits) -> Arc<Group> {
        let encoder = Arc::new(Encoder::built_in("v1", "ConfigMap", "ConfigMapList", ""));
        Arc::new(Group::new(
            GroupKey { representation: "v1/configmaps".into(), filter: Filter::default().into() },
            encoder,
            Revision(10),
            limits,
            Arc::default(),
        ))
    }

    /// Frames of ten bytes.
    fn frames(revisions: &[u64]) -> Vec<EncodedEvent> {
        revisions
            .iter()
            .enumerate()
            .map(|(n, r)| EncodedEvent { revision: Revision(*r), bytes: Ok(format!("{r:>7}.{n:>2}").into()) })
            .collect()
    }

    fn append(group: &Group, revisions: &[u64], published: u64) {
        group.append(frames(revisions).into_iter(), Revision(published));
    }

    fn take(seat: &Seat, seen: &mut u64, budget: usize) -> (Taken, usize) {
        let (mut out, mut at) = (Vec::new(), Revision(*seen));
        let taken = seat.take(&mut at, budget, &mut out, Waker::noop());
        *seen = at.0;
        (taken, out.len())
    }

    /// How many frames the log holds, and what it has forgotten.
    fn held(group: &Group) -> (usize, Revision) {
        let log = group.log();
        (log.frames.len(), log.floor)
    }

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_crowd_that_has_left_leaves_no_room_behind() {
        let group = group(GroupLimits::default());
        let mut crowd: Vec<Seat> = (0..1_000).map(|_| group.sit()).collect();
        append(&group, &(11..500).collect::<Vec<_>>(), 10);
        let middle = crowd.swap_remove(500);
        drop(crowd);
        assert!(group.tidy(Revision(500), Revision::ZERO));
        let log = group.log();
        let room = (log.members.capacity(), log.free.capacity(), log.frames.capacity());
        assert!(log.members.len() <= 501 && room.0 <= 1_002 && room.1 <= 1_002 && room.2 == 0, "{room:?}");
        drop(log);
        // Seats are given away as before.
        let mut seats: Vec<Seat> = (0..600).map(|_| group.sit()).collect();
        seats.push(middle);
        let places: std::collections::BTreeSet<usize> = seats.iter().map(|seat| seat.index).collect();
        assert_eq!(places.len(), seats.len(), "each its own");
        drop(seats);
        assert!(!group.tidy(Revision(500), Revision::ZERO));
        let log = group.log();
        assert_eq!((log.members.capacity(), log.free.capacity()), (0, 0));
    }

    #[test]
    fn a_revision_goes_out_whole_whatever_the_budget() {
        let group = group(GroupLimits::default());
        let (seat, mut seen) = (group.sit(), 10);
        assert!(seat.join(Revision(10)));
        append(&group, &[11, 11, 11, 12, 13, 13], 10);
        assert_eq!((take(&seat, &mut seen, 1), seen), ((Taken::Some, 3), 11));
        assert_eq!((take(&seat, &mut seen, 11), seen), ((Taken::Some, 3), 13));
        assert_eq!(take(&seat, &mut seen, 1), (Taken::Nothing, 0));
    }

    #[test]
    fn who_waits_is_woken_once_and_who_does_not_is_not() {
        let group = group(GroupLimits::default());
        let (waiting, busy) = (group.sit(), group.sit());
        assert!(waiting.join(Revision(10)) && busy.join(Revision(10)));
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        let mut seen = Revision(10);
        assert_eq!(waiting.take(&mut seen, 1, &mut Vec::new(), &waker), Taken::Nothing);
        assert_eq!(waiting.take(&mut seen, 1, &mut Vec::new(), &waker), Taken::Nothing);
        append(&group, &[11], 10);
        assert_eq!(busy.take(&mut Revision(10), 1, &mut Vec::new(), &waker), Taken::Some);
        for _ in 0..2 {
            let mut wakers = Vec::new();
            group.waiting(&mut wakers);
            wakers.into_iter().for_each(Waker::wake);
        }
        assert_eq!(bell.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn the_end_comes_after_what_is_there() {
        let group = group(GroupLimits::default());
        let (seat, mut seen) = (group.sit(), 10);
        assert!(seat.join(Revision(10)));
        assert_eq!(take(&seat, &mut seen, 1).0, Taken::Nothing);
        append(&group, &[11], 10);
        let mut wakers = Vec::new();
        group.end(&mut wakers);
        assert_eq!(wakers.len(), 1);
        assert_eq!((take(&seat, &mut seen, 1), take(&seat, &mut seen, 1)), ((Taken::Some, 1), (Taken::Ended, 0)));
    }

    #[test]
    fn up_to_a_future_revision_nothing_is_shown() {
        let group = group(GroupLimits::default());
        let (seat, mut seen) = (group.sit(), 12);
        assert!(seat.join(Revision(10)));
        append(&group, &[11, 12, 12], 10);
        assert_eq!((take(&seat, &mut seen, 1), seen), ((Taken::Nothing, 0), 12));
        append(&group, &[13, 13], 12);
        assert_eq!((take(&seat, &mut seen, 1), seen), ((Taken::Some, 2), 13));
    }

    #[test]
    fn a_seat_is_free_when_it_is_left() {
        let group = group(GroupLimits::default());
        let first = group.sit();
        let second = group.sit();
        assert!(group.tidy(Revision(10), Revision::ZERO));
        drop(first);
        let third = group.sit();
        assert_eq!((second.index, third.index, group.log().members.len()), (1, 0, 2));
        drop((second, third));
        assert!(!group.tidy(Revision(10), Revision::ZERO), "nobody is left");
    }

    /// Thousands of watches of one object each, unread, kept a megabyte each, whatever the ring had forgotten.
    #[test]
    fn what_the_ring_has_forgotten_is_forgotten() {
        let group = group(GroupLimits::default());
        let (seat, mut seen) = (group.sit(), 10);
        assert!(seat.join(Revision(10)));
        append(&group, &[11, 12, 13, 14], 10);
        assert!(group.tidy(Revision(13), Revision(12)));
        assert_eq!(held(&group), (2, Revision(12)));
        assert_eq!(take(&seat, &mut seen, 1), (Taken::Behind, 0), "the ring tells it that it is too late");
        assert!(group.tidy(Revision(13), Revision(14)));
        assert_eq!(held(&group), (1, Revision(13)), "but what nobody can load yet");
    }

    #[test]
    fn who_left_or_catches_up_holds_nothing_back() {
        let group = group(GroupLimits::default());
        let (live, away) = (group.sit(), group.sit());
        assert!(live.join(Revision(10)) && away.join(Revision(10)));
        append(&group, &[11, 12], 10);
        let mut seen = 10;
        take(&live, &mut seen, 100);
        assert!(group.tidy(Revision(12), Revision::ZERO));
        assert_eq!(held(&group), (2, Revision(10)), "the slow one needs both");
        drop(away);
        group.tidy(Revision(11), Revision::ZERO);
        assert_eq!(held(&group), (1, Revision(11)), "what is not published stays");
        assert!(!group.sit().join(Revision(10)));
        assert!(group.sit().join(Revision(11)));
    }

    /// A member as a client knows it: what it has seen, and until when it must be served from the log.
    struct Reader {
        seat: Seat,
        seen: u64,
    }

    proptest! {
        /// Against a list of all frames: a member gets each one after what it joined with, in order and by whole revisions, or is told to catch up,
        /// and that only when the limits asked for it.
        #[test]
        fn members_miss_nothing(steps in prop::collection::vec((0..5_u8, 0..3_usize, 0..40_usize), 1..150)) {
            let group = group(SMALL);
            let mut all: Vec<EncodedEvent> = Vec::new();
            let mut published = 10_u64;
            let mut readers: [Option<Reader>; 3] = [None, None, None];
            for (what, who, size) in steps {
                match (what, &mut readers[who]) {
                    (0 | 1, _) => {
                        let revision = published + 1 + size as u64 % 2;
                        let new = frames(&vec![revision; 1 + size % 3]);
                        all.extend(new.iter().cloned());
                        group.append(new.into_iter(), Revision(published));
                        let log = group.log();
                        let kept = log.frames.iter().filter(|f| f.revision.0 <= published).count();
                        prop_assert!(log.floor.0 <= published);
                        prop_assert!(kept <= SMALL.frames_max && kept * 10 <= SMALL.bytes_max, "{kept} frames");
                        prop_assert_eq!(log.bytes, log.frames.len() * 10);
                        published = revision;
                    }
                    (2, slot @ None) => {
                        let seat = group.sit();
                        let floor = group.log().floor;
                        prop_assert!(!seat.join(Revision(floor.0 - 1)));
                        prop_assert!(seat.join(Revision(published)));
                        *slot = Some(Reader { seat, seen: published });
                    }
                    (3, slot) if size == 0 => *slot = None,
                    (_, Some(reader)) => {
                        let (mut out, mut seen) = (Vec::new(), Revision(reader.seen));
                        let pending: Vec<&EncodedEvent> = all.iter().filter(|f| f.revision.0 > reader.seen).collect();
                        match reader.seat.take(&mut seen, 1 + size, &mut out, Waker::noop()) {
                            Taken::Some => {
                                prop_assert!(!out.is_empty() && out.len() <= pending.len());
                                prop_assert!(pending.iter().zip(&out).all(|(want, got)| want.bytes.as_ref() == Ok(got)));
                                prop_assert_eq!(seen, pending[out.len() - 1].revision);
                                prop_assert!(pending.get(out.len()).is_none_or(|next| next.revision > seen), "half a revision");
                                let last = pending[..out.len()].iter().filter(|f| f.revision == seen).count();
                                prop_assert!((out.len() - last) * 10 <= size, "more than was asked for");
                                reader.seen = seen.0;
                            }
                            Taken::Nothing => prop_assert!(pending.is_empty()),
                            Taken::Behind => {
                                prop_assert!(pending.len() > SMALL.frames_max || pending.len() * 10 > SMALL.bytes_max);
                                // As after a replay of the ring.
                                reader.seen = published;
                                prop_assert!(reader.seat.join(Revision(published)));
                            }
                            other @ (Taken::Unencodable(_) | Taken::Ended) => prop_assert!(false, "{other:?}"),
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
