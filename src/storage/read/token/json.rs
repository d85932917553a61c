//! Reads the JSON of a continue token the way Go's `encoding/json` does, with its error texts.

use go::quote::quoted_byte;

/// Arrays and objects inside each other that a continue token may have: as many as Go's `encoding/json` reads.
const TOKEN_DEPTH_MAX: usize = 10_000;

/// A top-level value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Top<'a> {
    /// An object's members in order: key decoded, value as it stands in the text. A key may repeat.
    Object(Vec<(String, &'a str)>),
    /// Anything else, as it stands in the text.
    Other(&'a str),
}

/// Where the one JSON value of a text starts and ends. The text need not be UTF-8: Go names the wrong byte.
///
/// # Errors
/// Go's message for the first byte that does not fit.
pub(super) fn check(bytes: &[u8]) -> Result<(usize, usize), String> {
    let mut scan = Scan { bytes, at: 0 };
    let value = scan.value()?;
    scan.space();
    bytes.get(scan.at).map_or(Ok(value), |byte| Err(unexpected(*byte, "after top-level value")))
}

/// Reads one JSON value.
///
/// # Errors
/// As `check`.
pub(super) fn read(text: &str) -> Result<Top<'_>, String> {
    let value = check(text.as_bytes())?;
    let mut scan = Scan { bytes: text.as_bytes(), at: value.0 };
    if scan.bytes[value.0] != b'{' {
        return Ok(Top::Other(&text[value.0..value.1]));
    }
    scan.at += 1;
    let mut members = Vec::new();
    while scan.space() != b'}' {
        scan.at += usize::from(scan.peek() == b',');
        let key = scan.value()?;
        scan.space();
        scan.at += 1; // the colon
        let value = scan.value()?;
        members.push((string(&text[key.0..key.1]), &text[value.0..value.1]));
    }
    Ok(Top::Object(members))
}

/// The text of a string literal that `read` has accepted. A half of a surrogate pair alone becomes U+FFFD, as in Go.
pub(super) fn string(literal: &str) -> String {
    let mut out = String::with_capacity(literal.len());
    let mut rest = &literal[1..literal.len() - 1];
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let (c, after) = match rest.as_bytes()[at + 1] {
            b'b' => ('\u{8}', after),
            b'f' => ('\u{c}', after),
            b'n' => ('\n', after),
            b'r' => ('\r', after),
            b't' => ('\t', after),
            b'u' => code_point(after),
            same => (char::from(same), after),
        };
        out.push(c);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The character of the four hex digits at the start, and what follows it.
fn code_point(digits: &str) -> (char, &str) {
    let unit = |text: &str| text.get(..4).and_then(|t| u32::from_str_radix(t, 16).ok());
    let high = unit(digits).unwrap_or(0xfffd);
    let rest = digits.get(4..).unwrap_or("");
    let low = rest.strip_prefix("\\u").and_then(unit).filter(|low| (0xdc00..0xe000).contains(low));
    match (high, low) {
        (0xd800..0xdc00, Some(low)) => {
            (char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)).unwrap_or('\u{fffd}'), &rest[6..])
        }
        _ => (char::from_u32(high).unwrap_or('\u{fffd}'), rest),
    }
}

fn unexpected(byte: u8, place: &str) -> String {
    format!("invalid character {} {place}", quoted_byte(byte))
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    /// Skips one whole value; where it starts and ends.
    fn value(&mut self) -> Result<(usize, usize), String> {
        let mut open = Vec::new();
        self.space();
        let start = self.at;
        loop {
            self.space();
            match self.next()? {
                b'{' => {
                    self.descend(&mut open, b'{')?;
                    if self.space() != b'}' {
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.descend(&mut open, b'[')?;
                    if self.space() != b']' {
                        continue;
                    }
                }
                first => self.literal(first)?,
            }
            if self.ascend(&mut open)? {
                return Ok((start, self.at));
            }
        }
    }

    fn descend(&self, open: &mut Vec<u8>, bracket: u8) -> Result<(), String> {
        open.push(bracket);
        if open.len() > TOKEN_DEPTH_MAX { Err(unexpected(bracket, "exceeded max depth")) } else { Ok(()) }
    }

    /// After a value: closes what ends here, and goes on to the next value. True when nothing is left open.
    fn ascend(&mut self, open: &mut Vec<u8>) -> Result<bool, String> {
        while let Some(inside) = open.last() {
            self.space();
            match (*inside, self.next()?) {
                (b'{', b'}') | (b'[', b']') => drop(open.pop()),
                (b'{', b',') => {
                    self.key()?;
                    return Ok(false);
                }
                (b'[', b',') => return Ok(false),
                (b'{', byte) => return Err(unexpected(byte, "after object key:value pair")),
                (_, byte) => return Err(unexpected(byte, "after array element")),
            }
        }
        Ok(true)
    }

    /// `"key" :`
    fn key(&mut self) -> Result<(), String> {
        self.space();
        match self.next()? {
            b'"' => self.string()?,
            byte => return Err(unexpected(byte, "looking for beginning of object key string")),
        }
        self.space();
        match self.next()? {
            b':' => Ok(()),
            byte => Err(unexpected(byte, "after object key")),
        }
    }

    fn literal(&mut self, first: u8) -> Result<(), String> {
        match first {
            b'"' => self.string(),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            b'-' | b'0'..=b'9' => self.number(first),
            byte => Err(unexpected(byte, "looking for beginning of value")),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        for want in word.bytes().skip(1) {
            let byte = self.next()?;
            if byte != want {
                return Err(unexpected(byte, &format!("in literal {word} (expecting {})", quoted_byte(want))));
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => self.digits(4, u8::is_ascii_hexdigit, "in \\u hexadecimal character escape")?,
                    byte => return Err(unexpected(byte, "in string escape code")),
                },
                byte if byte < 0x20 => return Err(unexpected(byte, "in string literal")),
                _ => {}
            }
        }
    }

    fn number(&mut self, mut first: u8) -> Result<(), String> {
        if first == b'-' {
            self.digits(1, u8::is_ascii_digit, "in numeric literal")?;
            first = self.bytes[self.at - 1];
        }
        if first != b'0' {
            self.more_digits();
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits(1, u8::is_ascii_digit, "after decimal point in numeric literal")?;
            self.more_digits();
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), b'+' | b'-'));
            self.digits(1, u8::is_ascii_digit, "in exponent of numeric literal")?;
            self.more_digits();
        }
        Ok(())
    }

    fn digits(&mut self, count: usize, is_digit: fn(&u8) -> bool, place: &str) -> Result<(), String> {
        for _ in 0..count {
            let byte = self.next()?;
            if !is_digit(&byte) {
                return Err(unexpected(byte, place));
            }
        }
        Ok(())
    }

    fn more_digits(&mut self) {
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
    }

    /// Skips space, the one at the end too; the byte behind it.
    fn space(&mut self) -> u8 {
        while self.at <= self.bytes.len() && matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
        self.peek()
    }

    /// The next byte. Go's scanner ends a text with one space to finish a number, so that is what stands at the end here, too.
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(b' ')
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek();
        self.at += 1;
        let ended = self.at > self.bytes.len() + 1;
        if ended { Err("unexpected end of JSON input".to_owned()) } else { Ok(byte) }
    }
}
