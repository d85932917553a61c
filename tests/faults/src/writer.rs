//! Writers: they change objects straight in etcd, and know for certain what became of each write, through kills and lost answers.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use proto::{
    Compare, RequestOp,
    compare::{CompareResult, TargetUnion},
    testing::{Client, delete, put, txn},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    etcd,
    object::{Draft, Resource, TIERS},
    truth::{Change, Ledger},
};

/// How long a writer waits before it asks again what became of a write.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How long etcd may be away before a writer gives up: longer than any scenario's outage.
const AWAY_MAX: Duration = Duration::from_secs(120);
/// How far a writer may be behind its pace and still make up for it.
const CATCH_UP: Duration = Duration::from_millis(500);

/// What the writers do.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    /// Namespaces in which they write.
    pub(crate) namespaces: Vec<String>,
    /// Objects in each.
    pub(crate) names: usize,
    /// Writers at the same time.
    pub(crate) writers: usize,
    /// Writes a second, all together.
    pub(crate) rate: u32,
    /// Share of writes, percent, that are transactions of several objects.
    pub(crate) transactions: u32,
    /// Share of writes, percent, that delete.
    pub(crate) deletes: u32,
    /// Bytes of payload in each object.
    pub(crate) payload_bytes: usize,
    /// Seed.
    pub(crate) seed: u64,
}

/// Running writers.
#[derive(Debug)]
pub(crate) struct Writers {
    stop: watch::Sender<bool>,
    tasks: JoinSet<Result<()>>,
}

impl Writers {
    /// Starts them. `ports` are endpoints of one etcd; a writer whose endpoint fails goes to the next.
    pub(crate) async fn start(workload: &Workload, ports: &[u16], ledger: &Arc<Ledger>) -> Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let living = ledger.eras().last().context("a ledger has an era")?.living();
        for nth in 0..workload.writers {
            let mut slots = Vec::new();
            for namespace in &workload.namespaces {
                for name in (nth..workload.names).step_by(workload.writers).map(|i| format!("cm-{i:04}")) {
                    let exists = living.contains_key(&crate::object::key_id(namespace, &name));
                    slots.push(Slot { namespace: namespace.clone(), name, exists });
                }
            }
            let store = Store::connect(ports, ledger.clone(), format!("faults/marker/{}/{nth}", ledger.next_seq()))?;
            let rng = StdRng::seed_from_u64(workload.seed ^ ledger.next_seq() ^ (nth as u64) << 32);
            let writer = Writer { slots, store, rng, workload: workload.clone() };
            tasks.spawn(writer.run(stopped.clone()));
        }
        Ok(Self { stop, tasks })
    }

    /// Stops them; each finds out first what became of its last write.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

struct Slot {
    namespace: String,
    name: String,
    exists: bool,
}

struct Writer {
    slots: Vec<Slot>,
    store: Store,
    rng: StdRng,
    workload: Workload,
}

impl Writer {
    async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<()> {
        let period = Duration::from_secs(self.workload.writers as u64) / self.workload.rate.max(1);
        let mut due = Instant::now();
        loop {
            tokio::select! {
                biased;
                _stopped = stop.wait_for(|s| *s) => break,
                () = sleep_until(due) => {}
            }
            self.write().await?;
            // A short delay is made up for, an outage is not.
            due = (due + period).max(Instant::now() - CATCH_UP);
        }
        self.store.certain().await
    }

    async fn write(&mut self) -> Result<()> {
        let many = self.rng.random_range(0..100) < self.workload.transactions;
        let count = if many { self.rng.random_range(2..=8).min(self.slots.len()) } else { 1 };
        let first = self.rng.random_range(0..self.slots.len());
        let mut writes = Vec::new();
        let mut after = Vec::new();
        let slots = self.slots.len();
        for at in (0..count).map(|i| (first + i) % slots) {
            let delete = self.slots[at].exists && self.rng.random_range(0..100) < self.workload.deletes;
            writes.push(self.one(at, delete));
            after.push((at, !delete));
        }
        if self.store.commit(writes).await?.is_some() {
            for (at, exists) in after {
                self.slots[at].exists = exists;
            }
        }
        Ok(())
    }

    fn one(&mut self, at: usize, delete: bool) -> Write {
        let slot = &self.slots[at];
        let (namespace, name) = (slot.namespace.clone(), slot.name.clone());
        if delete {
            return Write::Delete { namespace, name };
        }
        let tiers: Vec<u8> = (0..u8::try_from(TIERS.len()).expect("three")).collect();
        let tier = *tiers.choose(&mut self.rng).expect("three");
        Write::Put(Draft { namespace, name, tier, seq: self.store.ledger.next_seq(), payload_bytes: self.workload.payload_bytes })
    }
}

