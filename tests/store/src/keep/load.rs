//! Writers at a steady rate, through the crate `etcd-client`; a log of what was acknowledged, and how long it took.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use etcd_client::{Client, ResponseHeader, Txn, TxnOp};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{task::JoinSet, time::MissedTickBehavior};

use super::QUIET;

/// Concurrent writers.
const WRITERS: u32 = 16;
/// Keys of a writer.
const KEYS: u32 = 100;
/// Bytes of a value, at most.
const VALUE_BYTES: usize = 2_000;
/// Of what is there before: bytes of a value, and how many are put at once.
const FILL_BYTES: usize = 8_000;
const FILL_OPS: usize = 100;

/// A key as the store must show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) created: i64,
    pub(super) changed: i64,
    pub(super) version: i64,
    pub(super) value: Vec<u8>,
}

type Change = (Vec<u8>, Option<Vec<u8>>);

/// What was acknowledged, by revision.
#[derive(Debug, Default)]
pub(super) struct Log(BTreeMap<i64, Vec<Change>>);

impl Log {
    /// The newest revision.
    pub(super) fn head(&self) -> i64 {
        self.0.last_key_value().map_or(1, |(revision, _)| *revision)
    }

    /// What must be there at a revision.
    pub(super) fn state(&self, revision: i64) -> BTreeMap<&[u8], Content> {
        let mut state: BTreeMap<&[u8], Content> = BTreeMap::new();
        for (&at, changes) in self.0.range(..=revision) {
            for (key, value) in changes {
                let Some(value) = value else {
                    state.remove(&key[..]);
                    continue;
                };
                let (created, version) = state.get(&key[..]).map_or((at, 1), |old| (old.created, old.version + 1));
                state.insert(key, Content { created, changed: at, version, value: value.clone() });
            }
        }
        state
    }

    fn add(&mut self, header: Option<&ResponseHeader>, changes: Vec<Change>) -> Result<()> {
        let revision = header.context("an answer has a header")?.revision();
        let is_new = changes.is_empty() || self.0.insert(revision, changes).is_none();
        ensure!(is_new, "revision {revision} was acknowledged twice");
        Ok(())
    }

    /// Whether nothing that made a revision is missing.
    fn is_whole(&self) -> bool {
        self.0.keys().copied().eq(2..=self.head())
    }
}

/// What each write took, by the part of the run.
#[derive(Debug, Default)]
pub(super) struct Latencies(Vec<Vec<Duration>>);

impl Latencies {
    /// Cells of a table: number, median, 99th percentile, maximum.
    pub(super) fn row(&self, part: usize) -> String {
        let mut taken = self.0.get(part).cloned().unwrap_or_default();
        taken.sort_unstable();
        let at = |per_mille: usize| taken.get((taken.len() * per_mille / 1000).min(taken.len().saturating_sub(1)));
        let ms = |duration: Option<&Duration>| duration.map_or("–".to_owned(), |taken| format!("{:.2}", taken.as_secs_f64() * 1e3));
        format!("{} | {} | {} | {}", taken.len(), ms(at(500)), ms(at(990)), ms(taken.last()))
    }

    fn add(&mut self, part: usize, taken: Duration) {
        if self.0.len() <= part {
            self.0.resize(part + 1, Vec::new());
        }
        self.0[part].push(taken);
    }
}

#[derive(Debug, Default)]
struct Shared {
    told: Mutex<(Log, Latencies)>,
    part: AtomicUsize,
    stopped: AtomicBool,
}

/// Writers.
pub(super) struct Load {
    url: String,
    seed: u64,
    shared: Arc<Shared>,
    writers: JoinSet<Result<()>>,
}

