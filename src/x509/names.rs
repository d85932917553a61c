//! The names in certificates and requests as Go reads them: each kind of text, and what of a subject says who a client is.

use crate::Malformed;
use crate::asn1::{self, Element, Field};
use crate::der::{self, Reader, SET};

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// The attribute of a subject that is the user's uid: 1.3.6.1.4.1.57683.2.
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];

/// What a subject says of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The last CN; empty when there is none.
    pub common_name: String,
    /// Each O.
    pub organizations: Vec<String>,
    /// Each uid; there should be one at most.
    pub uids: Vec<String>,
}

impl Names {
    /// Reads the name of a certificate (`parseName`).
    ///
    /// # Errors
    /// Why Go could not read it.
    pub(crate) fn read(name: &[u8]) -> Result<Names, Malformed> {
        const SEQUENCE: &str = "x509: invalid RDNSequence";
        let mut names = Names::default();
        let mut sets = Reader::new(name).sequence().ok_or(SEQUENCE)?;
        while !sets.is_empty() {
            let mut set = Reader::new(sets.contents(SET).ok_or(SEQUENCE)?);
            while !set.is_empty() {
                let mut attribute = set.sequence().ok_or("x509: invalid RDNSequence: invalid attribute")?;
                let kind = attribute.oid().ok_or("x509: invalid RDNSequence: invalid attribute type")?;
                let value = attribute.any().ok_or("x509: invalid RDNSequence: invalid attribute value")?;
                let text = match text(value.tag, value.contents) {
                    Text::Is(text) => text,
                    Text::Wrong(why) => return Err(format!("x509: invalid RDNSequence: invalid attribute value: {why}").into()),
                    Text::None => {
                        let tag = value.tag;
                        return Err(format!("x509: invalid RDNSequence: invalid attribute value: unsupported string type: {tag}").into());
                    }
                };
                names.take(kind, text);
            }
        }
        Ok(names)
    }

    /// Reads the name of a request (`asn1.Unmarshal` into a `pkix.RDNSequence`): values of other types than texts are passed over.
    ///
    /// # Errors
    /// Why Go could not read it.
    pub(crate) fn of_request(name: &[u8]) -> Result<Names, Malformed> {
        let mut names = Names::default();
        let mut outer = asn1::Reader::new(name);
        let sequence = outer.field(Field::sequence("RDNSequence"))?;
        for set in asn1::Reader::new(sequence.contents).all(Field::set(""))? {
            for attribute in asn1::Reader::new(set.contents).all(Field::sequence(""))? {
                let mut members = asn1::Reader::new(attribute.contents);
                let kind = asn1::oid(members.field(Field::OID)?.contents)?;
                if let Some(text) = value(&members.field(Field::ANY)?)? {
                    names.take(kind, text);
                }
            }
        }
        if outer.is_empty() { Ok(names) } else { Err("x509: trailing data after X.509 Subject".into()) }
    }

    fn take(&mut self, kind: &[u8], text: String) {
        match kind {
            COMMON_NAME => self.common_name = text,
            ORGANIZATION => self.organizations.push(text),
            UID => self.uids.push(text),
            _ => {}
        }
    }

    /// Returns the uid; empty when there is none.
    ///
    /// # Errors
    /// There are several, or it is empty.
    pub fn uid(&self) -> Result<&str, String> {
        match &self.uids[..] {
            [] => Ok(""),
            [uid] if uid.is_empty() => Err("UID cannot be an empty string".to_owned()),
            [uid] => Ok(uid),
            uids => Err(format!("expected 1 UID, but found multiple: [{}]", uids.join(" "))),
        }
    }
}

