//! Tokens that a webhook knows, and a webhook that misbehaves.

mod host;
mod oidc;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use super::*;
use crate::authn::Config;
use crate::providers::settings::{TokenReviewVersion, TokenWebhook};
use client::testing::{Reaction, ReceivedRequest, Server};

/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(3);
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

fn authenticator() -> Arc<Authenticator> {
    let config = Config { audiences: vec!["api".to_owned()], asks_remote: true, ..Config::default() };
    Arc::new(Authenticator::load(&config).expect("it loads"))
}

/// Providers that ask this webhook, and its file.
async fn asking(server: &Server, cache_ttl: Duration) -> (Arc<Providers>, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let config_file = directory.path().join("webhook");
    std::fs::write(&config_file, server.kubeconfig("/review")).expect("written");
    let webhook = TokenWebhook { config_file, version: TokenReviewVersion::V1, cache_ttl };
    let config = config::Providers { webhook: Some(webhook), ..config::Providers::default() };
    (start(&config, authenticator()).await.expect("it starts"), directory)
}

async fn start(config: &config::Providers, authenticator: Arc<Authenticator>) -> Result<Arc<Providers>, ProvidersError> {
    Providers::start(Sources::read(config, &Logins::default())?, authenticator, Metrics::new()).await
}

async fn authenticate(providers: &Providers, token: &str, client: IpAddr) -> Result<String, String> {
    let asked = NeedsRemote { token: token.to_owned(), refusal: Refusal::from("not here".to_owned()) };
    let until = Instant::now() + PATIENCE;
    match providers.authenticate(asked, &[], client, until).await.map_err(|too_many| too_many.to_string())? {
        Identity::User(authenticated) => Ok(authenticated.user.name.clone()),
        Identity::Invalid(refusal) => Err(refusal.to_string()),
        other => panic!("{other:?}"),
    }
}

fn token_of(asked: &ReceivedRequest) -> String {
    let review: Value = serde_json::from_slice(&asked.body).expect("JSON");
    review["spec"]["token"].as_str().expect("a token").to_owned()
}

fn review(status: &Value) -> Reaction {
    Reaction::json(&json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status}))
}

/// Knows every token but those that say what is wrong.
fn webhook(asked: &ReceivedRequest) -> Reaction {
    let token = token_of(asked);
    match &*token {
        "hang" | "hang too" => Reaction::Hang,
        "slow" => {
            Reaction::After(Duration::from_millis(300), Box::new(review(&json!({"authenticated": true, "user": {"username": "slow"}}))))
        }
        "no" => review(&json!({"authenticated": false})),
        "why" => review(&json!({"authenticated": false, "error": "because"})),
        "500" => Reaction::Answer(500, "text/plain", "oh".into()),
        "lie" => Reaction::json(&json!({"kind": "Pod", "apiVersion": "v1", "status": {"authenticated": true, "user": {"username": "x"}}})),
        "giant" => Reaction::Giant,
        "cut" => Reaction::CutOff,
        "others" => review(&json!({"authenticated": true, "user": {"username": "x"}, "audiences": ["others"]})),
        name => review(&json!({"authenticated": true, "user": {"username": name}})),
    }
}

#[tokio::test]
async fn a_webhook_names_users_and_is_asked_once() {
    let server = Server::start(webhook).await;
    let (providers, _directory) = asking(&server, Duration::from_secs(60)).await;
    let all: Vec<_> = (0..50)
        .map(|_| {
            let providers = providers.clone();
            tokio::spawn(async move { authenticate(&providers, "slow", HERE).await })
        })
        .collect();
    for one in all {
        assert_eq!(one.await.expect("no panic").as_deref(), Ok("slow"));
    }
    assert_eq!(authenticate(&providers, "slow", HERE).await.as_deref(), Ok("slow"));
    for _ in 0..2 {
        assert_eq!(authenticate(&providers, "no", HERE).await, Err("[invalid bearer token, not here]".to_owned()));
        assert_eq!(authenticate(&providers, "others", HERE).await, Err("[invalid bearer token, not here]".to_owned()));
        assert_eq!(authenticate(&providers, "why", HERE).await, Err("[invalid bearer token, not here, because]".to_owned()));
    }
    let asked: Vec<String> = server.asked().iter().map(token_of).collect();
    assert_eq!(asked, ["slow", "no", "others", "why", "why"], "refusals with a reason are not kept");
    let first = &server.asked()[0];
    assert_eq!(first.uri.path_and_query().map(|path| path.as_str()), Some("/review?timeout=30s"));
    assert_eq!(serde_json::from_slice::<Value>(&first.body).expect("JSON")["spec"]["audiences"], json!(["api"]));
    let memory = providers.authenticator.review("slow", &[], &crate::authn::Empty, SystemTime::now());
    assert!(
        matches!(memory, crate::authn::AuthnOutcome::Identity(Identity::User(authenticated)) if authenticated.user.name == "slow"),
        "it is remembered"
    );
}

