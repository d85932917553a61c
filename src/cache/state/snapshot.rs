//! What readers hold: an immutable snapshot of one resource, how far it is known to be true, and the one place that waits (guarantee Fresh).
//!
//! `known` (K in the spec) is the revision up to which the snapshot is the truth. It is at least `applied`, and it follows every write in the
//! cluster without the cacher doing anything: when the feed has handed the cacher nothing that is not applied, the snapshot is as new as `fed`.
//!
//! The order that makes this safe, and that `schedule` explores schedule by schedule: the feed **sends** the batch, then stores `handed`, then `fed`
//! (Release). A reader loads `fed` (Acquire), then `handed`, then the snapshot.

mod watches;

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use imbl::{OrdMap, Vector};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, futures::Notified},
    time::Instant,
};

use super::{
    counts::{Counts, Place},
    learner::{Due, Learner, Reader},
    lent::{Lender, Lent},
    ring::Ring,
    store::Store,
    sync::{ArcSwap, AtomicU64, AtomicUsize, Ordering},
};
use model::{Broken, Epoch, Filter, Object, Revision};
pub use watches::OpenWatch;
use watches::WatchCounts;

/// One resource at one revision; store, ring and head agree (guarantee Together).
pub struct Snapshot {
    /// Which life of the resource this is.
    pub epoch: Epoch,
    /// Revision of the last change in it.
    pub applied: Revision,
    /// It may be served once known up to here.
    pub ready_at: Revision,
    /// The objects.
    pub store: Store,
    /// The recent events.
    pub ring: Ring,
    pub(super) roots: Vector<(Revision, Store)>,
    /// Values that cannot be decoded, by key. While there is one, LIST and WATCH are refused.
    pub broken: OrdMap<Bytes, Arc<Broken>>,
}

impl Snapshot {
    /// What is known of the object with this key, be it the whole or not: for this server's own judgement, not to be shown.
    #[must_use]
    pub fn known_part(&self, key: &[u8]) -> Option<&Arc<Object>> {
        self.store.find(key).or_else(|| self.broken.get(key)?.known_part.as_ref())
    }

    /// The store as it was at `revision`, or `None` when the ring does not reach back so far. Above `applied` it is the current one: the caller
    /// has made sure that `revision` is known.
    ///
    /// Undoes at most [`ROOT_EVERY`](super::resource::ROOT_EVERY) events and the rest of one revision.
    #[must_use]
    pub fn exact(&self, revision: Revision) -> Option<Store> {
        if revision < self.ring.floor() {
            return None;
        }
        let newer = self.roots.iter().find(|(at, _)| *at >= revision);
        let (from, mut store) = newer.map_or((self.applied, self.store.clone()), |(at, root)| (*at, root.clone()));
        for index in (self.ring.after(revision)..self.ring.after(from)).rev() {
            let event = self.ring.at(index).expect("the index is below the ring's length");
            match &event.old {
                Some(old) => drop(store.put(old.clone())),
                None => drop(store.remove(event.key())),
            }
        }
        Some(store)
    }

    /// The keys that changed since a snapshot of this life at `seen`; `None` when the ring does not reach back so far.
    #[must_use]
    pub fn changed_since(&self, epoch: Epoch, seen: Revision) -> Option<BTreeSet<Bytes>> {
        let since = self.ring.since(seen).ok().filter(|_| self.epoch == epoch)?;
        Some((since..self.ring.len()).filter_map(|index| self.ring.at(index)).map(|event| Bytes::copy_from_slice(event.key())).collect())
    }
}

/// The age from which on memory counts as behind etcd. A healthy feed is one to two seconds old at most, for etcd is asked every second.
pub const BEHIND_AFTER: Duration = Duration::from_secs(5);

/// The revision up to which every change of a revision space was handed to its cacher, and who waits for it to grow.
pub struct Fed {
    revision: AtomicU64,
    waiters: AtomicUsize,
    grew: Notify,
    asked: Notify,
    source: Arc<SourceState>,
}

