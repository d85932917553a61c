//! Limits the HTTP/2 frames that a client sends besides requests and bodies.
//!
//! Each SETTINGS or PING makes the server answer (7 us for 9 to 17 bytes), so a client that sends nothing else takes a core and is never refused by h2. A
//! bucket of tokens bounds them: what a client has reason to send follows its requests and the bytes that it reads, and these fill the bucket. The pings
//! of a WebSocket ([`super::websocket`]) take from such a bucket, too, which only time fills.

use std::time::Duration;

use http2::PREFACE;

/// Bytes of a frame's head.
const HEAD: usize = 9;

/// Frames of a block of headers, and the flag of the last one.
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

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
pub(super) struct Tokens {
    left: i32,
    /// The age of the connection when tokens were last given for time.
    paid_until: Duration,
}

impl Tokens {
    /// A new connection's.
    pub(super) fn new() -> Self {
        Self { left: START, paid_until: Duration::ZERO }
    }

    /// A frame came that takes one.
    pub(super) fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Whether there were enough. `age`, asked when there is nothing left, is that of the connection.
    pub(super) fn suffice(&mut self, age: impl FnOnce() -> Duration) -> bool {
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
#[derive(Debug)]
pub(super) struct Frames {
    state: State,
    tokens: Tokens,
    /// Bytes written that have not made a token yet.
    unpaid: usize,
    /// Bytes of a block of headers that has not come whole.
    unfinished: usize,
}

/// Where in the stream of bytes the next one stands.
#[derive(Clone, Copy, Debug)]
enum State {
    /// So many bytes of the preface have come.
    Preface(usize),
    /// It is not HTTP/2.
    Other,
    /// In a head, of which so many bytes have come.
    Head([u8; HEAD], usize),
    /// In a payload, of which so many bytes are still to come.
    Payload(usize),
}

impl Frames {
    /// A new connection's.
    pub(super) fn new() -> Self {
        Self { state: State::Preface(0), tokens: Tokens::new(), unpaid: 0, unfinished: 0 }
    }

    /// Whether the whole preface came.
    pub(super) fn is_http2(&self) -> bool {
        matches!(self.state, State::Head(..) | State::Payload(_))
    }

    /// Bytes of a block of headers that has not come whole, with those of its last frame.
    pub(super) fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// Takes what was read. `age`, asked when there is nothing left, is that of the connection. False when there are too many frames.
    pub(super) fn read(&mut self, mut bytes: &[u8], age: impl FnOnce() -> Duration) -> bool {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Other => return true,
                State::Preface(seen) => {
                    let len = bytes.len().min(PREFACE.len() - *seen);
                    if bytes[..len] != PREFACE[*seen..*seen + len] {
                        self.state = State::Other;
                        return true;
                    }
                    *seen += len;
                    bytes = &bytes[len..];
                    if *seen == PREFACE.len() {
                        self.state = State::Head([0; HEAD], 0);
                    }
                }
                State::Head(head, seen) => {
                    let len = bytes.len().min(HEAD - *seen);
                    head[*seen..*seen + len].copy_from_slice(&bytes[..len]);
                    *seen += len;
                    bytes = &bytes[len..];
                    if *seen == HEAD {
                        let head = *head;
                        self.count(head);
                    }
                }
                State::Payload(left) => {
                    let len = bytes.len().min(*left);
                    *left -= len;
                    bytes = &bytes[len..];
                    if *left == 0 {
                        self.state = State::Head([0; HEAD], 0);
                    }
                }
            }
        }
        self.tokens.suffice(age)
    }

