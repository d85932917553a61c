//! How far objects may grow when a webhook converts them.

/// Bytes that the objects of a batch may have grown to, whatever they were before.
const GROWN_BYTES: usize = 16 << 20;
/// How many times as large as they are stored the objects of a batch may be beyond that.
const GROWN_TIMES: usize = 8;

/// Whether objects of so many stored bytes may have grown to so many.
pub(crate) fn may_grow(stored: usize, made: usize) -> bool {
    made <= stored.saturating_mul(GROWN_TIMES).saturating_add(GROWN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_has_a_limit() {
        assert!(may_grow(0, GROWN_BYTES) && !may_grow(1, GROWN_BYTES + GROWN_TIMES + 1));
    }
}
