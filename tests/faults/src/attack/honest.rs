//! An honest client beside the attackers: it reads, connects, writes and watches on connections of its own, and knows how long each took.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::http::{Lines, Listener, Talk};

/// How long anything honest may take; what takes longer has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two of a kind.
const BEAT: Duration = Duration::from_millis(50);
/// One write in so many is large: more than 16 KiB, so that it waits where the attackers' large bodies wait.
const LARGE_EVERY: u64 = 8;
/// Bytes of such a write.
const LARGE_BYTES: usize = 20 << 10;
/// What is read, written and watched.
const OBJECT: &str = "/api/v1/namespaces/default/configmaps/honest";
/// Where it is.
const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";
/// Its watch.
const WATCH: &str =
    "/api/v1/namespaces/default/configmaps?watch=true&fieldSelector=metadata.name%3Dhonest&resourceVersion=0&timeoutSeconds=3600";
/// How long the namespace may take to be there after a start.
const BEGINNING: Duration = Duration::from_secs(60);

/// What it does, in the order of a result line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// GET of an object on a connection that is there.
    Get,
    /// A new connection and a GET on it.
    Connect,
    /// A PATCH of the object.
    Write,
    /// From sending that PATCH to seeing its event.
    Watch,
    /// `/readyz` on a new connection to the plain listener.
    Ready,
}

impl Act {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [Self::Get, Self::Connect, Self::Write, Self::Watch, Self::Ready];

    /// In a result line.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Connect => "connect",
            Self::Write => "write",
            Self::Watch => "watch",
            Self::Ready => "readyz",
        }
    }
}

/// How long one kind of act took in one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Half of them took no longer, milliseconds.
    pub(crate) p50: f64,
    /// 99 of 100 took no longer.
    pub(crate) p99: f64,
    /// None took longer.
    pub(crate) max: f64,
    /// How many there were.
    pub(crate) count: usize,
    /// What failed, and why.
    pub(crate) failed: Vec<String>,
}

impl Figures {
    fn of(mut ms: Vec<f64>, failed: Vec<String>) -> Self {
        ms.sort_by(f64::total_cmp);
        let at = |percent: usize| ms.get((ms.len() * percent / 100).min(ms.len().saturating_sub(1))).copied().unwrap_or(0.0);
        Self { p50: at(50), p99: at(99), max: at(100), count: ms.len(), failed }
    }
}

/// All kinds, in the order of [`Act::ALL`].
pub(crate) type Phase = [Figures; 5];

#[derive(Debug, Default)]
struct Samples {
    ms: Vec<f64>,
    failed: Vec<String>,
    /// Since when the one under way is.
    began: Option<Instant>,
}

#[derive(Debug, Default)]
struct Shared {
    samples: [Mutex<Samples>; 5],
    /// Writes that the watch has not shown: number, and when it was sent.
    unseen: Mutex<BTreeMap<u64, Instant>>,
}

impl Shared {
    fn of(&self, act: Act) -> MutexGuard<'_, Samples> {
        lock(&self.samples[act as usize])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The running client. Dropping it ends it.
pub(crate) struct Honest {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl Honest {
    /// Makes its object and begins, on `listener`; `/readyz` is asked on `plain`.
    pub(crate) async fn start(listener: &Arc<Listener>, plain: &Arc<Listener>) -> Result<Self> {
        create(listener).await?;
        let shared = Arc::<Shared>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(reads(listener.clone(), shared.clone()));
        tasks.spawn(connects(listener.clone(), shared.clone(), Act::Connect, OBJECT));
        tasks.spawn(connects(plain.clone(), shared.clone(), Act::Ready, "/readyz"));
        tasks.spawn(writes(listener.clone(), shared.clone()));
        tasks.spawn(watches(listener.clone(), shared.clone()));
        Ok(Self { shared, _tasks: tasks })
    }

    /// What was measured since the last call. What is still under way counts with the time it has taken.
    #[must_use]
    pub(crate) fn take(&self) -> Phase {
        Act::ALL.map(|act| {
            let mut samples = self.shared.of(act);
            let (mut ms, failed) = (std::mem::take(&mut samples.ms), std::mem::take(&mut samples.failed));
            let waiting = if act == Act::Watch { lock(&self.shared.unseen).values().next().copied() } else { samples.began };
            ms.extend(waiting.map(millis));
            Figures::of(ms, failed)
        })
    }
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

async fn create(listener: &Listener) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "honest"}, "data": {"n": "0"}});
    let body = Bytes::from(object.to_string());
    let start = Instant::now();
    loop {
        let mut talk = listener.talk().await?;
        let (status, answer) = timeout(PATIENCE, talk.whole("POST", OBJECTS, Some(("application/json", body.clone())))).await??;
        if status == 201 || status == 409 {
            return Ok(());
        }
        ensure!(start.elapsed() < BEGINNING, "the honest object: {status} {}", String::from_utf8_lossy(&answer));
        sleep(Duration::from_millis(200)).await;
    }
}

