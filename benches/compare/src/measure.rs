//! The measurements, each on one server while the other has nothing to do. Knows what a row means; starts no server.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::certs::Certificates;
use crate::cpu::{Meter, settle};
use crate::load::{Connection, Job, Load, Paths, Protocol, Requests, Target, Watches, Work, WriteTimes, seq_of, tls};
use crate::peers::Side;
use crate::table::{Figures, Row};
use crate::writer::{COLLECTION, Writer, object_path};

/// Longest wait for the servers to come to rest, seconds. A kube-apiserver that has just started works on for a while.
const SETTLE_SECONDS: u64 = 60;

/// Writes before the measured ones, seconds at the pace of the run: their events are checked but not counted.
const WARM_SECONDS: u64 = 2;

/// Seconds in which nothing happens but open watches.
const IDLE_SECONDS: u64 = 5;

/// Seconds after the last write in which every watch must have every event.
const DELIVERY_SECONDS: u64 = 30;

/// Seconds for a server to catch up with the writes.
const CATCH_UP_SECONDS: u64 = 60;

/// Queries of watches: of everything, and of objects that do not exist.
const COLLECTION_WATCH: &str = "watch=true";
const OTHERS_WATCH: &str = "watch=true&labelSelector=app%3Dother";

/// Connections that ask for single objects; the load is then a client's, not the server's saturation.
const GET_CONNECTIONS: usize = 4;

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
}

/// How watches are spread over connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    key: &'static str,
    pub(crate) title: &'static str,
    protocol: Protocol,
    per_connection: usize,
}

impl Shape {
    /// Those of a run, in order.
    pub(crate) const ALL: [Self; 3] = [
        Self { key: "h1", title: "HTTP/1.1", protocol: Protocol::Http1, per_connection: 1 },
        Self { key: "h2", title: "HTTP/2, a connection each", protocol: Protocol::Http2, per_connection: 1 },
        Self { key: "h2x100", title: "HTTP/2, 100 a connection", protocol: Protocol::Http2, per_connection: 100 },
    ];
}

/// What happened while the measured writes were made and heard.
struct Burst {
    /// CPU time of the server and of the load process.
    server: Duration,
    client: Duration,
    /// Wall time.
    took: Duration,
    /// Share of a core that the server takes with these watches and no writes.
    idle_share: f64,
    first_seq: u64,
    writes: Vec<WriteTimes>,
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

    /// RSS of idle watches: half a load first, which fills what the allocator has left over, then one load of each shape on top of the other.
    pub(crate) async fn idle_watches(&mut self, subject: &Subject) -> Result<()> {
        let watches = self.sizes.idle_watches;
        if watches == 0 {
            return Ok(());
        }
        self.rest(subject).await?;
        let mut open = vec![self.open_watches(subject, Shape::ALL[0], COLLECTION_WATCH, watches.div_ceil(2)).await?];
        for shape in Shape::ALL {
            self.rest(subject).await?;
            let before = subject.meter.rss()?;
            open.push(self.open_watches(subject, shape, COLLECTION_WATCH, watches).await?);
            self.rest(subject).await?;
            let grown = as_float(subject.meter.rss()?) - as_float(before);
            let row = row("idle", shape.key, format!("idle watch, {}", shape.title), "KB RSS");
            self.figures.add(subject.side, row, grown / as_float(watches as u64) / 1000.0);
        }
        for load in open {
            load.close().await?;
        }
        Ok(())
    }

    /// Every watch hears every write: CPU per delivered event, latency, and what open watches cost while nothing happens.
    pub(crate) async fn fan_out(&mut self, subject: &Subject, shape: Shape) -> Result<()> {
        self.rest(subject).await?;
        let watches = self.sizes.watchers;
        let mut load = self.open_watches(subject, shape, COLLECTION_WATCH, watches).await?;
        let burst = self.burst(subject, &mut load).await?;
        let delivered = as_float(burst.writes.len() as u64) * as_float(watches as u64);
        let (latency, from_sent) = load.latency(burst.first_seq, burst.writes).await?;
        let resident = subject.meter.rss()?;
        load.close().await?;

        let (side, figures) = (subject.side, &mut self.figures);
        let title = |what: &str| format!("{what}, {}", shape.title);
        let what = title(&format!("deliver 1 event to 1 of {watches} watches"));
        figures.add(side, row("deliver", shape.key, what, "µs CPU"), micros(burst.server) / delivered);
        figures.add(side, plain("latency_p50", shape.key, title("… write acknowledged → client, p50"), "ms"), latency.p50);
        figures.add(side, row("latency_p99", shape.key, title("… write acknowledged → client, p99"), "ms"), latency.p99);
        figures.add(side, row("latency_max", shape.key, title("… write acknowledged → client, max"), "ms"), latency.max);
        figures.add(side, row("sent_p50", shape.key, title("… write sent → client, p50"), "ms"), from_sent.p50);
        figures.add(side, plain("client", shape.key, title("… load generator, per event"), "µs CPU"), micros(burst.client) / delivered);
        figures.add(side, row("rss", shape.key, title(&format!("… memory with {watches} watches")), "MB RSS"), as_float(resident) / 1e6);
        let what = title(&format!("{watches} watches and no writes, each second"));
        figures.add(side, row("rest", shape.key, what, "ms CPU"), burst.idle_share * 1000.0);
        Ok(())
    }

