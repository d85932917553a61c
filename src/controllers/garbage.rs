//! The garbage collector: what belongs to what is gone goes too, or is let go: kube-controller-manager's garbage-collector-controller.
//!
//! The objects are the cache's. Beside them there is an index of who names whom as its owner. An object is looked at when its owners change or one of them
//! goes, when its deletion waits for its dependents, and after a failure; at rest nothing is done. What is done with it then is decided by `decide`, and done
//! by `act`.

mod act;
mod decide;
mod follow;
mod index;
mod report;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use memchr::memmem;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    task::{AbortHandle, JoinSet},
    time::sleep_until,
};

use super::{
    Controllers,
    objects::{Kinds, Metadata, OwnerReference},
    queue::{After, Queue},
};
use cache::state::snapshot::Published;
use decide::{FOREGROUND, ORPHAN, Stage, stage, unblocked};
use follow::{Batch, Change, follow};
use index::{Absent, Index, Slot};
use model::{Epoch, Object, ResourceId, Revision, shard::hash};
use registry::{Resource, ServedResources};
use report::Absentees;
use retry::{Backoff, Reminder};

/// Objects that are worked on at once: the embedded store commits together what comes together.
const WORKERS: usize = 64;
/// Batches of changes that wait to be taken in; who has more waits.
const BATCHES: usize = 16;
/// Changes that are taken in, or objects that are put into the queue, before others have their turn.
const CHANGES_AT_ONCE: usize = 256;
/// How often is looked whether other resources are served now.
const RESOURCES_POLL: Duration = Duration::from_secs(1);
/// How long is waited at the start for resources that are not loaded, as there.
const LOADED_AT_LATEST: Duration = Duration::from_secs(60);
/// Waits after failures. An owner of a kind that is not served is a failure too, and may last for ever.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(10), Duration::from_secs(300), 0.2);
/// How often the log has a line about failures.
const REMIND_EVERY: Duration = Duration::from_secs(10);

/// An object: its resource and its key.
type Work = (Slot, Bytes);

/// What those who work on objects share with the one who takes in what changes.
struct Shared {
    controllers: Arc<Controllers>,
    kinds: Kinds,
    index: Mutex<Index>,
    absent: Mutex<Absent>,
    absentees: Absentees,
    followed: Mutex<Vec<Followed>>,
    /// Objects that wait for their dependents, or have waited and are not gone, by the hash of their uid: a dependent may name one that is elsewhere.
    waiting: Mutex<HashMap<u64, Work>>,
    /// More has been taken in.
    taken_in: Notify,
}

/// A resource that is followed, or was.
#[derive(Clone)]
struct Followed {
    id: ResourceId,
    resource: Arc<Resource>,
    /// It is served now; of others it is remembered where their objects were.
    is_served: bool,
    /// What has been taken in; none before the first time.
    taken_in: Option<(Epoch, Revision)>,
}

pub(super) async fn run(controllers: Arc<Controllers>) {
    let (sender, mut batches) = mpsc::channel(BATCHES);
    let shared = Shared {
        controllers,
        kinds: Kinds::default(),
        index: Mutex::default(),
        absent: Mutex::default(),
        absentees: Absentees::default(),
        followed: Mutex::default(),
        waiting: Mutex::default(),
        taken_in: Notify::new(),
    };
    tokio::join!(collect(&shared, &mut batches, sender), shared.report());
}

