//! A watcher that behaves like client-go's reflector: a list or a streaming start, a watch, resume at its end, relist at 410.
//! Records what it saw and judges nothing.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use rand::Rng;
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use crate::{
    brake::Manner,
    history::{Event, History, Item, Kind, Record, Wanted},
    http::{Lines, Listener},
    object::{Filter, KeyId},
    truth::{Ledger, State},
    wire::{self, Body, Encoding, Line},
};

/// How long a list, or the headers of a watch, may take. The real reflector waits longer; a server that answers late is refused here.
const PATIENCE: Duration = Duration::from_secs(10);
/// First wait after a refusal; client-go has 800 ms and 30 s, shortened so that scenarios are.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// Longest wait after refusals.
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Records of a stream after which a client that resets its connections does so.
const RESETS_AFTER: usize = 5;
/// Delays above this are counted as this, milliseconds.
const DELAY_LIMIT_MS: usize = 60_000;

/// What kind of client it is.
#[derive(Clone, Debug)]
pub(crate) struct Habit {
    /// What it asks for.
    pub(crate) filter: Filter,
    /// How it gets its first state.
    pub(crate) start: Start,
    /// `timeoutSeconds` of its watches: short ones resume often.
    pub(crate) watch_seconds: u64,
    /// How it reads while its signal is on; `None` is a reader that always reads.
    pub(crate) brake: Option<(Manner, watch::Receiver<bool>)>,
    /// What it wants its answers in.
    pub(crate) encoding: Encoding,
}

/// An object that was shown without fields that the newer of two releases has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lesser {
    /// Which object.
    pub(crate) key: KeyId,
    /// The last revision whose change of the object it may show: of one that is deleted, or leaves the filter, it is the one before.
    pub(crate) revision: u64,
    /// When it was shown.
    pub(crate) at: Instant,
}

/// How a client gets its first state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// A list with `resourceVersion=0`.
    ListAny,
    /// A list with `resourceVersion` unset.
    ListNewest,
    /// A watch with `sendInitialEvents`.
    Stream,
}

/// A running watcher.
#[derive(Debug)]
pub(crate) struct Reflector {
    number: usize,
    filter: Filter,
    shared: Arc<Shared>,
    task: JoinHandle<Vec<Record>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    delays: Mutex<Vec<u32>>,
    lesser: Mutex<Vec<Lesser>>,
}

impl Reflector {
    /// Starts it; it runs until `stop` turns true.
    #[must_use]
    pub(crate) fn start(number: usize, habit: Habit, listener: Arc<Listener>, ledger: Arc<Ledger>, stop: watch::Receiver<bool>) -> Self {
        let shared = Arc::new(Shared::default());
        let filter = habit.filter.clone();
        let listener = Arc::new(listener.in_encoding(habit.encoding));
        let run = Run { number, habit, listener, ledger, shared: shared.clone(), records: Vec::new(), seen: 0, backoff: BACKOFF_MIN };
        Self { number, filter, shared, task: tokio::spawn(run.until(stop)) }
    }

    /// Which one it is.
    #[must_use]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// What it asks for.
    #[must_use]
    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether its store is this.
    #[must_use]
    pub(crate) fn believes(&self, truth: &State) -> bool {
        *lock(&self.shared.state) == *truth
    }

    /// How many events came with which delay until now, by milliseconds since the write was sent.
    #[must_use]
    pub(crate) fn delays(&self) -> Vec<u32> {
        lock(&self.shared.delays).clone()
    }

    /// What it was shown without fields that the newer of two releases has, until now.
    #[must_use]
    pub(crate) fn lesser(&self) -> Vec<Lesser> {
        lock(&self.shared.lesser).clone()
    }

    /// Waits for the end of a stopped one: its history, and how many events came with which delay, by milliseconds since the write
    /// was sent.
    pub(crate) async fn history(self) -> anyhow::Result<(History, Vec<u32>)> {
        let records = self.task.await?;
        let state = lock(&self.shared.state).clone();
        let delays = lock(&self.shared.delays).clone();
        Ok((History { client: self.number, filter: self.filter, records, state }, delays))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What to do next; the states of a reflector.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Get a whole state.
    Begin(Age),
    /// Watch from `seen`.
    Resume,
}

/// How recent the whole state has to be.
#[derive(Clone, Copy, Debug)]
enum Age {
    /// As the habit says.
    First,
    /// Not older than what it has seen: after a 410.
    Seen,
    /// As new as the store: when even that was refused.
    Newest,
}

struct Run {
    number: usize,
    habit: Habit,
    listener: Arc<Listener>,
    ledger: Arc<Ledger>,
    shared: Arc<Shared>,
    records: Vec<Record>,
    seen: u64,
    backoff: Duration,
}

impl Run {
    async fn until(mut self, mut stop: watch::Receiver<bool>) -> Vec<Record> {
        let mut next = Next::Begin(Age::First);
        let stopped = async move { drop(stop.wait_for(|s| *s).await) };
        tokio::pin!(stopped);
        loop {
            // Whatever is pending is dropped at a stop; records and state are only touched between awaits.
            next = tokio::select! {
                biased;
                () = &mut stopped => return self.records,
                next = self.step(next) => next,
            };
        }
    }

