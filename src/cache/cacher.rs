//! The one loop per resource: owns the state of the resource and its dispatcher, and publishes the snapshot that readers hold.
//!
//! `select` awaits and changes nothing; [`State::apply`] changes and does not await: it is what the simulation calls.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use thiserror::Error;
use tokio::{
    sync::{self, Notify, mpsc, oneshot},
    time::{sleep_until, timeout},
};

use crate::dispatch::{Dispatcher, Group, GroupKey, GroupLimits, Wake};
use crate::state::{
    index::Index,
    resource::ResourceState,
    ring::RingLimits,
    snapshot::{Fed, Known, Published},
};
use codec::{Encoder, ingest};
use model::{Batch, Change, Epoch, Event, Feed, GivenUp, Included, Revision, Storage};
use offload::run_blocking;
use telemetry::ResourceMetrics;

/// Subscribers that may wait for their group at once, per resource; the next one waits in its own task.
pub const ASKS_WAITING_MAX: usize = 1_024;

/// Feed messages applied before the snapshot is published once: batching is the lever, but a reader must not wait for ever.
pub const BATCHES_AT_ONCE: usize = 256;

/// How often the ring shrinks and empty groups go.
pub const TIDY_EVERY: Duration = Duration::from_secs(5);

/// A resource as its readers see it. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    /// What is kept.
    pub storage: Arc<Storage>,
    /// Of which namespaces; none: of all.
    pub included: Option<Arc<Included>>,
    /// The snapshot.
    pub published: Arc<Published>,
    /// When the cacher began: how long it has not been ready.
    pub since: Instant,
    asks: mpsc::Sender<Subscribe>,
    ends: Arc<Notify>,
}

/// Where the feed puts a resource's changes. Never blocks; knows how many bytes wait.
#[derive(Clone)]
pub struct Inbox {
    queue: mpsc::UnboundedSender<Feed>,
    queued: Arc<AtomicUsize>,
    published: Arc<Published>,
    /// Figures of the resource, for what only the feed sees.
    pub metrics: Arc<ResourceMetrics>,
}

/// The loop and what it owns.
pub struct Cacher {
    queue: mpsc::UnboundedReceiver<Feed>,
    queued: Arc<AtomicUsize>,
    asks: mpsc::Receiver<Subscribe>,
    /// Told when all watches are to end.
    ends: Arc<Notify>,
    /// Where an index comes that was made aside; at most one is in the making.
    made: (mpsc::Sender<BuiltIndex>, mpsc::Receiver<BuiltIndex>),
    /// What the server does without.
    given_up: sync::watch::Receiver<GivenUp>,
    storage: Arc<Storage>,
    state: State,
    started: Instant,
    metrics: Arc<ResourceMetrics>,
}

/// What the loop works on: no channel, no clock.
pub struct State {
    resource: ResourceState,
    dispatcher: Dispatcher,
    published: Arc<Published>,
}

/// A watcher asks for its group.
pub struct Subscribe {
    key: GroupKey,
    encoder: Arc<Encoder>,
    answer: oneshot::Sender<(Arc<Group>, Epoch)>,
}

/// An index of the snapshot of this life at this revision.
pub struct BuiltIndex {
    index: Index,
    epoch: Epoch,
    revision: Revision,
}

/// What wakes the loop.
pub enum Action {
    /// The feed brought something, in order.
    Fed(Vec<Feed>),
    /// A watcher asks.
    Asked(Subscribe),
    /// An index was made.
    BuiltIndex(BuiltIndex),
    /// The server does without this from now on.
    GiveUp(GivenUp),
    /// Somebody else answers from now on: all watches end, and their clients come again.
    End,
    /// Watches have waited long enough for more.
    Late,
    /// Nobody is in some groups any more.
    Left,
    /// Time to tidy.
    Tick,
}

/// What an action came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyStats {
    /// Events that were applied.
    pub events: usize,
    /// Loads that were taken over.
    pub loads: usize,
    /// Values that cannot be decoded.
    pub broken: usize,
}

/// The cacher is gone: the resource was removed, or the server is stopping.
#[derive(Clone, Copy, Debug, Error)]
#[error("the resource is no longer served")]
pub struct Gone;

