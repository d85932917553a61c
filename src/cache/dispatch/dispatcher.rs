//! The cacher's side: turns a batch's events into frames in the logs of the groups that match.

use std::{
    collections::HashMap,
    sync::Arc,
    task::{Poll, Waker},
};

use super::{
    coalesce::Coalescer,
    frame::{EncodedEvent, Frame, Later},
    group::{Group, GroupKey, GroupLimits},
    left::Left,
    match_index::MatchIndex,
};
use codec::Encoder;
use model::{Event, Object, Outcome, Revision};
use wake::Wake;

/// All groups of one resource. Owned by its cacher.
#[derive(Default)]
pub struct Dispatcher {
    groups: HashMap<GroupKey, Arc<Group>>,
    interest: MatchIndex,
    limits: GroupLimits,
    gather: Coalescer,
    left: Arc<Left>,
    /// Frames of the batch at hand, by group: (group, frames). Kept for its allocation.
    pending: Vec<(Arc<Group>, Vec<EncodedEvent>)>,
}

impl Dispatcher {
    /// No groups yet; each one's log will have these limits.
    #[must_use]
    pub fn new(limits: GroupLimits) -> Self {
        Self { limits, gather: Coalescer::new(limits.gather), ..Self::default() }
    }

    /// The group for a key, made when it is new; `applied` is the revision the resource is at.
    pub fn group(&mut self, key: GroupKey, encoder: Arc<Encoder>, applied: Revision) -> Arc<Group> {
        if let Some(group) = self.groups.get(&key) {
            return group.clone();
        }
        let group = Arc::new(Group::new(key.clone(), encoder, applied, self.limits, self.left.clone()));
        self.interest.add(&group);
        self.groups.insert(key, group.clone());
        group
    }

    /// Writes events, in order, to the logs of the groups that match. `published` is the revision readers can already load. Who is
    /// to be woken at `now_ms`: members of groups that were woken a moment ago wait until [`Dispatcher::late_at_ms`].
    ///
    /// Each event is encoded once per encoder and outcome, whatever the number of groups and members (guarantee Encoded once); what takes long not here.
    pub fn dispatch(&mut self, events: &[Arc<Event>], published: Revision, now_ms: u64) -> Wake {
        let mut slots: HashMap<*const Group, usize> = HashMap::new();
        for event in events {
            let mut encoded = Encoded::default();
            let pending = &mut self.pending;
            self.interest.candidates(event, |group| {
                let Some(outcome) = group.key().filter.outcome(event) else { return };
                let frame = EncodedEvent { revision: event.revision, frame: encoded.frame(group, outcome, event) };
                let slot = *slots.entry(Arc::as_ptr(group)).or_insert_with(|| {
                    pending.push((group.clone(), Vec::new()));
                    pending.len() - 1
                });
                pending[slot].1.push(frame);
            });
        }
        let mut wake = self.gather.due(now_ms);
        for (group, frames) in self.pending.drain(..) {
            group.append(frames.into_iter(), published);
            self.gather.news(&group, now_ms, &mut wake);
        }
        wake
    }

    /// When [`Dispatcher::late`] is to be called, if somebody waits.
    #[must_use]
    pub fn late_at_ms(&self) -> Option<u64> {
        self.gather.at_ms()
    }

    /// Who has waited long enough.
    pub fn late(&mut self, now_ms: u64) -> Wake {
        self.gather.due(now_ms)
    }

    /// Ends every stream: a reset, an undecodable value, shutdown.
    pub fn end_all(&mut self) -> Wake {
        let mut wake = Wake::default();
        for (_, group) in self.groups.drain() {
            group.end(&mut wake.0);
        }
        self.interest = MatchIndex::default();
        self.gather.forget();
        wake
    }

    /// Whether some group has lost its last member. When not, `waker` is woken once one has.
    pub fn poll_left(&self, waker: &Waker) -> Poll<()> {
        self.left.poll_any(waker)
    }

