//! The names in a certificate as Go reads them: each kind of text, and what of a subject says who a client is.

use super::der::{self, Reader, SET};

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// The attribute of a subject that is the user's uid: 1.3.6.1.4.1.57683.2.
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];

/// What a subject says of a client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// The last CN; empty when there is none.
    pub(super) common_name: String,
    /// Each O.
    pub(super) organizations: Vec<String>,
    /// Each uid; there should be one at most.
    pub(super) uids: Vec<String>,
}

impl Names {
    /// Reads a name.
    ///
    /// # Errors
    /// Why Go could not read it.
    pub(super) fn read(name: &[u8]) -> Result<Names, &'static str> {
        let mut names = Names::default();
        let mut sets = Reader::new(name).sequence().ok_or("invalid RDNSequence")?;
        while !sets.is_empty() {
            let mut set = Reader::new(sets.contents(SET).ok_or("invalid RDNSequence")?);
            while !set.is_empty() {
                let mut attribute = set.sequence().ok_or("invalid RDNSequence: invalid attribute")?;
                let kind = attribute.oid().ok_or("invalid RDNSequence: invalid attribute type")?;
                let value = attribute.any().ok_or("invalid RDNSequence: invalid attribute value")?;
                let text = text(value.tag, value.contents)?;
                match kind {
                    COMMON_NAME => names.common_name = text,
                    ORGANIZATION => names.organizations.push(text),
                    UID => names.uids.push(text),
                    _ => {}
                }
            }
        }
        Ok(names)
    }

    /// The uid; empty when there is none.
    ///
    /// # Errors
    /// There are several, or it is empty.
    pub(super) fn uid(&self) -> Result<&str, String> {
        match &self.uids[..] {
            [] => Ok(""),
            [uid] if uid.is_empty() => Err("UID cannot be an empty string".to_owned()),
            [uid] => Ok(uid),
            uids => Err(format!("expected 1 UID, but found multiple: [{}]", uids.join(" "))),
        }
    }
}

/// A text of one of the kinds that Go knows.
fn text(tag: u8, bytes: &[u8]) -> Result<String, &'static str> {
    let ascii = |is_one: fn(&u8) -> bool| bytes.iter().all(is_one).then(|| bytes.iter().copied().map(char::from).collect());
    match tag {
        der::UTF8_STRING => String::from_utf8(bytes.to_vec()).ok().ok_or("invalid UTF-8 string"),
        der::PRINTABLE_STRING => ascii(is_printable).ok_or("invalid PrintableString"),
        der::IA5_STRING => ascii(u8::is_ascii).ok_or("invalid IA5String"),
        der::NUMERIC_STRING => ascii(|byte| byte.is_ascii_digit() || *byte == b' ').ok_or("invalid NumericString"),
        // T.61 is read as ISO 8859-1, whose characters are the first of Unicode.
        der::T61_STRING => Ok(bytes.iter().copied().map(char::from).collect()),
        der::BMP_STRING => two_bytes_each(bytes).ok_or("invalid BMPString"),
        _ => Err("a text of a kind that is not supported"),
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
        assert_eq!(text(der::UTF8_STRING, "jané".as_bytes()).as_deref(), Ok("jané"));
        assert_eq!(text(der::T61_STRING, b"jan\xe9").as_deref(), Ok("jané"));
        assert_eq!(text(der::BMP_STRING, b"\0j\0a\0n\0\xe9").as_deref(), Ok("jané"));
        assert_eq!(text(der::BMP_STRING, b"\0j\0\0").as_deref(), Ok("j"));
        assert_eq!(text(der::PRINTABLE_STRING, b"a*&'()+,-./:=? Z9").as_deref(), Ok("a*&'()+,-./:=? Z9"));
        assert_eq!(text(der::NUMERIC_STRING, b"1 2").as_deref(), Ok("1 2"));
        assert_eq!(text(der::IA5_STRING, b"a@b_c").as_deref(), Ok("a@b_c"));
        for (tag, bytes) in [
            (der::UTF8_STRING, &b"\xff"[..]),
            (der::PRINTABLE_STRING, b"a@b"),
            (der::PRINTABLE_STRING, b"a_b"),
            (der::NUMERIC_STRING, b"a"),
            (der::IA5_STRING, b"\x80"),
            (der::BMP_STRING, b"\0"),
            (der::BMP_STRING, b"\xd8\x00"),
            (der::BMP_STRING, b"\xff\xfe"),
            (0x1c, b"\0\0\0j"),
            (0x1a, b"jane"),
        ] {
            assert!(text(tag, bytes).is_err(), "{tag} {bytes:?}");
        }
    }
}
