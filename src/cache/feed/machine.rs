//! The feed's decisions, pure: which change goes to which cacher, what is held back, what must be loaded anew, how far everything is handed over.
//!
//! What a watch stream tells and finished loads go in, [`Out`]s come out, in an order the driver must keep.
//!
//! ```text
//! a resource:   Loading ──loaded──▶ Live ──compacted, overloaded──▶ Loading
//!               Loading ──load failed, too much held──▶ Loading (next generation)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::ingest::ingest;
use model::{Batch, Broken, Change, Epoch, Feed, Included, KeyChange, KeyRange, Object, ResourceId, Revision, Storage, Stored};

/// The key by which kube-apiserver says what it compacted (spec list-watch §10). Not under the prefix.
pub const COMPACT_REV_KEY: &[u8] = b"compact_rev_key";

/// Bytes of a value from which on its cacher makes it servable, and not the feed, which would hold up other resources. A definition of 1.2 MB takes some
/// ten milliseconds, one of this size half of one.
pub const LARGE_BYTES: usize = 64 << 10;

/// What the driver must do, in order.
#[derive(Debug)]
pub enum Out {
    /// Hand these to the resource's cacher, all of them before anything is said about how far it was handed: `fed` may have passed a change that
    /// was held during a load.
    Hand(ResourceId, Vec<Feed>),
    /// Say that nothing may be inferred about this resource.
    Withhold(ResourceId),
    /// What the cacher has is of an etcd that is no more: only a snapshot of this epoch, or a later one, may be trusted.
    Void(ResourceId, Epoch),
    /// Say that too much changed while this resource was loaded: it is loaded again.
    HeldTooMuch(ResourceId),
    /// Read every object of this resource, and answer with [`Machine::loaded`] or [`Machine::load_failed`] of this generation.
    Load(ResourceId, Generation, LoadAt),
    /// Everything up to here is handed over.
    Fed(Revision),
    /// Somebody compacted etcd here.
    Compacted(Revision),
}

/// Tells loads of one resource apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(u64);

/// Where a load reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadAt {
    /// Exactly here: a warm start replays from it.
    Exactly(Revision),
    /// At etcd's newest revision, found by the first page.
    Newest,
}

/// Every object of a resource at one revision.
#[derive(Debug)]
pub struct Loaded {
    /// The revision all pages were read at.
    pub revision: Revision,
    /// What could be decoded.
    pub objects: Vec<Arc<Object>>,
    /// What could not.
    pub broken: Vec<Broken>,
}

/// The state of the feed of one revision space.
pub struct Machine {
    prefix: String,
    ranges: Vec<Watched>,
    resources: BTreeMap<Vec<u8>, Resource>,
    fed: Revision,
    /// The newest revision that any answer of etcd showed.
    newest: Revision,
    epoch: Epoch,
    generation: Generation,
    last_change: Option<KeyChange>,
    unknown_keys: u64,
    held_bytes_max: usize,
}

struct Watched {
    range: KeyRange,
    /// Every change in the range up to here has come.
    at: Revision,
    /// The last revision of a fragment that goes on: not whole yet (guarantee Atomic).
    partial: Vec<KeyChange>,
}

struct Resource {
    storage: Arc<Storage>,
    /// Of which namespaces it is kept; none: of all.
    included: Option<Arc<Included>>,
    /// Changes up to here are handed over or in the load.
    upto: Revision,
    phase: Phase,
}

enum Phase {
    Loading { generation: Generation, ready_at: Revision, held: Vec<Batch>, held_bytes: usize },
    Live,
}

impl Machine {
    /// Over these resources; nothing is loaded before [`Machine::start`].
    #[must_use]
    pub fn new(prefix: &str, ranges: Vec<KeyRange>, held_bytes_max: usize) -> Self {
        let ranges = ranges.into_iter().map(|range| Watched { range, at: Revision::ZERO, partial: Vec::new() }).collect();
        Self {
            prefix: prefix.to_owned(),
            ranges,
            resources: BTreeMap::new(),
            fed: Revision::ZERO,
            newest: Revision::ZERO,
            epoch: Epoch::default(),
            generation: Generation(0),
            last_change: None,
            unknown_keys: 0,
            held_bytes_max,
        }
    }

