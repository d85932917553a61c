//! The client against a server that answers well and badly.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use serde_json::json;
use tokio::time::Instant;

use super::testing::{Reaction, Server};
use super::*;
use retry::Backoff;

const LIMITS: Limits = Limits { timeout: Duration::from_secs(5), answer_bytes_max: 64 << 10, concurrent_max: 4 };
/// Short waits, so that tests are.
const QUICK: Backoff = Backoff { first: Duration::from_millis(10), ..WEBHOOK_BACKOFF };

fn kubeconfig(text: &str) -> Kubeconfig {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config");
    std::fs::write(&path, text).expect("written");
    Kubeconfig::read("--flag", &path).expect("a kubeconfig")
}

fn client(server: &Server, limits: Limits) -> (Client, Uri) {
    let config = kubeconfig(&server.kubeconfig("/hook"));
    (Client::of(&config, limits).expect("a client"), config.url("?timeout=30s"))
}

async fn asked(reaction: Reaction, limits: Limits) -> Result<Answer, CallError> {
    let server = Server::start(move |_| reaction.clone()).await;
    let (client, url) = client(&server, limits);
    client.post(&url, Bytes::from_static(b"{}")).await
}

#[tokio::test]
async fn requests_share_a_connection() {
    for protocols in [&[b"h2".as_slice(), b"http/1.1"][..], &[b"http/1.1"]] {
        let server = Server::speaking(protocols, |_| Reaction::json(&json!({"a": 1}))).await;
        let (client, url) = client(&server, LIMITS);
        for _ in 0..3 {
            let answer = client.post(&url, Bytes::from_static(b"{\"b\":2}")).await.expect("an answer");
            assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"{\"a\":1}"[..]));
        }
        client.get(&url).await.expect("an answer");
        let asked = server.asked();
        assert_eq!((server.connections(), asked.len()), (1, 4));
        assert_eq!(asked[0].uri.path_and_query().map(|path| path.as_str()), Some("/hook?timeout=30s"));
        assert_eq!((&asked[0].body[..], asked[0].headers["authorization"].as_bytes()), (&b"{\"b\":2}"[..], &b"Bearer secret"[..]));
        assert_eq!(asked[0].headers["content-type"], "application/json");
        assert_eq!((asked[3].method.as_str(), asked[3].headers.get("content-type")), ("GET", None));
    }
}

#[tokio::test]
async fn only_the_named_authority_is_trusted() {
    let server = Server::start(|_| Reaction::json(&json!({}))).await;
    let get = async |trust: Trust| {
        let client = Client::trusting(&trust, LIMITS).expect("a client");
        client.get(&server.url().parse().expect("a URL")).await.map(|answer| answer.status.as_u16())
    };
    assert_eq!(get(Trust::from_pem(server.ca_pem().as_bytes()).expect("PEM")).await, Ok(200));
    assert_eq!(get(Trust::Anyone).await, Ok(200));
    for other in [Trust::System, Trust::from_pem(Server::start(|_| Reaction::Hang).await.ca_pem().as_bytes()).expect("PEM")] {
        assert!(matches!(get(other).await, Err(CallError::Failed(why)) if why.contains("x509: certificate signed by unknown authority")));
    }
    let named =
        |name: &str| kubeconfig(&server.kubeconfig("").replace("cluster: {server", &format!("cluster: {{tls-server-name: {name}, server")));
    for (name, is_good) in [("other.example", true), ("another.example", false)] {
        let config = named(name);
        let answer = Client::of(&config, LIMITS).expect("a client").get(&config.url("/")).await;
        assert_eq!(answer.is_ok(), is_good, "{name}: {answer:?}");
    }
    assert!(Trust::from_pem(b"x").is_err());
}

