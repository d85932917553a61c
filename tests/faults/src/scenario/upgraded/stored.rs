//! What was really stored, as a watch of etcd tells it: the truth log of a resource that API servers write, and which values have what the newer minor adds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use proto::{
    WatchCreateRequest,
    event::EventType,
    testing::{Range, watch as watching},
};
use tokio::task::JoinHandle;

use super::{Alone, UNDER_WAY};
use crate::{
    etcd,
    object::{KeyId, Resource, key_id},
    truth::{Change, Ledger},
    validate::{Guarantee, Violation},
    wire::protobuf,
};

/// How long the watch of etcd may be behind.
const PATIENCE: Duration = Duration::from_secs(60);

/// One write as etcd has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) key: KeyId,
    pub(super) revision: u64,
    seq: u64,
    /// Whether it has what the newer minor adds; none of a deletion.
    pub(super) is_whole: Option<bool>,
}

/// The follower of one resource.
pub(super) struct Stored {
    pub(super) ledger: Arc<Ledger>,
    values: Arc<Mutex<Vec<Value>>>,
    follower: JoinHandle<Result<()>>,
}

impl Stored {
    /// Starts it, from the beginning.
    pub(super) fn follow(etcd_port: u16, resource: Resource) -> Result<Self> {
        let (ledger, values) = (Arc::new(Ledger::of(resource)), Arc::default());
        let client = etcd::patient(etcd_port)?;
        let follower = tokio::spawn(follow(client, ledger.clone(), Arc::clone(&values)));
        Ok(Self { ledger, values, follower })
    }

    pub(super) fn values(&self) -> Vec<Value> {
        lock(&self.values).clone()
    }

    /// Waits until it has followed everything, once nobody writes any more.
    pub(super) async fn settled(&mut self, etcd_port: u16) -> Result<()> {
        let began = Instant::now();
        loop {
            let resource = self.ledger.resource();
            let stored: HashMap<String, u64> = etcd::stored(etcd_port, resource).await?.into_iter().collect();
            let eras = self.ledger.eras();
            let era = eras.last().context("a ledger has an era")?;
            let logged: HashMap<String, u64> = {
                let revisions =
                    era.revisions.iter().flat_map(|(revision, changes)| changes.iter().map(move |change| (change.key, *revision)));
                let last: HashMap<KeyId, u64> = revisions.collect();
                era.living().into_iter().map(|(key, (namespace, name))| (resource.etcd_key(&namespace, &name), last[&key])).collect()
            };
            if stored == logged {
                return Ok(());
            }
            if self.follower.is_finished() {
                return (&mut self.follower).await?.context("the watch of etcd");
            }
            ensure!(
                began.elapsed() < PATIENCE,
                "the truth log differs from etcd: {} keys there, {} in the log",
                stored.len(),
                logged.len()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn follow(mut client: proto::testing::Client, ledger: Arc<Ledger>, values: Arc<Mutex<Vec<Value>>>) -> Result<()> {
    let resource = ledger.resource();
    let mut stream = client.watch(WatchCreateRequest { start_revision: 1, ..watching(resource.etcd_prefix()).prefix() }).await?;
    while let Some(response) = stream.message().await? {
        for event in response.events {
            let kind = event.r#type();
            let kv = event.kv.context("an event has a key")?;
            let (key, revision) = (String::from_utf8(kv.key)?, u64::try_from(kv.mod_revision)?);
            let mut parts = key.rsplit('/');
            let (name, namespace) = parts.next().zip(parts.next()).context("a key has a namespace and a name")?;
            let (change, seq, is_whole) = if kind == EventType::Delete {
                (Change::delete(namespace, name), 0, None)
            } else {
                let (value, seq, is_whole) = protobuf::stored(&kv.value, resource).with_context(|| key.clone())?;
                let after = Some(value);
                (
                    Change { key: key_id(namespace, name), namespace: namespace.to_owned(), name: name.to_owned(), after },
                    seq,
                    Some(is_whole),
                )
            };
            lock(&values).push(Value { key: change.key, revision, seq, is_whole });
            ledger.record(revision, vec![change]);
        }
    }
    anyhow::bail!("etcd has ended the watch")
}

/// Whether what an object was at a revision has what the newer minor adds.
pub(super) fn has_whole(values: &[Value], key: KeyId, revision: u64) -> bool {
    let until = values.partition_point(|value| value.revision <= revision);
    values[..until].iter().rev().find(|value| value.key == key).is_some_and(|value| value.is_whole == Some(true))
}

/// Writes that have taken away what the newer minor adds, though who wrote can have read and written nowhere but there.
pub(super) fn lost(values: &[Value], ledger: &Ledger, alone: &Alone) -> Vec<Violation> {
    let mut before: HashMap<KeyId, bool> = HashMap::new();
    let mut found = Vec::new();
    for value in values {
        let Some(is_whole) = value.is_whole else {
            before.remove(&value.key);
            continue;
        };
        let was_whole = before.insert(value.key, is_whole).unwrap_or(false);
        let is_newer = alone.since(ledger.at(value.seq)).is_some_and(|since| since > UNDER_WAY);
        if was_whole && !is_whole && is_newer {
            let detail = format!("what was read and written back of {:x} at {} has lost fields in the cluster", value.key, value.revision);
            found.push(Violation { guarantee: Guarantee::Complete, client: None, detail });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(key: KeyId, revision: u64, seq: u64, is_whole: Option<bool>) -> Value {
        Value { key, revision, seq, is_whole }
    }

    #[test]
    fn what_was_stored_whole_is_known_by_revision() {
        let values = [value(1, 5, 0, Some(false)), value(1, 7, 0, Some(true)), value(2, 8, 0, Some(false)), value(1, 9, 0, None)];
        let at = |key, revision| has_whole(&values, key, revision);
        assert!(!at(1, 4) && !at(1, 6) && at(1, 7) && at(1, 8) && !at(2, 8));
        assert!(!at(1, 9), "it is not there");
    }

    #[test]
    fn a_write_that_loses_a_field_is_found_only_while_the_newer_is_alone() {
        let (ledger, mut alone) = (Ledger::of(Resource::Autoscalers), Alone::default());
        let early = ledger.next_seq();
        let values = |seq| [value(1, 5, early, Some(true)), value(1, 6, seq, Some(false))];
        assert!(lost(&values(early), &ledger, &alone).is_empty());
        alone.0.push((ledger.at(0), None));
        let late = u64::try_from((UNDER_WAY + Duration::from_secs(1)).as_micros()).expect("short") << 20;
        assert_eq!(lost(&values(late), &ledger, &alone).len(), 1);
        assert!(lost(&values(early), &ledger, &alone).is_empty(), "it may have been read from the older one");
        let again = [value(1, 5, late, Some(true)), value(1, 6, late, None), value(1, 7, late, Some(false))];
        assert!(lost(&again, &ledger, &alone).is_empty(), "it is a new object");
    }
}
