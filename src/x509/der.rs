//! Strict DER: elements with one-byte tags and shortest lengths, as Go's cryptobyte reads them. Certificates are read so.

use go::calendar;

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const NUMERIC_STRING: u8 = 0x12;
pub(crate) const PRINTABLE_STRING: u8 = 0x13;
pub(crate) const T61_STRING: u8 = 0x14;
pub(crate) const IA5_STRING: u8 = 0x16;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const BMP_STRING: u8 = 0x1e;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// What a DER `NULL` is as a whole.
pub(crate) const NULL: &[u8] = &[0x05, 0x00];

/// The tag of a member with this number, which holds other elements.
pub(crate) const fn constructed(number: u8) -> u8 {
    0xa0 | number
}

/// The tag of a member with this number, which holds bytes.
pub(crate) const fn primitive(number: u8) -> u8 {
    0x80 | number
}

/// Elements that are read one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'d>(&'d [u8]);

/// One element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'d> {
    pub(crate) tag: u8,
    /// What is in it.
    pub(crate) contents: &'d [u8],
    /// Tag, length and contents.
    pub(crate) whole: &'d [u8],
}

impl<'d> Reader<'d> {
    pub(crate) fn new(bytes: &'d [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is still to be read.
    pub(crate) fn rest(&self) -> &'d [u8] {
        self.0
    }

    /// The next element, whatever it is.
    pub(crate) fn any(&mut self) -> Option<Element<'d>> {
        let [tag, first, rest @ ..] = self.0 else { return None };
        // Tags of several bytes are in no certificate.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (head, length) = match first {
            0..=0x7f => (2, usize::from(*first)),
            0x81..=0x84 => {
                let count = usize::from(first & 0x7f);
                let length = rest.get(..count)?.iter().fold(0_usize, |length, byte| (length << 8) | usize::from(*byte));
                // The shortest form only.
                if length < 0x80 || rest[0] == 0 {
                    return None;
                }
                (2 + count, length)
            }
            _ => return None,
        };
        let whole = self.0.get(..head.checked_add(length)?)?;
        self.0 = &self.0[whole.len()..];
        Some(Element { tag: *tag, contents: &whole[head..], whole })
    }

    /// Whether the next element has this tag.
    pub(crate) fn peeks(&self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    /// The next element, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<Element<'d>> {
        self.any().filter(|element| element.tag == tag)
    }

    /// What is in the next element, which must have this tag.
    pub(crate) fn contents(&mut self, tag: u8) -> Option<&'d [u8]> {
        self.expect(tag).map(|element| element.contents)
    }

    /// What is in the next element, if it has this tag; `Some(None)` if it is another one or none.
    #[allow(clippy::option_option, reason = "the outer one is malformed DER, the inner one an element that is not there")]
    pub(crate) fn optional(&mut self, tag: u8) -> Option<Option<&'d [u8]>> {
        match self.0.first() {
            Some(next) if *next == tag => self.contents(tag).map(Some),
            _ => Some(None),
        }
    }

    /// The elements in a sequence, which is the next one.
    pub(crate) fn sequence(&mut self) -> Option<Reader<'d>> {
        self.contents(SEQUENCE).map(Reader)
    }

    /// The bytes of an object identifier.
    pub(crate) fn oid(&mut self) -> Option<&'d [u8]> {
        self.contents(OID).filter(|oid| is_oid(oid))
    }

    /// The bytes of an integer, big-endian, in their shortest form.
    pub(crate) fn integer(&mut self) -> Option<&'d [u8]> {
        self.contents(INTEGER).filter(|bytes| is_integer(bytes))
    }

    /// An integer that is not negative and fits.
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        let bytes = self.integer().filter(|bytes| bytes[0] & 0x80 == 0)?;
        let bytes = bytes.strip_prefix(&[0]).unwrap_or(bytes);
        (bytes.len() <= 8).then(|| bytes.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    /// An integer of 64 bits.
    pub(crate) fn signed(&mut self) -> Option<i64> {
        self.signed_as(INTEGER)
    }

    /// An integer of 64 bits with this tag.
    pub(crate) fn signed_as(&mut self, tag: u8) -> Option<i64> {
        let bytes = self.contents(tag).filter(|bytes| is_integer(bytes) && bytes.len() <= 8)?;
        let begin = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
        Some(bytes.iter().fold(begin, |number, byte| (number << 8) | i64::from(*byte)))
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&mut self) -> Option<bool> {
        match self.contents(BOOLEAN)? {
            [0x00] => Some(false),
            [0xff] => Some(true),
            _ => None,
        }
    }

    /// The bytes of a bit string, and how many bits of the last one are none of it.
    pub(crate) fn bits(&mut self) -> Option<(&'d [u8], u8)> {
        let (unused, bytes) = self.contents(BIT_STRING)?.split_first()?;
        let fits = match bytes.last() {
            None => *unused == 0,
            Some(last) => *unused <= 7 && last & ((1 << unused) - 1) == 0,
        };
        fits.then_some((bytes, *unused))
    }

    /// A point in time, in seconds since 1970.
    pub(crate) fn time(&mut self) -> Option<i64> {
        let element = self.any()?;
        let text = std::str::from_utf8(element.contents).ok()?;
        match element.tag {
            UTC_TIME => utc_time(text),
            GENERALIZED_TIME => generalized_time(text),
            _ => None,
        }
    }
}