    async fn step(&mut self, next: Next) -> Next {
        match next {
            Next::Begin(age) if self.habit.start == Start::Stream => self.stream(age).await,
            Next::Begin(age) => self.list(age).await,
            Next::Resume => self.watch().await,
        }
    }

    /// The query that asks for this age, and what may be expected of the answer.
    fn wanted(&self, age: Age) -> (String, Wanted) {
        let newest = || {
            let (era, head) = self.ledger.now();
            (String::new(), Wanted::Newest { era, head })
        };
        match age {
            Age::First if self.habit.start == Start::ListAny => ("&resourceVersion=0".to_owned(), Wanted::Any),
            Age::First | Age::Newest => newest(),
            Age::Seen => (format!("&resourceVersion={}", self.seen), Wanted::AtLeast(self.seen)),
        }
    }

    async fn list(&mut self, age: Age) -> Next {
        let (query, wanted) = self.wanted(age);
        let answer = self.listener.get(&format!("{}{query}", self.habit.filter.target(self.ledger.resource())), PATIENCE).await;
        match answer {
            Ok((200, body)) => match self.habit.encoding.list(&body, self.ledger.resource()) {
                Ok(listing) => {
                    listing.lesser.iter().for_each(|(key, revision)| self.shown_lesser(*key, *revision));
                    self.listed(listing.revision, wanted, listing.items);
                    Next::Resume
                }
                Err(error) => self.odd(format!("{error:#}"), Next::Begin(age)).await,
            },
            Ok((410, _)) => Next::Begin(Age::Newest),
            Ok((status, body)) => {
                let text = String::from_utf8_lossy(&body).into_owned();
                self.begin_refused(age, format!("list: {status} {}", text.trim_end())).await
            }
            Err(error) => self.begin_refused(age, format!("list: {error:#}")).await,
        }
    }

    async fn begin_refused(&mut self, age: Age, why: String) -> Next {
        // client-go asks once more at once without a revision when the one it had is larger than the server's.
        let larger = matches!(age, Age::Seen) && why.contains("Too large resource version");
        self.records.push(Record::Refused(why));
        if larger {
            return Next::Begin(Age::Newest);
        }
        self.pause().await;
        Next::Begin(age)
    }

