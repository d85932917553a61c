//! What can go wrong with etcd, named by what the caller may do about it. Knows gRPC codes and etcd's error texts, no `Status` of Kubernetes.

use std::error::Error as _;

use tonic::{Code, Status};

/// etcd's text for a read or a watch below the compacted revision (`api/v3rpc/rpctypes/error.go`, `ErrGRPCCompacted`).
const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
/// etcd's text for a read above its newest revision (`ErrGRPCFutureRev`).
const FUTURE: &str = "etcdserver: mvcc: required revision is a future revision";
/// etcd's text when credentials do not fit; gRPC code InvalidArgument (`ErrGRPCAuthFailed`).
const AUTH_FAILED: &str = "etcdserver: authentication failed, invalid user ID or password";
/// etcd's text when it wants a user and we have none; gRPC code InvalidArgument (`ErrGRPCUserEmpty`).
const USER_EMPTY: &str = "etcdserver: user name is empty";
/// etcd's text when we have a user and it wants none; gRPC code FailedPrecondition (`ErrGRPCAuthNotEnabled`).
const AUTH_NOT_ENABLED: &str = "etcdserver: authentication is not enabled";
/// What gRPC says of a message that is too large: Go's to whoever sends it, tonic's to whoever sends or reads it.
const TOO_LARGE: [&str; 2] = ["message larger than max", "message length too large"];
/// How etcd's own error texts begin; etcd's Go client shows these bare and every other one with its gRPC code.
const ETCD_PREFIX: &str = "etcdserver: ";

/// Why etcd did not answer, or not as asked. The text is what a client of a kube-apiserver would see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// The revision asked for is compacted: read at a newer one, or load again. Repeating is useless.
    #[error("{COMPACTED}")]
    Compacted,
    /// The revision asked for is newer than etcd's newest: whoever named it is ahead, or etcd went back to a backup.
    #[error("{FUTURE}")]
    Future,
    /// No endpoint could serve (not reachable, no leader, leader change, shutting down): try again later. Every endpoint was
    /// tried once for a unary call; for a stream, the next one opens elsewhere.
    #[error("{0}")]
    Unavailable(String),
    /// No answer in time (`REQUEST_TIMEOUT`, or etcd's own deadline): try again; for `compact` it may have happened.
    #[error("context deadline exceeded")]
    Deadline,
    /// etcd refuses our user, password, token or certificate: a human must look.
    #[error("{0}")]
    Unauthenticated(String),
    /// The answer has more bytes than gRPC brings: ask for less. Repeating is useless.
    #[error("{0}")]
    TooLarge(String),
    /// Anything else, among it answers that break the protocol: not expected, log it.
    #[error("{0}")]
    Other(String),
}

impl EtcdError {
    /// From what the gRPC client says.
    pub(super) fn from_status(status: &Status) -> Self {
        let cause = status.source().map(deepest);
        classify(status.code(), status.message(), cause.as_deref())
    }

    /// The request side of a watch stream is closed: the stream is gone.
    pub(super) fn closed() -> Self {
        Self::Unavailable(unavailable("channel closed"))
    }

    /// True for the errors that speak about the endpoint and not about the request: another endpoint may do better.
    pub(super) fn blames_endpoint(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl EtcdError {
    /// True when the call cannot have reached etcd: nobody listened, or we knew that before asking. False when in doubt.
    pub(super) fn was_not_sent(&self) -> bool {
        matches!(self, Self::Unavailable(text) if text.contains("Connection refused") || text.contains("dns error"))
    }
}

/// One status to one error. `cause` is there when the error was made on our side of the wire (connection refused, reset, timed out).
fn classify(status: Code, message: &str, cause: Option<&str>) -> EtcdError {
    match (status, message) {
        (Code::OutOfRange, COMPACTED) => EtcdError::Compacted,
        (Code::OutOfRange, FUTURE) => EtcdError::Future,
        (Code::Unavailable, _) => EtcdError::Unavailable(unavailable(&with_cause(message, cause))),
        // We drop a call that we no longer want, so a cancellation that reaches us was made by the peer or by a dying connection.
        (Code::Cancelled, _) => EtcdError::Unavailable(unavailable(&with_cause(message, cause))),
        (Code::Unknown | Code::Internal, _) if cause.is_some() => EtcdError::Unavailable(unavailable(&with_cause(message, cause))),
        (Code::DeadlineExceeded, _) => EtcdError::Deadline,
        (Code::Unauthenticated | Code::PermissionDenied, _)
        | (Code::InvalidArgument, AUTH_FAILED | USER_EMPTY)
        | (Code::FailedPrecondition, AUTH_NOT_ENABLED) => EtcdError::Unauthenticated(message.to_owned()),
        (Code::OutOfRange | Code::ResourceExhausted, _) if TOO_LARGE.iter().any(|text| message.contains(text)) => {
            EtcdError::TooLarge(message.to_owned())
        }
        _ => EtcdError::Other(with_cause(message, cause)),
    }
}

/// etcd's own texts bare, others as Go's gRPC prints them, which is what a kube-apiserver passes on.
fn unavailable(text: &str) -> String {
    if text.starts_with(ETCD_PREFIX) { text.to_owned() } else { format!("rpc error: code = Unavailable desc = {text}") }
}

fn with_cause(message: &str, cause: Option<&str>) -> String {
    match cause {
        Some(cause) if message.is_empty() => cause.to_owned(),
        Some(cause) if !message.contains(cause) => format!("{message}: {cause}"),
        _ => message.to_owned(),
    }
}

/// The innermost text of a chain of errors: "Connection refused" rather than "transport error".
pub(super) fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: Code, message: &str, cause: Option<&str>, want: &EtcdError) {
        assert_eq!(&classify(status, message, cause), want, "{status:?} {message} {cause:?}");
    }

