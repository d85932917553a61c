//! DER as Go's `encoding/asn1` reads it into structures: certificate requests are read so, certificates by another reader ([`crate::der`]).
//!
//! The two differ: here tags may have several bytes, elements may follow at the end of a structure, and the value of an attribute may be of any type.

use std::fmt;

use crate::Malformed;

/// Tags of the universal class.
pub(crate) mod tag {
    pub(crate) const BOOLEAN: u32 = 1;
    pub(crate) const INTEGER: u32 = 2;
    pub(crate) const BIT_STRING: u32 = 3;
    pub(crate) const OCTET_STRING: u32 = 4;
    pub(crate) const OID: u32 = 6;
    pub(crate) const SEQUENCE: u32 = 16;
    pub(crate) const SET: u32 = 17;
}

/// The class of tags that every ASN.1 knows.
pub(crate) const UNIVERSAL: u8 = 0;
/// The class of tags that mean something in their structure only.
const CONTEXT_SPECIFIC: u8 = 2;

/// Lengths above this are not read.
const LENGTH_SHIFTED_MAX: usize = 1 << 23;

/// Tag and length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) class: u8,
    pub(crate) tag: u32,
    length: usize,
    pub(crate) is_compound: bool,
}

/// As `%+v` prints it.
impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header { class, tag, length, is_compound } = self;
        write!(f, "{{class:{class} tag:{tag} length:{length} isCompound:{is_compound}}}")
    }
}

/// One element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'d> {
    pub(crate) header: Header,
    /// What is in it.
    pub(crate) contents: &'d [u8],
    /// Tag, length and contents.
    pub(crate) whole: &'d [u8],
}

/// What a field of a structure holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// The tag, and whether it holds elements; none where any element will do.
    expected: Option<(u32, bool)>,
    /// The name of Go's type, for the error.
    name: &'static str,
    optional: bool,
    /// The tag of the class `CONTEXT_SPECIFIC` in place of the universal one, or around it.
    tagged: Option<(u32, Tagging)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tagging {
    Implicit,
    Explicit,
}

impl Field {
    /// Any element: a `RawValue`.
    pub(crate) const ANY: Field = Field { expected: None, name: "RawValue", optional: false, tagged: None };
    /// `asn1.ObjectIdentifier`.
    pub(crate) const OID: Field = Field::primitive(tag::OID, "ObjectIdentifier");
    /// `asn1.BitString`.
    pub(crate) const BITS: Field = Field::primitive(tag::BIT_STRING, "BitString");
    /// `int`.
    pub(crate) const INT: Field = Field::primitive(tag::INTEGER, "int");
    /// `bool`.
    pub(crate) const BOOL: Field = Field::primitive(tag::BOOLEAN, "bool");
    /// `[]byte`.
    pub(crate) const BYTES: Field = Field::primitive(tag::OCTET_STRING, "");

    const fn primitive(tag: u32, name: &'static str) -> Field {
        Field { expected: Some((tag, false)), name, optional: false, tagged: None }
    }

    /// A structure or a list of this Go type.
    pub(crate) const fn sequence(name: &'static str) -> Field {
        Field { expected: Some((tag::SEQUENCE, true)), name, optional: false, tagged: None }
    }

    /// A set of this Go type.
    pub(crate) const fn set(name: &'static str) -> Field {
        Field { expected: Some((tag::SET, true)), name, optional: false, tagged: None }
    }

    pub(crate) const fn optional(self) -> Field {
        Field { optional: true, ..self }
    }

    /// Tagged with this number in place of its own tag.
    pub(crate) const fn implicit(self, number: u32) -> Field {
        Field { tagged: Some((number, Tagging::Implicit)), ..self }
    }

    /// Inside of an element with this number.
    pub(crate) const fn explicit(self, number: u32) -> Field {
        Field { tagged: Some((number, Tagging::Explicit)), ..self }
    }
}

