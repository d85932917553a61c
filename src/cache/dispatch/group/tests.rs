//! What members take of a group's log, and when.

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
        .map(|(n, r)| EncodedEvent { revision: Revision(*r), frame: Frame::Made(Ok(format!("{r:>7}.{n:>2}").into())) })
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
                            prop_assert!(pending.iter().zip(&out).all(|(want, got)| matches!(&want.frame, Frame::Made(Ok(bytes)) if bytes == got)));
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
                        other @ (Taken::Later(_) | Taken::Unencodable(_) | Taken::Ended) => prop_assert!(false, "{other:?}"),
                    }
                }
                _ => {}
            }
        }
    }
}
