//! The stamp that every object of the run carries: a number that grows by one with each write. Found by its bytes, without parsing JSON.

use std::fmt;
use std::io::{self, Write};

use memchr::memmem;

/// What stands before the digits. It appears nowhere else in an object of the run.
pub(super) const MARK: &[u8] = b"~stamp~";

/// Digits of a stamp: fixed, so that all objects are of the same size.
const DIGITS: usize = 10;

/// How many stamps there are.
pub(crate) const STAMPS: u64 = 10_000_000_000;

/// The text of a stamp.
pub(crate) struct Stamp(pub(crate) u64);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "~stamp~{:010}", self.0)
    }
}

/// The number in the first stamp of `bytes`.
pub(crate) fn seq_of(bytes: &[u8]) -> Option<u64> {
    let digits = memmem::find(bytes, MARK)? + MARK.len();
    let digits = bytes.get(digits..digits + DIGITS)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Counts the bytes of a body that arrives in pieces, and how often a mark is in it.
pub(crate) struct MarkCounter {
    mark: &'static [u8],
    /// Bytes written so far.
    pub(crate) bytes: u64,
    /// Marks found so far.
    pub(crate) marks: u64,
    tail: Vec<u8>,
}

impl MarkCounter {
    /// Of a mark of at least two bytes that does not overlap itself.
    pub(crate) fn of(mark: &'static [u8]) -> Self {
        Self { mark, bytes: 0, marks: 0, tail: Vec::new() }
    }

    fn feed(&mut self, piece: &[u8]) {
        let keep = self.mark.len() - 1;
        self.tail.extend_from_slice(&piece[..piece.len().min(keep)]);
        // The seam holds at most `keep` bytes of each side, so a mark in it crosses the border: the search below cannot find it again.
        self.marks += self.count(&self.tail) + self.count(piece);
        self.bytes += piece.len() as u64;
        if piece.len() >= keep {
            self.tail.clear();
            self.tail.extend_from_slice(&piece[piece.len() - keep..]);
        } else {
            let extra = self.tail.len().saturating_sub(keep);
            self.tail.drain(..extra);
        }
    }

    fn count(&self, bytes: &[u8]) -> u64 {
        memmem::find_iter(bytes, self.mark).count() as u64
    }
}

impl Write for MarkCounter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.feed(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_back() {
        let body = format!(r#"{{"data":{{"stamp":"{}"}}}}"#, Stamp(1234));
        assert_eq!(seq_of(body.as_bytes()), Some(1234));
        assert_eq!(seq_of(b"~stamp~12"), None);
        assert_eq!(seq_of(b"{}"), None);
    }

    #[test]
    fn stamps_are_counted_in_pieces_of_any_size() {
        let body: String = (0..50).map(|n| format!("x{}~st", Stamp(n))).collect();
        for size in 1..40 {
            let mut counter = MarkCounter::of(MARK);
            for piece in body.as_bytes().chunks(size) {
                counter.write_all(piece).expect("counting never fails");
            }
            assert_eq!((counter.marks, counter.bytes), (50, body.len() as u64), "pieces of {size}");
        }
    }
}