/// What is known of a source, by all clocks that follow it.
struct SourceState {
    compacted: AtomicU64,
    lost: AtomicU64,
    /// What `fresh` counts from.
    born: Instant,
    /// The last moment whose state of etcd is known to be handed over, in milliseconds and one more; zero before there is one.
    fresh: AtomicU64,
    /// From which age on memory counts as behind.
    behind_after: Duration,
    /// Since when nothing can come, as `fresh` counts; zero while it can.
    cut_off: AtomicU64,
    /// The source does not bring the resource.
    declined: AtomicUsize,
    /// The source does not tell its progress when it is asked.
    mute: AtomicUsize,
    /// What people should know of how the source brings the resource.
    note: Mutex<Option<Arc<str>>>,
    /// What went wrong last, and when.
    fault: Mutex<Option<Fault>>,
    /// When a read asked for the resource last, as `fresh` counts; zero before there was one.
    wanted: AtomicU64,
    wants: Notify,
}

/// How a source has failed.
#[derive(Clone, Debug)]
pub struct Fault {
    /// When it was noticed.
    pub at: SystemTime,
    /// What the source said, or what was wrong with it.
    pub why: Arc<str>,
}

impl Default for Fed {
    fn default() -> Self {
        Self::behind_after(BEHIND_AFTER)
    }
}

impl Fed {
    /// Of a source that tells more rarely than etcd how far it is: memory counts as behind from this age on, or when it has been cut off for a while.
    #[must_use]
    pub fn behind_after(age: Duration) -> Self {
        Self::over(Arc::new(SourceState {
            compacted: AtomicU64::default(),
            lost: AtomicU64::default(),
            born: Instant::now(),
            fresh: AtomicU64::default(),
            behind_after: age,
            cut_off: AtomicU64::default(),
            declined: AtomicUsize::default(),
            mute: AtomicUsize::default(),
            note: Mutex::default(),
            fault: Mutex::default(),
            wanted: AtomicU64::default(),
            wants: Notify::default(),
        }))
    }

