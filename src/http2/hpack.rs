//! Header compression of HTTP/2 (RFC 7541), for a server. Reads with a dynamic table, as clients expect; writes without one.

mod huffman;
mod table;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use bytes::Bytes;
use table::{Entry, Found, Table};

/// Bits of a field that is in a table as a whole (RFC 7541 §6.1), and of one whose name and value go into the dynamic table (§6.2.1). A literal that does not
/// go there (§6.2.2, §6.2.3) has neither.
const INDEXED: u8 = 0b1000_0000;
const INSERTED: u8 = 0b0100_0000;

/// An update of the table's size (RFC 7541 §6.3) begins with these three bits.
const SIZE_UPDATE: u8 = 0b0010_0000;
const SIZE_UPDATE_MASK: u8 = 0b1110_0000;

/// Updates that a block may begin with: the smallest size since the last block, and the final one (RFC 7541 §4.2).
const SIZE_UPDATES_MAX: usize = 2;

/// The bit of a string's length that says that the string is Huffman coded (RFC 7541 §5.2).
const HUFFMAN_CODED: u8 = 0b1000_0000;

/// Bytes that may follow the first one of an integer. No index, length or size that we accept needs more than three.
const INTEGER_BYTES_MAX: usize = 4;

/// Most bytes that a string which was Huffman coded leaves with a thread. Tokens have 1 to 4 KiB.
const SPARE_BYTES_MAX: usize = 16 << 10;

thread_local! {
    /// Room for the strings of whatever block is read on this thread.
    static SPARE: Cell<Scratch> = const { Cell::new(Scratch { name: Vec::new(), value: Vec::new() }) };
}

/// Why a header block cannot be read; the connection must end with COMPRESSION_ERROR (RFC 9113 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HpackError {
    /// RFC 7541 §5.
    #[error("the header block ends within a field")]
    Truncated,
    /// RFC 7541 §5.1.
    #[error("an integer in the header block is too large")]
    IntegerTooLarge,
    /// RFC 7541 §2.3.3.
    #[error("the header block names an index that no table has")]
    UnknownIndex,
    /// RFC 7541 §6.3.
    #[error("the header block asks for a larger table than is allowed")]
    TableTooLarge,
    /// RFC 7541 §4.2.
    #[error("the header block updates the table's size too often or after a field")]
    MisplacedSizeUpdate,
    /// RFC 7541 §5.2.
    #[error("a Huffman coded string ends with a wrong padding")]
    WrongPadding,
    /// RFC 7541 §5.2.
    #[error("a Huffman coded string has the symbol for its end in it")]
    EndOfString,
}

/// A value of a field.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// In the block, or in room that the next field takes: who keeps it copies it.
    Passing(&'a [u8]),
    /// In the dynamic table: who keeps it shares these bytes with whoever else does.
    Shared(Bytes),
}

impl AsRef<[u8]> for Value<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Passing(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// Reads the header blocks of one connection; keeps its dynamic table (RFC 7541 §2.3.2). After an error it is of no use.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
}

impl Decoder {
    /// A table of at most so many bytes, counted as RFC 7541 §4.1 does: what we announce, or the default of 4,096. A client may use the default before it has
    /// seen our settings, so less than that must not be announced at the beginning. Allocates nothing before a field goes into the table.
    pub const fn new(table_bytes_max: usize) -> Self {
        Self { table: Table::new(table_bytes_max) }
    }

