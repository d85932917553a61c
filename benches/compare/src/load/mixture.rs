//! The clients of a recorded cluster: a connection for each, on it all its watches and, at their pace, its reads. Knows paths; what is in a body it only
//! counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::client::{self, Connection};
use super::watch::{OPENING_LIMIT, Reader};
use super::{Command, Driver, Form, Percentiles, Protocol, REQUEST_SECONDS, Reply, Target};
use crate::certs::Certificates;
use crate::mixture::{Agent, Mixture, OTHERS, Turns};

/// Reads that are under way at the same time. More only wait: the server is behind, which the latencies tell.
const READS_LIMIT: usize = 2_000;

/// Seconds that a watch lives: client-go asks for five to ten minutes.
const WATCH_SECONDS: std::ops::Range<u64> = 300..600;

/// So many seconds before its end a server may end a watch.
const EARLY_SECONDS: u64 = 30;

/// How long a client waits before it opens a watch again that was refused.
const BACKOFF: Duration = Duration::from_secs(1);

/// What came of the mixture in some time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mixed {
    /// Reads that were answered with 200, and the bytes of their bodies.
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
    /// Events, and watches that were opened again.
    pub(crate) events: u64,
    pub(crate) reopened: u64,
    /// Reads and watches that were refused or broke, and why the first read did.
    pub(crate) failed: u64,
    pub(crate) first_failure: Option<String>,
    /// From when a read was due to the last byte of its answer.
    pub(crate) latency: Percentiles,
}

