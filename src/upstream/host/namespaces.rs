//! The host's namespaces: a reflector keeps the name of each, and whether it is being deleted. One that it does not know is asked about at once, for it may
//! have been made a moment ago: once for all who wait, and with a share for each who asks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{StatusCode, Uri};
use parking_lot::{Mutex, MutexGuard};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use client::{CallError, Client, FlightLimits, Limits, Login, NdjsonStream, SingleFlight, Streamed, TooMany};
use retry::Backoff;

/// Of the namespaces, client-go's size of a page.
const PAGE: usize = 500;
/// A watch lasts so long, in seconds, and then another one goes on from its last event.
const WATCH_SECONDS: u64 = 300;
/// How much longer a silent one is waited for: then the connection is dead.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// One list or lookup may take so long, and one page or event may be so large: 500 namespaces whose annotations are as long as they may be need 125 MiB, which
/// nobody has.
const LIMITS: Limits = Limits { timeout: Duration::from_secs(10), answer_bytes_max: 32 << 20, concurrent_max: CONNECTIONS_MAX };
/// Unknown namespaces that are asked about at once, and those of them that one user asks about: who makes names up leaves room for others.
const QUESTIONS_MAX: usize = 32;
const QUESTIONS_EACH_MAX: usize = 8;
/// Connections to the host: those of questions, and two of the reflector.
pub const CONNECTIONS_MAX: usize = 2 + QUESTIONS_MAX;
/// Bytes of a name that a namespace may have.
const NAME_BYTES_MAX: usize = 63;
/// How long a question waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// Waits between tries of the reflector; each is up to twice as long.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(500), Duration::from_secs(30), 1.0);

/// How a namespace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It takes objects.
    Active,
    /// It is being deleted.
    Terminating,
}

/// See the file's header.
pub struct Namespaces {
    host: Arc<Host>,
    known: Mutex<Known>,
    flights: SingleFlight<String, Arc<str>, Result<Option<Phase>, String>>,
}

/// Where they are.
struct Host {
    client: Client,
    login: Arc<Login>,
}

/// Why nothing is known of a namespace.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unknown {
    /// Nobody was asked.
    #[error(transparent)]
    TooMany(#[from] TooMany),
    /// The host does not say.
    #[error("{0}")]
    NoAnswer(String),
}

/// What the reflector knows.
struct Known {
    phases: BTreeMap<String, Phase>,
    /// Why it does not follow now.
    wrong: Option<String>,
    /// When it failed last, and why.
    fault: Option<(SystemTime, String)>,
    /// Whether it has ever known all of them.
    is_ready: bool,
}

/// Of an object of the host, what is read.
#[derive(Debug, Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    phase: String,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: Metadata,
    items: Vec<Object>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

/// How a watch ended.
enum Ended {
    /// Its time was over, or the connection: the next one goes on from here.
    At(String),
    /// The host has forgotten what was there: all must be listed again.
    Gone,
}

impl Namespaces {
    /// Of this cluster; nothing is asked yet.
    ///
    /// # Errors
    /// When the certificate and key of the kubeconfig file do not fit.
    pub fn new(login: Arc<Login>) -> Result<Self, String> {
        let wrong = Some("they are not listed yet".to_owned());
        let known = Known { phases: BTreeMap::new(), wrong, fault: None, is_ready: false };
        let host = Arc::new(Host { client: Client::following(&login, LIMITS)?, login });
        Ok(Self { host, known: Mutex::new(known), flights: SingleFlight::new(FlightLimits::of(QUESTIONS_MAX, QUESTIONS_EACH_MAX)) })
    }

    /// How this namespace is; none when the host has none of this name. `asker` is who wants to know.
    ///
    /// # Errors
    /// The reflector does not know it, and there was no place for the question in time, or the host does not say.
    pub async fn phase(&self, name: &str, asker: Arc<str>) -> Result<Option<Phase>, Unknown> {
        let known = self.known().phases.get(name).copied();
        let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if known.is_some() || !is_name || name.len() > NAME_BYTES_MAX {
            return Ok(known);
        }
        let question = || {
            let (host, name) = (self.host.clone(), name.to_owned());
            async move { host.phase(&name).await }
        };
        let answer = self.flights.get(name.to_owned(), asker, name.len(), Instant::now() + PATIENCE, question).await?;
        answer.map_err(Unknown::NoAnswer)
    }

    /// Why they are not followed now, and whether they were known once: then what was known counts on.
    #[must_use]
    pub fn wrong(&self) -> Option<(String, bool)> {
        let known = self.known();
        known.wrong.clone().map(|why| (why, known.is_ready))
    }

    /// When following them failed last, and why.
    #[must_use]
    pub fn fault(&self) -> Option<(SystemTime, String)> {
        self.known().fault.clone()
    }

