//! What the answers of all conversion webhooks may take together, from their first byte until objects are made of them.

use std::sync::{Arc, LazyLock};

use fair::{Leaves, Share, Shares};

/// Bytes of all answers that are read or made objects of, as text: as trees they may take some fifteen times as much. Of one definition a part of what is left for
/// the others.
const ALL_BYTES_MAX: usize = 24 << 20;
/// Bytes that the objects of a batch may have grown to, whatever they were before.
const GROWN_BYTES: usize = 16 << 20;
/// How many times as large as they are stored the objects of a batch may be beyond that.
const GROWN_TIMES: usize = 8;

static ALL: LazyLock<Arc<Shares>> = LazyLock::new(|| Shares::new(ALL_BYTES_MAX));

/// What one answer takes of all; given back when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<Share>);

impl Held {
    /// Takes so many bytes more for a definition, if there is room for them.
    pub(crate) fn take(&mut self, definition: &str, bytes: usize) -> bool {
        let share = ALL.take(definition, bytes, Leaves::Nothing);
        let is_taken = share.is_some();
        self.0.extend(share);
        is_taken
    }
}

/// Whether objects of so many stored bytes may have grown to so many.
pub(crate) fn may_grow(stored: usize, made: usize) -> bool {
    made <= stored.saturating_mul(GROWN_TIMES).saturating_add(GROWN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_definition_leaves_room_for_others() {
        let (mut one, mut other) = (Held::default(), Held::default());
        let mut taken = 0;
        while one.take("one-of-the-test", 1 << 20) {
            taken += 1;
        }
        assert!((16..24).contains(&taken), "{taken}");
        assert!(other.take("other-of-the-test", 1 << 20));
        drop(one);
        assert!((0..8).all(|_| other.take("other-of-the-test", 1 << 20)));
        assert!(may_grow(0, GROWN_BYTES) && !may_grow(1, GROWN_BYTES + GROWN_TIMES + 1));
    }
}
