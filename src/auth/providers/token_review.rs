//! Asks a server whose a token is, with a TokenReview: a webhook, or the Kubernetes API of the cluster that this server extends.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use bytes::Bytes;
use http::Uri;
use parking_lot::Mutex;
use recent::Recent;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use thiserror::Error;
use tokio::time::Instant;

use super::settings::{self as config, TokenReviewVersion};
use super::{ProvidersError, QUESTION_TIME_MAX};
use crate::User;
use crate::authn::{AuthenticatedUser, RAW_URL, TokenKey, intersection, token_key};
use crate::presence::{Heard, Presence};
use crate::right::AskingRight;
use client::{CallError, Client, FlightLimits, Limits, Login, Logins, SingleFlight, TooMany, WEBHOOK_BACKOFF, retried};

/// Questions of one reviewer that may be under way; ours.
pub(super) const QUESTIONS_MAX: usize = 256;
/// Those of one address: a quarter, so that whoever sends tokens that hang leaves room for others.
const QUESTIONS_EACH_MAX: usize = QUESTIONS_MAX / 4;
/// Bytes of an answer; ours. A user in 5,000 groups has some 300 KiB.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Answers that are kept, kube-apiserver's number, and their bytes, ours. So many users, and so many tokens of nobody: anybody can make these up, and they must
/// not push out what is known of good ones.
const KEPT_MAX: usize = 32_768;
const KEPT_BYTES_MAX: usize = 64 << 20;

/// How long a question to the host cluster may take, and how long its answer is kept (kube-apiserver's numbers for servers that delegate).
const CLUSTER_TIME_MAX: Duration = Duration::from_secs(10);
const CLUSTER_KEEPS: Duration = Duration::from_secs(10);
/// What is told of a token that the server has not named before, while it is away.
const AWAY: &str = "the server that knows whose a token is does not answer";
const WEBHOOK_FLAG: &str = "--authentication-token-webhook-config-file";

/// Whom to ask.
pub(super) enum Way<'a> {
    /// `--authentication-token-webhook-config-file`.
    Webhook(&'a config::TokenWebhook),
    /// A cluster whose Kubernetes API is asked.
    Cluster(&'a Arc<Login>, &'a config::HostCluster),
}

/// See the file's header.
pub(super) struct TokenReviewer {
    server: Arc<Server>,
    /// What comes of a question, and whether the server is away if it is nothing.
    flights: SingleFlight<TokenKey, IpAddr, (Asked, bool)>,
    presence: Arc<Presence>,
    answers: Arc<Answers>,
    /// It stands behind this server, which knows nobody by itself.
    is_upstream: bool,
}

/// Why it is not known whose a token is.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum Unreviewed {
    /// As the server says.
    #[error("{0}")]
    Judged(String),
    /// The server has said nothing of it.
    #[error("{0}")]
    NoWord(String),
}

/// What was answered, until it is over.
struct Answers {
    /// Whom it named last, for when there is no answer; nobody where it took that back.
    before: Mutex<Recent<TokenKey, Option<AuthenticatedUser>, Instant>>,
    users: Mutex<Recent<TokenKey, AuthenticatedUser, Instant>>,
    nobody: Mutex<Recent<TokenKey, (), Instant>>,
    keeps: Duration,
    /// How long what is in `before` counts.
    counts_for: Duration,
}

/// A question about a token, with what is kept of its answer whether or not somebody still waits for it.
#[derive(Clone)]
struct Question {
    server: Arc<Server>,
    answers: Arc<Answers>,
    key: TokenKey,
    body: Bytes,
    wanted: Vec<String>,
    api: Vec<String>,
    /// How long the token lasts by its own word.
    ends: Option<Instant>,
}

struct Server {
    client: Client,
    login: Arc<Login>,
    /// The path and query below the server's URL.
    path: String,
    version: TokenReviewVersion,
    /// All tries together.
    time_max: Duration,
    /// Of a cluster, whether it lets us ask.
    right: Option<Arc<AskingRight>>,
}

/// Whose it is, if anybody's; or why nobody knows.
type Reviewed = Result<Option<AuthenticatedUser>, String>;

