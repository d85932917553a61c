//! The driver's end of a load process: starts it, asks it, and reads its CPU clock. Knows the messages, not what is measured.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command as Process};
use tokio::time::timeout;

use super::{Command, Job, Percentiles, Reply, WriteTimes};
use crate::cpu::Meter;

/// Seconds until everything must be connected: 20,000 handshakes at 2 ms fit.
const OPEN_SECONDS: u64 = 120;

/// Seconds for a batch of requests.
const BATCH_SECONDS: u64 = 300;

/// Seconds for a load process to end by itself.
const END_SECONDS: u64 = 10;

/// A running load process. It is killed when dropped.
pub(crate) struct Load {
    process: Child,
    stdin: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
    meter: Meter,
}

/// What a number of requests brought.
pub(crate) struct Answers {
    /// Bytes of the bodies, after inflating.
    pub(crate) plain_bytes: u64,
    /// Bytes of the bodies on the wire.
    pub(crate) wire_bytes: u64,
    /// Whether the server compressed.
    pub(crate) compressed: bool,
    /// From request to last byte.
    pub(crate) latency: Percentiles,
}

/// What came to watches that may lose events.
pub(crate) struct Heard {
    /// Events, summed over the watches.
    pub(crate) delivered: u64,
    /// Watches that did not live to the end.
    pub(crate) ended: usize,
    /// Why the first of them ended.
    pub(crate) first_end: Option<String>,
    pub(crate) from_acknowledged: Percentiles,
}

impl Load {
    /// Starts this program again as a load process and waits until everything is open.
    pub(crate) async fn open(job: &Job) -> Result<Self> {
        let program = std::env::current_exe().context("find this program")?;
        let mut process = Process::new(program)
            .arg("load")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start a load process")?;
        let stdin = process.stdin.take().expect("stdin was piped above");
        let replies = BufReader::new(process.stdout.take().expect("stdout was piped above")).lines();
        let meter = Meter::of(process.id().ok_or_else(|| anyhow!("the load process ended at once"))?)?;
        let mut load = Self { process, stdin, replies, meter };
        load.send(job).await?;
        match load.reply(OPEN_SECONDS).await? {
            Reply::Opened => Ok(load),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// The CPU clock of the load process.
    pub(crate) fn meter(&self) -> Meter {
        self.meter
    }

    /// Waits until every watch has seen the event `seq`.
    pub(crate) async fn reach(&mut self, seq: u64, seconds: u64) -> Result<()> {
        self.send(&Command::Reach { seq }).await?;
        match self.reply(seconds).await.with_context(|| format!("waiting until every watch has seen event {seq}"))? {
            Reply::Reached => Ok(()),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// Makes sure that no watch has seen anything.
    pub(crate) async fn silent(&mut self) -> Result<()> {
        self.send(&Command::Silent).await?;
        match self.reply(BATCH_SECONDS).await? {
            Reply::Silent => Ok(()),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// Latencies from the acknowledged and from the sent write.
    pub(crate) async fn latency(&mut self, first_seq: u64, writes: Vec<WriteTimes>) -> Result<(Percentiles, Percentiles)> {
        self.send(&Command::Latency { first_seq, writes }).await?;
        match self.reply(BATCH_SECONDS).await? {
            Reply::Latency { from_acknowledged, from_sent } => Ok((from_acknowledged, from_sent)),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// What came of the writes, waiting for stragglers for at most `seconds`.
    pub(crate) async fn heard(&mut self, first_seq: u64, writes: Vec<WriteTimes>, seconds: u64) -> Result<Heard> {
        self.send(&Command::Heard { first_seq, writes, seconds }).await?;
        match self.reply(seconds + BATCH_SECONDS).await? {
            Reply::Heard { delivered, ended, first_end, from_acknowledged } => Ok(Heard { delivered, ended, first_end, from_acknowledged }),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// Makes `count` requests.
    pub(crate) async fn requests(&mut self, count: u64) -> Result<Answers> {
        self.send(&Command::Requests { count }).await?;
        match self.reply(BATCH_SECONDS).await? {
            Reply::Requests { plain_bytes, wire_bytes, compressed, latency } => {
                Ok(Answers { plain_bytes, wire_bytes, compressed, latency })
            }
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// Ends the process and everything it has open.
    pub(crate) async fn close(self) -> Result<()> {
        let Self { mut process, stdin, .. } = self;
        drop(stdin);
        if timeout(Duration::from_secs(END_SECONDS), process.wait()).await.is_err() {
            process.kill().await.context("end a load process")?;
        }
        Ok(())
    }

    async fn send(&mut self, message: &impl serde::Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stdin.write_all(&line).await.context("write to the load process")
    }

    async fn reply(&mut self, seconds: u64) -> Result<Reply> {
        let line = timeout(Duration::from_secs(seconds), self.replies.next_line()).await;
        let line = line.with_context(|| format!("the load process did not answer within {seconds} s"))??;
        let line = line.ok_or_else(|| anyhow!("the load process ended"))?;
        match serde_json::from_str(&line).context("a reply of the load process")? {
            Reply::Failed { message } => bail!("load: {message}"),
            reply => Ok(reply),
        }
    }
}
