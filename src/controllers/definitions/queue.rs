//! Which definition is looked at next, and which names are taken.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;

use cache::state::snapshot::{Known, Snapshot};
use catalogue::definition::{Names, NamesInUse};
use model::{Epoch, Object, Revision};

/// How often a definition that is being deleted is looked at again while its instances go (spec api-surface §11.2).
const POLL_EVERY: Duration = Duration::from_secs(5);

/// Wait before a step that has failed is tried again, first and longest; doubled in between. One that etcd refuses for its size is refused for ever.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// What is known of all definitions.
#[derive(Default)]
pub(super) struct Queue {
    /// The snapshot that was followed last.
    at: Option<(Epoch, Revision)>,
    entries: BTreeMap<Bytes, Entry>,
    /// What is looked at when.
    due: BTreeSet<(Instant, Bytes)>,
    /// Keys whose names are to be read.
    unread: BTreeSet<Bytes>,
    /// By group: the names that are taken, and who waits for one.
    groups: HashMap<String, Group>,
    /// What is taken in a group without names.
    none: NamesInUse,
}

#[derive(Default)]
struct Group {
    taken: NamesInUse,
    refused: BTreeSet<Bytes>,
}

struct Entry {
    object: Arc<Object>,
    group: String,
    /// The accepted names, as they are in `taken`.
    names: Names,
    /// The revision that has these names.
    names_at: Option<Revision>,
    due: Option<Instant>,
    /// Steps that have failed one after the other.
    failures: u32,
}

/// How a look at a definition ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It is as it should be until somebody writes it.
    Rest,
    /// Nothing can be done before a name becomes free.
    Refused,
    /// There is another step to go at once.
    Again,
    /// Its instances are on their way out.
    Deleting,
    /// It was written: at this revision it has these names.
    Written(Revision, Names),
    /// It was not.
    Failed,
}

impl Queue {
    /// Takes in what changed since the last snapshot; costs nothing when nothing did.
    pub(super) fn follow(&mut self, known: &Known, now: Instant) {
        if known.is_ready() {
            self.follow_view(&known.snapshot, now);
        }
    }

    fn follow_view(&mut self, snapshot: &Snapshot, now: Instant) {
        let at = (snapshot.epoch, snapshot.applied);
        if self.at == Some(at) {
            return;
        }
        let changed = self.at.and_then(|(epoch, seen)| snapshot.changed_since(epoch, seen));
        self.at = Some(at);
        if changed.is_none() {
            // Another etcd may have other names at smaller revisions.
            self.entries.values_mut().for_each(|entry| entry.names_at = None);
        }
        let all = || {
            self.entries.keys().cloned().chain(snapshot.store.scan(b"", b"").map(|object| Bytes::copy_from_slice(object.key()))).collect()
        };
        for key in changed.unwrap_or_else(all) {
            match snapshot.store.find(&key) {
                Some(object) if self.entries.get(&key).is_some_and(|entry| Arc::ptr_eq(&entry.object, object)) => {}
                Some(object) => self.written(object),
                None => self.gone(&key, now),
            }
        }
    }

    /// Objects whose names [`Queue::read`] is to read.
    pub(super) fn unread(&mut self) -> Vec<Arc<Object>> {
        let keys = std::mem::take(&mut self.unread);
        keys.iter().filter_map(|key| self.entries.get(key)).map(|entry| entry.object.clone()).collect()
    }

    /// The group and the names of a definition as the snapshot has it: it is looked at now.
    pub(super) fn read(&mut self, object: &Object, group: String, names: Names, now: Instant) {
        self.take(object.key(), Some(group), object.revision, names, now);
        self.schedule(object.key(), Some(now));
    }

    /// What is looked at first, and when.
    pub(super) fn first(&self) -> Option<(Instant, Arc<Object>)> {
        let (at, key) = self.due.first()?;
        Some((*at, self.entries.get(key)?.object.clone()))
    }

    /// The names that definitions of this one's group have, its own among them.
    pub(super) fn taken(&self, key: &[u8]) -> &NamesInUse {
        let group = self.entries.get(key).and_then(|entry| self.groups.get(&entry.group));
        group.map_or(&self.none, |group| &group.taken)
    }

