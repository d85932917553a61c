//! Frames: their heads, how they are put together from the bytes that come, and how ours are written (RFC 9113 §4, §6).

use std::time::Duration;

use crate::{Code, Fault, flood::Flood};

/// What every connection begins with (RFC 9113 §3.4). The caller has read it, since it tells which protocol is spoken.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = 9;

/// The largest payload that we take: the least that may be announced, and what is so without a word (RFC 9113 §4.2).
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16 << 10;

/// The bits of a stream's number; the first one means nothing.
const STREAM_BITS: u32 = 0x7fff_ffff;

/// What a frame is (RFC 9113 §6).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// What a frame says of itself.
pub(crate) mod flag {
    /// Of SETTINGS and PING: it answers ours.
    pub(crate) const ACK: u8 = 1;
    /// Of DATA and HEADERS: the last of its stream.
    pub(crate) const END_STREAM: u8 = 1;
    /// Of HEADERS and CONTINUATION: the last of its block.
    pub(crate) const END_HEADERS: u8 = 4;
    /// Of DATA and HEADERS: the first byte tells how many at the end mean nothing.
    pub(crate) const PADDED: u8 = 8;
    /// Of HEADERS: five bytes about priority come first.
    pub(crate) const PRIORITY: u8 = 32;
}

/// What comes before a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    /// Whether it has this flag.
    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Puts frames together from the bytes that come. What has come of one is kept only until the rest has.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    part: Vec<u8>,
    flood: Flood,
}

impl Frames {
    /// Takes the next frame off the bytes, and hands it over. `None`: there is no whole one. `age` is that of the connection.
    ///
    /// # Errors
    /// A frame is too large, or there are too many.
    pub(crate) fn next<T>(
        &mut self,
        bytes: &mut &[u8],
        age: Duration,
        take: impl FnOnce(Head, &[u8]) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        if self.part.is_empty() {
            // As a rule frames come whole, and nothing is kept.
            if let Some((head, length)) = head(bytes)?.filter(|(_, length)| bytes.len() >= HEAD_BYTES + length) {
                let (frame, rest) = bytes.split_at(HEAD_BYTES + length);
                *bytes = rest;
                self.flood.count(head, length, age)?;
                return take(head, &frame[HEAD_BYTES..]).map(Some);
            }
        }
        self.fill(HEAD_BYTES, bytes);
        let Some((head, length)) = head(&self.part)? else { return Ok(None) };
        self.fill(HEAD_BYTES + length, bytes);
        if self.part.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        let part = std::mem::take(&mut self.part);
        self.flood.count(head, length, age)?;
        take(head, &part[HEAD_BYTES..]).map(Some)
    }

    /// Bytes that have come of a frame which is not the last one of its block of headers.
    pub(crate) fn of_block(&self) -> usize {
        let head = head(&self.part).ok().flatten().map(|(head, _)| head);
        let is_of_block = head.is_some_and(|head| matches!(head.kind, kind::HEADERS | kind::CONTINUATION) && !head.has(flag::END_HEADERS));
        if is_of_block { self.part.len() - HEAD_BYTES } else { 0 }
    }

    /// So many bytes were written.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.flood.wrote(bytes);
    }

    /// Tokens that are left, for tests.
    #[cfg(test)]
    pub(crate) fn tokens(&self) -> i32 {
        self.flood.left()
    }

    /// Until there are so many bytes, or no more.
    fn fill(&mut self, length: usize, bytes: &mut &[u8]) {
        let (more, rest) = bytes.split_at(bytes.len().min(length.saturating_sub(self.part.len())));
        self.part.extend_from_slice(more);
        *bytes = rest;
    }
}

/// The head that these bytes begin with, and the length of the payload after it.
fn head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Fault> {
    let [high, middle, low, kind, flags, stream @ ..] = bytes else { return Ok(None) };
    let Some(stream) = stream.first_chunk() else { return Ok(None) };
    let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
    if length > PAYLOAD_BYTES_MAX {
        return Err(Fault::new(Code::FRAME_SIZE_ERROR, "a frame is larger than was announced"));
    }
    Ok(Some((Head { kind: *kind, flags: *flags, stream: u32::from_be_bytes(*stream) & STREAM_BITS }, length)))
}

/// What of the payload of DATA or HEADERS is not padding.
pub(crate) fn unpadded(head: Head, payload: &[u8]) -> Result<&[u8], Fault> {
    if !head.has(flag::PADDED) {
        return Ok(payload);
    }
    let Some((padding, rest)) = payload.split_first() else {
        return Err(Fault::new(Code::FRAME_SIZE_ERROR, "a padded frame has no room for the length of its padding"));
    };
    let length = rest.len().checked_sub(usize::from(*padding)).ok_or(Fault::protocol("a frame has more padding than bytes"))?;
    Ok(&rest[..length])
}

/// Priorities do not count; but no stream may wait for itself (RFC 7540 §5.3.1). What comes after them.
pub(crate) fn priority(stream: u32, payload: &[u8]) -> Result<&[u8], Fault> {
    let Some((first, rest)) = payload.split_first_chunk::<5>() else {
        return Err(Fault::new(Code::FRAME_SIZE_ERROR, "a priority has five bytes"));
    };
    let [a, b, c, d, _] = *first;
    if number([a, b, c, d]) == stream { Err(Fault::protocol("a stream depends on itself")) } else { Ok(rest) }
}

/// Four bytes that are a number of 31 bits.
pub(crate) fn number(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & STREAM_BITS
}

/// Writes a head.
pub(crate) fn write_head(kind: u8, flags: u8, stream: u32, length: usize, out: &mut Vec<u8>) {
    let length = u32::try_from(length).expect("a frame is short").to_be_bytes();
    let stream = stream.to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags, stream[0], stream[1], stream[2], stream[3]]);
}

/// Writes that no stream after the last one is looked at, and why.
pub(crate) fn write_goaway(last: u32, code: Code, out: &mut Vec<u8>) {
    write(kind::GOAWAY, 0, 0, &[last.to_be_bytes(), code.0.to_be_bytes()].concat(), out);
}

/// Writes a whole frame.
pub(crate) fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    write_head(kind, flags, stream, payload.len(), out);
    out.extend_from_slice(payload);
}
