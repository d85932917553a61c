//! Clients that move among two servers under test (one of them fed by the kube-apiserver, if that is the subject) and a kube-apiserver on one etcd, page by
//! page and watch by watch, and must not notice.

use std::{
    collections::BTreeMap,
    env, io,
    ops::AddAssign,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::Value;
use tokio::task::JoinSet;

use super::{Outcome, floor::stand, pace::Load, record::Growing, say};
use crate::{
    client::{Client, Witness},
    guarantees::{self, Asked, Filter, Limits, Seen, Start, Truth, Violation},
};

/// Clients that move.
const TRAVELLERS: usize = 20;
/// Writes a second through kube-apiserver.
const RATE: u32 = 300;
/// Objects that are written.
const OBJECTS: usize = 600;
/// How long the clients move when nothing else is said.
const SECONDS: u64 = 20;
/// `timeoutSeconds` of a watch that waits for its bookmark, which comes 2 s before the end.
const SHORT: Duration = Duration::from_secs(4);
/// How long initial events, or a bookmark, may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Violations that are printed; the count is of all.
const PRINTED: usize = 10;

/// What a traveller asks for: path, selectors, and what they mean.
type Interest = (&'static str, &'static [(&'static str, &'static str)], fn(&str, &Value) -> bool);

const INTERESTS: [Interest; 4] = [
    ("/api/v1/namespaces/cr-a/configmaps", &[], |key, _| key.starts_with("cr-a/")),
    ("/api/v1/configmaps", &[("labelSelector", "app=red")], |_, o| o["metadata"]["labels"]["app"] == "red"),
    ("/api/v1/namespaces/cr-b/configmaps", &[("labelSelector", "app!=red")], |key, o| {
        key.starts_with("cr-b/") && o["metadata"]["labels"]["app"] != "red"
    }),
    // Not `=`: the tokens of kube-apiserver then show a page twice (docs/conformance.md, `token`).
    ("/api/v1/configmaps", &[("fieldSelector", "metadata.namespace!=cr-a")], |key, _| !key.starts_with("cr-a/")),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn crossing() -> Outcome {
    let floor = stand().await?;
    let seconds = env::var("WATCHCACHE_CROSSING_SECONDS").map_or(Ok(SECONDS), |s| s.parse())?;
    let seed = env::var("WATCHCACHE_CROSSING_SEED").map_or_else(|_| Ok(rand::random()), |s| s.parse::<u64>())?;
    say(&format!("live crossing: seed {seed}, {seconds} s"));
    let theirs = floor.theirs();
    let (_running, second) = floor.another_source().await?;
    let load = Load { namespaces: &["cr-a", "cr-b"], objects: OBJECTS, rate: RATE, seed };
    let (truth, writers) = load.begin(&floor).await?;
    let truth = Arc::new(truth);

    let until = Instant::now() + Duration::from_secs(seconds);
    let mut travellers = JoinSet::new();
    for nth in 0..TRAVELLERS {
        let servers = [floor.ours(), second.clone(), theirs.clone()];
        let traveller = Traveller::new(nth, seed, servers, Arc::clone(&truth), writers.newest());
        travellers.spawn(traveller.travel(until));
    }
    let mut all = Tally::default();
    while let Some(tally) = travellers.join_next().await {
        all += tally??;
    }
    let (made, rate) = writers.stop().await?;
    say(&format!("live crossing: {TRAVELLERS} clients, {made} writes ({rate:.0}/s): {all}"));
    for violation in all.violations.iter().take(PRINTED) {
        say(&format!("live crossing: seed {seed}: {violation}"));
    }
    let idle = all.moves == 0 || all.events == 0 || all.pages <= all.lists || all.gets == 0;
    if !all.violations.is_empty() || all.unjudged > 0 || idle {
        return Err(format!("seed {seed}: {} violations, {} stories not judged", all.violations.len(), all.unjudged).into());
    }
    Ok(())
}

/// One client that goes on wherever chance sends it.
struct Traveller {
    witness: Witness,
    servers: [Client; 3],
    /// The server that it is with.
    at: usize,
    rng: StdRng,
    /// The last revision that it has.
    seen: u64,
    truth: Arc<Growing>,
    /// The newest revision whose write was acknowledged.
    newest: Arc<AtomicU64>,
    tally: Tally,
}

impl Traveller {
    fn new(nth: usize, seed: u64, servers: [Client; 3], truth: Arc<Growing>, newest: Arc<AtomicU64>) -> Self {
        let (path, selectors, selects) = INTERESTS[nth % INTERESTS.len()];
        let filter = Filter::new(format!("{selectors:?}"), selects);
        let witness = Witness::new(&format!("traveller {nth}"), servers[0].clone(), path, selectors, filter);
        let rng = StdRng::seed_from_u64(seed.wrapping_add(1_000 + nth as u64));
        Self { witness, servers, at: 0, rng, seen: 0, truth, newest, tally: Tally::default() }
    }

    /// Story after story until the time is over, each judged before the next.
    async fn travel(mut self, until: Instant) -> io::Result<Tally> {
        while Instant::now() < until {
            self.story().await?;
            self.judged().await?;
        }
        Ok(self.tally)
    }

    /// From one whole state to the last watch that goes on from it.
    async fn story(&mut self) -> io::Result<()> {
        if !self.begin().await? {
            self.pause().await;
            return Ok(());
        }
        for _ in 0..self.rng.random_range(2..10) {
            if self.rng.random_ratio(1, 4) {
                self.look().await?;
            }
            if !self.stretch().await? {
                return Ok(());
            }
        }
        // kube-apiserver writes one key a revision: who has seen an event has seen all of its revision.
        self.witness.settle(self.seen);
        if self.rng.random_ratio(1, 12) { self.stray().await } else { Ok(()) }
    }

    /// Goes on from a revision that the servers forget sooner or later: history comes, or 410, never silence. Then it begins anew, as after any 410.
    async fn stray(&mut self) -> io::Result<()> {
        self.move_on();
        let mut stray = self.witness.twin();
        if stray.watch(Start::At(1)).await? {
            stray.read_until(PATIENCE, |_| true).await?;
        }
        let seen = &stray.history.seen;
        self.tally.count(seen);
        match seen.last() {
            Some(Seen::Event(_) | Seen::Error { code: 410, .. } | Seen::Refused { code: 410, .. }) => Ok(()),
            other => Err(io::Error::other(format!("a watch from revision 1 on server {} showed {other:?}", self.at))),
        }
    }

    /// Another server, chosen by chance.
    fn move_on(&mut self) {
        let to = self.rng.random_range(0..self.servers.len());
        self.tally.moves += usize::from(to != self.at);
        self.at = to;
        self.witness.turn_to(self.servers[to].clone());
    }

    async fn begin(&mut self) -> io::Result<bool> {
        let newest = Asked::Newest { known: self.newest.load(Ordering::Relaxed) };
        let asked = match self.rng.random_range(0..10) {
            0..=2 => return self.begin_streaming().await,
            3..=4 => Asked::Any,
            5..=6 if self.seen > 0 => Asked::AtLeast(self.seen),
            _ => newest,
        };
        let limit = *[None, Some(40), Some(150)].choose(&mut self.rng).expect("not empty");
        if self.list(asked, limit).await? {
            return Ok(true);
        }
        // As client-go: at once again as new as can be, when the revision was too old or too new.
        let newest = Asked::Newest { known: self.newest.load(Ordering::Relaxed) };
        Ok(matches!(self.refusal(), Some(410 | 504)) && self.list(newest, None).await?)
    }

    /// Each page from a server of its own.
    async fn list(&mut self, asked: Asked, limit: Option<usize>) -> io::Result<bool> {
        let Self { witness, servers, at, rng, tally, .. } = self;
        let listed = witness.list_across(asked, limit, || {
            let to = rng.random_range(0..servers.len());
            tally.moves += usize::from(to != std::mem::replace(at, to));
            servers[to].clone()
        });
        let Some(revision) = listed.await? else { return Ok(false) };
        self.tally.lists += 1;
        self.tally.behind += usize::from(revision < self.seen);
        self.seen = revision;
        Ok(true)
    }

    async fn begin_streaming(&mut self) -> io::Result<bool> {
        self.move_on();
        if !self.witness.watch(Start::Marked).await? {
            return Ok(false);
        }
        let mut begun = None;
        self.witness
            .read_until(PATIENCE, |seen| {
                if let Seen::Bookmark { revision, initial_end: true } = seen {
                    begun = Some(*revision);
                }
                begun.is_some() || matches!(seen, Seen::Error { .. })
            })
            .await?;
        let Some(revision) = begun else {
            self.witness.leave();
            return Ok(false);
        };
        self.tally.behind += usize::from(revision < self.seen);
        self.tally.streamed += 1;
        self.seen = revision;
        self.read(false).await
    }

    /// One watch from where it is, on some server; `false` when it cannot go on from there.
    async fn stretch(&mut self) -> io::Result<bool> {
        self.move_on();
        let to_bookmark = self.rng.random_ratio(1, 6);
        if self.witness.watch_for(Start::At(self.seen), to_bookmark.then_some(SHORT)).await? {
            return self.read(to_bookmark).await;
        }
        let gone = self.refusal() == Some(410);
        self.pause().await;
        Ok(!gone)
    }

    /// Reads until chance, a bookmark or the server ends it, and leaves.
    async fn read(&mut self, to_bookmark: bool) -> io::Result<bool> {
        let mut left = self.rng.random_range(1..150);
        let patience = if to_bookmark { PATIENCE } else { Duration::from_millis(self.rng.random_range(20..2_500)) };
        let (seen, mut failed) = (&mut self.seen, false);
        let note = |event: &Seen| {
            *seen = (*seen).max(event.change().map(|c| c.item.revision).or(event.bookmark()).unwrap_or(0));
            left -= i32::from(event.change().is_some());
            failed |= matches!(event, Seen::Error { .. });
            if to_bookmark { event.bookmark().is_some() } else { left <= 0 }
        };
        self.witness.read_until(patience, note).await?;
        self.witness.leave();
        Ok(!failed)
    }

    /// One of the objects it has seen last, as new as that, from some server.
    async fn look(&mut self) -> io::Result<()> {
        self.move_on();
        let shown = self.witness.history.seen.iter().rev().take(50).filter_map(Seen::change).map(|c| c.item.key.clone());
        let Some(key) = shown.collect::<Vec<_>>().choose(&mut self.rng).cloned() else { return Ok(()) };
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        self.tally.gets += 1;
        self.witness.get(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}"), &key, self.seen).await
    }

    fn refusal(&self) -> Option<u16> {
        match self.witness.history.seen.last() {
            Some(Seen::Refused { code, .. } | Seen::Error { code, .. }) => Some(*code),
            _ => None,
        }
    }

    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(self.rng.random_range(50..300))).await;
    }

    /// Judges what was seen, against the truth from the first to the last revision in it, and begins a new page.
    async fn judged(&mut self) -> io::Result<()> {
        let mut history = self.witness.twin().history;
        std::mem::swap(&mut history, &mut self.witness.history);
        self.witness.lines.clear();
        self.tally.count(&history.seen);
        let Some((from, until)) = span(&history.seen) else { return Ok(()) };
        self.truth.reach(until).await?;
        let truth = Arc::clone(&self.truth);
        let judge = move || truth.between(from, until).map(|truth: Truth| guarantees::broken(&history, &truth, &Limits::default()));
        match tokio::task::spawn_blocking(judge).await? {
            Some(broken) => self.tally.violations.extend(broken),
            None => self.tally.unjudged += 1,
        }
        Ok(())
    }
}

