//! Requests that etcd refuses, with etcd's own gRPC codes and texts.

use std::io::ErrorKind;
use std::sync::Arc;

use tonic::{Code, Status};

/// How the system says that a file cannot grow: the disk, the quota, the limit of a file's size.
const FULL: [ErrorKind; 3] = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];

/// Why a request is not done. Texts and codes are those of etcd's `api/v3rpc/rpctypes/error.go`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("etcdserver: key is not provided")]
    EmptyKey,
    /// `ignore_value` or `ignore_lease` of a key that is not there, or an operation without content.
    #[error("etcdserver: key not found")]
    KeyNotFound,
    #[error("etcdserver: value is provided")]
    ValueProvided,
    #[error("etcdserver: lease is provided")]
    LeaseProvided,
    #[error("etcdserver: too many operations in txn request")]
    TooManyOps,
    #[error("etcdserver: duplicate key given in txn request")]
    DuplicateKey,
    #[error("etcdserver: invalid sort option")]
    InvalidSort,
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted,
    #[error("etcdserver: mvcc: required revision is a future revision")]
    Future,
    #[error("etcdserver: requested lease not found")]
    LeaseNotFound,
    #[error("etcdserver: lease already exists")]
    LeaseExists,
    #[error("etcdserver: too large lease TTL")]
    LeaseTtlTooLarge,
    #[error("etcdserver: request is too large")]
    TooLarge,
    /// What etcd's gRPC server says before etcd sees the request: the size, and the limit.
    #[error("grpc: received message larger than max ({0} vs. {1})")]
    TooLargeMessage(usize, usize),
    /// What etcd says of writes once its disk is full, until somebody has made room.
    #[error("etcdserver: mvcc: database space exceeded")]
    NoSpace,
    /// As many backups are being sent as may be, or what answers hold is all taken.
    #[error("etcdserver: too many requests")]
    TooManyRequests,
    #[error("the store goes on in the file that it had: {0}")]
    NotDefragmented(Arc<str>),
    /// The storage has failed in another way; the text says how.
    #[error("etcdserver: the storage has failed: {0}")]
    Failed(Arc<str>),
    /// The store has stopped; the text says why.
    #[error("etcdserver: server stopped: {0}")]
    Stopped(Arc<str>),
}

/// What can go wrong while a request is looked at: the request, or the storage below it. The second one stops the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Refused(Refusal),
    Broken(Arc<str>),
    /// The same, by a disk that takes no more.
    Full(Arc<str>),
}

impl Fault {
    /// What the storage has cannot be right.
    pub(super) fn broken(error: impl std::fmt::Display) -> Self {
        Self::Broken(error.to_string().into())
    }

    /// What is wrong.
    pub(super) fn text(&self) -> Arc<str> {
        match self {
            Self::Refused(refusal) => refusal.to_string().into(),
            Self::Broken(why) | Self::Full(why) => why.clone(),
        }
    }

    /// The storage failed.
    pub(super) fn storage(error: impl Into<redb::Error>) -> Self {
        let error = error.into();
        let why = error.to_string().into();
        match error {
            redb::Error::Io(error) if FULL.contains(&error.kind()) => Self::Full(why),
            _ => Self::Broken(why),
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<redb::StorageError> for Fault {
    fn from(error: redb::StorageError) -> Self {
        Self::storage(error)
    }
}

impl From<redb::TableError> for Fault {
    fn from(error: redb::TableError) -> Self {
        Self::storage(error)
    }
}

impl Refusal {
    pub(super) fn closed() -> Self {
        Self::Stopped("closed".into())
    }

    fn code(&self) -> Code {
        match self {
            Self::EmptyKey | Self::KeyNotFound | Self::ValueProvided | Self::LeaseProvided => Code::InvalidArgument,
            Self::TooManyOps | Self::DuplicateKey | Self::InvalidSort | Self::TooLarge => Code::InvalidArgument,
            Self::Compacted | Self::Future | Self::LeaseTtlTooLarge => Code::OutOfRange,
            Self::LeaseNotFound => Code::NotFound,
            Self::LeaseExists | Self::NotDefragmented(_) => Code::FailedPrecondition,
            Self::TooLargeMessage(..) | Self::NoSpace | Self::TooManyRequests => Code::ResourceExhausted,
            // Not `Unavailable`: what can still be read is read here and nowhere else.
            Self::Failed(_) => Code::Internal,
            Self::Stopped(_) => Code::Unavailable,
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_texts_are_etcds() {
        let status = Status::from(Refusal::Compacted);
        assert_eq!((status.code(), status.message()), (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"));
        let status = Status::from(Refusal::Stopped("disk full".into()));
        assert_eq!((status.code(), status.message()), (Code::Unavailable, "etcdserver: server stopped: disk full"));
    }
}