    /// Forgets those that have lost their last member, unless somebody was just handed them.
    pub fn forget_left(&mut self) {
        for group in self.left.take() {
            let Some(group) = group.upgrade() else { continue };
            let is_here = self.groups.get(group.key()).is_some_and(|known| Arc::ptr_eq(known, &group));
            // As in `tidy`, and the one reference in hand.
            if is_here && !group.has_members() && Arc::strong_count(&group) <= 3 {
                self.groups.remove(group.key());
                self.interest.remove(&group);
            }
        }
    }

    /// Forgets groups without members, and frames that nobody needs or the ring has forgotten.
    pub fn tidy(&mut self, published: Revision, forgotten: Revision) {
        let interest = &mut self.interest;
        self.groups.retain(|_, group| {
            // One reference is here, one in the index: a subscriber that was just handed the group holds a third.
            let keep = group.tidy(published, forgotten) || Arc::strong_count(group) > 2;
            if !keep {
                interest.remove(group);
            }
            keep
        });
        // What a crowd of groups took goes back.
        self.groups.shrink_to(2 * self.groups.len());
        interest.shrink();
    }

    /// Bytes of all groups' logs. Looks at each.
    #[must_use]
    pub fn log_bytes(&self) -> usize {
        self.groups.values().map(|group| group.log_bytes()).sum()
    }

    /// Number of groups.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups.len()
    }
}

/// The encodings of one event made so far.
#[derive(Default)]
struct Encoded(Vec<(*const Encoder, Outcome, Frame)>);

impl Encoded {
    fn frame(&mut self, group: &Group, outcome: Outcome, event: &Arc<Event>) -> Frame {
        let encoder = group.encoder();
        let at = Arc::as_ptr(encoder);
        if let Some((_, _, frame)) = self.0.iter().find(|(f, o, _)| *f == at && *o == outcome) {
            return frame.clone();
        }
        let shown = body(event, outcome);
        let frame = if encoder.is_slow(shown) {
            let whose = group.key().representation.clone();
            Frame::Later(Arc::new(Later::new(encoder.clone(), outcome, event.clone(), whose)))
        } else {
            Frame::Made(encoder.event(outcome.into(), shown, event.revision))
        };
        self.0.push((at, outcome, frame.clone()));
        frame
    }
}