    #[test]
    fn statuses_become_what_the_caller_may_do() {
        check(Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", None, &EtcdError::Compacted);
        check(Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision", None, &EtcdError::Future);
        check(Code::DeadlineExceeded, "context deadline exceeded", None, &EtcdError::Deadline);
        check(Code::Unavailable, "etcdserver: no leader", None, &EtcdError::Unavailable("etcdserver: no leader".into()));
        check(Code::Unavailable, "etcdserver: request timed out", None, &EtcdError::Unavailable("etcdserver: request timed out".into()));
        check(
            Code::Unauthenticated,
            "etcdserver: invalid auth token",
            None,
            &EtcdError::Unauthenticated("etcdserver: invalid auth token".into()),
        );
        check(
            Code::PermissionDenied,
            "etcdserver: permission denied",
            None,
            &EtcdError::Unauthenticated("etcdserver: permission denied".into()),
        );
        check(
            Code::InvalidArgument,
            "etcdserver: user name is empty",
            None,
            &EtcdError::Unauthenticated("etcdserver: user name is empty".into()),
        );
        check(Code::InvalidArgument, "etcdserver: key is not provided", None, &EtcdError::Other("etcdserver: key is not provided".into()));
        check(Code::ResourceExhausted, "etcdserver: too many requests", None, &EtcdError::Other("etcdserver: too many requests".into()));
    }

    #[test]
    fn a_dead_connection_is_unavailable_whatever_its_code() {
        let refused = "rpc error: code = Unavailable desc = tcp connect error: Connection refused";
        check(Code::Unavailable, "tcp connect error", Some("Connection refused"), &EtcdError::Unavailable(refused.into()));
        for status in [Code::Cancelled, Code::Unknown, Code::Internal] {
            let want = "rpc error: code = Unavailable desc = h2 protocol error: broken pipe";
            check(status, "h2 protocol error", Some("broken pipe"), &EtcdError::Unavailable(want.into()));
        }
    }

    /// tonic answers OutOfRange too when a message is over our own decode limit: that is no compaction.
    #[test]
    fn out_of_range_alone_is_not_compacted() {
        let text = "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes";
        check(Code::OutOfRange, text, None, &EtcdError::TooLarge(text.into()));
        check(Code::OutOfRange, "of range", None, &EtcdError::Other("of range".into()));
        let text = "grpc: trying to send message larger than max (3000000000 vs. 2147483647)";
        check(Code::ResourceExhausted, text, None, &EtcdError::TooLarge(text.into()));
    }

    #[test]
    fn unknown_without_a_dead_connection_is_the_peers_word() {
        check(Code::Unknown, "etcdserver: something new", None, &EtcdError::Other("etcdserver: something new".into()));
    }

    #[test]
    fn texts_are_those_of_etcds_go_client() {
        assert_eq!(EtcdError::Compacted.to_string(), "etcdserver: mvcc: required revision has been compacted");
        assert_eq!(EtcdError::Future.to_string(), "etcdserver: mvcc: required revision is a future revision");
        assert_eq!(EtcdError::Deadline.to_string(), "context deadline exceeded");
    }
}
