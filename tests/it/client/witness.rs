//! A client that writes down all it sees as a `History`, so that the validators can judge it.

use std::{
    io,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Client, Frame, Watch, item_of, query, watch::revision};
use crate::guarantees::{Asked, Filter, History, Page, Seen, Start};

/// Asks one path with one pair of selectors, and remembers.
pub(crate) struct Witness {
    client: Client,
    path: String,
    /// Selectors, as query parameters.
    selectors: Vec<(&'static str, String)>,
    pub(crate) history: History,
    /// The lines of the events, bookmarks apart, in order: for comparisons byte for byte.
    pub(crate) lines: Vec<Vec<u8>>,
    watch: Option<(Watch, Instant)>,
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMeta,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
}

impl Witness {
    /// Of a collection's path; `filter` says what the selectors mean.
    pub(crate) fn new(name: &str, client: Client, path: &str, selectors: &[(&'static str, &str)], filter: Filter) -> Self {
        let selectors: Vec<_> = selectors.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        let history = History::new(format!("{name} {path} {filter:?}"), filter);
        Self { client, path: path.to_owned(), selectors, history, lines: Vec::new(), watch: None }
    }

    /// Lists, page by page when `limit` is given; returns the list's revision, or `None` when it was refused.
    pub(crate) async fn list(&mut self, asked: Asked, limit: Option<usize>) -> io::Result<Option<u64>> {
        let client = self.client.clone();
        self.list_across(asked, limit, || client.clone()).await
    }

    /// The same with each page from a server that is chosen for it.
    pub(crate) async fn list_across(
        &mut self,
        asked: Asked,
        limit: Option<usize>,
        mut server: impl FnMut() -> Client,
    ) -> io::Result<Option<u64>> {
        let mut token = String::new();
        loop {
            let asked = if token.is_empty() { asked } else { Asked::Continued };
            let target = self.list_target(asked, limit, &token);
            let began = Instant::now();
            let answer = server().fetch(&target).await?;
            let took = began.elapsed();
            if answer.status != 200 {
                self.history.seen.push(Seen::Refused { code: answer.status, took });
                return Ok(None);
            }
            let list: List<'_> = serde_json::from_slice(&answer.body)?;
            let items = list.items.iter().map(|object| item_of(object.get())).collect::<io::Result<Vec<_>>>()?;
            let at = revision(&list.metadata.resource_version)?;
            let limit = limit.filter(|_| asked != Asked::Any);
            let more = !list.metadata.next.is_empty();
            self.history.seen.push(Seen::Listed(Page { asked, limit, revision: at, items, more, took }));
            if !more {
                return Ok(Some(at));
            }
            token = list.metadata.next;
        }
    }

    fn list_target(&self, asked: Asked, limit: Option<usize>, token: &str) -> String {
        let (revision, exact) = match asked {
            Asked::Any => (Some(0), false),
            Asked::AtLeast(revision) => (Some(revision), false),
            Asked::Exactly(revision) => (Some(revision), true),
            Asked::Newest { .. } | Asked::Continued => (None, false),
        };
        let (revision, limit) = (revision.map(|r| r.to_string()), limit.map(|l| l.to_string()));
        let mut parameters: Vec<(&str, &str)> = self.selectors.iter().map(|(k, v)| (*k, v.as_str())).collect();
        parameters.extend(revision.as_deref().map(|r| ("resourceVersion", r)));
        parameters.extend(exact.then_some(("resourceVersionMatch", "Exact")));
        // Without the match a limit asks for exactly N (spec list-watch §2.2 row 8).
        parameters.extend(matches!(asked, Asked::AtLeast(_)).then_some(("resourceVersionMatch", "NotOlderThan")));
        parameters.extend(limit.as_deref().map(|l| ("limit", l)));
        parameters.extend((!token.is_empty()).then_some(("continue", token)));
        format!("{}{}", self.path, query(&parameters))
    }

    /// Asks another server from now on; an open watch stays where it is.
    pub(crate) fn turn_to(&mut self, server: Client) {
        self.client = server;
    }

    /// One object of the resource, not older than a revision, under its path; the answer is only written down.
    pub(crate) async fn get(&mut self, path: &str, key: &str, at_least: u64) -> io::Result<()> {
        let began = Instant::now();
        let answer = self.client.fetch(&format!("{path}{}", query(&[("resourceVersion", &at_least.to_string())]))).await?;
        let took = began.elapsed();
        let item = match answer.status {
            200 => Some(item_of(std::str::from_utf8(&answer.body).map_err(io::Error::other)?)?),
            404 => None,
            code => {
                self.history.seen.push(Seen::Refused { code, took });
                return Ok(());
            }
        };
        self.history.seen.push(Seen::Got { key: key.to_owned(), at_least, item, took });
        Ok(())
    }

    /// Opens a watch with bookmarks; `false` when it was refused.
    pub(crate) async fn watch(&mut self, start: Start) -> io::Result<bool> {
        self.watch_for(start, None).await
    }

    /// The same with `timeoutSeconds`.
    pub(crate) async fn watch_for(&mut self, start: Start, timeout: Option<Duration>) -> io::Result<bool> {
        let from = if let Start::At(revision) = start { revision.to_string() } else { "0".into() };
        let mut parameters: Vec<(&str, &str)> = self.selectors.iter().map(|(k, v)| (*k, v.as_str())).collect();
        parameters.extend([("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", &from)]);
        if start == Start::Marked {
            parameters.extend([("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]);
        }
        let seconds = timeout.map(|t| t.as_secs().to_string());
        parameters.extend(seconds.as_deref().map(|s| ("timeoutSeconds", s)));
        let began = Instant::now();
        match self.client.watch(&format!("{}{}", self.path, query(&parameters))).await? {
            Ok(watch) => {
                self.history.seen.push(Seen::Watching { start, timeout });
                self.watch = Some((watch, began));
                Ok(true)
            }
            Err(answer) => {
                self.history.seen.push(Seen::Refused { code: answer.status, took: began.elapsed() });
                Ok(false)
            }
        }
    }

    /// Reads the watch until what has come satisfies `enough`, the stream ends, or the time is over; `true` when it was enough.
    pub(crate) async fn read_until(&mut self, patience: Duration, mut enough: impl FnMut(&Seen) -> bool) -> io::Result<bool> {
        let deadline = tokio::time::Instant::now() + patience;
        while let Some((watch, began)) = &mut self.watch {
            let Ok(next) = tokio::time::timeout_at(deadline, watch.next()).await else { return Ok(false) };
            let Some(Frame { line, seen }) = next? else {
                self.history.seen.push(Seen::Ended { took: began.elapsed() });
                self.watch = None;
                break;
            };
            let satisfied = enough(&seen);
            if !matches!(seen, Seen::Bookmark { .. }) {
                self.lines.push(line);
            }
            self.history.seen.push(seen);
            if satisfied {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The writers were done at this revision and the client has waited long enough.
    pub(crate) fn settle(&mut self, revision: u64) {
        self.history.seen.push(Seen::Settled { revision });
    }

    /// Another client that asks the same and has seen nothing.
    pub(crate) fn twin(&self) -> Self {
        let history = History::new(self.history.client.clone(), self.history.filter.clone());
        let (client, path, selectors) = (self.client.clone(), self.path.clone(), self.selectors.clone());
        Self { client, path, selectors, history, lines: Vec::new(), watch: None }
    }

    /// Whether the server has not ended the watch.
    pub(crate) fn is_open(&self) -> bool {
        self.watch.is_some()
    }

    /// Whether the last thing it saw is that its revision is too old.
    pub(crate) fn expired(&self) -> bool {
        self.history
            .seen
            .iter()
            .rev()
            .find(|s| !matches!(s, Seen::Ended { .. }))
            .is_some_and(|s| matches!(s, Seen::Error { code: 410, .. }))
    }

    /// Closes the watch from the client's side.
    pub(crate) fn leave(&mut self) {
        self.watch = None;
    }
}
