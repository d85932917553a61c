//! The patch types as functions from tree to tree (spec api-surface §7). Know no object and no etcd.

mod json;
mod merge;
mod strategic;

/// Why a patch gave no object (spec api-surface §7.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatchError {
    /// 400 with this message.
    BadRequest(String),
    /// 422 without words of its own: the patch does not fit the object.
    Unapplicable,
    /// 500 with this message.
    Internal(String),
    /// 413 with this message.
    TooLarge(String),
}
