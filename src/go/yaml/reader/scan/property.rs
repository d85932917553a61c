//! Directives, anchors, aliases and tags.

use super::{super::cursor::is_word, Kind, Scanner, text_of};

/// Digits of a version.
const VERSION_DIGITS_MAX: usize = 2;

impl Scanner<'_> {
    pub(super) fn fetch_directive(&mut self) -> Result<(), String> {
        self.end_blocks()?;
        let start = self.at.spot;
        self.at.skip();
        let mut name = Vec::new();
        self.at.take_word(&mut name)?;
        if name.is_empty() {
            return self.wrong("could not find expected directive name");
        }
        if !self.at.is_gap(0) {
            return self.wrong("found unexpected non-alphabetical character");
        }
        let kind = match name.as_slice() {
            b"YAML" => self.version()?,
            b"TAG" => self.prefix()?,
            _ => return self.wrong("found unknown directive name"),
        };
        self.push(kind, start);
        if self.at.skip_end_of_line()? { Ok(()) } else { self.wrong("did not find expected comment or line break") }
    }

    fn version(&mut self) -> Result<Kind, String> {
        self.at.skip_blanks()?;
        let major = self.version_number()?;
        if !self.at.is(b'.') {
            return self.wrong("did not find expected digit or '.' character");
        }
        self.at.skip();
        Ok(Kind::Version(major, self.version_number()?))
    }

    fn version_number(&mut self) -> Result<u8, String> {
        self.at.need(1)?;
        let (mut number, mut digits) = (0, 0);
        while self.at.byte(0).is_ascii_digit() {
            digits += 1;
            if digits > VERSION_DIGITS_MAX {
                return self.wrong("found extremely long version number");
            }
            number = number * 10 + (self.at.byte(0) - b'0');
            self.at.skip();
            self.at.need(1)?;
        }
        if digits == 0 { self.wrong("did not find expected version number") } else { Ok(number) }
    }

    fn prefix(&mut self) -> Result<Kind, String> {
        self.at.skip_blanks()?;
        let handle = self.tag_handle(true)?;
        self.at.need(1)?;
        if !self.at.is_blank(0) {
            return self.wrong("did not find expected whitespace");
        }
        self.at.skip_blanks()?;
        let prefix = self.tag_uri(b"")?;
        self.at.need(1)?;
        if !self.at.is_gap(0) {
            return self.wrong("did not find expected whitespace or line break");
        }
        Ok(Kind::Prefix(text_of(handle), text_of(prefix)))
    }

    pub(super) fn fetch_anchor(&mut self, kind: fn(String) -> Kind) -> Result<(), String> {
        self.save_key()?;
        self.may_be_key = false;
        let start = self.at.spot;
        self.at.skip();
        let mut name = Vec::new();
        self.at.take_word(&mut name)?;
        let is_ended = self.at.is_gap(0) || matches!(self.at.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !is_ended {
            return self.wrong("did not find expected alphabetic or numeric character");
        }
        self.push(kind(text_of(name)), start);
        Ok(())
    }

    pub(super) fn fetch_tag(&mut self) -> Result<(), String> {
        self.save_key()?;
        self.may_be_key = false;
        let start = self.at.spot;
        self.at.need(2)?;
        let (mut handle, suffix);
        if self.at.byte(1) == b'<' {
            handle = Vec::new();
            self.at.skip_many(2);
            suffix = self.tag_uri(b"")?;
            if !self.at.is(b'>') {
                return self.wrong("did not find the expected '>'");
            }
            self.at.skip();
        } else {
            handle = self.tag_handle(false)?;
            if handle.len() > 1 && handle.ends_with(b"!") {
                suffix = self.tag_uri(b"")?;
            } else {
                let rest = self.tag_uri(&handle)?;
                // `!` by itself is no handle.
                (handle, suffix) = if rest.is_empty() { (rest, b"!".to_vec()) } else { (b"!".to_vec(), rest) };
            }
        }
        self.at.need(1)?;
        if !self.at.is_gap(0) {
            return self.wrong("did not find expected whitespace or line break");
        }
        self.push(Kind::Tag(text_of(handle), text_of(suffix)), start);
        Ok(())
    }

    fn tag_handle(&mut self, in_directive: bool) -> Result<Vec<u8>, String> {
        self.at.need(1)?;
        let mut handle = Vec::new();
        if !self.at.is(b'!') {
            return self.wrong("did not find expected '!'");
        }
        self.at.take(&mut handle);
        self.at.take_word(&mut handle)?;
        if self.at.is(b'!') {
            self.at.take(&mut handle);
        } else if in_directive && handle != b"!" {
            return self.wrong("did not find expected '!'");
        }
        Ok(handle)
    }

    /// Takes the rest of a tag, `head` is what was taken of it with its `!`.
    fn tag_uri(&mut self, head: &[u8]) -> Result<Vec<u8>, String> {
        let mut uri = head.get(1..).unwrap_or_default().to_vec();
        let mut is_there = !head.is_empty();
        self.at.need(1)?;
        while is_word(self.at.byte(0)) || b";/?:@&=+$,.!~*'()[]%".contains(&self.at.byte(0)) {
            if self.at.is(b'%') {
                self.uri_escape(&mut uri)?;
            } else {
                self.at.take(&mut uri);
            }
            self.at.need(1)?;
            is_there = true;
        }
        if is_there { Ok(uri) } else { self.wrong("did not find expected tag URI") }
    }

    /// Takes the `%xx` of one character.
    fn uri_escape(&mut self, uri: &mut Vec<u8>) -> Result<(), String> {
        let mut left = None;
        loop {
            self.at.need(3)?;
            let digit = |ahead: usize| char::from(self.at.byte(ahead)).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let (true, Some(high), Some(low)) = (self.at.is(b'%'), digit(1), digit(2)) else {
                return self.wrong("did not find URI escaped octet");
            };
            let octet = high << 4 | low;
            let others = match (left, octet) {
                (None, 0..=0x7f) => 0,
                (None, 0xc0..=0xdf) => 1,
                (None, 0xe0..=0xef) => 2,
                (None, 0xf0..=0xf7) => 3,
                (None, _) => return self.wrong("found an incorrect leading UTF-8 octet"),
                (Some(left), 0x80..=0xbf) => left - 1,
                (Some(_), _) => return self.wrong("found an incorrect trailing UTF-8 octet"),
            };
            uri.push(octet);
            self.at.skip_many(3);
            if others == 0 {
                return Ok(());
            }
            left = Some(others);
        }
    }
}
