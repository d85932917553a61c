//! One version of a resource, kept: every object and event of the resource's own cacher is converted once, in order, and fed to a cacher of the version.
//!
//! The ring of the resource's cacher is the queue: what waits to be converted waits there. A view that is so far behind that the ring has forgotten something
//! begins anew, with what it has converted already.
//!
//! ```text
//! Asleep ──asked for──▶ Loading ──all converted──▶ Live ──nobody asks any more──▶ Asleep
//!                       Live ──the webhook fails──▶ Late ──for too long──▶ Failing
//!                       Loading ──the webhook fails──▶ Failing
//!                       Late, Failing ──it answers again──▶ Live
//! ```

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    select,
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{
    converter::{BYTES_PER_CALL, ConversionError, Converter, OBJECTS_PER_CALL},
    kept::{KeptVersions, Reading, Version},
    webhook::CALLS_AT_ONCE,
};
use cache::{
    cacher::{Handle, Inbox},
    state::snapshot::{Known, Published, Snapshot},
};
use model::{Batch, Change, Epoch, Event, Feed, Object, Revision};
use retry::{Backoff, Reminder};

/// How long the webhook of a version that is served may fail before its watches end and its reads are refused: until then they wait, or are old.
const PATIENCE: Duration = Duration::from_secs(5);
/// Waits before a webhook is asked again.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(5), -0.5);
/// How often a version follows the clock of its resource while nothing happens and nobody waits.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// How long a resource is waited for at once.
const READY_LOOK: Duration = Duration::from_secs(10);
/// A version that nobody has read or watched for so long is let go of.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// How often the log is told of a webhook that fails.
const REMIND_EVERY: Duration = Duration::from_secs(60);
/// Objects, and bytes of them, that are converted before the cacher of the version is fed: what all calls at the same time take.
const OBJECTS_AT_ONCE: usize = OBJECTS_PER_CALL * CALLS_AT_ONCE;
const BYTES_AT_ONCE: usize = BYTES_PER_CALL * CALLS_AT_ONCE;

/// Lives of views: no other cacher has these epochs.
static EPOCHS: AtomicU64 = AtomicU64::new(1 << 40);

/// How a view stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    /// Nobody has asked for it.
    Asleep,
    Loading,
    Live,
    /// Served as it was before the webhook failed.
    Late,
    /// Why the webhook's answer could not be used.
    Failing(Arc<str>),
}

/// A version that is followed; when this is dropped, its cacher ends.
pub struct View {
    asked: Arc<Version>,
    standing: watch::Receiver<Standing>,
    published: Arc<Published>,
    follower: JoinHandle<()>,
}

impl Drop for View {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

impl View {
    /// Follows a resource's cacher for the cacher of a version, whose two ends these are; nothing is converted before somebody asks.
    #[must_use]
    pub fn follow(
        runtime: &tokio::runtime::Handle,
        source: Arc<Published>,
        converter: Arc<Converter>,
        (handle, inbox): (Handle, Inbox),
        kept: Arc<KeptVersions>,
    ) -> Self {
        let asked = kept.version();
        let (told, standing) = watch::channel(Standing::Asleep);
        let published = handle.published.clone();
        let follower = Follower {
            source,
            converter,
            handle,
            inbox,
            asked: asked.clone(),
            kept,
            standing: told,
            seen: None,
            made: HashMap::new(),
            made_of: None,
            next: fresh_epoch(),
            failing_since: None,
        };
        Self { asked, standing, published, follower: runtime.spawn(follower.run()) }
    }

    /// Has the version kept from now on. Waits until it can be served, or is known not to be, at most `limit`. It stays until what this returns is dropped.
    pub async fn awaken(&self, limit: Duration) -> Reading {
        let reading = self.asked.read();
        self.want();
        if self.published.known().is_ready() {
            return reading;
        }
        let mut standing = self.standing.clone();
        let ready = async {
            let is_failing = |standing: &Standing| matches!(standing, Standing::Failing(_));
            let done = standing.wait_for(|standing| *standing == Standing::Live || is_failing(standing)).await;
            // Its cacher has been fed, and may not have published yet.
            if done.is_ok_and(|standing| !is_failing(&standing)) {
                let _ = self.published.wait_until(Known::is_ready, limit).await;
            }
        };
        let _ = timeout(limit, ready).await;
        reading
    }

    /// Has the version kept from now on.
    pub fn want(&self) {
        *self.asked.last.lock() = Instant::now();
        if *self.standing.borrow() == Standing::Asleep {
            self.asked.begin.notify_one();
        }
    }

