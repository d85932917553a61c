//! One watcher's way: initial objects from a snapshot, replay from the ring, then live from its group's log; and back to the ring when it is slow.
//!
//! ```text
//! Initial ──snapshot sent──▶ Catching ──ring replayed, join──▶ Live ──log moved past──▶ Catching
//!                              │ ring moved past: Expired        │ group ended: Ended
//!                              ▼                                 ▼
//!                            Ended ◀─────────────────────────────┘
//! ```
//! From each state it ends at an event that has no encoding: Unencodable.
//! Holds no snapshot while it catches up, only `seen`, and before that one that the resource takes back: a stopped reader keeps nothing alive.

use std::{sync::Arc, task::Waker};

use bytes::Bytes;

use super::{
    dispatcher::body,
    group::{Group, Seat, Taken},
};
use crate::state::{
    Lent,
    learner::Reader,
    snapshot::{Known, OpenWatch, Published},
};
use codec::{Encoder, Unencodable};
use model::{Epoch, Event, Kind, Object, Revision};
use offload::run_blocking;

/// How many objects and labels of them one step looks at, matching or not: bounds the time between two yields to a few milliseconds. 2,048 objects of the
/// usual five labels.
pub const STEP_LOOKS: usize = 12_288;

/// What stands around an object in an event, about, bytes.
const EVENT_AROUND: usize = 128;

/// A watch that was accepted. Owns its seat in the group; dropping it leaves.
pub struct Subscription {
    published: OpenWatch,
    seat: Seat,
    epoch: Epoch,
    state: State,
    /// The last revision whose events this watcher has, whole.
    seen: Revision,
    /// A bookmark must be newer than this: where the stream began, then the last bookmark (spec list-watch §4.5, "Delivery filter").
    start: Revision,
    /// The initial events of the last step in one, if they are that.
    whole: Option<Bytes>,
    /// Events and objects looked at before filtering, in the initial phase and in replay: `apiserver_init_events_total`.
    processed: u64,
    /// What writes the events that are not its group's: with a budget of its own where definitions say what is written.
    encoder: Arc<Encoder>,
    /// Who reads.
    reader: Reader,
    /// How often it has gone back to the ring, for its group's log has moved past it.
    fell_behind: u32,
}

/// How far a watch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is shown the objects of a snapshot.
    Initial,
    /// It is shown the events of the ring.
    Replaying,
    /// It follows its group.
    Live,
    /// It has ended.
    Ended,
}

enum State {
    /// Boxed: most are past it.
    Initial(Box<Initial>),
    /// Events after `seen` come from the ring.
    Catching,
    /// Events after `seen` come from the group's log.
    Live,
    Ended,
}

/// Objects of the snapshot with a key after `after` are still to be shown; then the annotated bookmark, if one is due.
struct Initial {
    snapshot: Arc<Lent>,
    prefix: Bytes,
    after: Bytes,
    annotated: bool,
    revision: Revision,
}

/// Where a watch starts (spec list-watch §4.1).
pub enum Start {
    /// With the objects of a snapshot, then everything after it (rows 1–3, 9).
    Initial {
        /// The snapshot and K₀.
        known: Known,
        /// Storage key prefix of the scope.
        prefix: Bytes,
        /// Whether the annotated bookmark follows the objects.
        annotated: bool,
    },
    /// With the events after this revision (rows 4–6, 8); it may be in the future.
    After(Revision),
}

/// What a step brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Bytes to send are in `out`; call again.
    More,
    /// Nothing now; the waker will be called. `true` when live and drained: then a bookmark may be sent.
    Pending,
    /// The next event is being written; the waker will be called.
    Waiting,
    /// Everything was sent; the stream ends cleanly (reset, shutdown).
    Ended,
    /// The ring has moved past this watcher: ERROR 410, then the end.
    Expired {
        /// What it had.
        seen: Revision,
        /// What it would have needed.
        floor: Revision,
    },
    /// The next event has no such encoding; what came before it is in `out`. Then the end.
    Unencodable(Unencodable),
}

impl Subscription {
    /// The same for this reader.
    #[must_use]
    pub fn read_by(self, reader: Reader) -> Self {
        Self { reader, ..self }
    }