/// Does an act, and writes down how long it took or why it failed.
async fn measured<T>(shared: &Shared, act: Act, doing: impl Future<Output = Result<T>>) -> Option<T> {
    let start = Instant::now();
    shared.of(act).began = Some(start);
    let done = timeout(PATIENCE, doing).await.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {PATIENCE:?}")));
    let mut samples = shared.of(act);
    samples.began = None;
    samples.ms.push(millis(start));
    done.map_err(|error| samples.failed.push(format!("{error:#}"))).ok()
}

fn is_ok((status, body): (u16, Bytes)) -> Result<()> {
    ensure!(status == 200, "{status} {}", String::from_utf8_lossy(&body[..body.len().min(200)]));
    Ok(())
}

/// The connection that is there, or a new one after a failure.
async fn at_hand<'a>(talk: &'a mut Option<Talk>, listener: &Listener) -> Result<&'a mut Talk> {
    if talk.is_none() {
        *talk = Some(listener.talk().await?);
    }
    talk.as_mut().context("just opened")
}

async fn reads(listener: Arc<Listener>, shared: Arc<Shared>) {
    let mut talk = None;
    loop {
        let done =
            measured(&shared, Act::Get, async { is_ok(at_hand(&mut talk, &listener).await?.whole("GET", OBJECT, None).await?) }).await;
        if done.is_none() {
            talk = None;
        }
        sleep(BEAT).await;
    }
}

/// As any client does, it comes a second time when its connection is reset before it has an answer: a stranger may have to go for a newcomer.
async fn connects(listener: Arc<Listener>, shared: Arc<Shared>, act: Act, target: &str) {
    loop {
        let once = async || is_ok(listener.talk().await?.whole("GET", target, None).await?);
        measured(&shared, act, async { if once().await.is_ok() { Ok(()) } else { once().await } }).await;
        sleep(BEAT).await;
    }
}

async fn writes(listener: Arc<Listener>, shared: Arc<Shared>) {
    let mut talk = None;
    for n in 1.. {
        let pad = if n % LARGE_EVERY == 0 { "x".repeat(LARGE_BYTES) } else { String::new() };
        let body = Bytes::from(json!({"data": {"n": n.to_string(), "pad": pad}}).to_string());
        lock(&shared.unseen).insert(n, Instant::now());
        let patching = async {
            let media = "application/merge-patch+json";
            is_ok(at_hand(&mut talk, &listener).await?.whole("PATCH", OBJECT, Some((media, body))).await?)
        };
        if measured(&shared, Act::Write, patching).await.is_none() {
            talk = None;
            lock(&shared.unseen).remove(&n);
        }
        sleep(BEAT).await;
    }
}

async fn watches(listener: Arc<Listener>, shared: Arc<Shared>) {
    loop {
        let why = match watch(&listener, &shared).await {
            Ok(()) => "the watch ended".to_owned(),
            Err(error) => format!("the watch ended: {error:#}"),
        };
        shared.of(Act::Watch).failed.push(why);
        sleep(BEAT).await;
    }
}

async fn watch(listener: &Listener, shared: &Shared) -> Result<()> {
    let response = timeout(PATIENCE, listener.open(WATCH, 0)).await.context("no answer")??;
    ensure!(response.status() == 200, "{}", response.status());
    let mut lines = Lines::new(response.into_body());
    while let Some(line) = lines.next().await? {
        let line: Value = serde_json::from_slice(&line)?;
        let n: u64 = line.pointer("/object/data/n").and_then(Value::as_str).context("an event without our number")?.parse()?;
        let delay = {
            let mut unseen = lock(&shared.unseen);
            let later = unseen.split_off(&(n + 1));
            // What a watch that was opened anew no longer shows counts as seen now.
            let shown = std::mem::replace(&mut *unseen, later);
            shown.into_values().next().map(millis)
        };
        shared.of(Act::Watch).ms.extend(delay);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_sorted_times() {
        let figures = Figures::of((1..=200).rev().map(f64::from).collect(), vec!["x".into()]);
        assert_eq!((figures.p50, figures.p99, figures.max, figures.count), (101.0, 199.0, 200.0, 200));
        assert_eq!(Figures::of(Vec::new(), Vec::new()).max, 0.0);
    }
}