    /// No watch but one hears the writes: what a watch costs whose label selector never matches. What the server takes anyway is subtracted.
    pub(crate) async fn pass_over(&mut self, subject: &Subject) -> Result<()> {
        self.rest(subject).await?;
        let (shape, watches) = (Shape::ALL[0], self.sizes.watchers);
        let mut deaf = self.open_watches(subject, shape, OTHERS_WATCH, watches).await?;
        let mut load = self.open_watches(subject, shape, COLLECTION_WATCH, 1).await?;
        let burst = self.burst(subject, &mut load).await?;
        deaf.silent().await?;
        load.close().await?;
        deaf.close().await?;

        let passed = as_float(burst.writes.len() as u64) * as_float(watches as u64);
        let net = micros(burst.server) - burst.idle_share * micros(burst.took);
        let title = format!("1 event past 1 of {watches} watches with another label, {}, net", shape.title);
        self.figures.add(subject.side, row("pass_over", shape.key, title, "µs CPU"), net / passed);
        Ok(())
    }

    /// Warms up, looks how busy the server is with nothing to do, and then makes the measured writes until `load` has heard the last one.
    async fn burst(&mut self, subject: &Subject, load: &mut Load) -> Result<Burst> {
        let Sizes { rate, seconds, .. } = self.sizes;
        self.writer.paced(WARM_SECONDS * rate, as_float(rate)).await?;
        load.reach(self.writer.seq(), DELIVERY_SECONDS).await?;
        self.rest(subject).await?;
        let idle = busy(subject.meter, async || {
            sleep(Duration::from_secs(IDLE_SECONDS)).await;
            Ok(())
        });
        let idle_share = idle.await?.0.as_secs_f64() / as_float(IDLE_SECONDS);

        let (client_before, first_seq, began) = (load.meter().cpu()?, self.writer.seq() + 1, Instant::now());
        let hear = async || {
            let writes = self.writer.paced(seconds * rate, as_float(rate)).await?;
            load.reach(self.writer.seq(), DELIVERY_SECONDS).await?;
            Ok(writes)
        };
        let (server, writes) = busy(subject.meter, hear).await?;
        let (took, client) = (began.elapsed(), load.meter().cpu()? - client_before);
        Writer::kept_pace(&writes, as_float(rate))?;
        Ok(Burst { server, client, took, idle_share, first_seq, writes })
    }

    /// Whole lists from the cache, one after another on one connection.
    pub(crate) async fn lists(&mut self, subject: &Subject, protocol: Protocol, gzip: bool) -> Result<()> {
        let paths = Paths::List { path: format!("{COLLECTION}?resourceVersion=0"), objects: self.sizes.objects };
        let mut load = self.open_requests(subject, protocol, Requests { paths, connections: 1, gzip }).await?;
        load.requests(2).await?;
        self.rest(subject).await?;
        subject.meter.forget_peak()?;
        let client_before = load.meter().cpu()?;
        let (server, answers) = busy(subject.meter, async || load.requests(self.sizes.lists).await).await?;
        let client = load.meter().cpu()? - client_before;
        let peak = subject.meter.rss_peak()?;
        load.close().await?;

        let (side, figures) = (subject.side, &mut self.figures);
        let (key, title) = match (protocol, gzip) {
            (Protocol::Http1, false) => ("h1", "HTTP/1.1"),
            (Protocol::Http1, true) => ("h1_gzip", "HTTP/1.1, gzip"),
            (Protocol::Http2, false) => ("h2", "HTTP/2"),
            (Protocol::Http2, true) => ("h2_gzip", "HTTP/2, gzip"),
        };
        if gzip && !answers.compressed {
            figures.note(format!("{side:?}: a list that was asked for with gzip came uncompressed; its row is empty."));
            return Ok(());
        }
        let title = |what: &str| format!("{what}, {title}");
        let gigabytes = as_float(answers.json_bytes) / 1e9;
        let what = title("LIST resourceVersion=0, per GB of JSON");
        figures.add(side, row("list", key, what, "s CPU"), server.as_secs_f64() / gigabytes);
        figures.add(side, row("list_p50", key, title("… one list, p50"), "ms"), answers.latency.p50);
        figures.add(side, row("list_peak", key, title("… memory, peak"), "MB RSS"), as_float(peak) / 1e6);
        figures.add(
            side,
            plain("list_wire", key, title("… bytes on the wire, per byte of JSON"), ""),
            as_float(answers.wire_bytes) / as_float(answers.json_bytes),
        );
        figures.add(side, plain("list_client", key, title("… load generator, per GB of JSON"), "s CPU"), client.as_secs_f64() / gigabytes);
        figures.add(
            side,
            plain("list_bytes", "object", "size of an object in a list".to_owned(), "bytes"),
            as_float(answers.json_bytes) / as_float(self.sizes.lists * self.sizes.objects),
        );
        Ok(())
    }

