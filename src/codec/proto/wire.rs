//! The wire form of protobuf, read forwards: tags, numbers, lengths, and what is skipped.

use super::error::{ProtoError, Result};
use crate::append;

/// Wire type of integers and booleans.
pub(super) const VARINT: u8 = 0;
/// Wire type of `double`.
pub(super) const FIXED64: u8 = 1;
/// Wire type of what has a length: strings, bytes, messages, map entries.
pub(super) const LEN: u8 = 2;
const GROUP: u8 = 3;
const END_OF_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// Reads a message field by field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next read begins.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The number and wire type of the next field; none at the end.
    pub(super) fn tag(&mut self) -> Result<Option<(u32, u8)>> {
        if self.is_at_end() {
            return Ok(None);
        }
        let tag = self.varint()?;
        // Go keeps 32 bits of the number and wants it positive.
        let number = (tag >> 3) as u32;
        if number == 0 || number > i32::MAX as u32 {
            return Err(ProtoError::Tag);
        }
        Ok(Some((number, (tag & 7) as u8)))
    }

    pub(super) fn varint(&mut self) -> Result<u64> {
        // Most are tags and lengths of one byte.
        if let Some(byte) = self.bytes.get(self.at).filter(|byte| **byte < 0x80) {
            self.at += 1;
            return Ok(u64::from(*byte));
        }
        let mut value = 0;
        for (i, byte) in self.bytes[self.at..].iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if *byte < 0x80 {
                self.at += i + 1;
                return Ok(value);
            }
        }
        Err(if self.bytes.len() - self.at < 10 { ProtoError::Truncated } else { ProtoError::Overflow })
    }

    /// Eight bytes, little endian.
    pub(super) fn fixed64(&mut self) -> Result<u64> {
        let bytes: [u8; 8] = self.take(8)?.try_into().map_err(|_| ProtoError::Truncated)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// A length and so many bytes.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.varint()?;
        self.take(usize::try_from(length).map_err(|_| ProtoError::Truncated)?)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len()).ok_or(ProtoError::Truncated)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// Passes over the value of a field that nobody knows; groups end where they say.
    pub(super) fn skip(&mut self, mut wire: u8) -> Result<()> {
        let mut groups = 0usize;
        loop {
            match wire {
                VARINT => _ = self.varint()?,
                FIXED64 => _ = self.take(8)?,
                LEN => _ = self.bytes()?,
                GROUP => groups += 1,
                END_OF_GROUP => groups = groups.checked_sub(1).ok_or(ProtoError::Tag)?,
                FIXED32 => _ = self.take(4)?,
                _ => return Err(ProtoError::Tag),
            }
            if groups == 0 {
                return Ok(());
            }
            wire = (self.varint()? & 7) as u8;
        }
    }
}

/// Appends a number.
pub(super) fn varint_into(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes [`varint_into`] appends.
pub(super) fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// How many bytes [`field_into`] appends for so many.
#[must_use]
pub fn field_len(number: u32, len: usize) -> usize {
    varint_len(u64::from(number) << 3) + varint_len(len as u64) + len
}

/// Appends a field that has a length: tag, length, bytes. A list has its [`super::list_meta_into`] as field 1 and its items as field 2.
pub fn field_into(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    field_head_into(number, bytes.len(), out);
    append(bytes, out);
}

/// Appends what stands before so many bytes of a field: tag and length.
pub fn field_head_into(number: u32, len: usize, out: &mut Vec<u8>) {
    varint_into(u64::from(number) << 3 | u64::from(LEN), out);
    varint_into(len as u64, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn broken_fields_are_errors() {
        let read = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            while let Some((_, wire)) = reader.tag()? {
                reader.skip(wire)?;
            }
            Ok(())
        };
        assert_eq!(read(b"\x0a\x01a\x10\x05\x19........\x2d....\x33\x0a\x01b\x34"), Ok(()), "one of each wire type");
        for (bytes, error) in [
            (&b"\x0a"[..], ProtoError::Truncated),
            (b"\x0a\x02a", ProtoError::Truncated),
            (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a", ProtoError::Truncated),
            (b"\x80", ProtoError::Truncated),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ProtoError::Overflow),
            (b"\x02\x00", ProtoError::Tag),
            (b"\x0c", ProtoError::Tag),
            (b"\x0f", ProtoError::Tag),
            (b"\x0b\x08\x01", ProtoError::Truncated),
            (b"\x09.......", ProtoError::Truncated),
        ] {
            assert_eq!(read(bytes), Err(error), "{bytes:x?}");
        }
    }

    proptest! {
        #[test]
        fn numbers_and_back(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            varint_into(value, &mut out);
            prop_assert_eq!(out.len(), varint_len(value));
            prop_assert_eq!(Reader::new(&out).varint(), Ok(value));
        }
    }
}