    async fn stream(&mut self, age: Age) -> Next {
        let (query, wanted) = self.wanted(age);
        let more = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let mut lines = match self.open(&format!("{query}{more}")).await {
            Ok(lines) => lines,
            Err(why) => return self.begin_refused(age, why).await,
        };
        let mut items = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => match self.habit.encoding.line(&line, self.ledger.resource()) {
                    Ok(Line::Change(Event { kind: Kind::Added, key, revision, digest }, Body { is_whole, .. })) => {
                        items.push(Item { key, revision, digest });
                        if !is_whole {
                            self.shown_lesser(key, revision);
                        }
                    }
                    Ok(Line::Change(event, _)) => self.records.push(Record::Odd(format!("{:?} among the initial events", event.kind))),
                    Ok(Line::Foreign(_)) => {}
                    Ok(Line::Bookmark(revision, true)) => {
                        self.listed(revision, wanted, items);
                        return self.follow(lines).await;
                    }
                    Ok(Line::Bookmark(revision, false)) => {
                        self.records.push(Record::Odd(format!("a plain bookmark at {revision} among the initial events")));
                    }
                    Ok(Line::Error(code, message)) => return self.begin_refused(age, format!("streaming start: {code} {message}")).await,
                    Err(error) => return self.odd(format!("{error:#}"), Next::Begin(age)).await,
                },
                // Ended before the annotated bookmark: what came is thrown away.
                Ok(None) => return self.begin_refused(age, "streaming start: ended early".to_owned()).await,
                Err(error) => return self.begin_refused(age, format!("streaming start: {error:#}")).await,
            }
        }
    }

    async fn watch(&mut self) -> Next {
        match self.open(&format!("&resourceVersion={}", self.seen)).await {
            Ok(lines) => self.follow(lines).await,
            Err(why) => {
                // 429 and refused connections: the same watch again, no relist.
                self.records.push(Record::Refused(why));
                self.pause().await;
                Next::Resume
            }
        }
    }

    async fn open(&self, query: &str) -> Result<Lines, String> {
        let seconds = self.habit.watch_seconds;
        let target = format!(
            "{}&watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}{query}",
            self.habit.filter.target(self.ledger.resource())
        );
        let opening = async {
            match &self.habit.brake {
                None => self.listener.open(&target, self.number).await,
                Some((manner, signal)) => self.listener.open_badly(&target, *manner, signal.clone()).await,
            }
        };
        match timeout(self.patience(), opening).await {
            Ok(Ok(response)) if response.status() == 200 => Ok(Lines::encoded(response.into_body(), self.habit.encoding)),
            Ok(Ok(response)) => Err(format!("watch: {}", response.status())),
            Ok(Err(error)) => Err(format!("watch: {error:#}")),
            Err(_) => Err(format!("watch: no headers within {:?}", self.patience())),
        }
    }

    /// How long the headers of a watch may take: a bad reader makes itself wait.
    fn patience(&self) -> Duration {
        if self.habit.brake.is_some() { PATIENCE * 60 } else { PATIENCE }
    }

    /// Whether it is time for one that resets to go: after a few records of a stream.
    fn goes_away(&self, records: usize) -> bool {
        records >= RESETS_AFTER && self.habit.brake.as_ref().is_some_and(|(manner, signal)| *manner == Manner::Resets && *signal.borrow())
    }

    /// The steady part of a stream, until it ends.
    async fn follow(&mut self, mut lines: Lines) -> Next {
        let opened = Instant::now();
        let before = self.records.len();
        self.records.push(Record::Opened { from: self.seen });
        loop {
            if self.goes_away(self.records.len() - before) {
                self.records.push(Record::Ended { clean: false });
                return Next::Resume;
            }
            let clean = match lines.next().await {
                Ok(Some(line)) => match self.take(&line) {
                    None => continue,
                    Some(next) => return self.failed(next).await,
                },
                Ok(None) => true,
                Err(_) => false,
            };
            self.records.push(Record::Ended { clean });
            // client-go's "very short watch": nothing came within a second.
            if opened.elapsed() < Duration::from_secs(1) && self.records.len() == before + 2 {
                self.pause().await;
            } else {
                self.backoff = BACKOFF_MIN;
            }
            return Next::Resume;
        }
    }

    /// Records one line; says what to do when the stream is over with it.
    fn take(&mut self, line: &Bytes) -> Option<Next> {
        match self.habit.encoding.line(line, self.ledger.resource()) {
            Ok(Line::Change(event, Body { seq, is_whole })) => {
                if !is_whole {
                    self.shown_lesser(event.key, event.revision - u64::from(event.kind == Kind::Deleted));
                }
                self.changed(event, seq);
            }
            Ok(Line::Foreign(revision)) => self.moved(Record::Foreign(revision), revision),
            Ok(Line::Bookmark(revision, end)) => {
                if end {
                    self.records.push(Record::Odd(format!("an initial-events-end bookmark at {revision} on a steady watch")));
                }
                self.moved(Record::Bookmark(revision), revision);
            }
            Ok(Line::Error(410, message)) => {
                self.records.push(Record::Expired { requested: self.seen, floor: wire::floor(&message) });
                return Some(Next::Begin(Age::Seen));
            }
            Ok(Line::Error(429, message)) => {
                self.records.push(Record::Refused(format!("in the stream: 429 {message}")));
                return Some(Next::Resume);
            }
            Ok(Line::Error(code, message)) => {
                self.records.push(Record::Refused(format!("in the stream: {code} {message}")));
                return Some(Next::Begin(Age::Seen));
            }
            Err(error) => {
                self.records.push(Record::Odd(format!("{error:#}")));
                return Some(Next::Begin(Age::Seen));
            }
        }
        None
    }

    fn changed(&mut self, event: Event, seq: u64) {
        let mut state = lock(&self.shared.state);
        match event.kind {
            Kind::Deleted => state.remove(&event.key),
            Kind::Added | Kind::Modified => state.insert(event.key, (event.revision, event.digest)),
        };
        drop(state);
        if event.kind == Kind::Modified {
            self.delayed(self.ledger.age_ms(seq));
        }
        self.moved(Record::Event(event), event.revision);
    }

    fn shown_lesser(&self, key: KeyId, revision: u64) {
        lock(&self.shared.lesser).push(Lesser { key, revision, at: Instant::now() });
    }

    fn delayed(&self, ms: usize) {
        let mut delays = lock(&self.shared.delays);
        let at = ms.min(DELAY_LIMIT_MS);
        if delays.len() <= at {
            delays.resize(at + 1, 0);
        }
        delays[at] += 1;
    }

    fn moved(&mut self, record: Record, revision: u64) {
        self.records.push(record);
        self.seen = self.seen.max(revision);
    }

    fn listed(&mut self, revision: u64, wanted: Wanted, items: Vec<Item>) {
        *lock(&self.shared.state) = items.iter().map(|i| (i.key, (i.revision, i.digest))).collect();
        self.records.push(Record::Listed { revision, wanted, items });
        self.seen = revision;
        self.backoff = BACKOFF_MIN;
    }

    async fn odd(&mut self, what: String, next: Next) -> Next {
        self.records.push(Record::Odd(what));
        self.failed(next).await
    }

    async fn failed(&mut self, next: Next) -> Next {
        self.pause().await;
        next
    }

    async fn pause(&mut self) {
        let wait = self.backoff.mul_f64(rand::rng().random_range(1.0..2.0));
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        tokio::time::sleep(wait).await;
    }
}