    /// Begins. `group` was handed out by the cacher in `epoch`.
    #[must_use]
    pub fn new(published: Arc<Published>, group: &Arc<Group>, epoch: Epoch, start: Start) -> Self {
        let seat = group.sit();
        let (state, seen) = match start {
            Start::Initial { known, prefix, annotated } => {
                let revision = known.revision;
                let snapshot = published.lend(known.snapshot, revision);
                (State::Initial(Box::new(Initial { snapshot, after: Bytes::new(), prefix, annotated, revision })), revision)
            }
            Start::After(seen) => (State::Catching, seen),
        };
        Self {
            published: OpenWatch::of(published),
            seat,
            epoch,
            state,
            seen,
            start: seen,
            whole: None,
            processed: 0,
            encoder: group.encoder().for_answer(),
            reader: 0,
            fell_behind: 0,
        }
    }

    /// Brings at least `budget` bytes if there are so many, and whole revisions; or says why not.
    pub fn step(&mut self, budget: usize, out: &mut Vec<Bytes>, waker: &Waker) -> Step {
        self.advance(budget, out, waker).unwrap_or_else(|why| {
            self.state = State::Ended;
            Step::Unencodable(why)
        })
    }

    fn advance(&mut self, budget: usize, out: &mut Vec<Bytes>, waker: &Waker) -> Result<Step, Unencodable> {
        loop {
            match &mut self.state {
                State::Initial(_) => {
                    if let Some(step) = self.slowly(|this| this.initial(budget, out))? {
                        return Ok(step);
                    }
                }
                State::Catching => {
                    if let Some(step) = self.slowly(|this| this.catch_up(budget, out))? {
                        return Ok(step);
                    }
                }
                State::Live => match self.seat.take(&mut self.seen, budget, out, waker) {
                    Taken::Some => return Ok(Step::More),
                    Taken::Nothing => return Ok(Step::Pending),
                    Taken::Later(later) => {
                        if later.poll(waker).is_pending() {
                            return Ok(Step::Waiting);
                        }
                    }
                    Taken::Behind => {
                        self.fell_behind = self.fell_behind.saturating_add(1);
                        self.state = State::Catching;
                    }
                    Taken::Unencodable(why) => return Err(why),
                    Taken::Ended => return Ok(self.end()),
                },
                State::Ended => return Ok(Step::Ended),
            }
        }
    }

