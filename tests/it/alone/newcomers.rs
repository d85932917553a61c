//! A server for other people's tests: ports that are free, objects in memory, requests in the log; and what its neighbours of a control plane ask for.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Alone, Failure, Outcome, asked, metric};
use crate::client::{Client, Request};

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(600);
const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a file has been written.
async fn written(file: &Path) -> Result<String, Failure> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Ok(text) = fs::read_to_string(file) {
            return Ok(text);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(format!("{} is not written", file.display()).into())
}

/// What the server with this process id has in shared memory.
fn keys_of(pid: u32) -> Vec<PathBuf> {
    let begins = format!("watchcache-{pid}-");
    let there = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.path());
    there.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begins))).collect()
}

#[tokio::test]
async fn ports_are_chosen_and_told_and_nothing_is_on_disk() -> Outcome {
    let dir = tempfile::tempdir()?;
    let [ports, conf] = ["ports", "admin.conf"].map(|name| dir.path().join(name));
    fs::write(&ports, "INSECURE_PORT=1\n")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.args(["serve", "--data-dir", ":memory:", "--insecure-port", "auto", "--secure-port", "auto", "--bind-address", "127.0.0.1"]);
    command.arg("--port-file").arg(&ports).arg("--write-admin-kubeconfig").arg(&conf).current_dir(dir.path());
    let mut running = Running(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?);
    let began = Instant::now();
    let text = loop {
        let text = written(&ports).await?;
        if text != "INSECURE_PORT=1\n" {
            break text;
        }
        assert!(began.elapsed() < PATIENCE, "the file of an earlier start is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let port = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.parse::<u16>().ok());
    let (insecure, secure) = (port("INSECURE_PORT").ok_or(text.clone())?, port("SECURE_PORT").ok_or(text.clone())?);
    let client = Client::plain(([127, 0, 0, 1], insecure).into());
    assert_eq!(client.fetch("/readyz").await?.body, "ok", "it is ready when the file is there");
    asked(&client, ("POST", COLLECTION), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
    assert!(fs::read_to_string(&conf)?.contains(&format!("https://127.0.0.1:{secure}")), "the kubeconfig has the port");
    let mut there: Vec<_> = fs::read_dir(dir.path())?.flatten().map(|entry| entry.file_name()).collect();
    there.sort();
    assert_eq!(there, ["admin.conf", "ports"], "no store");
    let pid = running.0.id();
    assert!(!Path::new("/dev/shm").is_dir() || keys_of(pid).len() == 1, "its keys are in memory");
    assert!(Command::new("kill").arg(pid.to_string()).status()?.success());
    running.0.wait()?;
    assert_eq!(keys_of(pid), Vec::<PathBuf>::new(), "they are gone with it");
    Ok(())
}

/// An answer's status, a header's value, and the body.
async fn answered(
    client: &Client,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    header: &str,
) -> Result<(u16, String, String), Failure> {
    let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let whole = client.whole(method, target, &headers, b"").await?;
    let value = whole.header(header).collect::<Vec<_>>().join("|");
    Ok((whole.status, value, String::from_utf8_lossy(&whole.body).into_owned()))
}

/// As a kube-apiserver with the same flag answered on 2026-11-25.
#[tokio::test]
async fn pages_that_are_allowed_may_read_and_others_are_told_why_not() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--cors-allowed-origins=//page.example(:|$)"]).await?;
    let client = server.client();
    const ALLOWED: &str = "access-control-allow-origin";
    let page = ("Origin", "https://page.example:8080");
    for (method, target, status) in [("GET", "/version", 200), ("OPTIONS", COLLECTION, 204), ("GET", "/api/v1/nothing", 404)] {
        let (code, origin, body) = answered(&client, method, target, &[page, ("Sec-Fetch-Site", "cross-site")], ALLOWED).await?;
        assert_eq!((code, origin.as_str(), body.is_empty()), (status, page.1, status == 204), "{method} {target}");
    }
    for (header, value) in [
        ("access-control-allow-methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
        (
            "access-control-allow-headers",
            "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
        ),
        ("access-control-expose-headers", "Date"),
        ("access-control-allow-credentials", "true"),
        ("cache-control", "no-cache, private"),
    ] {
        let (_, told, _) = answered(&client, "OPTIONS", COLLECTION, &[page], header).await?;
        assert_eq!(told, value, "{header}");
    }
    let (code, origin, _) = answered(&client, "GET", "/version?timeout=x", &[page], ALLOWED).await?;
    assert_eq!((code, origin.as_str()), (400, ""), "a wrong timeout is told before");
    let socket = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let refused: [(&str, &[(&str, &str)]); 3] = [
        ("/version", &[("Origin", "https://evil.example")]),
        ("/version", &[("Sec-Fetch-Site", "cross-site")]),
        ("/api/v1/configmaps?watch=1", &socket),
    ];
    for (target, headers) in refused {
        let (code, origin, body) = answered(&client, "GET", target, headers, ALLOWED).await?;
        let status: Value = serde_json::from_str(&body)?;
        assert_eq!((code, origin.as_str(), &status["reason"]), (403, "", &json!("Forbidden")), "{headers:?}");
        assert!(status["message"].as_str().is_some_and(|message| message.len() > 30), "{body}");
    }
    Ok(())
}

#[tokio::test]
async fn watches_that_come_too_late_were_not_too_slow() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--history-window=1s", "--ring-events-limit=1000"]).await?;
    let client = server.client();
    let first = asked(&client, ("POST", COLLECTION), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
    let revision = first["metadata"]["resourceVersion"].as_str().ok_or("no revision")?.to_owned();
    let target = format!("{COLLECTION}/a");
    for number in 0..1_500 {
        let body = json!({"metadata": {"name": "a"}, "data": {"n": number.to_string()}}).to_string();
        let answer = client.ask(&Request { method: "PUT", target: &target, body: Some(body.as_bytes()) }).await?;
        assert_eq!(answer.status, 200);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    asked(&client, ("PUT", &target), Some(&json!({"metadata": {"name": "a"}})), 200).await?;
    for _ in 0..3 {
        let target = format!("{COLLECTION}?watch=true&timeoutSeconds=5&resourceVersion={revision}");
        let body = client.fetch(&target).await?.body;
        assert!(String::from_utf8_lossy(&body).contains("too old resource version"), "{body:?}");
    }
    assert_eq!(metric(&client, "apiserver_terminated_watchers_total{", "\"configmaps\"").await?, 0.0);
    Ok(())
}

#[tokio::test]
async fn requests_are_in_the_log_when_it_is_asked_for_them() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--v=3"]).await?;
    let client = server.client();
    let headers = [("User-Agent", "a browser"), ("Audit-ID", "an-id")];
    answered(&client, "GET", "/api/v1/namespaces/default/configmaps/none?pretty=0", &headers, "x").await?;
    answered(&client, "GET", &format!("{COLLECTION}?watch=1&timeoutSeconds=1"), &headers, "x").await?;
    let began = Instant::now();
    let lines = |log: &str, uri: &str| {
        log.lines().filter(|line| line.contains(uri) && line.contains("HTTP")).map(str::to_owned).collect::<Vec<_>>()
    };
    loop {
        let log = fs::read_to_string(&server.log)?;
        let (one, watch) = (lines(&log, "/configmaps/none"), lines(&log, "watch=1"));
        if let ([one], [watch]) = (&one[..], &watch[..]) {
            for field in [
                "verb=\"GET\"",
                "URI=\"/api/v1/namespaces/default/configmaps/none?pretty=0\"",
                "latency=\"",
                "userAgent=\"a browser\"",
                "audit-ID=\"an-id\"",
                "srcIP=\"127.0.0.1:",
                "resp=404",
            ] {
                assert!(one.contains(field), "{field}: {one}");
            }
            assert!(watch.contains("verb=\"WATCH\"") && watch.contains("resp=200"), "{watch}");
            return Ok(());
        }
        assert!(began.elapsed() < PATIENCE, "{one:?} {watch:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// kube-controller-manager and kube-scheduler ask for it until it is there.
#[tokio::test]
async fn others_are_told_whom_the_server_believes() -> Outcome {
    const TARGET: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let dir = tempfile::tempdir()?;
    let conf = dir.path().join("admin.conf");
    let flags = ["--secure-port=auto", "--bind-address=127.0.0.1", "--write-admin-kubeconfig", &conf.display().to_string()];
    let server = Alone::start_with(dir.path(), &flags).await?;
    let client = server.client();
    let began = Instant::now();
    let authority = fs::read_to_string(dir.path().join("data/ca.pem"))?.replace("\r\n", "\n");
    let told = |object: &Value| object["data"]["client-ca-file"].as_str().is_some_and(|pem| !pem.is_empty() && authority.starts_with(pem));
    for change in [None, Some("DELETE"), Some("PUT")] {
        if let Some(method) = change {
            let body = (method == "PUT").then(|| json!({"metadata": {"name": "extension-apiserver-authentication"}, "data": {}}));
            asked(&client, (method, TARGET), body.as_ref(), 200).await?;
        }
        loop {
            let answer = client.fetch(TARGET).await?;
            if answer.status == 200 && told(&serde_json::from_slice(&answer.body)?) {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{change:?}: {}", String::from_utf8_lossy(&answer.body));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}