/// What comes of a question, and whether it is the server's word on the token.
type Asked = (Reviewed, bool);

impl TokenReviewer {
    pub(super) fn new(way: Way<'_>, logins: &Logins) -> Result<TokenReviewer, ProvidersError> {
        match way {
            Way::Webhook(webhook) => {
                let login = logins.open(WEBHOOK_FLAG, &webhook.config_file)?;
                // client-go tells a webhook how long it waits.
                let path = format!("?timeout={}s", QUESTION_TIME_MAX.as_secs());
                let client = client(WEBHOOK_FLAG, &login, QUESTION_TIME_MAX)?;
                let server = Server { client, login, path, version: webhook.version, time_max: QUESTION_TIME_MAX, right: None };
                Ok(TokenReviewer::asking(server, webhook.cache_ttl, Arc::default()))
            }
            Way::Cluster(login, cluster) => TokenReviewer::of_cluster(login, cluster, CLUSTER_TIME_MAX),
        }
    }

    fn of_cluster(login: &Arc<Login>, cluster: &config::HostCluster, time_max: Duration) -> Result<TokenReviewer, ProvidersError> {
        let path = "/apis/authentication.k8s.io/v1/tokenreviews".to_owned();
        let (client, login) = (client(login.flag(), login, time_max)?, login.clone());
        let right = Some(AskingRight::token_reviews());
        let server = Server { client, login, path, version: TokenReviewVersion::V1, time_max, right };
        let reviewer = TokenReviewer::asking(server, CLUSTER_KEEPS, cluster.presence.clone());
        Ok(TokenReviewer { is_upstream: cluster.is_upstream, ..reviewer })
    }

    fn asking(server: Server, keeps: Duration, presence: Arc<Presence>) -> TokenReviewer {
        let flights = SingleFlight::new(FlightLimits::of(QUESTIONS_MAX, QUESTIONS_EACH_MAX));
        let (users, nobody) = (Mutex::new(Recent::new(KEPT_MAX, KEPT_BYTES_MAX)), Mutex::new(Recent::new(KEPT_MAX, KEPT_BYTES_MAX)));
        let before = Mutex::new(Recent::new(KEPT_MAX, KEPT_BYTES_MAX));
        let answers = Arc::new(Answers { before, users, nobody, keeps, counts_for: presence.counts_for() });
        TokenReviewer { server: Arc::new(server), flights, presence, answers, is_upstream: false }
    }

    /// Returns whether the server lets us ask, if it is a cluster's.
    pub(super) fn right(&self) -> Option<&Arc<AskingRight>> {
        self.server.right.as_ref()
    }

    /// Returns whether nobody else can say whose a token is.
    pub(super) fn is_upstream(&self) -> bool {
        self.is_upstream
    }

    /// Follows whether a cluster lets us ask, for ever.
    pub(super) fn follow_right(&self) -> impl Future<Output = ()> + Send + use<> {
        let server = self.server.clone();
        async move {
            if let Some(right) = &server.right {
                right.follow(&server.client, || server.url(), server.version.api_version(), "TokenReview").await;
            }
        }
    }

