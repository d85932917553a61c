//! Upstream as a source of objects: where it is, who we are there, and what it is asked.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AGE, WARNING};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep};

use super::event::{Failure, failure, list_revision};
use super::ledger::Ledger;
use super::lines::{Asking, Lines, Watched};
use super::place::Place;
use super::release::{Releases, release};
use client::{Answer, CallError, Login};
use model::{Revision, Storage};

/// Resources that are loaded at the same time; as of etcd.
const LOADS_AT_ONCE: usize = 4;
/// How long upstream may say that it has less than it had: one of several servers may be late. After that its etcd was restored from a backup.
const RESTORED_AFTER: Duration = Duration::from_secs(60);
/// How long a load may take. A watch is asked to last 10 minutes at most, and others wait for their turn.
const LOAD_TIME: Duration = Duration::from_secs(900);
/// Where it says of which release it is, and how often it is asked.
const VERSION: &str = "/version";
const RELEASE_LOOK: Duration = Duration::from_secs(5);
/// Pages that are asked for at once: those of loads, and how far upstream is.
const PAGES_AT_ONCE: usize = 32;

/// Connections that files are reserved for: the watch of each resource that is followed, of as many as a cluster with hundreds of definitions has, and the
/// pages.
pub const CONNECTIONS_RESERVED: usize = 1_024 + PAGES_AT_ONCE;

/// See the file's header.
pub struct Source {
    asking: Asking,
    /// `/registry/`.
    prefix: String,
    pub(crate) loads: Semaphore,
    /// What all objects may have.
    pub(crate) ledger: Arc<Ledger>,
    /// Of which releases its API servers are.
    pub(crate) releases: Releases,
    /// It answers again, after it did not.
    pub(crate) back: Notify,
    /// When it was heard last.
    heard: Mutex<Instant>,
    /// How long upstream says that it has less than it had, until that is believed.
    pub(crate) restored_after: Duration,
    /// How long a load may take.
    pub(crate) load_time: Duration,
}

/// Why upstream has no answer of use.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// It answers something else.
    Failed(Failure),
    /// It does not answer, or too much.
    Call(CallError),
    /// It answers what may be old, where what there is now was asked for.
    Old,
}

impl Source {
    /// Of this server, where we are who the file says now; nothing is asked yet. Keys in the cache begin with `prefix`.
    ///
    /// # Errors
    /// When certificate and key do not fit.
    pub fn new(login: Arc<Login>, prefix: &str) -> Result<Self, String> {
        Ok(Self {
            asking: Asking::of(login)?,
            prefix: prefix.to_owned(),
            loads: Semaphore::new(LOADS_AT_ONCE),
            ledger: Ledger::within(None),
            releases: Releases::default(),
            back: Notify::new(),
            heard: Mutex::new(Instant::now()),
            restored_after: RESTORED_AFTER,
            load_time: LOAD_TIME,
        })
    }

    /// Has the objects of all resources stay within the part of this budget that is theirs.
    #[must_use]
    pub fn within(self, memory_budget: Option<u64>) -> Self {
        Self { ledger: Ledger::within(memory_budget), ..self }
    }

    /// Where it is.
    #[must_use]
    pub fn server(&self) -> String {
        self.login().now().server().to_owned()
    }

    /// Returns who we are there.
    pub(crate) fn login(&self) -> &Arc<Login> {
        self.asking.login()
    }

    /// The key prefix.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A revision that upstream had of this resource when it was asked, or later: by a LIST without a revision, which is consistent.
    ///
    /// # Errors
    /// Upstream does not say, in words for people.
    pub async fn newest(&self, storage: &Arc<Storage>) -> Result<Revision, String> {
        self.newest_of(&Place::of(storage, &self.prefix)).await.map_err(|error| error.to_string())
    }

    /// The same of a place.
    pub(crate) async fn newest_of(&self, place: &Place) -> Result<Revision, NoAnswer> {
        let answer = self.answer(place, &place.path, "limit=1").await?;
        if may_be_old(&answer.headers) {
            return Err(NoAnswer::Old);
        }
        list_revision(&answer.body).map_err(|lie| NoAnswer::Failed(Failure { message: lie.to_string(), ..Failure::default() }))
    }

    /// Notes that it says something now.
    pub(crate) fn hears(&self) {
        *self.heard.lock() = Instant::now();
    }

    /// Returns when it was heard last.
    pub(crate) fn heard(&self) -> Instant {
        *self.heard.lock()
    }

    /// Asks of which release it is, where watches of this path are asked for; none when it does not say.
    pub(crate) async fn release(&self, path: &str) -> Option<String> {
        let answer = self.asking.whole(path, VERSION, "application/json").await.ok()?;
        if !answer.status.is_server_error() {
            self.hears();
        }
        let release = release(&answer.body).filter(|_| answer.status == StatusCode::OK)?;
        self.releases.said(&release, Instant::now());
        Some(release)
    }

    /// Asks again and again of which release it is.
    pub(crate) async fn look_at_release(&self) {
        loop {
            sleep(RELEASE_LOOK).await;
            self.release(VERSION).await;
        }
    }