/// Takes in what changes, and has it looked at, for ever.
async fn collect(shared: &Shared, batches: &mut mpsc::Receiver<Batch>, sender: mpsc::Sender<Batch>) {
    let mut collector = Collector {
        shared,
        queue: Queue::new(BACKOFF),
        slots: HashMap::new(),
        followers: JoinSet::new(),
        sender,
        served: None,
        is_complete: false,
    };
    collector.refresh().await;
    let mut running = FuturesUnordered::new();
    let began = Instant::now();
    let mut poll = tokio::time::interval(RESOURCES_POLL);
    let mut reminder = Reminder::every(REMIND_EVERY);
    loop {
        if !collector.is_complete && (began.elapsed() > LOADED_AT_LATEST || shared.is_complete()) {
            collector.is_complete = true;
            collector.review(|_| true).await;
        }
        while collector.is_complete
            && running.len() < WORKERS
            && let Some(work) = collector.queue.take(Instant::now())
        {
            running.push(async move {
                let done = shared.look(&work).await;
                (work, done)
            });
        }
        let due = collector.queue.next_due().filter(|_| collector.is_complete && running.len() < WORKERS);
        tokio::select! {
            Some(batch) = batches.recv() => collector.take_in(batch).await,
            Some((work, done)) = running.next() => {
                let after = match done {
                    Ok(outcome) => {
                        for more in outcome.look_at {
                            collector.queue.add(more, Instant::now());
                        }
                        outcome.after
                    }
                    Err(error) => {
                        if reminder.is_due() {
                            let (key, failing) = (String::from_utf8_lossy(&work.1), collector.queue.failing() + 1);
                            tracing::warn!(%error, %key, failing, "the garbage collector cannot do what it should; trying again");
                        }
                        After::Retry
                    }
                };
                collector.queue.done(&work, after, Instant::now());
            }
            _ = poll.tick() => collector.refresh().await,
            () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
        }
    }
}

/// Takes in what changes, and decides what is looked at.
struct Collector<'s> {
    shared: &'s Shared,
    queue: Queue<Work>,
    slots: HashMap<ResourceId, (Slot, Arc<Published>, AbortHandle)>,
    followers: JoinSet<()>,
    sender: mpsc::Sender<Batch>,
    served: Option<Arc<ServedResources>>,
    /// Every resource was taken in once, or was waited for in vain; before that nothing is decided.
    is_complete: bool,
}