    /// Why the version cannot be served, if its webhook fails.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        match &*self.standing.borrow() {
            Standing::Failing(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// Returns whether the version is kept, and will have what is written now in a moment.
    #[must_use]
    pub fn is_live(&self) -> bool {
        *self.standing.borrow() == Standing::Live
    }

    /// Returns a kept object, if it is of this revision.
    #[must_use]
    pub fn find(&self, key: &[u8], revision: Revision) -> Option<Arc<Object>> {
        self.published.known().snapshot.store.find(key).filter(|object| object.revision == revision).cloned()
    }

    /// Waits until the version has what was written at this revision, at most `limit`, while its webhook answers.
    pub async fn reaches(&self, revision: Revision, limit: Duration) {
        let mut standing = self.standing.clone();
        select! {
            _ = self.published.wait_for(revision, limit) => {}
            _ = standing.wait_for(|standing| *standing != Standing::Live) => {}
        }
    }
}

/// What feeds the cacher of a version.
struct Follower {
    source: Arc<Published>,
    converter: Arc<Converter>,
    handle: Handle,
    inbox: Inbox,
    asked: Arc<Version>,
    kept: Arc<KeptVersions>,
    standing: watch::Sender<Standing>,
    /// Up to which revision of which life of the resource the cacher was fed.
    seen: Option<(Epoch, Revision)>,
    /// What was converted for a load that is not done, by key, and of which life of the resource it is.
    made: HashMap<Bytes, Arc<Object>>,
    made_of: Option<Epoch>,
    /// The next life of the cacher.
    next: Epoch,
    failing_since: Option<Instant>,
}

impl Follower {
    async fn run(mut self) {
        let (mut failures, mut reminder) = (0, Reminder::every(REMIND_EVERY));
        loop {
            if *self.standing.borrow() == Standing::Asleep {
                self.asked.begin.notified().await;
                self.stand(Standing::Loading);
            }
            let source = self.source.clone();
            let changed = source.changed();
            let known = source.known();
            if !known.is_ready() {
                self.withhold(&known);
                let _ = source.wait_until(Known::is_ready, READY_LOOK).await;
                continue;
            }
            match self.catch_up(&known).await {
                Ok(()) => {
                    if matches!(*self.standing.borrow(), Standing::Failing(_)) {
                        tracing::info!(definition = self.converter.definition(), version = %self.version(), "the conversion webhook answers again");
                    }
                    self.failing_since = None;
                    failures = 0;
                    self.stand(Standing::Live);
                }
                Err(why) => {
                    if reminder.is_due() {
                        let definition = self.converter.definition();
                        tracing::warn!(definition, version = %self.version(), %why, "objects cannot be converted; the version is not kept up");
                    }
                    self.failed(&why);
                    if self.is_idle() {
                        self.let_go();
                        continue;
                    }
                    sleep(BACKOFF.wait(failures)).await;
                    failures += 1;
                    continue;
                }
            }
            if self.is_idle() {
                self.let_go();
                continue;
            }
            self.note();
            let (fed, asked) = (self.inbox.fed().clone(), self.asked.clone());
            select! {
                () = changed => {}
                () = asked.evicted.notified() => {
                    if self.inbox.watches() == 0 && !self.asked.is_wanted() {
                        self.let_go();
                    }
                }
                () = fed.asked() => {}
                () = sleep(FOLLOW_EVERY), if !fed.is_awaited() => {}
                _ = source.wait_until(|now| now.revision > known.revision, READY_LOOK), if fed.is_awaited() => {}
            }
        }
    }

    fn stand(&self, standing: Standing) {
        self.standing.send_if_modified(|was| std::mem::replace(was, standing.clone()) != standing);
    }

    fn version(&self) -> String {
        match &self.converter.shown().shape {
            model::Shape::Custom { api_versions, .. } => api_versions.concat(),
            _ => String::new(),
        }
    }

    /// The resource cannot be served now: neither can its version.
    fn withhold(&mut self, known: &Known) {
        if self.seen.is_some_and(|_| known.revision < self.inbox.fed().revision()) {
            self.void();
            self.stand(Standing::Loading);
        }
    }

    /// Nothing of what the cacher has counts any more.
    fn void(&mut self) {
        self.next = fresh_epoch();
        self.inbox.void_before(self.next);
        self.handle.end_watches();
        self.seen = None;
    }

    fn failed(&mut self, why: &ConversionError) {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        let is_live = matches!(*self.standing.borrow(), Standing::Live | Standing::Late);
        if is_live && since.elapsed() < PATIENCE {
            self.stand(Standing::Late);
            return;
        }
        if is_live {
            if let Some((epoch, _)) = self.seen {
                self.keep_made();
                self.made_of = Some(epoch);
            }
            self.void();
        }
        self.stand(Standing::Failing(why.to_string().into()));
    }

    /// What the cacher has need not be converted again for its next life.
    fn keep_made(&mut self) {
        let kept = self.inbox.known().snapshot.store.clone();
        self.made.extend(kept.scan(b"", b"").map(|object| (Bytes::copy_from_slice(object.key()), object.clone())));
    }

    /// Notes how much it holds.
    fn note(&self) {
        let snapshot = &self.inbox.known().snapshot;
        self.kept.note(&self.asked, snapshot.store.bytes() + snapshot.ring.bytes(), self.inbox.watches() > 0);
    }

    fn is_idle(&self) -> bool {
        self.inbox.watches() == 0 && !self.asked.is_wanted() && self.asked.last.lock().elapsed() > IDLE_MAX
    }