impl Load {
    /// Puts so many MiB into an empty store; nobody writes yet.
    pub(super) async fn fill(url: &str, mib: usize, seed: u64) -> Result<Self> {
        let (mut log, mut rng, mut client) = (Log::default(), StdRng::seed_from_u64(seed), Client::connect([url], None).await?);
        for n in 0..(mib << 20).div_ceil(FILL_BYTES * FILL_OPS) {
            let changes: Vec<Change> =
                (0..FILL_OPS).map(|op| (format!("fill/{n:06}/{op:03}").into_bytes(), Some(random(&mut rng, FILL_BYTES)))).collect();
            let puts: Vec<TxnOp> =
                changes.iter().map(|(key, value)| TxnOp::put(key.clone(), value.clone().unwrap_or_default(), None)).collect();
            log.add(client.txn(Txn::new().and_then(puts)).await?.header(), changes)?;
        }
        let shared = Shared { told: Mutex::new((log, Latencies::default())), ..Shared::default() };
        Ok(Self { url: url.to_owned(), seed, shared: Arc::new(shared), writers: JoinSet::new() })
    }

    /// Begins to write so often a second.
    pub(super) async fn start(&mut self, rate: u32) -> Result<()> {
        for writer in 0..WRITERS {
            let (client, shared) = (Client::connect([&self.url], None).await?, self.shared.clone());
            let rng = StdRng::seed_from_u64(self.seed.wrapping_add(u64::from(writer)));
            let period = Duration::from_secs(1) * WRITERS / rate.max(1);
            self.writers.spawn(write(client, shared, rng, writer, period));
        }
        Ok(())
    }

    /// From now on another part of the run.
    pub(super) fn part(&self, part: usize) {
        self.shared.part.store(part, Ordering::Relaxed);
    }

    pub(super) fn log(&self) -> impl std::ops::Deref<Target = Log> {
        Guard(self.shared.told.lock().expect("no writer panics with it"))
    }

    /// Ends when all that was begun is acknowledged.
    pub(super) async fn stop(mut self) -> Result<(Log, Latencies)> {
        self.shared.stopped.store(true, Ordering::Relaxed);
        while let Some(ended) = self.writers.join_next().await {
            ended??;
        }
        let told = std::mem::take(&mut *self.shared.told.lock().expect("no writer panics with it"));
        ensure!(told.0.is_whole(), "a revision that nobody made, or one that was not acknowledged");
        Ok(told)
    }
}

struct Guard<'a>(std::sync::MutexGuard<'a, (Log, Latencies)>);

impl std::ops::Deref for Guard<'_> {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.0.0
    }
}

async fn write(mut client: Client, shared: Arc<Shared>, mut rng: StdRng, writer: u32, period: Duration) -> Result<()> {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !shared.stopped.load(Ordering::Relaxed) {
        ticks.tick().await;
        let key = format!("w/{writer:02}/{:03}", rng.random_range(0..KEYS)).into_bytes();
        let length = rng.random_range(0..VALUE_BYTES);
        let value = random(&mut rng, length);
        let (part, began) = (shared.part.load(Ordering::Relaxed), Instant::now());
        let (header, changes) = match rng.random_range(0..10) {
            0 => {
                let mut done = client.delete(key.clone(), None).await?;
                let changes = if done.deleted() > 0 { vec![(key, None)] } else { Vec::new() };
                (done.take_header(), changes)
            }
            1 => {
                let second = [&key[..], b"/second"].concat();
                let puts = [TxnOp::put(key.clone(), value.clone(), None), TxnOp::put(second.clone(), value.clone(), None)];
                let mut done = client.txn(Txn::new().and_then(puts)).await?;
                (done.take_header(), vec![(key, Some(value.clone())), (second, Some(value))])
            }
            _ => (client.put(key.clone(), value.clone(), None).await?.take_header(), vec![(key, Some(value))]),
        };
        let taken = began.elapsed();
        let mut told = shared.told.lock().expect("no writer panics with it");
        told.0.add(header.as_ref(), changes)?;
        // A write that another part began in says nothing of either.
        if shared.part.load(Ordering::Relaxed) == part || part == QUIET {
            told.1.add(part, taken);
        }
    }
    Ok(())
}

fn random(rng: &mut StdRng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes[..]);
    bytes
}
