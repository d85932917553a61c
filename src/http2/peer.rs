//! What the client has announced of itself (RFC 9113 §6.5).

use crate::{Code, Fault, frame, window};

/// The table of headers that each side has until it says something else (RFC 9113 §6.5.2), bytes.
pub(crate) const TABLE_BYTES: u32 = 4_096;

/// Settings that a server looks at (RFC 9113 §6.5.2).
const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

/// Payloads that we write have so many bytes at most, which every client takes (RFC 9113 §4.2). With its head that is about one TLS record.
pub(crate) const FRAME_BYTES_MAX: usize = frame::PAYLOAD_BYTES_MAX;

/// What it has announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The window that each stream begins with.
    pub(crate) first_window: u32,
    /// Its table of headers is smaller than the first one. Ours has nothing in it, and still it waits to hear that we know (RFC 7541 §4.2).
    pub(crate) has_small_table: bool,
}

impl Default for Peer {
    fn default() -> Self {
        Self { first_window: window::FIRST, has_small_table: false }
    }
}

impl Peer {
    /// What it is after these settings.
    pub(crate) fn after(mut self, payload: &[u8]) -> Result<Self, Fault> {
        let (settings, []) = payload.as_chunks::<6>() else {
            return Err(Fault::new(Code::FRAME_SIZE_ERROR, "a part of a setting"));
        };
        for [a, b, value @ ..] in settings {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                HEADER_TABLE_SIZE => self.has_small_table |= value < TABLE_BYTES,
                ENABLE_PUSH if value > 1 => return Err(Fault::protocol("ENABLE_PUSH is 0 or 1")),
                INITIAL_WINDOW_SIZE if i64::from(value) > window::MOST => {
                    return Err(Fault::new(Code::FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is too large"));
                }
                INITIAL_WINDOW_SIZE => self.first_window = value,
                MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => return Err(Fault::protocol("MAX_FRAME_SIZE is none")),
                _ => {}
            }
        }
        Ok(self)
    }
}

/// The payload of our own.
pub(crate) fn settings(streams: u32, window: u32, header_bytes: u32) -> Vec<u8> {
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    const MAX_HEADER_LIST_SIZE: u16 = 6;
    let all = [(MAX_CONCURRENT_STREAMS, streams), (INITIAL_WINDOW_SIZE, window), (MAX_HEADER_LIST_SIZE, header_bytes)];
    all.iter().flat_map(|(name, value)| name.to_be_bytes().into_iter().chain(value.to_be_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked() {
        let read = |payload: &[u8]| Peer::default().after(payload).map(|peer| peer.first_window);
        let code = |payload: &[u8]| read(payload).expect_err("a fault").code;
        assert_eq!(read(&[]), Ok(65_535));
        assert_eq!(read(&[0, 4, 0, 0, 0, 7, 0, 99, 255, 255, 255, 255, 0, 2, 0, 0, 0, 1, 0, 5, 0, 255, 255, 255]), Ok(7));
        assert_eq!(code(&[0, 4, 0, 0, 0]), Code::FRAME_SIZE_ERROR);
        assert_eq!(code(&[0, 2, 0, 0, 0, 2]), Code::PROTOCOL_ERROR);
        assert_eq!(code(&[0, 4, 128, 0, 0, 0]), Code::FLOW_CONTROL_ERROR);
        assert_eq!(code(&[0, 5, 0, 0, 63, 255]), Code::PROTOCOL_ERROR);
        assert_eq!(code(&[0, 5, 1, 0, 0, 0]), Code::PROTOCOL_ERROR);
    }

    #[test]
    fn ours_can_be_read() {
        let ours = settings(250, 256 << 10, 1 << 20);
        assert_eq!(ours.len(), 18);
        assert_eq!(Peer::default().after(&ours), Ok(Peer { first_window: 256 << 10, has_small_table: false }));
        assert!(Peer::default().after(&[0, 1, 0, 0, 15, 255]).is_ok_and(|peer| peer.has_small_table));
    }
}
