//! Clients of one endpoint. Does not know which server answers there.

use std::time::Duration;

use anyhow::{Context, Result};
use proto::{
    RangeRequest,
    testing::{Client, get},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tonic::transport::Endpoint;

/// How long one call may take: long enough for a commit behind 256 others on a slow disk of a busy machine.
const CALL: Duration = Duration::from_secs(60);

/// Longest text of metrics that is read, bytes.
const METRICS_BYTES: u64 = 16 << 20;

/// A client with a connection of its own, for calls that end.
pub(crate) fn connect(url: &str) -> Result<Client> {
    Ok(Client::over(&endpoint(url)?.timeout(CALL)))
}

/// A client without a time limit, for watches.
pub(crate) fn connect_for_streams(url: &str) -> Result<Client> {
    Ok(Client::over(&endpoint(url)?))
}

fn endpoint(url: &str) -> Result<Endpoint> {
    let endpoint = Endpoint::from_shared(url.to_owned()).with_context(|| format!("{url} is no URL"))?;
    Ok(endpoint.connect_timeout(CALL))
}

/// The newest revision.
pub(crate) async fn head(client: &mut Client) -> Result<i64> {
    let answer = client.range(RangeRequest { limit: 1, count_only: true, ..get("\0") }).await?;
    Ok(answer.header.context("a range has a header")?.revision)
}

/// How many watches an etcd still has to tell of the past, by its own count; `None` when it does not count them, as the store does not.
pub(crate) async fn watches_behind(url: &str) -> Option<f64> {
    const NAME: &str = "etcd_debugging_mvcc_slow_watcher_total ";
    let address = url.strip_prefix("http://")?;
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        // Of this version: then it is neither kept open nor chunked.
        stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(METRICS_BYTES).read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = timeout(CALL, asked).await.ok()?.ok()?;
    String::from_utf8_lossy(&answer).lines().find_map(|line| line.strip_prefix(NAME)?.parse().ok())
}