    /// How the look at a definition ended.
    pub(super) fn done(&mut self, key: &[u8], after: After, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.failures = if after == After::Failed { entry.failures.saturating_add(1) } else { 0 };
        let pause = RETRY.0.saturating_mul(1 << entry.failures.saturating_sub(1).min(16)).min(RETRY.1);
        if let Some(group) = self.groups.get_mut(&entry.group) {
            if after == After::Refused {
                group.refused.insert(Bytes::copy_from_slice(key));
            } else {
                group.refused.remove(key);
            }
        }
        let due = match after {
            After::Rest | After::Refused | After::Written(..) => None,
            After::Again => Some(now),
            After::Deleting => Some(now + POLL_EVERY),
            After::Failed => Some(now + pause),
        };
        self.schedule(key, due);
        if let After::Written(revision, names) = after {
            self.take(key, None, revision, names, now);
        }
    }

    /// How many failed the last time.
    pub(super) fn failing(&self) -> usize {
        self.entries.values().filter(|entry| entry.failures > 0).count()
    }

    fn written(&mut self, object: &Arc<Object>) {
        let fresh =
            || Entry { object: object.clone(), group: String::new(), names: Names::default(), names_at: None, due: None, failures: 0 };
        let entry = self.entries.entry(Bytes::copy_from_slice(object.key())).or_insert_with(fresh);
        entry.object = object.clone();
        entry.failures = 0;
        self.unread.insert(Bytes::copy_from_slice(object.key()));
        self.schedule(object.key(), None);
    }

    fn gone(&mut self, key: &[u8], now: Instant) {
        self.schedule(key, None);
        self.take(key, None, Revision(u64::MAX), Names::default(), now);
        if let Some(entry) = self.entries.remove(key)
            && let Some(group) = self.groups.get_mut(&entry.group)
        {
            group.refused.remove(key);
        }
    }

    fn schedule(&mut self, key: &[u8], due: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let Some(before) = std::mem::replace(&mut entry.due, due) {
            self.due.remove(&(before, Bytes::copy_from_slice(key)));
        }
        self.due.extend(due.map(|due| (due, Bytes::copy_from_slice(key))));
    }

