//! Limits the frames that a client sends besides requests and bodies.
//!
//! Each SETTINGS or PING makes the server answer (7 us for 9 to 17 bytes), so a client that sends nothing else takes a core. A bucket of tokens bounds them:
//! what a client has reason to send follows its requests and the bytes that it reads, and these fill the bucket. The pings of a WebSocket take from such a
//! bucket, too, which only time fills.

use std::time::Duration;

use crate::{
    Fault,
    frame::{Head, kind},
};

/// Tokens at the beginning: clients open with three or four frames of HTTP/2, and with no ping of a WebSocket.
const START: i32 = 250;

/// Tokens a second that need no reason, and how many of them are saved: clients ping every 30 s, few of them several times a second. All of it is less than
/// a thousandth of a core.
const RATE: u128 = 100;
const SAVED_MAX: u128 = 1_000;

/// Tokens that a request brings: it may be cancelled (RST_STREAM), have two WINDOW_UPDATEs of its own and an empty DATA frame at its end.
const OF_REQUEST: i32 = 4;

/// Bytes written that bring a token. A client updates two windows: Go's for each 4 KiB it has read, the simplest ones for each DATA frame, and the
/// smallest frames that come in numbers are events of half a KiB.
const BYTES_OF_TOKEN: usize = 256;

/// Tokens there may be at all: a client whose window is 4 MiB (Go's) is that far behind with its updates, and these are 2,048. Spent at once on the dearest
/// frames they cost a tenth of a second.
const TOKENS_MAX: i32 = 16_384;

/// What a client may still make the server answer.
#[derive(Debug)]
pub struct Tokens {
    left: i32,
    /// The age of the connection when tokens were last given for time.
    paid_until: Duration,
}

impl Default for Tokens {
    /// A new connection's.
    fn default() -> Self {
        Self { left: START, paid_until: Duration::ZERO }
    }
}

impl Tokens {
    /// Takes one, for a frame that came.
    pub fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Returns whether there were enough. `age`, asked when there is nothing left, is that of the connection.
    pub fn suffice(&mut self, age: impl FnOnce() -> Duration) -> bool {
        if self.left < 0 {
            let age = age();
            let earned = age.saturating_sub(self.paid_until).as_millis() * RATE / 1_000;
            if earned > 0 {
                self.paid_until = age;
                self.left += i32::try_from(earned.min(SAVED_MAX)).expect("no more than are saved");
            }
        }
        self.left >= 0
    }

    fn add(&mut self, tokens: i32) {
        self.left = self.left.saturating_add(tokens).min(TOKENS_MAX);
    }
}

/// The frames of one connection.
#[derive(Debug, Default)]
pub(crate) struct Flood {
    tokens: Tokens,
    /// Bytes written that have not made a token yet.
    unpaid: usize,
}

impl Flood {
    /// Counts a frame with a payload of so many bytes, on a connection of this age.
    ///
    /// # Errors
    /// There were too many.
    pub(crate) fn count(&mut self, head: Head, length: usize, age: Duration) -> Result<(), Fault> {
        match head.kind {
            // That which has some is bounded by its windows, and what comes in small pieces is put together.
            kind::DATA if length > 0 => {}
            kind::HEADERS => self.tokens.add(OF_REQUEST),
            _ => self.tokens.spend(),
        }
        if self.tokens.suffice(|| age) { Ok(()) } else { Err(Fault::FLOOD) }
    }

    /// So many bytes were written.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.unpaid += bytes;
        if self.unpaid >= BYTES_OF_TOKEN {
            self.tokens.add(i32::try_from(self.unpaid / BYTES_OF_TOKEN).unwrap_or(TOKENS_MAX));
            self.unpaid %= BYTES_OF_TOKEN;
        }
    }

    /// What is left, for tests.
    #[cfg(test)]
    pub(crate) fn left(&self) -> i32 {
        self.tokens.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these frames, in turn, are taken, up to so many.
    fn taken(flood: &mut Flood, kinds: &[u8], times: usize, age: Duration) -> usize {
        let frames = kinds.iter().cycle().take(kinds.len() * times);
        frames.take_while(|kind| flood.count(Head { kind: **kind, flags: 0, stream: 1 }, 4, age).is_ok()).count()
    }

    #[test]
    fn a_flood_is_noticed_soon() {
        let taken = taken(&mut Flood::default(), &[kind::SETTINGS], 10_000, Duration::from_secs(1));
        assert!((200..400).contains(&taken), "{taken}");
    }

    #[test]
    fn time_gives_tokens_back_and_no_more_than_are_saved() {
        let mut flood = Flood::default();
        for second in 1..1_000 {
            assert_eq!(taken(&mut flood, &[kind::SETTINGS], 90, Duration::from_secs(second)), 90, "after {second} s");
        }
        let (mut flood, later) = (Flood::default(), Duration::from_secs(86_400));
        let taken = taken(&mut flood, &[kind::SETTINGS], 10_000, later);
        assert!((1_000..=1_250).contains(&taken), "{taken}");
    }

    #[test]
    fn cancelled_requests_and_window_updates_have_a_reason() {
        let request = [kind::HEADERS, kind::WINDOW_UPDATE, kind::WINDOW_UPDATE, kind::RST_STREAM];
        assert_eq!(taken(&mut Flood::default(), &request, 100_000, Duration::ZERO), 400_000);
        // 64 MiB read by a client that is a window of 4 MiB behind.
        let mut flood = Flood::default();
        flood.wrote(4 << 20);
        for _ in 0..(64 << 20) / 4_096 {
            flood.wrote(4_096);
            assert_eq!(taken(&mut flood, &[kind::WINDOW_UPDATE], 2, Duration::ZERO), 2);
        }
        assert_eq!(taken(&mut flood, &[kind::WINDOW_UPDATE], 2_048, Duration::ZERO), 2_048, "the rest of its window");
    }

    #[test]
    fn data_is_free_unless_it_has_none() {
        let (mut flood, data) = (Flood::default(), Head { kind: kind::DATA, flags: 0, stream: 1 });
        assert!((0..10_000).all(|_| flood.count(data, 1, Duration::ZERO).is_ok()));
        assert!((0..10_000).any(|_| flood.count(data, 0, Duration::ZERO).is_err()));
    }
}
