//! Upstream as a source of objects: where it is, who we are there, and what it is asked.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::{Notify, Semaphore};

use super::event::{Failure, failure, list_revision};
use super::place::Place;
use client::{Answer, CallError, Client, Kubeconfig, Limits, NdjsonStream, Streamed};
use model::{Revision, Storage};

/// Resources that are loaded at the same time; as of etcd.
const LOADS_AT_ONCE: usize = 4;
/// Bytes of one event. etcd takes 1.5 MiB of an object unless it is told otherwise, which are a few times as many as JSON.
const EVENT_BYTES_MAX: usize = 32 << 20;
/// Bytes of one page of a list. Pages are made smaller until they are within.
const PAGE_BYTES_MAX: usize = 64 << 20;
/// How long the head of a watch's answer, and a whole page, may take.
const HEAD_TIME: Duration = Duration::from_secs(30);
const PAGE_TIME: Duration = Duration::from_secs(60);
/// How long upstream may say that it has less than it had: one of several servers may be late. After that its etcd was restored from a backup.
const RESTORED_AFTER: Duration = Duration::from_secs(60);
/// Pages that are asked for at once: those of loads, and how far upstream is.
const PAGES_AT_ONCE: usize = 32;

/// See the file's header.
pub struct Source {
    watches: Client,
    lists: Client,
    at: Kubeconfig,
    /// `/registry/`.
    prefix: String,
    pub(crate) loads: Semaphore,
    /// It answers again, after it did not.
    pub(crate) back: Notify,
    /// How long upstream says that it has less than it had, until that is believed.
    pub(crate) restored_after: Duration,
}

/// Why upstream has no answer of use.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// It answers something else.
    Failed(Failure),
    /// It does not answer, or too much.
    Call(CallError),
}

impl Source {
    /// Of this server, where we are who the file says; nothing is asked yet. Keys in the cache begin with `prefix`.
    ///
    /// # Errors
    /// When certificate and key do not fit.
    pub fn new(at: Kubeconfig, prefix: &str) -> Result<Self, String> {
        let watch = Limits { timeout: HEAD_TIME, answer_bytes_max: EVENT_BYTES_MAX, concurrent_max: LOADS_AT_ONCE };
        let list = Limits { timeout: PAGE_TIME, answer_bytes_max: PAGE_BYTES_MAX, concurrent_max: PAGES_AT_ONCE };
        let (watches, lists) = (Client::of(&at, watch)?, Client::of(&at, list)?);
        Ok(Self {
            watches,
            lists,
            at,
            prefix: prefix.to_owned(),
            loads: Semaphore::new(LOADS_AT_ONCE),
            back: Notify::new(),
            restored_after: RESTORED_AFTER,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn server(&self) -> &str {
        self.at.server()
    }

    /// The key prefix.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A revision that upstream had of this resource when it was asked, or later: by a LIST without a revision, which is consistent.
    ///
    /// # Errors
    /// Upstream does not say, in words for people.
    pub async fn newest(&self, storage: &std::sync::Arc<Storage>) -> Result<Revision, String> {
        let place = Place::of(storage, &self.prefix);
        let body = self.list(&place, "limit=1").await.map_err(|error| error.to_string())?;
        list_revision(&body).map_err(|lie| lie.to_string())
    }

    /// A page of a list, with this query.
    pub(crate) async fn list(&self, place: &Place, query: &str) -> Result<Bytes, NoAnswer> {
        let answer = self.lists.get(&self.at.url(&format!("{}?{query}", place.path))).await.map_err(NoAnswer::Call)?;
        if answer.status == StatusCode::OK { Ok(answer.body) } else { Err(refused(&answer)) }
    }

    /// A watch, with this query.
    pub(crate) async fn watch(&self, place: &Place, query: &str) -> Result<NdjsonStream, NoAnswer> {
        let url = self.at.url(&format!("{}?watch=true&allowWatchBookmarks=true&{query}", place.path));
        match self.watches.stream(&url).await.map_err(NoAnswer::Call)? {
            Streamed::Ndjson(lines) => Ok(lines),
            Streamed::Refused(answer) => Err(refused(&answer)),
        }
    }
}

/// What an answer says that is none of use.
fn refused(answer: &Answer) -> NoAnswer {
    let told = failure(&answer.body);
    let message = answer.failure().unwrap_or_else(|| "the server answers without what was asked for".to_owned());
    NoAnswer::Failed(Failure { code: answer.status.as_u16(), message, retry_after: answer.retry_after().or(told.retry_after) })
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(failure) => failure.fmt(out),
            Self::Call(error) => error.fmt(out),
        }
    }
}
