//! What etcd tells of a key, and what the source hands to a cacher.

use std::sync::Arc;

use bytes::Bytes;

use super::{Broken, Epoch, Object, Revision, Storage};

/// One key at one revision, as etcd tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// The full key.
    pub key: Bytes,
    /// What was written; `None` when the key was deleted.
    pub value: Option<Bytes>,
    /// When.
    pub revision: Revision,
}

/// One change of one key of a resource.
#[derive(Clone, Debug)]
pub enum Change {
    /// The key was written.
    Put(Arc<Object>),
    /// The key is gone.
    Delete(Bytes),
    /// The key was written with a value we cannot serve.
    Broken(Broken),
    /// The key was written with a large value; its cacher makes a `Put` or a `Broken` of it before anything else.
    Stored(Stored),
}

/// A value as etcd has it, not yet servable: that takes long for a large one, and would hold up what the feed has for other resources.
#[derive(Clone, Debug)]
pub struct Stored {
    /// What kind of object it is.
    pub storage: Arc<Storage>,
    /// Bytes of the key before the namespace or name.
    pub prefix_len: usize,
    /// The key.
    pub key: Bytes,
    /// The value; keeps the answer of etcd that it came with.
    pub value: Bytes,
    /// The revision that wrote it.
    pub revision: Revision,
}

/// Every change that one revision made to one resource. A transaction or a lease revoke changes many keys at one revision.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The revision, whole: nothing else of this resource comes at it (guarantee Atomic).
    pub revision: Revision,
    /// The changes, in etcd's order.
    pub changes: Vec<Change>,
}

/// What a cacher receives, in order.
#[derive(Clone, Debug)]
pub enum Feed {
    /// Start anew: forget everything, these are all objects at `revision`.
    Reset {
        /// The new life.
        epoch: Epoch,
        /// Revision of the load; the ring's floor becomes this.
        revision: Revision,
        /// The resource may be served once it is known up to here (a warm start loads an older revision and replays).
        ready_at: Revision,
        /// Every object, in any order.
        objects: Vec<Arc<Object>>,
        /// Values that could not be decoded.
        broken: Vec<Broken>,
    },
    /// The next revision that touched this resource.
    Batch(Batch),
}

impl Feed {
    /// The revision up to which the resource is known once this is applied.
    #[must_use]
    pub fn revision(&self) -> Revision {
        match self {
            Self::Reset { revision, .. } => *revision,
            Self::Batch(batch) => batch.revision,
        }
    }

    /// Its changes; a reset has none.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Reset { .. } => &[],
            Self::Batch(batch) => &batch.changes,
        }
    }

    /// Bytes of changes it holds, for the inbox budget. A reset counts nothing: a cacher that has too much waiting is loaded anew, and a large
    /// resource must not be loaded for ever because its load is large.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::Reset { .. } => 0,
            Self::Batch(batch) => batch.weight(),
        }
    }
}

impl Batch {
    /// Bytes it holds.
    #[must_use]
    pub fn weight(&self) -> usize {
        let one = |change: &Change| match change {
            Change::Put(object) => object.weight(),
            Change::Delete(key) => key.len() + 64,
            Change::Broken(broken) => broken.key.len() + broken.why.len() + 64,
            Change::Stored(stored) => stored.key.len() + stored.value.len() + 64,
        };
        self.changes.iter().map(one).sum()
    }

    /// Whether it has a value that must be made servable first.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Stored(_)))
    }
}
