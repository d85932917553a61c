//! Frames of RFC 6455 as a server of a one-way stream needs them: what goes out gets a head, what comes in is only counted.

use bytes::Bytes;

const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
/// The first bit of a frame's first byte: no other frame continues this one.
const WHOLE: u8 = 0x80;
/// The first bit of the second byte.
const MASKED: u8 = 0x80;

/// Bytes of a ping that its answer has: the most that a control frame may have; what is beyond is dropped, as kube-apiserver does.
const CONTROL_BYTES_MAX: usize = 125;

/// The largest frame of data that a client may send, bytes. It is read and forgotten piece by piece; a larger one ends the watch, as in kube-apiserver
/// (`DefaultMaxPayloadBytes` of golang.org/x/net/websocket).
const DATA_BYTES_MAX: u64 = 32 << 20;

/// The longest head: two bytes, eight of length, four of mask.
const HEAD_BYTES_MAX: usize = 14;

/// Close code of an end that was to come.
pub(super) const NORMAL: u16 = 1000;

/// Close code for a client that breaks the protocol.
pub(super) const PROTOCOL_ERROR: u16 = 1002;

/// Close code for a client that does what it may, and too much of it.
pub(super) const POLICY_VIOLATION: u16 = 1008;

/// How an event goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A text frame with the event's bytes, newline and all.
    Text,
    /// A binary frame with the event's bytes but the first ones: a length, say, which the frame has besides.
    Binary {
        /// Bytes that are left out.
        without: usize,
    },
}

impl Payload {
    /// The head and the payload of the frame that carries this event.
    pub(super) fn frame(self, event: &Bytes) -> [Bytes; 2] {
        match self {
            Self::Text => [head(0x1, event.len()), event.clone()],
            Self::Binary { without } => {
                let message = event.slice(without.min(event.len())..);
                [head(0x2, message.len()), message]
            }
        }
    }
}

/// The answer to a ping.
pub(super) fn pong(payload: Bytes) -> [Bytes; 2] {
    [head(PONG, payload.len()), payload]
}

/// A whole close frame.
pub(super) fn close(code: u16) -> Bytes {
    let [high, low] = code.to_be_bytes();
    Bytes::copy_from_slice(&[WHOLE | CLOSE, 2, high, low])
}

fn head(opcode: u8, length: usize) -> Bytes {
    let first = WHOLE | opcode;
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..=125), _) => Bytes::copy_from_slice(&[first, short]),
        (_, Ok(middle)) => Bytes::copy_from_slice(&[&[first, 126][..], &middle.to_be_bytes()].concat()),
        _ => Bytes::copy_from_slice(&[&[first, 127][..], &(length as u64).to_be_bytes()].concat()),
    }
}

/// What a client says that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It wants this back.
    Ping(Bytes),
    /// A close frame, whatever its code, or more data than anyone may send: the watch ends.
    End,
    /// A frame without a mask, which no client may send.
    Unmasked,
}

/// Reads a client's frames from pieces of any size. Keeps a head and a ping at most.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    head: [u8; HEAD_BYTES_MAX],
    have: usize,
    body: Option<Body>,
}

/// A frame's payload while it comes.
#[derive(Debug)]
struct Body {
    left: u64,
    ping: Option<Ping>,
}

#[derive(Debug)]
struct Ping {
    mask: [u8; 4],
    payload: Vec<u8>,
}

impl Incoming {
    /// Takes bytes from the front of `input` until one of the client's frames matters, or all are taken.
    pub(super) fn feed(&mut self, input: &mut &[u8]) -> Option<Said> {
        loop {
            let Some(body) = &mut self.body else {
                let missing = head_length(&self.head[..self.have]) - self.have;
                let (taken, rest) = input.split_at(missing.min(input.len()));
                self.head[self.have..self.have + taken.len()].copy_from_slice(taken);
                (self.have, *input) = (self.have + taken.len(), rest);
                if head_length(&self.head[..self.have]) == self.have {
                    match Body::begin(&self.head[..self.have]) {
                        Ok(body) => self.body = Some(body),
                        Err(said) => return Some(said),
                    }
                } else if input.is_empty() {
                    return None;
                }
                continue;
            };
            body.take(input);
            if body.left > 0 {
                return None;
            }
            let ping = self.body.take().and_then(|body| body.ping);
            self.have = 0;
            if let Some(ping) = ping {
                return Some(Said::Ping(ping.payload.into()));
            }
        }
    }
}

