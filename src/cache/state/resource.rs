//! Store, ring and head of one resource, moved together (guarantee Together): the only place that changes them.

use std::sync::Arc;

use bytes::Bytes;
use imbl::{OrdMap, Vector};

use super::{
    index::Index,
    ring::{Ring, RingLimits},
    snapshot::Snapshot,
    store::Store,
};
use model::{Batch, Broken, Change, Epoch, Event, GivenUp, Object, Revision};

/// A root (a snapshot of the store) is kept after this many events, so that an exact revision undoes at most as many. A kept clone costs about
/// 2 KB, so one in 256 is 8 bytes an event.
pub const ROOT_EVERY: usize = 256;

/// The state of one resource at one revision.
pub struct ResourceState {
    epoch: Epoch,
    applied: Revision,
    ready_at: Revision,
    store: Store,
    ring: Ring,
    roots: Vector<(Revision, Store)>,
    events_since_root: usize,
    broken: OrdMap<Bytes, Arc<Broken>>,
    serves_known_parts: bool,
    limits: RingLimits,
    given_up: GivenUp,
}

/// What a batch did.
#[derive(Debug, Default)]
pub struct Applied {
    /// The events, in etcd's order; all of one revision.
    pub events: Vec<Arc<Event>>,
    /// A value came that cannot be decoded: the resource's streams must end (spec: never left out silently).
    pub broke: bool,
}

impl ResourceState {
    /// Knows nothing yet: epoch 0, not ready.
    #[must_use]
    pub fn new(limits: RingLimits) -> Self {
        Self {
            epoch: Epoch::default(),
            applied: Revision::ZERO,
            ready_at: Revision(u64::MAX),
            store: Store::default(),
            ring: Ring::default(),
            roots: Vector::new(),
            events_since_root: 0,
            broken: OrdMap::new(),
            serves_known_parts: false,
            limits,
            given_up: GivenUp::Nothing,
        }
    }

    /// Takes what is known of a value for the whole, where more is in it.
    pub fn serve_known_parts(&mut self, yes: bool) {
        self.serves_known_parts = yes;
    }

    /// Starts a new life with all objects at `revision`. The ring's floor becomes `revision` (guarantee Complete: nothing is made up by diffing).
    pub fn reset(&mut self, epoch: Epoch, revision: Revision, ready_at: Revision, mut objects: Vec<Arc<Object>>, broken: Vec<Broken>) {
        assert!(epoch > self.epoch, "a reset starts a later life");
        self.epoch = epoch;
        self.applied = revision;
        self.ready_at = ready_at;
        self.broken = OrdMap::new();
        for broken in broken {
            match broken.or_known_part(self.serves_known_parts) {
                Ok(object) => objects.push(object),
                Err(broken) => _ = self.broken.insert(broken.key.clone(), Arc::new(broken)),
            }
        }
        objects.iter().for_each(|object| self.allow_message(object));
        self.store = Store::from_objects(objects);
        self.forget_history();
    }

    /// Applies one revision, whole (guarantee Atomic).
    pub fn apply(&mut self, batch: &Batch, now_ms: u64) -> Applied {
        assert!(batch.revision > self.applied, "revisions never go back: {} after {}", batch.revision, self.applied);
        let mut applied = Applied::default();
        let was_broken = !self.broken.is_empty();
        for change in &batch.changes {
            if let Some(event) = self.change(change, batch.revision, now_ms, &mut applied.broke) {
                applied.events.push(Arc::new(event));
            }
        }
        self.applied = batch.revision;
        let is_broken = !self.broken.is_empty();
        if was_broken != is_broken {
            // No watch may resume across a time whose events could not be shown.
            self.forget_history();
            applied.events.clear();
            return applied;
        }
        for event in &applied.events {
            self.ring.push(event.clone());
        }
        if is_broken {
            // Only those who do not show them follow them, by what the ring has.
            applied.events.clear();
        }
        self.events_since_root += applied.events.len();
        if self.events_since_root >= ROOT_EVERY && self.given_up < GivenUp::Snapshots {
            self.events_since_root = 0;
            self.roots.push_back((self.applied, self.store.clone()));
        }
        self.evict(now_ms);
        applied
    }

    /// Takes over an index that was made of the snapshot of a life at a revision, with what has changed since. An index of what is forgotten is dropped.
    pub fn adopt(&mut self, mut index: Index, epoch: Epoch, revision: Revision, now_ms: u64) {
        let Some(since) = self.ring.since(revision).ok().filter(|_| epoch == self.epoch) else { return };
        for event in (since..self.ring.len()).filter_map(|at| self.ring.at(at)) {
            index.moved(event.old.as_ref(), event.new.as_ref());
        }
        if index.is_used(self.store.len(), now_ms) && self.given_up < GivenUp::Snapshots {
            self.store.add(index);
        }
    }