/// One change of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// Create or update.
    Put(Draft),
    /// Delete; of an object that does not exist it is nothing.
    Delete {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// One writer's line to etcd. Every transaction also writes the writer's marker and compares the marker's last revision: so a lost answer
/// can be made up for by reading the marker, and a transaction that arrives late fails.
pub(crate) struct Store {
    clients: Vec<Client>,
    at: usize,
    ledger: Arc<Ledger>,
    marker: String,
    marker_revision: i64,
    /// Sent, not acknowledged, not seen to have happened.
    uncertain: Vec<(u64, Vec<Write>)>,
}

impl Store {
    /// A line to these endpoints of one etcd; no other writer may have the same marker.
    pub(crate) fn connect(ports: &[u16], ledger: Arc<Ledger>, marker: String) -> Result<Self> {
        let clients = ports.iter().map(|port| etcd::client(*port)).collect::<Result<_>>()?;
        Ok(Self { clients, at: 0, ledger, marker, marker_revision: 0, uncertain: Vec::new() })
    }

    /// One transaction: its revision, or `None` when it did not happen. An error only when etcd stays away.
    pub(crate) async fn commit(&mut self, writes: Vec<Write>) -> Result<Option<u64>> {
        let id = self.ledger.next_seq();
        let ops = writes.iter().map(|write| write.op(self.ledger.resource())).chain([put(self.marker.clone(), id.to_string()).into()]);
        let unmoved = Compare::new(self.marker.clone(), CompareResult::Equal, TargetUnion::ModRevision(self.marker_revision));
        let txn = txn([unmoved], ops.collect::<Vec<_>>());
        self.uncertain.push((id, writes));
        match self.clients[self.at].txn(txn).await {
            Ok(answer) if answer.succeeded => {
                let revision = answer.header.context("a transaction has a header")?.revision;
                self.happened(id, revision).map(Some)
            }
            Ok(_) | Err(_) => self.find_out(id).await,
        }
    }

    /// The same again until it has happened.
    pub(crate) async fn commit_surely(&mut self, writes: Vec<Write>) -> Result<()> {
        while self.commit(writes.clone()).await?.is_none() {
            // One of the tries before has happened instead.
            if self.uncertain.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Returns when no transaction can happen any more whose answer was not waited for: a slow etcd may commit one after the marker was read.
    async fn certain(&mut self) -> Result<()> {
        while !self.uncertain.is_empty() {
            self.commit(Vec::new()).await?;
        }
        Ok(())
    }

    /// Reads the marker until somebody answers: has one of the uncertain transactions happened, and was it this one?
    async fn find_out(&mut self, asked: u64) -> Result<Option<u64>> {
        let start = Instant::now();
        while start.elapsed() < AWAY_MAX {
            self.at = (self.at + 1) % self.clients.len();
            if let Ok(answer) = self.clients[self.at].get(self.marker.clone()).await {
                let Some(kv) = answer.kvs.first().filter(|kv| kv.mod_revision != self.marker_revision) else { return Ok(None) };
                let id = std::str::from_utf8(&kv.value)?.parse().context("markers are numbers")?;
                let revision = kv.mod_revision;
                return Ok(Some(self.happened(id, revision)?).filter(|_| id == asked));
            }
            sleep(ASK_AGAIN).await;
        }
        anyhow::bail!("etcd did not answer within {AWAY_MAX:?}")
    }

    /// One uncertain transaction happened; all others compared the same marker and cannot any more.
    fn happened(&mut self, id: u64, revision: i64) -> Result<u64> {
        let at = self.uncertain.iter().position(|(i, _)| *i == id).context("only this writer writes its marker")?;
        let (_, writes) = self.uncertain.swap_remove(at);
        self.uncertain.clear();
        self.marker_revision = revision;
        let revision = u64::try_from(revision)?;
        self.ledger.record(revision, writes.iter().map(Write::change).collect());
        Ok(revision)
    }
}

impl Write {
    fn op(&self, resource: Resource) -> RequestOp {
        match self {
            Self::Put(draft) => put(resource.etcd_key(&draft.namespace, &draft.name), draft.stored(resource)).into(),
            Self::Delete { namespace, name } => delete(resource.etcd_key(namespace, name)).into(),
        }
    }

    fn change(&self) -> Change {
        match self {
            Self::Put(draft) => Change::put(draft),
            Self::Delete { namespace, name } => Change::delete(namespace, name),
        }
    }
}
