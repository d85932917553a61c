//! Writes `objects.txt` through kube-apiserver, and waits until a server shows it.

use std::{net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::sync::Mutex;

use crate::client::{Client, Request};

const OBJECTS: &str = include_str!("objects.txt");
/// Words of `{long}`: 150 KB, which is more than is sent without gzip to who takes that.
const LONG_WORDS: usize = 30_000;
/// How long a new definition may take until it is served.
const PATIENCE: Duration = Duration::from_secs(120);

type Failure = Box<dyn std::error::Error>;

/// The etcd that has everything, and its revision before the changes.
static WRITTEN: Mutex<Option<(SocketAddr, u64)>> = Mutex::const_new(None);

/// Writes everything, once for those that share an etcd; the revision before the changes.
pub(super) async fn write(theirs: &Client, etcd: SocketAddr) -> Result<u64, Failure> {
    let mut written = WRITTEN.lock().await;
    if let Some((_, old)) = written.filter(|(at, _)| *at == etcd) {
        return Ok(old);
    }
    let mut old = 0;
    for line in OBJECTS.lines().filter(|line| !line.starts_with('#')) {
        if line == "old" {
            old = revision(theirs).await?;
            continue;
        }
        let mut parts = line.splitn(3, ' ');
        let (Some(method), Some(target)) = (parts.next(), parts.next()) else { return Err(format!("no request: {line}").into()) };
        let body = parts.next().map(|body| body.replace("{long}", &"long ".repeat(LONG_WORDS)));
        one(theirs, &Request { method, target, body: body.as_deref().map(str::as_bytes) }).await?;
    }
    *written = Some((etcd, old));
    Ok(old)
}

/// Writes one. A custom resource is not there at once after its definition.
async fn one(theirs: &Client, request: &Request<'_>) -> Result<(), Failure> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let answer = theirs.ask(request).await?;
        match answer.status {
            200..300 => return Ok(()),
            404 | 429 | 500 if tokio::time::Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(200)).await,
            status => {
                return Err(format!("{} {}: {status} {}", request.method, request.target, String::from_utf8_lossy(&answer.body)).into());
            }
        }
    }
}

/// Waits until the custom resources are served with all their objects.
pub(super) async fn seen_by(ours: &Client) -> Result<(), Failure> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    for (path, objects) in [("/apis/conf.io/v2/widgets", 2), ("/apis/conf.io/v1/gizmos", 3)] {
        loop {
            let answer = ours.fetch(path).await?;
            let found = serde_json::from_slice::<Value>(&answer.body).ok().and_then(|list| Some(list["items"].as_array()?.len()));
            if answer.status == 200 && found == Some(objects) {
                break;
            }
            if tokio::time::Instant::now() > deadline {
                return Err(format!("{path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body)).into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// Where the cluster is now.
pub(super) async fn revision(client: &Client) -> Result<u64, Failure> {
    let answer = client.fetch("/api/v1/namespaces/t/configmaps").await?;
    let list: Value = serde_json::from_slice(&answer.body)?;
    let text = list["metadata"]["resourceVersion"].as_str().ok_or("a list without a revision")?;
    Ok(text.parse()?)
}