/// The object an event of this outcome shows: the one before for DELETED, else the one after.
pub(super) fn body(event: &Event, outcome: Outcome) -> &Object {
    let object = match outcome {
        Outcome::Added | Outcome::Modified => event.new.as_deref(),
        Outcome::Deleted => event.old.as_deref(),
    };
    object.expect("an outcome is decided by the object it shows")
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Barrier, mpsc},
        task::Waker,
        time::Duration,
    };

    use bytes::Bytes;
    use codec::{Include, MetaVersion, Table};

    use super::*;
    use crate::dispatch::group::{Seat, Taken};
    use model::test_object_with;
    use model::{
        Filter,
        selector::{LabelMatcher, LabelOp, LabelRequirement, LabelSelector},
    };

    fn encoder(api_version: &str) -> Arc<Encoder> {
        Arc::new(Encoder::built_in(api_version, "ConfigMap", "ConfigMapList", ""))
    }

    fn key(encoder: &str, filter: Filter) -> GroupKey {
        GroupKey { representation: encoder.into(), filter: filter.into() }
    }

    fn in_namespace() -> Filter {
        Filter { namespace: Some("ns".into()), ..Filter::default() }
    }

    fn labelled(value: &str) -> Filter {
        let requirement = LabelRequirement { key: "app".into(), op: LabelOp::In(vec![value.into()]) };
        Filter { labels: LabelMatcher::new(&LabelSelector { requirements: vec![requirement] }), ..Filter::default() }
    }

    fn object(revision: u64, app: &str) -> Arc<Object> {
        Arc::new(test_object_with("a", revision, &[("app", app)], &[]))
    }

    fn live(dispatcher: &mut Dispatcher, key: GroupKey, encoder: &Arc<Encoder>) -> Seat {
        let seat = dispatcher.group(key, encoder.clone(), Revision(1)).sit();
        assert!(seat.join(Revision(1)));
        seat
    }

    fn heard(seat: &Seat) -> Vec<Bytes> {
        let mut out = Vec::new();
        while seat.take(&mut Revision(1), usize::MAX, &mut out, Waker::noop()) == Taken::Some {}
        out
    }

    fn text(frame: &Bytes) -> &str {
        std::str::from_utf8(frame).expect("JSON")
    }

    #[test]
    fn an_event_is_encoded_once_per_form_and_outcome() {
        let mut dispatcher = Dispatcher::default();
        let (one, other) = (encoder("v1"), encoder("v2"));
        let all = live(&mut dispatcher, key("v1/configmaps", Filter::default()), &one);
        let namespace = live(&mut dispatcher, key("v1/configmaps", in_namespace()), &one);
        let version = live(&mut dispatcher, key("v2/configmaps", Filter::default()), &other);
        let left = live(&mut dispatcher, key("v1/configmaps", labelled("x")), &one);
        let came = live(&mut dispatcher, key("v1/configmaps", labelled("y")), &one);
        let event = Event { revision: Revision(3), old: Some(object(2, "x")), new: Some(object(3, "y")), at_ms: 0 };
        dispatcher.dispatch(&[Arc::new(event)], Revision(1), 0).now();
        let first = |seat: &Seat| {
            let frames = heard(seat);
            assert_eq!(frames.len(), 1);
            frames[0].clone()
        };
        let (all, namespace, version, left, came) = (first(&all), first(&namespace), first(&version), first(&left), first(&came));
        assert_eq!(all.as_ptr(), namespace.as_ptr(), "the same bytes, not equal ones");
        assert_ne!(all.as_ptr(), version.as_ptr());
        let starts = |frame: &Bytes, outcome: &str, version: &str| {
            text(frame).starts_with(&format!(r#"{{"type":"{outcome}","object":{{"kind":"ConfigMap","apiVersion":"{version}","#))
        };
        assert!(starts(&all, "MODIFIED", "v1") && starts(&version, "MODIFIED", "v2"));
        assert!(starts(&left, "DELETED", "v1") && starts(&came, "ADDED", "v1"));
        assert!(text(&left).contains(r#""resourceVersion":"3""#), "a deletion shows its own revision: {}", text(&left));
    }

    #[test]
    fn who_does_not_match_hears_nothing_and_sleeps() {
        let mut dispatcher = Dispatcher::default();
        let encoder = encoder("v1");
        let seat = live(&mut dispatcher, key("v1/configmaps", labelled("z")), &encoder);
        assert!(heard(&seat).is_empty());
        let event = Event { revision: Revision(2), old: None, new: Some(object(2, "x")), at_ms: 0 };
        assert!(dispatcher.dispatch(&[Arc::new(event)], Revision(1), 0).0.is_empty());
        let event = Event { revision: Revision(3), old: None, new: Some(object(3, "z")), at_ms: 0 };
        assert_eq!(dispatcher.dispatch(&[Arc::new(event)], Revision(2), 0).0.len(), 1);
    }

    #[test]
    fn a_group_stays_as_long_as_somebody_has_it() {
        let mut dispatcher = Dispatcher::default();
        let encoder = encoder("v1");
        let handed_out = dispatcher.group(key("v1/configmaps", Filter::default()), encoder.clone(), Revision(1));
        dispatcher.tidy(Revision(1), Revision::ZERO);
        assert_eq!(dispatcher.groups(), 1, "a subscriber was just handed it");
        let seat = handed_out.sit();
        drop(handed_out);
        dispatcher.tidy(Revision(1), Revision::ZERO);
        assert_eq!(dispatcher.groups(), 1, "it has a member");
        assert!(Arc::ptr_eq(&dispatcher.group(key("v1/configmaps", Filter::default()), encoder, Revision(1)), seat.group()));
        drop(seat);
        dispatcher.tidy(Revision(1), Revision::ZERO);
        assert_eq!(dispatcher.groups(), 0);
    }

    /// They stayed, and what they asked for with them, until somebody tidied.
    #[test]
    fn a_group_goes_with_its_last_member() {
        let mut dispatcher = Dispatcher::default();
        let encoder = encoder("v1");
        assert!(dispatcher.poll_left(Waker::noop()).is_pending());
        let seats = [0, 1].map(|_| live(&mut dispatcher, key("v1/configmaps", labelled("x")), &encoder));
        let [first, second] = seats;
        drop(first);
        assert!(dispatcher.poll_left(Waker::noop()).is_pending(), "one is left");
        drop(second);
        assert!(dispatcher.poll_left(Waker::noop()).is_ready());
        let handed_out = dispatcher.group(key("v1/configmaps", labelled("x")), encoder.clone(), Revision(1));
        dispatcher.forget_left();
        assert_eq!(dispatcher.groups(), 1, "somebody was just handed it");
        drop(handed_out.sit());
        drop(handed_out);
        dispatcher.forget_left();
        assert!(dispatcher.groups() == 0 && dispatcher.poll_left(Waker::noop()).is_pending());
        let seat = live(&mut dispatcher, key("v1/configmaps", labelled("x")), &encoder);
        dispatcher.end_all().now();
        drop(seat);
        dispatcher.forget_left();
    }

    #[test]
    fn the_end_is_for_all_and_a_new_group_begins_anew() {
        let mut dispatcher = Dispatcher::default();
        let encoder = encoder("v1");
        let seats = [Filter::default(), in_namespace()].map(|filter| live(&mut dispatcher, key("v1/configmaps", filter), &encoder));
        assert!(seats.iter().all(|seat| heard(seat).is_empty()));
        assert_eq!(dispatcher.end_all().0.len(), 2);
        assert!(seats.iter().all(Seat::is_ended) && dispatcher.groups() == 0);
        let again = dispatcher.group(key("v1/configmaps", Filter::default()), encoder, Revision(1));
        assert!(!again.sit().is_ended());
    }

    /// The clock of a Table whose row is being written until the test says so.
    fn held() -> Duration {
        GATE.wait();
        GATE.wait();
        Duration::ZERO
    }

    static GATE: Barrier = Barrier::new(2);

    /// A row that takes as long as the test wants delays neither the dispatch nor who watches something else, and is written once for all who watch it.
    #[test]
    fn nobody_waits_for_the_rows_of_others() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a thread");
        let _inside = runtime.enter();
        let plain = encoder("v1");
        let table = Arc::new(Table::of(&model::Storage::test_config_maps(), &[]));
        let rows = Arc::new(Encoder::table(MetaVersion::V1, table, Include::None, &plain, held));
        let mut dispatcher = Dispatcher::default();
        let sit = |group: Arc<Group>| {
            let seat = group.sit();
            assert!(seat.join(Revision(1)));
            seat
        };
        let honest = sit(dispatcher.group(key("v1/configmaps", Filter::default()), plain, Revision(1)));
        let slow = sit(dispatcher.group(key("rows", Filter::default()), rows.clone(), Revision(1)));
        let same = sit(dispatcher.group(key("rows", in_namespace()), rows, Revision(1)));
        let object = Arc::new(test_object_with("a", 2, &[], &[]));
        let event = Arc::new(Event { revision: Revision(2), new: Some(object), old: None, at_ms: 0 });
        dispatcher.dispatch(std::slice::from_ref(&event), Revision(1), 0).now();
        assert_eq!(heard(&honest).len(), 1, "it has its event before the row is begun");

        let (told, woken) = mpsc::channel();
        let waker = Waker::from(Arc::new(Bell(told)));
        let taken = |seat: &Seat| {
            let mut out = Vec::new();
            match seat.take(&mut Revision(1), 1 << 20, &mut out, &waker) {
                Taken::Later(later) => (later.poll(&waker).is_ready(), out.len()),
                _ => (true, out.len()),
            }
        };
        assert_eq!(taken(&slow), (false, 0));
        GATE.wait();
        assert_eq!((taken(&slow), taken(&same)), ((false, 0), (false, 0)), "it is being written");
        let next = Arc::new(Event { revision: Revision(3), new: event.new.clone(), old: None, at_ms: 0 });
        dispatcher.dispatch(&[next], Revision(2), 0).now();
        assert_eq!(heard(&honest).len(), 1, "and meanwhile others go on");
        GATE.wait();
        woken.recv_timeout(Duration::from_secs(120)).expect("the row is written");
        assert_eq!((taken(&slow), taken(&same)), ((true, 1), (true, 1)), "once for both: nobody opens the gate again");
    }

    struct Bell(mpsc::Sender<()>);

    impl std::task::Wake for Bell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
}
