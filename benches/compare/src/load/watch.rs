//! Watches: opens them, checks that each one gets every event once and in order, and keeps when. Reads stamps, parses no JSON.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use http::Response;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rustls::ClientConfig;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::client::{self, Connection};
use super::frames::FrameReader;
use super::lines::LineReader;
use super::{Command, Driver, Form, Percentiles, Protocol, Reply, Target, Watches, WriteTimes, now_micros, seq_of};
use crate::certs::Certificates;

/// Connections that are in their handshake at the same time: enough to keep the server busy, too few for its listen queue to overflow.
pub(super) const OPENING_LIMIT: usize = 16;

/// How often it is checked whether all events have come.
const STRAGGLERS_CHECK: Duration = Duration::from_millis(20);

/// Bytes of an unexpected event that are worth showing.
const SHOWN_BYTES: usize = 300;

/// Opens the watches, then answers the driver until it closes the pipe.
pub(super) async fn serve(target: &Target, protocol: Protocol, work: Watches, driver: &mut Driver) -> Result<()> {
    let tls = client::tls(&Certificates::at(&target.certificates), protocol)?;
    let (form, in_order) = (work.form, work.in_order);
    let log = Arc::new(Log::new(work.watches, work.first_seq));
    for open in open_all(target, &tls, protocol, &work).await? {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            if in_order {
                if let Err(error) = follow(open, form, &log).await {
                    log.fail(format!("{error:#}"));
                }
                return;
            }
            let mut seen = Vec::new();
            if let Err(error) = follow_in_any_order(open, form, &log, &mut seen).await {
                log.ended(seen.iter().filter(|seen| **seen).count() as u64, format!("{error:#}"));
            }
        });
    }
    driver.reply(&Reply::Opened).await?;
    while let Some(command) = driver.next().await? {
        let reply = match command {
            Command::Reach { seq } => log.reached(seq).await.map(|()| Reply::Reached)?,
            Command::Silent => log.silent().map(|()| Reply::Silent)?,
            Command::Latency { first_seq, writes } => log.latency(first_seq, &writes)?,
            Command::Heard { first_seq, writes, seconds } => log.heard(first_seq, &writes, Duration::from_secs(seconds)).await?,
            Command::Requests { .. } | Command::Mix { .. } => bail!("a load of watches makes no requests"),
        };
        driver.reply(&reply).await?;
    }
    Ok(())
}

/// One watch and the connection that carries it, which ends when nobody holds it.
struct Open {
    body: Incoming,
    _connection: Arc<Connection>,
}

async fn open_all(target: &Target, tls: &Arc<ClientConfig>, protocol: Protocol, work: &Watches) -> Result<Vec<Open>> {
    let turns = Arc::new(Semaphore::new(OPENING_LIMIT));
    let mut tasks = JoinSet::new();
    let mut left = work.watches;
    while left > 0 {
        let count = left.min(work.per_connection);
        left -= count;
        let (target, tls, work, turns) = (target.clone(), Arc::clone(tls), work.clone(), Arc::clone(&turns));
        tasks.spawn(async move {
            let _turn = turns.acquire().await?;
            open_connection(&target, &tls, protocol, &work, count).await
        });
    }
    let mut open = Vec::with_capacity(work.watches);
    while let Some(opened) = tasks.join_next().await {
        open.extend(opened.context("a task that opens watches")??);
    }
    Ok(open)
}

async fn open_connection(target: &Target, tls: &Arc<ClientConfig>, protocol: Protocol, work: &Watches, count: usize) -> Result<Vec<Open>> {
    let mut connection = Connection::open(target, tls, protocol).await?;
    ensure!(count == 1 || connection.share().is_some(), "HTTP/1.1 has one watch per connection");
    let mut answers: Vec<Response<Incoming>> = Vec::with_capacity(count);
    for _ in 0..count {
        answers.push(connection.read_as(&work.path, work.form, false).await?);
    }
    let connection = Arc::new(connection);
    Ok(answers.into_iter().map(|answer| Open { body: answer.into_body(), _connection: Arc::clone(&connection) }).collect())
}

/// Reads one watch for as long as it lives. Its end is an error: the driver ends this process, not the watches.
async fn follow(mut open: Open, form: Form, log: &Log) -> Result<()> {
    let mut reader = Reader::of(form);
    let mut next = log.first_seq;
    while let Some(frame) = open.body.frame().await {
        let Ok(piece) = frame.context("a watch broke")?.into_data() else { continue };
        let now = now_micros();
        reader.feed(&piece, |event| {
            let seq = stamp_of_change(form, event)?;
            ensure!(seq >= next, "event {seq} was repeated or came late: {next} was next");
            ensure!(seq == next, "events {next} to {} were lost", seq - 1);
            next += 1;
            log.arrived(seq, now);
            Ok(())
        })?;
    }
    bail!("the server ended a watch after event {}", next - 1)
}

