//! Histories of a server that two kube-apiservers feed, of which one lags: a write through any of the three, then reads through the server that must be as new,
//! in every form that promises it.

mod client;
mod costs;
mod form;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{Instant, sleep},
};

use self::client::Client;
use crate::{
    etcd::Etcd,
    feeder::{Feeder, Kitchen},
    http::Listener,
    options::{Options, Subject},
    proxy::{Gate, Proxy, Targets},
    stage::Verdict,
    subject::{Server, Wishes},
    validate::{Guarantee, Violation},
};

/// A resource, and how many objects are there before: a large one is proven in another way than a small one.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    seeds: usize,
}

pub(super) const KINDS: [Kind; 3] = [
    Kind { name: "configmaps", path: "/api/v1/namespaces/histories/configmaps", seeds: 550 },
    Kind { name: "leases", path: "/apis/coordination.k8s.io/v1/namespaces/histories/leases", seeds: 550 },
    Kind { name: "serviceaccounts", path: "/api/v1/namespaces/histories/serviceaccounts", seeds: 0 },
];
/// Between two writes of the busy resource, that nobody reads for.
const BUSY: Duration = Duration::from_millis(50);
/// How long everything may take for one history, on a busy machine.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long one answer of a feeder may take.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

/// What all clients know.
#[derive(Default)]
pub(super) struct Common {
    /// The newest revision of each resource that was told to whoever wrote it.
    pub(super) floors: [AtomicU64; KINDS.len()],
    /// Histories that were judged.
    pub(super) judged: AtomicUsize,
    /// How often the server was started: what it knows begins anew.
    pub(super) starts: AtomicUsize,
    pub(super) found: Mutex<Verdict>,
}

impl Common {
    /// Notes a broken promise.
    pub(super) async fn blame(&self, client: usize, detail: String) {
        self.found.lock().await.violations.push(Violation { guarantee: Guarantee::Fresh, client: Some(client), detail });
    }

    /// Notes that there was no answer.
    pub(super) async fn refused(&self, why: String) {
        *self.found.lock().await.refused.entry(why.chars().take(60).collect()).or_default() += 1;
    }
}

/// Who is there; ended in this order.
struct World {
    server: Server,
    one: Feeder,
    other: Feeder,
    targets: Targets,
    balancer: Proxy,
    /// Between the other feeder and etcd.
    lag: Proxy,
    ports: [u16; 2],
    _etcd: Etcd,
}

pub(super) async fn histories(options: &Options, dir: &Path) -> Result<Verdict> {
    ensure!(options.subject == Subject::WatchcacheUpstream, "histories are of --subject watchcache-upstream");
    let (mut world, common) = (World::start(options, dir).await?, Arc::new(Common::default()));
    seed(&world.one.listener).await?;
    let busy = tokio::spawn(keep_busy(world.one.listener.clone(), world.other.listener.clone()));
    if options.history_proofs > 0 {
        world.targets.set(&world.ports[..1]);
        world.reset().await;
        let notes = costs::measured(&world.server.listener, &world.one.listener, options.history_proofs).await?;
        common.found.lock().await.notes.extend(notes);
        world.targets.set(&world.ports);
    }
    let (began, mut clients) = (Instant::now(), JoinSet::new());
    for nth in 0..options.history_clients {
        let at = [&world.one.listener, &world.other.listener, &world.server.listener].map(Clone::clone);
        clients.spawn(Client::new(nth, options.seed, at, common.clone()).run(options.histories));
    }
    let mut faults = 0;
    let limit = Duration::from_secs(120) + PATIENCE * u32::try_from(options.histories).context("a sensible number")?;
    let all = async {
        while clients.join_next().await.transpose()?.transpose()?.is_some() {}
        Ok::<_, anyhow::Error>(())
    };
    tokio::select! {
        done = tokio::time::timeout(limit, all) => done.context("the histories do not end")??,
        failed = world.breaks(StdRng::seed_from_u64(options.seed), &common, &mut faults) => failed?,
    }
    busy.abort();
    let judged = common.judged.load(Ordering::Relaxed);
    let cost = world.server.cost()?;
    let mut verdict = std::mem::take(&mut *common.found.lock().await);
    verdict.clients = options.history_clients;
    verdict.notes.extend([
        ("histories", judged.to_string()),
        ("faults", faults.to_string()),
        ("per_s", format!("{:.0}", judged as f64 / began.elapsed().as_secs_f64())),
        ("rss_mib", cost.rss_mib.to_string()),
        ("cpu_s", format!("{:.1}", cost.cpu_seconds)),
    ]);
    world.server.end().await?;
    Ok(verdict)
}

