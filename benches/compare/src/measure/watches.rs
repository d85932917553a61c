//! Measurements of watches: memory of idle ones, cost and latency of events, cost of events that match nothing.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::{Bench, Sizes, Subject, as_float, busy, fetch, micros, plain, row};
use crate::load::{Form, Job, Load, Protocol, Target, Watches, Work, WriteTimes};
use crate::writer::Writer;

/// Writes before the measured ones, seconds at the pace of the run: their events are checked but not counted.
pub(super) const WARM_SECONDS: u64 = 2;

/// Seconds in which nothing happens but open watches.
const IDLE_SECONDS: u64 = 5;

/// Seconds after the last write in which every watch must have every event.
pub(super) const DELIVERY_SECONDS: u64 = 30;

/// Queries of watches: of everything, and of objects that do not exist.
const COLLECTION_WATCH: &str = "watch=true";
const OTHERS_WATCH: &str = "watch=true&labelSelector=app%3Dother";

/// How watches are spread over connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(super) key: &'static str,
    pub(crate) title: &'static str,
    protocol: Protocol,
    per_connection: usize,
    form: Form,
}

impl Shape {
    /// Those of a run, in order.
    pub(crate) const ALL: [Self; 3] = [
        Self { key: "h1", title: "HTTP/1.1", protocol: Protocol::Http1, per_connection: 1, form: Form::Json },
        Self { key: "h2", title: "HTTP/2, a connection each", protocol: Protocol::Http2, per_connection: 1, form: Form::Json },
        Self { key: "h2x100", title: "HTTP/2, 100 a connection", protocol: Protocol::Http2, per_connection: 100, form: Form::Json },
    ];

    /// What a controller or a kubelet has: a connection of its own, in protobuf.
    pub(crate) const PROTOBUF: Self = Self {
        key: "h2_protobuf",
        title: "HTTP/2, a connection each, protobuf",
        protocol: Protocol::Http2,
        per_connection: 1,
        form: Form::Protobuf,
    };
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

impl Bench {
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

    /// RSS at rest with so many watches open that have heard nothing.
    pub(crate) async fn memory_with_idle(&mut self, subject: &Subject, shape: Shape) -> Result<()> {
        self.rest(subject).await?;
        let load = self.open_watches(subject, shape, COLLECTION_WATCH, self.sizes.watchers).await?;
        self.rest(subject).await?;
        let resident = as_float(subject.meter.rss()?) / 1e6;
        load.close().await?;
        let title = format!("memory with idle watches, {}", shape.title);
        self.figures.add(subject.side, row("idle_rss", shape.key, title, "MB RSS"), resident);
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

    /// Opens watches from the revision that the subject's cache is at.
    async fn open_watches(&self, subject: &Subject, shape: Shape, query: &str, watches: usize) -> Result<Load> {
        self.open(subject, shape, query, watches, true).await
    }

    /// Opens the watches of a run whose events may come in any order, and some of them not at all.
    pub(super) async fn open_watches_at_ease(&self, subject: &Subject, shape: Shape) -> Result<Load> {
        self.open(subject, shape, COLLECTION_WATCH, self.sizes.watchers, false).await
    }

    async fn open(&self, subject: &Subject, shape: Shape, query: &str, watches: usize, in_order: bool) -> Result<Load> {
        let collection = self.writer.collection();
        let revision = cache_revision(&subject.target, collection).await?;
        let path = format!("{collection}?{query}&resourceVersion={revision}&timeoutSeconds=7200");
        let first_seq = self.writer.seq() + 1;
        let work = Watches { path, watches, per_connection: shape.per_connection, form: shape.form, first_seq, in_order };
        let job = Job { target: subject.target.clone(), protocol: shape.protocol, work: Work::Watch(work) };
        Load::open(&job).await.with_context(|| format!("open {watches} watches, {}, on {:?}", shape.title, subject.side))
    }
}

/// The revision of a list that matches nothing: a small answer of the cache.
async fn cache_revision(target: &Target, collection: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    let body = fetch(target, &format!("{collection}?resourceVersion=0&fieldSelector=metadata.name%3Dnone")).await?;
    let list: List = serde_json::from_slice(&body).context("an empty list")?;
    Ok(list.metadata.resource_version)
}