    /// Reads one whole header block (RFC 7541 §3.2) and hands over each field's name and value in order. Before an error, fields may have been handed over.
    ///
    /// One byte of a block can stand for a field as large as the table: who takes the fields must count them.
    ///
    /// # Errors
    /// The block is not valid; nothing that comes later on this connection can be read.
    pub fn decode(&mut self, block: &[u8], field: impl FnMut(&[u8], Value<'_>)) -> Result<(), HpackError> {
        let mut scratch = SPARE.take();
        let read = self.read(block, &mut scratch, field);
        scratch.spare();
        read
    }

    fn read(&mut self, mut block: &[u8], scratch: &mut Scratch, mut field: impl FnMut(&[u8], Value<'_>)) -> Result<(), HpackError> {
        let mut size_updates_left = SIZE_UPDATES_MAX;
        while let Some(&first) = block.first() {
            if first & SIZE_UPDATE_MASK == SIZE_UPDATE {
                size_updates_left = size_updates_left.checked_sub(1).ok_or(HpackError::MisplacedSizeUpdate)?;
                self.table.resize(integer(&mut block, 5)?)?;
                continue;
            }
            size_updates_left = 0;
            if first & INDEXED != 0 {
                match self.table.at(integer(&mut block, 7)?)? {
                    Found::Static(name, value) => field(name, Value::Passing(value)),
                    Found::Dynamic(entry) => field(entry.name(), Value::Shared(entry.value())),
                }
                continue;
            }
            let is_inserted = first & INSERTED != 0;
            let name = match integer(&mut block, if is_inserted { 6 } else { 4 })? {
                0 => string(&mut block, &mut scratch.name)?,
                index => self.table.at(index)?.name(),
            };
            let value = string(&mut block, &mut scratch.value)?;
            if !is_inserted {
                field(name, Value::Passing(value));
                continue;
            }
            // The name may be of an entry that has to go: it is copied before.
            let entry = self.table.has_room_for(name, value).then(|| Entry::new(name, value));
            field(name, entry.as_ref().map_or(Value::Passing(value), |entry| Value::Shared(entry.value())));
            self.table.insert(entry);
        }
        Ok(())
    }
}

/// What was Huffman coded of the field that is read.
#[derive(Default)]
struct Scratch {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Scratch {
    /// Leaves it to the next block on this thread, but for what is too large to be kept.
    fn spare(mut self) {
        for room in [&mut self.name, &mut self.value] {
            if room.capacity() > SPARE_BYTES_MAX {
                *room = Vec::new();
            }
        }
        SPARE.set(self);
    }
}

/// The integer in the last so many bits of the first byte, and in the bytes after it if need be (RFC 7541 §5.1).
fn integer(block: &mut &[u8], prefix_bits: u32) -> Result<usize, HpackError> {
    let prefix_max = (1 << prefix_bits) - 1;
    let mut value = usize::from(next(block)?) & prefix_max;
    if value < prefix_max {
        return Ok(value);
    }
    for at in 0..INTEGER_BYTES_MAX {
        let byte = usize::from(next(block)?);
        value += (byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(HpackError::IntegerTooLarge)
}

/// A string (RFC 7541 §5.2): in the block itself, or Huffman decoded in the room given.
fn string<'a, 'block: 'a>(block: &mut &'block [u8], room: &'a mut Vec<u8>) -> Result<&'a [u8], HpackError> {
    let is_coded = block.first().is_some_and(|first| first & HUFFMAN_CODED != 0);
    let length = integer(block, 7)?;
    let (text, rest) = block.split_at_checked(length).ok_or(HpackError::Truncated)?;
    *block = rest;
    if !is_coded {
        return Ok(text);
    }
    room.clear();
    huffman::decode(text, room)?;
    Ok(room)
}

fn next(block: &mut &[u8]) -> Result<u8, HpackError> {
    let (first, rest) = block.split_first().ok_or(HpackError::Truncated)?;
    *block = rest;
    Ok(*first)
}

/// Appends `:status`, a number of three digits, to a header block (RFC 9113 §8.3.2): one byte for what is in the static table (RFC 7541 Appendix A).
pub fn encode_status(status: u16, out: &mut Vec<u8>) {
    let index = match status {
        200 => table::STATUS,
        204 => table::STATUS + 1,
        206 => table::STATUS + 2,
        304 => table::STATUS + 3,
        400 => table::STATUS + 4,
        404 => table::STATUS + 5,
        500 => table::STATUS + 6,
        _ => {
            let digit = |unit: u16| b'0' + (status / unit % 10) as u8;
            return out.extend_from_slice(&[table::STATUS, 3, digit(100), digit(10), digit(1)]);
        }
    };
    out.push(INDEXED | index);
}

/// Appends a field, whose name is in lower case, to a header block. Keeps no table: nothing is indexed, so that a connection has nothing to remember.
///
/// It is one byte where the static table has name and value (RFC 7541 §6.1), else a literal without indexing (§6.2.2), with its name from that table where it
/// is there. Strings are not Huffman coded: they are short, and bytes cost less than the time.
pub fn encode_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match table::index_of_name(name) {
        Some(first) => match table::index_of_field(first, value) {
            Some(index) => return out.push(INDEXED | index),
            None => encode_integer(first.into(), 4, out),
        },
        None => {
            out.push(0);
            encode_string(name, out);
        }
    }
    encode_string(value, out);
}

/// A string that is not Huffman coded (RFC 7541 §5.2).
fn encode_string(text: &[u8], out: &mut Vec<u8>) {
    encode_integer(text.len(), 7, out);
    out.extend_from_slice(text);
}

/// An integer (RFC 7541 §5.1) of which so many bits are in the first byte, and zeros before them.
fn encode_integer(value: usize, prefix_bits: u32, out: &mut Vec<u8>) {
    let prefix_max = (1 << prefix_bits) - 1;
    if value < prefix_max {
        return out.push(value as u8);
    }
    out.push(prefix_max as u8);
    let mut rest = value - prefix_max;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
