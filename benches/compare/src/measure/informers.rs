//! Measurements of many informers that start at once, as after the restart of a controller or of a server: each reads all Pods over a connection of its own.

use anyhow::{Result, ensure};
use tokio::time::Instant;

use super::{Bench, Subject, busy, row};
use crate::load::{Form, Paths, Protocol, Requests};

/// How an informer reads all objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    key: &'static str,
    pub(crate) title: &'static str,
    streams: bool,
    form: Form,
    gzip: bool,
}

impl Start {
    /// As client-go asks: the initial events of a watch, never compressed; or, where it is told not to, a list, for which Go accepts gzip.
    pub(crate) const ALL: [Self; 4] = [
        Self { key: "watch_json", title: "watches with initial events, JSON", streams: true, form: Form::Json, gzip: false },
        Self { key: "watch_protobuf", title: "watches with initial events, protobuf", streams: true, form: Form::Protobuf, gzip: false },
        Self { key: "list_json", title: "lists, JSON, gzip", streams: false, form: Form::Json, gzip: true },
        Self { key: "list_protobuf", title: "lists, protobuf, gzip", streams: false, form: Form::Protobuf, gzip: true },
    ];

    fn paths(self, collection: &str, objects: u64) -> Paths {
        if self.streams {
            let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=300";
            return Paths::Stream { path: format!("{collection}?{query}"), objects };
        }
        Paths::List { path: format!("{collection}?resourceVersion=0"), objects }
    }
}

impl Bench {
    /// So many informers, each with its connection open, that ask at the same moment; until the last one has all objects.
    pub(crate) async fn informers(&mut self, subject: &Subject, start: Start, informers: usize) -> Result<()> {
        let objects = self.sizes.objects;
        let paths = start.paths(self.writer.collection(), objects);
        let requests = Requests { paths, connections: informers, form: start.form, gzip: start.gzip };
        let mut load = self.open_requests(subject, Protocol::Http2, requests).await?;
        self.rest(subject).await?;
        subject.meter.forget_peak()?;
        let client_before = load.meter().cpu()?;
        let began = Instant::now();
        let (server, answers) = busy(subject.meter, async || load.requests(informers as u64).await).await?;
        let (took, client) = (began.elapsed(), load.meter().cpu()? - client_before);
        let peak = subject.meter.rss_peak()?;
        load.close().await?;
        ensure!(answers.compressed == start.gzip, "{}: compressed is {}, by {:?}", start.title, answers.compressed, subject.side);

        let (side, figures, key) = (subject.side, &mut self.figures, start.key);
        let what = format!("{informers} informers that start at once over {objects} Pods, {}", start.title);
        figures.add(side, row("informers", key, format!("{what}: the last is synced after"), "s"), took.as_secs_f64());
        figures.add(side, row("informers_cpu", key, format!("… server, {}", start.title), "s CPU"), server.as_secs_f64());
        figures.add(side, row("informers_peak", key, format!("… memory, peak, {}", start.title), "MB RSS"), super::as_float(peak) / 1e6);
        figures.add(
            side,
            super::plain("informers_client", key, format!("… load generator, {}", start.title), "s CPU"),
            client.as_secs_f64(),
        );
        figures.add(
            side,
            super::plain("informers_bytes", key, format!("… size of an object, {}", start.title), "bytes"),
            super::as_float(answers.plain_bytes) / super::as_float(objects * informers as u64),
        );
        Ok(())
    }
}