    /// So many bytes were written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.unpaid += bytes;
        if self.unpaid >= BYTES_OF_TOKEN {
            self.tokens.add(i32::try_from(self.unpaid / BYTES_OF_TOKEN).unwrap_or(TOKENS_MAX));
            self.unpaid %= BYTES_OF_TOKEN;
        }
    }

    /// A frame with this head came.
    fn count(&mut self, head: [u8; HEAD]) {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        if matches!(head[3], HEADERS | CONTINUATION) {
            let is_whole = head[4] & END_HEADERS != 0;
            self.unfinished = if is_whole { 0 } else { self.unfinished + length };
        }
        match head[3] {
            // DATA: that which has some is bounded by its windows, and what comes in small pieces is put together.
            0 if length > 0 => {}
            HEADERS => self.tokens.add(OF_REQUEST),
            _ => self.tokens.spend(),
        }
        self.state = if length == 0 { State::Head([0; HEAD], 0) } else { State::Payload(length) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: u8 = 4;
    const WINDOW_UPDATE: u8 = 8;
    const RST_STREAM: u8 = 3;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![0; HEAD + length];
        frame[..4].copy_from_slice(&[(length >> 16) as u8, (length >> 8) as u8, length as u8, kind]);
        frame
    }

    fn open() -> Frames {
        let mut frames = Frames::new();
        assert!(frames.read(PREFACE, || Duration::ZERO) && frames.is_http2());
        frames
    }

    #[test]
    fn a_flood_is_noticed_soon() {
        let mut frames = open();
        let flood = frame(SETTINGS, 0).repeat(100);
        let taken = (0..100).take_while(|_| frames.read(&flood, || Duration::from_secs(1))).count();
        assert!((2..=4).contains(&taken), "{taken} hundred");
    }

    #[test]
    fn time_gives_tokens_back_and_no_more_than_are_saved() {
        let mut frames = open();
        for second in 1..1_000 {
            assert!(frames.read(&frame(SETTINGS, 6).repeat(90), || Duration::from_secs(second)), "after {second} s");
        }
        let mut frames = open();
        let later = Duration::from_secs(86_400);
        assert!(frames.read(&frame(SETTINGS, 0).repeat(1_000), || later));
        assert!(!frames.read(&frame(SETTINGS, 0).repeat(1_000), || later));
    }

    #[test]
    fn cancelled_requests_and_window_updates_have_a_reason() {
        let mut frames = open();
        let request = [frame(1, 60), frame(WINDOW_UPDATE, 4), frame(WINDOW_UPDATE, 4), frame(RST_STREAM, 4)].concat();
        assert!((0..100_000).all(|_| frames.read(&request, || Duration::ZERO)));
        // 64 MiB read by a client that is a window of 4 MiB behind.
        let mut frames = open();
        frames.wrote(4 << 20);
        let updates = frame(WINDOW_UPDATE, 4).repeat(2);
        for _ in 0..(64 << 20) / 4_096 {
            frames.wrote(4_096);
            assert!(frames.read(&updates, || Duration::ZERO));
        }
        assert!((0..1_024).all(|_| frames.read(&updates, || Duration::ZERO)), "the rest of its window");
    }

    #[test]
    fn a_block_of_headers_is_unfinished_until_its_last_frame() {
        let with = |kind: u8, flags: u8| {
            let mut frame = frame(kind, 100);
            frame[4] = flags;
            frame
        };
        let mut frames = open();
        for (kind, flags, unfinished) in
            [(HEADERS, 0, 100), (CONTINUATION, 0, 200), (CONTINUATION, END_HEADERS, 0), (HEADERS, END_HEADERS | 1, 0), (0, 0, 0)]
        {
            assert!(frames.read(&with(kind, flags), || Duration::ZERO));
            assert_eq!(frames.unfinished(), unfinished);
        }
    }

    #[test]
    fn what_is_not_http2_is_left_alone() {
        let mut frames = Frames::new();
        assert!(frames.read(b"PRI * HTTP/1.1\r\n\r\n", || Duration::ZERO) && !frames.is_http2());
        assert!(frames.read(&frame(SETTINGS, 0).repeat(100_000), || Duration::ZERO) && !frames.is_http2());
    }

    proptest! {
        /// The same frames come to the same tokens, however they are cut.
        #[test]
        fn pieces_do_not_matter(kinds in proptest::collection::vec((0u8..12, 0usize..40), 0..60), size in 1usize..50) {
            let mut stream = PREFACE.to_vec();
            kinds.iter().for_each(|(kind, length)| stream.extend(frame(*kind, *length)));
            let (mut whole, mut cut) = (Frames::new(), Frames::new());
            prop_assert!(whole.read(&stream, || Duration::ZERO));
            prop_assert!(stream.chunks(size).all(|piece| cut.read(piece, || Duration::ZERO)));
            let free = kinds.iter().filter(|(kind, length)| *kind == 0 && *length > 0).count() as i32;
            let requests = kinds.iter().filter(|(kind, _)| *kind == 1).count() as i32;
            let tokens = START + requests * OF_REQUEST - (kinds.len() as i32 - free - requests);
            prop_assert_eq!((whole.tokens.left, cut.tokens.left), (tokens, tokens));
            prop_assert!(whole.is_http2() && cut.is_http2());
        }
    }
}
