//! The feed's hands: opens the watches, loads resources, carries out what the machine decides, and comes back after every failure.
//!
//! One task, one stream. It never awaits a cacher.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, mpsc};

use super::{
    continuity::stands,
    freshness,
    load::{self, LoadFailed},
};
use crate::cacher::Inbox;
use crate::feed::{
    machine::{COMPACT_REV_KEY, Generation, LoadAt, Loaded, Machine, Out},
    ranges::{WATCHED_ALONE, cover},
};
use crate::state::snapshot::Fed;
use etcd::{Etcd, EtcdError, Header, RangeRequest, WatchKind, WatchMessage, WatchSender};
use model::{Included, KeyRange, ResourceId, Revision, Storage};
use retry::{Backoff, Reminder};
use telemetry::Metrics;

/// Pause between two progress requests while somebody waits (spec list-watch §2.9).
pub const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Progress is asked for this often even when nobody waits, so that bookmarks of idle resources follow the cluster (etcd's own unsolicited ones
/// come every 10 minutes by default, spec list-watch §4.5).
pub const PROGRESS_IDLE_EVERY: Duration = Duration::from_secs(1);

/// Shortest pause between two progress requests when a new waiter comes.
pub const PROGRESS_PAUSE_MIN: Duration = Duration::from_millis(5);

/// Resources that are loaded at the same time.
pub const LOADS_AT_ONCE: usize = 4;

/// Waits before a broken stream is opened again; half of each is random.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(2), -0.5);

/// A stream on which nothing came for this long, though progress was asked for every second and answered before, leads nowhere: a proxy may hold it open.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// How often an unreachable etcd is mentioned in the log.
pub(super) const REMIND_EVERY: Duration = Duration::from_secs(10);

/// Commands that may wait; more than there are resources, which are all added before the feed runs. A cluster with more CustomResourceDefinitions
/// than this waits for the feed to begin.
const COMMANDS_MAX: usize = 16_384;

/// What the feed needs to know.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Key prefix with a slash at its end: `/registry/`.
    pub prefix: String,
    /// The resources that this etcd is followed for; none: all that it has under the prefix.
    pub only: Vec<ResourceId>,
    /// How many revisions before now a fresh start loads and replays, so that watches of the server before it resume. 0: none.
    pub warm_start_revisions: u64,
    /// Bytes that may wait in one cacher's inbox, or be held during one load, before that resource is loaded anew.
    pub inbox_bytes_max: usize,
}

/// What the rest of the house tells the feed.
pub enum Command {
    /// Follow this resource too, of these namespaces or of all.
    Add(Arc<Storage>, Option<Arc<Included>>, Inbox),
    /// Forget this resource; its cacher ends.
    Remove(ResourceId),
}

/// The feed of one revision space.
pub struct Driver {
    etcd: Etcd,
    config: SourceConfig,
    machine: Machine,
    fed: Arc<Fed>,
    resources: HashMap<ResourceId, Followed>,
    commands: mpsc::Receiver<Command>,
    loads: (mpsc::UnboundedSender<Finished>, mpsc::UnboundedReceiver<Finished>),
    loads_at_once: Arc<Semaphore>,
    cluster: Option<u64>,
    asked_at: Option<Instant>,
    metrics: Arc<Metrics>,
    /// A cacher has ended though it was fed: nothing of it may be served any longer, and the process must end.
    cacher_lost: bool,
    /// Unknown keys told to the metrics so far.
    unknown_keys: u64,
}

/// A resource that is followed.
struct Followed {
    storage: Arc<Storage>,
    included: Option<Arc<Included>>,
    inbox: Inbox,
}

/// A load that ended.
struct Finished {
    id: ResourceId,
    generation: Generation,
    result: Result<Loaded, LoadFailed>,
}

/// What wakes the session.
enum Happened {
    Message(WatchMessage),
    StreamEnded,
    Loaded(Finished),
    Commanded(Command),
    Awaited,
    Nobody,
}

