//! What is shared: the newest durable snapshot, whether the store lives, and the way to the writer. No decision is made here.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use imbl::Vector;
use parking_lot::Mutex;
use proto::ResponseHeader;
use redb::ReadOnlyTable;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::index::Index;
use super::log::Event;
use super::refusal::{Fault, Refusal};
use super::view::View;
use super::writer::{Ask, Reply, What};

/// Bytes of requests that may wait for the writer; the next one waits before it is queued.
pub(super) const WAITING_BYTES_MAX: usize = 64 << 20;
/// Requests that may wait for the writer.
pub(super) const WAITING_COUNT_MAX: usize = 4_096;
/// Backups that are sent at once: each holds a thread, and the pages that it still has to read.
const SNAPSHOTS_MAX: usize = 2;
/// Reads that may wait for the disk or return much, at once: each holds a thread and what it has read.
const HEAVY_READS_MAX: usize = 64;
/// In which the system counts what a file takes.
const BLOCK_BYTES: u64 = 512;
/// A single node has had its one election; a fresh etcd says 2 as well.
const RAFT_TERM: u64 = 2;

/// One durable revision, and everything up to it. A clone of what the writer works on, with a read transaction of the same commit: so what
/// the index names is in the log, whatever is compacted meanwhile.
pub(super) struct State {
    pub(super) revision: i64,
    /// -1 before the first compaction.
    pub(super) compacted: i64,
    pub(super) index: Index,
    pub(super) log: ReadOnlyTable<(i64, u32), &'static [u8]>,
    /// Of the same commit, for backups.
    pub(super) leases: ReadOnlyTable<i64, i64>,
    /// Held as long as the database that `log` is in must be open: a defragmentation puts another one into its place.
    pub(super) _database: Arc<()>,
    /// The last revisions, one batch each, without a gap up to `revision`; may be empty.
    pub(super) recent: Vector<Arc<Batch>>,
}

/// The changes of one revision.
pub(super) struct Batch {
    pub(super) revision: i64,
    pub(super) events: Vec<Event>,
    pub(super) bytes: usize,
}

/// Whether requests are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Running,
    /// The storage has failed: what was durable is shown, nothing is written any more. `full` is how a disk failed that takes no more.
    Failed {
        why: Arc<str>,
        full: bool,
    },
    Closed,
}

/// What services and writer share.
pub(super) struct Shared {
    pub(super) cluster_id: u64,
    pub(super) member_id: u64,
    /// Where clients reach it; empty when only in-process.
    pub(super) client_urls: Vec<String>,
    /// Period of unasked progress on watches that want it.
    pub(super) progress_interval: Duration,
    /// The database's file, for its size.
    pub(super) file: Option<PathBuf>,
    /// Bytes of the log above which nothing is put; 0 for none.
    pub(super) quota: u64,
    /// Pages of a database kept in memory, in bytes.
    pub(super) cache_bytes: usize,
    state: ArcSwap<State>,
    changed: watch::Sender<i64>,
    life: watch::Sender<Life>,
    asks: mpsc::Sender<Ask>,
    room: Arc<Semaphore>,
    heavy: Semaphore,
    /// Turns at sending backups.
    pub(super) snapshots: Arc<Semaphore>,
    /// The turn at a defragmentation.
    pub(super) defragmentations: Arc<Semaphore>,
    /// Bytes of the changes in the log.
    log_bytes: AtomicU64,
    /// Since when the writer has been at the requests of one commit.
    writing: Mutex<Option<Instant>>,
}

/// The parts of [`Shared`] that do not change.
pub(super) struct Facts {
    pub(super) cluster_id: u64,
    pub(super) member_id: u64,
    pub(super) client_urls: Vec<String>,
    pub(super) progress_interval: Duration,
    pub(super) file: Option<PathBuf>,
    pub(super) quota: u64,
    pub(super) cache_bytes: usize,
}

/// What a store takes on disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The file, on the disk.
    pub file: u64,
    /// The changes in it that are kept, without what pages and trees add to them.
    pub in_use: u64,
    /// How many bytes of changes may be kept before writes are refused; 0 for no such limit.
    pub quota: u64,
    /// What of it may be in memory: pages, and the changes of the last revisions. 0 of a store elsewhere.
    pub memory: u64,
}

impl Size {
    /// File, in use, quota.
    pub(super) fn numbers(self) -> [u64; 3] {
        [self.file, self.in_use, self.quota]
    }
}

impl State {
    pub(super) fn view(&self) -> View<'_, ReadOnlyTable<(i64, u32), &'static [u8]>> {
        View { index: &self.index, log: &self.log, revision: self.revision, compacted: self.compacted }
    }
}

impl Shared {
    pub(super) fn new(facts: Facts, first: State, log_bytes: u64, asks: mpsc::Sender<Ask>) -> Self {
        let Facts { cluster_id, member_id, client_urls, progress_interval, file, quota, cache_bytes } = facts;
        Self {
            cluster_id,
            member_id,
            client_urls,
            progress_interval,
            file,
            quota,
            cache_bytes,
            changed: watch::Sender::new(first.revision),
            state: ArcSwap::from_pointee(first),
            life: watch::Sender::new(Life::Running),
            asks,
            room: Arc::new(Semaphore::new(WAITING_BYTES_MAX)),
            heavy: Semaphore::new(HEAVY_READS_MAX),
            snapshots: Arc::new(Semaphore::new(SNAPSHOTS_MAX)),
            defragmentations: Arc::new(Semaphore::new(1)),
            log_bytes: AtomicU64::new(log_bytes),
            writing: Mutex::default(),
        }
    }