/// Why a watch has no group.
#[derive(Clone, Copy, Debug, Error)]
pub enum NoGroup {
    /// There is no cacher any more.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The cacher has had no time to answer.
    #[error("the cache of the resource is busy")]
    Busy,
}

/// Makes a cacher and both of its ends. What `given_up` has not seen yet, the cacher is told when it begins.
#[must_use]
pub fn cacher(
    storage: Arc<Storage>,
    limits: RingLimits,
    groups: GroupLimits,
    fed: Arc<Fed>,
    given_up: sync::watch::Receiver<GivenUp>,
    metrics: Arc<ResourceMetrics>,
) -> (Cacher, Handle, Inbox) {
    let (state, published) = State::new(limits, groups, fed);
    let (queue, incoming) = mpsc::unbounded_channel();
    let (asks, asked) = mpsc::channel(ASKS_WAITING_MAX);
    let queued = Arc::new(AtomicUsize::new(0));
    let made = mpsc::channel(1);
    let (started, ends) = (Instant::now(), Arc::new(Notify::new()));
    let (queued_here, ends_here) = (queued.clone(), ends.clone());
    let cacher = Cacher {
        queue: incoming,
        queued: queued_here,
        asks: asked,
        ends: ends_here,
        made,
        given_up,
        storage: storage.clone(),
        state,
        started,
        metrics: metrics.clone(),
    };
    let handle = Handle { storage, included: None, published: published.clone(), since: cacher.started, asks, ends };
    (cacher, handle, Inbox { queue, queued, published, metrics })
}

impl Cacher {
    /// Takes what is known of a value for the whole, where more is in it.
    pub fn serve_known_parts(&mut self, yes: bool) {
        self.state.resource.serve_known_parts(yes);
    }

    /// Says in the log when values begin to be such that they cannot be shown, and when that ends.
    fn tell(&self, undecodable: &mut bool) {
        let snapshot = self.state.published.known().snapshot;
        let is_so = !snapshot.broken.is_empty();
        if is_so == std::mem::replace(undecodable, is_so) {
            return;
        }
        let (storage, count) = (&*self.storage.id, snapshot.broken.len());
        match snapshot.broken.values().next() {
            Some(first) => {
                let key = String::from_utf8_lossy(&first.key);
                tracing::warn!(resource = storage, count, %key, why = %first.why, "stored values cannot be shown; their resource is not answered from memory");
            }
            None => tracing::info!(resource = storage, "every stored value can be shown again"),
        }
    }

