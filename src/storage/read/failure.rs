//! Why a read failed. `http/status` makes a `Status` of it.

use std::time::Duration;

use thiserror::Error;

use super::plan::Refusal;
use cache::cacher::Gone;
use cache::dispatch::filters::NoRoom;
use cache::state::snapshot::Snapshot;
use conversion::ConversionError;
use etcd::EtcdError;
use model::Revision;

/// Why a read ended without its data.
#[derive(Clone, Debug, Error)]
pub enum ReadError {
    /// The request itself, before any data was read.
    #[error("{0:?}")]
    Refused(Refusal),
    /// 429: the resource is not loaded yet; it has been so for this long (spec list-watch §2.12).
    #[error("storage is (re)initializing")]
    NotReady(Duration),
    /// 429: the objects are not there in the version that is asked for, for its webhook fails; what kube-apiserver says of the reason.
    #[error("storage is (re)initializing: {0}")]
    NotConverted(String),
    /// An object is not there in the version that is asked for.
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// 504: not known up to the revision asked for (spec list-watch §2.6).
    #[error("Too large resource version: {asked}, current: {current}")]
    TooLarge {
        /// What was asked for.
        asked: Revision,
        /// What is known.
        current: Revision,
        /// Seconds for `Retry-After`; none on the etcd path.
        retry_after: Option<u32>,
    },
    /// 404.
    #[error("{name} not found")]
    NotFound { name: String },
    /// 410 of an exact list whose revision is gone (spec list-watch §2.7).
    #[error("the revision is compacted")]
    ListExpired,
    /// 410 of a continued list; with the token that goes on at the newest state.
    #[error("the continue token's revision is compacted")]
    ContinueExpired(String),
    /// 410 in the stream: the ring has moved past (spec list-watch §4.7).
    #[error("too old resource version: {asked} ({floor})")]
    WatchExpired {
        /// What the watcher has.
        asked: Revision,
        /// The lowest revision it could have resumed from.
        floor: Revision,
    },
    /// 500: values that we cannot decode; nothing is left out silently.
    #[error("{count} stored objects of this resource cannot be served, the first one is {key:?}: {why}")]
    Undecodable {
        /// How many.
        count: usize,
        /// The first key.
        key: String,
        /// What was found there.
        why: String,
    },
    /// 500 `InternalError` in a stream, with this message alone (spec list-watch §4.7).
    #[error("{0}")]
    InStream(String),
    /// etcd did not answer, or answered with an error.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// 503: etcd has not answered in the time after which another server is asked.
    #[error("etcd does not answer: {0}")]
    OutOfReach(String),
    /// 429: watches hold too many different selectors.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The resource went away while it was read.
    #[error(transparent)]
    Gone(#[from] Gone),
}

impl From<Refusal> for ReadError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl ReadError {
    /// What must be said of a snapshot with undecodable values, if it has any.
    pub(super) fn undecodable(snapshot: &Snapshot) -> Result<(), Self> {
        match snapshot.broken.values().next() {
            None => Ok(()),
            Some(first) => Err(Self::Undecodable {
                count: snapshot.broken.len(),
                key: String::from_utf8_lossy(&first.key).into_owned(),
                why: first.why.clone(),
            }),
        }
    }
}
