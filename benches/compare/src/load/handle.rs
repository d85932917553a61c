//! The driver's end of a load process. Knows the messages, not what is measured.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Command, Job, Mixed, Percentiles, Reply, WriteTimes};
use crate::cpu::Meter;
use crate::helper::Helper;

/// Seconds until everything must be connected: 20,000 handshakes at 2 ms fit.
const OPEN_SECONDS: u64 = 120;

/// Seconds for a batch of requests.
const BATCH_SECONDS: u64 = 300;

/// A running load process. It is killed when dropped.
pub(crate) struct Load(Helper);

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
    /// None when nothing came.
    pub(crate) from_acknowledged: Option<Percentiles>,
}

impl Load {
    /// Starts this program again as a load process and waits until everything is open.
    pub(crate) async fn open(job: &Job) -> Result<Self> {
        let mut load = Self(Helper::start("load")?);
        load.0.send(job).await?;
        match load.reply(OPEN_SECONDS).await? {
            Reply::Opened => Ok(load),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// The CPU clock of the load process.
    pub(crate) fn meter(&self) -> Meter {
        self.0.meter()
    }

    /// Waits until every watch has seen the event `seq`.
    pub(crate) async fn reach(&mut self, seq: u64, seconds: u64) -> Result<()> {
        self.0.send(&Command::Reach { seq }).await?;
        match self.reply(seconds).await.with_context(|| format!("waiting until every watch has seen event {seq}"))? {
            Reply::Reached => Ok(()),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// Makes sure that no watch has seen anything.
    pub(crate) async fn silent(&mut self) -> Result<()> {
        self.0.send(&Command::Silent).await?;
        match self.reply(BATCH_SECONDS).await? {
            Reply::Silent => Ok(()),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// Latencies from the acknowledged and from the sent write.
    pub(crate) async fn latency(&mut self, first_seq: u64, writes: Vec<WriteTimes>) -> Result<(Percentiles, Percentiles)> {
        self.0.send(&Command::Latency { first_seq, writes }).await?;
        match self.reply(BATCH_SECONDS).await? {
            Reply::Latency { from_acknowledged, from_sent } => Ok((from_acknowledged, from_sent)),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// What came of the writes, waiting for stragglers for at most `seconds`.
    pub(crate) async fn heard(&mut self, first_seq: u64, writes: Vec<WriteTimes>, seconds: u64) -> Result<Heard> {
        self.0.send(&Command::Heard { first_seq, writes, seconds }).await?;
        match self.reply(seconds + BATCH_SECONDS).await? {
            Reply::Heard { delivered, ended, first_end, from_acknowledged } => Ok(Heard { delivered, ended, first_end, from_acknowledged }),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// Makes `count` requests.
    pub(crate) async fn requests(&mut self, count: u64) -> Result<Answers> {
        self.0.send(&Command::Requests { count }).await?;
        match self.reply(BATCH_SECONDS).await? {
            Reply::Requests { plain_bytes, wire_bytes, compressed, latency } => {
                Ok(Answers { plain_bytes, wire_bytes, compressed, latency })
            }
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// The recorded mixture for so long.
    pub(crate) async fn mix(&mut self, lasting: Duration) -> Result<Mixed> {
        let seconds = lasting.as_secs();
        self.0.send(&Command::Mix { seconds }).await?;
        match self.reply(seconds + BATCH_SECONDS).await? {
            Reply::Mixed(mixed) => Ok(mixed),
            other => bail!("unexpected reply {other:?}"),
        }
    }

    /// Ends the process and everything it has open.
    pub(crate) async fn close(self) -> Result<()> {
        self.0.close().await
    }

    async fn reply(&mut self, seconds: u64) -> Result<Reply> {
        match self.0.reply(seconds).await? {
            Reply::Failed { message } => bail!("load: {message}"),
            reply => Ok(reply),
        }
    }
}