/// As `%+v` prints the parameters of a field. Of a tag Go prints where it is in memory.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let explicit = matches!(self.tagged, Some((_, Tagging::Explicit)));
        let tag = self.tagged.map_or("<nil>".to_owned(), |(number, _)| number.to_string());
        let optional = self.optional;
        write!(
            f,
            "{{optional:{optional} explicit:{explicit} application:false private:false defaultValue:<nil> tag:{tag} stringType:0 timeType:0 \
set:false omitEmpty:false}}"
        )
    }
}

/// The data is no DER.
pub(crate) fn syntax(why: &str) -> Malformed {
    format!("asn1: syntax error: {why}").into()
}

/// The data is DER of something else.
pub(crate) fn structure(why: &str) -> Malformed {
    format!("asn1: structure error: {why}").into()
}

/// Elements that are read one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'d> {
    bytes: &'d [u8],
    at: usize,
}

impl<'d> Reader<'d> {
    pub(crate) fn new(bytes: &'d [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Whether everything was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The next element, which must be what the field holds.
    ///
    /// # Errors
    /// It is not, or there is none.
    pub(crate) fn field(&mut self, field: Field) -> Result<Element<'d>, Malformed> {
        self.optional(field)?.ok_or_else(|| syntax("sequence truncated"))
    }

    /// The next element; none if it is another one or there is none, and the field may be missing.
    ///
    /// # Errors
    /// The data is wrong, or the element is another one and the field may not be missing.
    pub(crate) fn optional(&mut self, field: Field) -> Result<Option<Element<'d>>, Malformed> {
        let begin = self.at;
        if self.is_empty() {
            return if field.optional { Ok(None) } else { Err(syntax("sequence truncated")) };
        }
        let mut header = self.header()?;
        if let Some((number, Tagging::Explicit)) = field.tagged {
            if self.is_empty() {
                return Err(structure("explicit tag has no child"));
            }
            let is_it = header.class == CONTEXT_SPECIFIC && header.tag == number && (header.length == 0 || header.is_compound);
            match is_it {
                true if header.length > 0 => header = self.header()?,
                true => return Err(structure("zero length explicit tag was not an asn1.Flag")),
                false if field.optional => {
                    self.at = begin;
                    return Ok(None);
                }
                false => return Err(structure("explicitly tagged member didn't match")),
            }
        }
        if let Some((tag, is_compound)) = field.expected {
            let (class, tag) = match field.tagged {
                Some((number, Tagging::Implicit)) => (CONTEXT_SPECIFIC, number),
                _ => (UNIVERSAL, tag),
            };
            if (header.class, header.tag, header.is_compound) != (class, tag, is_compound) {
                if field.optional {
                    self.at = begin;
                    return Ok(None);
                }
                let (name, at) = (field.name, self.at);
                return Err(structure(&format!("tags don't match ({tag} vs {header}) {field} {name} @{at}")));
            }
        }
        let contents = self.bytes[self.at..].get(..header.length).ok_or_else(|| syntax("data truncated"))?;
        self.at += header.length;
        Ok(Some(Element { header, contents, whole: &self.bytes[begin..self.at] }))
    }

    /// All elements, each of which must be what the field holds; they are looked at before the first one is returned.
    ///
    /// # Errors
    /// One is not.
    pub(crate) fn all(self, field: Field) -> Result<impl Iterator<Item = Element<'d>>, Malformed> {
        let (mut ahead, mut again) = (self, self);
        while ahead.next_of(field)?.is_some() {}
        Ok(std::iter::from_fn(move || again.next_of(field).ok().flatten()))
    }

    /// The next element of a list; none at its end.
    fn next_of(&mut self, field: Field) -> Result<Option<Element<'d>>, Malformed> {
        if self.is_empty() {
            return Ok(None);
        }
        let begin = self.at;
        let header = self.header()?;
        if field.expected.is_some_and(|(tag, is_compound)| (header.class, header.tag, header.is_compound) != (UNIVERSAL, tag, is_compound))
        {
            return Err(structure("sequence tag mismatch"));
        }
        let contents = self.bytes[self.at..].get(..header.length).ok_or_else(|| syntax("truncated sequence"))?;
        self.at += header.length;
        Ok(Some(Element { header, contents, whole: &self.bytes[begin..self.at] }))
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| syntax("truncated tag or length"))?;
        self.at += 1;
        Ok(byte)
    }

    /// `parseTagAndLength`.
    fn header(&mut self) -> Result<Header, Malformed> {
        let first = self.byte()?;
        let mut tag = u32::from(first & 0x1f);
        if tag == 0x1f {
            let (number, length) = base128(&self.bytes[self.at..])?;
            self.at += length;
            if number < 0x1f {
                return Err(syntax("non-minimal tag"));
            }
            tag = number;
        }
        let mut length = usize::from(self.byte()?);
        if length & 0x80 != 0 {
            let count = length & 0x7f;
            if count == 0 {
                return Err(syntax("indefinite length found (not DER)"));
            }
            length = 0;
            for _ in 0..count {
                let byte = self.byte()?;
                if length >= LENGTH_SHIFTED_MAX {
                    return Err(structure("length too large"));
                }
                length = (length << 8) | usize::from(byte);
                if length == 0 {
                    return Err(structure("superfluous leading zeros in length"));
                }
            }
            if length < 0x80 {
                return Err(structure("non-minimal length"));
            }
        }
        Ok(Header { class: first >> 6, tag, length, is_compound: first & 0x20 != 0 })
    }
}

