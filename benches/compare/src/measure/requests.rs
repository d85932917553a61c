//! Measurements of requests: whole lists and single objects, from the cache.

use anyhow::{Context, Result};

use super::{Bench, Sizes, Subject, as_float, busy, micros, plain, row};
use crate::load::{Form, Job, Load, Paths, Protocol, Requests, Work};
use crate::writer::object_path;

/// Connections that ask for single objects; the load is then a client's, not the server's saturation.
const GET_CONNECTIONS: usize = 4;

impl Bench {
    /// Whole lists from the cache, one after another on one connection.
    pub(crate) async fn lists(&mut self, subject: &Subject, protocol: Protocol, gzip: bool) -> Result<()> {
        let paths = Paths::List { path: format!("{}?resourceVersion=0", self.writer.collection()), objects: self.sizes.objects };
        let mut load = self.open_requests(subject, protocol, Requests { paths, connections: 1, form: Form::Json, gzip }).await?;
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
        let gigabytes = as_float(answers.plain_bytes) / 1e9;
        let what = title("LIST resourceVersion=0, per GB of JSON");
        figures.add(side, row("list", key, what, "s CPU"), server.as_secs_f64() / gigabytes);
        figures.add(side, row("list_p50", key, title("… one list, p50"), "ms"), answers.latency.p50);
        figures.add(side, row("list_peak", key, title("… memory, peak"), "MB RSS"), as_float(peak) / 1e6);
        figures.add(
            side,
            plain("list_wire", key, title("… bytes on the wire, per byte of JSON"), ""),
            as_float(answers.wire_bytes) / as_float(answers.plain_bytes),
        );
        figures.add(side, plain("list_client", key, title("… load generator, per GB of JSON"), "s CPU"), client.as_secs_f64() / gigabytes);
        figures.add(
            side,
            plain("list_bytes", "object", "size of an object in a list".to_owned(), "bytes"),
            as_float(answers.plain_bytes) / as_float(self.sizes.lists * self.sizes.objects),
        );
        Ok(())
    }

    /// Single objects from the cache.
    pub(crate) async fn gets(&mut self, subject: &Subject, protocol: Protocol, form: Form) -> Result<()> {
        let Sizes { objects, gets, .. } = self.sizes;
        let paths = (0..objects).map(|index| format!("{}?resourceVersion=0", object_path(index))).collect();
        let work = Requests { paths: Paths::Objects { paths }, connections: GET_CONNECTIONS, form, gzip: false };
        let mut load = self.open_requests(subject, protocol, work).await?;
        load.requests(gets.div_ceil(4)).await?;
        self.rest(subject).await?;
        let client_before = load.meter().cpu()?;
        let (server, answers) = busy(subject.meter, async || load.requests(gets).await).await?;
        let client = load.meter().cpu()? - client_before;
        load.close().await?;

        let (key, title) = match (protocol, form) {
            (Protocol::Http1, Form::Json) => ("h1", "HTTP/1.1"),
            (Protocol::Http1, _) => ("h1_protobuf", "HTTP/1.1, protobuf"),
            (Protocol::Http2, Form::Json) => ("h2", "HTTP/2"),
            (Protocol::Http2, _) => ("h2_protobuf", "HTTP/2, protobuf"),
        };
        let title = |what: &str| format!("{what}, {title}");
        let (side, figures) = (subject.side, &mut self.figures);
        figures.add(side, row("get", key, title("GET resourceVersion=0"), "µs CPU"), micros(server) / as_float(gets));
        figures.add(side, row("get_p50", key, title(&format!("… {GET_CONNECTIONS} clients, p50")), "ms"), answers.latency.p50);
        figures.add(side, row("get_p99", key, title(&format!("… {GET_CONNECTIONS} clients, p99")), "ms"), answers.latency.p99);
        figures.add(side, plain("get_client", key, title("… load generator, per GET"), "µs CPU"), micros(client) / as_float(gets));
        Ok(())
    }

    /// Connects. The requests before the measured ones come before the wait for rest.
    pub(super) async fn open_requests(&mut self, subject: &Subject, protocol: Protocol, requests: Requests) -> Result<Load> {
        let job = Job { target: subject.target.clone(), protocol, work: Work::Requests(requests) };
        Load::open(&job).await.with_context(|| format!("open a load of requests on {:?}", subject.side))
    }
}
