//! Writers, a watcher and a reader that remember what they were told until the store is gone, and the check of a store that is back. Knows no process.

use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use proto::{
    Event, KeyValue, WatchCreateRequest,
    event::EventType,
    testing::{Client, Range, get, put, txn, watch as watching},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{task::JoinSet, time::timeout};

use super::history::{Change, History};

/// Keys of a writer: few, so that they are put, deleted and put again.
const KEYS: u32 = 20;
/// Bytes of a value, at most.
const VALUE_BYTES: usize = 3000;
/// How long anything may take that is not a client of a store that is about to go.
const PATIENCE: Duration = Duration::from_secs(120);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What the clients of one life of the store were told; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    acknowledged: Vec<Change>,
    shown: Vec<Change>,
    /// The highest revision in any header.
    head: i64,
}

impl Told {
    /// Acknowledged changes, changes shown to watchers and readers.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let all = self.0.lock().expect("no client panics with the lock");
        (all.acknowledged.len(), all.shown.len())
    }

    fn add(&self, head: i64, into: impl FnOnce(&mut All) -> &mut Vec<Change>, changes: impl IntoIterator<Item = Change>) {
        let mut all = self.0.lock().expect("no client panics with the lock");
        all.head = all.head.max(head);
        into(&mut all).extend(changes);
    }
}

/// Starts clients, each with its own of `connections`: two for the watcher and the reader, the others for writers. They end with the store.
pub(crate) fn start(connections: Vec<Client>, after: i64, seed: u64, told: &Told) -> JoinSet<()> {
    let mut set = JoinSet::new();
    for (number, mut client) in connections.into_iter().enumerate() {
        let told = told.clone();
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
        match number {
            0 => set.spawn(async move {
                let _ended_with_the_store = watch(client, after.max(1) + 1, &told).await;
            }),
            1 => set.spawn(async move { while read(&mut client, &told).await.is_some() {} }),
            writer => set.spawn(async move { while write(&mut client, &mut rng, writer, &told).await.is_some() {} }),
        };
    }
    set
}

/// Waits until all have noticed that the store is gone.
pub(crate) async fn end(mut clients: JoinSet<()>) {
    let _late_ones_are_aborted = timeout(PATIENCE, async { while clients.join_next().await.is_some() {} }).await;
    clients.shutdown().await;
}

/// Reads what is new since the last check, and compares it, the whole state, and what was told.
pub(crate) async fn check(client: &mut Client, history: &mut History, told: &Told) -> Outcome<Vec<String>> {
    let all = client.range(get("").prefix()).await?;
    let head = all.header.ok_or("a range has a header")?.revision;
    let changes = changes(client, history.head(), head).await?;
    let mut found = history.extend(head, changes);
    let state: Vec<_> = all.kvs.into_iter().map(|kv| (kv.key, kv.mod_revision, kv.value)).collect();
    if state != history.state() {
        found.push(format!("the state of {} keys at {head} is not what the changes left ({} keys)", state.len(), history.state().len()));
    }
    let told = told.0.lock().expect("no client panics with the lock");
    if told.head > head {
        found.push(format!("a client was shown revision {}, the head is {head}", told.head));
    }
    found.extend(history.missing(&told.acknowledged, "an acknowledged change"));
    found.extend(history.missing(&told.shown, "a change that was shown"));
    Ok(found)
}

/// All changes after one revision up to another, by a watch from the past.
async fn changes(client: &mut Client, after: i64, head: i64) -> Outcome<Vec<Change>> {
    let (mut changes, mut seen) = (Vec::new(), after.max(1));
    if head <= seen {
        return Ok(changes);
    }
    let mut watch = client.watch(WatchCreateRequest { start_revision: seen + 1, ..watching("").prefix() }).await?;
    while seen < head {
        let message = timeout(PATIENCE, watch.message()).await.map_err(|_| "the history does not come")??.ok_or("the watch ended")?;
        if message.canceled {
            return Err(format!("the watch from {} was canceled: {}", after + 1, message.cancel_reason).into());
        }
        changes.extend(message.events.iter().filter_map(change));
        seen = changes.last().map_or(seen, |change| change.revision);
    }
    Ok(changes)
}

fn change(event: &Event) -> Option<Change> {
    let kv = event.kv.as_ref()?;
    let content = (event.r#type() == EventType::Put).then(|| kv.value.clone());
    Some(Change { revision: kv.mod_revision, key: kv.key.clone(), content })
}

/// One put, delete or transaction; `None` when the store is gone.
async fn write(client: &mut Client, rng: &mut StdRng, writer: usize, told: &Told) -> Option<()> {
    let key = format!("told/{writer:02}/{:02}", rng.random_range(0..KEYS)).into_bytes();
    let mut value = vec![0; rng.random_range(1..VALUE_BYTES)];
    rng.fill(&mut value[..]);
    let (revision, acknowledged) = match rng.random_range(0..10) {
        0 => {
            let answer = client.delete(key.clone()).await.ok()?;
            let deleted = if answer.deleted > 0 { vec![(key, None)] } else { Vec::new() };
            (answer.header?.revision, deleted)
        }
        1 | 2 => {
            let second = [&key[..], b"/second"].concat();
            let puts = [put(key.clone(), value.clone()).into(), put(second.clone(), value.clone()).into()];
            let answer = client.txn(txn([], puts)).await.ok()?;
            (answer.header?.revision, vec![(key, Some(value.clone())), (second, Some(value))])
        }
        _ => {
            let answer = client.put((key.clone(), value.clone())).await.ok()?;
            (answer.header?.revision, vec![(key, Some(value))])
        }
    };
    let changes = acknowledged.into_iter().map(|(key, content)| Change { revision, key, content });
    told.add(revision, |all| &mut all.acknowledged, changes);
    Some(())
}

async fn watch(mut client: Client, from: i64, told: &Told) -> Outcome<()> {
    let mut watch = client.watch(WatchCreateRequest { start_revision: from, ..watching("told/").prefix() }).await?;
    while let Some(message) = watch.message().await? {
        let head = message.header.map_or(0, |header| header.revision);
        told.add(head, |all| &mut all.shown, message.events.iter().filter_map(change));
        if rand::random_ratio(1, 10) {
            watch.requests.progress().await?;
        }
    }
    Ok(())
}

async fn read(client: &mut Client, told: &Told) -> Option<()> {
    let writer = rand::random_range(2..6);
    let answer = client.range(get(format!("told/{writer:02}/")).prefix()).await.ok()?;
    let shown = |kv: KeyValue| Change { revision: kv.mod_revision, key: kv.key, content: Some(kv.value) };
    told.add(answer.header?.revision, |all| &mut all.shown, answer.kvs.into_iter().map(shown));
    Some(())
}
