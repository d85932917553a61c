//! Measurements of the forms of a list: JSON, protobuf, Table, compressed or not, and as the initial events of a watch; all per 1,000 objects.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Bench, Subject, as_float, busy, micros, plain, row};
use crate::load::{Form, Load, Paths, Protocol, Requests};
use crate::writer::COLLECTION;

/// How a client asks for all objects, over HTTP/2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listing {
    key: &'static str,
    pub(crate) title: &'static str,
    how: How,
    form: Form,
    gzip: bool,
}

/// One object in so many is written before each list [`How::Changed`].
const CHANGED: u64 = 100;
/// Writes a second before such a list.
const CHANGES_PER_SECOND: f64 = 400.0;

#[derive(Clone, Copy, Debug)]
enum How {
    /// One answer, from the cache.
    Whole,
    /// The same, each after a part of the objects was written.
    Changed,
    /// Pages, as kubectl asks: the newest state, not that of the cache as it is.
    Pages,
    /// The initial events of a watch, as client-go's reflector asks.
    Stream,
}

impl How {
    fn paths(self, objects: u64) -> Paths {
        let query = match self {
            Self::Whole | Self::Changed => "resourceVersion=0",
            Self::Pages => "limit=500",
            Self::Stream => {
                "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=300"
            }
        };
        let path = format!("{COLLECTION}?{query}");
        match self {
            Self::Whole | Self::Changed => Paths::List { path, objects },
            Self::Pages => Paths::Pages { path, objects },
            Self::Stream => Paths::Stream { path, objects },
        }
    }
}

impl Listing {
    const PROTOBUF: Self =
        Self { key: "protobuf", title: "LIST resourceVersion=0, protobuf", how: How::Whole, form: Form::Protobuf, gzip: false };

    /// Those of a run, in order. Plain JSON is there to compare the others with.
    pub(crate) const ALL: [Self; 9] = [
        Self { key: "json", title: "LIST resourceVersion=0, JSON", how: How::Whole, form: Form::Json, gzip: false },
        Self { key: "json_gzip", title: "LIST resourceVersion=0, JSON, gzip", how: How::Whole, form: Form::Json, gzip: true },
        Self {
            key: "json_gzip_changed",
            title: "LIST resourceVersion=0, JSON, gzip, after 1 % changed",
            how: How::Changed,
            form: Form::Json,
            gzip: true,
        },
        Self::PROTOBUF,
        Self { key: "protobuf_gzip", title: "LIST resourceVersion=0, protobuf, gzip", how: How::Whole, form: Form::Protobuf, gzip: true },
        Self {
            key: "protobuf_gzip_changed",
            title: "LIST resourceVersion=0, protobuf, gzip, after 1 % changed",
            how: How::Changed,
            form: Form::Protobuf,
            gzip: true,
        },
        Self { key: "table", title: "LIST as Table, limit=500, all pages", how: How::Pages, form: Form::Table, gzip: false },
        Self { key: "table_gzip", title: "LIST as Table, limit=500, all pages, gzip", how: How::Pages, form: Form::Table, gzip: true },
        Self { key: "stream_protobuf", title: "initial events of a watch, protobuf", how: How::Stream, form: Form::Protobuf, gzip: false },
    ];

    fn requests(self, objects: u64) -> Requests {
        Requests { paths: self.how.paths(objects), connections: 1, form: self.form, gzip: self.gzip }
    }
}

impl Bench {
    /// The first list in protobuf of a server's life: what it has to make then, and what it keeps of it.
    pub(crate) async fn first_protobuf(&mut self, subject: &Subject) -> Result<()> {
        let objects = self.sizes.objects;
        let mut load = self.open_requests(subject, Protocol::Http2, Listing::PROTOBUF.requests(objects)).await?;
        self.rest(subject).await?;
        let (server, _) = busy(subject.meter, async || load.requests(1).await).await?;
        load.close().await?;
        self.rest(subject).await?;
        let resident = subject.meter.rss()?;
        let (side, figures) = (subject.side, &mut self.figures);
        let title = "first LIST in protobuf after the start, per 1,000 objects".to_owned();
        figures.add(side, row("form_first", "protobuf", title, "ms CPU"), micros(server) / as_float(objects));
        figures.add(side, row("form_first_rss", "protobuf", "… memory after it".to_owned(), "MB RSS"), as_float(resident) / 1e6);
        Ok(())
    }

    /// All objects in one form, again and again on one connection.
    pub(crate) async fn listing(&mut self, subject: &Subject, listing: Listing) -> Result<()> {
        let objects = self.sizes.objects;
        let mut load = self.open_requests(subject, Protocol::Http2, listing.requests(objects)).await?;
        load.requests(1).await?;
        self.rest(subject).await?;
        if let How::Changed = listing.how {
            return self.changed(subject, listing, load).await;
        }
        subject.meter.forget_peak()?;
        self.measured(subject, listing, load).await
    }

    /// Lists, each after writes that are not counted.
    async fn changed(&mut self, subject: &Subject, listing: Listing, mut load: Load) -> Result<()> {
        let (objects, lists) = (self.sizes.objects, self.sizes.lists);
        let mut spent = Duration::ZERO;
        for _ in 0..lists {
            self.writer.paced(objects / CHANGED, CHANGES_PER_SECOND).await?;
            self.rest(subject).await?;
            let (server, answers) = busy(subject.meter, async || load.requests(1).await).await?;
            ensure!(answers.compressed, "{} is not compressed, by {:?}", listing.title, subject.side);
            spent += server;
        }
        load.close().await?;
        let title = format!("{}, per 1,000 objects", listing.title);
        self.figures.add(subject.side, row("form", listing.key, title, "ms CPU"), micros(spent) / as_float(lists * objects));
        Ok(())
    }

    async fn measured(&mut self, subject: &Subject, listing: Listing, mut load: Load) -> Result<()> {
        let client_before = load.meter().cpu()?;
        let (server, answers) = busy(subject.meter, async || load.requests(self.sizes.lists).await).await?;
        let client = load.meter().cpu()? - client_before;
        let peak = subject.meter.rss_peak()?;
        load.close().await?;
        ensure!(answers.compressed == listing.gzip, "{}: compressed is {}, by {:?}", listing.title, answers.compressed, subject.side);

        let (side, figures, key) = (subject.side, &mut self.figures, listing.key);
        // Milliseconds for 1,000 are microseconds for one.
        let shown = as_float(self.sizes.lists * self.sizes.objects);
        let title = |what: &str| format!("{what}, {}", listing.title);
        figures.add(side, row("form", key, format!("{}, per 1,000 objects", listing.title), "ms CPU"), micros(server) / shown);
        figures.add(side, row("form_p50", key, title("… all objects, p50"), "ms"), answers.latency.p50);
        figures.add(side, row("form_peak", key, title("… memory, peak"), "MB RSS"), as_float(peak) / 1e6);
        figures.add(side, plain("form_wire", key, title("… on the wire, per object"), "bytes"), as_float(answers.wire_bytes) / shown);
        figures.add(side, plain("form_client", key, title("… load generator, per 1,000 objects"), "ms CPU"), micros(client) / shown);
        Ok(())
    }
}
