//! What one client saw, in the order it saw it. Knows nothing of truth or guarantees.

use std::collections::HashMap;

use crate::object::{Filter, KeyId};

/// The kind of a delivered change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
}

/// One delivered change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// What the stream called it.
    pub(crate) kind: Kind,
    /// Which object.
    pub(crate) key: KeyId,
    /// The `resourceVersion` of the body.
    pub(crate) revision: u64,
    /// Digest of the body.
    pub(crate) digest: u64,
}

/// One object of a list, or of the initial events of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Which object.
    pub(crate) key: KeyId,
    /// Its `resourceVersion`.
    pub(crate) revision: u64,
    /// Digest of the body.
    pub(crate) digest: u64,
}

/// How recent a list or a streaming start had to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// `resourceVersion=0`
    Any,
    /// `resourceVersion=N`, not older than.
    AtLeast(u64),
    /// `resourceVersion` unset: as new as the store when asked. The last acknowledged write before asking, and its era.
    Newest {
        /// Index of the era the harness was in.
        era: usize,
        /// Highest acknowledged revision.
        head: u64,
    },
}

/// One thing that happened to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A whole state: a list, or initial events up to the annotated bookmark. Starts a session.
    Listed {
        /// Its `resourceVersion`.
        revision: u64,
        /// What was asked of it.
        wanted: Wanted,
        /// The objects.
        items: Vec<Item>,
    },
    /// A watch stream is open (the rest of a streaming start counts as one).
    Opened {
        /// Changes after this revision are due.
        from: u64,
    },
    /// A change.
    Event(Event),
    /// A change of an object that is not the harness's: it moves `seen` and nothing else.
    Foreign(u64),
    /// A plain bookmark.
    Bookmark(u64),
    /// 410: the stream cannot be resumed.
    Expired {
        /// From where it was asked.
        requested: u64,
        /// The floor that the message names, when it names one.
        floor: Option<u64>,
    },
    /// The stream ended.
    Ended {
        /// With the terminating chunk.
        clean: bool,
    },
    /// A request that got no stream: refused connection, 429, 5xx, timeout.
    Refused(String),
    /// Something that fits no rule of the protocol.
    Odd(String),
}

/// Everything one client saw, and what it believes at the end.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// Number of the client.
    pub(crate) client: usize,
    /// What it asked for.
    pub(crate) filter: Filter,
    /// In order.
    pub(crate) records: Vec<Record>,
    /// Its store when it was stopped: object to (revision, digest).
    pub(crate) state: HashMap<KeyId, (u64, u64)>,
}