    /// Begins, or begins anew after etcd went backwards: everything is loaded, watches start after `base`. `newest` is what etcd has now: resources
    /// are ready when they are known up to there.
    pub fn start(&mut self, base: Revision, newest: Revision, out: &mut Vec<Out>) {
        for watched in &mut self.ranges {
            watched.at = base;
            watched.partial.clear();
        }
        self.fed = base;
        self.last_change = None;
        let ids: Vec<Vec<u8>> = self.resources.keys().cloned().collect();
        for id in ids {
            self.load(&id, LoadAt::Exactly(base), newest, out);
        }
        let next = self.epoch.next();
        out.extend(self.resources.values().map(|resource| Out::Void(resource.storage.id.clone(), next)));
    }

    /// A resource appeared (a CustomResourceDefinition, or at start), which is kept of these namespaces, or of all.
    pub fn add(&mut self, storage: Arc<Storage>, included: Option<Arc<Included>>, out: &mut Vec<Out>) {
        let key = storage.key_prefix(&self.prefix).into_bytes();
        let generation = self.generation;
        let phase = Phase::Loading { generation, ready_at: Revision::ZERO, held: Vec::new(), held_bytes: 0 };
        self.resources.insert(key.clone(), Resource { storage, included, upto: Revision::ZERO, phase });
        if self.fed > Revision::ZERO {
            self.load(&key, LoadAt::Newest, Revision::ZERO, out);
        }
    }

    /// A resource is gone, or will come back under another shape.
    pub fn remove(&mut self, id: &str) {
        self.resources.remove(format!("{}{id}/", self.prefix).as_bytes());
    }

    /// The stream was opened anew: what was half received will come again.
    pub fn reconnected(&mut self) {
        self.ranges.iter_mut().for_each(|w| w.partial.clear());
    }

    /// The watches to open: index, range, first revision wanted.
    pub fn watches(&self) -> impl Iterator<Item = (usize, &KeyRange, Revision)> {
        self.ranges.iter().enumerate().map(|(index, w)| (index, &w.range, w.at.next()))
    }

    /// A watch was compacted away. Its resources are loaded anew, it restarts after `newest` (a linearizable read). Returns its range.
    pub fn restart_range(&mut self, index: usize, newest: Revision, out: &mut Vec<Out>) -> Option<&KeyRange> {
        let watched = self.ranges.get_mut(index)?;
        watched.at = newest;
        watched.partial.clear();
        let range = watched.range.clone();
        let ids: Vec<Vec<u8>> = self.resources.keys().filter(|key| range.contains(key)).cloned().collect();
        for id in ids {
            self.load(&id, LoadAt::Newest, Revision::ZERO, out);
        }
        self.advance(out);
        self.ranges.get(index).map(|w| &w.range)
    }

    /// A cacher has too much waiting, or lost its way: load it anew, alone.
    pub fn reload(&mut self, id: &ResourceId, out: &mut Vec<Out>) {
        let key = format!("{}{id}/", self.prefix).into_bytes();
        self.load(&key, LoadAt::Newest, Revision::ZERO, out);
    }

    /// An answer on the stream was sent when etcd was here.
    pub fn saw(&mut self, revision: Revision) {
        self.newest = self.newest.max(revision);
    }

    /// Changes that watch `index` tells, in the order of their revisions; with `more`, the last revision is perhaps not whole.
    pub fn events(&mut self, index: usize, events: Vec<KeyChange>, more: bool, out: &mut Vec<Out>) {
        self.take(index, events, more, out);
        self.advance(out);
    }

    /// Every change up to here was told: to watch `index`, or without one to all of them.
    pub fn progress(&mut self, index: Option<usize>, revision: Revision, out: &mut Vec<Out>) {
        let advance = |watched: &mut Watched| {
            // A progress answer is sent between whole responses only; a partial one here is a broken peer, and is kept.
            if watched.partial.is_empty() {
                watched.at = watched.at.max(revision);
            }
        };
        match index {
            Some(index) => self.ranges.get_mut(index).into_iter().for_each(advance),
            None => self.ranges.iter_mut().for_each(advance),
        }
        self.advance(out);
    }