/// What came to all watches, and what went wrong, since the load began.
#[derive(Default)]
struct Counters {
    events: AtomicU64,
    opened: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    /// Events, watches opened, failures.
    fn now(&self) -> [u64; 3] {
        [&self.events, &self.opened, &self.failed].map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// The connections of the agents of one kind.
type Agents = Vec<Connection>;

struct Stage {
    mixture: Mixture,
    kubelets: Agents,
    others: Agents,
    counters: Counters,
}

/// Opens connections and watches, then reads whenever the driver asks for it.
pub(super) async fn serve(target: &Target, protocol: Protocol, nodes: u64, driver: &mut Driver) -> Result<()> {
    let tls = client::tls(&Certificates::at(&target.certificates), protocol)?;
    let mixture = Mixture::of(nodes)?;
    let mut agents = open(target, &tls, protocol, mixture.agents(Agent::Kubelet) as usize + OTHERS.len()).await?;
    let others = agents.split_off(agents.len() - OTHERS.len());
    let stage = Arc::new(Stage { mixture, kubelets: agents, others, counters: Counters::default() });
    let mut watches = JoinSet::new();
    for opened in open_watches(&stage, &mut watches) {
        opened.await.context("a task that opens a watch")??;
    }
    driver.reply(&Reply::Opened).await?;
    let mut nth = 0;
    while let Some(command) = driver.next().await? {
        let Command::Mix { seconds } = command else { bail!("a load of a mixture knows nothing else") };
        let mixed = read(&stage, Duration::from_secs(seconds), &mut nth).await?;
        driver.reply(&Reply::Mixed(mixed)).await?;
    }
    Ok(())
}

async fn open(target: &Target, tls: &Arc<rustls::ClientConfig>, protocol: Protocol, count: usize) -> Result<Agents> {
    let turns = Arc::new(Semaphore::new(OPENING_LIMIT));
    let mut opening = JoinSet::new();
    for _ in 0..count {
        let (target, tls, turns) = (target.clone(), Arc::clone(tls), Arc::clone(&turns));
        opening.spawn(async move {
            let _turn = turns.acquire().await?;
            Connection::open(&target, &tls, protocol).await
        });
    }
    let mut agents = Vec::with_capacity(count);
    while let Some(opened) = opening.join_next().await {
        agents.push(opened.context("a task that connects")??);
    }
    Ok(agents)
}

/// Told when a watch was opened for the first time, or was refused then.
type FirstOpened = oneshot::Receiver<Result<()>>;

/// Every watch of every agent goes on in a task of its own, which opens it again when it ends.
fn open_watches(stage: &Arc<Stage>, watches: &mut JoinSet<()>) -> Vec<FirstOpened> {
    let (turns, mut first) = (Arc::new(Semaphore::new(OPENING_LIMIT)), Vec::new());
    let mut lives = WATCH_SECONDS.cycle();
    for kind in 0..stage.mixture.watches.len() {
        let watch = &stage.mixture.watches[kind];
        for node in 0..stage.mixture.agents(watch.agent) {
            for nth in 0..watch.count as u64 {
                let (opened, is_open) = oneshot::channel();
                first.push(is_open);
                // Each the 37th after the last, a prime, so that neighbours do not end together.
                let seconds = lives.nth(36).unwrap_or(WATCH_SECONDS.start);
                let (stage, turns) = (Arc::clone(stage), Arc::clone(&turns));
                watches.spawn(async move {
                    let mut opened = Some(opened);
                    loop {
                        if let Err(error) = follow(&stage, kind, node, nth, seconds, &turns, &mut opened).await {
                            if let Some(opened) = opened.take() {
                                let _ = opened.send(Err(error));
                            }
                            stage.counters.failed.fetch_add(1, Ordering::Relaxed);
                            sleep(BACKOFF).await;
                        }
                    }
                });
            }
        }
    }
    first
}

/// One watch, from its request to its end.
async fn follow(
    stage: &Stage,
    kind: usize,
    node: u64,
    nth: u64,
    seconds: u64,
    turns: &Semaphore,
    opened: &mut Option<oneshot::Sender<Result<()>>>,
) -> Result<()> {
    let watch = &stage.mixture.watches[kind];
    let mut connection = connection(stage, watch.agent, node)?;
    let path = stage.mixture.path(&watch.path, node, node + nth);
    let turn = turns.acquire().await?;
    let mut body = connection.read_as(&format!("{path}&timeoutSeconds={seconds}"), watch.form, false).await?.into_body();
    drop(turn);
    stage.counters.opened.fetch_add(1, Ordering::Relaxed);
    if let Some(opened) = opened.take() {
        let _ = opened.send(Ok(()));
    }
    let (mut reader, began) = (Reader::of(watch.form), Instant::now());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.context("a watch broke")?.into_data() else { continue };
        reader.feed(&piece, |event| {
            ensure!(!event.starts_with(watch.form.error_start()), "an ERROR event");
            stage.counters.events.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })?;
    }
    // A server may end it a little early, not at once.
    ensure!(began.elapsed() >= Duration::from_secs(seconds - EARLY_SECONDS), "the server ended a watch of {seconds} s early");
    Ok(())
}

fn connection(stage: &Stage, agent: Agent, node: u64) -> Result<Connection> {
    let shared = match agent {
        Agent::Kubelet => &stage.kubelets[usize::try_from(node)?],
        Agent::Other(nth) => &stage.others[nth],
    };
    shared.share().context("the mixture speaks HTTP/2")
}

/// Reads at the recorded pace for so long. Latencies count from when a read was due, so that a slow server does not slow the load down.
async fn read(stage: &Arc<Stage>, lasting: Duration, nth: &mut u64) -> Result<Mixed> {
    let mut turns = Turns::of(stage.mixture.reads.iter().map(|read| read.rate))?;
    let (slots, mut reading) = (Arc::new(Semaphore::new(READS_LIMIT)), JoinSet::new());
    let before = stage.counters.now();
    let (began, mut count) = (Instant::now(), 0.0);
    loop {
        let due = began + Duration::from_secs_f64(count / turns.rate());
        if due >= began + lasting {
            break;
        }
        sleep_until(due).await;
        count += 1.0;
        *nth += 1;
        let (stage, kind, nth, slot) = (Arc::clone(stage), turns.next(), *nth, Arc::clone(&slots).acquire_owned().await?);
        reading.spawn(async move {
            let _slot = slot;
            let outcome = one(&stage, kind, nth).await;
            (due.elapsed(), outcome)
        });
    }
    let (mut micros, mut bytes, mut first_failure) = (Vec::new(), 0, None);
    while let Some(read) = reading.join_next().await {
        match read.context("a task that reads")? {
            (took, Ok(len)) => {
                micros.push(i64::try_from(took.as_micros())?);
                bytes += len;
            }
            (_, Err(error)) => {
                stage.counters.failed.fetch_add(1, Ordering::Relaxed);
                first_failure.get_or_insert(format!("{error:#}"));
            }
        }
    }
    let [events, opened, failed] = stage.counters.now();
    Ok(Mixed {
        reads: micros.len() as u64,
        bytes,
        events: events - before[0],
        reopened: opened - before[1],
        failed: failed - before[2],
        first_failure,
        latency: Percentiles::of(micros).context("no read was answered")?,
    })
}

/// One read; the bytes of its answer.
async fn one(stage: &Stage, kind: usize, nth: u64) -> Result<u64> {
    let read = &stage.mixture.reads[kind];
    let node = nth % stage.mixture.agents(read.agent);
    let mut connection = connection(stage, read.agent, node)?;
    let path = stage.mixture.path(&read.path, node, nth);
    let gzip = read.form == Form::Table;
    let answer = connection.read_as(&path, read.form, gzip).await?;
    let body = timeout(Duration::from_secs(REQUEST_SECONDS), answer.into_body().collect()).await.context("an answer took too long")??;
    Ok(body.to_bytes().len() as u64)
}