/// The value of an attribute, if it is a text; of another type it must still be well formed.
fn value(value: &Element<'_>) -> Result<Option<String>, Malformed> {
    let (header, contents) = (value.header, value.contents);
    let Some(tag) = u8::try_from(header.tag).ok().filter(|_| header.class == asn1::UNIVERSAL && !header.is_compound) else {
        return Ok(None);
    };
    let time = |read: Option<i64>| read.ok_or_else(|| Malformed::from(format!("parsing time {:?}", String::from_utf8_lossy(contents))));
    let utf8 = std::str::from_utf8(contents).unwrap_or_default();
    match text(tag, contents) {
        Text::Is(text) => return Ok(Some(text)),
        Text::Wrong("invalid UTF-8 string") => return Err("asn1: invalid UTF-8 string".into()),
        Text::Wrong("invalid BMPString") => return Err("invalid BMPString".into()),
        Text::Wrong(why) => return Err(asn1::syntax(&format!("{} contains invalid character", why.trim_start_matches("invalid ")))),
        Text::None => {}
    }
    match tag {
        der::BOOLEAN => drop(asn1::boolean(contents)?),
        der::INTEGER => drop(asn1::int64(contents)?),
        der::BIT_STRING => drop(asn1::bits(contents)?),
        der::OID => drop(asn1::oid(contents)?),
        der::UTC_TIME => drop(time(der::utc_time(utf8))?),
        der::GENERALIZED_TIME => drop(time(der::generalized_time(&without_fraction(utf8)))?),
        _ => {}
    }
    Ok(None)
}

/// A time without its fraction of a second, if that is written as Go would write it.
fn without_fraction(text: &str) -> String {
    let Some((whole, rest)) = text.split_once('.') else { return text.to_owned() };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if whole.len() == 14 && (1..=9).contains(&digits) && !rest[..digits].ends_with('0') {
        format!("{whole}{}", &rest[digits..])
    } else {
        text.to_owned()
    }
}