    /// A load is done. An answer of an older generation is late and means nothing.
    pub fn loaded(&mut self, id: &ResourceId, generation: Generation, loaded: Loaded, out: &mut Vec<Out>) {
        let key = format!("{}{id}/", self.prefix).into_bytes();
        let Some(resource) = self.resources.get_mut(&key) else { return };
        let Phase::Loading { generation: current, ready_at, held, .. } = &mut resource.phase else { return };
        if *current != generation {
            return;
        }
        let (ready_at, held) = (*ready_at, std::mem::take(held));
        self.epoch = self.epoch.next();
        resource.phase = Phase::Live;
        resource.upto = loaded.revision;
        let reset = Feed::Reset {
            epoch: self.epoch,
            revision: loaded.revision,
            ready_at: ready_at.max(loaded.revision),
            objects: loaded.objects,
            broken: loaded.broken,
        };
        let held = held.into_iter().filter(|b| b.revision > loaded.revision);
        let feeds: Vec<Feed> = std::iter::once(reset).chain(held.map(Feed::Batch)).collect();
        resource.upto = feeds.last().map_or(loaded.revision, Feed::revision);
        out.push(Out::Hand(id.clone(), feeds));
        self.advance(out);
    }

    /// A load could not be finished (compacted under it): once more, at the newest revision.
    pub fn load_failed(&mut self, id: &ResourceId, generation: Generation, out: &mut Vec<Out>) {
        let key = format!("{}{id}/", self.prefix).into_bytes();
        let current = self.resources.get(&key).and_then(|r| match &r.phase {
            Phase::Loading { generation, ready_at, .. } => Some((*generation, *ready_at)),
            Phase::Live => None,
        });
        if let Some((current, ready_at)) = current
            && current == generation
        {
            self.load(&key, LoadAt::Newest, ready_at, out);
        }
    }

    /// The last change seen, for the check after a reconnect.
    #[must_use]
    pub fn last_change(&self) -> Option<&KeyChange> {
        self.last_change.as_ref()
    }

    /// How far everything is handed over.
    #[must_use]
    pub fn fed(&self) -> Revision {
        self.fed
    }

    /// The newest revision that any answer of etcd showed: what clients may have seen. After a restored backup it is lost.
    #[must_use]
    pub fn newest(&self) -> Revision {
        self.newest
    }

