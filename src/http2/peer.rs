//! What the client has announced of itself (RFC 9113 §6.5). Knows no stream.

use crate::{Code, Fault, frame, window::MOST};

/// Settings that a server looks at (RFC 9113 §6.5.2). What the client's tables of headers take is of no interest: our blocks use none.
const ENABLE_PUSH: u16 = 2;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

/// Payloads that we write have so many bytes at most, which every client takes (RFC 9113 §4.2). With its head that is about one TLS record.
pub(crate) const FRAME_BYTES_MAX: usize = frame::PAYLOAD_BYTES_MAX;

/// The window that each stream begins with, after these settings; it was `first_window` before them.
pub(crate) fn first_window(payload: &[u8], mut first_window: u32) -> Result<u32, Fault> {
    let (settings, []) = payload.as_chunks::<6>() else {
        return Err(Fault::new(Code::FRAME_SIZE_ERROR, "a part of a setting"));
    };
    for [a, b, value @ ..] in settings {
        let value = u32::from_be_bytes(*value);
        match u16::from_be_bytes([*a, *b]) {
            ENABLE_PUSH if value > 1 => return Err(Fault::protocol("ENABLE_PUSH is 0 or 1")),
            INITIAL_WINDOW_SIZE if i64::from(value) > MOST => {
                return Err(Fault::new(Code::FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is too large"));
            }
            INITIAL_WINDOW_SIZE => first_window = value,
            MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => return Err(Fault::protocol("MAX_FRAME_SIZE is none")),
            _ => {}
        }
    }
    Ok(first_window)
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
    use crate::window::FIRST;

    #[test]
    fn settings_are_checked() {
        let read = |payload: &[u8]| first_window(payload, FIRST);
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
        assert_eq!(first_window(&ours, FIRST), Ok(256 << 10));
    }
}