    /// Does what may take long where definitions say what is written, so that others go on meanwhile.
    fn slowly<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        if self.encoder.is_defined() { run_blocking(|| work(self)) } else { work(self) }
    }

    /// The revision a bookmark could carry if the log turns out to be drained **after** this call: load it first, then step, and when the step is
    /// [`Step::Pending`] send it (guarantee Bookmarkable; the log is written before the snapshot is published).
    #[must_use]
    pub fn bookmark_candidate(&self) -> Option<Revision> {
        let known = self.published.known();
        (known.snapshot.epoch == self.epoch && matches!(self.state, State::Live | State::Catching)).then_some(known.revision)
    }

    /// Whether a bookmark at `revision` is to be sent now; if so, the next one must be newer. What is known may go back when a resource is
    /// loaded anew, a stream never does (guarantee Ordered).
    #[must_use]
    pub fn bookmark(&mut self, revision: Revision) -> bool {
        let is_sent = matches!(self.state, State::Live) && revision > self.start && revision >= self.seen;
        if is_sent {
            self.start = revision;
        }
        is_sent
    }

    /// Its group, and the number of its seat there.
    #[must_use]
    pub fn place(&self) -> (&Arc<Group>, usize) {
        (self.seat.group(), self.seat.number())
    }

    /// How far it is, the last revision whose events it has whole, and how often it has gone back to the ring.
    #[must_use]
    pub fn progress(&self) -> (Phase, Revision, u32) {
        let phase = match self.state {
            State::Initial(_) => Phase::Initial,
            State::Catching => Phase::Replaying,
            State::Live => Phase::Live,
            State::Ended => Phase::Ended,
        };
        (phase, self.seen, self.fell_behind)
    }

    /// Whether the initial objects, and the annotated bookmark if one was due, have been handed out.
    #[must_use]
    pub fn is_past_initial(&self) -> bool {
        !matches!(self.state, State::Initial(_))
    }

    /// Takes the count of objects and events looked at since the last call.
    pub fn take_processed(&mut self) -> u64 {
        std::mem::take(&mut self.processed)
    }

    /// Takes the initial events of the last step in one: they were written one after the other, and each is a part of it. `None`: the last step brought
    /// other events.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        self.whole.take()
    }

    /// Shows objects of the snapshot. `None`: look at the state again.
    fn initial(&mut self, budget: usize, out: &mut Vec<Bytes>) -> Result<Option<Step>, Unencodable> {
        let State::Initial(initial) = &mut self.state else { return Ok(None) };
        let Initial { snapshot, prefix, after, annotated, revision } = &mut **initial;
        let Some(snapshot) = snapshot.snapshot() else { return Ok(Some(self.late())) };
        let group = self.seat.group();
        let filter = &group.key().filter;
        let (mut written, mut ends, mut last, mut looks, mut looked, mut failed) = (Vec::new(), Vec::new(), None, 0, 0, None);
        // A prefix without a slash at its end is one key: looked up, not scanned for.
        let single = if prefix.ends_with(b"/") || !after.is_empty() { None } else { snapshot.store.find(prefix) };
        let scanned = if prefix.ends_with(b"/") { Some(snapshot.store.select(filter, prefix, after)) } else { None };
        for object in single.into_iter().chain(scanned.into_iter().flatten()) {
            if written.len() >= budget || looks >= STEP_LOOKS {
                break;
            }
            looked += 1;
            looks += object.looks();
            last = Some(object);
            if filter.matches(object) {
                if written.is_empty() {
                    written.reserve(room(object, snapshot.store.len(), budget));
                }
                if let Err(why) = self.encoder.event_into(Kind::Added, object, object.revision, &mut written) {
                    failed = Some(why);
                    break;
                }
                ends.push(written.len());
            }
        }
        let next = last.map(|last| [last.key(), b"\0"].concat().into());
        self.processed += looked as u64;
        self.published.scanned(filter, self.reader, looked, ends.len());
        self.whole = parted(written, &ends, out);
        if let Some(why) = failed {
            return Err(why);
        }
        if let Some(next) = next {
            *after = next;
            return Ok(Some(Step::More));
        }
        let bookmark = annotated.then(|| group.encoder().bookmark(*revision, true)).transpose()?;
        self.state = State::Catching;
        Ok(bookmark.map(|bookmark| {
            out.push(bookmark);
            Step::More
        }))
    }

    /// The ring has moved past the snapshot.
    fn late(&mut self) -> Step {
        let known = self.published.known();
        if known.snapshot.epoch != self.epoch {
            return self.end();
        }
        self.state = State::Ended;
        Step::Expired { seen: self.seen, floor: known.snapshot.ring.floor() }
    }

    /// Replays the ring after `seen`; goes live at its end. `None`: look at the state again.
    fn catch_up(&mut self, budget: usize, out: &mut Vec<Bytes>) -> Result<Option<Step>, Unencodable> {
        let known = self.published.known();
        if known.snapshot.epoch != self.epoch || self.seat.is_ended() {
            return Ok(Some(self.end()));
        }
        let ring = &known.snapshot.ring;
        let Ok(start) = ring.since(self.seen) else {
            self.state = State::Ended;
            return Ok(Some(Step::Expired { seen: self.seen, floor: ring.floor() }));
        };
        let (mut index, mut bytes, mut looks) = (start, 0, 0);
        while let Some(event) = ring.at(index) {
            let enough = bytes >= budget || looks >= STEP_LOOKS;
            if enough && event.revision > self.seen {
                break;
            }
            index += 1;
            self.processed += 1;
            looks += event.looks();
            self.seen = event.revision;
            if let Some(frame) = self.show(event)? {
                bytes += frame.len();
                out.push(frame);
            }
        }
        if index < ring.len() {
            return Ok(Some(Step::More));
        }
        self.seen = self.seen.max(known.snapshot.applied);
        if self.seat.join(known.snapshot.applied) {
            self.encoder = self.seat.group().encoder().for_answer();
            self.state = State::Live;
        }
        // Else the log has just forgotten something newer than this snapshot, and so a newer snapshot is there: go round again.
        Ok((!out.is_empty()).then_some(Step::More))
    }

    /// The group has ended. After a reset the client resumes where it was; when etcd was restored from a backup, where it was is no more, and it
    /// must be told.
    fn end(&mut self) -> Step {
        self.state = State::Ended;
        let known = self.published.known();
        let lost = known.snapshot.epoch != self.epoch && self.seen > known.revision && self.seen <= known.lost;
        if lost { Step::Expired { seen: self.seen, floor: known.snapshot.ring.floor() } } else { Step::Ended }
    }

    /// Encodes an event for this watcher alone, if it is one for it.
    fn show(&self, event: &Event) -> Result<Option<Bytes>, Unencodable> {
        let group = self.seat.group();
        let outcome = group.key().filter.outcome(event);
        outcome.map(|outcome| self.encoder.event(outcome.into(), body(event, outcome), event.revision)).transpose()
    }
}

/// About how many bytes are written of so many objects like this one, up to the budget and the last one that is begun within it.
fn room(object: &Object, objects: usize, budget: usize) -> usize {
    let one = object.tail_len() + EVENT_AROUND;
    one.saturating_mul(objects).min(budget.saturating_add(2 * one))
}