#[tokio::test]
async fn bad_answers_end() {
    let short = Limits { timeout: Duration::from_millis(300), ..LIMITS };
    assert_eq!(asked(Reaction::Hang, short).await.map(|_| ()), Err(CallError::TimedOut));
    let late = Reaction::After(Duration::from_secs(3), Box::new(Reaction::json(&json!({}))));
    assert_eq!(asked(late, short).await.map(|_| ()), Err(CallError::TimedOut));
    let slow = Reaction::After(Duration::from_millis(100), Box::new(Reaction::json(&json!({}))));
    assert!(asked(slow, LIMITS).await.is_ok());
    assert_eq!(asked(Reaction::Giant, LIMITS).await.map(|_| ()), Err(CallError::TooLarge(64 << 10)));
    for cut in [Reaction::CutOff, Reaction::Drop] {
        assert!(matches!(asked(cut.clone(), LIMITS).await, Err(CallError::Lost(_) | CallError::Failed(_))), "{cut:?}");
    }
    let lies = asked(Reaction::Answer(200, "text/html", Bytes::from_static(b"<html>")), LIMITS).await.expect("an answer");
    assert_eq!((lies.failure(), &lies.body[..]), (None, &b"<html>"[..]));
    let failed = asked(Reaction::Answer(500, "text/plain", Bytes::from_static(b"oh\n")), LIMITS).await.expect("an answer");
    assert_eq!(failed.failure().as_deref(), Some("an error on the server (\"oh\") has prevented the request from succeeding"));
    let status = json!({"kind": "Status", "message": "no"}).to_string();
    let told = asked(Reaction::Answer(403, "application/json", status.into()), LIMITS).await.expect("an answer");
    assert_eq!(told.failure().as_deref(), Some("no"));
    let nobody = kubeconfig(
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: a}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]",
    );
    let refused = Client::of(&nobody, LIMITS).expect("a client").get(&nobody.url("/x")).await;
    assert!(matches!(refused, Err(CallError::Failed(why)) if why.starts_with("Get \"http://127.0.0.1:1/x\": ")));
}

#[tokio::test]
async fn requests_wait_for_their_turn() {
    let server = Server::start(|_| Reaction::Hang).await;
    let (client, url) = client(&server, Limits { timeout: Duration::from_secs(10), concurrent_max: 1, ..LIMITS });
    let client = Arc::new(client);
    let ask = || {
        let (client, url) = (client.clone(), url.clone());
        tokio::spawn(async move { client.post(&url, Bytes::new()).await.map(|_| ()) })
    };
    let (first, second) = (ask(), ask());
    while server.asked().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Later the first one gives up, and the other may have its turn for a moment.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.asked().len(), 1);
    assert_eq!((first.await.expect("no panic"), second.await.expect("no panic")), (Err(CallError::TimedOut), Err(CallError::TimedOut)));
}

/// How often a server is asked that reacts so, and what comes of it.
async fn tries(reaction: Reaction, backoff: &Backoff, until: Duration) -> (usize, Result<u16, CallError>) {
    let server = Server::start(move |_| reaction.clone()).await;
    let (client, url) = client(&server, LIMITS);
    let answer = retried(backoff, Instant::now() + until, || client.post(&url, Bytes::new())).await;
    (server.asked().len(), answer.map(|answer| answer.status.as_u16()))
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let long = Duration::from_secs(5);
    let status = |code| Reaction::Answer(code, "text/plain", Bytes::new());
    for code in [429, 500, 504] {
        assert_eq!(tries(status(code), &QUICK, long).await, (5, Ok(code)), "{code}");
    }
    for code in [200, 201, 400, 401, 403, 404, 502, 503] {
        assert_eq!(tries(status(code), &QUICK, long).await, (1, Ok(code)), "{code}");
    }
    let (count, outcome) = tries(Reaction::Hang, &QUICK, Duration::from_millis(300)).await;
    assert_eq!((count, outcome), (1, Err(CallError::TimedOut)));
    let slow = Backoff { first: Duration::from_secs(20), ..QUICK };
    assert_eq!(tries(status(500), &slow, long).await, (1, Ok(500)), "no wait goes beyond the end");
}

#[tokio::test]
async fn a_server_that_recovers_is_believed() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Reaction::Answer(500, "text/plain", Bytes::new()),
        _ => Reaction::json(&json!({})),
    })
    .await;
    let (client, url) = client(&server, LIMITS);
    let answer = retried(&QUICK, Instant::now() + Duration::from_secs(5), || client.post(&url, Bytes::new())).await;
    assert_eq!((answer.expect("an answer").status.as_u16(), server.asked().len()), (200, 3));
}

