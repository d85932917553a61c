//! The truth of one resource, read from etcd itself: after the writes are done, or while they are made.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use proto::{
    Event, RangeRequest, ResponseHeader, WatchCreateRequest,
    event::EventType,
    testing::{Client, Range, get, watch as watching},
};
use tokio::{sync::watch, task::JoinHandle};

use etcd::{Etcd, EtcdConfig};
use model::Revision;

use super::say;
use crate::{
    guarantees::{Item, Truth, Write},
    protobuf,
};

/// Revisions that a truth in the making remembers: minutes of writes, longer than any client goes on from one list.
const REMEMBERED: u64 = 40_000;

/// Longest message taken from etcd, bytes: a range of all test objects fits.
const MESSAGE_LIMIT: usize = 256 << 20;
/// How long etcd may take to replay what a test wrote.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often etcd is asked how far a watch has come.
const PROGRESS: Duration = Duration::from_millis(100);

/// etcd's revision now.
pub(super) async fn revision(etcd: SocketAddr) -> Result<u64, Box<dyn std::error::Error>> {
    Ok(header_revision(client(etcd)?.get("/").await?.header))
}

/// Compacts etcd, as API servers tell each other about it (spec list-watch §10).
pub(crate) async fn compact(etcd: SocketAddr, revision: u64) -> super::Outcome {
    let etcd = Etcd::new(EtcdConfig { endpoints: vec![format!("http://{etcd}")], ..EtcdConfig::default() })?;
    let mut version = 0;
    while let (_, Err(found)) = etcd.put_if_version("compact_rev_key".into(), revision.to_string().into(), version).await? {
        version = found.version;
    }
    etcd.compact(Revision(revision)).await?;
    Ok(())
}

