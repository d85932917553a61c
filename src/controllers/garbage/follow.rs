//! What changes in a resource, one object after the other: before and after.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::index::Slot;
use cache::state::snapshot::{Published, Snapshot};
use model::{Epoch, Object, Revision};

/// An object that was written or removed.
pub(super) struct Change {
    pub(super) before: Option<Arc<Object>>,
    pub(super) after: Option<Arc<Object>>,
    /// It is there and cannot be read.
    pub(super) is_broken: bool,
}

/// What has changed in a resource since the last time.
pub(super) struct Batch {
    pub(super) slot: Slot,
    /// Of whose snapshots this is: a resource that comes back has others.
    pub(super) published: Arc<Published>,
    /// The snapshot up to which it goes.
    pub(super) at: (Epoch, Revision),
    /// It is of another life than the one before: the etcd may have been restored.
    pub(super) is_new_life: bool,
    pub(super) changes: Vec<Change>,
}

/// Sends what changes, until nobody takes it. Between two batches it holds the last snapshot, of which all but what has changed is shared with the next one.
pub(super) async fn follow(slot: Slot, published: Arc<Published>, batches: mpsc::Sender<Batch>) {
    let (mut seen, mut last) = (None, None::<Arc<Snapshot>>);
    loop {
        let (snapshot, keys) = published.next(&mut seen).await;
        let changes = changes(last.as_deref(), &snapshot, keys);
        let is_new_life = last.as_ref().is_some_and(|last| last.epoch != snapshot.epoch);
        let at = (snapshot.epoch, snapshot.applied);
        last = Some(snapshot);
        if batches.send(Batch { slot, published: published.clone(), at, is_new_life, changes }).await.is_err() {
            return;
        }
    }
}

fn changes(before: Option<&Snapshot>, after: &Snapshot, keys: Option<BTreeSet<Bytes>>) -> Vec<Change> {
    let change = |key: &[u8]| {
        let (old, new) = (before.and_then(|before| before.store.find(key)), after.store.find(key));
        let is_same = match (old, new) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (old, new) => old.is_none() && new.is_none(),
        };
        let is_broken = after.broken.contains_key(key);
        (!is_same).then(|| Change { before: old.cloned(), after: new.cloned(), is_broken })
    };
    match keys {
        Some(keys) => keys.iter().filter_map(|key| change(key)).collect(),
        None => {
            let gone =
                before.into_iter().flat_map(|before| before.store.scan(b"", b"")).filter(|old| after.store.find(old.key()).is_none());
            gone.chain(after.store.scan(b"", b"")).filter_map(|object| change(object.key())).collect()
        }
    }
}
