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

use super::{
    coalesce::Pause,
    filters::SharedFilter,
    frame::{EncodedEvent, Frame, Later},
    left::Left,
};
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
    /// The next frame is not written yet.
    Later(Arc<Later>),
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
        let mut later = None;
        for at in skip..log.frames.len() {
            if log.frames[at].revision > *seen {
                later = if bytes >= budget { None } else { log.unwritten(at) };
                if bytes >= budget || later.is_some() {
                    break;
                }
            }
            next += 1;
            let frame = &log.frames[at];
            // Up to a future resourceVersion nothing is shown (spec list-watch §4.1 row 8); one revision may be several frames.
            if frame.revision > *seen || (taken && frame.revision == *seen) {
                match &frame.frame {
                    Frame::Made(Ok(frame)) => {
                        bytes += frame.len();
                        out.push(frame.clone());
                    }
                    Frame::Made(Err(why)) => {
                        unencodable = Some(why.clone());
                        break;
                    }
                    Frame::Later(_) => break,
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
        if let Some(later) = later.filter(|_| !taken) {
            return Taken::Later(later);
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
    /// The first frame that is not written yet of the revision that begins at this one: a revision is taken whole. Those that are, are held as such from now
    /// on.
    fn unwritten(&mut self, at: usize) -> Option<Arc<Later>> {
        let revision = self.frames[at].revision;
        for frame in self.frames.range_mut(at..).take_while(|frame| frame.revision == revision) {
            let Frame::Later(later) = &frame.frame else { continue };
            let Some(made) = later.made() else { return Some(later.clone()) };
            self.bytes -= frame.len();
            frame.frame = Frame::Made(made);
            self.bytes += frame.len();
        }
        None
    }

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
mod tests;