impl World {
    async fn start(options: &Options, dir: &Path) -> Result<Self> {
        let ports = options.ports();
        let etcd = Etcd::start(&options.etcd, dir, &ports, &["--unsafe-no-fsync"]).await?;
        let lag = Proxy::listen(ports.etcd_proxy(1), ports.etcd(0)).await?;
        let kitchen = Kitchen::prepare(options, dir).await?;
        let one = kitchen.start(&[ports.etcd(0)], ports.upstream()).await?;
        let other = kitchen.start(&[ports.etcd_proxy(1)], ports.other_upstream()).await?;
        let (targets, both) = (Targets::default(), [ports.upstream(), ports.other_upstream()]);
        targets.set(&both);
        let balancer = Proxy::balance(ports.upstream_proxy(), targets.clone()).await?;
        let args = kitchen.feeds(ports.upstream_proxy())?;
        let server = Server::start(options, dir, &[], Wishes { args, ..Wishes::default() }).await?;
        Ok(Self { server, one, other, targets, balancer, lag, ports: both, _etcd: etcd })
    }

    /// Ends every connection between the server and the feeders.
    async fn reset(&self) {
        self.balancer.set(Gate::Broken);
        sleep(Duration::from_millis(200)).await;
        self.balancer.set(Gate::Open);
    }

    /// One thing after the other goes wrong, and is mended.
    async fn breaks(&mut self, mut chance: StdRng, common: &Common, faults: &mut usize) -> Result<()> {
        loop {
            let millis = |chance: &mut StdRng, most| Duration::from_millis(chance.random_range(200..most));
            sleep(millis(&mut chance, 2_500)).await;
            match chance.random_range(0..10) {
                0..3 => {
                    self.lag.set(Gate::Silent);
                    sleep(millis(&mut chance, 4_000)).await;
                }
                3 => {
                    self.lag.set(Gate::Slow(20_000));
                    sleep(millis(&mut chance, 4_000)).await;
                }
                4..6 => self.reset().await,
                6 | 7 => {
                    // All go to the one that lags.
                    self.targets.set(&self.ports[1..]);
                    self.lag.set(Gate::Silent);
                    self.reset().await;
                    sleep(millis(&mut chance, 3_000)).await;
                    self.targets.set(&self.ports);
                }
                8 if chance.random_bool(0.5) => {
                    self.one.kill().await?;
                    self.one.start().await?;
                }
                9 if chance.random_bool(0.5) => {
                    self.server.crash().await?;
                    common.starts.fetch_add(1, Ordering::Relaxed);
                }
                _ => {
                    self.balancer.set(Gate::Torn(50_000));
                    sleep(millis(&mut chance, 2_000)).await;
                    self.balancer.set(Gate::Open);
                }
            }
            self.lag.set(Gate::Open);
            *faults += 1;
        }
    }
}

async fn seed(feeder: &Listener) -> Result<()> {
    let mut talk = feeder.talk().await?;
    let mut create = async |path: &str, name: String| {
        let object = json!({"metadata": {"name": name}});
        let (status, answer) = talk.whole("POST", path, Some(("application/json", Bytes::from(object.to_string())))).await?;
        ensure!(status == 201, "{path} {name}: {status} {}", String::from_utf8_lossy(&answer));
        Ok::<_, anyhow::Error>(())
    };
    create("/api/v1/namespaces", "histories".to_owned()).await?;
    for kind in &KINDS {
        for nth in 0..kind.seeds {
            create(kind.path, format!("seed-{nth:04}")).await?;
        }
    }
    Ok(())
}

/// Writes the first resource again and again, through whoever takes it.
async fn keep_busy(one: Arc<Listener>, other: Arc<Listener>) {
    for nth in 0_u64.. {
        let listener = if nth.is_multiple_of(2) { &one } else { &other };
        let patch = json!({"metadata": {"annotations": {"n": nth.to_string()}}}).to_string();
        let target = format!("{}/seed-{:04}", KINDS[0].path, nth % 500);
        let _may_be_away = listener.whole("PATCH", &target, Some(("application/merge-patch+json", patch.into())), BUSY * 20).await;
        sleep(BUSY).await;
    }
}
