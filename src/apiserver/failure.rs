//! A read's failure becomes a `Status` (spec list-watch §2.6–2.8, §2.12, §3, §4.7).

use super::status::Status;
use codec::Unencodable;
use conversion::ConversionError;
use etcd::EtcdError;
use storage::read::{
    failure::ReadError,
    plan::{Refusal, retry_after},
};

impl From<ReadError> for Status {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Refused(refusal) => refusal.into(),
            ReadError::NotReady(pending) => Self::too_many_requests("storage is (re)initializing", retry_after(pending).into()),
            ReadError::NotConverted(_) => Self::too_many_requests(error.to_string(), 1),
            ReadError::Conversion(ConversionError::Failed(why)) => Self::internal(why),
            ReadError::Conversion(why @ ConversionError::Busy(_)) => Self::too_many_requests(why.to_string(), 1),
            ReadError::NoRoom(why) => Self::too_many_requests(why.to_string(), 1),
            ReadError::TooLarge { asked, current, retry_after } => Self::too_large_revision(asked.0, current.0, retry_after),
            // Whoever knows the resource says which one it is.
            ReadError::NotFound { name } => Self::not_found("", "", &name),
            ReadError::ListExpired => Self::list_expired(),
            ReadError::ContinueExpired(token) => Self::continue_expired(Some(token)),
            ReadError::WatchExpired { asked, floor } => Self::watch_expired(asked.0, floor.0),
            ReadError::InStream(message) => Self::internal_bare(message),
            ReadError::Undecodable { .. } | ReadError::Gone(_) => Self::internal(error.to_string()),
            ReadError::Etcd(error) => error.into(),
            ReadError::OutOfReach(_) => Self { elsewhere: true, ..Self::unavailable(error.to_string(), 1) },
        }
    }
}

impl From<EtcdError> for Status {
    fn from(error: EtcdError) -> Self {
        Self::internal(error.to_string())
    }
}

impl From<Unencodable> for Status {
    fn from(why: Unencodable) -> Self {
        Self::internal(why.to_string())
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::BadRequest(message) => Self::bad_request(message),
            Refusal::Internal(message) => Self::internal(message),
            Refusal::TooManyRequests => Self::too_many_requests("storage is (re)initializing", 1),
            Refusal::Invalid(errors) => Self::invalid("ListOptions", "meta.k8s.io", "", &errors),
        }
    }
}

/// A client whose heads have no room may come back so soon, seconds.
const HEADS_RETRY_AFTER: u32 = 1;

impl From<server::heads::Full> for Status {
    fn from(full: server::heads::Full) -> Self {
        Self::too_many_requests(full.to_string(), HEADS_RETRY_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::dispatch::filters::NoRoom;

    #[test]
    fn too_many_selectors_are_too_many_requests() {
        let status = Status::from(ReadError::from(NoRoom));
        assert_eq!((status.code, status.retry_after()), (429, Some(1)));
        assert_eq!(status.message, "too many different selectors are watched, please try again later");
    }
}