/// The same for a watch whose events come in the order of etcd, which is not that of the stamps when several write. Notes in `seen` what came.
async fn follow_in_any_order(mut open: Open, form: Form, log: &Log, seen: &mut Vec<bool>) -> Result<()> {
    let mut reader = Reader::of(form);
    while let Some(frame) = open.body.frame().await {
        let Ok(piece) = frame.context("a watch broke")?.into_data() else { continue };
        let now = now_micros();
        reader.feed(&piece, |event| {
            let seq = stamp_of_change(form, event)?;
            let index = log.index(seq)?;
            if seen.len() <= index {
                seen.resize(index + 1, false);
            }
            ensure!(!seen[index], "event {seq} was repeated");
            seen[index] = true;
            log.arrived(seq, now);
            Ok(())
        })?;
    }
    bail!("the server ended a watch after {} events", seen.iter().filter(|seen| **seen).count())
}

/// Cuts a stream into events.
pub(super) enum Reader {
    Lines(LineReader),
    Frames(FrameReader),
}

impl Reader {
    pub(super) fn of(form: Form) -> Self {
        match form {
            Form::Json | Form::Table => Self::Lines(LineReader::default()),
            Form::Protobuf | Form::Metadata => Self::Frames(FrameReader::default()),
        }
    }

    pub(super) fn feed(&mut self, piece: &[u8], event: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Self::Lines(lines) => lines.feed(piece, event),
            Self::Frames(frames) => frames.feed(piece, event),
        }
    }
}

/// Every event of this load is a change of an object that exists.
fn stamp_of_change(form: Form, event: &[u8]) -> Result<u64> {
    let stamp = if event.starts_with(form.change_start()) { seq_of(event) } else { None };
    stamp.ok_or_else(|| anyhow!("an unexpected event: {}", String::from_utf8_lossy(&event[..event.len().min(SHOWN_BYTES)])))
}

/// When each event came to each watch. All tasks run on one thread, so the lock is never waited for.
struct Log {
    watches: usize,
    first_seq: u64,
    arrivals: Mutex<Arrivals>,
    changed: Notify,
}

#[derive(Default)]
struct Arrivals {
    /// µs since the epoch, one list per event from `first_seq` on, as long as the number of watches that have seen it.
    by_event: Vec<Vec<u64>>,
    /// The first thing that went wrong with any watch.
    failure: Option<String>,
    /// Events over all watches.
    total: u64,
    /// Watches that have ended, which is a failure where events must come in order, and how many events they had seen.
    ended: usize,
    ended_total: u64,
}

impl Log {
    fn new(watches: usize, first_seq: u64) -> Self {
        Self { watches, first_seq, arrivals: Mutex::default(), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self, seq: u64) -> Result<usize> {
        let ahead = seq.checked_sub(self.first_seq).ok_or_else(|| anyhow!("event {seq} is before {}", self.first_seq))?;
        Ok(usize::try_from(ahead)?)
    }

    /// Notes that one more watch has seen `seq`.
    fn arrived(&self, seq: u64, now: u64) {
        let Ok(index) = self.index(seq) else { return };
        let mut arrivals = self.lock();
        if arrivals.by_event.len() <= index {
            arrivals.by_event.resize_with(index + 1, || Vec::with_capacity(self.watches));
        }
        arrivals.total += 1;
        arrivals.by_event[index].push(now);
        if arrivals.by_event[index].len() == self.watches {
            self.changed.notify_one();
        }
    }

    /// Notes that a watch has ended which had seen so many events.
    fn ended(&self, seen: u64, message: String) {
        let mut arrivals = self.lock();
        arrivals.ended += 1;
        arrivals.ended_total += seen;
        arrivals.failure.get_or_insert(message);
    }

    fn fail(&self, message: String) {
        self.lock().failure.get_or_insert(message);
        self.changed.notify_one();
    }

    /// Waits until every watch has seen `seq`; an error as soon as one watch fails. The driver bounds the wait.
    async fn reached(&self, seq: u64) -> Result<()> {
        let index = self.index(seq)?;
        loop {
            {
                let arrivals = self.lock();
                if let Some(failure) = &arrivals.failure {
                    bail!("{failure}");
                }
                if arrivals.by_event.get(index).is_some_and(|seen| seen.len() == self.watches) {
                    return Ok(());
                }
            }
            self.changed.notified().await;
        }
    }

    /// An error when any watch has seen anything or failed.
    fn silent(&self) -> Result<()> {
        let arrivals = self.lock();
        if let Some(failure) = &arrivals.failure {
            bail!("{failure}");
        }
        ensure!(arrivals.by_event.is_empty(), "{} events came to watches that match none", arrivals.by_event.len());
        Ok(())
    }

    /// Latencies of the events from `first_seq` on, each of which must have come to every watch, with nothing after the last.
    fn latency(&self, first_seq: u64, writes: &[WriteTimes]) -> Result<Reply> {
        let first = self.index(first_seq)?;
        let arrivals = self.lock();
        if let Some(failure) = &arrivals.failure {
            bail!("{failure}");
        }
        ensure!(arrivals.by_event.len() == first + writes.len(), "{} events came, not {}", arrivals.by_event.len(), first + writes.len());
        let measured = &arrivals.by_event[first..];
        ensure!(measured.iter().all(|seen| seen.len() == self.watches), "an event did not come to every watch");
        Ok(Reply::Latency {
            from_acknowledged: percentiles(measured, writes, |write| write.acknowledged).context(NONE)?,
            from_sent: percentiles(measured, writes, |write| write.sent).context(NONE)?,
        })
    }

    /// Waits until every watch that lives has seen all events up to the last of `writes`, at most for `limit`; then what came of them.
    async fn heard(&self, first_seq: u64, writes: &[WriteTimes], limit: Duration) -> Result<Reply> {
        let first = self.index(first_seq)?;
        let all = (first + writes.len()) as u64;
        let end = Instant::now() + limit;
        while !self.all_have_seen(all) && Instant::now() < end {
            sleep(STRAGGLERS_CHECK).await;
        }
        let arrivals = self.lock();
        let measured = arrivals.by_event.get(first..).unwrap_or_default();
        ensure!(measured.len() <= writes.len(), "an event came that nobody wrote");
        Ok(Reply::Heard {
            delivered: measured.iter().map(|seen| seen.len() as u64).sum(),
            ended: arrivals.ended,
            first_end: arrivals.failure.clone(),
            from_acknowledged: percentiles(measured, writes, |write| write.acknowledged),
        })
    }

    /// Whether every watch that lives has seen so many events.
    fn all_have_seen(&self, events: u64) -> bool {
        let arrivals = self.lock();
        arrivals.total - arrivals.ended_total == (self.watches - arrivals.ended) as u64 * events
    }
}

const NONE: &str = "no events to take percentiles of";

/// Of the time from each write to each of its arrivals, if there is one.
fn percentiles(measured: &[Vec<u64>], writes: &[WriteTimes], since: fn(&WriteTimes) -> u64) -> Option<Percentiles> {
    let mut micros = Vec::with_capacity(measured.iter().map(Vec::len).sum());
    for (seen, write) in measured.iter().zip(writes) {
        micros.extend(seen.iter().map(|at| at.cast_signed() - since(write).cast_signed()));
    }
    Percentiles::of(micros)
}

#[cfg(test)]
mod tests {
    use super::super::Stamp;
    use super::*;

