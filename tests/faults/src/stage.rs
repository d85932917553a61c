//! The stage of a scenario: etcd, the network, the server under test, writers and watchers, and the verdict at the end.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tokio::sync::watch;

use crate::{
    etcd::{self, Cluster, Etcd},
    feeder::{Feeder, Kitchen},
    history::{History, Record},
    http::Listener,
    object::{Filter, Select},
    options::{Options, Ports, Scenario, Subject},
    proxy::{Gate, Proxy},
    reflector::{Habit, Reflector, Start},
    subject::{Server, Wishes},
    truth::{Expected, Ledger},
    validate::{Expiry, Guarantee, Violation, check},
    wire::Encoding,
    writer::{Workload, Writers},
};

/// Namespaces of the everyday workload.
pub(crate) const NAMESPACES: usize = 4;
/// Objects in each.
pub(crate) const NAMES: usize = 48;
/// Bytes of payload in the everyday object.
pub(crate) const PAYLOAD_BYTES: usize = 200;
/// How long a list from the cache may take while etcd is away.
const CACHE_ANSWER: Duration = Duration::from_secs(1);
/// The same of a server that is fed by another: it takes 10 s to believe that nobody answers any longer whose token that is.
const CACHE_ANSWER_OF_FED: Duration = Duration::from_secs(12);
/// So many in a row that take longer do not come from the cache. Fewer may be a machine that stood still.
const LATE_ANSWERS: usize = 3;

/// Everything a scenario plays with.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The command line.
    pub(crate) options: Options,
    /// Data and logs of this scenario.
    pub(crate) dir: PathBuf,
    /// What was really written.
    pub(crate) ledger: Arc<Ledger>,
    /// The server under test.
    pub(crate) server: Server,
    /// How watchers reach it: as everybody does, unless the scenario has them come otherwise.
    pub(crate) entrance: Arc<Listener>,
    /// Its store.
    pub(crate) store: Patient,
    /// Who feeds the server, if it is not the store.
    feeder: Option<Feeder>,
    crowd: Crowd,
    found: Vec<Violation>,
    notes: Vec<(&'static str, String)>,
}

/// The store behind the server.
#[derive(Debug)]
pub(crate) enum Patient {
    /// One member, and the network between it and the server.
    Single(Box<Etcd>, Proxy),
    /// Three.
    Three(Cluster),
}

impl Patient {
    /// The single member and its network.
    pub(crate) fn single(&mut self) -> Result<(&mut Etcd, &Proxy)> {
        match self {
            Self::Single(etcd, network) => Ok((etcd, network)),
            Self::Three(_) => anyhow::bail!("this stage has three members"),
        }
    }

    /// The three members.
    pub(crate) fn three(&mut self) -> Result<&mut Cluster> {
        match self {
            Self::Three(cluster) => Ok(cluster),
            Self::Single(..) => anyhow::bail!("this stage has one member"),
        }
    }
}

/// What a scenario came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// Watchers.
    pub(crate) clients: usize,
    /// Changes delivered, all watchers together.
    pub(crate) events: usize,
    /// Streams that ended.
    pub(crate) ends: usize,
    /// Streams that were resumed.
    pub(crate) resumes: usize,
    /// 410s.
    pub(crate) expired: usize,
    /// Requests that got no stream, by their first words.
    pub(crate) refused: HashMap<String, usize>,
    /// Broken promises.
    pub(crate) violations: Vec<Violation>,
    /// Events by delay, milliseconds.
    pub(crate) delays: Vec<u32>,
    /// What else is worth a word.
    pub(crate) notes: Vec<(&'static str, String)>,
}

impl Stage {
    /// One etcd, with objects in it, the proxy, and the server behind it. No watchers yet.
    pub(crate) async fn single(options: &Options, dir: &Path) -> Result<Self> {
        let wishes = Wishes { secure: options.scenario == Scenario::Soak, ..Wishes::default() };
        Self::single_with(options, dir, wishes).await
    }

