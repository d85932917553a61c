//! A message's bytes as the JSON that kube-apiserver prints of them: Go's order, Go's omissions, Go's escapes.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{
    MESSAGE_DEPTH_MAX,
    error::{ProtoError, Result},
    raw,
    schema::{Cardinality, Field, JsonShape, MessageRef, MessageType, Schema, ValueType},
    unknown_fields::{At, UnknownFields},
    wire::{FIXED64, LEN, Reader, VARINT},
};
use crate::encode::{float_into, revision_into, string_into};
use go::{quantity, timestamp};

/// Whose fields are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    /// Those of the minor as which this server speaks; others are passed over, as Go does.
    OfLaw,
    /// Those of every minor; others are told.
    All,
}

/// Appends the members of a whole object, each after a comma: kind and apiVersion stand before them. The items of a list are never null. `out` is to end
/// before `end`. Returns what is in the bytes and not in the members.
pub(super) fn members_into(
    of: (&'static Schema, MessageRef),
    fields: Fields,
    is_list: bool,
    raw: &[u8],
    end: usize,
    out: &mut Vec<u8>,
) -> Result<UnknownFields> {
    let (schema, message) = of;
    let mut decoder =
        Decoder { schema, fields, is_list, out, end, slots: Vec::with_capacity(256), unknown_fields: UnknownFields::default() };
    decoder.members(schema.message(message), raw, &At::TOP, false)?;
    decoder.fits()?;
    Ok(decoder.unknown_fields)
}

struct Decoder<'o> {
    schema: &'static Schema,
    fields: Fields,
    is_list: bool,
    out: &'o mut Vec<u8>,
    /// Where `out` ends at the latest, but for one value that is as long as its bytes make it.
    end: usize,
    /// What was found of the fields of the messages that are being written, the innermost last.
    slots: Vec<Slot>,
    unknown_fields: UnknownFields,
}

/// What a message has of one field.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// How often the field is there.
    seen: usize,
    /// Of a number: its bits. Else where the value begins; of a repeated field the tag of the first.
    from: u64,
    /// Where the value, or the last of them, ends.
    to: usize,
}

impl Slot {
    fn of<'d>(&self, data: &'d [u8]) -> &'d [u8] {
        &data[self.from as usize..self.to]
    }
}

