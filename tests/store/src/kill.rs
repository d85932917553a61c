//! `kill`: SIGKILL to the real binary at random moments under writers, a watcher and a reader; what they were told must be there afterwards.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use etcd_client::{
    Client, EventType, GetOptions, PutOptions, Txn, TxnOp, WatchOptions,
    proto::{PbEvent, PbKeyValue},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    connection::{connect, connect_for_streams, head},
    history::{Change, History},
    server::Server,
};

/// How long the writers write before the kill, at most and at least, milliseconds.
const LIFE_MS: std::ops::Range<u64> = 20..1500;
/// Keys of a writer: few, so that they are put, deleted and put again.
const KEYS: u32 = 20;
/// Bytes of a value, at most.
const VALUE_BYTES: usize = 3000;

/// What is killed, how often.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The server's binary.
    #[arg(long)]
    server: PathBuf,
    /// Kills.
    #[arg(long, default_value_t = 50)]
    rounds: u32,
    /// Concurrent writers.
    #[arg(long, default_value_t = 8)]
    writers: u32,
    /// Port of the store on loopback.
    #[arg(long, default_value_t = 21790)]
    port: u16,
    /// Seed of the moments and the writes; random without.
    #[arg(long)]
    seed: Option<u64>,
    /// Folder of the data directory and the log; a temporary one without, kept when something is found.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Kills and checks; whether nothing was lost.
pub(crate) async fn run(options: &Options) -> Result<bool> {
    let seed = options.seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let temporary = tempfile::Builder::new().prefix("watchcache-kill-").tempdir()?;
    let root = options.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    let data = root.join("store");
    ensure!(!data.exists(), "{} exists: an older history would be somebody else's", data.display());
    let (url, log) = (format!("http://127.0.0.1:{}", options.port), root.join("store.log"));
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut history, mut found, mut acknowledged, mut shown) = (History::default(), Vec::new(), 0, 0);
    for round in 1..=options.rounds {
        let server = Server::start(&options.server, &data, &url, &log).await?;
        found.extend(check(&url, &mut history, &Told::default()).await.with_context(|| format!("before round {round}"))?);
        let told = Told::default();
        let life = Duration::from_millis(rng.random_range(LIFE_MS));
        let clients = clients(options.writers, &url, history.head(), rng.random(), &told).await?;
        sleep(life).await;
        server.kill().await?;
        ends(clients).await;
        // What was told is compared with a store that is back on the same data.
        let server = Server::start(&options.server, &data, &url, &log).await?;
        found.extend(check(&url, &mut history, &told).await.with_context(|| format!("after round {round}"))?);
        acknowledged += told.count(|all| all.acknowledged.len());
        shown += told.count(|all| all.shown.len());
        server.kill().await?;
        if !found.is_empty() {
            break;
        }
    }
    println!(
        "{} kills, {acknowledged} acknowledged changes, {shown} shown to watchers and readers, head {}",
        options.rounds,
        history.head()
    );
    found.iter().take(20).for_each(|violation| println!("  {violation}"));
    println!("violations: {}", found.len());
    if !found.is_empty() && options.dir.is_none() {
        println!("data and log: {}", temporary.keep().display());
    }
    Ok(found.is_empty())
}

/// What the clients of one life were told.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    acknowledged: Vec<Change>,
    shown: Vec<Change>,
    /// The highest revision in any header.
    head: i64,
}

impl Told {
    fn add(&self, head: i64, into: impl FnOnce(&mut All) -> &mut Vec<Change>, changes: impl IntoIterator<Item = Change>) {
        let mut all = self.0.lock().expect("no client panics with the lock");
        all.head = all.head.max(head);
        into(&mut all).extend(changes);
    }

    fn count(&self, of: impl FnOnce(&All) -> usize) -> usize {
        of(&self.0.lock().expect("no client panics with the lock"))
    }
}

/// Reads what is new since the last check, and compares.
async fn check(url: &str, history: &mut History, told: &Told) -> Result<Vec<String>> {
    let mut client = connect_for_streams(url).await?;
    let head = head(&mut client).await?;
    let changes = changes(&mut client, history.head(), head).await?;
    let mut found = history.extend(head, changes);
    let all = told.0.lock().expect("no client panics with the lock");
    if all.head > head {
        found.push(format!("a client was shown revision {}, the head is {head}", all.head));
    }
    found.extend(history.missing(&all.acknowledged, "an acknowledged change"));
    found.extend(history.missing(&all.shown, "a change that was shown"));
    Ok(found)
}