/// Appends the events that end there to `out`, as parts of what is written of all of them; gives that.
fn parted(mut written: Vec<u8>, ends: &[usize], out: &mut Vec<Bytes>) -> Option<Bytes> {
    if written.is_empty() {
        return None;
    }
    // Few objects have matched: what they take stays until it is sent.
    if written.capacity() - written.len() > written.len() / 4 {
        written.shrink_to_fit();
    }
    let whole = Bytes::from(written);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    out.extend(starts.zip(ends).map(|(start, end)| whole.slice(start..*end)));
    Some(whole)
}

/// A watch that begins with so many ConfigMaps, of a resource that nobody changes any more; for tests.
#[cfg(any(test, feature = "testing"))]
pub fn test_subscription(objects: usize, annotated: bool) -> Subscription {
    use codec::Encoder;
    use model::test_object;
    let objects = (0..objects as u64).map(|at| test_object(&format!("o{}", at + 2), at + 2)).collect();
    test_subscription_of(objects, Encoder::built_in("v1", "ConfigMap", "ConfigMapList", ""), annotated)
}

/// The same with these ConfigMaps, of revisions from 2 on, by this encoder.
#[cfg(any(test, feature = "testing"))]
pub fn test_subscription_of(objects: Vec<model::Object>, encoder: codec::Encoder, annotated: bool) -> Subscription {
    use super::{Dispatcher, GroupKey};
    use crate::state::{resource::ResourceState, ring::RingLimits, snapshot::Fed};
    use model::Filter;
    let last = Revision(objects.len() as u64 + 1);
    let mut resource = ResourceState::new(RingLimits { events_max: 1, bytes_max: 1, window_ms: 0 });
    resource.reset(Epoch(1), last, last, objects.into_iter().map(Arc::new).collect(), Vec::new());
    let published = Arc::new(Published::new(resource.snapshot(), Arc::new(Fed::default())));
    let key = GroupKey { representation: "v1/configmaps".into(), filter: Filter::default().into() };
    let group = Dispatcher::default().group(key, Arc::new(encoder), last);
    let start = Start::Initial { known: published.known(), prefix: "/registry/configmaps/".into(), annotated };
    Subscription::new(published, &group, Epoch(1), start)
}