    /// How many there are, as far as is known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.known().phases.len()
    }

    /// Follows them for ever.
    pub async fn follow(&self) {
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let Err(why) = self.listed_and_watched().await else {
                // The host has forgotten where we were; one that does so each time is asked no faster.
                sleep(BACKOFF.first).await;
                continue;
            };
            let is_new = self.known().failed(&why);
            if is_new {
                tracing::warn!(%why, "the host's namespaces cannot be followed; what is known of them counts");
            }
            // One that went well for a while begins anew.
            failures = if began.elapsed() > BACKOFF.max { 0 } else { failures };
            sleep(BACKOFF.wait(failures)).await;
            failures += 1;
        }
    }

    /// Lists all, and watches until they must be listed again.
    async fn listed_and_watched(&self) -> Result<(), String> {
        let (phases, mut revision) = self.list().await?;
        tracing::info!(namespaces = phases.len(), "follows the host's namespaces");
        self.known().listed(phases);
        loop {
            match self.watch(&revision).await? {
                Ended::At(last) => revision = last,
                Ended::Gone => return Ok(()),
            }
        }
    }

    async fn list(&self) -> Result<(BTreeMap<String, Phase>, String), String> {
        let (mut phases, mut next) = (BTreeMap::new(), String::new());
        loop {
            let from = if next.is_empty() { String::new() } else { format!("&continue={next}") };
            let answer = self.host.client.get(&self.host.url(&format!("?limit={PAGE}{from}"))).await.map_err(|error| error.to_string())?;
            if let Some(why) = answer.failure() {
                return Err(why);
            }
            let list: List = parsed(&answer.body)?;
            phases.extend(list.items.into_iter().map(Object::known));
            if list.metadata.next.is_empty() {
                return Ok((phases, list.metadata.resource_version));
            }
            // It stands in a URL.
            next = utf8_percent_encode(&list.metadata.next, NON_ALPHANUMERIC).to_string();
        }
    }

    async fn watch(&self, from: &str) -> Result<Ended, String> {
        let query = format!("?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={from}");
        let mut lines = match self.host.client.stream(&self.host.url(&query)).await.map_err(|error| error.to_string())? {
            Streamed::Ndjson(lines) => lines,
            Streamed::Refused(answer) if answer.status == StatusCode::GONE => return Ok(Ended::Gone),
            Streamed::Refused(answer) => return Err(answer.failure().unwrap_or_default()),
        };
        let mut last = from.to_owned();
        let longest = Duration::from_secs(WATCH_SECONDS) + WATCH_GRACE;
        let followed = timeout(longest, self.follow_lines(&mut lines, &mut last)).await;
        match followed.unwrap_or(Err(CallError::TimedOut)) {
            Ok(true) => Ok(Ended::Gone),
            // A connection that was lost in the middle is no reason to list anew.
            Ok(false) | Err(CallError::Lost(_)) if last != from => Ok(Ended::At(last)),
            Ok(false) => Ok(Ended::At(last)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Takes events in until there are no more; whether the host says that they must be listed again.
    async fn follow_lines(&self, lines: &mut NdjsonStream, last: &mut String) -> Result<bool, CallError> {
        while let Some(line) = lines.next().await? {
            // An event that cannot be read may have been about anything.
            let Ok(Event { kind, object }) = serde_json::from_slice(&line) else { return Ok(true) };
            let revision = object.metadata.resource_version.clone();
            // It will stand in a URL.
            if !revision.bytes().all(|byte| byte.is_ascii_digit()) {
                return Ok(true);
            }
            match kind.as_str() {
                "ADDED" | "MODIFIED" => {
                    let (name, phase) = object.known();
                    self.known().phases.insert(name, phase);
                }
                "DELETED" => {
                    self.known().phases.remove(&object.metadata.name);
                }
                "BOOKMARK" => {}
                _ => return Ok(true),
            }
            *last = revision;
        }
        Ok(false)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

impl Known {
    fn listed(&mut self, phases: BTreeMap<String, Phase>) {
        (self.phases, self.wrong, self.is_ready) = (phases, None, true);
    }

    /// Notes why they cannot be followed; whether that is new.
    fn failed(&mut self, why: &str) -> bool {
        self.fault = Some((SystemTime::now(), why.to_owned()));
        self.wrong.replace(why.to_owned()).is_none_or(|old| old != why)
    }
}

impl Host {
    async fn phase(&self, name: &str) -> Result<Option<Phase>, String> {
        let answer = self.client.get(&self.url(&format!("/{name}"))).await.map_err(|error| error.to_string())?;
        match answer.failure() {
            None => Ok(Some(parsed::<Object>(&answer.body)?.phase())),
            Some(_) if answer.status == StatusCode::NOT_FOUND => Ok(None),
            Some(why) => Err(why),
        }
    }

    fn url(&self, rest: &str) -> Uri {
        self.login.url(&format!("/api/v1/namespaces{rest}"))
    }
}

impl Object {
    fn phase(&self) -> Phase {
        if self.status.phase == "Terminating" { Phase::Terminating } else { Phase::Active }
    }

    fn known(self) -> (String, Phase) {
        let phase = self.phase();
        (self.metadata.name, phase)
    }
}

fn parsed<'a, T: Deserialize<'a>>(body: &'a Bytes) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("its answer is not what was asked for: {error}"))
}