    /// Returns a clock of its own for what is made of what this one's source brings, and comes later.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self::over(self.source.clone())
    }

    fn over(source: Arc<SourceState>) -> Self {
        Self { revision: AtomicU64::default(), waiters: AtomicUsize::default(), grew: Notify::default(), asked: Notify::default(), source }
    }

    /// Notes that everything that etcd had at this moment has been handed over.
    pub fn fresh_as_of(&self, at: Instant) {
        self.source.fresh.fetch_max(self.mark(at), Ordering::Release);
    }

    /// Notes what a clock shows that sums up others: how far the furthest is, and since when the oldest has been fresh. Both may go back,
    /// and nobody waits for them.
    pub fn sums_up(&self, revision: Revision, at: Instant) {
        self.revision.store(revision.0, Ordering::Release);
        self.source.fresh.store(self.mark(at), Ordering::Release);
    }

    /// Notes whether anything can come from the source now.
    pub fn cut_off(&self, is_so: bool) {
        if !is_so {
            self.source.cut_off.store(0, Ordering::Release);
        } else if self.source.cut_off.load(Ordering::Relaxed) == 0 {
            self.source.cut_off.store(self.mark(Instant::now()), Ordering::Release);
        }
    }

    /// Notes whether the source brings the resource at all: if not, nobody is to wait for it.
    pub fn decline(&self, is_so: bool) {
        self.source.declined.store(usize::from(is_so), Ordering::Relaxed);
        if is_so {
            // Whoever waits for it need not wait on.
            self.grew.notify_waiters();
        }
    }

    /// Returns whether the source does not bring the resource.
    #[must_use]
    pub fn is_declined(&self) -> bool {
        self.source.declined.load(Ordering::Relaxed) != 0
    }

    /// Notes whether the source tells its progress when it is asked: if not, whoever waits waits for what comes by itself.
    pub fn set_mute(&self, is_mute: bool) {
        self.source.mute.store(usize::from(is_mute), Ordering::Relaxed);
    }

    /// Returns whether the source does not tell its progress when it is asked.
    #[must_use]
    pub fn is_mute(&self) -> bool {
        self.source.mute.load(Ordering::Relaxed) != 0
    }

    /// Notes what people should know of how the source brings the resource.
    pub fn set_note(&self, note: Option<Arc<str>>) {
        *self.source.note.lock() = note;
    }

    /// Returns what people should know of how the source brings the resource.
    #[must_use]
    pub fn note(&self) -> Option<Arc<str>> {
        self.source.note.lock().clone()
    }

    /// Notes that the source has failed.
    pub fn failed(&self, why: &str) {
        *self.source.fault.lock() = Some(Fault { at: SystemTime::now(), why: why.into() });
    }

    /// Returns how the source has failed last, if it ever has.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.source.fault.lock().clone()
    }

    /// Notes that a read asks for the resource, whether it is there or not.
    pub fn want(&self) {
        self.source.wanted.store(self.mark(Instant::now()), Ordering::Relaxed);
        self.source.wants.notify_one();
    }

    /// Ends when a read asks for the resource, or has asked since the last call.
    pub async fn wanted(&self) {
        self.source.wants.notified().await;
    }

    /// Returns how long no read has asked for the resource; `None` before the first one.
    #[must_use]
    pub fn unwanted_for(&self) -> Option<Duration> {
        self.since(&self.source.wanted)
    }

    /// A moment as the atomics have it, in milliseconds and one more.
    fn mark(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.source.born).as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// The time since the moment that is marked there.
    fn since(&self, mark: &AtomicU64) -> Option<Duration> {
        let mark = mark.load(Ordering::Acquire).checked_sub(1)?;
        Some(self.source.born.elapsed().saturating_sub(Duration::from_millis(mark)))
    }

    /// Returns how old memory may be: it has everything that etcd had so long ago. `None` before etcd has been heard.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.since(&self.source.fresh)
    }

    /// Returns whether memory is older than a healthy feed's ever is.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.since(&self.source.cut_off).is_some_and(|cut_off| cut_off > BEHIND_AFTER)
            || self.age().is_none_or(|age| age > self.source.behind_after)
    }

    /// Waits until everything up to `revision` is handed over, at most `limit`, and has etcd asked for progress meanwhile; returns whether it is.
    pub async fn reaches(&self, revision: Revision, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut waiting = None;
        loop {
            let grew = self.grew.notified();
            tokio::pin!(grew);
            grew.as_mut().enable();
            if self.revision() >= revision {
                return true;
            }
            waiting.get_or_insert_with(|| Waiting::begin(self));
            if tokio::time::timeout_at(deadline, grew).await.is_err() {
                return self.revision() >= revision;
            }
        }
    }

    /// The revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    /// The feed says that everything up to `revision` is handed over. Never goes back, except by [`Fed::rewind`].
    pub fn advance(&self, revision: Revision) {
        if revision.0 > self.revision.load(Ordering::Relaxed) {
            self.revision.store(revision.0, Ordering::Release);
            self.grew.notify_waiters();
        }
    }

    /// etcd itself went backwards (a restored backup): the next revisions are smaller. Only after every resource was withheld.
    /// `lost` is the newest revision that a client may have seen.
    pub fn rewind(&self, revision: Revision, lost: Revision) {
        self.revision.store(revision.0, Ordering::Release);
        self.doubt(lost);
    }

    /// Revisions up to here may be of another history than what comes now.
    pub fn doubt(&self, lost: Revision) {
        self.source.lost.fetch_max(lost.0, Ordering::Release);
    }

    /// Somebody compacted etcd at `revision` (spec list-watch §10): exact reads below it are over.
    pub fn compacted_at(&self, revision: Revision) {
        self.source.compacted.fetch_max(revision.0, Ordering::Relaxed);
    }

    /// The highest compaction revision that was published, zero when none was.
    #[must_use]
    pub fn compacted(&self) -> Revision {
        Revision(self.source.compacted.load(Ordering::Relaxed))
    }

    /// Whether anyone waits: then the feed asks etcd for progress (spec list-watch §2.9).
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.waiters.load(Ordering::SeqCst) > 0
    }

    /// Has [`Fed::asked`] end once more if anyone still waits.
    pub fn ask_again(&self) {
        if self.is_awaited() {
            self.asked.notify_one();
        }
    }

    /// Ends when somebody begins to wait.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }
}

