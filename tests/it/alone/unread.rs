//! A watch that nobody reads while much is written (spec list-watch §12, 38). kube-apiserver ends such a watch; ours goes on from the ring when it is
//! read again, or says 410 when the ring has moved past (docs/conformance.md, "a watcher that does not read"). The others notice nothing.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{Alone, Failure, Outcome, asked, revision};
use crate::{
    client::{Client, Watch},
    guarantees::Seen,
    live::say,
};

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
/// Bytes of data in the object: far more with `WRITES` than sockets and the server's buffers hold (Linux: 6 MB, 4 MB).
const BYTES: usize = 100_000;
const WRITES: usize = 160;
/// Writes that are measured together; the last so many of `WRITES` come when nothing that is not read fits into a socket any more.
const ROUND: usize = 40;
/// The most by which an unread watch may delay an event of another one: the time budget of kube-apiserver's dispatcher (spec list-watch §4.8).
const DELAY: Duration = Duration::from_millis(100);
/// Rounds of which one has to keep that: what keeps a server waiting does so in each, a busy machine does not.
const ROUNDS: usize = 30;
/// How long an event may take to come at all.
const PATIENCE: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unread_watch_goes_on_from_the_ring() -> Outcome {
    let story = Story::play(&[]).await?;
    let (seen, end) = read_all(story.unread, story.written.len()).await?;
    assert_eq!((seen, end), (story.written, End::Open), "nothing is skipped or shown twice");
    assert_eq!(story.server.terminated().await?, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unread_watch_is_told_when_the_ring_has_moved_past() -> Outcome {
    let story = Story::play(&["--ring-bytes-limit", "1Mi"]).await?;
    let (seen, end) = read_all(story.unread, story.written.len()).await?;
    assert!(seen.len() < story.written.len(), "a ring of 1 MiB cannot have them all");
    assert_eq!(seen, story.written[..seen.len()], "what was shown is a prefix without gaps");
    assert_eq!(end, End::Expired, "then the client is told, and the body ends as HTTP wants it");
    assert_eq!(story.server.terminated().await?, 1);
    Ok(())
}

/// What was done.
struct Story {
    server: Alone,
    unread: Watch,
    /// Revisions of the writes since the unread watch was opened.
    written: Vec<u64>,
    /// Removed with the story.
    _dir: tempfile::TempDir,
}

impl Story {
    /// Opens a watch that is not read and writes; somebody else reads all the while. Another server, on which there is no such watch, is written to in
    /// turn: what the machine is busy with delays both.
    async fn play(flags: &[&str]) -> Result<Self, Failure> {
        let (dir, other_dir) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let (server, quiet_server) = (Alone::start_with(dir.path(), flags).await?, Alone::start_with(other_dir.path(), flags).await?);
        let (client, quiet_client) = (server.client(), quiet_server.client());
        let (from, mut other) = begun(&client).await?;
        let (_, mut quiet_other) = begun(&quiet_client).await?;
        let unread = opened(&client, from).await?;
        let mut all = written(&client, &mut other, WRITES - ROUND).await?;
        let mut rounds = Vec::new();
        while rounds.len() < ROUNDS {
            let quiet = most(&written(&quiet_client, &mut quiet_other, ROUND).await?);
            let mut last = written(&client, &mut other, ROUND).await?;
            let busy = most(&last);
            all.append(&mut last);
            rounds.push((quiet, busy));
            if busy <= quiet + DELAY {
                say(&format!(
                    "alone unread {flags:?}: nine of ten events of another watch, without and with one that is not read: {rounds:?}"
                ));
                return Ok(Self { server, unread, written: all.into_keys().collect(), _dir: dir });
            }
        }
        Err(format!("the other watch waited each time: without and with one that is not read {rounds:?}").into())
    }
}

/// Makes the object, and opens the watch that is read; the revision from which it goes on.
async fn begun(client: &Client) -> Result<(u64, Watch), Failure> {
    let made = asked(client, ("POST", COLLECTION), Some(&object(0)), 201).await?;
    let from = revision(&made)?;
    Ok((from, opened(client, from).await?))
}

impl Alone {
    async fn terminated(&self) -> Result<u64, Failure> {
        let answer = self.client().fetch("/metrics").await?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let line = text.lines().find(|line| line.starts_with("apiserver_terminated_watchers_total{") && line.contains("\"configmaps\""));
        Ok(line.and_then(|line| line.rsplit(' ').next()).ok_or("no such metric")?.parse()?)
    }
}

fn object(count: usize) -> Value {
    json!({"metadata": {"name": "heavy"}, "data": {"count": count.to_string(), "text": "x".repeat(BYTES)}})
}

async fn opened(client: &Client, from: u64) -> Result<Watch, Failure> {
    let target = format!("{COLLECTION}?watch=true&resourceVersion={from}&fieldSelector=metadata.name=heavy");
    Ok(client.watch(&target).await?.map_err(|refused| format!("{refused:?}"))?)
}

/// Writes one after the other; by revision how long it took from the request until `other` showed it.
async fn written(client: &Client, other: &mut Watch, count: usize) -> Result<BTreeMap<u64, Duration>, Failure> {
    let mut delays = BTreeMap::new();
    for nth in 0..count {
        let began = Instant::now();
        let made = asked(client, ("PUT", &format!("{COLLECTION}/heavy")), Some(&object(nth + 1)), 200).await?;
        let revision = revision(&made)?;
        let frame = timeout(PATIENCE, other.next()).await.map_err(|_| format!("{revision} has not come"))??;
        let shown = frame.ok_or("the watch ended")?.seen;
        assert!(matches!(&shown, Seen::Event(change) if change.item.revision == revision), "{shown:?} instead of {revision}");
        delays.insert(revision, began.elapsed());
    }
    Ok(delays)
}

/// What nine of ten are below.
fn most(delays: &BTreeMap<u64, Duration>) -> Duration {
    let mut sorted: Vec<Duration> = delays.values().copied().collect();
    sorted.sort();
    sorted.get(sorted.len() * 9 / 10).copied().unwrap_or_default()
}

/// How a watch went on after so many events.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Open,
    /// ERROR 410, then the end of the body.
    Expired,
}

/// The revisions that the watch shows, at most so many.
async fn read_all(mut watch: Watch, most: usize) -> Result<(Vec<u64>, End), Failure> {
    let mut seen = Vec::new();
    while seen.len() < most {
        let frame = timeout(PATIENCE, watch.next()).await.map_err(|_| format!("nothing came after {} events", seen.len()))??;
        match frame.ok_or("it ended without a word")?.seen {
            Seen::Event(change) => seen.push(change.item.revision),
            Seen::Error { code: 410, .. } => {
                assert!(timeout(PATIENCE, watch.next()).await??.is_none(), "an ERROR is the last event");
                return Ok((seen, End::Expired));
            }
            other => return Err(format!("{other:?}").into()),
        }
    }
    Ok((seen, End::Open))
}
