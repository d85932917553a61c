//! A JSON object as the bytes that Go's generated code makes of the same object: ascending numbers, sorted maps, zero values written.

use std::{borrow::Cow, cell::Cell};

use base64::{
    Engine, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

use super::{
    backward::BackwardBuffer,
    error::{ProtoError, Result},
    schema::{Cardinality, Field, JsonShape, MessageRef, MessageType, SCHEMA, Schema, ValueType},
    tape::{self, Kind, Node},
    wire::{FIXED64, VARINT},
};
use go::{quantity, time, timestamp};

/// Go reads base64 whose last character has bits too many.
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The member that is not there. Index 0 is the whole object, which is no member.
const NONE: u32 = 0;

/// The most that a thread keeps of its buffers, bytes: enough for objects of some 20 KiB.
const KEPT_BYTES: usize = 128 << 10;

thread_local! {
    /// What the last message of this thread was made in, for the next one: a list makes thousands.
    static BUFFERS: Cell<Buffers> = Cell::default();
}

/// What a message is made in.
#[derive(Default)]
struct Buffers {
    nodes: Vec<Node>,
    places: Vec<u32>,
    list: Vec<u32>,
    backward: BackwardBuffer,
}

impl Buffers {
    fn bytes(&self) -> usize {
        let words = self.places.capacity() + self.list.capacity();
        self.nodes.capacity() * size_of::<Node>() + words * size_of::<u32>() + self.backward.capacity()
    }
}

/// The message of a whole object; `open`: that is given without its first bracket.
pub(super) fn message(message: MessageRef, json: &[u8], open: bool) -> Result<Vec<u8>> {
    let mut buffers = BUFFERS.take();
    let made = write(message, json, open, &mut buffers).map(|()| buffers.backward.written().to_vec());
    if buffers.bytes() <= KEPT_BYTES {
        BUFFERS.set(buffers);
    }
    made
}

fn write(message: MessageRef, text: &[u8], open: bool, buffers: &mut Buffers) -> Result<()> {
    let Buffers { nodes, places, list, backward } = buffers;
    tape::read(text, open, nodes)?;
    if nodes[0].kind != Kind::Object {
        return Err(ProtoError::Json(0));
    }
    places.clear();
    list.clear();
    backward.clear(text.len());
    let schema = &*SCHEMA;
    MessageWriter { schema, text, nodes, places, list, backward }.object(schema.message(message), 0)
}

struct MessageWriter<'t> {
    schema: &'static Schema,
    text: &'t [u8],
    nodes: &'t [Node],
    /// The values of the members of the messages that are being written, the innermost last; [`NONE`] for what is missing.
    places: &'t mut Vec<u32>,
    /// The elements of the arrays and the names of the maps that are being written, the innermost last.
    list: &'t mut Vec<u32>,
    backward: &'t mut BackwardBuffer,
}

impl<'t> MessageWriter<'t> {
    /// The fields of a message, of an object.
    fn object(&mut self, message: &'static MessageType, object: u32) -> Result<()> {
        let base = self.open(message);
        let end = self.nodes[object as usize].next;
        let (mut name, mut hint) = (object + 1, 0);
        while name < end {
            if let Some(place) = self.place(message, name, hint) {
                let null = self.nodes[name as usize + 1].kind == Kind::Null;
                self.places[base + place] = if null { NONE } else { name + 1 };
                hint = place + 1;
            }
            name = self.nodes[name as usize + 1].next;
        }
        self.fields(message, base)?;
        self.places.truncate(base);
        Ok(())
    }

    /// Places for the members of a message, all empty.
    fn open(&mut self, message: &MessageType) -> usize {
        let base = self.places.len();
        self.places.resize(base + message.members.len(), NONE);
        base
    }

