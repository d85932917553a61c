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
use tokio::time::Instant;

use super::host::FLAG as CLUSTER_FLAG;
use super::settings::{self as config, TokenReviewVersion};
use super::{ProvidersError, QUESTION_TIME_MAX};
use crate::User;
use crate::authn::{AuthenticatedUser, RAW_URL, TokenKey, intersection, token_key};
use crate::presence::{Heard, Presence};
use client::{CallError, Client, FlightLimits, Kubeconfig, Limits, SingleFlight, TooMany, WEBHOOK_BACKOFF, retried};

/// Questions of one reviewer that may be under way; ours.
pub(super) const QUESTIONS_MAX: usize = 256;
/// Those of one address: a quarter, so that whoever sends tokens that hang leaves room for others.
const QUESTIONS_EACH_MAX: usize = QUESTIONS_MAX / 4;
/// Bytes of an answer; ours. A user in 5,000 groups has some 300 KiB.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Answers that are kept, kube-apiserver's number, and their bytes, ours. So many users, and so many tokens of nobody: anybody can make these up, and they must not
/// push out what is known of good ones.
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
    /// `--authentication-kubeconfig`; and whether it answers at all.
    Cluster(&'a Kubeconfig, Arc<Presence>),
}

/// See the file's header.
pub(super) struct TokenReviewer {
    server: Arc<Server>,
    /// What comes of a question, and whether the server is away if it is nothing.
    flights: SingleFlight<TokenKey, IpAddr, (Asked, bool)>,
    presence: Arc<Presence>,
    answers: Arc<Answers>,
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
    url: Uri,
    version: TokenReviewVersion,
    /// All tries together.
    time_max: Duration,
}

/// Whose it is, if anybody's; or why nobody knows.
type Reviewed = Result<Option<AuthenticatedUser>, String>;

/// What comes of a question, and whether it is the server's word on the token.
type Asked = (Reviewed, bool);

impl TokenReviewer {
    pub(super) fn new(way: Way<'_>) -> Result<TokenReviewer, ProvidersError> {
        match way {
            Way::Webhook(webhook) => {
                let kubeconfig = Kubeconfig::read(WEBHOOK_FLAG, &webhook.config_file)?;
                // client-go tells a webhook how long it waits.
                let url = kubeconfig.url(&format!("?timeout={}s", QUESTION_TIME_MAX.as_secs()));
                let client = client(WEBHOOK_FLAG, &kubeconfig, QUESTION_TIME_MAX)?;
                let server = Server { client, url, version: webhook.version, time_max: QUESTION_TIME_MAX };
                Ok(TokenReviewer::asking(server, webhook.cache_ttl, Arc::default()))
            }
            Way::Cluster(kubeconfig, presence) => TokenReviewer::of_cluster(kubeconfig, presence, CLUSTER_TIME_MAX),
        }
    }

    fn of_cluster(kubeconfig: &Kubeconfig, presence: Arc<Presence>, time_max: Duration) -> Result<TokenReviewer, ProvidersError> {
        let url = kubeconfig.url("/apis/authentication.k8s.io/v1/tokenreviews");
        let client = client(CLUSTER_FLAG, kubeconfig, time_max)?;
        let server = Server { client, url, version: TokenReviewVersion::V1, time_max };
        Ok(TokenReviewer::asking(server, CLUSTER_KEEPS, presence))
    }

