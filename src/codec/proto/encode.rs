//! A JSON object as the bytes that Go's generated code makes of the same object: ascending numbers, sorted maps, zero values written.

use std::{borrow::Cow, cell::Cell};

use base64::{
    Engine, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

use super::{
    back::Back,
    error::{ProtoError, Result},
    schema::{Field, Form, How, MessageRef, MessageType, One, SCHEMA, Schema},
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
    back: Back,
}

impl Buffers {
    fn bytes(&self) -> usize {
        let words = self.places.capacity() + self.list.capacity();
        self.nodes.capacity() * size_of::<Node>() + words * size_of::<u32>() + self.back.capacity()
    }
}

/// The message of a whole object; `open`: that is given without its first bracket.
pub(super) fn message(message: MessageRef, json: &[u8], open: bool) -> Result<Vec<u8>> {
    let mut buffers = BUFFERS.take();
    let made = write(message, json, open, &mut buffers).map(|()| buffers.back.written().to_vec());
    if buffers.bytes() <= KEPT_BYTES {
        BUFFERS.set(buffers);
    }
    made
}

fn write(message: MessageRef, text: &[u8], open: bool, buffers: &mut Buffers) -> Result<()> {
    let Buffers { nodes, places, list, back } = buffers;
    tape::read(text, open, nodes)?;
    if nodes[0].kind != Kind::Object {
        return Err(ProtoError::Json(0));
    }
    places.clear();
    list.clear();
    back.clear(text.len());
    let schema = &*SCHEMA;
    Encoder { schema, text, nodes, places, list, back }.object(schema.message(message), 0)
}

struct Encoder<'t> {
    schema: &'static Schema,
    text: &'t [u8],
    nodes: &'t [Node],
    /// The values of the members of the messages that are being written, the innermost last; [`NONE`] for what is missing.
    places: &'t mut Vec<u32>,
    /// The elements of the arrays and the names of the maps that are being written, the innermost last.
    list: &'t mut Vec<u32>,
    back: &'t mut Back,
}

impl<'t> Encoder<'t> {
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

    /// Content of a string, or name of a member.
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
            match (field.how, field.one) {
                (How::Inline, One::Message(inner)) => {
                    let before = self.back.len();
                    self.fields(self.schema.message(inner), at)?;
                    self.back.close(field.number, before);
                }
                _ => self.field(field, self.places[at])?,
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, value: u32) -> Result<()> {
        match field.how {
            _ if value == NONE && !field.in_law => Ok(()),
            How::Optional if value == NONE => Ok(()),
            How::Repeated => self.repeated(field, value),
            How::Map => self.map(field, value),
            _ => match field.one {
                One::Bytes if value == NONE => Ok(()),
                One::Message(inner) if value == NONE && self.schema.message(inner).form == Form::Items => Ok(()),
                _ => self.one(field, field.number, value),
            },
        }
    }

