//! A store from its opening on a disk to the end of the power, spoken to in-process.

use std::time::Duration;

use proto::PutRequest;
use proto::testing::{Client, put, txn, watch};
use store::{Store, StoreConfig};
use tokio::time::timeout;

use super::disk::Disk;

/// How long a single call may take, and how long a store may take to notice that its disk fails.
const PATIENCE: Duration = Duration::from_secs(600);
/// Bytes of pages in memory: so few that the disk is read as well.
const CACHE_BYTES: usize = 1 << 20;

/// An open store.
pub(super) struct Life {
    store: Store,
}

impl Life {
    /// Opens the store on what the disk has.
    pub(super) async fn begin(disk: &Disk) -> Result<Self, String> {
        let config = StoreConfig { cache_bytes: CACHE_BYTES, ..StoreConfig::default() };
        let disk = disk.clone();
        // Opening blocks, as in the server.
        let opened = tokio::task::spawn_blocking(move || Store::open_on(disk, config))
            .await
            .map_err(|error| format!("opening panicked: {error}"))?;
        opened.map(|store| Self { store }).map_err(|error| format!("the store does not open: {error}"))
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.store.channel())
    }

    pub(super) fn clients(&self, count: usize) -> Vec<Client> {
        (0..count).map(|_| self.client()).collect()
    }

    pub(super) async fn compact(&self, revision: i64) -> Result<(), String> {
        let compacted = timeout(PATIENCE, self.client().compact(revision, false)).await.map_err(|_| "no answer to a compaction")?;
        compacted.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Puts a key; the revision.
    pub(super) async fn put(&self, key: &str) -> Result<i64, String> {
        let mut client = self.client();
        let put = client.put(PutRequest { prev_kv: true, ..put(key, "v") });
        let put = timeout(PATIENCE, put).await.map_err(|_| "no answer to a put")?.map_err(|error| error.to_string())?;
        Ok(put.header.ok_or("an answer has a header")?.revision)
    }

    /// Waits until the store says that its storage failed.
    pub(super) async fn stops(&self) -> Result<(), String> {
        timeout(PATIENCE, self.store.failed()).await.map(|_| ()).map_err(|_| "the store goes on although its disk failed".to_owned())
    }

    /// The clients hear that nobody is there any more.
    pub(super) async fn close(&self) {
        self.store.close().await;
    }

    /// Every write must be refused once the storage has failed, and reads and watches stay at one revision. That it was durable is for the judge to say:
    /// the witnesses read on. A store that had nothing to write does not know of its disk: the put is what tells it.
    pub(super) async fn has_stopped(&self) -> Result<(), String> {
        self.put("late").await.map_or(Ok(()), |revision| Err(format!("a put is acknowledged as {revision} although the disk fails")))?;
        self.stops().await?;
        let mut client = self.client();
        let mut went = Vec::new();
        let shown = match client.get("no such key").await {
            Ok(answer) => answer.header.ok_or("an answer has a header")?.revision,
            Err(error) => return Err(format!("what is in memory is not read any more: {error}")),
        };
        let txn = txn([], [put("k", "v").into()]);
        went.push(("a put", client.put(("k", "v")).await.is_ok()));
        went.push(("a deletion", client.delete("k").await.is_ok()));
        went.push(("a transaction", client.txn(txn).await.is_ok()));
        went.push(("a lease", client.grant(0, 10).await.is_ok()));
        went.push(("a compaction", client.compact(1, false).await.is_ok()));
        // All these attempts have left no trace.
        let mut stream = client.watch(watch("k")).await.map_err(|error| format!("no watch begins any more: {error}"))?;
        stream.requests.progress().await.map_err(|error| error.to_string())?;
        let told = timeout(PATIENCE, stream.message()).await.map_err(|_| "a watch is told nothing")?.map_err(|error| error.to_string())?;
        let told = told.and_then(|told| told.header).map(|header| header.revision);
        if told != Some(shown) {
            return Err(format!("a watch is told revision {told:?}, a reader {shown}"));
        }
        match went.iter().find(|(_, went)| *went) {
            Some((what, _)) => Err(format!("{what} is done by a store whose storage failed")),
            None => Ok(()),
        }
    }
}