    /// Forgets everything until somebody asks again.
    fn let_go(&mut self) {
        self.void();
        self.made = HashMap::new();
        self.kept.note(&self.asked, 0, false);
        let empty = Feed::Reset {
            epoch: self.next,
            revision: Revision::ZERO,
            ready_at: Revision(u64::MAX),
            objects: Vec::new(),
            broken: Vec::new(),
        };
        // A cacher that is gone is told of when it is fed again.
        let _ = self.inbox.hand(vec![empty]);
        self.next = fresh_epoch();
        self.stand(Standing::Asleep);
    }

    /// Feeds the cacher everything that the resource has and it has not.
    async fn catch_up(&mut self, known: &Known) -> Result<(), ConversionError> {
        let snapshot = &known.snapshot;
        let since = self.seen.filter(|(epoch, _)| *epoch == snapshot.epoch).and_then(|(_, seen)| snapshot.ring.since(seen).ok());
        match since {
            Some(index) => self.events(snapshot, index).await?,
            None => self.load(known).await?,
        }
        self.inbox.fed().advance(known.revision);
        Ok(())
    }

    /// Forwards what the ring has from here on. What was converted before something fails has been forwarded.
    async fn events(&mut self, snapshot: &Snapshot, from: usize) -> Result<(), ConversionError> {
        let mut index = from;
        while index < snapshot.ring.len() {
            let mut revisions: BTreeMap<Revision, Vec<Arc<Event>>> = BTreeMap::new();
            let (mut objects, mut bytes) = (0, 0);
            while let Some(event) = snapshot.ring.at(index) {
                let is_begun = revisions.contains_key(&event.revision);
                if !is_begun && (objects >= OBJECTS_AT_ONCE || bytes >= BYTES_AT_ONCE) {
                    break;
                }
                objects += usize::from(event.new.is_some());
                bytes += event.new.as_ref().map_or(0, |object| object.tail_len());
                revisions.entry(event.revision).or_default().push(event.clone());
                index += 1;
            }
            let written: Vec<Arc<Object>> = revisions.values().flatten().filter_map(|event| event.new.clone()).collect();
            let mut converted = self.converter.all(&written).await?.into_iter();
            let mut feeds = Vec::with_capacity(revisions.len());
            let mut last = None;
            for (revision, events) in revisions {
                let change = |event: Arc<Event>| match event.new {
                    Some(_) => converted.next().map(Change::Put),
                    None => Some(Change::Delete(Bytes::copy_from_slice(event.key()))),
                };
                feeds.push(Feed::Batch(Batch { revision, changes: events.into_iter().filter_map(change).collect() }));
                last = Some(revision);
            }
            self.hand(feeds);
            self.seen = last.map(|revision| (snapshot.epoch, revision));
        }
        Ok(())
    }

    /// Makes the cacher begin anew with all that there is. What was converted before something fails is not converted again.
    async fn load(&mut self, known: &Known) -> Result<(), ConversionError> {
        let snapshot = &known.snapshot;
        if self.made_of.replace(snapshot.epoch) != Some(snapshot.epoch) {
            self.made.clear();
        }
        if self.seen.is_some_and(|(epoch, _)| epoch == snapshot.epoch) {
            self.keep_made();
        }
        // The resource went back: nothing that is kept is true.
        if self.seen.is_some() && known.revision < self.inbox.fed().revision() {
            self.void();
            self.stand(Standing::Loading);
        }
        let is_made = |object: &Arc<Object>| self.made.get(object.key()).is_some_and(|made| made.revision == object.revision);
        let missing: Vec<Arc<Object>> = snapshot.store.scan(b"", b"").filter(|object| !is_made(object)).cloned().collect();
        let mut rest = &missing[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |object: &&Arc<Object>| {
                bytes += object.tail_len();
                bytes <= BYTES_AT_ONCE
            };
            let count = rest.iter().take(OBJECTS_AT_ONCE).take_while(fits).count().max(1);
            let (piece, after) = rest.split_at(count);
            rest = after;
            let converted = self.converter.all(piece).await?;
            self.made.extend(converted.into_iter().map(|object| (Bytes::copy_from_slice(object.key()), object)));
        }
        let mut made = std::mem::take(&mut self.made);
        let objects = snapshot.store.scan(b"", b"").filter_map(|object| made.remove(object.key())).collect();
        if known.revision < self.inbox.fed().revision() {
            self.inbox.fed().rewind(known.revision, known.lost);
        }
        let broken = snapshot.broken.values().map(|broken| (**broken).clone()).collect();
        let (epoch, revision) = (self.next, snapshot.applied);
        self.hand(vec![Feed::Reset { epoch, revision, ready_at: known.revision, objects, broken }]);
        self.next = fresh_epoch();
        self.seen = Some((snapshot.epoch, snapshot.applied));
        Ok(())
    }

    fn hand(&self, feeds: Vec<Feed>) {
        if let Err(gone) = self.inbox.hand(feeds) {
            // It ends with its view, unless it has failed: then the process ends.
            tracing::debug!(%gone, definition = self.converter.definition(), "the cacher of a version has ended");
        }
    }
}

fn fresh_epoch() -> Epoch {
    Epoch(EPOCHS.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests;
