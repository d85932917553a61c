//! In which form a client reads, and what an answer has of its objects.

use std::{collections::HashMap, time::Duration};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::http::{Lines, Talk};

/// How long one read may take until it is given up.
const PATIENCE: Duration = Duration::from_secs(40);

/// See the file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// All objects, without a revision.
    Whole,
    /// The same in pages.
    Pages,
    /// The client's own objects, without a revision.
    Own,
    /// One object, without a revision.
    Get,
    /// The client's own objects, by a watch with initial events and without a revision.
    Stream,
    /// The client's own objects, not older than what was told to somebody.
    NotOlder,
    /// The client's own objects exactly when he wrote last.
    Exact,
    /// The client's own objects as they are in memory.
    Cached,
}

impl Form {
    pub(super) const ALL: [Self; 8] =
        [Self::Whole, Self::Pages, Self::Own, Self::Get, Self::Stream, Self::NotOlder, Self::Exact, Self::Cached];
}

/// What was read: of which revision it is, and the objects' revisions by name.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) revision: u64,
    pub(super) objects: HashMap<String, u64>,
}

/// No answer of use: what the server says instead.
#[derive(Debug)]
pub(super) struct Refused(pub(super) u16);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
    #[serde(default)]
    annotations: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct List {
    metadata: Metadata,
    items: Vec<Object>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: serde_json::Value,
}

fn number(text: &str) -> Result<u64> {
    text.parse().with_context(|| format!("{text:?} is no revision"))
}

/// Lists with this query, page by page if there are pages.
pub(super) async fn list(talk: &mut Talk, path: &str, query: &str) -> Result<Result<Seen, Refused>> {
    let (mut seen, mut from) = (Seen::default(), String::new());
    loop {
        let target = format!("{path}?{query}{from}");
        let answer = tokio::time::timeout(PATIENCE, talk.whole("GET", &target, None));
        let (status, body) = answer.await.context("a list that does not end")??;
        if status != 200 {
            return Ok(Err(Refused(status)));
        }
        let list: List = serde_json::from_slice(&body).context("a list")?;
        let revision = number(&list.metadata.resource_version)?;
        if !from.is_empty() && revision != seen.revision {
            bail!("a page of {revision} in a list of {}", seen.revision);
        }
        seen.revision = revision;
        for object in list.items {
            seen.objects.insert(object.metadata.name, number(&object.metadata.resource_version)?);
        }
        if list.metadata.next.is_empty() {
            return Ok(Ok(seen));
        }
        from = format!("&continue={}", list.metadata.next.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"));
    }
}

/// The object's revision, if there is one.
pub(super) async fn get(talk: &mut Talk, target: &str) -> Result<Result<Option<u64>, Refused>> {
    let answer = tokio::time::timeout(PATIENCE, talk.whole("GET", target, None));
    match answer.await.context("a GET that does not end")?? {
        (200, body) => Ok(Ok(Some(number(&serde_json::from_slice::<Object>(&body)?.metadata.resource_version)?))),
        (404, _) => Ok(Ok(None)),
        (status, _) => Ok(Err(Refused(status))),
    }
}

/// The initial events of a watch.
pub(super) async fn stream(talk: &mut Talk, path: &str, query: &str) -> Result<Result<Seen, Refused>> {
    let query =
        format!("{query}&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=35");
    let reading = async {
        let answer = talk.ask("GET", &format!("{path}?{query}"), None).await?;
        if answer.status() != 200 {
            return Ok(Err(Refused(answer.status().as_u16())));
        }
        let (mut lines, mut seen) = (Lines::new(answer.into_body()), Seen::default());
        while let Some(line) = lines.next().await? {
            let event: Event = serde_json::from_slice(&line)?;
            if event.kind == "ERROR" {
                return Ok(Err(Refused(u16::try_from(event.object["code"].as_u64().unwrap_or(0))?)));
            }
            let Object { metadata } = Object::deserialize(event.object)?;
            let revision = number(&metadata.resource_version)?;
            match event.kind.as_str() {
                "BOOKMARK" if metadata.annotations.contains_key("k8s.io/initial-events-end") => {
                    seen.revision = revision;
                    return Ok(Ok(seen));
                }
                "DELETED" => drop(seen.objects.remove(&metadata.name)),
                "BOOKMARK" => {}
                _ => drop(seen.objects.insert(metadata.name, revision)),
            }
        }
        // It ended before everything was there.
        Ok(Err(Refused(0)))
    };
    tokio::time::timeout(PATIENCE, reading).await.context("initial events that do not end")?
}
