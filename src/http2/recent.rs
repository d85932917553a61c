//! The streams that have ended last: what a client sent before it knew that we ended one is no fault of its (RFC 9113 §5.1).

use std::collections::VecDeque;

/// How many are remembered.
const STREAMS_MAX: usize = 32;

/// Who ended a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// We, while the client might still send.
    Us,
    /// The client, or both.
    Client,
}

/// A few streams, the oldest one first.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<(u32, By)>);

impl Recent {
    /// One more; it takes the place of the oldest one.
    pub(crate) fn add(&mut self, stream: u32, by: By) {
        if self.0.len() == STREAMS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((stream, by));
    }

    /// Who ended it; `None`: it is not among them.
    pub(crate) fn ended_by(&self, stream: u32) -> Option<By> {
        self.0.iter().rev().find(|(recent, _)| *recent == stream).map(|(_, by)| *by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered() {
        let mut recent = Recent::default();
        (0..100).for_each(|stream| recent.add(stream, if stream % 2 == 0 { By::Us } else { By::Client }));
        assert_eq!([67, 68, 99].map(|stream| recent.ended_by(stream)), [None, Some(By::Us), Some(By::Client)]);
    }
}
