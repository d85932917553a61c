//! The measurements, each on one server while the other has nothing to do. Knows what a row means; starts no server.

mod definitions;
mod floor;
mod forms;
mod informers;
mod mixture;
mod rates;
mod requests;
mod selectors;
mod watches;
mod writes;

use std::time::Duration;

use anyhow::{Result, bail};
use http_body_util::BodyExt;
use tokio::time::{Instant, sleep};

use crate::certs::Certificates;
use crate::cpu::{Meter, settle};
use crate::load::{Connection, Protocol, Target, seq_of, tls};
use crate::peers::Side;
use crate::table::{Figures, Row};
use crate::writer::Writer;

pub(crate) use forms::Listing;
pub(crate) use informers::Start;
pub(crate) use mixture::create as create_mixture;
pub(crate) use selectors::Selector;
pub(crate) use watches::Shape;

/// Longest wait for the servers to come to rest, seconds. A kube-apiserver that has just started works on for a while.
const SETTLE_SECONDS: u64 = 60;

/// Seconds for a server to catch up with the writes.
const CATCH_UP_SECONDS: u64 = 60;

/// A server under measurement.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) side: Side,
    pub(crate) target: Target,
    pub(crate) meter: Meter,
}

/// How many of what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) objects: u64,
    pub(crate) watchers: usize,
    /// Watches in each load of the measurement of idle ones; 0 leaves it out.
    pub(crate) idle_watches: usize,
    /// Writes each second.
    pub(crate) rate: u64,
    /// Seconds of measured writes.
    pub(crate) seconds: u64,
    pub(crate) lists: u64,
    pub(crate) gets: u64,
    /// Writes through each subject; 0 leaves them out.
    pub(crate) writes: u64,
}

/// The bench: the sizes, the writer and what was found so far.
pub(crate) struct Bench {
    pub(crate) sizes: Sizes,
    pub(crate) writer: Writer,
    pub(crate) figures: Figures,
    /// Everything that must be at rest before a measurement.
    pub(crate) meters: Vec<Meter>,
}

impl Bench {
    /// RSS of a server that was started with all objects, and what each of them adds to that of one started without (`empty`, bytes).
    pub(crate) async fn memory(&mut self, subject: &Subject, empty: u64) -> Result<()> {
        self.rest(subject).await?;
        let loaded = subject.meter.rss()?;
        let objects = self.sizes.objects;
        let figures = &mut self.figures;
        figures.add(subject.side, row("rss", "empty", "memory without objects".to_owned(), "MB RSS"), as_float(empty) / 1e6);
        figures.add(subject.side, row("rss", "loaded", format!("memory with {objects} objects"), "MB RSS"), as_float(loaded) / 1e6);
        let each = (as_float(loaded) - as_float(empty)) / as_float(objects) / 1000.0;
        figures.add(subject.side, row("rss", "object", "memory of an object".to_owned(), "KB RSS"), each);
        Ok(())
    }

    /// Waits until the subject knows the last write and every server is at rest.
    async fn rest(&mut self, subject: &Subject) -> Result<()> {
        caught_up(subject, &self.writer).await?;
        if !settle(&self.meters, Duration::from_secs(SETTLE_SECONDS)).await? {
            self.figures.note(format!("A server was still busy {SETTLE_SECONDS} s after its load; the figure that follows includes that."));
        }
        Ok(())
    }
}

/// Waits until the subject's cache has the last write.
pub(crate) async fn caught_up(subject: &Subject, writer: &Writer) -> Result<()> {
    let path = format!("{}?resourceVersion=0", writer.last_written());
    let end = Instant::now() + Duration::from_secs(CATCH_UP_SECONDS);
    loop {
        let known = fetch(&subject.target, &path).await;
        if known.as_ref().is_ok_and(|body| seq_of(body) == Some(writer.seq())) {
            return Ok(());
        }
        if Instant::now() > end {
            let known = known?;
            bail!("{:?} did not catch up with write {}: {}", subject.side, writer.seq(), String::from_utf8_lossy(&known));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The CPU time that a process takes while `work` is done, and what the work brings.
async fn busy<T>(meter: Meter, work: impl AsyncFnOnce() -> Result<T>) -> Result<(Duration, T)> {
    let before = meter.cpu()?;
    let done = work().await?;
    Ok((meter.cpu()? - before, done))
}

async fn fetch(target: &Target, path: &str) -> Result<Vec<u8>> {
    let tls = tls(&Certificates::at(&target.certificates), Protocol::Http1)?;
    let answer = Connection::open(target, &tls, Protocol::Http1).await?.read(path).await?;
    Ok(answer.into_body().collect().await?.to_bytes().to_vec())
}

fn row(what: &str, how: &str, title: String, unit: &'static str) -> Row {
    Row { key: format!("{what}_{how}"), title, unit, ratio: true }
}

fn plain(what: &str, how: &str, title: String, unit: &'static str) -> Row {
    Row { ratio: false, ..row(what, how, title, unit) }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Counts and bytes of a run are far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "see above")]
pub(crate) fn as_float(number: u64) -> f64 {
    number as f64
}
