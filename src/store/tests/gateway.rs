//! The store's port over HTTP/1.1: what etcd 3.7.3 answers to the same requests, recorded by `tests/store/gateway.py`.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::*;

/// A row for each request, in the order in which they were asked.
const RECORDED: &str = include_str!("../../../tests/store/gateway.jsonl");
/// Members whose values are of the run, of the machine or of the version.
const VOLATILE: &[&str] = &["cluster_id", "member_id", "raft_term", "etcdserver", "etcdcluster", "storage", "name", "clientURLs"];
/// What differs on purpose: `docs/conformance.md`.
const DIFFERS: &[&str] = &["/v3/maintenance/status", "/v3/cluster/member/list"];

/// A store on a port of loopback.
struct Served {
    store: Store,
    _stop: watch::Sender<bool>,
    address: SocketAddr,
    client: Client,
}

async fn served() -> Served {
    let (store, client) = fresh().await;
    let listeners = Store::bind(&[SocketAddr::from(([127, 0, 0, 1], 0))]).await.expect("a port");
    let address = listeners[0].local_addr().expect("bound");
    let (stop, stopped) = watch::channel(false);
    let service = store.service.clone();
    tokio::spawn(async move { super::super::listen::serve(&service, listeners, stopped).await });
    Served { store, _stop: stop, address, client }
}

/// An answer, as far as it has come.
struct Answer {
    status: u64,
    head: String,
    body: String,
}

impl Served {
    /// Asks, and reads until the answer ends or `enough` of its body has come.
    async fn ask(&self, method: &str, path: &str, body: &str, headers: &str, enough: impl Fn(&str) -> bool) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.expect("connected");
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: store\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes()).await.expect("sent");
        let mut bytes = Vec::new();
        loop {
            let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut bytes)).await.expect("in time").expect("read");
            let answer = Answer::read(&bytes);
            if read == 0 || answer.as_ref().is_some_and(|answer| enough(&answer.body)) {
                return answer.expect("a head");
            }
        }
    }

    async fn whole(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask(method, path, body, "", |_| false).await
    }
}

impl Answer {
    fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let body = if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        Some(Self { status, head, body })
    }

    fn header(&self, name: &str) -> &str {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
    }

    fn lines(&self) -> Vec<Value> {
        self.body.lines().map(|line| steady(serde_json::from_str(line).expect("JSON"), "")).collect()
    }
}

/// The chunks that have come whole.
fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        let Some(chunk) = rest.get(..size).filter(|_| rest.len() >= size + 2) else { break };
        text.push_str(chunk);
        body = &rest[size + 2..];
    }
    text
}

/// The same value with `*` for what is of the run, as the recorder does it.
fn steady(value: Value, name: &str) -> Value {
    match value {
        Value::Object(members) => Value::Object(members.into_iter().map(|(name, value)| (name.clone(), steady(value, &name))).collect()),
        _ if VOLATILE.contains(&name) => "*".into(),
        Value::String(text) if name == "ID" && text.len() > 10 => "*".into(),
        Value::String(text) if name == "TTL" && ["498", "499", "500"].contains(&&text[..]) => "*".into(),
        Value::Array(values) => {
            let mut values: Vec<Value> = values.into_iter().map(|value| steady(value, "")).collect();
            if name == "leases" {
                values.sort_by_key(Value::to_string);
            }
            values.into()
        }
        value => value,
    }
}

#[tokio::test]
async fn http_is_answered_as_etcd_answers_it() {
    let served = served().await;
    let mut count = 0;
    for row in RECORDED.lines().map(|row| serde_json::from_str::<Value>(row).expect("JSON")) {
        let request = row["request"].as_str().expect("a request");
        let mut parts = request.splitn(3, ' ');
        let (method, path, body) = (parts.next().expect("a method"), parts.next().expect("a path"), parts.next().unwrap_or(""));
        let lines = row["lines"].as_array();
        let wanted = lines.map_or(0, Vec::len);
        let answer =
            served.ask(method, path, body, "", |body| path.ends_with("/watch") && lines.is_some() && body.lines().count() >= wanted).await;
        count += 1;
        if DIFFERS.contains(&path) {
            continue;
        }
        match lines {
            Some(lines) => assert_eq!((answer.status, &answer.lines()), (200, lines), "{request}"),
            None => {
                let media = row["type"].as_str().expect("a media type");
                assert_eq!((answer.status, answer.header("content-type")), (row["status"].as_u64().expect("a status"), media), "{request}");
                match &row["body"] {
                    Value::String(text) if path.starts_with("/readyz") => {
                        let sorted = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
                        assert_eq!(sorted(&answer.body), sorted(text), "{request}");
                    }
                    Value::String(text) => assert_eq!(&answer.body, text, "{request}"),
                    body => assert_eq!(&answer.lines()[0], body, "{request}"),
                }
            }
        }
    }
    assert!(count > 150, "{count} requests");
}