    /// A page of a list, with this query.
    pub(crate) async fn list(&self, place: &Place, query: &str) -> Result<Bytes, NoAnswer> {
        self.list_at(place, &place.path, query).await
    }

    /// The same of a path.
    pub(crate) async fn list_at(&self, place: &Place, path: &str, query: &str) -> Result<Bytes, NoAnswer> {
        self.answer(place, path, query).await.map(|answer| answer.body)
    }

    async fn answer(&self, place: &Place, path: &str, query: &str) -> Result<Answer, NoAnswer> {
        let answer = self.asking.whole(&place.path, &format!("{path}?{query}"), place.accept()).await.map_err(NoAnswer::Call)?;
        if answer.status == StatusCode::OK { Ok(answer) } else { Err(refused(&answer)) }
    }

    /// A watch, with this query.
    pub(crate) async fn watch(&self, place: &Place, query: &str) -> Result<Lines, NoAnswer> {
        let target = format!("{}?watch=true&allowWatchBookmarks=true&{query}", place.path);
        match self.asking.watch(&place.path, &target, place.accept()).await.map_err(NoAnswer::Call)? {
            Watched::Lines(lines) => Ok(lines),
            Watched::Refused(answer) => Err(refused(&answer)),
        }
    }
}

/// Whether the head of an answer says that it is not what there is now: it has an age, or a cache on the way warns of it (RFC 7234 §5.5;
/// `--consistent-reads=cached`).
pub(crate) fn may_be_old(headers: &HeaderMap) -> bool {
    headers.contains_key(AGE)
        || headers.get_all(WARNING).iter().any(|value| warnings(value.as_bytes()).any(|(code, agent)| warns(&code, &agent)))
}

fn warns(code: &str, agent: &str) -> bool {
    matches!(code, "110" | "111" | "112" | "113") || (code, agent) == ("299", "watchcache")
}

/// Codes and agents of the warnings of one header, without their texts.
fn warnings(value: &[u8]) -> impl Iterator<Item = (String, String)> {
    let (mut bare, mut is_text, mut bytes) = (String::new(), false, value.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_text = !is_text,
            b'\\' if is_text => drop(bytes.next()),
            _ if is_text => {}
            byte => bare.push(char::from(*byte)),
        }
    }
    let all: Vec<(String, String)> = bare
        .split(',')
        .filter_map(|one| {
            let mut words = one.split_ascii_whitespace().map(str::to_owned);
            Some((words.next()?, words.next()?))
        })
        .collect();
    all.into_iter()
}

/// What an answer says that is none of use.
fn refused(answer: &Answer) -> NoAnswer {
    // A `Status` comes in the form of what was asked for, or in another one.
    let told = failure(&answer.body);
    let message = match told.message.is_empty() {
        true => answer.failure().unwrap_or_else(|| "the server answers without what was asked for".to_owned()),
        false => told.message,
    };
    NoAnswer::Failed(Failure { code: answer.status.as_u16(), message, retry_after: answer.retry_after().or(told.retry_after) })
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(failure) => failure.fmt(out),
            Self::Call(error) => error.fmt(out),
            Self::Old => out.write_str("upstream answers from memory that may be old"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::proto::{envelope_into, message};
    use http::HeaderValue;

    /// What is asked for as protobuf is refused so, and others refuse in words of their own.
    #[test]
    fn a_refusal_is_text_in_whatever_form_it_comes() {
        let json = r#"{"kind":"Status","message":"nodes is forbidden","code":403}"#;
        let mut protobuf = Vec::new();
        envelope_into(
            "v1",
            "Status",
            &message("v1", "Status").expect("a message").from_json(json.as_bytes()).expect("a Status"),
            &mut protobuf,
        );
        for (body, wanted) in [
            (protobuf, "403 nodes is forbidden"),
            (json.into(), "403 nodes is forbidden"),
            (b"<p>no</p>".to_vec(), "403 <p>no</p>"),
            (b"\x1f\x8b\x08\x00".to_vec(), "403 unknown"),
            (Vec::new(), "403 unknown"),
        ] {
            let answer = Answer { status: StatusCode::FORBIDDEN, headers: HeaderMap::new(), body: body.into() };
            assert_eq!(refused(&answer).to_string(), wanted);
        }
    }

    /// A kube-apiserver warns of old API versions with the same code.
    #[test]
    fn who_answers_from_memory_says_so() {
        let told =
            |name: http::HeaderName, value: &'static str| may_be_old(&HeaderMap::from_iter([(name, HeaderValue::from_static(value))]));
        assert!(!may_be_old(&HeaderMap::new()));
        assert!(told(AGE, "12"));
        assert!(told(WARNING, r#"110 watchcache "Response is Stale""#));
        assert!(told(WARNING, r#"299 watchcache "answered from memory""#));
        assert!(told(WARNING, r#"299 - "v1 Endpoints is deprecated, \" 110 x", 110 - "Response is Stale""#));
        assert!(!told(WARNING, r#"299 - "v1 Endpoints is deprecated in v1.33+; use \"110\", 110 a, 299 watchcache b""#));
    }
}
