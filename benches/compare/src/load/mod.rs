//! The load generator: a process of its own, so that its CPU time is never the server's. Speaks JSON lines with the driver on stdin and stdout.
//!
//! ```text
//! driver → Job                     load → Opened
//! driver → Command::Reach(seq)     load → Reply::Reached          watches
//! driver → Command::Silent         load → Reply::Silent           watches that must not match
//! driver → Command::Latency        load → Reply::Latency
//! driver → Command::Heard          load → Reply::Heard            watches that may lose events
//! driver → Command::Requests(n)    load → Reply::Requests         lists and gets
//! driver → Command::Mix            load → Reply::Mixed            the recorded mixture
//! driver closes stdin              load exits
//! ```

mod body;
mod client;
mod form;
mod frames;
mod handle;
mod lines;
mod mixture;
mod requests;
mod stamp;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin};

pub(crate) use client::{Connection, tls};
pub(crate) use form::Form;
pub(crate) use handle::{Heard, Load};
pub(crate) use mixture::Mixed;
pub(crate) use stamp::{STAMPS, Stamp, seq_of};

/// How long a request or a connection of the load generator may take, seconds. A list of 30 MB on a busy machine takes two; fifty of 50 MB at once, half a
/// minute.
const REQUEST_SECONDS: u64 = 240;

/// The HTTP version, chosen by ALPN: nothing is negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// A server and the folder with the certificates of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) certificates: PathBuf,
}

/// What a load process does in its life.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) target: Target,
    pub(crate) protocol: Protocol,
    pub(crate) work: Work,
}

/// The kinds of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    Watch(Watches),
    Requests(Requests),
    /// The clients of the recorded mixture, of a cluster of so many nodes.
    Mixture {
        nodes: u64,
    },
}

/// Watches of one path that stay open until the driver closes the pipe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Watches {
    pub(crate) path: String,
    pub(crate) watches: usize,
    /// Watches that share a connection; 1 with HTTP/1.1.
    pub(crate) per_connection: usize,
    pub(crate) form: Form,
    /// The stamp of the first event.
    pub(crate) first_seq: u64,
    /// Each further event of a watch must carry the next number. Otherwise they come in any order, and what does not come is counted.
    pub(crate) in_order: bool,
}

/// Requests one after another on each of a few connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Requests {
    pub(crate) paths: Paths,
    pub(crate) connections: usize,
    pub(crate) form: Form,
    pub(crate) gzip: bool,
}

/// Which paths a run of requests asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Paths {
    /// The same list each time; every answer must hold this many objects.
    List { path: String, objects: u64 },
    /// The same list each time, a page at a time, as long as there is a next one; all pages together must hold this many objects.
    Pages { path: String, objects: u64 },
    /// The initial events of a watch, which is then given up; they must show this many objects. Over HTTP/2 only: the connection goes on.
    Stream { path: String, objects: u64 },
    /// One object after another; every answer must hold one.
    Objects { paths: Vec<String> },
}

/// What the driver asks for once the load is open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Answer when every watch has seen the event `seq`.
    Reach { seq: u64 },
    /// Answer whether no watch has seen anything.
    Silent,
    /// Latencies of the events from `first_seq` on, by the times (µs since the epoch) of the writes.
    Latency { first_seq: u64, writes: Vec<WriteTimes> },
    /// Wait at most so long until every watch that lives has seen all events before `first_seq` and those of `writes`; then tell what came.
    Heard { first_seq: u64, writes: Vec<WriteTimes>, seconds: u64 },
    /// Make so many requests.
    Requests { count: u64 },
    /// Read at the recorded pace for so many seconds.
    Mix { seconds: u64 },
}

/// When one write was sent and when its answer came, µs since the epoch by the machine's clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct WriteTimes {
    pub(crate) sent: u64,
    pub(crate) acknowledged: u64,
}

/// The load generator's answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Everything is connected and, for watches, answered with 200.
    Opened,
    /// Every watch has seen the event, in order, none lost or repeated.
    Reached,
    /// No watch has seen anything.
    Silent,
    /// Percentiles over all watches and events.
    Latency { from_acknowledged: Percentiles, from_sent: Percentiles },
    /// How many events came to how many watches from `first_seq` on, and how long after the acknowledged write.
    Heard { delivered: u64, ended: usize, first_end: Option<String>, from_acknowledged: Option<Percentiles> },
    /// The requests are done and each answer was complete.
    Requests { plain_bytes: u64, wire_bytes: u64, compressed: bool, latency: Percentiles },
    /// What came in that time.
    Mixed(Mixed),
    /// Something is wrong with the server or with this machine; the process ends.
    Failed { message: String },
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Percentiles {
    /// Of latencies in µs, which may be negative: a watcher can hear of a write before its writer does. `None` of nothing.
    pub(crate) fn of(mut micros: Vec<i64>) -> Option<Self> {
        micros.sort_unstable();
        let last = micros.len().checked_sub(1)?;
        #[expect(clippy::cast_precision_loss, reason = "latencies of a run are far below 2^52 µs")]
        let at = |permille: usize| micros[last * permille / 1000] as f64 / 1000.0;
        Some(Self { p50: at(500), p99: at(990), max: at(1000) })
    }
}

/// Runs as the load process: reads a job from stdin, does it, and ends when stdin does.
pub(crate) async fn run() -> Result<()> {
    let mut driver = Driver { lines: BufReader::new(tokio::io::stdin()).lines() };
    let outcome = serve(&mut driver).await;
    if let Err(error) = &outcome {
        driver.reply(&Reply::Failed { message: format!("{error:#}") }).await?;
    }
    outcome
}

async fn serve(driver: &mut Driver) -> Result<()> {
    let Some(job) = driver.next::<Job>().await? else { return Ok(()) };
    match job.work {
        Work::Watch(work) => watch::serve(&job.target, job.protocol, work, driver).await,
        Work::Requests(work) => requests::serve(&job.target, job.protocol, work, driver).await,
        Work::Mixture { nodes } => mixture::serve(&job.target, job.protocol, nodes, driver).await,
    }
}

/// The load process's end of the pipe to the driver.
struct Driver {
    lines: Lines<BufReader<Stdin>>,
}

impl Driver {
    /// The next message, or `None` when the driver has closed the pipe or died.
    async fn next<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let Some(line) = self.lines.next_line().await? else { return Ok(None) };
        Ok(Some(serde_json::from_str(&line).context("a message from the driver")?))
    }

    async fn reply(&mut self, reply: &Reply) -> Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        let mut stdout = tokio::io::stdout();
        stdout.write_all(&line).await?;
        Ok(stdout.flush().await?)
    }
}

/// The machine's clock, µs since the epoch. Writer and watchers are on one machine and read the same clock.
pub(crate) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_in_milliseconds_and_may_be_negative() {
        let micros = (0..=1000).rev().map(|n| n * 1000 - 5000).collect();
        assert_eq!(Percentiles::of(micros), Some(Percentiles { p50: 495.0, p99: 985.0, max: 995.0 }));
        assert_eq!(Percentiles::of(vec![-1500]), Some(Percentiles { p50: -1.5, p99: -1.5, max: -1.5 }));
        assert_eq!(Percentiles::of(Vec::new()), None);
    }
}