#[tokio::test]
async fn a_watch_is_a_line_for_each_response() {
    let mut served = served().await;
    put(&mut served.client, "a", "1").await;
    let body = r#"{"create_request":{"key":"YQ==","start_revision":"2","prev_kv":true}}"#;
    let answer = served.ask("POST", "/v3/watch", body, "", |body| body.lines().count() == 2).await;
    assert_eq!(answer.status, 200);
    let event = &answer.lines()[1]["result"]["events"][0];
    assert_eq!(
        event["kv"],
        serde_json::json!({"key": "YQ==", "create_revision": "2", "mod_revision": "2", "version": "1", "value": "MQ=="})
    );
}

#[tokio::test]
async fn a_snapshot_is_a_backup_in_lines() {
    let mut served = served().await;
    put(&mut served.client, "a", "1").await;
    let answer = served.whole("POST", "/v3/maintenance/snapshot", "{}").await;
    let pieces = answer.lines();
    assert!(answer.status == 200 && pieces.iter().all(|piece| piece["result"]["blob"].is_string()), "{}", answer.body);
}

#[tokio::test]
async fn what_is_not_served_says_so() {
    let served = served().await;
    for path in ["/v3/auth/status", "/v3/lock/lock", "/v3/maintenance/hash", "/v3/cluster/member/add"] {
        let answer = served.whole("POST", path, "{}").await;
        assert_eq!((answer.status, &answer.lines()[0]["code"]), (501, &12.into()), "{}", answer.body);
        assert!(answer.body.contains("is not served by this store"), "{}", answer.body);
    }
    let page = served.ask("POST", "/v3/kv/range", "{}", "Origin: http://page\r\n", |_| false).await;
    assert_eq!(page.status, 403, "a page of another origin");
}

#[tokio::test]
async fn bodies_are_bounded() {
    let served = served().await;
    let put = |bytes: usize| format!(r#"{{"key":"YQ==","value":"{}"}}"#, "A".repeat(bytes));
    let large = served.whole("POST", "/v3/kv/put", &put(2 << 20)).await;
    assert_eq!((large.status, &large.lines()[0]["message"]), (400, &"etcdserver: request is too large".into()));
    let larger = served.whole("POST", "/v3/kv/put", &put(3 << 20)).await;
    assert_eq!(
        (larger.status, &larger.lines()[0]["message"]),
        (429, &"grpc: received message larger than max (2359304 vs. 2097152)".into())
    );
}

#[tokio::test]
async fn metrics_have_etcds_names() {
    let mut served = served().await;
    put(&mut served.client, "a", "1").await;
    let answer = served.whole("GET", "/metrics", "").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/plain; version=0.0.4; charset=utf-8"));
    for line in ["etcd_debugging_mvcc_current_revision 2", "etcd_server_has_leader 1", "etcd_debugging_mvcc_keys_total 1"] {
        assert!(answer.body.lines().any(|found| found == line), "{line} in {}", answer.body);
    }
}

#[tokio::test]
async fn probes_fail_when_nothing_is_written_any_more() {
    let served = served().await;
    served.store.service.shared.fail("no disk".into(), false);
    let health = served.whole("GET", "/health", "").await;
    let reason = "etcdserver: the storage has failed: no disk";
    assert_eq!((health.status, &health.lines()[0]["reason"]), (503, &reason.into()));
    assert_eq!(served.whole("GET", "/livez", "").await.status, 200, "what is there is read");
    let ready = served.whole("GET", "/readyz", "").await;
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains(&format!("[-]linearizable_read failed: {reason}\n")), "{}", ready.body);
    assert_eq!(served.whole("GET", "/readyz?exclude=linearizable_read", "").await.status, 200);
}