    /// The definition has these names at this revision. Whoever waits for one that it has no longer is looked at. What we wrote may be told before an
    /// older snapshot is: that one says nothing.
    fn take(&mut self, key: &[u8], group: Option<String>, revision: Revision, names: Names, now: Instant) {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| Some(revision) >= entry.names_at) else { return };
        entry.names_at = Some(revision);
        let old = std::mem::replace(&mut entry.names, names.clone());
        let to = group.unwrap_or_else(|| entry.group.clone());
        let from = std::mem::replace(&mut entry.group, to.clone());
        self.groups.entry(to.clone()).or_default().taken.add(&names);
        let is_less = from != to || !old.is_within(&names);
        let Some(group) = self.groups.get_mut(&from) else { return };
        group.taken.remove(&old);
        let waiting = if is_less { std::mem::take(&mut group.refused) } else { BTreeSet::new() };
        if group.taken.is_empty() {
            self.groups.remove(&from);
        }
        for key in waiting {
            self.schedule(&key, Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use cache::state::{resource::ResourceState, ring::RingLimits};
    use model::{Batch, Change, test_object};

    /// A replica of definitions and the queue that follows it.
    struct Bench {
        replica: ResourceState,
        queue: Queue,
        revision: u64,
        now: Instant,
    }

    impl Bench {
        fn new(limits: RingLimits) -> Self {
            let mut replica = ResourceState::new(limits);
            replica.reset(Epoch(1), Revision(1), Revision(1), Vec::new(), Vec::new());
            Self { replica, queue: Queue::default(), revision: 1, now: Instant::now() }
        }

        fn put(&mut self, name: &str, accepted: &str) -> Arc<Object> {
            let object = self.apply(name, |name, revision| Change::Put(Arc::new(test_object(name, revision))));
            for object in self.queue.unread() {
                self.queue.read(&object, "ex.io".to_owned(), names(accepted), self.now);
            }
            object.expect("it was put")
        }

        fn delete(&mut self, name: &str) {
            self.apply(name, |name, revision| Change::Delete(Bytes::copy_from_slice(test_object(name, revision).key())));
        }

        fn apply(&mut self, name: &str, change: impl Fn(&str, u64) -> Change) -> Option<Arc<Object>> {
            self.revision += 1;
            let batch = Batch { revision: Revision(self.revision), changes: vec![change(name, self.revision)] };
            self.replica.apply(&batch, 0);
            let snapshot = self.replica.snapshot();
            self.queue.follow_view(&snapshot, self.now);
            snapshot.store.find(test_object(name, 1).key()).cloned()
        }

        /// Names of what is looked at by now.
        fn due(&self) -> Vec<String> {
            self.queue
                .due
                .iter()
                .filter(|(at, _)| *at <= self.now)
                .map(|(_, key)| self.queue.entries[key].object.name().to_owned())
                .collect()
        }
    }

    fn names(plural: &str) -> Names {
        Names::accepted(&json!({"status": {"acceptedNames": {"plural": plural, "kind": plural}}}))
    }

    fn unlimited() -> RingLimits {
        RingLimits { events_max: usize::MAX, bytes_max: usize::MAX, window_ms: 0 }
    }

    /// All definitions were looked at for each change of one, and every five seconds.
    #[test]
    fn a_change_is_one_look_and_rest_is_none() {
        let mut bench = Bench::new(unlimited());
        for (name, accepted) in [("a", "as"), ("b", "bs"), ("c", "cs")] {
            let object = bench.put(name, accepted);
            assert_eq!(bench.due(), [name]);
            bench.queue.done(object.key(), After::Rest, bench.now);
        }
        bench.queue.follow_view(&bench.replica.snapshot(), bench.now);
        assert!(bench.queue.first().is_none() && bench.queue.unread().is_empty(), "nothing is due, ever");
        bench.put("b", "bs");
        assert_eq!(bench.due(), ["b"]);
    }

    /// One that etcd refused for its size held up all that came after it, and said so every second.
    #[test]
    fn one_that_fails_waits_longer_and_longer_and_alone() {
        let mut bench = Bench::new(unlimited());
        let (large, small) = (bench.put("large", ""), bench.put("small", ""));
        let mut waits = Vec::new();
        for _ in 0..12 {
            bench.queue.done(large.key(), After::Failed, bench.now);
            let (at, first) = bench.queue.first().expect("something is due");
            assert_eq!((at, first.name()), (bench.now, "small"));
            waits.push((bench.queue.entries[large.key()].due.expect("it is tried again") - bench.now).as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(bench.queue.failing(), 1);
        bench.queue.done(small.key(), After::Rest, bench.now);
        bench.put("large", "");
        assert_eq!((bench.due(), bench.queue.failing()), (vec!["large".to_owned()], 0), "another version of it may fit");
    }

    #[test]
    fn who_waits_for_a_name_is_looked_at_when_it_is_free() {
        let mut bench = Bench::new(unlimited());
        let (a, b) = (bench.put("a", ""), bench.put("b", ""));
        // Written, and not yet seen: nobody else may have the name meanwhile.
        bench.queue.done(a.key(), After::Written(Revision(9), names("things")), bench.now);
        let taken = |queue: &Queue| format!("{:?}", queue.taken(b.key()));
        assert!(taken(&bench.queue).contains("things"));
        bench.queue.done(b.key(), After::Refused, bench.now);
        bench.put("a", "");
        assert!(taken(&bench.queue).contains("things"), "an older snapshot");
        bench.revision = 8;
        let a = bench.put("a", "things");
        bench.queue.done(a.key(), After::Rest, bench.now);
        assert!(bench.due().is_empty(), "nothing has become free");
        bench.delete("a");
        assert_eq!((bench.due(), taken(&bench.queue).contains("things")), (vec!["b".to_owned()], false));
        bench.delete("b");
        assert!(bench.queue.groups.is_empty() && bench.queue.due.is_empty());
    }

    /// The ring is the short way; without it everything is compared.
    #[test]
    fn what_the_ring_has_forgotten_is_found_all_the_same() {
        let mut bench = Bench::new(RingLimits { events_max: 0, bytes_max: 0, window_ms: 0 });
        let a = bench.put("a", "as");
        bench.queue.done(a.key(), After::Rest, bench.now);
        bench.put("b", "bs");
        assert_eq!(bench.due(), ["b"]);
        bench.delete("a");
        assert_eq!(bench.queue.entries.len(), 1);
    }
}