/// How long [`Published::next`] waits for a snapshot to become ready before it asks anew.
const READY_LOOK: Duration = Duration::from_secs(10);

/// `handed` of a resource whose load is under way: nothing may be inferred from `fed`.
const WITHHELD: u64 = u64::MAX;

/// The place where a cacher publishes and readers look. One per resource.
pub struct Published {
    snapshot: ArcSwap<Snapshot>,
    handed: AtomicU64,
    /// Snapshots of an earlier epoch are of an etcd that is no more.
    void_before: AtomicU64,
    /// Since when there are values that cannot be decoded, seconds of Unix time; 0: there are none.
    undecodable_since: AtomicU64,
    fed: Arc<Fed>,
    changed: Notify,
    lender: Arc<Lender>,
    learner: Learner,
    counts: Counts,
    watches: WatchCounts,
}

/// A snapshot and how far it is true.
#[derive(Clone)]
pub struct Known {
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// K: everything up to here is in it.
    pub revision: Revision,
    /// Revisions above K up to here belong to an etcd that was then restored from a backup. Where a source that is no etcd begins anew, the lower ones may do
    /// so, too.
    pub lost: Revision,
}

impl Known {
    /// Whether it may be served: loaded, and caught up with what etcd had when the load began.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.revision >= self.snapshot.ready_at
    }

    /// What is there if it is not what was seen before, with the keys that were written since, if that is known. `seen` is then this snapshot.
    fn written_since(&self, seen: &mut Option<(Epoch, Revision)>) -> Option<(Arc<Snapshot>, Option<BTreeSet<Bytes>>)> {
        let now = (self.snapshot.epoch, self.snapshot.applied);
        if *seen == Some(now) {
            return None;
        }
        let before = seen.replace(now);
        let keys = before.and_then(|(epoch, revision)| self.snapshot.changed_since(epoch, revision));
        Some((self.snapshot.clone(), keys))
    }
}