/// Base 128, each number in its shortest form and of 31 bits at most.
fn is_oid(oid: &[u8]) -> bool {
    let mut number = 0_u64;
    let mut begins = true;
    for byte in oid {
        if begins && *byte == 0x80 {
            return false;
        }
        number = (number << 7) | u64::from(byte & 0x7f);
        begins = byte & 0x80 == 0;
        if number > u64::from(u32::MAX >> 1) {
            return false;
        }
        if begins {
            number = 0;
        }
    }
    begins && !oid.is_empty()
}

fn is_integer(bytes: &[u8]) -> bool {
    match bytes {
        [] => false,
        [0x00, next, ..] => next & 0x80 != 0,
        [0xff, next, ..] => next & 0x80 == 0,
        _ => true,
    }
}

/// `YYYYMMDDhhmmss` with `Z` or an offset.
pub(crate) fn generalized_time(text: &str) -> Option<i64> {
    moment(digits(text.get(..4)?)?, text.get(4..)?, true)
}

/// `YYMMDDhhmm[ss]` with `Z` or an offset: years up to 2049.
pub(crate) fn utc_time(text: &str) -> Option<i64> {
    let year: i64 = digits(text.get(..2)?)?;
    let year = if year >= 50 { 1900 + year } else { 2000 + year };
    let rest = text.get(2..)?;
    // With seconds, or without.
    let has_seconds = rest.get(8..10).is_some_and(|seconds| digits(seconds).is_some());
    moment(year, rest, has_seconds)
}