    /// Runs until the feed lets go of the inbox; then every stream ends.
    pub async fn run(mut self) {
        let mut undecodable = false;
        let mut tick = tokio::time::interval(TIDY_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while let Some(action) = self.select(&mut tick).await {
            if matches!(action, Action::Tick) {
                self.index_what_is_due();
            }
            let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            // The feed and other cachers go on meanwhile.
            let done = if action.is_long() { run_blocking(|| self.state.apply(action, now_ms)) } else { self.state.apply(action, now_ms) };
            self.metrics.cache_events_received.inc_by(done.events as u64);
            self.metrics.cache_events_dispatched.inc_by(done.events as u64);
            self.metrics.cache_initializations.inc_by(done.loads as u64);
            self.metrics.decode_errors.inc_by(done.broken as u64);
            self.tell(&mut undecodable);
        }
        self.state.dispatcher.end_all().now();
    }

    async fn select(&mut self, tick: &mut tokio::time::Interval) -> Option<Action> {
        let mut messages = Vec::new();
        let late = self.state.late_at_ms().map(|at| self.started + Duration::from_millis(at));
        tokio::select! {
            taken = self.queue.recv_many(&mut messages, BATCHES_AT_ONCE) => {
                let weight: usize = messages.iter().map(Feed::weight).sum();
                self.queued.fetch_sub(weight, Ordering::Relaxed);
                (taken > 0).then_some(Action::Fed(messages))
            }
            Some(ask) = self.asks.recv() => Some(Action::Asked(ask)),
            Some(made) = self.made.1.recv() => Some(Action::BuiltIndex(made)),
            Ok(()) = self.given_up.changed() => Some(Action::GiveUp(*self.given_up.borrow_and_update())),
            () = self.ends.notified() => Some(Action::End),
            () = sleep_until(late.unwrap_or(self.started).into()), if late.is_some() => Some(Action::Late),
            () = poll_fn(|cx| self.state.dispatcher.poll_left(cx.waker())) => Some(Action::Left),
            _ = tick.tick() => Some(Action::Tick),
        }
    }

    /// Has an index made aside, of the newest snapshot, if selectors need one.
    fn index_what_is_due(&self) {
        let Ok(place) = self.made.0.clone().try_reserve_owned() else { return };
        if !self.state.resource.may_index() {
            return;
        }
        let snapshot = self.state.published.known().snapshot;
        let Some(due) = self.state.published.index_due(&snapshot.store) else { return };
        tokio::task::spawn_blocking(move || {
            let index = Index::of(due, &snapshot.store);
            place.send(BuiltIndex { index, epoch: snapshot.epoch, revision: snapshot.applied });
        });
    }
}

impl Action {
    /// Whether large values must be made servable first, or every object is visited.
    fn is_long(&self) -> bool {
        match self {
            Self::Fed(messages) => messages.iter().any(|message| matches!(message, Feed::Batch(batch) if batch.is_stored())),
            Self::GiveUp(_) => true,
            _ => false,
        }
    }
}

/// The batch with every value servable.
fn servable(mut batch: Batch) -> Batch {
    for change in &mut batch.changes {
        if let Change::Stored(stored) = change {
            let made = ingest(&stored.storage, stored.prefix_len, stored.key.clone(), &stored.value, stored.revision);
            *change = made.map_or_else(Change::Broken, |object| Change::Put(Arc::new(object)));
        }
    }
    batch
}

impl State {
    /// Returns an empty state and dispatcher, and where they publish.
    #[must_use]
    pub fn new(limits: RingLimits, groups: GroupLimits, fed: Arc<Fed>) -> (Self, Arc<Published>) {
        let resource = ResourceState::new(limits);
        let published = Arc::new(Published::new(resource.snapshot(), fed));
        (Self { resource, dispatcher: Dispatcher::new(groups), published: published.clone() }, published)
    }

    /// Does one thing.
    pub fn apply(&mut self, action: Action, now_ms: u64) -> ApplyStats {
        let done = self.act(action, now_ms);
        self.published.tell_groups(self.dispatcher.groups());
        done
    }

    fn act(&mut self, action: Action, now_ms: u64) -> ApplyStats {
        match action {
            Action::Fed(messages) => self.fed(messages, now_ms),
            Action::Asked(ask) => {
                let group = self.subscribe(ask.key, ask.encoder);
                // A watcher that left while it waited is no error.
                let _ = ask.answer.send((group, self.resource.epoch()));
                ApplyStats::default()
            }
            Action::BuiltIndex(made) => {
                self.resource.adopt(made.index, made.epoch, made.revision, now_ms);
                self.published.publish(self.resource.snapshot());
                ApplyStats::default()
            }
            Action::GiveUp(given_up) => {
                self.resource.give_up(given_up, now_ms);
                self.show_less();
                ApplyStats::default()
            }
            Action::End => {
                self.dispatcher.end_all().now();
                ApplyStats::default()
            }
            Action::Late => {
                self.dispatcher.late(now_ms).now();
                ApplyStats::default()
            }
            Action::Left => {
                self.dispatcher.forget_left();
                ApplyStats::default()
            }
            Action::Tick => {
                self.resource.shrink(now_ms);
                self.dispatcher.tidy(self.resource.applied(), self.resource.forgotten());
                self.published.tell_log_bytes(self.dispatcher.log_bytes());
                self.show_less();
                ApplyStats::default()
            }
        }
    }

    /// Publishes the trimmed snapshot, and takes back older snapshots that slow readers hold.
    fn show_less(&self) {
        self.published.publish(self.resource.snapshot());
        self.published.take_back(self.resource.forgotten());
    }

    /// When [`Action::Late`] is to come, if watches wait, by the clock of `now_ms`.
    pub fn late_at_ms(&self) -> Option<u64> {
        self.dispatcher.late_at_ms()
    }

    /// The group for a key, as of now.
    pub fn subscribe(&mut self, key: GroupKey, encoder: Arc<Encoder>) -> Arc<Group> {
        self.dispatcher.group(key, encoder, self.resource.applied())
    }