    fn asking(server: Server, keeps: Duration, presence: Arc<Presence>) -> TokenReviewer {
        let flights = SingleFlight::new(FlightLimits::of(QUESTIONS_MAX, QUESTIONS_EACH_MAX));
        let (users, nobody) = (Mutex::new(Recent::new(KEPT_MAX, KEPT_BYTES_MAX)), Mutex::new(Recent::new(KEPT_MAX, KEPT_BYTES_MAX)));
        let before = Mutex::new(Recent::new(KEPT_MAX, KEPT_BYTES_MAX));
        let answers = Arc::new(Answers { before, users, nobody, keeps, counts_for: presence.counts_for() });
        TokenReviewer { server: Arc::new(server), flights, presence, answers }
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
    ) -> Result<Reviewed, TooMany> {
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
                tracing::warn!(%error, url = %self.server.url, "cannot ask whose a token is");
            })?,
            None => ((Err(AWAY.to_owned()), false), true),
        };
        match reviewed {
            Err(why) if is_away && !is_judged => Ok(self.answers.before.lock().get(&key, Instant::now()).cloned().ok_or(why)),
            reviewed => Ok(reviewed),
        }
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
    /// What it says, and what that tells of it.
    async fn ask(&self, body: Bytes, wanted: &[String], api: &[String]) -> (Asked, Heard) {
        let until = Instant::now() + self.time_max;
        let answer = retried(&WEBHOOK_BACKOFF, until, || self.client.post(&self.url, body.clone())).await;
        let heard = Heard::of(&answer);
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
                tracing::warn!(%why, url = %self.url, "a TokenReview got no answer");
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

fn client(flag: &str, kubeconfig: &Kubeconfig, timeout: Duration) -> Result<Client, ProvidersError> {
    let limits = Limits { timeout, answer_bytes_max: ANSWER_BYTES_MAX, concurrent_max: QUESTIONS_MAX };
    Client::of(kubeconfig, limits).map_err(|why| ProvidersError::Other(format!("{flag}: {why}")))
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
mod tests {
    use std::io::Write;

    use client::testing::Reaction;
    use proptest::prelude::*;

    use super::*;

    fn evaluated(status: &Value) -> Reviewed {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let body = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status}).to_string();
        TokenReviewVersion::V1.status(body.as_bytes())?.evaluated(&texts(&["a", "b"]), &texts(&["a", "c"]))
    }

    /// A server that says what it is told to, and a reviewer that asks it for each request.
    struct Bench {
        says: Arc<Mutex<Reaction>>,
        other: client::testing::Server,
        reviewer: TokenReviewer,
    }

    /// Longer than anything takes that ends by itself.
    const LONG: Duration = Duration::from_secs(600);

    impl Bench {
        /// Asks for so long.
        async fn waiting(time_max: Duration) -> Self {
            let says = Arc::new(Mutex::new(Reaction::Drop));
            let react = says.clone();
            let other = client::testing::Server::start(move |_| react.lock().clone()).await;
            let mut file = tempfile::NamedTempFile::new().expect("a file");
            file.write_all(other.kubeconfig("").as_bytes()).expect("written");
            let kubeconfig = Kubeconfig::read("--a-flag", file.path()).expect("good");
            let presence = Presence::new(Duration::from_secs(60)).away_after(Duration::from_millis(300));
            let mut reviewer = TokenReviewer::of_cluster(&kubeconfig, presence, time_max).expect("a reviewer");
            Arc::get_mut(&mut reviewer.answers).expect("nobody asks yet").keeps = Duration::ZERO;
            Self { says, other, reviewer }
        }

        fn says(&self, status: &Value) {
            *self.says.lock() = Reaction::json(&json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status}));
        }

        fn says_jane(&self) {
            self.says(&json!({"authenticated": true, "user": {"username": "jane"}, "audiences": ["a"]}));
        }

        fn is_away(&self) {
            *self.says.lock() = Reaction::Drop;
        }

        async fn who(&self, token: &str) -> Result<Option<String>, String> {
            let (until, audiences) = (Instant::now() + LONG, ["a".to_owned()]);
            let reviewed = self.reviewer.review(token, &audiences, &audiences, IpAddr::from([127, 0, 0, 1]), until);
            reviewed.await.expect("there is room").map(|authenticated| authenticated.map(|authenticated| authenticated.user.name.clone()))
        }

        /// Until it is noticed that the server answers.
        async fn is_back(&self) {
            while self.reviewer.presence.is_away() {
                let _ = self.who("somebody else").await;
            }
        }
    }

    fn jane() -> Result<Option<String>, String> {
        Ok(Some("jane".to_owned()))
    }

    /// Whom it named last counts while there is no answer; what it said since then, in whatever words, does away with that.
    #[tokio::test]
    async fn the_last_answer_counts_while_there_is_none() {
        for refusal in [json!({"authenticated": false}), json!({"authenticated": false, "error": "the token is revoked"})] {
            let bench = Bench::waiting(CLUSTER_TIME_MAX).await;
            bench.says_jane();
            assert_eq!(bench.who("t").await, jane());
            bench.is_away();
            assert_eq!(bench.who("t").await, jane());
            assert!(bench.who("u").await.is_err(), "nobody has said whose it is");
            bench.says(&refusal);
            bench.is_back().await;
            assert_ne!(bench.who("t").await, jane());
            bench.is_away();
            assert_eq!(bench.who("t").await, Ok(None), "{refusal}");
        }
    }

    /// One question that fails is no sign that nobody answers, nor is an answer that is too long.
    #[tokio::test]
    async fn nothing_counts_of_a_server_that_answers() {
        let bench = Bench::waiting(CLUSTER_TIME_MAX).await;
        bench.says_jane();
        assert_eq!(bench.who("t").await, jane());
        *bench.says.lock() = Reaction::Answer(200, "application/json", vec![b' '; ANSWER_BYTES_MAX + 1].into());
        assert!(bench.who("t").await.is_err());
        *bench.says.lock() = Reaction::Answer(503, "text/plain", "busy".into());
        let (asked, others) = tokio::join!(bench.who("t"), async {
            for _ in 0..20 {
                bench.reviewer.presence.ask(false, async || ((), Heard::Answer)).await;
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        });
        assert_eq!((asked.is_err(), others), (true, ()), "it is busy");
    }

    /// While it is away nobody waits for it, and one question at a time finds out when it is back.
    #[tokio::test]
    async fn nobody_waits_for_who_is_away() {
        let bench = Bench::waiting(CLUSTER_TIME_MAX).await;
        bench.says_jane();
        assert_eq!(bench.who("t").await, jane());
        bench.is_away();
        assert_eq!(bench.who("t").await, jane());
        *bench.says.lock() = Reaction::Hang;
        // What is asked in the background just after a failure would not be asked.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let asked = bench.other.asked().len();
        for _ in 0..100 {
            assert_eq!(bench.who("t").await, jane());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(bench.other.asked().len(), asked + 1);
    }

    /// Whoever was named before waits for a silent server only until it counts as away, a stranger then as long; what it says later counts from then on.
    #[tokio::test]
    async fn a_silent_server_is_not_waited_for() {
        let bench = Bench::waiting(LONG).await;
        bench.says_jane();
        assert_eq!(bench.who("t").await, jane());
        *bench.says.lock() = Reaction::Hang;
        let answered = async { (bench.who("t").await, bench.who("u").await) };
        let answered = tokio::time::timeout(LONG / 2, answered).await.expect("that it is away ends both");
        assert_eq!(answered, (jane(), Err(AWAY.to_owned())));
        let bench = Bench::waiting(LONG).await;
        bench.says_jane();
        assert_eq!(bench.who("t").await, jane());
        let refused = Reaction::json(&json!({"status": {"authenticated": false}}));
        let (say, said) = tokio::sync::watch::channel(false);
        *bench.says.lock() = Reaction::Once(said, Box::new(refused));
        assert_eq!(bench.who("t").await, jane(), "it has not said anything yet");
        say.send(true).expect("it is asked");
        while bench.who("t").await == jane() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bench.is_away();
        assert_eq!(bench.who("t").await, Ok(None), "it has said so meanwhile");
    }

    /// A token does not outlast its own word, and what is no such token lasts.
    #[tokio::test]
    async fn a_token_ends_when_it_says() {
        let of = |claims: &str| format!("x.{}.y", RAW_URL.encode(claims));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
        assert!(lasts(&of(&format!(r#"{{"exp":{}}}"#, now + 60))).is_some_and(|left| left.as_secs().abs_diff(60) <= 1));
        assert_eq!((lasts(&of(r#"{"exp":1.5}"#)), lasts(&of(r#"{"exp":-1}"#))), (Some(Duration::ZERO), Some(Duration::ZERO)));
        for other in ["", "a.b.c", "a.b", &of("{}"), &of(r#"{"exp":"1"}"#), &of(r#"{"exp":1e300}"#)] {
            assert_eq!(lasts(other), None, "{other}");
        }
        let bench = Bench::waiting(CLUSTER_TIME_MAX).await;
        bench.says_jane();
        let (over, lasting) = (of(r#"{"exp":1}"#), of(&format!(r#"{{"exp":{}}}"#, now + 3_600)));
        assert_eq!((bench.who(&over).await, bench.who(&lasting).await), (jane(), jane()));
        bench.is_away();
        assert_eq!((bench.who(&lasting).await, bench.who(&over).await.is_err()), (jane(), true));
    }

    /// Tokens of nobody push out nobody's.
    #[tokio::test]
    async fn refusals_are_kept_only_over_somebody() {
        let bench = Bench::waiting(CLUSTER_TIME_MAX).await;
        bench.says(&json!({"authenticated": false}));
        assert_eq!(bench.who("t").await, Ok(None));
        assert!(bench.reviewer.answers.before.lock().is_empty());
    }

    #[test]
    fn an_answer_names_a_user() {
        let user = json!({"username": "jane", "uid": "1", "groups": ["g"], "extra": {"b": ["2"], "a": ["1", null]}});
        assert!(evaluated(&json!({"authenticated": true, "user": user})).is_err(), "a list has no nulls");
        let user = json!({"username": "jane", "uid": null, "groups": ["g"], "extra": {"b": ["2"], "a": ["1"]}});
        let authenticated = evaluated(&json!({"authenticated": true, "user": user})).expect("good").expect("a user");
        assert_eq!((authenticated.user.name.as_str(), authenticated.user.groups.join(" ").as_str()), ("jane", "g system:authenticated"));
        assert_eq!((authenticated.user.extra[0].0.as_str(), authenticated.audiences.join(" ").as_str()), ("a", "a"));
    }

    #[test]
    fn an_answer_may_be_for_others() {
        let audiences = |audiences: Value| evaluated(&json!({"authenticated": true, "user": {"username": "x"}, "audiences": audiences}));
        assert_eq!(audiences(json!(["z"])), Ok(None));
        assert_eq!(audiences(json!(["z", "b"])).map(|authenticated| authenticated.expect("a user").audiences), Ok(vec!["b".to_owned()]));
        assert_eq!(evaluated(&json!({"authenticated": false, "error": "no"})), Err("no".to_owned()));
        assert_eq!(evaluated(&json!({"user": {"username": "x"}})), Ok(None));
        assert_eq!(evaluated(&Value::Null), Ok(None));
    }

    #[test]
    fn what_is_no_review_is_an_error() {
        let status = |body: &str| TokenReviewVersion::V1Beta1.status(body.as_bytes()).map(|_| ());
        assert_eq!(status("{}"), Ok(()));
        assert!(status("<html>").is_err_and(|why| why.starts_with("couldn't get version/kind; json parse error: ")));
        assert!(status(r#"{"kind":"Status"}"#).is_err());
        assert!(status(r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1"}"#).is_err(), "of the other version");
        assert!(status(r#"{"status":{"authenticated":"yes"}}"#).is_err());
    }

    #[test]
    fn the_question_has_token_and_audiences() {
        let body = TokenReviewVersion::V1.review("abc", &["x".to_owned()]);
        let expected = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"token": "abc", "audiences": ["x"]}, "status": {"user": {}}});
        assert_eq!(serde_json::from_slice::<Value>(&body).expect("JSON"), expected);
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,100}", status in corpus::any_json()) {
            let _ = TokenReviewVersion::V1.status(text.as_bytes());
            let _ = evaluated(&status);
        }
    }
}
