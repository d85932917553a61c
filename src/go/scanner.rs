//! The tokens of JSON as Go's `encoding/json` reads them: its errors, and its patience with broken text.

use crate::quote::quoted_byte;

/// The error of a text that ends too early.
pub const END: &str = "unexpected end of JSON input";
/// Arrays and objects inside each other that Go's `encoding/json` reads.
const DEPTH_MAX: usize = 10_000;
/// What Go reads for a byte that is no UTF-8 and for half of a surrogate pair.
const REPLACEMENT: char = '\u{fffd}';

/// A text, and how far it is read.
#[derive(Debug)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Returns one at the beginning of a text, which need not be UTF-8.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns how many bytes are read.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Skips space, and returns the next byte, which is not read yet.
    ///
    /// # Errors
    /// There is none.
    pub fn token(&mut self) -> Result<u8, String> {
        self.skip_space();
        self.bytes.get(self.at).copied().ok_or_else(|| END.to_owned())
    }

    /// Reads the byte that [`token`](Self::token) has returned.
    pub fn skip(&mut self) {
        self.at += 1;
    }

    /// Skips space until the text is over.
    ///
    /// # Errors
    /// Something comes after the value.
    pub fn end(&mut self) -> Result<(), String> {
        self.skip_space();
        if self.at < self.bytes.len() { Err(self.unexpected("after top-level value")) } else { Ok(()) }
    }

    /// Reads `true`, `false` or `null`.
    ///
    /// # Errors
    /// It is another word.
    pub fn literal(&mut self, word: &str) -> Result<(), String> {
        for letter in word.bytes() {
            if self.found() != letter {
                return Err(self.unexpected(&format!("in literal {word} (expecting {})", quoted_byte(letter))));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Reads a number: its text, and whether it has neither fraction nor exponent.
    ///
    /// # Errors
    /// It is none.
    pub fn number(&mut self) -> Result<(&'a [u8], bool), String> {
        let (start, mut is_integer) = (self.at, true);
        if self.found() == b'-' {
            self.at += 1;
        }
        if self.found() == b'0' {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.found() == b'.' {
            is_integer = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.found(), b'e' | b'E') {
            is_integer = false;
            self.at += 1;
            if matches!(self.found(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok((&self.bytes[start..self.at], is_integer))
    }

    /// One digit and all that follow it.
    fn digits(&mut self, context: &str) -> Result<(), String> {
        if !self.found().is_ascii_digit() {
            return Err(self.unexpected(context));
        }
        while self.found().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    /// Reads a string, from its first quote to its last one.
    ///
    /// # Errors
    /// It has no end, or something in it may not be there.
    pub fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.bytes[self.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).ok_or(END)?;
            push_lossy(&mut text, &rest[..plain]);
            self.at += plain;
            match self.found() {
                b'"' => {
                    self.at += 1;
                    return Ok(text);
                }
                b'\\' => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char, String> {
        let plain = match self.found() {
            letter @ (b'"' | b'\\' | b'/') => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.code_point();
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(plain)
    }

    /// What follows `\u`: a surrogate takes its other half along.
    fn code_point(&mut self) -> Result<char, String> {
        let first = self.hexadecimal()?;
        if !(0xd800..0xdc00).contains(&first) || !self.bytes[self.at..].starts_with(b"\\u") {
            return Ok(char::from_u32(first).unwrap_or(REPLACEMENT));
        }
        let back = self.at;
        self.at += 2;
        let second = self.hexadecimal()?;
        if (0xdc00..0xe000).contains(&second) {
            return Ok(char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)).unwrap_or(REPLACEMENT));
        }
        self.at = back;
        Ok(REPLACEMENT)
    }

    fn hexadecimal(&mut self) -> Result<u32, String> {
        let mut number = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.found()).to_digit(16) else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            number = number * 16 + digit;
            self.at += 1;
        }
        Ok(number)
    }

    /// Skips one whole value, and returns where it starts and ends. What is inside of it may be too deep to call for.
    ///
    /// # Errors
    /// Go's message for the first byte that does not fit.
    pub fn value(&mut self) -> Result<(usize, usize), String> {
        let mut open = Vec::new();
        self.token()?;
        let start = self.at;
        loop {
            match self.token()? {
                bracket @ (b'{' | b'[') => {
                    if open.len() == DEPTH_MAX {
                        return Err(self.unexpected("exceeded max depth"));
                    }
                    open.push(bracket);
                    self.skip();
                    let is_empty = matches!((bracket, self.token()?), (b'{', b'}') | (b'[', b']'));
                    if !is_empty {
                        if bracket == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                b'"' => drop(self.string()?),
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                b'-' | b'0'..=b'9' => drop(self.number()?),
                _ => return Err(self.unexpected("looking for beginning of value")),
            }
            if self.ascend(&mut open)? {
                return Ok((start, self.at));
            }
        }
    }

    /// After a value: closes what ends here, and goes on to the next value. True when nothing is left open.
    fn ascend(&mut self, open: &mut Vec<u8>) -> Result<bool, String> {
        while let Some(inside) = open.last() {
            match (*inside, self.token()?) {
                (b'{', b'}') | (b'[', b']') => {
                    open.pop();
                    self.skip();
                }
                (b'{', b',') => {
                    self.skip();
                    self.key()?;
                    return Ok(false);
                }
                (b'[', b',') => {
                    self.skip();
                    return Ok(false);
                }
                (b'{', _) => return Err(self.unexpected("after object key:value pair")),
                _ => return Err(self.unexpected("after array element")),
            }
        }
        Ok(true)
    }

    /// Reads the name of a member with its colon.
    ///
    /// # Errors
    /// There is none here.
    pub fn key(&mut self) -> Result<String, String> {
        if self.token()? != b'"' {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        let key = self.string()?;
        if self.token()? != b':' {
            return Err(self.unexpected("after object key"));
        }
        self.skip();
        Ok(key)
    }

    fn skip_space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The byte here. Go sees a space at the end, and so do its errors.
    fn found(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(b' ')
    }

    /// Returns Go's error for the byte here.
    #[must_use]
    pub fn unexpected(&self, context: &str) -> String {
        format!("invalid character {} {context}", quoted_byte(self.found()))
    }
}

/// Each byte that belongs to no character becomes a replacement character.
fn push_lossy(text: &mut String, mut bytes: &[u8]) {
    loop {
        match std::str::from_utf8(bytes) {
            Ok(rest) => return text.push_str(rest),
            Err(broken) => {
                let (good, rest) = bytes.split_at(broken.valid_up_to());
                text.push_str(&String::from_utf8_lossy(good));
                text.push(REPLACEMENT);
                bytes = &rest[1..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_go_reads_them() {
        let string = |text: &str| Scanner::new(text.as_bytes()).string();
        for (text, read) in [
            (r#""a\"\/\n""#, Ok("a\"/\n")),
            (r#""\ud83d\ude00\ud83d\u0041\ude00""#, Ok("😀\u{fffd}A\u{fffd}")),
            (r#""\q""#, Err("invalid character 'q' in string escape code")),
            (r#""\u12g4""#, Err("invalid character 'g' in \\u hexadecimal character escape")),
            ("\"\n\"", Err("invalid character '\\n' in string literal")),
            ("\"a", Err(END)),
        ] {
            assert_eq!(string(text).as_deref().map_err(String::as_str), read, "{text}");
        }
        assert_eq!(Scanner::new(b"\"a\xff\xc3\"").string().as_deref(), Ok("a\u{fffd}\u{fffd}"));
        let number = |text: &'static str| Scanner::new(text.as_bytes()).number();
        assert_eq!((number("-01"), number("1.5e+3]")), (Ok((&b"-0"[..], true)), Ok((&b"1.5e+3"[..], false))));
        assert_eq!(number("1.x"), Err("invalid character 'x' after decimal point in numeric literal".to_owned()));
        let mut text = Scanner::new(b" nul");
        assert_eq!(
            (text.token(), text.literal("null")),
            (Ok(b'n'), Err("invalid character ' ' in literal null (expecting 'l')".to_owned()))
        );
        let mut text = Scanner::new(b"[ ] x");
        text.token().expect("a bracket");
        text.skip();
        assert_eq!((text.token(), text.at()), (Ok(b']'), 2));
        text.skip();
        assert_eq!((text.end(), text.at()), (Err("invalid character 'x' after top-level value".to_owned()), 4));
    }
}