/// An object that protobuf cannot have: a number where it has text. No API server writes one.
#[cfg(any(test, feature = "testing"))]
pub fn test_unencodable(name: &str, revision: u64) -> model::Object {
    let object = model::test_object(name, revision);
    let tail = String::from_utf8_lossy(object.own_tail());
    model::test_object_with_tail(&object, &format!("{},\"data\":{{\"a\":1}}}}", tail.strip_suffix('}').expect("an object")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dispatch::{Dispatcher, GroupKey},
        state::{resource::ResourceState, ring::RingLimits, snapshot::Fed},
    };
    use codec::Encoder;
    use model::{Batch, Change, Filter, test_object};

    fn json() -> Encoder {
        Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "")
    }

    fn protobuf() -> Encoder {
        json().in_protobuf("v1", "ConfigMap", "ConfigMapList", true).expect("protobuf knows it")
    }

    #[test]
    fn initial_events_are_parts_of_one() {
        for encoder in [json(), protobuf()] {
            let objects = || (2..9).map(|at| test_object(&format!("o{at}"), at)).collect::<Vec<_>>();
            let mut watch = test_subscription_of(objects(), encoder.clone(), true);
            for budget in [1, usize::MAX] {
                let mut out = Vec::new();
                assert_eq!(watch.step(budget, &mut out, Waker::noop()), Step::More);
                let (whole, left) = (watch.take_whole().expect("initial events"), if budget == 1 { 1 } else { 6 });
                assert_eq!((out.len(), &whole[..]), (left, &out.concat()[..]));
                let events = objects().into_iter().map(|object| encoder.event(Kind::Added, &object, object.revision).expect("a ConfigMap"));
                let shown: Vec<Bytes> = if budget == 1 { events.take(1).collect() } else { events.skip(1).collect() };
                assert_eq!(out, shown);
                assert!(out.windows(2).all(|two| two[0].as_ptr_range().end == two[1].as_ptr()), "one after the other");
            }
            let mut out = Vec::new();
            assert_eq!((watch.step(1, &mut out, Waker::noop()), out.len(), watch.take_whole()), (Step::More, 1, None), "the bookmark");
        }
    }

    #[test]
    fn what_came_before_an_event_that_cannot_be_encoded_is_shown() {
        let mut watch = test_subscription_of(vec![test_object("a", 2), test_unencodable("b", 3)], protobuf(), false);
        let mut out = Vec::new();
        assert!(matches!(watch.step(usize::MAX, &mut out, Waker::noop()), Step::Unencodable(_)));
        assert_eq!((out.len(), watch.take_whole()), (1, Some(out[0].clone())));
    }

    #[test]
    fn room_is_for_what_is_written() {
        let object = test_object("a", 2);
        let one = room(&object, 1, 1 << 20);
        assert!((object.tail_len()..1_000).contains(&one));
        assert_eq!((room(&object, 3, 1 << 20), room(&object, usize::MAX, 1_000)), (3 * one, 1_000 + 2 * one));
        let mut written = Vec::with_capacity(1_000);
        written.extend_from_slice(b"few");
        let mut out = Vec::new();
        assert_eq!(parted(written, &[1, 3], &mut out).as_deref(), Some(&b"few"[..]));
        assert_eq!(out, ["f", "ew"]);
        assert_eq!(parted(Vec::new(), &[], &mut out), None);
    }

    /// Steps until one is not [`Step::More`]: how many frames there were, and that one.
    fn last(watch: &mut Subscription) -> (usize, Step) {
        let mut out = Vec::new();
        loop {
            match watch.step(1, &mut out, Waker::noop()) {
                Step::More => {}
                step => return (out.len(), step),
            }
        }
    }

    fn ends_at_b((frames, step): (usize, Step)) {
        let Step::Unencodable(why) = step else { panic!("{step:?}") };
        let told = "/registry/configmaps/ns/b cannot be encoded as protobuf: cannot read member data as its type";
        assert_eq!((frames, why.to_string()), (1, told.to_owned()));
    }

    /// Such an object was an empty frame, which every reader of frames had to look for.
    #[test]
    fn an_initial_object_that_cannot_be_encoded_ends_the_watch() {
        let objects = || vec![test_object("a", 2), test_unencodable("b", 3), test_object("c", 4)];
        let mut watch = test_subscription_of(objects(), protobuf(), true);
        ends_at_b(last(&mut watch));
        assert_eq!(last(&mut watch), (0, Step::Ended));
        assert_eq!(last(&mut test_subscription_of(objects(), json(), true)), (4, Step::Pending));
    }

    #[test]
    fn an_event_that_cannot_be_encoded_ends_only_watches_of_its_form() {
        let mut resource = ResourceState::new(RingLimits { events_max: 100, bytes_max: usize::MAX, window_ms: 0 });
        resource.reset(Epoch(1), Revision(1), Revision(1), Vec::new(), Vec::new());
        let published = Arc::new(Published::new(resource.snapshot(), Arc::new(Fed::default())));
        let mut dispatcher = Dispatcher::default();
        let groups = [("protobuf", protobuf()), ("json", json())].map(|(name, encoder)| {
            dispatcher.group(GroupKey { representation: name.into(), filter: Filter::default().into() }, Arc::new(encoder), Revision(1))
        });
        let watch = |group: &Arc<Group>| Subscription::new(published.clone(), group, Epoch(1), Start::After(Revision(1)));
        let mut live = groups.each_ref().map(watch);
        assert!(live.iter_mut().all(|watch| last(watch) == (0, Step::Pending)));
        for (revision, object) in [(2, test_object("a", 2)), (3, test_unencodable("b", 3)), (4, test_object("c", 4))] {
            let events = resource.apply(&Batch { revision: Revision(revision), changes: vec![Change::Put(Arc::new(object))] }, 0).events;
            dispatcher.dispatch(&events, Revision(revision - 1), 0).now();
        }
        published.publish(resource.snapshot());
        // From the log, and from the ring.
        for [in_protobuf, in_json] in [live, groups.each_ref().map(watch)].iter_mut() {
            ends_at_b(last(in_protobuf));
            assert_eq!(last(in_json), (3, Step::Pending));
        }
    }

    /// Unread watches, each begun after all objects had been replaced, kept every state of them for as long as they liked.
    #[test]
    fn a_picture_that_is_taken_back_ends_the_watch() {
        let (mut watch, mut out) = (test_subscription(5_000, true), Vec::new());
        assert_eq!(watch.step(1, &mut out, Waker::noop()), Step::More);
        watch.published.take_back(Revision(5_001));
        assert_eq!(watch.step(1, &mut out, Waker::noop()), Step::More, "the ring goes on from it");
        watch.published.take_back(Revision(5_002));
        assert!(matches!(watch.step(1, &mut out, Waker::noop()), Step::Expired { seen: Revision(5_001), .. }));
        assert_eq!(watch.step(1, &mut out, Waker::noop()), Step::Ended);
    }
}