    /// Whose token it is, for one of these audiences. Answers that name a user, and those that name none, are kept; failures are not.
    ///
    /// # Errors
    /// There was no place for the question `until` then.
    pub(super) async fn review(
        &self,
        token: &str,
        wanted: &[String],
        api: &[String],
        client: IpAddr,
        until: Instant,
    ) -> Result<Result<Option<AuthenticatedUser>, Unreviewed>, TooMany> {
        let key = token_key(token, Some(wanted), 0);
        let now = Instant::now();
        if let Some(known) = self.answers.known(&key, now) {
            return Ok(Ok(known));
        }
        let texts = wanted.iter().map(String::len).sum::<usize>();
        let bytes = token.len() + 2 * (texts + size_of_val(wanted));
        let question = || Question {
            server: self.server.clone(),
            answers: self.answers.clone(),
            key,
            body: self.server.version.review(token, wanted),
            wanted: wanted.to_vec(),
            api: api.to_vec(),
            ends: lasts(token).map(|left| now + left),
        };
        let (before, is_away) = (self.answers.before.lock().get(&key, now).cloned(), self.presence.is_away());
        let has_before = before.is_some();
        if let Some(before) = before.filter(|_| is_away) {
            self.presence.probe(|| {
                let question = question();
                async move { question.ask().await }
            });
            return Ok(Ok(before));
        }
        let asked = self.flights.get(key, client, bytes, until, || {
            let (presence, question) = (self.presence.clone(), question());
            async move { presence.ask(has_before, || question.ask()).await }
        });
        // What is answered later than that counts from then on.
        let asked = tokio::select! {
            biased;
            asked = asked => Some(asked),
            () = self.presence.silence(now), if has_before || is_away => None,
        };
        let ((reviewed, is_judged), is_away) = match asked {
            Some(asked) => asked.inspect_err(|error| {
                tracing::warn!(%error, url = %self.server.url(), "cannot ask whose a token is");
            })?,
            None => ((Err(AWAY.to_owned()), false), true),
        };
        Ok(match reviewed {
            Err(why) if is_away && !is_judged => {
                self.answers.before.lock().get(&key, Instant::now()).cloned().ok_or(Unreviewed::NoWord(why))
            }
            reviewed => reviewed.map_err(if is_judged { Unreviewed::Judged } else { Unreviewed::NoWord }),
        })
    }
}

impl Answers {
    /// Whose token it is, if it is anybody's, when that was answered lately.
    fn known(&self, key: &TokenKey, now: Instant) -> Option<Option<AuthenticatedUser>> {
        if let Some(authenticated) = self.users.lock().get(key, now) {
            return Some(Some(authenticated.clone()));
        }
        self.nobody.lock().get(key, now).map(|()| None)
    }

    /// Keeps what was answered about a token that lasts until then.
    fn keep(&self, key: TokenKey, (reviewed, is_judged): &Asked, ends: Option<Instant>) {
        let now = Instant::now();
        match reviewed {
            Ok(Some(authenticated)) => {
                self.users.lock().put(key, authenticated.clone(), authenticated.bytes(), now, Some(now + self.keeps));
                let counts = now + self.counts_for;
                let until = ends.map_or(counts, |ends| ends.min(counts));
                self.before.lock().put(key, Some(authenticated.clone()), authenticated.bytes(), now, Some(until));
            }
            Ok(None) => {
                self.nobody.lock().put(key, (), 0, now, Some(now + self.keeps));
                self.take_back(key, now);
            }
            Err(_) if *is_judged => self.take_back(key, now),
            Err(_) => {}
        }
    }

    /// Notes that a token is nobody's any longer, if it was somebody's: strangers' tokens push out nobody's.
    fn take_back(&self, key: TokenKey, now: Instant) {
        let mut before = self.before.lock();
        if before.get(&key, now).is_some() {
            before.put(key, None, 0, now, Some(now + self.counts_for));
        }
    }
}

impl Question {
    /// Asks the server, and keeps what it says.
    async fn ask(&self) -> (Asked, Heard) {
        let (asked, heard) = self.server.ask(self.body.clone(), &self.wanted, &self.api).await;
        self.answers.keep(self.key, &asked, self.ends);
        (asked, heard)
    }
}

#[cfg(test)]
impl TokenReviewer {
    /// As if so many strangers' tokens had been nobody's.
    pub(super) fn strangers(&self, count: usize) {
        let now = Instant::now();
        for nth in 0..count {
            let until = Some(now + self.answers.keeps);
            self.answers.nobody.lock().put(token_key(&nth.to_string(), None, 0), (), 0, now, until);
        }
    }
}

impl Server {
    fn url(&self) -> Uri {
        self.login.url(&self.path)
    }