/// The first and the last revision that say something about a state or its changes.
fn span(seen: &[Seen]) -> Option<(u64, u64)> {
    let revisions = || {
        seen.iter().filter_map(|s| match s {
            Seen::Listed(page) => Some(page.revision),
            Seen::Watching { start: Start::At(revision), .. }
            | Seen::Bookmark { revision, .. }
            | Seen::Got { at_least: revision, .. }
            | Seen::Settled { revision } => Some(*revision),
            _ => None,
        })
    };
    let changes = seen.iter().filter_map(Seen::change).map(|c| c.item.revision);
    let got = seen.iter().filter_map(|s| if let Seen::Got { item, .. } = s { item.as_ref().map(|i| i.revision) } else { None });
    Some((revisions().min()?, revisions().chain(changes).chain(got).max()?))
}

/// What came of it.
#[derive(Default)]
struct Tally {
    /// Requests that went to another server than the one before.
    moves: usize,
    lists: usize,
    pages: usize,
    /// Whole states that came as initial events.
    streamed: usize,
    watches: usize,
    events: usize,
    bookmarks: usize,
    gets: usize,
    /// Whole states that were asked for at any revision and were older than what the client had seen elsewhere, which the API allows.
    behind: usize,
    /// HTTP errors and ERROR events by code.
    refused: BTreeMap<u16, usize>,
    /// Stories whose truth was forgotten before they were judged.
    unjudged: usize,
    violations: Vec<Violation>,
}

