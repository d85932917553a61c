//! What was really written: every acknowledged change by revision, in eras (a restored backup starts a new one). Knows no server.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    history::{Event, Kind},
    object::{Draft, Filter, KeyId, Resource},
};

/// One acknowledged change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Which object.
    pub(crate) key: KeyId,
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// What it became; `None` when it was deleted.
    pub(crate) after: Option<Value>,
}

/// What the truth keeps of a written object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// Index of its label value.
    pub(crate) tier: u8,
    /// Digest of the body.
    pub(crate) digest: u64,
}

impl Change {
    /// The object was created or updated.
    #[must_use]
    pub(crate) fn put(draft: &Draft) -> Self {
        let after = Some(Value { tier: draft.tier, digest: draft.digest() });
        Self { key: draft.id(), namespace: draft.namespace.clone(), name: draft.name.clone(), after }
    }

    /// The object was deleted.
    #[must_use]
    pub(crate) fn delete(namespace: &str, name: &str) -> Self {
        let key = crate::object::key_id(namespace, name);
        Self { key, namespace: namespace.to_owned(), name: name.to_owned(), after: None }
    }
}

/// One life of the store: revisions never go back in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Era {
    /// Every change, by the revision that made it.
    pub(crate) revisions: BTreeMap<u64, Vec<Change>>,
}

/// What a watcher with one filter must see in one era.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// Revision, and the changes that the filter shows of it; never empty.
    pub(crate) groups: Vec<(u64, Vec<Event>)>,
}

/// State of a client or of the truth: object to (revision, digest).
pub(crate) type State = HashMap<KeyId, (u64, u64)>;

impl Era {
    /// The events that a watcher with this filter sees from the beginning (transition table of the API: into the filter ADDED, inside
    /// MODIFIED, out of it or gone DELETED with the body before).
    #[must_use]
    pub(crate) fn expected(&self, filter: &Filter) -> Expected {
        let mut before: HashMap<KeyId, Value> = HashMap::new();
        let mut groups = Vec::new();
        for (revision, changes) in &self.revisions {
            let mut events = Vec::new();
            for change in changes {
                let old = match change.after {
                    Some(value) => before.insert(change.key, value),
                    None => before.remove(&change.key),
                };
                events.extend(outcome(filter, change, old, *revision));
            }
            if !events.is_empty() {
                groups.push((*revision, events));
            }
        }
        Expected { groups }
    }

    /// Which objects exist at the end, with their names.
    #[must_use]
    pub(crate) fn living(&self) -> HashMap<KeyId, (String, String)> {
        let mut living = HashMap::new();
        for change in self.revisions.values().flatten() {
            match change.after {
                Some(_) => living.insert(change.key, (change.namespace.clone(), change.name.clone())),
                None => living.remove(&change.key),
            };
        }
        living
    }
}

fn outcome(filter: &Filter, change: &Change, old: Option<Value>, revision: u64) -> Option<Event> {
    let within = |value: Value| filter.matches(&change.namespace, &change.name, value.tier);
    let was = old.filter(|v| within(*v));
    let is = change.after.filter(|v| within(*v));
    let (kind, shown) = match (was, is) {
        (None, None) => return None,
        (None, Some(new)) => (Kind::Added, new),
        (Some(_), Some(new)) => (Kind::Modified, new),
        (Some(old), None) => (Kind::Deleted, old),
    };
    Some(Event { kind, key: change.key, revision, digest: shown.digest })
}

impl Expected {
    /// The state at a revision.
    #[must_use]
    pub(crate) fn state_at(&self, revision: u64) -> State {
        let mut state = State::new();
        for (at, events) in &self.groups {
            if *at > revision {
                break;
            }
            for event in events {
                match event.kind {
                    Kind::Deleted => state.remove(&event.key),
                    Kind::Added | Kind::Modified => state.insert(event.key, (*at, event.digest)),
                };
            }
        }
        state
    }

    /// Index of the first group after a revision.
    #[must_use]
    pub(crate) fn first_after(&self, revision: u64) -> usize {
        self.groups.partition_point(|(at, _)| *at <= revision)
    }
}

/// The truth log that writers fill and watchers consult for "what was acknowledged before I asked".
#[derive(Debug)]
pub(crate) struct Ledger {
    resource: Resource,
    eras: Mutex<Vec<Era>>,
    era: AtomicUsize,
    head: AtomicU64,
    count: AtomicU64,
    start: Instant,
}

/// A sequence number is microseconds since the start, then this many bits of a counter.
const COUNTER_BITS: u32 = 20;

