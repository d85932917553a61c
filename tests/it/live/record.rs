//! The truth of one resource, read from etcd itself after the writes are done.

use std::{net::SocketAddr, time::Duration};

use etcd_client::{EventType, GetOptions, WatchOptions};

use crate::guarantees::{Item, Truth, Write};

/// Longest message taken from etcd, bytes: a range of all test objects fits.
const MESSAGE_LIMIT: usize = 256 << 20;
/// How long etcd may take to replay what a test wrote.
const PATIENCE: Duration = Duration::from_secs(60);

/// etcd's revision now.
pub(super) async fn revision(etcd: SocketAddr) -> Result<u64, Box<dyn std::error::Error>> {
    let mut client = etcd_client::Client::connect([etcd.to_string()], None).await?;
    let answer = client.get("/", None).await?;
    Ok(header_revision(answer.header().map(etcd_client::ResponseHeader::revision)))
}

/// Everything under `/registry/<resource>/` at `floor`, and every write after it until now.
pub(super) async fn truth(etcd: SocketAddr, resource: &str, floor: u64) -> Result<Truth, Box<dyn std::error::Error>> {
    let prefix = format!("/registry/{resource}/");
    let mut client = etcd_client::Client::connect([etcd.to_string()], None).await?;
    let mut kv = client.kv_client().max_decoding_message_size(MESSAGE_LIMIT);
    let at = i64::try_from(floor)?;
    let range = kv.get(prefix.as_str(), Some(GetOptions::new().with_prefix().with_revision(at))).await?;
    let head = header_revision(range.header().map(etcd_client::ResponseHeader::revision));
    let mut start = Vec::new();
    for pair in range.kvs() {
        let revision = header_revision(Some(pair.mod_revision()));
        start.push(Item { key: object_key(&prefix, pair.key())?, revision, body: pair.value().to_vec() });
    }
    let writes = tokio::time::timeout(PATIENCE, writes(&mut client, &prefix, at + 1, head)).await??;
    Ok(Truth::new(floor, start, writes, head))
}

async fn writes(client: &mut etcd_client::Client, prefix: &str, from: i64, head: u64) -> Result<Vec<Write>, Box<dyn std::error::Error>> {
    let mut stream = client.watch(prefix, Some(WatchOptions::new().with_prefix().with_start_revision(from))).await?;
    let mut writes = Vec::new();
    loop {
        // etcd answers only when the watch has caught up, so it is asked again and again.
        stream.request_progress().await?;
        let Ok(message) = tokio::time::timeout(Duration::from_millis(100), stream.message()).await else { continue };
        let Some(message) = message? else { return Err("etcd ended the watch".into()) };
        if message.canceled() {
            return Err(format!("etcd cancelled the watch: {}", message.cancel_reason()).into());
        }
        for event in message.events() {
            let Some(pair) = event.kv() else { continue };
            let body = (event.event_type() == EventType::Put).then(|| pair.value().to_vec());
            writes.push(Write { key: object_key(prefix, pair.key())?, revision: header_revision(Some(pair.mod_revision())), body });
        }
        let caught_up = message.events().is_empty() && !message.created();
        if caught_up && header_revision(message.header().map(etcd_client::ResponseHeader::revision)) >= head {
            writes.retain(|w| w.revision <= head);
            return Ok(writes);
        }
    }
}

/// `namespace/name`, or `/name`, from a storage key.
fn object_key(prefix: &str, key: &[u8]) -> Result<String, Box<dyn std::error::Error>> {
    let rest = std::str::from_utf8(key)?.strip_prefix(prefix).ok_or("a key outside its prefix")?;
    Ok(if rest.contains('/') { rest.to_owned() } else { format!("/{rest}") })
}

fn header_revision(revision: Option<i64>) -> u64 {
    revision.and_then(|r| u64::try_from(r).ok()).unwrap_or(0)
}