    /// What it says, and what that tells of it.
    async fn ask(&self, body: Bytes, wanted: &[String], api: &[String]) -> (Asked, Heard) {
        let until = Instant::now() + self.time_max;
        let url = self.url();
        let answer = retried(&WEBHOOK_BACKOFF, until, || self.client.post(&url, body.clone())).await;
        let heard = Heard::of(&answer);
        self.right.iter().for_each(|right| right.heard(&answer));
        let answered = match answer {
            // kube-apiserver's words.
            Err(CallError::TimedOut) => Err("context deadline exceeded".to_owned()),
            Err(error) => Err(error.to_string()),
            Ok(answer) => match answer.failure() {
                Some(why) => Err(why),
                None => self.version.status(&answer.body),
            },
        };
        match answered {
            Ok(status) => ((status.evaluated(wanted, api), true), heard),
            Err(why) => {
                // A right that is not there is reported once.
                if !self.right.as_ref().is_some_and(|right| right.is_refused()) {
                    tracing::warn!(%why, url = %self.url(), "a TokenReview got no answer");
                }
                ((Err(why), false), heard)
            }
        }
    }
}

/// How long a token lasts by its own word, if it is a JWT that says so. Whoever took it for somebody's has verified it.
fn lasts(token: &str) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else { return None };
    let claims: Claims = serde_json::from_slice(&RAW_URL.decode(payload).ok()?).ok()?;
    let ends = Duration::try_from_secs_f64(claims.exp.max(0.0)).ok()?;
    Some(ends.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
}

fn client(flag: &str, login: &Arc<Login>, timeout: Duration) -> Result<Client, ProvidersError> {
    let limits = Limits { timeout, answer_bytes_max: ANSWER_BYTES_MAX, concurrent_max: QUESTIONS_MAX };
    Client::following(login, limits).map_err(|why| ProvidersError::Other(format!("{flag}: {why}")))
}

impl TokenReviewVersion {
    fn api_version(self) -> &'static str {
        match self {
            TokenReviewVersion::V1 => "authentication.k8s.io/v1",
            TokenReviewVersion::V1Beta1 => "authentication.k8s.io/v1beta1",
        }
    }

    /// The question.
    fn review(self, token: &str, audiences: &[String]) -> Bytes {
        let mut spec = json!({"token": token});
        if !audiences.is_empty() {
            spec["audiences"] = audiences.into();
        }
        let review = json!({"kind": "TokenReview", "apiVersion": self.api_version(), "metadata": {}, "spec": spec, "status": {"user": {}}});
        review.to_string().into()
    }

    /// The status of the answer. Kind and version may be missing, but not be others.
    fn status(self, body: &[u8]) -> Result<Status, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Review {
            #[serde(default)]
            kind: String,
            #[serde(default)]
            api_version: String,
            status: Option<Value>,
        }
        let unreadable = |error: serde_json::Error| format!("couldn't get version/kind; json parse error: {error}");
        let review: Review = serde_json::from_slice(body).map_err(unreadable)?;
        let is_of = |found: &str, wanted: &str| found.is_empty() || found == wanted;
        if !is_of(&review.kind, "TokenReview") || !is_of(&review.api_version, self.api_version()) {
            let (kind, version) = (review.kind, review.api_version);
            return Err(format!("the answer is no TokenReview of {}: kind {kind:?}, apiVersion {version:?}", self.api_version()));
        }
        let status = without_nulls(review.status.unwrap_or_else(|| json!({})));
        serde_json::from_value(status).map_err(|error| format!("the status of the answer: {error}"))
    }
}

/// Null is as if nothing were there, as in Go.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, if value.is_object() { without_nulls(value) } else { value }))
            .collect(),
        other => other,
    }
}

/// `TokenReviewStatus`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    authenticated: bool,
    user: UserInfo,
    audiences: Vec<String>,
    error: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Status {
    /// kube-apiserver's reading: an answer without audiences is for those of the API.
    fn evaluated(self, wanted: &[String], api: &[String]) -> Reviewed {
        let there = if self.audiences.is_empty() { api } else { &self.audiences };
        let audiences = intersection(there, wanted);
        if !wanted.is_empty() && audiences.is_empty() {
            return Ok(None);
        }
        if !self.authenticated {
            return if self.error.is_empty() { Ok(None) } else { Err(self.error) };
        }
        let UserInfo { username, uid, groups, extra } = self.user;
        let user = User { name: username, uid, groups, extra: extra.into_iter().collect() };
        Ok(Some(AuthenticatedUser { audiences, ..AuthenticatedUser::of(user) }))
    }
}

#[cfg(test)]
mod tests;
