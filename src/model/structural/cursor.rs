//! Steps through the text of a JSON value that has no spaces between its tokens. Of values that are passed over it checks no more than where they end.

use std::{borrow::Cow, ops::Range};

use memchr::memchr2;

use super::Unread;

/// A place in a text.
pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    /// Passes a byte if it is this one.
    pub(super) fn passes(&mut self, byte: u8) -> bool {
        let passes = self.peek() == Some(byte);
        self.at += usize::from(passes);
        passes
    }

    /// Passes this byte.
    pub(super) fn pass(&mut self, byte: u8) -> Result<(), Unread> {
        if self.passes(byte) { Ok(()) } else { Err(Unread::Irregular) }
    }

    /// Passes the name of a member and its colon: as it is written, with its quotes, and as it is.
    pub(super) fn name(&mut self) -> Result<(&'t str, Cow<'t, str>), Unread> {
        let start = self.at;
        self.text_end()?;
        let written = self.since(start)?;
        self.pass(b':')?;
        let inner = &written[1..written.len() - 1];
        if inner.contains('\\') {
            let name = serde_json::from_str::<String>(written).map_err(|_| Unread::Irregular)?;
            return Ok((written, Cow::Owned(name)));
        }
        Ok((written, Cow::Borrowed(inner)))
    }

    /// Passes a value.
    pub(super) fn value(&mut self) -> Result<Range<usize>, Unread> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => self.text_end()?,
            Some(b'{' | b'[') => {
                let mut depth = 0_usize;
                loop {
                    match self.peek().ok_or(Unread::Irregular)? {
                        b'"' => {
                            self.text_end()?;
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                let rest = &self.text.as_bytes()[start..];
                self.at += rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']')).unwrap_or(rest.len());
            }
            _ => return Err(Unread::Irregular),
        }
        Ok(start..self.at)
    }

    /// The text of a range that was passed.
    pub(super) fn text(&self, range: Range<usize>) -> Result<&'t str, Unread> {
        self.text.get(range).ok_or(Unread::Irregular)
    }

    fn since(&self, start: usize) -> Result<&'t str, Unread> {
        self.text(start..self.at)
    }

    /// Passes a string.
    fn text_end(&mut self) -> Result<(), Unread> {
        self.pass(b'"')?;
        let bytes = self.text.as_bytes();
        loop {
            let rest = bytes.get(self.at..).ok_or(Unread::Irregular)?;
            let found = memchr2(b'"', b'\\', rest).ok_or(Unread::Irregular)?;
            if rest[found] == b'"' {
                self.at += found + 1;
                return Ok(());
            }
            self.at += found + 2;
        }
    }
}