    /// Drops what the ring's limits no longer allow at `now_ms`, and indexes that nobody uses.
    pub fn shrink(&mut self, now_ms: u64) {
        self.store.drop_unused(now_ms);
        self.evict(now_ms);
    }

    /// Does without this from now on, and with everything else.
    pub fn give_up(&mut self, given_up: GivenUp, now_ms: u64) {
        let may_keep = given_up < GivenUp::Messages;
        if may_keep != (self.given_up < GivenUp::Messages) {
            self.store.scan(b"", b"").for_each(|object| object.may_keep_message(may_keep));
            // What was replaced since.
            let old = (0..self.ring.len()).filter_map(|at| self.ring.at(at)?.old.as_ref());
            old.for_each(|object| object.may_keep_message(may_keep));
        }
        self.given_up = given_up;
        if given_up >= GivenUp::Snapshots {
            self.roots = Vector::new();
            self.store.drop_indexes();
        }
        self.evict(now_ms);
    }

    /// Whether an index would be kept.
    #[must_use]
    pub fn may_index(&self) -> bool {
        self.given_up < GivenUp::Snapshots
    }

    fn evict(&mut self, now_ms: u64) {
        self.ring.evict(&self.limits.without(self.given_up), now_ms);
        while self.roots.front().is_some_and(|(revision, _)| *revision <= self.ring.floor()) {
            self.roots.pop_front();
        }
    }

    /// The highest revision that the ring may have forgotten.
    #[must_use]
    pub fn forgotten(&self) -> Revision {
        self.ring.floor()
    }