impl Ledger {
    /// An empty log of objects of this resource, with its first era.
    #[must_use]
    pub(crate) fn of(resource: Resource) -> Self {
        let (eras, zero) = (Mutex::new(vec![Era::default()]), AtomicU64::default);
        Self { resource, eras, era: AtomicUsize::new(0), head: zero(), count: zero(), start: Instant::now() }
    }

    /// What writers write, and watchers ask for.
    #[must_use]
    pub(crate) fn resource(&self) -> Resource {
        self.resource
    }

    /// A sequence number that no other write has; it holds the time.
    pub(crate) fn next_seq(&self) -> u64 {
        let count = self.count.fetch_add(1, Ordering::Relaxed) & ((1 << COUNTER_BITS) - 1);
        self.micros() << COUNTER_BITS | count
    }

    /// Milliseconds since a sequence number was given out.
    #[must_use]
    pub(crate) fn age_ms(&self, seq: u64) -> usize {
        let micros = self.micros().saturating_sub(seq >> COUNTER_BITS);
        usize::try_from(micros / 1000).unwrap_or(usize::MAX)
    }

    /// When a sequence number was given out.
    #[must_use]
    pub(crate) fn at(&self, seq: u64) -> Instant {
        self.start + Duration::from_micros(seq >> COUNTER_BITS)
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).expect("a run is shorter than 2^44 microseconds")
    }

    /// An acknowledged transaction.
    pub(crate) fn record(&self, revision: u64, changes: Vec<Change>) {
        let mut eras = self.lock();
        let era = eras.last_mut().expect("a ledger has an era from the start");
        let doubled = era.revisions.insert(revision, changes);
        assert!(doubled.is_none(), "etcd acknowledged two transactions at revision {revision}");
        self.head.fetch_max(revision, Ordering::AcqRel);
    }

    /// A backup that stood at `kept` was restored: what came after it did not happen in the new era.
    pub(crate) fn restored(&self, kept: u64) {
        let mut eras = self.lock();
        let mut next = eras.last().expect("a ledger has an era from the start").clone();
        let _undone = next.revisions.split_off(&(kept + 1));
        eras.push(next);
        // Head first: who reads the new era must not read the old head with it.
        self.head.store(kept, Ordering::Release);
        self.era.store(eras.len() - 1, Ordering::Release);
    }

    /// Index of the present era and its highest acknowledged revision.
    #[must_use]
    pub(crate) fn now(&self) -> (usize, u64) {
        (self.era.load(Ordering::Acquire), self.head.load(Ordering::Acquire))
    }

    /// Every era so far.
    #[must_use]
    pub(crate) fn eras(&self) -> Vec<Era> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Era>> {
        self.eras.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Select;

    fn draft(name: &str, tier: u8, seq: u64) -> Draft {
        Draft { namespace: "faults-0".into(), name: name.into(), tier, seq, payload_bytes: 8 }
    }

    #[test]
    fn a_selector_turns_updates_into_added_and_deleted() {
        let ledger = Ledger::of(Resource::ConfigMaps);
        ledger.record(2, vec![Change::put(&draft("x", 0, 1))]);
        ledger.record(3, vec![Change::put(&draft("x", 1, 2))]);
        ledger.record(4, vec![Change::put(&draft("x", 0, 3))]);
        ledger.record(5, vec![Change::delete("faults-0", "x")]);
        let filter = Filter { namespace: None, select: Select::Tier(0) };
        let expected = ledger.eras()[0].expected(&filter);
        let kinds: Vec<_> = expected.groups.iter().map(|(r, e)| (*r, e[0].kind, e[0].digest)).collect();
        let (one, three) = (draft("x", 0, 1).digest(), draft("x", 0, 3).digest());
        assert_eq!(kinds, [(2, Kind::Added, one), (3, Kind::Deleted, one), (4, Kind::Added, three), (5, Kind::Deleted, three)]);
        assert!(expected.state_at(3).is_empty());
        assert_eq!(expected.state_at(4).len(), 1);
    }

    #[test]
    fn a_restore_forgets_what_came_after_the_backup() {
        let ledger = Ledger::of(Resource::ConfigMaps);
        ledger.record(2, vec![Change::put(&draft("x", 0, 1))]);
        ledger.record(3, vec![Change::put(&draft("y", 0, 2))]);
        ledger.restored(2);
        ledger.record(3, vec![Change::put(&draft("z", 0, 3))]);
        assert_eq!(ledger.now(), (1, 3));
        let eras = ledger.eras();
        let all = Filter { namespace: None, select: Select::All };
        assert_eq!(eras[0].expected(&all).state_at(3).len(), 2);
        assert_ne!(eras[0].expected(&all).state_at(3), eras[1].expected(&all).state_at(3));
    }
}
