//! A byte stream cut at line ends, copying only what a piece has left unfinished. Knows nothing of JSON or watches.

use anyhow::{Result, ensure};
use memchr::memchr;

/// The longest event accepted, bytes: etcd's largest request is 1.5 MB, an event is a little more.
const LINE_BYTES_LIMIT: usize = 4 << 20;

/// The unfinished line of one stream.
#[derive(Default)]
pub(crate) struct LineReader {
    unfinished: Vec<u8>,
}

impl LineReader {
    /// Calls `line` for every line that `piece` completes, without its end.
    pub(crate) fn feed(&mut self, mut piece: &[u8], mut line: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while let Some(end) = memchr(b'\n', piece) {
            if self.unfinished.is_empty() {
                line(&piece[..end])?;
            } else {
                self.unfinished.extend_from_slice(&piece[..end]);
                line(&self.unfinished)?;
                self.unfinished.clear();
            }
            piece = &piece[end + 1..];
        }
        self.unfinished.extend_from_slice(piece);
        ensure!(self.unfinished.len() <= LINE_BYTES_LIMIT, "an event of more than {LINE_BYTES_LIMIT} bytes");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_from_pieces_of_any_size() {
        let text = b"one\ntwo two\n\nfour\nunfinished";
        for size in 1..text.len() {
            let (mut reader, mut lines) = (LineReader::default(), Vec::new());
            for piece in text.chunks(size) {
                let fed = reader.feed(piece, |line| {
                    lines.push(String::from_utf8_lossy(line).into_owned());
                    Ok(())
                });
                fed.expect("short lines");
            }
            assert_eq!(lines, ["one", "two two", "", "four"], "pieces of {size}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut reader = LineReader::default();
        let refused = (0..6).map(|_| reader.feed(&[b'x'; 1 << 20], |_| Ok(()))).any(|fed| fed.is_err());
        assert!(refused);
    }
}