/// Strangers' wrong tokens pushed out the answers about good ones.
#[tokio::test]
async fn tokens_of_nobody_push_out_no_users() {
    let server = Server::start(webhook).await;
    let (providers, _directory) = asking(&server, Duration::from_secs(60)).await;
    let reviewer = &providers.reviewers[0];
    let review = async |token: String| {
        let until = Instant::now() + PATIENCE;
        reviewer.review(&token, &["api".to_owned()], &["api".to_owned()], HERE, until).await.expect("a place").expect("an answer")
    };
    assert!(review("jane".to_owned()).await.is_some());
    assert!(review("no".to_owned()).await.is_none());
    reviewer.strangers(40_000);
    assert!(review("jane".to_owned()).await.is_some() && review("no".to_owned()).await.is_none());
    let asked: Vec<String> = server.asked().iter().map(token_of).collect();
    assert_eq!(asked, ["jane", "no", "no"], "only nobody is asked about again");
}

#[tokio::test]
async fn nothing_is_kept_with_a_ttl_of_zero() {
    let server = Server::start(webhook).await;
    let (providers, _directory) = asking(&server, Duration::ZERO).await;
    for _ in 0..2 {
        assert_eq!(authenticate(&providers, "no", HERE).await, Err("[invalid bearer token, not here]".to_owned()));
    }
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_webhook_that_misbehaves_makes_a_refusal() {
    let server = Server::start(webhook).await;
    let (providers, _directory) = asking(&server, Duration::from_secs(60)).await;
    let why = async |token: &str| authenticate(&providers, token, HERE).await.expect_err(token);
    assert!(why("lie").await.contains("the answer is no TokenReview of authentication.k8s.io/v1: kind \"Pod\""));
    assert!(why("giant").await.contains("the answer has more than 1048576 bytes"));
    assert!(why("cut").await.contains("Post "));
    assert!(why("500").await.contains("an error on the server (\"oh\") has prevented the request from succeeding"));
    assert_eq!(server.asked().iter().filter(|asked| token_of(asked) == "500").count(), 5);
    assert_eq!(authenticate(&providers, "jane", HERE).await.as_deref(), Ok("jane"));
}

#[tokio::test]
async fn tokens_that_hang_delay_nobody_else() {
    let counted = Arc::new(AtomicUsize::new(0));
    let server = Server::start({
        let counted = counted.clone();
        move |asked| {
            counted.fetch_add(1, Ordering::Relaxed);
            if token_of(asked).starts_with("hang") { Reaction::Hang } else { webhook(asked) }
        }
    })
    .await;
    let (providers, _directory) = asking(&server, Duration::from_secs(60)).await;
    let hanging: Vec<_> = (0..200)
        .map(|number| {
            let providers = providers.clone();
            tokio::spawn(async move { authenticate(&providers, &format!("hang {number}"), HERE).await })
        })
        .collect();
    while counted.load(Ordering::Relaxed) < 64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let began = Instant::now();
    assert_eq!(authenticate(&providers, "jane", THERE).await.as_deref(), Ok("jane"));
    let refused = authenticate(&providers, "hang more", HERE).await.expect_err("the address has its share");
    assert_eq!(refused, "too many questions are waiting for an answer, please try again later", "it says nothing of the token");
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(counted.load(Ordering::Relaxed), 65, "64 of one address, and one of the other");
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_wrong_file_is_told_with_its_flag() {
    let webhook = TokenWebhook { config_file: PathBuf::from("nowhere"), version: TokenReviewVersion::V1, cache_ttl: Duration::ZERO };
    let config = config::Providers { webhook: Some(webhook), ..config::Providers::default() };
    let authenticator = Arc::new(Authenticator::load(&Config::default()).expect("it loads"));
    let why = start(&config, authenticator).await.map(|_| ()).expect_err("no file").to_string();
    assert_eq!(why, "--authentication-token-webhook-config-file nowhere: No such file or directory (os error 2)");
}