/// The truth of one resource as it grows, from one watch straight on etcd.
pub(super) struct Growing {
    truth: Arc<Mutex<Truth>>,
    head: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl Growing {
    /// From etcd's revision now.
    pub(super) async fn start(etcd: SocketAddr, resource: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let start = truth(etcd, resource, revision(etcd).await?).await?;
        let (told, head) = watch::channel(start.head);
        let from = i64::try_from(start.head)? + 1;
        let truth = Arc::new(Mutex::new(start));
        let (prefix, grown) = (format!("/registry/{resource}/"), Arc::clone(&truth));
        let task = tokio::spawn(async move {
            if let Err(error) = grow(etcd, &prefix, from, &grown, &told).await {
                say(&format!("live: the truth ended: {error}"));
            }
        });
        Ok(Self { truth, head, task })
    }

    /// Waits until everything up to a revision is known.
    pub(super) async fn reach(&self, revision: u64) -> io::Result<()> {
        let reached = async { self.head.clone().wait_for(|head| *head >= revision).await.map(drop) };
        let Ok(reached) = tokio::time::timeout(PATIENCE, reached).await else { return Err(io::ErrorKind::TimedOut.into()) };
        reached.map_err(io::Error::other)
    }

    /// What is known between two revisions; `None` when it is forgotten or not there yet.
    pub(super) fn between(&self, from: u64, until: u64) -> Option<Truth> {
        let truth = self.truth.lock().expect("no holder panics");
        (truth.knows(from) && truth.knows(until)).then(|| truth.window(from, until))
    }

    /// The newest revision that is known.
    pub(super) fn head(&self) -> u64 {
        *self.head.borrow()
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn grow(
    etcd: SocketAddr,
    prefix: &str,
    from: i64,
    truth: &Mutex<Truth>,
    told: &watch::Sender<u64>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut stream = client(etcd)?.watch(WatchCreateRequest { start_revision: from, ..watching(prefix).prefix() }).await?;
    let mut asked = Instant::now();
    loop {
        if asked.elapsed() > PROGRESS {
            asked = Instant::now();
            // Writes of other resources move the revision as well, and no event says so.
            stream.requests.progress().await?;
        }
        let Ok(message) = tokio::time::timeout(PROGRESS, stream.message()).await else { continue };
        let message = message?.filter(|m| !m.canceled).ok_or("etcd ended the watch")?;
        let writes = changes(prefix, &message.events)?;
        let head = match writes.last() {
            Some(write) => write.revision,
            // Created says what is there, not that all of it has come.
            None if message.created => continue,
            None => header_revision(message.header),
        };
        let mut truth = truth.lock().expect("no holder panics");
        let head = head.max(truth.head);
        truth.extend(writes, head);
        truth.forget(head.saturating_sub(REMEMBERED));
        drop(truth);
        told.send_replace(head);
    }
}

fn changes(prefix: &str, events: &[Event]) -> io::Result<Vec<Write>> {
    let mut writes = Vec::new();
    for event in events {
        let Some(pair) = &event.kv else { continue };
        let body = (event.r#type() == EventType::Put).then(|| as_json(&pair.value));
        writes.push(Write { key: object_key(prefix, &pair.key)?, revision: number(pair.mod_revision), body });
    }
    Ok(writes)
}

/// A stored value as JSON, which it may be already. A message that cannot be read is no body that any server shows.
fn as_json(value: &[u8]) -> Vec<u8> {
    protobuf::object(value).map_or_else(|| value.to_vec(), String::into_bytes)
}

/// Everything under `/registry/<resource>/` at `floor`, and every write after it until now.
pub(super) async fn truth(etcd: SocketAddr, resource: &str, floor: u64) -> Result<Truth, Box<dyn std::error::Error>> {
    let prefix = format!("/registry/{resource}/");
    let mut client = client(etcd)?;
    let mut kv = client.kv.clone().max_decoding_message_size(MESSAGE_LIMIT);
    let at = i64::try_from(floor)?;
    let range = kv.range(RangeRequest { revision: at, ..get(prefix.as_str()).prefix() }).await?.into_inner();
    let head = header_revision(range.header);
    let mut start = Vec::new();
    for pair in range.kvs {
        start.push(Item { key: object_key(&prefix, &pair.key)?, revision: number(pair.mod_revision), body: as_json(&pair.value) });
    }
    let writes = tokio::time::timeout(PATIENCE, writes(&mut client, &prefix, at + 1, head)).await??;
    Ok(Truth::new(floor, start, writes, head))
}

async fn writes(client: &mut Client, prefix: &str, from: i64, head: u64) -> Result<Vec<Write>, Box<dyn std::error::Error>> {
    let mut stream = client.watch(WatchCreateRequest { start_revision: from, ..watching(prefix).prefix() }).await?;
    let mut writes = Vec::new();
    loop {
        // etcd answers only when the watch has caught up, so it is asked again and again.
        stream.requests.progress().await?;
        let Ok(message) = tokio::time::timeout(Duration::from_millis(100), stream.message()).await else { continue };
        let Some(message) = message? else { return Err("etcd ended the watch".into()) };
        if message.canceled {
            return Err(format!("etcd cancelled the watch: {}", message.cancel_reason).into());
        }
        writes.extend(changes(prefix, &message.events)?);
        let caught_up = message.events.is_empty() && !message.created;
        if caught_up && header_revision(message.header) >= head {
            writes.retain(|w| w.revision <= head);
            return Ok(writes);
        }
    }
}

/// `namespace/name`, or `/name`, from a storage key.
fn object_key(prefix: &str, key: &[u8]) -> io::Result<String> {
    let rest = std::str::from_utf8(key).map_err(io::Error::other)?;
    let rest = rest.strip_prefix(prefix).ok_or_else(|| io::Error::other("a key outside its prefix"))?;
    Ok(if rest.contains('/') { rest.to_owned() } else { format!("/{rest}") })
}

fn header_revision(header: Option<ResponseHeader>) -> u64 {
    header.map_or(0, |header| number(header.revision))
}

fn number(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

fn client(etcd: SocketAddr) -> Result<Client, http::uri::InvalidUri> {
    Client::connect(&format!("http://{etcd}"))
}
