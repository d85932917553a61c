//! Measurement of lists by a selector: few of many objects, from the cache, again and again.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::time::Instant;

use super::{Bench, Subject, as_float, busy, fetch, micros, plain, row};
use crate::load::{Form, Paths, Protocol, Requests};
use crate::writer::{COLLECTION, PERCENT, WRITTEN_OBJECTS, has_percent_label, name_of};

/// How long a selector is asked for before it is measured: watchcache looks every 5 s whether what was asked is worth an index.
const WARM: Duration = Duration::from_secs(15);

/// Lists between two looks at the clock.
const WARM_LISTS: u64 = 20;

/// Lists by selector for each whole list of a run (`--lists`): they are that much smaller, or smaller still.
const LISTS: u64 = 50;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Selector {
    /// A label that one object in a hundred has.
    Label,
    /// The same and a label that all objects have, which is named first.
    TwoLabels,
    /// A name, over all namespaces.
    Name,
}

impl Selector {
    /// Those of a run, in order.
    pub(crate) const ALL: [Self; 3] = [Self::Label, Self::TwoLabels, Self::Name];

    fn key(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::TwoLabels => "two_labels",
            Self::Name => "name",
        }
    }

    /// What the table calls it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Label => "a label that 1 % have",
            Self::TwoLabels => "a label that all have and one that 1 % have",
            Self::Name => "metadata.name, all namespaces",
        }
    }

    fn path(self, objects: u64) -> String {
        match self {
            Self::Label => format!("{COLLECTION}?resourceVersion=0&labelSelector=percent%3D{PERCENT}"),
            Self::TwoLabels => format!("{COLLECTION}?resourceVersion=0&labelSelector=app%3Dcompare%2Cpercent%3D{PERCENT}"),
            Self::Name => format!("/api/v1/configmaps?resourceVersion=0&fieldSelector=metadata.name%3D{}", name_of(objects - 1)),
        }
    }

    /// The names that an answer must hold, in order.
    fn wanted(self, objects: u64) -> Vec<String> {
        match self {
            Self::Label | Self::TwoLabels => (0..objects).filter(|index| has_percent_label(*index)).map(name_of).collect(),
            Self::Name => vec![name_of(objects - 1)],
        }
    }
}

impl Bench {
    /// Lists by one selector over HTTP/2 on one connection; their number of objects is checked each time, their names before and after.
    pub(crate) async fn selector(&mut self, subject: &Subject, selector: Selector) -> Result<()> {
        let objects = self.sizes.objects;
        ensure!(objects > WRITTEN_OBJECTS, "selectors need more than {WRITTEN_OBJECTS} objects: the last one's name must be its own");
        let (path, wanted) = (selector.path(objects), selector.wanted(objects));
        let paths = Paths::List { path: path.clone(), objects: wanted.len() as u64 };
        let requests = Requests { paths, connections: 1, form: Form::Json, gzip: false };
        let mut load = self.open_requests(subject, Protocol::Http2, requests).await?;
        let warm_until = Instant::now() + WARM;
        while Instant::now() < warm_until {
            load.requests(WARM_LISTS).await?;
        }
        self.rest(subject).await?;
        ensure!(names(subject, &path).await? == wanted, "{path} brought other objects, by {:?}", subject.side);
        let client_before = load.meter().cpu()?;
        let lists = self.sizes.lists * LISTS;
        let (server, answers) = busy(subject.meter, async || load.requests(lists).await).await?;
        let client = load.meter().cpu()? - client_before;
        load.close().await?;
        ensure!(names(subject, &path).await? == wanted, "{path} brought other objects, by {:?}", subject.side);

        let (side, figures, key) = (subject.side, &mut self.figures, selector.key());
        let title = |what: &str| format!("{what}, {}", selector.title());
        let what = title(&format!("LIST resourceVersion=0, {} of {objects} objects", wanted.len()));
        figures.add(side, row("selector", key, what, "µs CPU"), micros(server) / as_float(lists));
        figures.add(side, row("selector_p50", key, title("… one list, p50"), "ms"), answers.latency.p50);
        figures.add(side, plain("selector_client", key, title("… load generator, per list"), "µs CPU"), micros(client) / as_float(lists));
        Ok(())
    }
}

/// The names of the objects of a list.
async fn names(subject: &Subject, path: &str) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
    }
    let list: List = serde_json::from_slice(&fetch(&subject.target, path).await?).with_context(|| format!("the list {path}"))?;
    Ok(list.items.into_iter().map(|item| item.metadata.name).collect())
}