impl Tally {
    fn count(&mut self, seen: &[Seen]) {
        for seen in seen {
            match seen {
                Seen::Listed(_) => self.pages += 1,
                Seen::Watching { .. } => self.watches += 1,
                Seen::Event(_) => self.events += 1,
                Seen::Bookmark { .. } => self.bookmarks += 1,
                Seen::Refused { code, .. } | Seen::Error { code, .. } => *self.refused.entry(*code).or_default() += 1,
                Seen::Got { .. } | Seen::Ended { .. } | Seen::Settled { .. } => {}
            }
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.moves += other.moves;
        self.lists += other.lists;
        self.pages += other.pages;
        self.streamed += other.streamed;
        self.watches += other.watches;
        self.events += other.events;
        self.bookmarks += other.bookmarks;
        self.gets += other.gets;
        self.behind += other.behind;
        self.unjudged += other.unjudged;
        self.violations.extend(other.violations);
        for (code, count) in other.refused {
            *self.refused.entry(code).or_default() += count;
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} moves, {} lists of {} pages, {} streamed starts, {} watches, {} events, {} bookmarks, {} gets, {} starts behind, ",
            self.moves, self.lists, self.pages, self.streamed, self.watches, self.events, self.bookmarks, self.gets, self.behind
        )?;
        write!(f, "refused {:?}, {} not judged, {} violations", self.refused, self.unjudged, self.violations.len())
    }
}