/// All changes after one revision up to another, by a watch from the past.
async fn changes(client: &mut Client, after: i64, head: i64) -> Result<Vec<Change>> {
    let (mut changes, mut seen) = (Vec::new(), after.max(1));
    if head <= seen {
        return Ok(changes);
    }
    let options = WatchOptions::new().with_all_keys().with_start_revision(seen + 1);
    let mut watch = client.watch("\0", Some(options)).await?;
    while seen < head {
        let message = tokio::time::timeout(Duration::from_secs(10), watch.message()).await.context("the history does not come")??;
        let message = message.context("the watch ended")?;
        ensure!(!message.canceled(), "the watch from {} was canceled: {}", after + 1, message.cancel_reason());
        for event in message.events() {
            changes.extend(change(&event.0));
        }
        seen = changes.last().map_or(seen, |change| change.revision);
    }
    Ok(changes)
}

fn change(event: &PbEvent) -> Option<Change> {
    let kv = event.kv.as_ref()?;
    let content = (event.r#type == EventType::Put as i32).then(|| kv.value.clone());
    Some(Change { revision: kv.mod_revision, key: kv.key.clone(), content })
}

/// Writers, a watcher and a reader, each on a connection of its own; they end with the store.
async fn clients(writers: u32, url: &str, after: i64, seed: u64, told: &Told) -> Result<JoinSet<()>> {
    let mut set = JoinSet::new();
    for writer in 0..writers {
        let (mut client, told) = (connect(url).await?, told.clone());
        let mut rng = StdRng::seed_from_u64(seed ^ u64::from(writer));
        set.spawn(async move { while write(&mut client, &mut rng, writer, &told).await.is_some() {} });
    }
    let (client, watching) = (connect_for_streams(url).await?, told.clone());
    set.spawn(async move {
        let _ended_with_the_store = watch(client, after.max(1) + 1, &watching).await;
    });
    let (mut client, reading) = (connect(url).await?, told.clone());
    set.spawn(async move { while read(&mut client, &reading).await.is_some() {} });
    Ok(set)
}

async fn ends(mut clients: JoinSet<()>) {
    /// A client notices a closed connection at once; this is for one that does not.
    const PATIENCE: Duration = Duration::from_secs(5);
    let _late_ones_are_aborted = tokio::time::timeout(PATIENCE, async { while clients.join_next().await.is_some() {} }).await;
    clients.shutdown().await;
}

/// One put, delete or transaction; `None` when the store is gone.
async fn write(client: &mut Client, rng: &mut StdRng, writer: u32, told: &Told) -> Option<()> {
    let key = format!("kill/{writer:02}/{:02}", rng.random_range(0..KEYS)).into_bytes();
    let mut value = vec![0; rng.random_range(1..VALUE_BYTES)];
    rng.fill(&mut value[..]);
    let acknowledged = match rng.random_range(0..10) {
        0 => {
            let answer = client.delete(key.clone(), None).await.ok()?;
            let revision = answer.header()?.revision();
            vec![Change { revision, key, content: None }].into_iter().filter(|_| answer.deleted() > 0).collect()
        }
        1 | 2 => {
            let second = [&key[..], b"/second"].concat();
            let puts = [TxnOp::put(key.clone(), value.clone(), None), TxnOp::put(second.clone(), value.clone(), None)];
            let answer = client.txn(Txn::new().and_then(puts)).await.ok()?;
            let revision = answer.header()?.revision();
            [key, second].into_iter().map(|key| Change { revision, key, content: Some(value.clone()) }).collect()
        }
        _ => {
            let answer = client.put(key.clone(), value.clone(), Some(PutOptions::new())).await.ok()?;
            vec![Change { revision: answer.header()?.revision(), key, content: Some(value) }]
        }
    };
    let head = acknowledged.first().map_or(0, |change: &Change| change.revision);
    told.add(head, |all| &mut all.acknowledged, acknowledged);
    Some(())
}

async fn watch(mut client: Client, from: i64, told: &Told) -> Result<()> {
    let options = WatchOptions::new().with_prefix().with_start_revision(from);
    let mut watch = client.watch("kill/", Some(options)).await?;
    while let Some(message) = watch.message().await? {
        let head = message.header().map_or(0, |header| header.revision());
        told.add(head, |all| &mut all.shown, message.events().iter().filter_map(|event| change(&event.0)));
        if rand::random_ratio(1, 10) {
            watch.request_progress().await?;
        }
    }
    Ok(())
}

async fn read(client: &mut Client, told: &Told) -> Option<()> {
    let writer = rand::random_range(0..4);
    let answer = client.get(format!("kill/{writer:02}/"), Some(GetOptions::new().with_prefix())).await.ok()?;
    let put = |kv: &PbKeyValue| Change { revision: kv.mod_revision, key: kv.key.clone(), content: Some(kv.value.clone()) };
    told.add(answer.header()?.revision(), |all| &mut all.shown, answer.0.kvs.iter().map(put));
    Some(())
}