/// A number in base 128, and its length in bytes.
fn base128(bytes: &[u8]) -> Result<(u32, usize), Malformed> {
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().enumerate() {
        if at == 5 {
            return Err(structure("base 128 integer too large"));
        }
        if at == 0 && *byte == 0x80 {
            return Err(syntax("integer is not minimally encoded"));
        }
        number = (number << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            let fits = i32::try_from(number).ok().and_then(|number| u32::try_from(number).ok());
            return Ok((fits.ok_or_else(|| structure("base 128 integer too large"))?, at + 1));
        }
    }
    Err(syntax("truncated base 128 integer"))
}

/// The bytes of an object identifier. Equal ones have equal bytes, because each number has one form.
pub(crate) fn oid(contents: &[u8]) -> Result<&[u8], Malformed> {
    if contents.is_empty() {
        return Err(syntax("zero length OBJECT IDENTIFIER"));
    }
    let mut rest = contents;
    while !rest.is_empty() {
        rest = &rest[base128(rest)?.1..];
    }
    Ok(contents)
}

/// Bytes of a bit string, and how many bits of the last one are none of it.
pub(crate) fn bits(contents: &[u8]) -> Result<(&[u8], u8), Malformed> {
    let (unused, bytes) = contents.split_first().ok_or_else(|| syntax("zero length BIT STRING"))?;
    let fits = match bytes.last() {
        None => *unused == 0,
        Some(last) => *unused <= 7 && last & ((1 << unused) - 1) == 0,
    };
    if fits { Ok((bytes, *unused)) } else { Err(syntax("invalid padding bits in BIT STRING")) }
}

/// An integer of 64 bits.
pub(crate) fn int64(contents: &[u8]) -> Result<i64, Malformed> {
    match contents {
        [] => return Err(structure("empty integer")),
        [0x00, next, ..] if next & 0x80 == 0 => return Err(structure("integer not minimally-encoded")),
        [0xff, next, ..] if next & 0x80 != 0 => return Err(structure("integer not minimally-encoded")),
        _ if contents.len() > 8 => return Err(structure("integer too large")),
        _ => {}
    }
    let begin = if contents[0] & 0x80 == 0 { 0 } else { -1 };
    Ok(contents.iter().fold(begin, |number, byte| (number << 8) | i64::from(*byte)))
}

/// `true` or `false`.
pub(crate) fn boolean(contents: &[u8]) -> Result<bool, Malformed> {
    match contents {
        [0x00] => Ok(false),
        [0xff] => Ok(true),
        _ => Err(syntax("invalid boolean")),
    }
}