impl Driver {
    /// A feed that follows nothing yet, and the way to command it.
    #[must_use]
    pub fn new(etcd: Etcd, config: SourceConfig, fed: Arc<Fed>, metrics: Arc<Metrics>) -> (Self, mpsc::Sender<Command>) {
        let (commander, commands) = mpsc::channel(COMMANDS_MAX);
        let mut ranges: Vec<KeyRange> = match &config.only[..] {
            [] => cover(&config.prefix, WATCHED_ALONE),
            only => only.iter().map(|id| KeyRange::prefix(format!("{}{id}/", config.prefix).as_bytes())).collect(),
        };
        ranges.push(KeyRange { start: COMPACT_REV_KEY.to_vec(), end: Vec::new() });
        let driver = Self {
            machine: Machine::new(&config.prefix, ranges, config.inbox_bytes_max),
            etcd,
            config,
            fed,
            resources: HashMap::new(),
            commands,
            loads: mpsc::unbounded_channel(),
            loads_at_once: Arc::new(Semaphore::new(LOADS_AT_ONCE)),
            cluster: None,
            asked_at: None,
            metrics,
            cacher_lost: false,
            unknown_keys: 0,
        };
        (driver, commander)
    }

    /// Runs until every commander is gone, or a cacher is. Every failure of etcd leads back to a new session. Resources added before this begins are loaded
    /// warm; later ones as etcd has them then.
    pub async fn run(mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.command(command);
        }
        let freshness = freshness::follow(self.etcd.clone(), self.config.prefix.clone(), self.fed.clone());
        tokio::select! {
            () = self.sessions() => {}
            () = freshness => {}
        }
    }

    async fn sessions(&mut self) {
        let (mut failures, mut reminder) = (0, Reminder::every(REMIND_EVERY));
        loop {
            let began = Instant::now();
            match self.session().await {
                Ok(()) => return,
                Err(error) => {
                    self.etcd.rotate();
                    self.fed.failed(&error.to_string());
                    if reminder.is_due() {
                        tracing::warn!(%error, fed = %self.machine.fed(), of = self.of(), "the feed from etcd is broken; trying again");
                    }
                }
            }
            if began.elapsed() > REMIND_EVERY {
                (failures, reminder) = (0, Reminder::every(REMIND_EVERY));
            }
            tokio::time::sleep(BACKOFF.wait(failures)).await;
            failures += 1;
        }
    }

    /// What it follows, for the log.
    fn of(&self) -> String {
        if self.config.only.is_empty() { "all".to_owned() } else { self.config.only.join(",") }
    }

    /// One stream, from opening to its end.
    async fn session(&mut self) -> Result<(), EtcdError> {
        self.begin().await?;
        let (mut sender, mut receiver) = self.etcd.open_watch().await?;
        self.machine.reconnected();
        for (index, range, start) in self.machine.watches() {
            sender.create(watch_id(index), &range.start, &range.end, start).await?;
        }
        // The stream may be of another connection than the check at the beginning was.
        let newest = self.etcd.current(self.config.prefix.as_bytes()).await?;
        if !self.is_the_one_we_know(newest).await? {
            return Err(EtcdError::Unavailable("etcd was replaced while the watch stream was opened".to_owned()));
        }
        tracing::info!(from = %self.machine.fed(), of = self.of(), "following etcd");
        let mut tick = tokio::time::interval(PROGRESS_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut heard, mut tells_progress) = (Instant::now(), false);
        loop {
            let happened = tokio::select! {
                message = receiver.message() => message?.map_or(Happened::StreamEnded, Happened::Message),
                Some(finished) = self.loads.1.recv() => Happened::Loaded(finished),
                command = self.commands.recv() => command.map_or(Happened::Nobody, Happened::Commanded),
                () = self.fed.asked() => Happened::Awaited,
                _ = tick.tick() => Happened::Awaited,
            };
            match happened {
                Happened::Message(message) => {
                    tells_progress |= message.kind == WatchKind::Progress;
                    self.message(message, &mut sender).await?;
                    heard = Instant::now();
                }
                Happened::StreamEnded => return Err(EtcdError::Unavailable("the watch stream ended".to_owned())),
                Happened::Loaded(finished) => self.loaded(finished),
                Happened::Commanded(command) => self.command(command),
                Happened::Awaited if tells_progress && heard.elapsed() > SILENCE_MAX => {
                    return Err(EtcdError::Unavailable(format!("the watch stream has been silent for {SILENCE_MAX:?}")));
                }
                Happened::Awaited => self.ask_progress(&mut sender).await?,
                Happened::Nobody => return Ok(()),
            }
            if self.cacher_lost {
                return Ok(());
            }
        }
    }

    /// Before a stream is opened: is this the etcd we know? The first time, and when it went backwards, everything is loaded.
    async fn begin(&mut self) -> Result<(), EtcdError> {
        let newest = self.etcd.current(self.config.prefix.as_bytes()).await?;
        self.learn_compaction().await?;
        let mut out = Vec::new();
        if self.cluster.is_none() {
            let base = self.warm_base(newest.revision).await?;
            tracing::info!(newest = %newest.revision, %base, of = self.of(), "loading");
            self.machine.start(base, newest.revision, &mut out);
        } else if !self.is_the_one_we_know(newest).await? {
            tracing::error!(
                newest = %newest.revision,
                fed = %self.machine.fed(),
                of = self.of(),
                "etcd was restored from a backup, or is another cluster; everything is loaded anew"
            );
            self.machine.start(newest.revision, newest.revision, &mut out);
        }
        self.cluster = Some(newest.cluster_id);
        self.perform(out);
        if self.machine.fed() < self.fed.revision() {
            self.fed.rewind(self.machine.fed(), self.machine.newest());
        }
        self.fed.advance(self.machine.fed());
        Ok(())
    }

    /// What was compacted last, as kube-apiserver's compactor wrote it.
    async fn learn_compaction(&mut self) -> Result<(), EtcdError> {
        let answer = self.etcd.range(RangeRequest { key: COMPACT_REV_KEY.to_vec(), ..RangeRequest::default() }).await?;
        let value = answer.kvs.first().and_then(|kv| std::str::from_utf8(&kv.value).ok()).and_then(|text| text.parse().ok());
        self.fed.compacted_at(Revision(value.unwrap_or(0)));
        Ok(())
    }

    /// Only a linearizable read may prove that etcd went backwards; and what we saw last must still be what it was.
    async fn is_the_one_we_know(&self, newest: Header) -> Result<bool, EtcdError> {
        if self.cluster != Some(newest.cluster_id) || newest.revision < self.machine.fed() {
            return Ok(false);
        }
        match self.machine.last_change() {
            Some(change) => stands(change, &self.etcd).await,
            None => Ok(true),
        }
    }

    /// How far back a fresh start can load: at most `warm_start_revisions`, and not compacted.
    async fn warm_base(&self, newest: Revision) -> Result<Revision, EtcdError> {
        let mut low = newest.0.saturating_sub(self.config.warm_start_revisions).max(1);
        if low >= newest.0 {
            return Ok(newest);
        }
        let mut high = newest.0;
        // `low` is tried first: where nothing is compacted, one read is enough.
        let mut middle = low;
        while low < high {
            let request = RangeRequest { key: COMPACT_REV_KEY.to_vec(), revision: Some(Revision(middle)), ..RangeRequest::default() };
            match self.etcd.range(request).await {
                Ok(_) => high = middle,
                Err(EtcdError::Compacted) => low = middle + 1,
                Err(error) => return Err(error),
            }
            middle = low.midpoint(high);
        }
        Ok(Revision(high))
    }

    async fn message(&mut self, message: WatchMessage, sender: &mut WatchSender) -> Result<(), EtcdError> {
        let index = usize::try_from(message.watch_id - 1).ok();
        let mut out = Vec::new();
        self.machine.saw(message.header.revision);
        match (message.kind, index) {
            (WatchKind::Events { events, more }, Some(index)) => self.machine.events(index, events, more, &mut out),
            // Of no watch of ours: etcd does not send it.
            (WatchKind::Events { .. }, None) | (WatchKind::Created, _) => {}
            (WatchKind::Progress, index) => {
                self.count_progress(index);
                self.machine.progress(index, message.header.revision, &mut out);
            }
            (WatchKind::Canceled { compacted: compacted @ Some(_), .. }, Some(index)) => {
                let newest = self.etcd.current(self.config.prefix.as_bytes()).await?;
                tracing::warn!(?compacted, newest = %newest.revision, "etcd compacted changes that were not read yet; loading a range anew");
                if let Some(range) = self.machine.restart_range(index, newest.revision, &mut out) {
                    sender.create(watch_id(index), &range.start, &range.end, newest.revision.next()).await?;
                }
            }
            (WatchKind::Canceled { reason, .. }, _) => return Err(EtcdError::Unavailable(format!("a watch was cancelled: {reason}"))),
        }
        self.metrics.unknown_keys.inc_by(self.machine.unknown_keys() - self.unknown_keys);
        self.unknown_keys = self.machine.unknown_keys();
        self.perform(out);
        Ok(())
    }

    /// A progress answer is one for each resource of its watch, or of every watch.
    fn count_progress(&self, index: Option<usize>) {
        let range = index.and_then(|index| self.machine.watches().nth(index)).map(|(_, range, _)| range);
        for Followed { storage, inbox, .. } in self.resources.values() {
            if range.is_none_or(|range| range.contains(storage.key_prefix(&self.config.prefix).as_bytes())) {
                inbox.metrics.etcd_bookmarks.inc();
            }
        }
    }

    fn loaded(&mut self, finished: Finished) {
        let mut out = Vec::new();
        match finished.result {
            Ok(loaded) => self.machine.loaded(&finished.id, finished.generation, loaded, &mut out),
            Err(LoadFailed) => self.machine.load_failed(&finished.id, finished.generation, &mut out),
        }
        self.perform(out);
    }

    fn command(&mut self, command: Command) {
        let mut out = Vec::new();
        match command {
            Command::Add(storage, included, inbox) => {
                let followed = Followed { storage: storage.clone(), included: included.clone(), inbox };
                self.resources.insert(storage.id.clone(), followed);
                self.machine.add(storage, included, &mut out);
            }
            Command::Remove(id) => {
                self.machine.remove(&id);
                self.resources.remove(&id);
            }
        }
        self.perform(out);
    }

    /// While somebody waits, or a load has to become ready, etcd is asked how far the stream is.
    async fn ask_progress(&mut self, sender: &mut WatchSender) -> Result<(), EtcdError> {
        let wanted = self.fed.is_awaited() || self.machine.is_loading();
        let pause = if wanted { PROGRESS_PAUSE_MIN } else { PROGRESS_IDLE_EVERY };
        if self.asked_at.is_none_or(|at| at.elapsed() >= pause) {
            self.asked_at = Some(Instant::now());
            sender.request_progress().await?;
        }
        Ok(())
    }

    /// Carries out what was decided, in order. A cacher that holds too much is reset alone, after all else.
    fn perform(&mut self, out: Vec<Out>) {
        let mut overloaded: Vec<ResourceId> = Vec::new();
        for one in out {
            match one {
                Out::Hand(id, feeds) => {
                    let Some(Followed { inbox, .. }) = self.resources.get(&id) else { continue };
                    match inbox.hand(feeds) {
                        Ok(waiting) if waiting > self.config.inbox_bytes_max && !overloaded.contains(&id) => overloaded.push(id),
                        Ok(_) => {}
                        Err(gone) => {
                            tracing::error!(resource = %id, %gone, "a cacher has ended unexpectedly; the feed stops");
                            self.cacher_lost = true;
                        }
                    }
                }
                Out::Withhold(id) => {
                    if let Some(Followed { inbox, .. }) = self.resources.get(&id) {
                        inbox.withhold();
                    }
                }
                Out::Void(id, epoch) => self.resources.get(&id).into_iter().for_each(|followed| followed.inbox.void_before(epoch)),
                Out::HeldTooMuch(id) => tracing::warn!(resource = %id, "too many changes while a resource was loaded; loading it again"),
                Out::Load(id, generation, at) => self.load(id, generation, at),
                Out::Fed(revision) => self.fed.advance(revision),
                Out::Compacted(revision) => self.fed.compacted_at(revision),
            }
        }
        let mut more = Vec::new();
        for id in overloaded {
            tracing::warn!(resource = %id, limit = self.config.inbox_bytes_max, "the cacher of a resource does not keep up; the resource is loaded anew");
            self.machine.reload(&id, &mut more);
        }
        for one in more {
            match one {
                Out::Withhold(id) => self.resources.get(&id).into_iter().for_each(|followed| followed.inbox.withhold()),
                Out::Load(id, generation, at) => self.load(id, generation, at),
                Out::Hand(..) | Out::Void(..) | Out::HeldTooMuch(_) | Out::Fed(_) | Out::Compacted(_) => {}
            }
        }
    }

    fn load(&self, id: ResourceId, generation: Generation, at: LoadAt) {
        let Some(Followed { storage, included, inbox }) = self.resources.get(&id) else { return };
        let (etcd, prefix, metrics) = (self.etcd.clone(), self.config.prefix.clone(), inbox.metrics.clone());
        let (storage, included) = (storage.clone(), included.clone());
        let (done, turn) = (self.loads.0.clone(), self.loads_at_once.clone());
        tokio::spawn(async move {
            let _turn = turn.acquire().await.expect("the semaphore is never closed");
            let result = load::load(&etcd, (&storage, included.as_ref()), &prefix, at, &metrics).await;
            // A driver that is gone needs no load.
            let _ = done.send(Finished { id, generation, result });
        });
    }
}

/// etcd's watch ids of our choice begin at 1; 0 would let etcd choose.
fn watch_id(index: usize) -> i64 {
    i64::try_from(index).expect("a few ranges") + 1
}
