//! Asks a server whose a token is, with a TokenReview: a webhook, or the Kubernetes API of the cluster that this server extends.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

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
use crate::authn::{AuthenticatedUser, TokenKey, intersection, token_key};
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
const WEBHOOK_FLAG: &str = "--authentication-token-webhook-config-file";

/// Whom to ask.
pub(super) enum Way<'a> {
    /// `--authentication-token-webhook-config-file`.
    Webhook(&'a config::TokenWebhook),
    /// `--authentication-kubeconfig`; and how long its answers count while it is away.
    Cluster(&'a Kubeconfig, Duration),
}

/// See the file's header.
pub(super) struct TokenReviewer {
    server: Arc<Server>,
    flights: SingleFlight<TokenKey, IpAddr, (Reviewed, bool)>,
    /// What was answered last, for when there is no answer.
    before: Mutex<Recent<TokenKey, Option<AuthenticatedUser>, Instant>>,
    while_away: Duration,
    users: Mutex<Recent<TokenKey, AuthenticatedUser, Instant>>,
    nobody: Mutex<Recent<TokenKey, (), Instant>>,
    keeps: Duration,
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

impl TokenReviewer {
    pub(super) fn new(way: Way<'_>) -> Result<TokenReviewer, ProvidersError> {
        match way {
            Way::Webhook(webhook) => {
                let kubeconfig = Kubeconfig::read(WEBHOOK_FLAG, &webhook.config_file)?;
                // client-go tells a webhook how long it waits.
                let url = kubeconfig.url(&format!("?timeout={}s", QUESTION_TIME_MAX.as_secs()));
                let client = client(WEBHOOK_FLAG, &kubeconfig, QUESTION_TIME_MAX)?;
                let server = Server { client, url, version: webhook.version, time_max: QUESTION_TIME_MAX };
                Ok(TokenReviewer::asking(server, webhook.cache_ttl, Duration::ZERO))
            }
            Way::Cluster(kubeconfig, while_away) => {
                let url = kubeconfig.url("/apis/authentication.k8s.io/v1/tokenreviews");
                let client = client(CLUSTER_FLAG, kubeconfig, CLUSTER_TIME_MAX)?;
                let server = Server { client, url, version: TokenReviewVersion::V1, time_max: CLUSTER_TIME_MAX };
                Ok(TokenReviewer::asking(server, CLUSTER_KEEPS, while_away))
            }
        }
    }

    fn asking(server: Server, keeps: Duration, while_away: Duration) -> TokenReviewer {
        let flights = SingleFlight::new(FlightLimits::of(QUESTIONS_MAX, QUESTIONS_EACH_MAX));
        let (users, nobody) = (Mutex::new(Recent::new(KEPT_MAX, KEPT_BYTES_MAX)), Mutex::new(Recent::new(KEPT_MAX, KEPT_BYTES_MAX)));
        let before = Mutex::new(Recent::new(KEPT_MAX, KEPT_BYTES_MAX));
        TokenReviewer { server: Arc::new(server), flights, before, while_away, users, nobody, keeps }
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
        if let Some(authenticated) = self.users.lock().get(&key, now) {
            return Ok(Ok(Some(authenticated.clone())));
        }
        if self.nobody.lock().get(&key, now).is_some() {
            return Ok(Ok(None));
        }
        let texts = wanted.iter().map(String::len).sum::<usize>();
        let bytes = token.len() + 2 * (texts + size_of_val(wanted));
        let question = || {
            let (server, body) = (self.server.clone(), self.server.version.review(token, wanted));
            let (wanted, api) = (wanted.to_vec(), api.to_vec());
            async move { server.ask(body, &wanted, &api).await }
        };
        let (reviewed, is_away) = self.flights.get(key, client, bytes, until, question).await.inspect_err(|error| {
            tracing::warn!(%error, url = %self.server.url, "cannot ask whose a token is");
        })?;
        let (now, until) = self.kept_from_now();
        match &reviewed {
            Ok(Some(authenticated)) => {
                self.users.lock().put(key, authenticated.clone(), authenticated.bytes(), now, Some(until));
                self.before.lock().put(key, Some(authenticated.clone()), authenticated.bytes(), now, Some(now + self.while_away));
            }
            Ok(None) => {
                self.nobody.lock().put(key, (), 0, now, Some(until));
                self.before.lock().put(key, None, 0, now, Some(now + self.while_away));
            }
            Err(_) if is_away => {
                if let Some(before) = self.before.lock().get(&key, now) {
                    return Ok(Ok(before.clone()));
                }
            }
            Err(_) => {}
        }
        Ok(reviewed)
    }

    /// Now, and when an answer of now is over.
    fn kept_from_now(&self) -> (Instant, Instant) {
        let now = Instant::now();
        (now, now + self.keeps)
    }
}

#[cfg(test)]
impl TokenReviewer {
    /// As if so many strangers' tokens had been nobody's.
    pub(super) fn strangers(&self, count: usize) {
        let (now, until) = self.kept_from_now();
        for nth in 0..count {
            self.nobody.lock().put(token_key(&nth.to_string(), None, 0), (), 0, now, Some(until));
        }
    }
}

impl Server {
    /// What it says; and whether it is away, if it says nothing.
    async fn ask(&self, body: Bytes, wanted: &[String], api: &[String]) -> (Reviewed, bool) {
        let until = Instant::now() + self.time_max;
        let answer = retried(&WEBHOOK_BACKOFF, until, || self.client.post(&self.url, body.clone())).await;
        let is_away = answer.as_ref().map_or(true, |answer| answer.status.is_server_error());
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
            Ok(status) => (status.evaluated(wanted, api), false),
            Err(why) => {
                tracing::warn!(%why, url = %self.url, "a TokenReview got no answer");
                (Err(why), is_away)
            }
        }
    }
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use client::testing::Reaction;
    use proptest::prelude::*;

    use super::*;

    fn evaluated(status: &Value) -> Reviewed {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let body = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status}).to_string();
        TokenReviewVersion::V1.status(body.as_bytes())?.evaluated(&texts(&["a", "b"]), &texts(&["a", "c"]))
    }

    /// What was said last counts while there is no answer; that a token is nobody's as well.
    #[tokio::test]
    async fn the_last_answer_counts_while_there_is_none() {
        let state = Arc::new(AtomicUsize::new(0));
        let other = client::testing::Server::start({
            let state = state.clone();
            move |_| {
                let status = json!({"authenticated": state.load(Ordering::Relaxed) == 0, "user": {"username": "jane"}, "audiences": ["a"]});
                let review = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status});
                if state.load(Ordering::Relaxed) == 2 { Reaction::Drop } else { Reaction::json(&review) }
            }
        })
        .await;
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(other.kubeconfig("").as_bytes()).expect("written");
        let kubeconfig = Kubeconfig::read("--a-flag", file.path()).expect("good");
        let mut reviewer = TokenReviewer::new(Way::Cluster(&kubeconfig, Duration::from_secs(60))).expect("a reviewer");
        // Each request is a question.
        reviewer.keeps = Duration::ZERO;
        let audiences = ["a".to_owned()];
        let authenticate = async |token: &str| {
            let until = Instant::now() + Duration::from_secs(20);
            let reviewed =
                reviewer.review(token, &audiences, &audiences, IpAddr::from([127, 0, 0, 1]), until).await.expect("there is room");
            reviewed.map(|authenticated| authenticated.map(|authenticated| authenticated.user.name.clone()))
        };
        assert_eq!(authenticate("t").await, Ok(Some("jane".to_owned())));
        state.store(2, Ordering::Relaxed);
        assert_eq!(authenticate("t").await, Ok(Some("jane".to_owned())));
        assert!(authenticate("u").await.is_err(), "nobody has said whose it is");
        state.store(1, Ordering::Relaxed);
        assert_eq!(authenticate("t").await, Ok(None));
        state.store(2, Ordering::Relaxed);
        assert_eq!(authenticate("t").await, Ok(None));
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