    /// The same, with a server that is wanted so.
    pub(crate) async fn single_with(options: &Options, dir: &Path, wishes: Wishes) -> Result<Self> {
        let ports = options.ports();
        let etcd = Etcd::start(&options.etcd, dir, &ports, &[]).await?;
        Self::with(options, dir, Self::behind_network(etcd, options).await?, &[ports.etcd_proxy(0)], wishes).await
    }

    /// A single member, and the network between the server and it, or who feeds the server.
    async fn behind_network(etcd: Etcd, options: &Options) -> Result<Patient> {
        let (ports, is_fed) = (options.ports(), options.subject == Subject::WatchcacheUpstream);
        let network = Proxy::listen(ports.etcd_proxy(0), if is_fed { ports.upstream() } else { ports.etcd(0) }).await?;
        Ok(Patient::Single(Box::new(etcd), network))
    }

    /// The same on `watchcache store` in the place of an etcd.
    pub(crate) async fn on_store(options: &Options, dir: &Path) -> Result<Self> {
        ensure!(options.subject.is_ours(), "the store is the binary of the server under test");
        let ports = options.ports();
        let store = Etcd::start_store(&options.server, dir, &ports).await?;
        Self::with(options, dir, Self::behind_network(store, options).await?, &[ports.etcd_proxy(0)], Wishes::default()).await
    }

    /// The same with three members, which the server follows, or who feeds it.
    pub(crate) async fn three(options: &Options, dir: &Path) -> Result<Self> {
        let ports = options.ports();
        let cluster = Cluster::start(&options.etcd, dir, &ports).await?;
        let fronts: Vec<u16> = (0..3).map(|i| ports.etcd_proxy(i)).collect();
        Self::with(options, dir, Patient::Three(cluster), &fronts, Wishes::default()).await
    }

    async fn with(options: &Options, dir: &Path, store: Patient, endpoints: &[u16], mut wishes: Wishes) -> Result<Self> {
        let ledger = Arc::new(Ledger::of(wishes.resource));
        let seeding = Workload { rate: 400, deletes: 0, ..everyday(options) };
        write_for(&seeding, &store_ports(&options.ports(), &store), &ledger, Duration::from_secs(1)).await?;
        let mut feeder = None;
        if options.subject == Subject::WatchcacheUpstream {
            let kitchen = Kitchen::prepare(options, dir).await?;
            let (member, own) = (options.ports().etcd(0), options.ports().upstream());
            // The network that scenarios break is before it where there is one member, and behind it where there are three.
            let (members, entrance) = match &store {
                Patient::Single(..) => (vec![member], endpoints[0]),
                Patient::Three(_) => (endpoints.to_vec(), own),
            };
            feeder = Some(kitchen.start(&members, own).await?);
            wishes.args.extend(kitchen.feeds(entrance)?);
            // From the start: whoever lists before it is loaded is answered by the feeder, and may have to list again.
            wishes.args.push("--resources=configmaps".to_owned());
        }
        let server = Server::start(options, dir, endpoints, wishes).await?;
        let (entrance, crowd) = (server.listener.clone(), Crowd::default());
        let (found, notes) = (Vec::new(), Vec::new());
        Ok(Self { options: options.clone(), dir: dir.to_owned(), ledger, server, entrance, store, feeder, crowd, found, notes })
    }

    /// Starts the everyday watchers, a mix of filters, starts and timeouts, and waits until most have begun.
    pub(crate) async fn watch(&mut self) {
        let habits = (0..self.options.watchers).map(habit).collect();
        self.watch_as(habits).await;
    }

