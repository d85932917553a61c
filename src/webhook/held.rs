//! What the answers of all webhooks may take together, from their first byte until objects are made of them.

use std::sync::{Arc, LazyLock};

use fair::{Leaves, Share, Shares};

/// Bytes of all answers that are read or made objects of, as text: as trees they may take some fifteen times as much. Each owner gets a part of what is left
/// for the others.
const ALL_BYTES_MAX: usize = 24 << 20;

/// Bytes of all questions that wait for an answer. What they are made of is held as well: some ten times as much as trees.
const QUESTIONS_BYTES_MAX: usize = 32 << 20;

static ALL: LazyLock<Arc<Shares>> = LazyLock::new(|| Shares::new(ALL_BYTES_MAX));
static QUESTIONS: LazyLock<Arc<Shares>> = LazyLock::new(|| Shares::new(QUESTIONS_BYTES_MAX));

/// What a question and its answer take of all; given back when this is dropped.
#[derive(Debug, Default)]
pub struct Held(Vec<Share>);

impl Held {
    /// Takes so many bytes more of an answer for an owner, if there is room for them: a definition, or the user of a write.
    pub fn take(&mut self, owner: &str, bytes: usize) -> bool {
        self.add(ALL.take(owner, bytes, Leaves::Nothing))
    }

    /// Takes the bytes of a question for an owner, if there is room for them.
    pub fn take_question(&mut self, owner: &str, bytes: usize) -> bool {
        self.add(QUESTIONS.take(owner, bytes, Leaves::Nothing))
    }

    fn add(&mut self, share: Option<Share>) -> bool {
        let is_taken = share.is_some();
        self.0.extend(share);
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_leaves_room_for_others() {
        let (mut one, mut other) = (Held::default(), Held::default());
        let mut taken = 0;
        while one.take("one-of-the-test", 1 << 20) {
            taken += 1;
        }
        assert!((16..24).contains(&taken), "{taken}");
        assert!(other.take("other-of-the-test", 1 << 20));
        drop(one);
        assert!((0..8).all(|_| other.take("other-of-the-test", 1 << 20)));
    }
}