impl Collector<'_> {
    /// Follows what is served now, if that has changed.
    async fn refresh(&mut self) {
        let served = self.shared.controllers.resources.load_full();
        if self.served.as_ref().is_some_and(|known| Arc::ptr_eq(known, &served)) {
            return;
        }
        // Those that have ended.
        while self.followers.try_join_next().is_some() {}
        let mut wanted: HashMap<ResourceId, &Arc<Resource>> = HashMap::new();
        for resource in served.iter().filter(|resource| is_followed(resource)) {
            wanted.entry(resource.served.storage.id.clone()).or_insert_with(|| served.unconverted(resource));
        }
        let gone = self.follow(wanted);
        self.served = Some(served);
        if !gone.is_empty() {
            // Nobody tells what became of their objects any more.
            self.review(|owner| gone.iter().any(|resource| is_of(resource, owner))).await;
            let waiting: Vec<Work> = self.shared.waiting.lock().values().cloned().collect();
            self.queue_all(waiting);
        }
    }

    /// Follows these resources and no others; returns those that are not served any more.
    fn follow(&mut self, wanted: HashMap<ResourceId, &Arc<Resource>>) -> Vec<Arc<Resource>> {
        let mut followed = self.shared.followed.lock();
        self.slots.retain(|id, (slot, published, follower)| {
            let is_kept = wanted.get(id).is_some_and(|resource| Arc::ptr_eq(resource.source(), published));
            if !is_kept {
                follower.abort();
                self.shared.index.lock().remove_all(*slot);
                self.shared.waiting.lock().retain(|_, (of, _)| of != slot);
            }
            is_kept
        });
        let mut gone = Vec::new();
        for left in followed.iter_mut().filter(|followed| followed.is_served && !wanted.contains_key(&followed.id)) {
            left.is_served = false;
            gone.push(left.resource.clone());
        }
        for (id, resource) in wanted {
            let known = followed.iter_mut().position(|followed| followed.id == id);
            let slot = known.unwrap_or(followed.len());
            match followed.get_mut(slot) {
                Some(followed) => (followed.resource, followed.is_served) = (resource.clone(), true),
                None => followed.push(Followed { id: id.clone(), resource: resource.clone(), is_served: true, taken_in: None }),
            }
            let Ok(number) = Slot::try_from(slot) else { continue };
            self.slots.entry(id).or_insert_with(|| {
                followed[slot].taken_in = None;
                let published = resource.source().clone();
                let follower = self.followers.spawn(follow(number, published.clone(), self.sender.clone()));
                (number, published, follower)
            });
        }
        gone
    }

    /// Has all objects looked at that name owners of this sort and may lack one of their owners.
    async fn review(&mut self, is_meant: impl Fn(&OwnerReference) -> bool) {
        let all = self.shared.index.lock().objects();
        for some in all.chunks(CHANGES_AT_ONCE) {
            for (slot, object) in some {
                let metadata = collected(object);
                if metadata.owner_references.iter().any(&is_meant) && !self.shared.has_its_owners(&metadata, object.namespace()) {
                    self.look_at(*slot, object);
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Takes in what has changed in a resource.
    async fn take_in(&mut self, batch: Batch) {
        let is_current = self.slots.values().any(|(slot, published, _)| *slot == batch.slot && Arc::ptr_eq(published, &batch.published));
        if !is_current {
            return;
        }
        if batch.is_new_life {
            self.shared.absent.lock().clear();
        }
        let mut looked = 0;
        for change in &batch.changes {
            looked += 1 + self.changed(batch.slot, change);
            if looked >= CHANGES_AT_ONCE {
                looked = 0;
                tokio::task::yield_now().await;
            }
        }
        let is_first = {
            let mut followed = self.shared.followed.lock();
            let before = followed.get_mut(batch.slot as usize).map(|followed| followed.taken_in.replace(batch.at));
            before == Some(None)
        };
        self.shared.taken_in.notify_waiters();
        if is_first
            && self.is_complete
            && let Some(resource) = self.shared.resource(batch.slot)
        {
            // An owner may have gone before anybody looked.
            self.review(|owner| is_of(&resource, owner)).await;
        }
    }

    /// Takes in one change; returns how many objects are looked at because of it.
    fn changed(&mut self, slot: Slot, change: &Change) -> usize {
        match (&change.before, &change.after) {
            (Some(before), Some(after)) if before.uid_hash == after.uid_hash => self.written(slot, Some(before), after),
            (before, after) => {
                let gone = before.as_ref().filter(|_| !change.is_broken).map_or(0, |before| self.removed(slot, before));
                gone + after.as_ref().map_or(0, |after| self.written(slot, None, after))
            }
        }
    }

    /// An object is there, or another version of it.
    fn written(&mut self, slot: Slot, before: Option<&Arc<Object>>, after: &Arc<Object>) -> usize {
        let (old, new) = (before.map(|before| collected(before)).unwrap_or_default(), collected(after));
        {
            let mut index = self.shared.index.lock();
            if let Some(before) = before {
                let named: HashSet<&str> = new.owner_references.iter().map(|reference| &*reference.uid).collect();
                let left = old.owner_references.iter().filter(|reference| !named.contains(&*reference.uid));
                left.for_each(|reference| index.remove(&reference.uid, slot, before));
            }
            new.owner_references.iter().for_each(|reference| index.insert(&reference.uid, slot, after));
        }
        for reference in unblocked(&old, &new) {
            self.look_at_owner(reference);
        }
        let known: HashSet<&OwnerReference> = old.owner_references.iter().collect();
        let is_changed = new.owner_references.iter().any(|reference| !known.contains(reference));
        if is_changed && self.is_complete && !self.shared.has_its_owners(&new, after.namespace()) {
            self.look_at(slot, after);
        }
        if new.waits_for(FOREGROUND) {
            self.shared.waiting.lock().insert(after.uid_hash, (slot, Bytes::copy_from_slice(after.key())));
        }
        let begins = |finalizer: &str| new.waits_for(finalizer) && !old.waits_for(finalizer);
        if begins(ORPHAN) {
            self.look_at(slot, after);
        } else if begins(FOREGROUND) {
            self.look_at(slot, after);
            return self.look_at_dependents(after);
        }
        0
    }

    /// An object is gone.
    fn removed(&mut self, slot: Slot, object: &Arc<Object>) -> usize {
        let metadata = collected(object);
        self.shared.waiting.lock().remove(&object.uid_hash);
        {
            let mut index = self.shared.index.lock();
            metadata.owner_references.iter().for_each(|reference| index.remove(&reference.uid, slot, object));
        }
        for reference in &metadata.owner_references {
            self.look_at_owner(reference);
        }
        let dependents = self.look_at_dependents(object);
        if dependents > 0
            && let Some(metadata) = Metadata::of(object)
            && let Some(resource) = self.shared.resource(slot)
        {
            self.shared.absent.lock().deleted(&resource.served.kind, object.name(), metadata.uid, object.namespace());
        }
        dependents
    }

    fn queue_all(&mut self, all: impl IntoIterator<Item = Work>) {
        let now = Instant::now();
        all.into_iter().for_each(|work| self.queue.add(work, now));
    }

    fn look_at(&mut self, slot: Slot, object: &Object) {
        self.queue_all([(slot, Bytes::copy_from_slice(object.key()))]);
    }

    /// Has all dependents of an object looked at; returns how many there are.
    fn look_at_dependents(&mut self, owner: &Object) -> usize {
        let dependents: Vec<Work> = {
            let index = self.shared.index.lock();
            index.dependents(owner.uid_hash).map(|(slot, object)| (slot, Bytes::copy_from_slice(object.key()))).collect()
        };
        let count = dependents.len();
        self.queue_all(dependents);
        count
    }

    /// Has an owner looked at, if it waits for its dependents.
    fn look_at_owner(&mut self, reference: &OwnerReference) {
        let waiting = self.shared.waiting.lock().get(&hash(&reference.uid)).cloned();
        self.queue_all(waiting);
    }
}

impl Shared {
    /// Whether every resource has been taken in once.
    fn is_complete(&self) -> bool {
        self.followed.lock().iter().all(|followed| !followed.is_served || followed.taken_in.is_some())
    }

    /// The resource that an owner was of, if it was served before and is not now.
    fn formerly(&self, reference: &OwnerReference) -> Option<Arc<Resource>> {
        let followed = self.followed.lock();
        let found = followed.iter().find(|followed| !followed.is_served && is_of(&followed.resource, reference));
        found.map(|followed| followed.resource.clone())
    }

    /// The owner that a reference names, as the cache has it.
    fn cached_owner(&self, reference: &OwnerReference, namespace: &str) -> Option<(Arc<Resource>, Arc<Object>)> {
        let resource = self.kinds.find(&self.controllers.resources.load_full(), &reference.api_version, &reference.kind)?;
        let object = self.controllers.cached(&act::place_of_owner(&resource, namespace, &reference.name))?;
        (object.uid_hash == hash(&reference.uid)).then_some((resource, object))
    }

    /// Whether an object as the cache has it has been taken in: then it is noticed when it goes.
    fn has_taken_in(&self, resource: &Resource, object: &Object) -> bool {
        let (followed, epoch) = (self.followed.lock(), resource.source().known().snapshot.epoch);
        let found = followed.iter().find(|followed| followed.is_served && Arc::ptr_eq(followed.resource.source(), resource.source()));
        found.and_then(|followed| followed.taken_in).is_some_and(|(of, up_to)| of == epoch && object.revision <= up_to)
    }

    /// Whether all owners of an object have been taken in, and none is being deleted: then there is nothing to do.
    fn has_its_owners(&self, metadata: &Metadata, namespace: &str) -> bool {
        stage(metadata) == Stage::Owned
            && metadata.owner_references.iter().all(|reference| {
                let owner = self.cached_owner(reference, namespace);
                owner.is_some_and(|(resource, owner)| {
                    let is_namespaced = resource.served.namespaced && namespace.is_empty();
                    !is_namespaced && !collected(&owner).is_being_deleted() && self.has_taken_in(&resource, &owner)
                })
            })
    }
}

/// Whether this owner would be an object of this resource, in one of its versions.
fn is_of(resource: &Resource, owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    (&*resource.served.group, &*resource.served.kind) == (group, &*owner.kind)
}

/// Events name their objects in another way, and are nobody's dependents, as there.
fn is_followed(resource: &Resource) -> bool {
    let served = &resource.served;
    served.resource != "events" && ["delete", "list", "watch"].iter().all(|verb| served.has_verb(verb))
}

/// The metadata of an object that the garbage collector has to do with: it has owners, or is being deleted. Of others there is nothing to know.
fn collected(object: &Object) -> Metadata {
    let has = |text: &[u8]| memmem::find(object.own_tail(), text).is_some();
    let is_of_interest = has(b"\"ownerReferences\":[") || has(b"\"deletionTimestamp\":\"");
    is_of_interest.then(|| Metadata::of(object)).flatten().unwrap_or_default()
}