    /// The newest durable snapshot.
    ///
    /// # Errors
    /// When the store is closed. One whose storage has failed shows what it had last: all that was ever acknowledged, and nobody else can write.
    pub(super) fn state(&self) -> Result<Arc<State>, Refusal> {
        match &*self.life.borrow() {
            Life::Closed => Err(Refusal::closed()),
            Life::Running | Life::Failed { .. } => Ok(self.state.load_full()),
        }
    }

    /// Reads on a thread that may wait for the disk.
    pub(super) async fn read_aside<T: Send + 'static>(&self, read: impl FnOnce() -> Result<T, Fault> + Send + 'static) -> Result<T, Fault> {
        let _turn = self.heavy.acquire().await;
        match tokio::task::spawn_blocking(read).await {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => Err(Fault::broken("a read has ended by a fault of its own")),
            Err(_) => Err(Refusal::Stopped("the process is ending".into()).into()),
        }
    }

    /// The writer says that it begins a commit, or that it has ended one.
    pub(super) fn writes(&self, since: Option<Instant>) {
        *self.writing.lock() = since;
    }

    /// How long the commit has taken that is under way.
    pub(super) fn writing_for(&self) -> Option<Duration> {
        self.writing.lock().map(|since| since.elapsed())
    }

    /// Only the writer calls this, after a commit.
    pub(super) fn publish(&self, state: State, log_bytes: u64) {
        let revision = state.revision;
        self.log_bytes.store(log_bytes, Ordering::Relaxed);
        self.state.store(Arc::new(state));
        self.changed.send_replace(revision);
    }

    /// What the store takes on disk.
    pub(super) fn size(&self) -> Size {
        let in_use = self.log_bytes.load(Ordering::Relaxed);
        // Its length says less: it is doubled in one step, and what has not been written takes nothing.
        let file = self.file.as_ref().and_then(|file| fs::metadata(file).ok()).map_or(in_use, |file| file.blocks() * BLOCK_BYTES);
        let recent: usize = self.state().map_or(0, |state| state.recent.iter().map(|batch| batch.bytes).sum());
        let memory = file.min(self.cache_bytes as u64) + recent as u64;
        Size { file, in_use, quota: self.quota, memory }
    }

    /// Wakes at every publication.
    pub(super) fn changes(&self) -> watch::Receiver<i64> {
        self.changed.subscribe()
    }

    pub(super) fn life(&self) -> watch::Receiver<Life> {
        self.life.subscribe()
    }

    /// Why nothing is written any more.
    pub(super) fn stopped(&self) -> Option<Refusal> {
        match &*self.life.borrow() {
            Life::Running => None,
            Life::Closed => Some(Refusal::closed()),
            Life::Failed { full: true, .. } => Some(Refusal::NoSpace),
            Life::Failed { why, full: false } => Some(Refusal::Failed(why.clone())),
        }
    }

    /// The storage failed: nothing is written from now on. The first reason stays.
    pub(super) fn fail(&self, why: Arc<str>, full: bool) {
        self.end(Life::Failed { why, full });
    }

    pub(super) fn end(&self, how: Life) {
        self.life.send_if_modified(|life| {
            let changes = *life == Life::Running || (how == Life::Closed && *life != Life::Closed);
            if changes {
                *life = how;
            }
            changes
        });
    }

    /// A fault of a read as a refusal; a storage that broke is not written to any more.
    pub(super) fn refuse(&self, fault: Fault) -> Refusal {
        match fault {
            Fault::Refused(refusal) => return refusal,
            Fault::Broken(why) => self.fail(why, false),
            Fault::Full(why) => self.fail(why, true),
        }
        match &*self.life.borrow() {
            Life::Failed { why, .. } => Refusal::Failed(why.clone()),
            Life::Running | Life::Closed => Refusal::closed(),
        }
    }

    /// Hands a request of so many bytes to the writer and waits for what is durable of it.
    pub(super) async fn ask<T>(&self, bytes: usize, what: impl FnOnce(Reply<T>) -> What) -> Result<T, Refusal> {
        if let Some(refusal) = self.stopped() {
            return Err(refusal);
        }
        let weight = u32::try_from(bytes.clamp(1, WAITING_BYTES_MAX)).expect("the limit fits");
        let permit = self.room.clone().acquire_many_owned(weight).await.expect("the semaphore is never closed");
        let (reply, replied) = oneshot::channel();
        if self.asks.send(Ask { what: what(reply), bytes, permit }).await.is_err() {
            return Err(self.why_ended().await);
        }
        match replied.await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.why_ended().await),
        }
    }

    /// The writer takes nothing more; it says why before, whatever happens ([`super::writer::Bell`]).
    async fn why_ended(&self) -> Refusal {
        let _ = self.life().wait_for(|life| *life != Life::Running).await;
        self.stopped().expect("it was just seen")
    }

    /// A header of this member.
    pub(super) fn header(&self, revision: i64) -> ResponseHeader {
        ResponseHeader { cluster_id: self.cluster_id, member_id: self.member_id, revision, raft_term: RAFT_TERM }
    }

    pub(super) fn raft_term(&self) -> u64 {
        RAFT_TERM
    }

    /// Fills in what an answer made by [`View`] or the writer does not know.
    pub(super) fn fill(&self, header: &mut Option<ResponseHeader>) {
        let revision = header.as_ref().map_or(0, |header| header.revision);
        *header = Some(self.header(revision));
    }
}