    /// Single objects from the cache.
    pub(crate) async fn gets(&mut self, subject: &Subject, protocol: Protocol) -> Result<()> {
        let Sizes { objects, gets, .. } = self.sizes;
        let paths = (0..objects).map(|index| format!("{}?resourceVersion=0", object_path(index))).collect();
        let work = Requests { paths: Paths::Objects { paths }, connections: GET_CONNECTIONS, gzip: false };
        let mut load = self.open_requests(subject, protocol, work).await?;
        load.requests(gets.div_ceil(4)).await?;
        self.rest(subject).await?;
        let client_before = load.meter().cpu()?;
        let (server, answers) = busy(subject.meter, async || load.requests(gets).await).await?;
        let client = load.meter().cpu()? - client_before;
        load.close().await?;

        let (key, title) = if protocol == Protocol::Http1 { ("h1", "HTTP/1.1") } else { ("h2", "HTTP/2") };
        let title = |what: &str| format!("{what}, {title}");
        let (side, figures) = (subject.side, &mut self.figures);
        figures.add(side, row("get", key, title("GET resourceVersion=0"), "µs CPU"), micros(server) / as_float(gets));
        figures.add(side, row("get_p50", key, title(&format!("… {GET_CONNECTIONS} clients, p50")), "ms"), answers.latency.p50);
        figures.add(side, row("get_p99", key, title(&format!("… {GET_CONNECTIONS} clients, p99")), "ms"), answers.latency.p99);
        figures.add(side, plain("get_client", key, title("… load generator, per GET"), "µs CPU"), micros(client) / as_float(gets));
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

    /// Opens watches from the revision that the subject's cache is at.
    async fn open_watches(&self, subject: &Subject, shape: Shape, query: &str, watches: usize) -> Result<Load> {
        let revision = cache_revision(&subject.target).await?;
        let path = format!("{COLLECTION}?{query}&resourceVersion={revision}&timeoutSeconds=7200");
        let work = Watches { path, watches, per_connection: shape.per_connection, first_seq: self.writer.seq() + 1 };
        let job = Job { target: subject.target.clone(), protocol: shape.protocol, work: Work::Watch(work) };
        Load::open(&job).await.with_context(|| format!("open {watches} watches, {}, on {:?}", shape.title, subject.side))
    }

    async fn open_requests(&mut self, subject: &Subject, protocol: Protocol, requests: Requests) -> Result<Load> {
        self.rest(subject).await?;
        let job = Job { target: subject.target.clone(), protocol, work: Work::Requests(requests) };
        Load::open(&job).await.with_context(|| format!("open a load of requests on {:?}", subject.side))
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

/// The revision of a list that matches nothing: a small answer of the cache.
async fn cache_revision(target: &Target) -> Result<String> {
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    let body = fetch(target, &format!("{COLLECTION}?resourceVersion=0&fieldSelector=metadata.name%3Dnone")).await?;
    let list: List = serde_json::from_slice(&body).context("an empty list")?;
    Ok(list.metadata.resource_version)
}

async fn fetch(target: &Target, path: &str) -> Result<Vec<u8>> {
    let tls = tls(&Certificates::at(&target.certificates), Protocol::Http1)?;
    let answer = Connection::open(target, &tls, Protocol::Http1).await?.read(path, false).await?;
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
fn as_float(number: u64) -> f64 {
    number as f64
}