/// What an element is, read as a text.
#[derive(Debug, PartialEq, Eq)]
enum Text {
    Is(String),
    /// A text of a kind that Go knows, with characters that it must not have.
    Wrong(&'static str),
    /// No text of a kind that Go knows.
    None,
}

/// Reads a text of one of the kinds that Go knows.
fn text(tag: u8, bytes: &[u8]) -> Text {
    let ascii = |is_one: fn(&u8) -> bool, why| {
        if bytes.iter().all(is_one) { Text::Is(bytes.iter().copied().map(char::from).collect()) } else { Text::Wrong(why) }
    };
    let read = |text: Option<String>, why| text.map_or(Text::Wrong(why), Text::Is);
    match tag {
        der::UTF8_STRING => read(String::from_utf8(bytes.to_vec()).ok(), "invalid UTF-8 string"),
        der::PRINTABLE_STRING => ascii(is_printable, "invalid PrintableString"),
        der::IA5_STRING => ascii(u8::is_ascii, "invalid IA5String"),
        der::NUMERIC_STRING => ascii(|byte| byte.is_ascii_digit() || *byte == b' ', "invalid NumericString"),
        // T.61 is read as ISO 8859-1, whose characters are the first of Unicode.
        der::T61_STRING => Text::Is(bytes.iter().copied().map(char::from).collect()),
        der::BMP_STRING => read(two_bytes_each(bytes), "invalid BMPString"),
        _ => Text::None,
    }
}

/// A PrintableString's characters, and `*` and `&`, which certificates have in spite of the standard.
fn is_printable(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(byte)
}

/// Characters of two bytes; a zero at the end is no part of the text.
fn two_bytes_each(bytes: &[u8]) -> Option<String> {
    let (pairs, []) = bytes.as_chunks::<2>() else { return None };
    let pairs = if let [first @ .., [0, 0]] = pairs { first } else { pairs };
    let character = |pair: &[u8; 2]| {
        let number = u16::from_be_bytes(*pair);
        // Surrogates are no characters by themselves; the others never become any.
        let is_none = matches!(number, 0xfdd0..=0xfdef | 0xfffe | 0xffff);
        char::from_u32(u32::from(number)).filter(|_| !is_none)
    };
    pairs.iter().map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_text() {
        for (tag, bytes, wanted) in [
            (der::UTF8_STRING, "jané".as_bytes(), "jané"),
            (der::T61_STRING, b"jan\xe9", "jané"),
            (der::BMP_STRING, b"\0j\0a\0n\0\xe9", "jané"),
            (der::BMP_STRING, b"\0j\0\0", "j"),
            (der::PRINTABLE_STRING, b"a*&'()+,-./:=? Z9", "a*&'()+,-./:=? Z9"),
            (der::NUMERIC_STRING, b"1 2", "1 2"),
            (der::IA5_STRING, b"a@b_c", "a@b_c"),
        ] {
            assert_eq!(text(tag, bytes), Text::Is(wanted.to_owned()), "{tag}");
        }
        for (tag, bytes) in [
            (der::UTF8_STRING, &b"\xff"[..]),
            (der::PRINTABLE_STRING, b"a@b"),
            (der::PRINTABLE_STRING, b"a_b"),
            (der::NUMERIC_STRING, b"a"),
            (der::IA5_STRING, b"\x80"),
            (der::BMP_STRING, b"\0"),
            (der::BMP_STRING, b"\xd8\x00"),
            (der::BMP_STRING, b"\xff\xfe"),
        ] {
            assert!(matches!(text(tag, bytes), Text::Wrong(_)), "{tag} {bytes:?}");
        }
        assert_eq!([text(0x1c, b"\0\0\0j"), text(0x1a, b"jane")], [Text::None, Text::None]);
    }

    /// A name of one attribute: of this kind, with this value.
    fn name(kind: &[u8], value: &[u8]) -> Vec<u8> {
        let wrapped = |tag: u8, contents: &[u8]| [&[tag, u8::try_from(contents.len()).expect("short")][..], contents].concat();
        let attribute = wrapped(der::SEQUENCE, &[wrapped(der::OID, kind), value.to_vec()].concat());
        wrapped(der::SEQUENCE, &wrapped(SET, &attribute))
    }

    #[test]
    fn requests_and_certificates_have_other_readers() {
        let masters = |tag: u8, text: &[u8]| [&[tag, u8::try_from(text.len()).expect("short")], text].concat();
        for value in [
            masters(der::T61_STRING, b"m"),
            masters(der::BMP_STRING, b"\0m"),
            masters(der::UTF8_STRING, b"m"),
            masters(der::IA5_STRING, b"m"),
        ] {
            let name = name(ORGANIZATION, &value);
            assert_eq!(Names::of_request(&name).expect("a name").organizations, ["m"]);
            assert_eq!(Names::read(&name), Names::of_request(&name));
        }
        // Of a request, what is no text is passed over; of a certificate, it is wrong.
        for value in
            [&[der::INTEGER, 1, 7][..], &[0x1c, 4, 0, 0, 0, 0x6d], &[0xac, 1, 0x6d], &[0x2c, 0], &[der::GENERALIZED_TIME, 17, 0x32]]
        {
            let mut value = value.to_vec();
            if value[0] == der::GENERALIZED_TIME {
                value = [&[der::GENERALIZED_TIME, 17][..], b"20260101000000.5Z"].concat();
            }
            assert_eq!(Names::of_request(&name(ORGANIZATION, &value)).map(|names| names.organizations), Ok(Vec::new()), "{value:?}");
            assert!(Names::read(&name(ORGANIZATION, &value)).is_err(), "{value:?}");
        }
        for (value, why) in [
            (&[der::INTEGER, 2, 0, 1][..], "asn1: structure error: integer not minimally-encoded"),
            (&[der::PRINTABLE_STRING, 1, b'@'], "asn1: syntax error: PrintableString contains invalid character"),
            (&[der::UTF8_STRING, 1, 0xff], "asn1: invalid UTF-8 string"),
            (&[der::BMP_STRING, 1, 0], "invalid BMPString"),
            (&[der::BOOLEAN, 1, 1], "asn1: syntax error: invalid boolean"),
            (&[], "asn1: syntax error: sequence truncated"),
            (&[0x1f, 0x1e, 0], "asn1: syntax error: non-minimal tag"),
        ] {
            assert_eq!(Names::of_request(&name(COMMON_NAME, value)).expect_err("wrong"), why);
        }
        let tags = Names::of_request(&[0x31, 0]).expect_err("no sequence");
        let parameters = "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}";
        assert_eq!(
            tags,
            format!(
                "asn1: structure error: tags don't match (16 vs {{class:0 tag:17 length:0 isCompound:true}}) {parameters} RDNSequence @2"
            )
        );
    }
}
