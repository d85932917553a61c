//! Ten thousand idle watches, and a stream of writes that a hundred others see: nothing lost, and what it costs.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use crate::{
    http::{Lines, Listener},
    object::{Draft, Filter, Select},
    options::Options,
    reflector::{Habit, Start},
    stage::{Stage, Verdict},
    validate::{Expiry, Guarantee},
    wire::{self, Encoding},
    writer::{Store, Workload, Write},
};

/// Where nothing is written until the end.
const QUIET: &str = "faults-quiet";
/// Idle watches that are opened at the same time.
const OPENING: usize = 200;
/// How long the one write for all idle watches may take to reach them.
const FAN_OUT: Duration = Duration::from_secs(60);
/// How long the last of the idle watches may take to open.
const OPEN: Duration = Duration::from_secs(180);

pub(super) async fn load(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    let empty = stage.server.cost()?;
    let idle = Idle::open(options.idle, &stage.server.listener).await?;
    sleep(Duration::from_secs(1)).await;
    let waiting = stage.server.cost()?;
    stage.note("idle_rss_mib", format!("{}>{}", empty.rss_mib, waiting.rss_mib));

    let everything = Filter { namespace: None, select: Select::All };
    let habit = Habit { filter: everything, start: Start::ListNewest, watch_seconds: 3600, brake: None, encoding: Encoding::Json };
    stage.watch_as(vec![habit; options.load_watchers]).await;
    let workload = Workload { rate: options.load_rate, writers: 32, transactions: 0, seed: options.seed, ..stage.workload() };
    let (first, start) = (written(&stage), Instant::now());
    let writers = stage.write(&workload).await?;
    sleep(Duration::from_secs(options.load_seconds)).await;
    let loaded = stage.server.cost()?;
    let rate = (written(&stage) - first) as f64 / start.elapsed().as_secs_f64();
    writers.stop().await?;
    stage.note("writes_per_s", format!("{rate:.0}"));
    stage.note("load_cpu_s", format!("{:.1}", loaded.cpu_seconds - waiting.cpu_seconds));
    stage.note("load_rss_mib", loaded.rss_mib.to_string());
    let caught_up = stage.settle().await;
    stage.note("caught_up", format!("{}ms", caught_up.as_millis()));
    one_for_all(&mut stage, idle).await?;
    stage.verdict(Expiry::Never).await
}

fn written(stage: &Stage) -> usize {
    stage.ledger.eras().iter().map(|e| e.revisions.len()).sum()
}

/// One write, and every idle watch has to show it, once.
async fn one_for_all(stage: &mut Stage, mut idle: Idle) -> Result<()> {
    let (ended, early) = (idle.ended.load(Ordering::Relaxed), idle.shown.load(Ordering::Relaxed));
    let mut store = Store::connect(&stage.store_ports(), stage.ledger.clone(), "faults/marker/load".into())?;
    let draft = Draft { namespace: QUIET.into(), name: "one".into(), tier: 0, seq: stage.ledger.next_seq(), payload_bytes: 20 };
    store.commit_surely(vec![Write::Put(draft)]).await?;
    let start = Instant::now();
    while idle.shown.load(Ordering::Relaxed) < idle.count && start.elapsed() < FAN_OUT {
        sleep(Duration::from_millis(10)).await;
    }
    let took = start.elapsed();
    sleep(Duration::from_millis(500)).await;
    let shown = idle.shown.load(Ordering::Relaxed);
    stage.note("idle", format!("{shown}/{} in {}ms", idle.count, took.as_millis()));
    if ended + early > 0 || shown != idle.count {
        let count = idle.count;
        stage.blame(
            Guarantee::Reliable,
            format!("of {count} idle watches {ended} ended, {early} showed something early, {shown} the write"),
        );
    }
    idle.tasks.shutdown().await;
    Ok(())
}

/// Watches that nothing is written for.
struct Idle {
    count: usize,
    tasks: JoinSet<()>,
    /// Streams that are over.
    ended: Arc<AtomicUsize>,
    /// Changes that came.
    shown: Arc<AtomicUsize>,
}

impl Idle {
    async fn open(count: usize, listener: &Arc<Listener>) -> Result<Self> {
        let path = format!("/api/v1/namespaces/{QUIET}/configmaps");
        let (_, body) = listener.get(&format!("{path}?resourceVersion=0"), OPEN).await?;
        let from = wire::list(&body)?.revision;
        let target = format!("{path}?watch=true&resourceVersion={from}&timeoutSeconds=3600");
        let (ended, shown, opened) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (mut tasks, at_once) = (JoinSet::new(), Arc::new(Semaphore::new(OPENING)));
        for nth in 0..count {
            let turn = at_once.clone().acquire_owned().await?;
            let (listener, target) = (listener.clone(), target.clone());
            let (ended, shown, opened) = (ended.clone(), shown.clone(), opened.clone());
            tasks.spawn(async move {
                if let Ok(response) = listener.open(&target, nth).await
                    && response.status() == 200
                {
                    drop(turn);
                    opened.fetch_add(1, Ordering::Relaxed);
                    let mut lines = Lines::new(response.into_body());
                    while let Ok(Some(_)) = lines.next().await {
                        shown.fetch_add(1, Ordering::Relaxed);
                    }
                }
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        let start = Instant::now();
        while opened.load(Ordering::Relaxed) + ended.load(Ordering::Relaxed) < count && start.elapsed() < OPEN {
            sleep(Duration::from_millis(20)).await;
        }
        let open = opened.load(Ordering::Relaxed);
        anyhow::ensure!(open == count, "{open} of {count} idle watches could be opened");
        Ok(Self { count, tasks, ended, shown })
    }
}
