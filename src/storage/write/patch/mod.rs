//! The patch types as functions from tree to tree (spec api-surface §7). Know no object and no etcd.

pub(super) mod json;
pub(super) mod merge;
pub(crate) mod printed;
pub(super) mod strategic;

/// Why a patch cannot be applied (spec api-surface §7.2). The texts are those of kube-apiserver; which HTTP answer they become is for `http/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatchError {
    /// 400 BadRequest with this message.
    BadRequest(String),
    /// 422 Invalid, `the server rejected our request due to an error in our request`, details `{}`.
    Unapplicable,
    /// 500 without a reason, with this message.
    Internal(String),
    /// 413 RequestEntityTooLarge; the tail of `Request entity too large: `.
    TooLarge(String),
}
