//! Bytes written from the end to the beginning, as gogo does it: a length stands before what it counts, and is known only after.

use super::wire::{LEN, varint_len};

/// A buffer that is filled from its end.
#[derive(Debug, Default)]
pub(super) struct BackwardBuffer {
    buffer: Vec<u8>,
    start: usize,
}

impl BackwardBuffer {
    /// Forgets what is written, and has room for so many bytes.
    pub(super) fn clear(&mut self, room: usize) {
        if self.buffer.len() < room {
            self.buffer = vec![0; room];
        }
        self.start = self.buffer.len();
    }

    /// How many bytes it holds, written or not.
    pub(super) fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// How much is written.
    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    pub(super) fn written(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let end = self.start;
        self.start -= bytes.len();
        self.buffer[self.start..end].copy_from_slice(bytes);
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.few([byte]);
    }

    pub(super) fn varint(&mut self, mut value: u64) {
        if value < 0x80 {
            return self.byte(value as u8);
        }
        let length = varint_len(value);
        self.reserve(length);
        self.start -= length;
        for byte in &mut self.buffer[self.start..self.start + length] {
            *byte = value as u8 | 0x80;
            value >>= 7;
        }
        self.buffer[self.start + length - 1] &= 0x7f;
    }

    pub(super) fn tag(&mut self, number: u32, wire: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire));
    }

    /// The length of what was written since [`Self::len`] was `before`, and the tag of a field that has it.
    pub(super) fn close(&mut self, number: u32, before: usize) {
        let length = self.len() - before;
        // Nearly all are a byte each.
        if number < 0x80 >> 3 && length < 0x80 {
            return self.few([(number << 3) as u8 | LEN, length as u8]);
        }
        self.varint(length as u64);
        self.tag(number, LEN);
    }

    fn few<const N: usize>(&mut self, bytes: [u8; N]) {
        self.reserve(N);
        self.start -= N;
        self.buffer[self.start..self.start + N].copy_from_slice(&bytes);
    }

    /// Makes room in front, twice as much as there is at least.
    fn reserve(&mut self, length: usize) {
        if self.start < length {
            self.grow(length);
        }
    }

    #[cold]
    fn grow(&mut self, length: usize) {
        let more = self.buffer.len().max(length).max(64);
        let mut buffer = vec![0; self.buffer.len() + more];
        buffer[self.start + more..].copy_from_slice(self.written());
        self.buffer = buffer;
        self.start += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_at_the_front() {
        let mut backward = BackwardBuffer::default();
        backward.bytes(&[1; 100]);
        backward.clear(10);
        for i in (0..1000u64).rev() {
            let before = backward.len();
            backward.varint(i << (i % 50));
            backward.bytes(&[7; 3]);
            backward.close(1, before);
            backward.close(i as u32 % 40 + 1, backward.len());
        }
        let mut forward = Vec::new();
        for i in 0..1000u64 {
            let mut field = vec![7; 3];
            super::super::wire::varint_into(i << (i % 50), &mut field);
            super::super::wire::field_into(i as u32 % 40 + 1, b"", &mut forward);
            super::super::wire::field_into(1, &field, &mut forward);
        }
        assert_eq!(backward.written(), forward);
    }
}
