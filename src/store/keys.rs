//! Key ranges as etcd writes them.

use std::ops::Bound;

/// `[start, end)`; what an `etcdserverpb` key and `range_end` mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRange {
    start: Vec<u8>,
    end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// Only the start.
    One,
    Before(Vec<u8>),
    /// Every key from the start on: a `range_end` of one zero byte.
    Open,
}

impl KeyRange {
    pub(super) fn new(key: &[u8], range_end: &[u8]) -> Self {
        let end = match range_end {
            [] => End::One,
            [0] => End::Open,
            end => End::Before(end.to_vec()),
        };
        Self { start: key.to_vec(), end }
    }

    /// `range_end` as the bytes they are: how etcd looks for overlaps within a transaction, where "\0" is no open end.
    pub(super) fn literal(key: &[u8], range_end: &[u8]) -> Self {
        let end = if range_end.is_empty() { End::One } else { End::Before(range_end.to_vec()) };
        Self { start: key.to_vec(), end }
    }

    /// The key, when it is only one.
    pub(super) fn one(&self) -> Option<&[u8]> {
        (self.end == End::One).then_some(&self.start[..])
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && self.ends_after(key)
    }

    /// True when no key can be in it.
    pub(super) fn is_empty(&self) -> bool {
        matches!(&self.end, End::Before(end) if *end <= self.start)
    }

    /// Bytes of both ends.
    pub(super) fn bytes(&self) -> usize {
        let end = if let End::Before(end) = &self.end { end.len() } else { 0 };
        self.start.len() + end
    }

    pub(super) fn start(&self) -> &[u8] {
        &self.start
    }

    /// True when a key at or after the start is before the end.
    pub(super) fn ends_after(&self, key: &[u8]) -> bool {
        match &self.end {
            End::One => key == &self.start[..],
            End::Before(end) => key < &end[..],
            End::Open => true,
        }
    }

    /// For an ordered map. The start must not be after the end.
    pub(super) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let end = match &self.end {
            End::One => Bound::Included(&self.start[..]),
            End::Before(end) => Bound::Excluded(&end[..]),
            End::Open => Bound::Unbounded,
        };
        (Bound::Included(&self.start[..]), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_mean_what_etcd_means() {
        assert!(KeyRange::new(b"a", b"").contains(b"a") && !KeyRange::new(b"a", b"").contains(b"aa"));
        assert!(KeyRange::new(b"a", b"c").contains(b"bz") && !KeyRange::new(b"a", b"c").contains(b"c"));
        assert!(KeyRange::new(b"b", b"\0").contains(b"zzz") && !KeyRange::new(b"b", b"\0").contains(b"a"));
        assert!(KeyRange::new(b"b", b"a").is_empty() && KeyRange::new(b"b", b"b").is_empty());
        assert!(!KeyRange::literal(b"b", b"\0").contains(b"c"));
    }
}