/// How long the head is that begins with these bytes, as far as they tell.
fn head_length(head: &[u8]) -> usize {
    let Some(second) = head.get(1) else { return 2 };
    let length = match second & !MASKED {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    2 + length + if second & MASKED == 0 { 0 } else { 4 }
}

impl Body {
    /// What a whole head announces. Reserved bits, unknown opcodes and fragments are taken as data, as kube-apiserver does.
    fn begin(head: &[u8]) -> Result<Self, Said> {
        let Some((head, mask)) = head.split_last_chunk::<4>().filter(|_| head[1] & MASKED != 0) else { return Err(Said::Unmasked) };
        let length = match head {
            [_, short] => u64::from(short & !MASKED),
            // A length of 63 bits.
            [_, _, long @ ..] => long.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)) & (u64::MAX >> 1),
            _ => unreachable!("a head has two bytes at least"),
        };
        match head[0] & 0xf {
            CLOSE => Err(Said::End),
            PING => Ok(Self { left: length, ping: Some(Ping { mask: *mask, payload: Vec::new() }) }),
            PONG => Ok(Self { left: length, ping: None }),
            _ if length > DATA_BYTES_MAX => Err(Said::End),
            _ => Ok(Self { left: length, ping: None }),
        }
    }

    fn take(&mut self, input: &mut &[u8]) {
        let (taken, rest) = input.split_at(usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len()));
        (self.left, *input) = (self.left - taken.len() as u64, rest);
        if let Some(Ping { mask, payload }) = &mut self.ping {
            for byte in taken.iter().take(CONTROL_BYTES_MAX - payload.len()) {
                payload.push(byte ^ mask[payload.len() % 4]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A client's frame.
    fn sent(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 250];
        let mut frame = head(opcode, payload.len()).to_vec();
        frame[1] |= MASKED;
        frame.extend(mask);
        frame.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
        frame
    }

    /// What is heard, up to what ends the watch.
    fn heard(mut input: &[u8]) -> Vec<Said> {
        let (mut incoming, mut heard) = (Incoming::default(), Vec::new());
        while let Some(said) = incoming.feed(&mut input) {
            heard.push(said);
            if !matches!(heard.last(), Some(Said::Ping(_))) {
                break;
            }
        }
        heard
    }

    fn ping(payload: &[u8]) -> Said {
        Said::Ping(Bytes::copy_from_slice(payload))
    }

    #[test]
    fn heads_have_the_shortest_length() {
        assert_eq!(head(1, 125)[..], [0x81, 125]);
        assert_eq!(head(1, 126)[..], [0x81, 126, 0, 126]);
        assert_eq!(head(1, 65_535)[..], [0x81, 126, 255, 255]);
        assert_eq!(head(2, 65_536)[..], [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(close(NORMAL)[..], [0x88, 2, 3, 232]);
        assert_eq!(pong(Bytes::from_static(b"ab")).concat(), [0x8a, 2, b'a', b'b']);
    }

    #[test]
    fn the_payload_says_which_frame_and_what_is_in_it() {
        let event = Bytes::from_static(b"\0\0\0\x02ab");
        assert_eq!(Payload::Text.frame(&event).concat(), b"\x81\x06\0\0\0\x02ab");
        assert_eq!(Payload::Binary { without: 4 }.frame(&event).concat(), b"\x82\x02ab");
        let short = Bytes::from_static(b"a");
        assert_eq!(Payload::Binary { without: 4 }.frame(&short).concat(), b"\x82\0");
    }

    #[test]
    fn only_pings_and_the_end_are_heard() {
        let data = [sent(1, b"text"), sent(2, &[7; 70_000]), sent(0, b"\xff"), sent(0x73, b"?"), sent(PONG, b"late")].concat();
        assert_eq!(
            heard(&[&data[..], &sent(PING, b"1"), &sent(PING, b""), &sent(CLOSE, b"\x03\xe9bye")].concat()),
            [ping(b"1"), ping(b""), Said::End]
        );
        assert_eq!(heard(&sent(PING, &[b'x'; 200])), [ping(&[b'x'; 125])]);
        assert_eq!(heard(&[0x81, 0]), [Said::Unmasked]);
        assert_eq!(heard(&[0x81, 0x7e, 0, 126]), [Said::Unmasked]);
    }

    #[test]
    fn a_frame_of_data_may_be_large_and_no_larger() {
        let head = |length: u64| [&[0x82, 0xff][..], &length.to_be_bytes(), &[0; 4]].concat();
        assert_eq!(heard(&head(DATA_BYTES_MAX)), []);
        assert_eq!(heard(&head(DATA_BYTES_MAX + 1)), [Said::End]);
        assert_eq!(heard(&head(1 << 63)), [], "the first of 64 bits is not read");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(frames in prop::collection::vec((0_u8..16, prop::collection::vec(any::<u8>(), 0..200)), 0..6), cuts in prop::collection::vec(0_usize..50, 1..40)) {
            let frames: Vec<_> = frames.into_iter().filter(|(opcode, _)| *opcode != CLOSE).collect();
            let all: Vec<u8> = frames.iter().flat_map(|(opcode, payload)| sent(*opcode, payload)).collect();
            let expected: Vec<Said> =
                frames.iter().filter(|(opcode, _)| *opcode == PING).map(|(_, payload)| ping(&payload[..payload.len().min(125)])).collect();
            let (mut incoming, mut rest, mut said) = (Incoming::default(), &all[..], Vec::new());
            for cut in cuts.into_iter().chain([all.len()]) {
                let (mut piece, after) = rest.split_at(cut.min(rest.len()));
                said.extend(std::iter::from_fn(|| incoming.feed(&mut piece)));
                prop_assert!(piece.is_empty());
                rest = after;
            }
            prop_assert_eq!(said, expected);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = heard(&bytes);
        }
    }
}
