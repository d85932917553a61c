//! The streams that have ended last: what a client sent before it knew that we ended one is no fault of its (RFC 9113 §5.1).

use std::collections::VecDeque;

/// How many of those that we have ended are remembered: what is on its way to us then is a round trip of frames.
const OURS_MAX: usize = 256;

/// How many others are remembered.
const OTHERS_MAX: usize = 16;

/// Who ended a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// We, while the client might still send.
    Us,
    /// The client, or both.
    Client,
}

/// A few streams of each kind, the oldest ones first.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    ours: VecDeque<u32>,
    others: VecDeque<u32>,
}

impl Recent {
    /// One more; it takes the place of the oldest one of its kind.
    pub(crate) fn add(&mut self, stream: u32, by: By) {
        let (streams, most) = match by {
            By::Us => (&mut self.ours, OURS_MAX),
            By::Client => (&mut self.others, OTHERS_MAX),
        };
        if streams.len() == most {
            streams.pop_front();
        }
        streams.push_back(stream);
    }

    /// Who ended it; `None`: it is not among them.
    pub(crate) fn ended_by(&self, stream: u32) -> Option<By> {
        if self.ours.contains(&stream) {
            return Some(By::Us);
        }
        self.others.contains(&stream).then_some(By::Client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered() {
        let mut recent = Recent::default();
        recent.add(1, By::Us);
        (3..100).for_each(|stream| recent.add(stream, By::Client));
        assert_eq!([1, 83, 84, 99].map(|stream| recent.ended_by(stream)), [Some(By::Us), None, Some(By::Client), Some(By::Client)]);
        (100..356).for_each(|stream| recent.add(stream, By::Us));
        assert_eq!([1, 100].map(|stream| recent.ended_by(stream)), [None, Some(By::Us)]);
    }
}