    /// Applies messages, writes the groups' logs, publishes the snapshot, wakes the members: in this order (guarantee Bookmarkable).
    fn fed(&mut self, messages: Vec<Feed>, now_ms: u64) -> ApplyStats {
        let readable = self.resource.applied();
        let mut done = ApplyStats::default();
        let mut wakes = Vec::new();
        let mut events = Vec::new();
        for message in messages {
            match message {
                Feed::Reset { epoch, revision, ready_at, objects, broken } => {
                    events.clear();
                    done.loads += 1;
                    done.broken += broken.len();
                    self.resource.reset(epoch, revision, ready_at, objects, broken);
                    // Published first: a member that ends looks whether what it has seen still exists.
                    self.published.publish(self.resource.snapshot());
                    wakes.push(self.dispatcher.end_all());
                }
                Feed::Batch(batch) => {
                    let batch = servable(batch);
                    done.broken += batch.changes.iter().filter(|change| matches!(change, Change::Broken(_))).count();
                    done.events += self.batch(&batch, now_ms, &mut events, &mut wakes);
                }
            }
        }
        wakes.push(self.dispatcher.dispatch(&events, readable, now_ms));
        self.published.publish(self.resource.snapshot());
        wakes.into_iter().for_each(Wake::now);
        done
    }

    fn batch(&mut self, batch: &Batch, now_ms: u64, events: &mut Vec<Arc<Event>>, wakes: &mut Vec<Wake>) -> usize {
        let applied = self.resource.apply(batch, now_ms);
        let count = applied.events.len();
        if applied.broke {
            events.clear();
            wakes.push(self.dispatcher.end_all());
        } else {
            events.extend(applied.events);
        }
        count
    }
}

impl Handle {
    /// Ends all watches, cleanly: their clients come again and may be led elsewhere.
    pub fn end_watches(&self) {
        self.ends.notify_one();
    }

    /// The group for a key, made when nobody asked the same before.
    ///
    /// # Errors
    /// The cacher has stopped, or does not answer within `limit`.
    pub async fn subscribe(&self, key: GroupKey, encoder: Arc<Encoder>, limit: Duration) -> Result<(Arc<Group>, Epoch), NoGroup> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            self.asks.send(Subscribe { key, encoder, answer }).await.map_err(|_| Gone)?;
            answered.await.map_err(|_| Gone)
        };
        Ok(timeout(limit, asked).await.map_err(|_| NoGroup::Busy)??)
    }
}

impl Inbox {
    /// Hands messages over, all of them, then says how far the resource was handed (the order that [`Published::known`] relies on). Returns the
    /// bytes of changes that now wait; a load does not count, for it cannot be made smaller by loading again.
    ///
    /// # Errors
    /// [`Gone`] when the cacher has ended, which it does only by a fault of its own while the feed still feeds it.
    pub fn hand(&self, feeds: Vec<Feed>) -> Result<usize, Gone> {
        let weight: usize = feeds.iter().map(Feed::weight).sum();
        let received: usize = feeds.iter().map(|feed| feed.changes().len()).sum();
        self.metrics.storage_events_received.inc_by(received as u64);
        let last = feeds.last().map(Feed::revision);
        let waiting = self.queued.fetch_add(weight, Ordering::Relaxed) + weight;
        for feed in feeds {
            self.queue.send(feed).map_err(|_| Gone)?;
        }
        if let Some(last) = last {
            self.published.handed(last);
        }
        Ok(waiting)
    }

    /// The clock of the resource.
    #[must_use]
    pub fn fed(&self) -> &Arc<Fed> {
        self.published.fed()
    }

    /// What readers see.
    #[must_use]
    pub fn known(&self) -> Known {
        self.published.known()
    }

    /// Whether the resource may be served.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.published.known().is_ready()
    }

    /// How many watches of the resource are open.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.published.watches()
    }

    /// What the cacher has now is of an etcd that is no more: nothing of it counts as known before a snapshot of this epoch is published.
    pub fn void_before(&self, epoch: Epoch) {
        self.published.void_before(epoch);
    }

    /// Nothing may be inferred from `fed` until the next [`Inbox::hand`].
    pub fn withhold(&self) {
        self.published.withhold();
    }
}

#[cfg(test)]
mod tests;
