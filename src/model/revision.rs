//! Revisions of etcd, and epochs, which count how often a replica was reset.

use std::fmt;

/// A revision of an etcd cluster: one number for the whole key space, what Kubernetes shows as `resourceVersion`.
///
/// `0` means "none yet"; it is never a revision of an object (spec list-watch §0.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Before every revision.
    pub const ZERO: Self = Self(0);

    /// The revision after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The revision before this one; before zero is zero.
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// From etcd's signed number. etcd never sends a negative one; a broken peer's is read as zero.
    #[must_use]
    pub fn from_etcd(revision: i64) -> Self {
        Self(u64::try_from(revision).unwrap_or(0))
    }

    /// As etcd wants it. Saturates: no real revision is near the limit.
    #[must_use]
    pub fn to_etcd(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Counts the lives of one resource's replica: every reset starts a new one, and no watch crosses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