    /// An immutable snapshot of now. Costs a few reference counts.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            epoch: self.epoch,
            applied: self.applied,
            ready_at: self.ready_at,
            store: self.store.clone(),
            ring: self.ring.clone(),
            roots: self.roots.clone(),
            broken: self.broken.clone(),
        }
    }

    /// Revision of the last change applied, or of the load.
    #[must_use]
    pub fn applied(&self) -> Revision {
        self.applied
    }

    /// The life this resource is in.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn change(&mut self, change: &Change, revision: Revision, now_ms: u64, broke: &mut bool) -> Option<Event> {
        match change {
            Change::Put(object) => {
                let mended = self.mend(object.key());
                self.allow_message(object);
                let old = self.store.put(object.clone()).or(mended);
                Some(Event { revision, old, new: Some(object.clone()), at_ms: now_ms })
            }
            Change::Delete(key) => {
                let mended = self.mend(key);
                let old = self.store.remove(key).or(mended)?;
                Some(Event { revision, old: Some(old), new: None, at_ms: now_ms })
            }
            Change::Broken(Broken { known_part: Some(object), .. }) if self.serves_known_parts => {
                self.change(&Change::Put(object.clone()), revision, now_ms, broke)
            }
            Change::Broken(broken) => {
                *broke = true;
                let mended = self.mend(&broken.key);
                let (old, new) = (self.store.remove(&broken.key).or(mended), broken.known_part.clone());
                self.broken.insert(broken.key.clone(), Arc::new(broken.clone()));
                (old.is_some() || new.is_some()).then_some(Event { revision, old, new, at_ms: now_ms })
            }
            Change::Stored(_) => unreachable!("the cacher makes stored values servable before it applies them"),
        }
    }

    fn allow_message(&self, object: &Object) {
        if self.given_up >= GivenUp::Messages {
            object.may_keep_message(false);
        }
    }

    /// What was known of a value that was not whole, and is replaced.
    fn mend(&mut self, key: &[u8]) -> Option<Arc<Object>> {
        self.broken.remove(key)?.known_part.clone()
    }

    fn forget_history(&mut self) {
        self.ring = Ring::starting_at(self.applied);
        self.roots = Vector::new();
        self.events_since_root = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use model::test_object;

    const LIMITS: RingLimits = RingLimits { events_max: 700, bytes_max: usize::MAX, window_ms: 0 };

    fn replica_at(revision: u64) -> ResourceState {
        let mut resource = ResourceState::new(LIMITS);
        resource.reset(Epoch(1), Revision(revision), Revision(revision), Vec::new(), Vec::new());
        resource
    }

    fn put(name: &str, revision: u64) -> Batch {
        Batch { revision: Revision(revision), changes: vec![Change::Put(Arc::new(test_object(name, revision)))] }
    }

    fn given_up() -> impl Strategy<Value = GivenUp> {
        prop_oneof![Just(GivenUp::Nothing), prop::sample::select(GivenUp::ALL.to_vec())]
    }

    #[test]
    fn what_is_given_up_is_dropped_and_not_kept_again() {
        let mut resource = replica_at(1);
        (2..=600).for_each(|revision| drop(resource.apply(&put(&format!("o{}", revision % 7), revision), revision)));
        let message = Bytes::from_static(b"message");
        let keeps = |resource: &ResourceState| {
            let snapshot = resource.snapshot();
            let objects = snapshot.store.scan(b"", b"").chain(snapshot.ring.at(0).and_then(|event| event.old.as_ref()));
            objects.inspect(|object| object.keep_message(&message)).filter(|object| object.message().is_some()).count()
        };
        assert_eq!((keeps(&resource), resource.snapshot().roots.len(), resource.snapshot().ring.len()), (7, 2, 599));
        resource.give_up(GivenUp::Messages, 600);
        assert_eq!((keeps(&resource), resource.snapshot().roots.len()), (0, 2));
        resource.apply(&put("new", 601), 601);
        assert_eq!(keeps(&resource), 0);
        resource.give_up(GivenUp::Snapshots, 601);
        (602..=1_200).for_each(|revision| drop(resource.apply(&put("new", revision), revision)));
        assert_eq!((resource.may_index(), resource.snapshot().roots.len(), resource.snapshot().ring.len()), (false, 0, 700));
        resource.give_up(GivenUp::OldHistory, 1_200);
        assert_eq!(resource.snapshot().ring.len(), 700 / 4);
        resource.give_up(GivenUp::Nothing, 1_200);
        (1_201..=1_900).for_each(|revision| drop(resource.apply(&put("new", revision), revision)));
        assert_eq!((resource.may_index(), keeps(&resource), resource.snapshot().ring.len()), (true, 9, 700));
    }

    /// Once as the new object of one event and again as the old one of the next, history said twice what it held.
    #[test]
    fn each_version_of_an_object_is_counted_once() {
        let mut resource = replica_at(1);
        (2..=101).for_each(|revision| drop(resource.apply(&put("a", revision), revision)));
        (102..=151).for_each(|revision| drop(resource.apply(&put(&format!("o{revision}"), revision), revision)));
        resource.apply(
            &Batch { revision: Revision(152), changes: vec![Change::Delete(Bytes::copy_from_slice(test_object("a", 1).key()))] },
            152,
        );
        let counts = |resource: &ResourceState| {
            let snapshot = resource.snapshot();
            let (mut versions, mut bytes) = (std::collections::BTreeMap::new(), snapshot.ring.len() * size_of::<Event>());
            let named = snapshot.ring.iter().flat_map(|event| [event.old.clone(), event.new.clone()]).flatten();
            for object in named.chain(snapshot.store.scan(b"", b"").cloned()) {
                versions.insert(Arc::as_ptr(&object), object.weight());
            }
            bytes += versions.values().sum::<usize>();
            (snapshot.ring.bytes() + snapshot.store.bytes(), bytes)
        };
        let (counted, held) = counts(&resource);
        assert_eq!(counted, held, "all 150 versions, 50 of which are current");
        resource.ring.evict(&RingLimits { events_max: 60, ..LIMITS }, 152);
        let (counted, held) = counts(&resource);
        assert_eq!((counted, resource.snapshot().ring.len()), (held, 60), "also after some were evicted");
    }

    fn partly(name: &str, revision: u64) -> Broken {
        let object = Arc::new(test_object(name, revision));
        let key = Bytes::copy_from_slice(object.key());
        Broken { key, revision: Revision(revision), why: "#8".into(), known_part: Some(object) }
    }

    fn keys_since(resource: &ResourceState, seen: u64) -> Option<Vec<Bytes>> {
        resource.snapshot().changed_since(Epoch(1), Revision(seen)).map(|keys| keys.into_iter().collect())
    }

    /// Nobody is shown what is known of an object that is not whole, but who judges by it finds it, and finds out what was written without looking at all.
    #[test]
    fn the_known_part_of_a_value_is_judged_by_and_not_shown() {
        let mut resource = replica_at(1);
        resource.apply(&put("a", 2), 0);
        let broke = |resource: &mut ResourceState, name, revision| {
            resource.apply(&Batch { revision: Revision(revision), changes: vec![Change::Broken(partly(name, revision))] }, 0)
        };
        let (a, b) = (test_object("a", 1), test_object("b", 1));
        assert!(broke(&mut resource, "a", 3).broke);
        let snapshot = resource.snapshot();
        assert_eq!(
            (snapshot.broken.len(), snapshot.store.len(), snapshot.ring.floor()),
            (1, 0, Revision(3)),
            "it is not shown, and nothing resumes"
        );
        assert_eq!(snapshot.known_part(a.key()).map(|object| object.revision), Some(Revision(3)));
        let applied = broke(&mut resource, "b", 4);
        assert!(applied.broke && applied.events.is_empty());
        assert!(resource.apply(&put("c", 5), 0).events.is_empty(), "nobody watches while one of them is not whole");
        assert_eq!(keys_since(&resource, 3).map(|keys| keys.len()), Some(2), "what is written meanwhile is known");
        resource.apply(&Batch { revision: Revision(6), changes: vec![Change::Delete(Bytes::copy_from_slice(b.key()))] }, 0);
        assert!(resource.snapshot().known_part(b.key()).is_none());
        assert_eq!(keys_since(&resource, 5).map(|keys| keys.len()), Some(1));
        resource.apply(&put("a", 7), 0);
        let snapshot = resource.snapshot();
        assert_eq!(
            (snapshot.broken.len(), snapshot.store.len(), snapshot.ring.floor()),
            (0, 2, Revision(7)),
            "whole again, and nothing resumes across"
        );
        assert_eq!(keys_since(&resource, 6), None);
    }

    #[test]
    fn the_known_part_is_shown_to_who_wants_it_so() {
        let mut resource = ResourceState::new(LIMITS);
        resource.serve_known_parts(true);
        resource.reset(Epoch(1), Revision(1), Revision(1), Vec::new(), vec![partly("a", 1)]);
        let applied = resource.apply(&Batch { revision: Revision(2), changes: vec![Change::Broken(partly("b", 2))] }, 0);
        assert_eq!((applied.broke, applied.events.len()), (false, 1));
        assert_eq!(
            (resource.snapshot().broken.len(), resource.snapshot().store.len(), resource.snapshot().ring.floor()),
            (0, 2, Revision(1))
        );
    }

    #[test]
    fn an_undecodable_value_hides_and_comes_back() {
        let mut resource = replica_at(1);
        resource.apply(&put("a", 2), 0);
        let key = Bytes::from_static(b"/registry/configmaps/ns/a");
        let broken = Broken { key: key.clone(), revision: Revision(3), why: "x".into(), known_part: None };
        let applied = resource.apply(&Batch { revision: Revision(3), changes: vec![Change::Broken(broken)] }, 0);
        assert!(applied.broke && applied.events.is_empty());
        let snapshot = resource.snapshot();
        assert_eq!((snapshot.broken.len(), snapshot.store.len(), snapshot.ring.floor()), (1, 0, Revision(3)));
        let applied = resource.apply(&Batch { revision: Revision(4), changes: vec![Change::Delete(key)] }, 0);
        assert!(!applied.broke && applied.events.is_empty());
        assert_eq!((resource.snapshot().broken.len(), resource.snapshot().ring.floor()), (0, Revision(4)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against a map per revision: every exact revision at or above the floor is the state of that revision; below it is refused.
        #[test]
        fn exact_revisions_are_the_past(
            steps in prop::collection::vec((0..20_u8, any::<bool>(), 0..3_u64, prop::option::weighted(0.01, given_up())), 1..1500),
        ) {
            let mut resource = replica_at(10);
            let mut truth = BTreeMap::from([(10, BTreeMap::<String, u64>::new())]);
            let mut now = BTreeMap::new();
            let mut revision = 10;
            for (who, delete, skip, given_up) in steps {
                if let Some(given_up) = given_up {
                    resource.give_up(given_up, revision);
                }
                revision += 1 + skip;
                let name = format!("o{who}");
                let change = if delete && now.remove(&name).is_some() {
                    Change::Delete(Bytes::from(format!("/registry/configmaps/ns/{name}")))
                } else {
                    now.insert(name.clone(), revision);
                    Change::Put(Arc::new(test_object(&name, revision)))
                };
                resource.apply(&Batch { revision: Revision(revision), changes: vec![change] }, revision);
                truth.insert(revision, now.clone());
            }
            let store = resource.snapshot().store;
            prop_assert_eq!(store.bytes(), store.scan(b"", b"").map(|object| object.weight()).sum::<usize>());
            let snapshot = resource.snapshot();
            for at in 10..=revision {
                let want = truth.range(..=at).next_back().map(|(_, state)| state.clone()).expect("10 is there");
                match snapshot.exact(Revision(at)) {
                    Some(store) => {
                        let got: BTreeMap<String, u64> = store.scan(b"/", b"").map(|o| (o.name().to_owned(), o.revision.0)).collect();
                        prop_assert!(Revision(at) >= snapshot.ring.floor());
                        prop_assert_eq!(got, want);
                    }
                    None => prop_assert!(Revision(at) < snapshot.ring.floor()),
                }
            }
        }
    }
}