#[tokio::test]
async fn a_token_file_is_read_again() {
    let server = Server::start(|_| Reaction::json(&json!({}))).await;
    let directory = tempfile::tempdir().expect("a directory");
    let (path, token) = (directory.path().join("config"), directory.path().join("token"));
    std::fs::write(&token, "one\n").expect("written");
    std::fs::write(&path, server.kubeconfig("").replace("token: secret", "tokenFile: token")).expect("written");
    let config = Kubeconfig::read("--flag", &path).expect("a kubeconfig");
    let client = Client::of(&config, LIMITS).expect("a client");
    let url = config.url("/");
    client.get(&url).await.expect("an answer");
    std::fs::write(&token, "two\n").expect("written");
    client.get(&url).await.expect("an answer");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    client.get(&url).await.expect("an answer");
    std::fs::remove_file(&token).expect("removed");
    let sent: Vec<String> =
        server.asked().iter().map(|asked| asked.headers["authorization"].to_str().expect("a text").to_owned()).collect();
    assert_eq!(sent, ["Bearer one", "Bearer one", "Bearer two"]);
}

/// A kubeconfig for a server, whose user has a plugin that is a shell script in this directory.
fn with_plugin(server: &Server, directory: &std::path::Path, script: &str) -> Kubeconfig {
    let plugin = directory.join("plugin");
    std::fs::write(&plugin, format!("cd {}\n{script}\n", directory.display())).expect("written");
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, args: [PLUGIN], interactiveMode: Never}";
    let exec = &exec.replace("PLUGIN", &plugin.display().to_string());
    let path = directory.join("config");
    std::fs::write(&path, server.kubeconfig("").replace("token: secret", exec)).expect("written");
    Kubeconfig::read("--flag", &path).expect("a kubeconfig")
}

#[tokio::test]
async fn a_request_is_sent_again_with_what_a_plugin_issues_then() {
    let server = Server::start(|asked| match asked.headers.get("authorization").map(|value| value.as_bytes()) {
        Some(b"Bearer 2") => Reaction::json(&json!({})),
        _ => Reaction::Answer(401, "text/plain", Bytes::new()),
    });
    let server = server.await;
    let directory = tempfile::tempdir().expect("a directory");
    let says = r#"echo run >> runs
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' $(($(wc -l < runs)))"#;
    let config = with_plugin(&server, directory.path(), says);
    assert!(config.has_identity());
    let client = Client::of(&config, LIMITS).expect("a client");
    let answer = client.post(&config.url("/a"), Bytes::from_static(b"{}")).await.expect("an answer");
    let asked = server.asked();
    assert_eq!((answer.status.as_u16(), asked.len()), (200, 2));
    assert!(asked.iter().all(|asked| &asked.body[..] == b"{}"));
    assert_eq!(client.get(&config.url("/a")).await.map(|answer| answer.status.as_u16()), Ok(200));
    assert_eq!(std::fs::read_to_string(directory.path().join("runs")).expect("runs").lines().count(), 2);
}

#[tokio::test]
async fn a_plugin_that_fails_is_why_nothing_is_asked() {
    let server = Server::start(|_| Reaction::json(&json!({}))).await;
    let directory = tempfile::tempdir().expect("a directory");
    let config = with_plugin(&server, directory.path(), "exit 7");
    let why = Client::of(&config, LIMITS).expect("a client").get(&config.url("/a")).await;
    let wanted = "getting credentials: exec: executable /bin/sh failed with exit code 7";
    assert_eq!(why.map(drop), Err(CallError::Credentials(wanted.to_owned())));
    assert!(server.asked().is_empty());
}

#[test]
fn why_a_certificate_is_refused_is_found_in_errors_within_errors() {
    let refused = || x509::handshake::refused("x509: certificate signed by unknown authority".to_owned());
    let told = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    let in_one = io::Error::new(io::ErrorKind::InvalidData, refused());
    let in_two = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, refused()));
    assert_eq!([root_cause(&refused()), root_cause(&in_one), root_cause(&in_two)], [told; 3]);
    assert_eq!(root_cause(&io::Error::other(io::Error::other("the line is dead"))), "the line is dead");
}