/// `MMDDhhmm[ss]` with `Z` or an offset that is not zero, as Go would write it again.
fn moment(year: i64, text: &str, has_seconds: bool) -> Option<i64> {
    let field = |at: usize| digits(text.get(at..at + 2)?);
    let (month, day, hour, minute) = (field(0)?, field(2)?, field(4)?, field(6)?);
    let (second, zone) = if has_seconds { (field(8)?, text.get(10..)?) } else { (0, text.get(8..)?) };
    let fits =
        (1..=12).contains(&month) && (1..=calendar::month_days(year, month)).contains(&day) && hour < 24 && minute < 60 && second < 60;
    let offset = match zone.split_at_checked(1)? {
        ("Z", "") => 0,
        (sign @ ("+" | "-"), rest) if rest.len() == 4 => {
            let (hours, minutes) = (digits(rest.get(..2)?)?, digits(rest.get(2..)?)?);
            let seconds = hours * 3600 + minutes * 60;
            if seconds == 0 || hours > 24 || minutes > 59 {
                return None;
            }
            if sign == "+" { seconds } else { -seconds }
        }
        _ => return None,
    };
    fits.then(|| calendar::days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

fn digits(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(tag: u8, text: &str) -> Option<i64> {
        let mut bytes = vec![tag, u8::try_from(text.len()).expect("short")];
        bytes.extend(text.bytes());
        Reader::new(&bytes).time()
    }

    #[test]
    fn lengths_have_one_form() {
        let of = |bytes: &[u8]| Reader::new(bytes).any().map(|element| element.contents.len());
        assert_eq!(of(&[0x04, 0x01, 0xaa]), Some(1));
        assert_eq!(of(&[&[0x04, 0x81, 0x80][..], &[0; 128]].concat()), Some(128));
        for wrong in
            [&[0x04][..], &[0x04, 0x02, 0x00], &[0x04, 0x81, 0x01, 0x00], &[0x04, 0x80], &[0x1f, 0x01, 0x00], &[4, 0x85, 0, 0, 0, 0, 1, 0]]
        {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
        assert_eq!(of(&[&[0x04, 0x82, 0x00, 0x80][..], &[0; 128]].concat()), None);
    }

    #[test]
    fn numbers_have_one_form() {
        let integer = |bytes: &[u8]| Reader::new(bytes).integer().is_some();
        assert!(integer(&[2, 1, 0]) && integer(&[2, 2, 0, 0x80]) && integer(&[2, 1, 0xff]));
        assert!(!integer(&[2, 0]) && !integer(&[2, 2, 0, 1]) && !integer(&[2, 2, 0xff, 0x80]));
        let oid = |bytes: &[u8]| Reader::new(bytes).oid().is_some();
        assert!(oid(&[6, 3, 0x55, 4, 3]) && oid(&[6, 2, 0x88, 0x37]));
        assert!(
            !oid(&[6, 0]) && !oid(&[6, 2, 0x55, 0x80]) && !oid(&[6, 2, 0x80, 0x01]) && !oid(&[6, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])
        );
        let bits = |bytes: &[u8]| Reader::new(bytes).bits().is_some();
        assert!(bits(&[3, 2, 4, 0xf0]) && bits(&[3, 1, 0]));
        assert!(!bits(&[3, 0]) && !bits(&[3, 1, 1]) && !bits(&[3, 2, 4, 0xf8]) && !bits(&[3, 2, 8, 0]));
    }

    #[test]
    fn times_are_those_that_go_reads() {
        assert_eq!(time(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(time(UTC_TIME, "7001010000Z"), Some(0));
        assert_eq!(time(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(time(UTC_TIME, "500101000000Z"), Some(-631_152_000));
        assert_eq!(time(UTC_TIME, "700101010000+0100"), Some(0));
        assert_eq!(time(GENERALIZED_TIME, "19700101000000Z"), Some(0));
        assert_eq!(time(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        for wrong in [
            "700101000000",
            "701301000000Z",
            "700230000000Z",
            "700101240000Z",
            "700101000000+0000",
            "700101000000.5Z",
            "7001010000z",
            "é0101000000Z",
            "700101010000+aéb",
        ] {
            assert_eq!(time(UTC_TIME, wrong), None, "{wrong}");
        }
        assert_eq!(time(GENERALIZED_TIME, "197001010000Z"), None, "seconds must be there");
        assert_eq!(time(GENERALIZED_TIME, "+9700101000000Z"), None, "a year is four digits");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while let Some(element) = reader.any() {
                prop_assert!(element.whole.len() >= 2 + element.contents.len());
                let _ = (Reader::new(element.whole).time(), Reader::new(element.whole).bits(), Reader::new(element.whole).oid());
            }
        }
    }
}