impl Decoder<'_> {
    /// The members of a message, and whether the next one is the first.
    fn members(&mut self, message: &'static MessageType, data: &[u8], at: &At<'_>, mut first: bool) -> Result<bool> {
        if at.depth > MESSAGE_DEPTH_MAX {
            return Err(ProtoError::Depth);
        }
        let (base, is_foreign) = self.find(message, data, at)?;
        for (i, field) in message.fields.iter().enumerate() {
            let slot = self.slots[base + i];
            match (field.cardinality, field.value_type) {
                _ if slot.seen == 0 && !(field.always && (field.in_all || !is_foreign)) => {}
                (Cardinality::Inline, ValueType::Message(inner)) => {
                    first = self.members(self.schema.message(inner), slot.of(data), &at.inside(field), first)?;
                }
                _ => first = self.member(field, slot, data, at, first)?,
            }
        }
        self.slots.truncate(base);
        Ok(first)
    }

    /// Goes through a message once and remembers where its fields are: from the slot that is returned on. Whether one is among them that the minor as which
    /// this server speaks does not have: then another one has written the message.
    fn find(&mut self, message: &MessageType, data: &[u8], at: &At<'_>) -> Result<(usize, bool)> {
        let (base, mut is_foreign) = (self.slots.len(), false);
        self.slots.resize(base + message.fields.len(), Slot::default());
        let mut reader = Reader::new(data);
        loop {
            let start = reader.at();
            let Some((number, wire)) = reader.tag()? else { return Ok((base, is_foreign)) };
            let Some(i) = message.field(number) else {
                reader.skip(wire)?;
                self.leave_out(at, Some(number));
                continue;
            };
            let field = &message.fields[i];
            if !field.in_law {
                if self.fields == Fields::OfLaw {
                    reader.skip(wire)?;
                    continue;
                }
                is_foreign = true;
            }
            let slot = &mut self.slots[base + i];
            let bits = match (field.value_type, wire) {
                (ValueType::Bool | ValueType::Int32 | ValueType::Int64, VARINT) => reader.varint()?,
                (ValueType::Double, FIXED64) => reader.fixed64()?,
                (ValueType::String | ValueType::Bytes | ValueType::Message(_), LEN) => {
                    let length = reader.bytes()?.len();
                    (reader.at() - length) as u64
                }
                // Packed.
                (_, LEN) if field.cardinality == Cardinality::Repeated => reader.bytes()?.len() as u64,
                _ => return Err(ProtoError::WireType(field.name())),
            };
            match (field.cardinality, field.value_type) {
                (Cardinality::Repeated | Cardinality::Map, _) if slot.seen == 0 => slot.from = start as u64,
                (Cardinality::Repeated | Cardinality::Map, _) => {}
                (_, ValueType::Message(_)) if slot.seen > 0 => return Err(ProtoError::Twice(field.name())),
                _ => slot.from = bits,
            }
            slot.seen += 1;
            slot.to = reader.at();
        }
    }

    /// Remembers a field that is not normalize; without a number, a value that the field's type does not have.
    #[cold]
    #[inline(never)]
    fn leave_out(&mut self, at: &At<'_>, number: Option<u32>) {
        if self.fields == Fields::All {
            self.unknown_fields.add(at, number);
        }
    }

    fn fits(&self) -> Result<()> {
        if self.out.len() < self.end { Ok(()) } else { Err(ProtoError::TooLarge) }
    }

    /// A field of the message at a place.
    fn member(&mut self, field: &Field, slot: Slot, data: &[u8], at: &At<'_>, first: bool) -> Result<bool> {
        self.fits()?;
        let nil = match field.cardinality {
            Cardinality::Plain => match field.value_type {
                ValueType::Bytes => slot.seen == 0,
                ValueType::Message(inner) => slot.seen == 0 && self.schema.message(inner).json_shape == JsonShape::Items,
                _ => false,
            },
            _ => slot.seen == 0,
        };
        if field.omit_empty && (nil || self.is_empty(field, slot))
            || field.omit_zero && self.time(field, slot.of(data), at)?.is_none_or(|(seconds, _)| seconds == timestamp::ZERO)
        {
            return Ok(first);
        }
        if !first {
            self.out.push(b',');
        }
        self.out.extend_from_slice(field.key.as_bytes());
        match (field.cardinality, field.value_type) {
            (Cardinality::Repeated, _) if nil && self.is_list && at.depth == 0 => self.out.extend_from_slice(b"[]"),
            _ if nil => self.out.extend_from_slice(b"null"),
            (Cardinality::Repeated, _) => self.array(field, slot, data, at)?,
            (Cardinality::Map, _) => self.map(field, slot, data, at)?,
            (_, ValueType::String | ValueType::Bytes | ValueType::Message(_)) => self.value(field, slot.of(data), at)?,
            _ => self.number(field, slot.from, at)?,
        }
        Ok(false)
    }

    /// What Go leaves out by `omitempty` though it is there: an empty string, a zero, an empty array; but no pointer and no struct.
    fn is_empty(&self, field: &Field, slot: Slot) -> bool {
        match (field.cardinality, field.value_type) {
            (Cardinality::Plain, ValueType::String | ValueType::Bytes) => slot.from == slot.to as u64,
            (Cardinality::Plain, ValueType::Double) => f64::from_bits(slot.from) == 0.0,
            (Cardinality::Plain, ValueType::Int32) => slot.from as i32 == 0,
            (Cardinality::Plain, ValueType::Bool | ValueType::Int64) => slot.from == 0,
            (Cardinality::Plain, ValueType::Message(inner)) => {
                self.schema.message(inner).json_shape == JsonShape::Items && slot.from == slot.to as u64
            }
            _ => false,
        }
    }

    fn number(&mut self, field: &Field, bits: u64, at: &At<'_>) -> Result<()> {
        match field.value_type {
            ValueType::Bool if bits > 1 => self.leave_out(&at.inside(field), None),
            ValueType::Int32 if i64::from(bits as i32) as u64 != bits => self.leave_out(&at.inside(field), None),
            _ => {}
        }
        match field.value_type {
            ValueType::Bool => self.out.extend_from_slice(if bits == 0 { b"false" } else { b"true" }),
            ValueType::Int32 => self.integer(i64::from(bits as i32)),
            ValueType::Double => {
                let value = f64::from_bits(bits);
                if !value.is_finite() {
                    return Err(ProtoError::Value(field.name()));
                }
                float_into(value, self.out);
            }
            _ => self.integer(bits as i64),
        }
        Ok(())
    }

    fn integer(&mut self, value: i64) {
        if value < 0 {
            self.out.push(b'-');
        }
        revision_into(value.unsigned_abs(), self.out);
    }

    /// A value that has a length on the wire.
    fn value(&mut self, field: &Field, data: &[u8], at: &At<'_>) -> Result<()> {
        self.fits()?;
        match field.value_type {
            ValueType::Message(inner) => self.message(field, inner, data, at),
            ValueType::Bytes => {
                self.base64(data);
                Ok(())
            }
            _ => {
                self.string(data);
                Ok(())
            }
        }
    }

    /// kube-apiserver takes any bytes as a string, and prints each that is not UTF-8 as `\ufffd`.
    fn string(&mut self, data: &[u8]) {
        match std::str::from_utf8(data) {
            Ok(text) => string_into(text, self.out),
            Err(_) => broken_string_into(data, self.out),
        }
    }

    fn base64(&mut self, data: &[u8]) {
        self.out.push(b'"');
        let start = self.out.len();
        self.out.resize(start + data.len().div_ceil(3) * 4, 0);
        BASE64_STANDARD.encode_slice(data, &mut self.out[start..]).expect("there is room for all of it");
        self.out.push(b'"');
    }

    fn array(&mut self, field: &Field, slot: Slot, data: &[u8], at: &At<'_>) -> Result<()> {
        let mut open = b'[';
        let mut reader = Reader::new(slot.of(data));
        while let Some((number, wire)) = reader.tag()? {
            match (field.value_type, wire) {
                _ if number != field.number => reader.skip(wire)?,
                (ValueType::String | ValueType::Bytes | ValueType::Message(_), _) => {
                    self.out.push(std::mem::replace(&mut open, b','));
                    self.value(field, reader.bytes()?, at)?;
                }
                (_, LEN) => {
                    let mut packed = Reader::new(reader.bytes()?);
                    while !packed.is_at_end() {
                        let bits = if field.value_type == ValueType::Double { packed.fixed64()? } else { packed.varint()? };
                        self.out.push(std::mem::replace(&mut open, b','));
                        self.number(field, bits, at)?;
                    }
                }
                _ => {
                    let bits = if field.value_type == ValueType::Double { reader.fixed64()? } else { reader.varint()? };
                    self.out.push(std::mem::replace(&mut open, b','));
                    self.number(field, bits, at)?;
                }
            }
        }
        if open == b'[' {
            self.out.push(b'[');
        }
        self.out.push(b']');
        Ok(())
    }

    /// Sorted by key; of equal keys the last one counts.
    fn map(&mut self, field: &Field, slot: Slot, data: &[u8], at: &At<'_>) -> Result<()> {
        let mut entries: Vec<(&[u8], &[u8])> = Vec::with_capacity(slot.seen);
        let mut reader = Reader::new(slot.of(data));
        while let Some((number, wire)) = reader.tag()? {
            if number == field.number {
                entries.push(self.entry(field, reader.bytes()?, at)?);
            } else {
                reader.skip(wire)?;
            }
        }
        entries.sort_by_key(|(key, _)| *key);
        let mut open = b'{';
        for (i, (key, value)) in entries.iter().enumerate() {
            if entries.get(i + 1).is_some_and(|(next, _)| next == key) {
                continue;
            }
            self.out.push(std::mem::replace(&mut open, b','));
            self.string(key);
            self.out.push(b':');
            self.value(field, value, at)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn message(&mut self, field: &Field, inner: MessageRef, data: &[u8], at: &At<'_>) -> Result<()> {
        let inner = self.schema.message(inner);
        match inner.json_shape {
            JsonShape::Object => {
                self.out.push(b'{');
                self.members(inner, data, &at.inside(field), true)?;
                self.out.push(b'}');
                return Ok(());
            }
            JsonShape::Items | JsonShape::OrBool | JsonShape::OrList => return self.json_shape(inner, data, &at.inside(field)),
            JsonShape::Time => match self.time(field, data, at)?.filter(|(seconds, _)| *seconds != timestamp::ZERO) {
                Some((seconds, _)) => timestamp::text_into(seconds, None, self.out),
                None => self.out.extend_from_slice(b"null"),
            },
            JsonShape::MicroTime => {
                match self.time(field, data, at)?.filter(|(seconds, nanos)| *seconds != timestamp::ZERO || *nanos / 1000 != 0) {
                    Some((seconds, nanos)) => timestamp::text_into(seconds, Some(nanos), self.out),
                    None => self.out.extend_from_slice(b"null"),
                }
            }
            JsonShape::Quantity => match self.only(field, data, at)? {
                Some(text) => self.quantity(text)?,
                None => self.out.extend_from_slice(b"\"0\""),
            },
            JsonShape::IntOrString => self.int_or_string(field, data, at)?,
            JsonShape::Raw => match self.only(field, data, at)?.filter(|raw| !raw.is_empty()) {
                Some(json) => raw::compact_into(json, self.out).ok_or(ProtoError::Raw(field.name()))?,
                None => self.out.extend_from_slice(b"null"),
            },
        }
        Ok(())
    }

    fn quantity(&mut self, text: &[u8]) -> Result<()> {
        self.out.push(b'"');
        if quantity::is_plainly_canonical(text) {
            self.out.extend_from_slice(text);
        } else {
            let text = std::str::from_utf8(text).map_err(|_| ProtoError::Quantity(quantity::FORMAT))?;
            self.out.extend_from_slice(quantity::canonical(text).map_err(ProtoError::Quantity)?.as_bytes());
        }
        self.out.push(b'"');
        Ok(())
    }

    fn int_or_string(&mut self, field: &Field, data: &[u8], at: &At<'_>) -> Result<()> {
        let (mut kind, mut int, mut text) = (0, 0, &[][..]);
        let mut reader = Reader::new(data);
        while let Some((number, wire)) = reader.tag()? {
            match (number, wire) {
                (1, VARINT) => kind = reader.varint()?,
                (2, VARINT) => int = reader.varint()? as i32,
                (3, LEN) => text = reader.bytes()?,
                (1..=3, _) => return Err(ProtoError::WireType(field.name())),
                _ => self.unknown(field, &mut reader, wire, at, number)?,
            }
        }
        match kind {
            0 => self.integer(i64::from(int)),
            1 => self.string(text),
            _ => return Err(ProtoError::Value(field.name())),
        }
        Ok(())
    }

    /// A message that has fields, but is no object.
    fn json_shape(&mut self, message: &'static MessageType, data: &[u8], at: &At<'_>) -> Result<()> {
        if at.depth > MESSAGE_DEPTH_MAX {
            return Err(ProtoError::Depth);
        }
        let (base, _) = self.find(message, data, at)?;
        let (value_type, other) = (self.slots[base], self.slots.get(base + 1).copied().unwrap_or_default());
        self.slots.truncate(base);
        let fields = &message.fields;
        match message.json_shape {
            JsonShape::OrBool if other.seen > 0 => self.value(&fields[1], other.of(data), at),
            JsonShape::OrBool => self.number(&fields[0], value_type.from, at),
            JsonShape::OrList if other.seen > 0 => self.array(&fields[1], other, data, at),
            JsonShape::OrList if value_type.seen > 0 => self.value(&fields[0], value_type.of(data), at),
            JsonShape::OrList => {
                self.out.extend_from_slice(b"null");
                Ok(())
            }
            _ => self.array(&fields[0], value_type, data, at),
        }
    }

    /// Passes over the value of a field that is not known.
    #[cold]
    fn unknown(&mut self, field: &Field, reader: &mut Reader<'_>, wire: u8, at: &At<'_>, number: u32) -> Result<()> {
        self.leave_out(&at.inside(field), Some(number));
        reader.skip(wire)
    }

    /// Key and value of a map's entry; what is missing is empty.
    fn entry<'d>(&mut self, field: &Field, data: &'d [u8], at: &At<'_>) -> Result<(&'d [u8], &'d [u8])> {
        let (mut key, mut value) = (&[][..], &[][..]);
        let mut reader = Reader::new(data);
        while let Some((number, wire)) = reader.tag()? {
            match (number, wire) {
                (1, LEN) => key = reader.bytes()?,
                (2, LEN) => value = reader.bytes()?,
                (1 | 2, _) => return Err(ProtoError::WireType(field.name())),
                _ => self.unknown(field, &mut reader, wire, at, number)?,
            }
        }
        Ok((key, value))
    }

    /// The value of field 1 of a message that has no other.
    fn only<'d>(&mut self, field: &Field, data: &'d [u8], at: &At<'_>) -> Result<Option<&'d [u8]>> {
        let mut found = None;
        let mut reader = Reader::new(data);
        while let Some((number, wire)) = reader.tag()? {
            match (number, wire) {
                (1, LEN) => found = Some(reader.bytes()?),
                (1, _) => return Err(ProtoError::Tag),
                _ => self.unknown(field, &mut reader, wire, at, number)?,
            }
        }
        Ok(found)
    }

    /// Seconds and nanoseconds; none for an empty message, which is Go's zero time.
    fn time(&mut self, field: &Field, data: &[u8], at: &At<'_>) -> Result<Option<(i64, i32)>> {
        let (mut seconds, mut nanos) = (0, 0);
        let mut reader = Reader::new(data);
        while let Some((number, wire)) = reader.tag()? {
            match (number, wire) {
                (1, VARINT) => seconds = reader.varint()? as i64,
                (2, VARINT) => nanos = reader.varint()? as i32,
                (1 | 2, _) => return Err(ProtoError::Tag),
                _ => self.unknown(field, &mut reader, wire, at, number)?,
            }
        }
        Ok((!data.is_empty()).then_some((seconds, nanos)))
    }
}

fn broken_string_into(data: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in data.utf8_chunks() {
        let mut valid = Vec::with_capacity(chunk.valid().len() + 2);
        string_into(chunk.valid(), &mut valid);
        out.extend_from_slice(&valid[1..valid.len() - 1]);
        out.extend(br"\ufffd".repeat(chunk.invalid().len()));
    }
    out.push(b'"');
}