impl Published {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(snapshot: Snapshot, fed: Arc<Fed>) -> Self {
        Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            handed: AtomicU64::new(WITHHELD),
            void_before: AtomicU64::new(0),
            undecodable_since: AtomicU64::new(0),
            fed,
            changed: Notify::new(),
            lender: Arc::default(),
            learner: Learner::default(),
            counts: Counts::default(),
            watches: WatchCounts::default(),
        }
    }

    /// Lends a snapshot to a reader who takes his time, and goes on from this revision.
    #[must_use]
    pub fn lend(&self, snapshot: Arc<Snapshot>, revision: Revision) -> Arc<Lent> {
        self.lender.lend(snapshot, revision)
    }

    /// Takes back the views from which nobody could go on, for the ring has forgotten what came after them, up to this revision.
    pub fn take_back(&self, forgotten: Revision) {
        self.lender.take_back(forgotten);
    }

    /// A reader has looked at so many objects with this filter, and found so many.
    pub fn scanned(&self, filter: &Filter, reader: Reader, looked: usize, found: usize) {
        self.learner.scanned(filter, reader, looked, found);
    }

    /// How many objects a list has from here on, if the page before told.
    #[must_use]
    pub fn counted(&self, place: Place<'_>) -> Option<usize> {
        self.counts.find(place)
    }

    /// A list has so many objects from here on.
    pub fn tell_count(&self, place: Place<'_>, objects: usize) {
        self.counts.tell(place, objects);
    }

    /// Returns the label or field that is most worth an index next, if any. To be polled every few seconds.
    #[must_use]
    pub fn index_due(&self, store: &Store) -> Option<Due> {
        self.learner.due(store)
    }

    /// The newest snapshot. Takes no lock.
    #[must_use]
    pub fn known(&self) -> Known {
        let fed = self.fed.revision.load(Ordering::Acquire);
        let handed = self.handed.load(Ordering::Acquire);
        let void_before = self.void_before.load(Ordering::Acquire);
        let snapshot = self.snapshot.load_full();
        let revision = match snapshot.applied {
            _ if snapshot.epoch.0 < void_before => Revision::ZERO,
            applied if applied.0 >= handed => applied.max(Revision(fed)),
            applied => applied,
        };
        Known { snapshot, revision, lost: Revision(self.fed.source.lost.load(Ordering::Acquire)) }
    }

    /// The cacher shows a new snapshot.
    pub fn publish(&self, snapshot: Snapshot) {
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |since| since.as_secs().max(1));
        match (snapshot.broken.is_empty(), self.undecodable_since.load(Ordering::Relaxed)) {
            (true, _) => self.undecodable_since.store(0, Ordering::Relaxed),
            (false, 0) => self.undecodable_since.store(now(), Ordering::Relaxed),
            (false, _) => {}
        }
        self.snapshot.store(Arc::new(snapshot));
        self.changed.notify_waiters();
    }

    /// Since when there are values that cannot be decoded, if there are.
    #[must_use]
    pub fn undecodable_since(&self) -> Option<SystemTime> {
        let since = self.undecodable_since.load(Ordering::Relaxed);
        (since > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_secs(since))
    }

    /// The feed has sent the cacher everything of this resource up to `revision`. Call after the send and before [`Fed::advance`].
    pub fn handed(&self, revision: Revision) {
        self.handed.store(revision.0, Ordering::Release);
    }

    /// The feed holds back this resource's changes until a load is done.
    pub fn withhold(&self) {
        self.handed.store(WITHHELD, Ordering::Release);
    }

    /// etcd went backwards: a snapshot of an earlier epoch than this one is not known up to any revision, and not ready.
    pub fn void_before(&self, epoch: Epoch) {
        self.void_before.store(epoch.0, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// The clock this resource follows.
    #[must_use]
    pub fn fed(&self) -> &Arc<Fed> {
        &self.fed
    }

    /// Ends when a snapshot is published after this call, polled or not. Asks etcd for nothing.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// The next snapshot that is ready and was not seen, with the keys that were written since the one before, if that is known. `seen` begins with none.
    pub async fn next(&self, seen: &mut Option<(Epoch, Revision)>) -> (Arc<Snapshot>, Option<BTreeSet<Bytes>>) {
        loop {
            let changed = self.changed();
            let known = self.known();
            if !known.is_ready() {
                // A resource that nobody writes becomes ready without a new snapshot, when the feed has passed.
                let _ = self.wait_until(Known::is_ready, READY_LOOK).await;
                continue;
            }
            if let Some(found) = known.written_since(seen) {
                return found;
            }
            changed.await;
        }
    }

    /// Waits until the snapshot is known up to `revision`.
    ///
    /// # Errors
    /// The newest snapshot, when `limit` has passed (guarantee Fresh: refused in bounded time).
    pub async fn wait_for(&self, revision: Revision, limit: Duration) -> Result<Known, Known> {
        self.wait_until(|known| known.revision >= revision, limit).await
    }

    /// Waits until `enough` is true of the snapshot.
    ///
    /// # Errors
    /// The newest snapshot, when `limit` has passed.
    pub async fn wait_until(&self, enough: impl Fn(&Known) -> bool, limit: Duration) -> Result<Known, Known> {
        let known = self.known();
        if enough(&known) {
            return Ok(known);
        }
        let deadline = Instant::now() + limit;
        let _waiting = Waiting::begin(&self.fed);
        loop {
            let (changed, grew) = (self.changed.notified(), self.fed.grew.notified());
            tokio::pin!(changed, grew);
            changed.as_mut().enable();
            grew.as_mut().enable();
            let known = self.known();
            if enough(&known) {
                return Ok(known);
            }
            tokio::select! {
                () = changed => {}
                () = grew => {}
                () = tokio::time::sleep_until(deadline) => return Err(self.known()),
            }
        }
    }
}

/// Counts a waiter for as long as it lives, so that the feed asks for progress exactly while someone waits.
struct Waiting<'a>(&'a Fed);

impl<'a> Waiting<'a> {
    fn begin(fed: &'a Fed) -> Self {
        fed.waiters.fetch_add(1, Ordering::SeqCst);
        fed.asked.notify_one();
        Self(fed)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}
