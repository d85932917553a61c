//! Clients of one endpoint. Does not know which server answers there.

use std::time::Duration;

use anyhow::{Context, Result};
use etcd_client::{Client, ConnectOptions, GetOptions};

/// How long one call may take: long enough for a commit behind 256 others on a slow disk.
const CALL: Duration = Duration::from_secs(10);

/// A client with a connection of its own, for calls that end.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let options = ConnectOptions::new().with_timeout(CALL).with_connect_timeout(CALL);
    Client::connect([url], Some(options)).await.with_context(|| format!("connect to {url}"))
}

/// A client without a time limit, for watches.
pub(crate) async fn connect_for_streams(url: &str) -> Result<Client> {
    let options = ConnectOptions::new().with_connect_timeout(CALL);
    Client::connect([url], Some(options)).await.with_context(|| format!("connect to {url}"))
}

/// The newest revision.
pub(crate) async fn head(client: &mut Client) -> Result<i64> {
    let answer = client.get("\0", Some(GetOptions::new().with_limit(1).with_count_only())).await?;
    Ok(answer.header().context("a range has a header")?.revision())
}