    /// The place of the member of this name. Members mostly come in order, so the search begins behind the last one.
    fn place(&self, message: &MessageType, name: u32, hint: usize) -> Option<usize> {
        let name = self.string(name);
        let found = |names: &[&str]| names.iter().position(|known| known.as_bytes() == &*name);
        found(&message.members[hint..]).map(|place| hint + place).or_else(|| found(&message.members[..hint]))
    }

    /// Representation of a string, or name of a member.
    fn string(&self, node: u32) -> Cow<'t, [u8]> {
        let text = self.raw(node);
        if self.nodes[node as usize].kind == Kind::Escaped { Cow::Owned(tape::unescaped(text)) } else { Cow::Borrowed(text) }
    }

    fn raw(&self, node: u32) -> &'t [u8] {
        let Node { start, end, .. } = self.nodes[node as usize];
        &self.text[start as usize..end as usize]
    }

    /// The fields of a message whose members are known, the last first.
    fn fields(&mut self, message: &'static MessageType, base: usize) -> Result<()> {
        for i in message.by_number.iter().rev() {
            let field = &message.fields[usize::from(*i)];
            let at = base + usize::from(field.place);
            match (field.cardinality, field.value_type) {
                (Cardinality::Inline, ValueType::Message(inner)) => {
                    let before = self.backward.len();
                    self.fields(self.schema.message(inner), at)?;
                    self.backward.close(field.number, before);
                }
                _ => self.field(field, self.places[at])?,
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, value: u32) -> Result<()> {
        match field.cardinality {
            _ if value == NONE && !field.in_law => Ok(()),
            Cardinality::Optional if value == NONE => Ok(()),
            Cardinality::Repeated => self.repeated(field, value),
            Cardinality::Map => self.map(field, value),
            _ => match field.value_type {
                ValueType::Bytes if value == NONE => Ok(()),
                ValueType::Message(inner) if value == NONE && self.schema.message(inner).json_shape == JsonShape::Items => Ok(()),
                _ => self.value_type(field, field.number, value),
            },
        }
    }

    /// One value with its tag.
    fn value_type(&mut self, field: &Field, number: u32, value: u32) -> Result<()> {
        let wrong = ProtoError::Member(field.name());
        match field.value_type {
            ValueType::Bool => {
                self.backward.byte(u8::from(self.boolean(value).ok_or(wrong)?));
                self.backward.tag(number, VARINT);
            }
            ValueType::Int32 => {
                let value = i32::try_from(self.integer(value).ok_or(wrong)?).map_err(|_| wrong)?;
                self.backward.varint(i64::from(value) as u64);
                self.backward.tag(number, VARINT);
            }
            ValueType::Int64 => {
                self.backward.varint(self.integer(value).ok_or(wrong)? as u64);
                self.backward.tag(number, VARINT);
            }
            ValueType::Double => {
                self.backward.bytes(&self.double(value).ok_or(wrong)?.to_bits().to_le_bytes());
                self.backward.tag(number, FIXED64);
            }
            ValueType::String => {
                let before = self.backward.len();
                self.backward.bytes(&self.text(value).ok_or(wrong)?);
                self.backward.close(number, before);
            }
            ValueType::Bytes => {
                let before = self.backward.len();
                self.backward.bytes(&self.base64(value).ok_or(wrong)?);
                self.backward.close(number, before);
            }
            ValueType::Message(inner) => {
                let before = self.backward.len();
                self.message(field, inner, value)?;
                self.backward.close(number, before);
            }
        }
        Ok(())
    }

    fn kind(&self, value: u32) -> Kind {
        if value == NONE { Kind::Null } else { self.nodes[value as usize].kind }
    }

    fn boolean(&self, value: u32) -> Option<bool> {
        match self.kind(value) {
            Kind::Null | Kind::False => Some(false),
            Kind::True => Some(true),
            _ => None,
        }
    }

    fn integer(&self, value: u32) -> Option<i64> {
        match self.kind(value) {
            Kind::Null => Some(0),
            Kind::Number => std::str::from_utf8(self.raw(value)).ok()?.parse().ok(),
            _ => None,
        }
    }

    fn double(&self, value: u32) -> Option<f64> {
        match self.kind(value) {
            Kind::Null => Some(0.0),
            Kind::Number => std::str::from_utf8(self.raw(value)).ok()?.parse().ok().filter(|value: &f64| value.is_finite()),
            _ => None,
        }
    }

    fn text(&self, value: u32) -> Option<Cow<'t, [u8]>> {
        match self.kind(value) {
            Kind::Null => Some(Cow::Borrowed(&[])),
            Kind::Plain | Kind::Escaped => Some(self.string(value)),
            _ => None,
        }
    }

    fn base64(&self, value: u32) -> Option<Vec<u8>> {
        let text = self.text(value)?;
        let lines = text.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
        let text = if lines { text.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect() } else { text };
        BASE64.decode(text).ok()
    }

    fn repeated(&mut self, field: &Field, array: u32) -> Result<()> {
        match self.kind(array) {
            Kind::Null => return Ok(()),
            Kind::Array => {}
            _ => return Err(ProtoError::Member(field.name())),
        }
        let base = self.list.len();
        let end = self.nodes[array as usize].next;
        let mut element = array + 1;
        while element < end {
            self.list.push(element);
            element = self.nodes[element as usize].next;
        }
        while self.list.len() > base {
            let element = self.list.pop().expect("more than there were before");
            self.value_type(field, field.number, self.unless_null(element))?;
        }
        Ok(())
    }

    fn unless_null(&self, value: u32) -> u32 {
        if self.kind(value) == Kind::Null { NONE } else { value }
    }

    /// Sorted by key; of equal keys the last one counts.
    fn map(&mut self, field: &Field, object: u32) -> Result<()> {
        match self.kind(object) {
            Kind::Null => return Ok(()),
            Kind::Object => {}
            _ => return Err(ProtoError::Member(field.name())),
        }
        let base = self.list.len();
        let end = self.nodes[object as usize].next;
        let mut name = object + 1;
        let mut sorted = true;
        while name < end {
            let plain = self.nodes[name as usize].kind == Kind::Plain;
            sorted &= plain && (self.list.len() == base || self.raw(self.list[self.list.len() - 1]) < self.raw(name));
            self.list.push(name);
            name = self.nodes[name as usize + 1].next;
        }
        if !sorted {
            let mut names: Vec<(Cow<'t, [u8]>, u32)> = self.list[base..].iter().map(|name| (self.string(*name), *name)).collect();
            self.list.truncate(base);
            names.sort_by(|a, b| a.0.cmp(&b.0));
            let last = |i: usize| names.get(i + 1).is_none_or(|next| next.0 != names[i].0);
            self.list.extend((0..names.len()).filter(|i| last(*i)).map(|i| names[i].1));
        }
        while self.list.len() > base {
            let name = self.list.pop().expect("more than there were before");
            self.entry(field, name)?;
        }
        Ok(())
    }

    fn entry(&mut self, field: &Field, name: u32) -> Result<()> {
        let before = self.backward.len();
        let value = self.unless_null(name + 1);
        if value != NONE || field.value_type != ValueType::Bytes {
            self.value_type(field, 2, value)?;
        }
        let key = self.backward.len();
        self.backward.bytes(&self.string(name));
        self.backward.close(1, key);
        self.backward.close(field.number, before);
        Ok(())
    }

    /// The bytes of a message, without its length.
    fn message(&mut self, field: &Field, inner: MessageRef, value: u32) -> Result<()> {
        let inner = self.schema.message(inner);
        let kind = self.kind(value);
        let wrong = ProtoError::Member(field.name());
        match (inner.json_shape, kind) {
            (JsonShape::Object, Kind::Object) => self.object(inner, value)?,
            (JsonShape::Object, Kind::Null) => {
                let base = self.open(inner);
                self.fields(inner, base)?;
                self.places.truncate(base);
            }
            (JsonShape::Time | JsonShape::MicroTime, Kind::Plain | Kind::Escaped) => {
                self.time(inner.json_shape, &self.string(value)).ok_or(wrong)?
            }
            (JsonShape::Quantity, Kind::Plain | Kind::Escaped | Kind::Number) => self.quantity(&self.string(value)).ok_or(wrong)?,
            (JsonShape::Quantity, Kind::Null) => self.quantity(b"0").ok_or(wrong)?,
            (JsonShape::IntOrString, _) => self.int_or_string(value).ok_or(wrong)?,
            (JsonShape::OrBool, Kind::Object) => {
                self.value_type(&inner.fields[1], inner.fields[1].number, value)?;
                self.flag(inner, true);
            }
            (JsonShape::OrBool, Kind::Null | Kind::True | Kind::False) => self.flag(inner, kind == Kind::True),
            (JsonShape::OrList, Kind::Object) => self.value_type(&inner.fields[0], inner.fields[0].number, value)?,
            (JsonShape::OrList, Kind::Array) => self.repeated(&inner.fields[1], value)?,
            (JsonShape::Items, Kind::Array) => self.repeated(&inner.fields[0], value)?,
            (JsonShape::Raw | JsonShape::Time | JsonShape::MicroTime | JsonShape::Items | JsonShape::OrList, Kind::Null) => {}
            (JsonShape::Raw, _) => {
                let before = self.backward.len();
                self.raw_json(value);
                self.backward.close(1, before);
            }
            _ => return Err(wrong),
        }
        Ok(())
    }

    /// The first field of a message that is a boolean or something else.
    fn flag(&mut self, message: &MessageType, flag: bool) {
        self.backward.byte(u8::from(flag));
        self.backward.tag(message.fields[0].number, VARINT);
    }

    fn time(&mut self, json_shape: JsonShape, text: &[u8]) -> Option<()> {
        let (seconds, nanos) = time::parse(std::str::from_utf8(text).ok()?).ok()?;
        let shown = if json_shape == JsonShape::MicroTime { nanos / 1000 * 1000 } else { 0 };
        if (seconds, nanos) != (timestamp::ZERO, 0) {
            self.backward.varint(i64::from(shown) as u64);
            self.backward.tag(2, VARINT);
            self.backward.varint(seconds as u64);
            self.backward.tag(1, VARINT);
        }
        Some(())
    }

    fn quantity(&mut self, text: &[u8]) -> Option<()> {
        let before = self.backward.len();
        if quantity::is_plainly_canonical(text) {
            self.backward.bytes(text);
        } else {
            self.backward.bytes(quantity::canonical(std::str::from_utf8(text).ok()?).ok()?.as_bytes());
        }
        self.backward.close(1, before);
        Some(())
    }

    fn int_or_string(&mut self, value: u32) -> Option<()> {
        let is_text = matches!(self.kind(value), Kind::Plain | Kind::Escaped);
        let (int, text) =
            if is_text { (0, self.string(value)) } else { (i32::try_from(self.integer(value)?).ok()?, Cow::Borrowed(&[][..])) };
        let before = self.backward.len();
        self.backward.bytes(&text);
        self.backward.close(3, before);
        self.backward.varint(i64::from(int) as u64);
        self.backward.tag(2, VARINT);
        self.backward.byte(u8::from(is_text));
        self.backward.tag(1, VARINT);
        Some(())
    }

    /// The text of a value as it stands; a string with its quotes.
    fn raw_json(&mut self, value: u32) {
        let Node { kind, start, end, .. } = self.nodes[value as usize];
        let quotes = usize::from(matches!(kind, Kind::Plain | Kind::Escaped));
        self.backward.bytes(&self.text[start as usize - quotes..end as usize + quotes]);
    }
}