    #[test]
    fn only_changes_with_a_stamp_count() {
        let change = format!(r#"{{"type":"MODIFIED","object":{{"data":{{"stamp":"{}"}}}}}}"#, Stamp(7));
        assert_eq!(stamp_of_change(Form::Json, change.as_bytes()).expect("a change"), 7);
        let other = change.replace("MODIFIED", "ADDED");
        assert!(stamp_of_change(Form::Json, other.as_bytes()).is_err());
        assert!(stamp_of_change(Form::Json, br#"{"type":"MODIFIED","object":{}}"#).is_err());
        assert!(stamp_of_change(Form::Json, b"").is_err());
        let change = format!("\x0a\x08MODIFIED\x12\x30{}", Stamp(7));
        assert_eq!(stamp_of_change(Form::Protobuf, change.as_bytes()).expect("a change"), 7);
        assert!(stamp_of_change(Form::Json, change.as_bytes()).is_err());
    }

    #[test]
    fn latency_wants_every_event_at_every_watch() {
        let log = Log::new(2, 10);
        let writes = [WriteTimes { sent: 1000, acknowledged: 3000 }];
        assert!(log.silent().is_ok());
        log.arrived(10, 500);
        assert!(log.silent().is_err());
        log.arrived(10, 500);
        log.arrived(11, 2000);
        assert!(log.latency(11, &writes).is_err(), "one of two has seen it");
        log.arrived(11, 4000);
        let Reply::Latency { from_acknowledged, from_sent } = log.latency(11, &writes).expect("both have seen it") else {
            panic!("a latency reply")
        };
        assert_eq!((from_acknowledged.p50, from_acknowledged.max), (-1.0, 1.0));
        assert_eq!((from_sent.p50, from_sent.max), (1.0, 3.0));
        log.arrived(12, 5000);
        assert!(log.latency(11, &writes).is_err(), "an event that nobody wrote");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_watch_that_ended_is_counted_with_what_it_missed() {
        let log = Log::new(2, 10);
        let writes = [WriteTimes { sent: 0, acknowledged: 1000 }; 2];
        log.arrived(11, 2000);
        log.arrived(11, 2000);
        log.arrived(10, 3000);
        assert!(!log.all_have_seen(2), "one watch has seen one event only");
        log.ended(1, "gone".to_owned());
        let reply = log.heard(10, &writes, Duration::ZERO).await.expect("events came");
        let Reply::Heard { delivered, ended, first_end, from_acknowledged } = reply else { panic!("a reply of what was heard") };
        assert_eq!((delivered, ended, first_end.as_deref(), from_acknowledged.map(|latency| latency.max)), (3, 1, Some("gone"), Some(2.0)));
        assert!(log.all_have_seen(2), "the watch that lives has seen both");
    }
}