    /// Starts these watchers.
    pub(crate) async fn watch_as(&mut self, habits: Vec<Habit>) {
        for habit in habits {
            let (listener, ledger, stop) = (self.entrance.clone(), self.ledger.clone(), self.crowd.stop.subscribe());
            self.crowd.reflectors.push(Reflector::start(self.crowd.reflectors.len(), habit, listener, ledger, stop));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    /// Starts the everyday writers.
    pub(crate) async fn write(&self, workload: &Workload) -> Result<Writers> {
        Writers::start(workload, &self.store_ports(), &self.ledger).await
    }

    /// The everyday workload.
    #[must_use]
    pub(crate) fn workload(&self) -> Workload {
        everyday(&self.options)
    }

    /// Where writers reach etcd, past the network that scenarios break.
    #[must_use]
    pub(crate) fn store_ports(&self) -> Vec<u16> {
        store_ports(&self.options.ports(), &self.store)
    }

    /// Whether somebody feeds the server.
    #[must_use]
    pub(crate) fn is_fed(&self) -> bool {
        self.feeder.is_some()
    }

    /// Who feeds the server.
    pub(crate) fn feeder(&mut self) -> Result<&mut Feeder> {
        self.feeder.as_mut().context("the server is fed by etcd: --subject watchcache-upstream")
    }

    /// Lets the network between the server and a single etcd, or who feeds it, be this.
    pub(crate) fn network(&mut self, gate: Gate) -> Result<()> {
        self.store.single()?.1.set(gate);
        Ok(())
    }

    /// Waits; reads with `resourceVersion=0` have to be answered all the time, for they need no etcd.
    pub(crate) async fn wait_reading(&mut self, wait: Duration) {
        let one = Filter { namespace: Some("faults-0".to_owned()), select: Select::All };
        let target = one.target(self.ledger.resource()) + "&resourceVersion=0";
        let limit = if self.is_fed() { CACHE_ANSWER_OF_FED } else { CACHE_ANSWER };
        let (end, mut answered, mut late, mut slowest) = (Instant::now() + wait, 0, 0, Duration::ZERO);
        while Instant::now() < end {
            let start = Instant::now();
            let answer = self.server.listener.get(&target, limit).await;
            slowest = slowest.max(start.elapsed());
            let problem = match answer {
                Ok((200, _)) => {
                    (answered, late) = (answered + 1, 0);
                    None
                }
                Ok((status, _)) => Some(status.to_string()),
                // A connection that is refused or reset is no machine that stood still.
                Err(error) if start.elapsed() < limit => Some(format!("{error:#}")),
                Err(error) => {
                    late += 1;
                    (late == LATE_ANSWERS).then(|| format!("{late} times in a row: {error:#}"))
                }
            };
            if let Some(problem) = problem {
                self.blame(Guarantee::Bounded, format!("resourceVersion=0 was not answered from the cache: {problem}"));
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if answered == 0 && wait >= limit * 2 {
            self.blame(Guarantee::Bounded, "resourceVersion=0 was never answered from the cache".to_owned());
        }
        tokio::time::sleep(end.saturating_duration_since(Instant::now())).await;
        self.note("reads", format!("{answered}/{}ms", slowest.as_millis()));
    }

    /// How many events the first watchers have seen with which delay until now, by milliseconds.
    #[must_use]
    pub(crate) fn delays(&self, first: usize) -> Vec<u32> {
        let mut all = Verdict::default();
        self.crowd.reflectors.iter().take(first).for_each(|reflector| all.delayed(&reflector.delays()));
        all.delays
    }

    /// A broken promise that no watcher's history shows.
    pub(crate) fn blame(&mut self, guarantee: Guarantee, detail: String) {
        self.found.push(Violation { guarantee, client: None, detail });
    }

    /// A word for the result line.
    pub(crate) fn note(&mut self, name: &'static str, value: String) {
        self.notes.push((name, value));
    }

    /// Waits until every watcher believes the truth. Writers must have stopped. How long it took; what stays behind is found later.
    pub(crate) async fn settle(&mut self) -> Duration {
        let start = Instant::now();
        let expected = self.expected();
        let truths: HashMap<&Filter, _> = expected.iter().filter_map(|(f, eras)| eras.last().map(|e| (f, e.state_at(u64::MAX)))).collect();
        while start.elapsed() < self.options.settle() {
            if self.crowd.reflectors.iter().all(|r| truths.get(r.filter()).is_some_and(|t| r.believes(t))) {
                return start.elapsed();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let behind = self.crowd.reflectors.iter().filter(|r| truths.get(r.filter()).is_none_or(|t| !r.believes(t))).count();
        self.blame(Guarantee::Bounded, format!("{behind} watchers did not reach the truth within {:?}", self.options.settle()));
        start.elapsed()
    }

    /// Settles, ends everything, and judges. Writers must have stopped.
    pub(crate) async fn verdict(mut self, expiry: Expiry) -> Result<Verdict> {
        let settled = self.settle().await;
        self.note("settled", format!("{}ms", settled.as_millis()));
        // What should not come may still be on its way.
        tokio::time::sleep(Duration::from_millis(700)).await;
        self.server.alive()?;
        self.check_ledger().await?;
        let cost = self.server.cost()?;
        self.note("rss_mib", cost.rss_mib.to_string());
        self.note("cpu_s", format!("{:.1}", cost.cpu_seconds));
        let expected = self.expected();
        let mut verdict = Verdict { clients: self.crowd.reflectors.len(), violations: self.found, notes: self.notes, ..Verdict::default() };
        self.crowd.stop.send_replace(true);
        for reflector in self.crowd.reflectors {
            let (history, delays) = reflector.history().await?;
            let eras = expected.get(&history.filter).context("every filter has its expectation")?;
            verdict.violations.extend(check(&history, eras, expiry));
            verdict.count(&history);
            verdict.delayed(&delays);
        }
        self.server.end().await?;
        Ok(verdict)
    }

    /// What 410s a restart may bring: the peer forgets its history, ours starts warm.
    #[must_use]
    pub(crate) fn expiry_of_restart(&self) -> Expiry {
        match self.options.subject {
            Subject::Watchcache => Expiry::Never,
            Subject::WatchcacheUpstream | Subject::KubeApiserver => Expiry::Anyhow,
        }
    }

    fn expected(&self) -> HashMap<Filter, Vec<Expected>> {
        let eras = self.ledger.eras();
        let mut expected = HashMap::new();
        for reflector in &self.crowd.reflectors {
            let filter = reflector.filter();
            expected.entry(filter.clone()).or_insert_with(|| eras.iter().map(|e| e.expected(filter)).collect());
        }
        expected
    }

    /// The truth log against etcd itself: a harness that lies to itself would accuse the server.
    async fn check_ledger(&self) -> Result<()> {
        let all = Filter { namespace: None, select: Select::All };
        let eras = self.ledger.eras();
        let era = eras.last().context("a ledger has an era")?;
        let state = era.expected(&all).state_at(u64::MAX);
        let (names, resource) = (era.living(), self.ledger.resource());
        let logged: HashMap<String, u64> = names.iter().map(|(id, (ns, name))| (resource.etcd_key(ns, name), state[id].0)).collect();
        let stored: HashMap<String, u64> = etcd::stored(self.store_ports()[0], resource).await?.into_iter().collect();
        anyhow::ensure!(stored == logged, "the truth log differs from etcd: {} keys there, {} in the log", stored.len(), logged.len());
        Ok(())
    }
}

/// Writes for a while, without watchers.
pub(crate) async fn write_for(workload: &Workload, ports: &[u16], ledger: &Arc<Ledger>, time: Duration) -> Result<()> {
    let writers = Writers::start(workload, ports, ledger).await?;
    tokio::time::sleep(time).await;
    writers.stop().await
}

fn store_ports(ports: &Ports, store: &Patient) -> Vec<u16> {
    let members = if matches!(store, Patient::Single(..)) { 1 } else { 3 };
    (0..members).map(|i| ports.etcd(i)).collect()
}

/// Returns the namespaces of all that writers of the harness make.
pub(crate) fn namespaces() -> impl Iterator<Item = String> {
    (0..NAMESPACES).map(|i| format!("faults-{i}"))
}

fn everyday(options: &Options) -> Workload {
    Workload {
        namespaces: namespaces().collect(),
        names: NAMES,
        writers: 8,
        rate: options.writes_per_second,
        // A kube-apiserver writes one object at a revision, and takes others apart.
        transactions: if options.subject == Subject::WatchcacheUpstream { 0 } else { options.transactions },
        deletes: 15,
        payload_bytes: PAYLOAD_BYTES,
        seed: options.seed,
    }
}

/// The n-th everyday watcher: scopes, selectors, starts and timeouts in turn.
pub(crate) fn habit(nth: usize) -> Habit {
    let namespace = |of: usize| Some(format!("faults-{}", of % NAMESPACES));
    let filter = match nth % 8 {
        0 => Filter { namespace: None, select: Select::All },
        1 | 2 => Filter { namespace: namespace(nth / 8), select: Select::All },
        3 => Filter { namespace: None, select: Select::Tier(0) },
        4 => Filter { namespace: namespace(nth / 8), select: Select::Tier(1) },
        5 => Filter { namespace: None, select: Select::NotTier(2) },
        6 => Filter { namespace: namespace(nth / 8), select: Select::Name(format!("cm-{:04}", nth % NAMES)) },
        _ => Filter { namespace: namespace(nth / 8), select: Select::NotTier(0) },
    };
    let start = [Start::ListAny, Start::Stream, Start::ListNewest][nth % 3];
    let watch_seconds = if nth.is_multiple_of(5) { 4 + nth as u64 % 7 } else { 300 };
    Habit { filter, start, watch_seconds, brake: None, encoding: Encoding::Json }
}

#[derive(Debug)]
struct Crowd {
    stop: watch::Sender<bool>,
    reflectors: Vec<Reflector>,
}

impl Default for Crowd {
    fn default() -> Self {
        Self { stop: watch::Sender::new(false), reflectors: Vec::new() }
    }
}

impl Verdict {
    /// Counts what a watcher saw.
    pub(crate) fn count(&mut self, history: &History) {
        let mut begun_anew = false;
        for record in &history.records {
            match record {
                Record::Event(_) => self.events += 1,
                Record::Ended { .. } => self.ends += 1,
                Record::Opened { .. } => self.resumes += usize::from(!std::mem::take(&mut begun_anew)),
                Record::Listed { .. } => begun_anew = true,
                Record::Expired { .. } => self.expired += 1,
                Record::Refused(why) => {
                    let short: String = why.chars().take(60).collect();
                    *self.refused.entry(short).or_default() += 1;
                }
                Record::Foreign(_) | Record::Bookmark(_) | Record::Odd(_) => {}
            }
        }
    }

    /// Counts the events of a watcher by their delays.
    pub(crate) fn delayed(&mut self, delays: &[u32]) {
        self.delays.resize(self.delays.len().max(delays.len()), 0);
        for (sum, more) in self.delays.iter_mut().zip(delays) {
            *sum += more;
        }
    }

    /// The delay that this share of all events did not exceed, milliseconds.
    #[must_use]
    pub(crate) fn delay_ms(&self, percent: u64) -> usize {
        delay_ms(&self.delays, percent)
    }
}

/// The delay that this share of events, counted by milliseconds, did not exceed.
#[must_use]
pub(crate) fn delay_ms(delays: &[u32], percent: u64) -> usize {
    let all: u64 = delays.iter().map(|n| u64::from(*n)).sum();
    let mut left = all * percent / 100;
    for (ms, n) in delays.iter().enumerate() {
        if u64::from(*n) >= left {
            return ms;
        }
        left -= u64::from(*n);
    }
    delays.len()
}
