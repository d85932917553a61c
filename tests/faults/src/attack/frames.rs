//! The frames of HTTP/2 (RFC 9113) that attackers send, written by hand: a library would keep to the rules. Pure.

/// What a connection begins with.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes before a frame's payload.
pub(crate) const HEAD: usize = 9;
/// The longest payload that a peer takes unless it says otherwise (`SETTINGS_MAX_FRAME_SIZE`).
pub(crate) const PAYLOAD_MAX: usize = 16_384;
/// What a stream and a connection may be sent before the first WINDOW_UPDATE.
pub(crate) const WINDOW: i64 = 65_535;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// SETTINGS and PING: this is an answer.
pub(crate) const ACK: u8 = 1;
/// DATA and HEADERS: the last of this side.
pub(crate) const END_STREAM: u8 = 1;
/// HEADERS and CONTINUATION: the last of this block.
pub(crate) const END_HEADERS: u8 = 4;

/// `SETTINGS_HEADER_TABLE_SIZE`
pub(crate) const TABLE_SIZE: u16 = 1;
/// `SETTINGS_INITIAL_WINDOW_SIZE`
pub(crate) const INITIAL_WINDOW: u16 = 4;

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    /// Reads the nine bytes.
    #[must_use]
    pub(crate) fn read(bytes: [u8; HEAD]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        Self { length: u32::from_be_bytes([0, a, b, c]) as usize, kind, flags, stream: u32::from_be_bytes(stream) & 0x7fff_ffff }
    }
}

/// Adds one frame.
pub(crate) fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a payload of less than 16 MiB").to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Adds SETTINGS.
pub(crate) fn settings(out: &mut Vec<u8>, values: &[(u16, u32)]) {
    let mut payload = Vec::with_capacity(values.len() * 6);
    for (name, value) in values {
        payload.extend_from_slice(&name.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame(out, SETTINGS, 0, 0, &payload);
}

/// Adds a request's HEADERS, and CONTINUATIONs when it is long. `ends`: it has no body.
pub(crate) fn request(out: &mut Vec<u8>, stream: u32, fields: &[(&str, &str)], ends: bool) {
    headers(out, stream, &block(fields), ends);
}

/// Adds HEADERS of this block, and CONTINUATIONs when it is long. `ends`: the request has no body.
pub(crate) fn headers(out: &mut Vec<u8>, stream: u32, block: &[u8], ends: bool) {
    let mut pieces = block.chunks(PAYLOAD_MAX).peekable();
    let (mut kind, mut flags) = (HEADERS, if ends { END_STREAM } else { 0 });
    while let Some(piece) = pieces.next() {
        let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
        frame(out, kind, flags | last, stream, piece);
        (kind, flags) = (CONTINUATION, 0);
    }
}

/// A header block (RFC 7541) of literals that are not indexed: the peer keeps nothing of it.
#[must_use]
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            length(&mut out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// Adds to a header block a field that goes into the peer's table (RFC 7541, 6.2.1), where it is the newest.
pub(crate) fn inserted(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0x40);
    for text in [name, value] {
        length(block, text.len());
        block.extend_from_slice(text.as_bytes());
    }
}

/// A field that is the newest one of the peer's table (RFC 7541, 6.1): one byte.
pub(crate) const NEWEST: u8 = 0x80 | 62;

/// An integer with a prefix of seven bits (RFC 7541, 5.1).
fn length(out: &mut Vec<u8>, n: usize) {
    let Some(mut rest) = n.checked_sub(127) else {
        out.push(u8::try_from(n).expect("below 127"));
        return;
    };
    out.push(127);
    while rest >= 128 {
        out.push(u8::try_from(rest % 128).expect("below 128") | 128);
        rest /= 128;
    }
    out.push(u8::try_from(rest).expect("below 128"));
}

/// Whether a block of response headers begins with `:status: 200`, which servers send as one byte of the static table.
#[must_use]
pub(crate) fn is_ok(block: &[u8]) -> bool {
    // Changes of the table's size (001xxxxx) may stand before it.
    block.iter().find(|b| *b >> 5 != 1) == Some(&0x88)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut out = Vec::new();
        frame(&mut out, DATA, END_STREAM, 7, b"abc");
        assert_eq!(out, [0, 0, 3, 0, 1, 0, 0, 0, 7, b'a', b'b', b'c']);
        let head: [u8; HEAD] = out[..HEAD].try_into().expect("nine bytes");
        assert_eq!(Head::read(head), Head { length: 3, kind: DATA, flags: END_STREAM, stream: 7 });
    }

    #[test]
    fn lengths_are_those_of_the_rfc() {
        let of = |n| {
            let mut out = Vec::new();
            length(&mut out, n);
            out
        };
        assert_eq!(of(126), [126]);
        assert_eq!(of(127), [127, 0]);
        // RFC 7541, C.1.2 has 1337 with a prefix of five bits; with seven it is 127 + 1210.
        assert_eq!(of(1337), [127, 0xba, 9]);
    }

    #[test]
    fn a_long_request_goes_on_in_continuations() {
        let mut out = Vec::new();
        request(&mut out, 1, &[("x", &"y".repeat(PAYLOAD_MAX))], true);
        let first = Head::read(out[..HEAD].try_into().expect("nine bytes"));
        assert_eq!(first, Head { length: PAYLOAD_MAX, kind: HEADERS, flags: END_STREAM, stream: 1 });
        let at = HEAD + PAYLOAD_MAX;
        let second = Head::read(out[at..at + HEAD].try_into().expect("nine bytes"));
        assert_eq!((second.kind, second.flags, at + HEAD + second.length), (CONTINUATION, END_HEADERS, out.len()));
    }

    #[test]
    fn a_status_of_200_is_told_from_others() {
        assert!(is_ok(&[0x88, 0x76]));
        assert!(is_ok(&[0x20, 0x88]));
        assert!(!is_ok(&[0x8d]));
        assert!(!is_ok(&[]));
    }
}
