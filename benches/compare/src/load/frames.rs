//! A byte stream cut at the lengths in front of its frames, as watches in protobuf are. Copies only what a piece has left unfinished; parses no frame.

use anyhow::{Result, ensure};

/// Bytes of the length in front of each frame, big-endian (apimachinery's `framer`).
const LENGTH_BYTES: usize = 4;

/// The longest event accepted, bytes: etcd's largest request is 1.5 MB, an event is a little more.
const FRAME_BYTES_LIMIT: usize = 4 << 20;

/// The unfinished frame of one stream.
#[derive(Default)]
pub(crate) struct FrameReader {
    unfinished: Vec<u8>,
}

impl FrameReader {
    /// Calls `frame` for every frame that `piece` completes, without its length.
    pub(crate) fn feed(&mut self, piece: &[u8], mut frame: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.unfinished.is_empty() {
            let rest = cut(piece, &mut frame)?;
            self.unfinished.extend_from_slice(rest);
            return Ok(());
        }
        self.unfinished.extend_from_slice(piece);
        let left = cut(&self.unfinished, &mut frame)?.len();
        self.unfinished.drain(..self.unfinished.len() - left);
        Ok(())
    }
}

/// Takes whole frames off the front of `bytes`; what is left.
fn cut<'a>(mut bytes: &'a [u8], frame: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<&'a [u8]> {
    while let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() {
        let length = u32::from_be_bytes(*length) as usize;
        ensure!(length <= FRAME_BYTES_LIMIT, "an event of {length} bytes");
        let Some((whole, rest)) = rest.split_at_checked(length) else { break };
        frame(whole)?;
        bytes = rest;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_whole_from_pieces_of_any_size() {
        let stream = b"\0\0\0\x03one\0\0\0\x00\0\0\0\x07two two\0\0\0\x09unfin";
        for size in 1..=stream.len() {
            let (mut reader, mut frames) = (FrameReader::default(), Vec::new());
            for piece in stream.chunks(size) {
                let fed = reader.feed(piece, |frame| {
                    frames.push(String::from_utf8_lossy(frame).into_owned());
                    Ok(())
                });
                fed.expect("short frames");
            }
            assert_eq!(frames, ["one", "", "two two"], "pieces of {size}");
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused() {
        assert!(FrameReader::default().feed(b"{\"type\":", |_| Ok(())).is_err());
    }
}