    /// Whether a load is under way: then the driver asks for progress, so that the loaded become ready.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.resources.values().any(|r| matches!(r.phase, Phase::Loading { .. }))
    }

    /// Changes of keys that belong to no resource, since the start.
    #[must_use]
    pub fn unknown_keys(&self) -> u64 {
        self.unknown_keys
    }

    fn load(&mut self, key: &[u8], at: LoadAt, ready_at: Revision, out: &mut Vec<Out>) {
        self.generation = Generation(self.generation.0 + 1);
        let Some(resource) = self.resources.get_mut(key) else { return };
        let generation = self.generation;
        resource.phase = Phase::Loading { generation, ready_at, held: Vec::new(), held_bytes: 0 };
        // After a restored backup revisions are smaller than before: until the load is done everything is held.
        resource.upto = Revision::ZERO;
        out.push(Out::Withhold(resource.storage.id.clone()));
        out.push(Out::Load(resource.storage.id.clone(), generation, at));
    }

    fn take(&mut self, index: usize, events: Vec<KeyChange>, more: bool, out: &mut Vec<Out>) {
        let Some(watched) = self.ranges.get_mut(index) else { return };
        let mut events = if watched.partial.is_empty() {
            events
        } else {
            let mut all = std::mem::take(&mut watched.partial);
            all.extend(events);
            all
        };
        if more && let Some(last) = events.last().map(|e| e.revision) {
            let whole = events.partition_point(|e| e.revision < last);
            watched.partial = events.split_off(whole);
        }
        let at = watched.at;
        if let Some(last) = events.last() {
            watched.at = at.max(last.revision);
            if self.last_change.as_ref().is_none_or(|w| w.revision <= last.revision) {
                self.last_change = Some(last.clone());
            }
        }
        let mut rest = &events[..];
        while let Some(first) = rest.first() {
            let revision = first.revision;
            let (batch, after) = rest.split_at(rest.partition_point(|e| e.revision <= revision));
            rest = after;
            if revision > at {
                self.revision(revision, batch, out);
            }
        }
    }

    /// Everything that one revision changed in one range.
    fn revision(&mut self, revision: Revision, events: &[KeyChange], out: &mut Vec<Out>) {
        let mut rest = events;
        while let Some(first) = rest.first() {
            if &first.key[..] == COMPACT_REV_KEY {
                out.extend(compacted(first));
                rest = &rest[1..];
                continue;
            }
            let Some((prefix, resource)) = find(&mut self.resources, &first.key) else {
                self.unknown_keys += 1;
                rest = &rest[1..];
                continue;
            };
            // etcd orders a transaction's events as they were made; one resource's keys may stand apart, so all of them are gathered.
            let (own, others): (Vec<&KeyChange>, Vec<&KeyChange>) = rest.iter().partition(|e| e.key.starts_with(prefix));
            let is_kept = |e: &&&KeyChange| resource.included.as_ref().is_none_or(|included| included.has_key(&e.key, prefix.len()));
            let changes: Vec<Change> = own.iter().filter(is_kept).map(|e| change(&resource.storage, prefix.len(), e)).collect();
            let is_of_use = !changes.is_empty();
            let batch = Batch { revision, changes };
            if is_of_use
                && revision > resource.upto
                && let Some(id) = hand(resource, batch, self.held_bytes_max, out)
            {
                let key = prefix.to_vec();
                out.push(Out::HeldTooMuch(id));
                self.load(&key, LoadAt::Newest, Revision::ZERO, out);
            }
            if others.is_empty() {
                return;
            }
            let others: Vec<KeyChange> = others.into_iter().cloned().collect();
            return self.revision(revision, &others, out);
        }
    }

    /// `fed` is the minimum over the watches: what every one of them has delivered.
    fn advance(&mut self, out: &mut Vec<Out>) {
        let least = self.ranges.iter().map(|w| w.at).min().unwrap_or(Revision::ZERO);
        if least > self.fed {
            self.fed = least;
            out.push(Out::Fed(least));
        }
    }
}

/// Hands a batch on, or holds it while the resource is loaded. Returns the resource when it holds too much.
fn hand(resource: &mut Resource, batch: Batch, held_bytes_max: usize, out: &mut Vec<Out>) -> Option<ResourceId> {
    let feed = match &mut resource.phase {
        Phase::Live => Feed::Batch(batch),
        Phase::Loading { held, held_bytes, .. } => {
            *held_bytes += batch.weight();
            held.push(batch);
            return (*held_bytes > held_bytes_max).then(|| resource.storage.id.clone());
        }
    };
    resource.upto = feed.revision();
    out.push(Out::Hand(resource.storage.id.clone(), vec![feed]));
    None
}

/// The resource a key belongs to, and its key prefix.
fn find<'a>(resources: &'a mut BTreeMap<Vec<u8>, Resource>, key: &[u8]) -> Option<(&'a [u8], &'a mut Resource)> {
    let (prefix, resource) = resources.range_mut::<[u8], _>((std::ops::Bound::Unbounded, std::ops::Bound::Included(key))).next_back()?;
    key.starts_with(prefix).then_some((&prefix[..], resource))
}

fn change(storage: &Arc<Storage>, prefix_len: usize, event: &KeyChange) -> Change {
    match &event.value {
        None => Change::Delete(event.key.clone()),
        Some(value) if value.len() >= LARGE_BYTES => Change::Stored(Stored {
            storage: storage.clone(),
            prefix_len,
            key: event.key.clone(),
            value: value.clone(),
            revision: event.revision,
        }),
        Some(value) => match ingest(storage, prefix_len, event.key.clone(), value, event.revision) {
            Ok(object) => Change::Put(Arc::new(object)),
            Err(broken) => Change::Broken(broken),
        },
    }
}

/// The value is the ASCII decimal revision that is compacted next; `0` after the first round.
fn compacted(event: &KeyChange) -> Option<Out> {
    let text = std::str::from_utf8(event.value.as_ref()?).ok()?;
    let revision: u64 = text.parse().ok()?;
    (revision > 0).then_some(Out::Compacted(Revision(revision)))
}

#[cfg(test)]
mod tests;