    /// One value with its tag.
    fn one(&mut self, field: &Field, number: u32, value: u32) -> Result<()> {
        let wrong = ProtoError::Member(field.name());
        match field.one {
            One::Bool => {
                self.back.byte(u8::from(self.boolean(value).ok_or(wrong)?));
                self.back.tag(number, VARINT);
            }
            One::Int32 => {
                let value = i32::try_from(self.integer(value).ok_or(wrong)?).map_err(|_| wrong)?;
                self.back.varint(i64::from(value) as u64);
                self.back.tag(number, VARINT);
            }
            One::Int64 => {
                self.back.varint(self.integer(value).ok_or(wrong)? as u64);
                self.back.tag(number, VARINT);
            }
            One::Double => {
                self.back.bytes(&self.double(value).ok_or(wrong)?.to_bits().to_le_bytes());
                self.back.tag(number, FIXED64);
            }
            One::String => {
                let before = self.back.len();
                self.back.bytes(&self.text(value).ok_or(wrong)?);
                self.back.close(number, before);
            }
            One::Bytes => {
                let before = self.back.len();
                self.back.bytes(&self.base64(value).ok_or(wrong)?);
                self.back.close(number, before);
            }
            One::Message(inner) => {
                let before = self.back.len();
                self.message(field, inner, value)?;
                self.back.close(number, before);
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
            self.one(field, field.number, self.unless_null(element))?;
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
        let before = self.back.len();
        let value = self.unless_null(name + 1);
        if value != NONE || field.one != One::Bytes {
            self.one(field, 2, value)?;
        }
        let key = self.back.len();
        self.back.bytes(&self.string(name));
        self.back.close(1, key);
        self.back.close(field.number, before);
        Ok(())
    }

    /// The bytes of a message, without its length.
    fn message(&mut self, field: &Field, inner: MessageRef, value: u32) -> Result<()> {
        let inner = self.schema.message(inner);
        let kind = self.kind(value);
        let wrong = ProtoError::Member(field.name());
        match (inner.form, kind) {
            (Form::Object, Kind::Object) => self.object(inner, value)?,
            (Form::Object, Kind::Null) => {
                let base = self.open(inner);
                self.fields(inner, base)?;
                self.places.truncate(base);
            }
            (Form::Time | Form::MicroTime, Kind::Plain | Kind::Escaped) => self.time(inner.form, &self.string(value)).ok_or(wrong)?,
            (Form::Quantity, Kind::Plain | Kind::Escaped | Kind::Number) => self.quantity(&self.string(value)).ok_or(wrong)?,
            (Form::Quantity, Kind::Null) => self.quantity(b"0").ok_or(wrong)?,
            (Form::IntOrString, _) => self.int_or_string(value).ok_or(wrong)?,
            (Form::OrBool, Kind::Object) => {
                self.one(&inner.fields[1], inner.fields[1].number, value)?;
                self.flag(inner, true);
            }
            (Form::OrBool, Kind::Null | Kind::True | Kind::False) => self.flag(inner, kind == Kind::True),
            (Form::OrList, Kind::Object) => self.one(&inner.fields[0], inner.fields[0].number, value)?,
            (Form::OrList, Kind::Array) => self.repeated(&inner.fields[1], value)?,
            (Form::Items, Kind::Array) => self.repeated(&inner.fields[0], value)?,
            (Form::Raw | Form::Time | Form::MicroTime | Form::Items | Form::OrList, Kind::Null) => {}
            (Form::Raw, _) => {
                let before = self.back.len();
                self.raw_json(value);
                self.back.close(1, before);
            }
            _ => return Err(wrong),
        }
        Ok(())
    }

    /// The first field of a message that is a boolean or something else.
    fn flag(&mut self, message: &MessageType, flag: bool) {
        self.back.byte(u8::from(flag));
        self.back.tag(message.fields[0].number, VARINT);
    }

    fn time(&mut self, form: Form, text: &[u8]) -> Option<()> {
        let (seconds, nanos) = time::parse(std::str::from_utf8(text).ok()?).ok()?;
        let shown = if form == Form::MicroTime { nanos / 1000 * 1000 } else { 0 };
        if (seconds, nanos) != (timestamp::ZERO, 0) {
            self.back.varint(i64::from(shown) as u64);
            self.back.tag(2, VARINT);
            self.back.varint(seconds as u64);
            self.back.tag(1, VARINT);
        }
        Some(())
    }

    fn quantity(&mut self, text: &[u8]) -> Option<()> {
        let before = self.back.len();
        if quantity::is_plainly_canonical(text) {
            self.back.bytes(text);
        } else {
            self.back.bytes(quantity::canonical(std::str::from_utf8(text).ok()?).ok()?.as_bytes());
        }
        self.back.close(1, before);
        Some(())
    }

    fn int_or_string(&mut self, value: u32) -> Option<()> {
        let is_text = matches!(self.kind(value), Kind::Plain | Kind::Escaped);
        let (int, text) =
            if is_text { (0, self.string(value)) } else { (i32::try_from(self.integer(value)?).ok()?, Cow::Borrowed(&[][..])) };
        let before = self.back.len();
        self.back.bytes(&text);
        self.back.close(3, before);
        self.back.varint(i64::from(int) as u64);
        self.back.tag(2, VARINT);
        self.back.byte(u8::from(is_text));
        self.back.tag(1, VARINT);
        Some(())
    }

    /// The text of a value as it stands; a string with its quotes.
    fn raw_json(&mut self, value: u32) {
        let Node { kind, start, end, .. } = self.nodes[value as usize];
        let quotes = usize::from(matches!(kind, Kind::Plain | Kind::Escaped));
        self.back.bytes(&self.text[start as usize - quotes..end as usize + quotes]);
    }
}
