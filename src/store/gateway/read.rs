//! Requests of the JSON gateway as etcd reads them: the syntax is that of Go's `encoding/json`, the fields are those of protojson.
//!
//! No tree is made of a body: a message is read from its text, so that its memory is that of the message.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use go::scanner::{END, Scanner};
use tonic::Status;

/// Messages inside each other: gRPC's own limit.
const DEPTH_MAX: usize = 100;
/// Digits that an integer may have once its exponent is written out.
const DIGITS_MAX: usize = 20;

/// A message that can be read.
pub(super) trait Read: Default {
    /// The fields by their names in the .proto file, each with the oneof that it belongs to.
    const FIELDS: &'static [(&'static str, Option<&'static str>)];

    /// Sets the field of this name to the value that comes next.
    fn set(&mut self, field: &'static str, reader: &mut Reader<'_>) -> Result<(), Status>;
}

/// Splits a body into its values. After one that cannot be read there are no more.
pub(super) fn values(body: &[u8]) -> impl Iterator<Item = Result<&[u8], Status>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let mut scanner = Scanner::new(rest);
        // Only space is left.
        scanner.token().ok()?;
        let value = scanner.value();
        let (text, at) = (rest, scanner.at());
        rest = if value.is_ok() { &rest[at..] } else { &[] };
        Some(value.map(|(start, end)| &text[start..end]).map_err(|error| syntax(&error, at >= text.len())))
    })
}

/// Reads the first message of a body, as etcd does; an empty body is the empty message.
pub(super) fn first<M: Read>(body: &[u8]) -> Result<M, Status> {
    values(body).next().map_or_else(|| Ok(M::default()), |value| message(value?))
}

/// Reads the message in a value whose syntax is that of JSON.
pub(super) fn message<M: Read>(text: &[u8]) -> Result<M, Status> {
    Reader { text, scanner: Scanner::new(text), depth: 0 }.message()
}

fn syntax(error: &str, at_end: bool) -> Status {
    Status::invalid_argument(if at_end || error == END { "unexpected EOF" } else { error })
}

/// A value that is being read.
pub(super) struct Reader<'a> {
    text: &'a [u8],
    scanner: Scanner<'a>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn message<M: Read>(&mut self) -> Result<M, Status> {
        self.open(b'{')?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Status::invalid_argument("proto: exceeded maximum recursion depth"));
        }
        let mut message = M::default();
        let mut seen: Vec<&str> = Vec::new();
        while self.next(b'}')? {
            let at = self.scanner.at();
            let name = self.scanner.key().map_err(|error| syntax(&error, false))?;
            let Some((field, one_of)) = M::FIELDS.iter().find(|(field, _)| is_named(field, &name)) else {
                self.skip()?;
                continue;
            };
            if seen.contains(field) {
                return Err(self.wrong(at, &format!("duplicate field {}", quoted(&name))));
            }
            seen.push(field);
            if self.peek()? == b'n' {
                self.skip()?;
                continue;
            }
            if let Some(one_of) = one_of {
                if seen.contains(one_of) {
                    let problem = format!("error parsing {}, oneof etcdserverpb.{one_of} is already set", quoted(&name));
                    return Err(self.wrong(at, &problem));
                }
                seen.push(one_of);
            }
            message.set(field, self)?;
        }
        self.depth -= 1;
        Ok(message)
    }

    /// Goes to the next member or element; false at the end, which is read then.
    fn next(&mut self, end: u8) -> Result<bool, Status> {
        let mut found = self.peek()?;
        if found == b',' {
            self.scanner.skip();
            found = self.peek()?;
        }
        if found == end {
            self.scanner.skip();
        }
        Ok(found != end)
    }

    fn open(&mut self, bracket: u8) -> Result<(), Status> {
        if self.peek()? == bracket {
            self.scanner.skip();
            return Ok(());
        }
        let (at, token) = self.token()?;
        Err(self.wrong_syntax(at, &format!("unexpected token {token}")))
    }

    fn peek(&mut self) -> Result<u8, Status> {
        self.scanner.token().map_err(|error| syntax(&error, true))
    }

    /// Reads a value that nothing needs.
    fn skip(&mut self) -> Result<(), Status> {
        let (start, end) = self.scanner.value().map_err(|error| syntax(&error, true))?;
        // The strings in it are looked at all the same.
        let mut rest = start;
        while let Some(quote) = self.text[rest..end].iter().position(|byte| *byte == b'"') {
            let at = rest + quote;
            let mut scanner = Scanner::new(&self.text[at..end]);
            scanner.string().map_err(|error| syntax(&error, true))?;
            rest = at + scanner.at();
            self.check_text(at, rest)?;
        }
        Ok(())
    }

    /// Reads a token: where it starts, and its text. Of an array or object only the bracket is read.
    fn token(&mut self) -> Result<(usize, &'a str), Status> {
        let kind = self.peek()?;
        let start = self.scanner.at();
        if matches!(kind, b'{' | b'[') {
            self.scanner.skip();
        } else {
            self.scanner.value().map_err(|error| syntax(&error, true))?;
        }
        let end = self.scanner.at();
        let text = self.check_text(start, end)?;
        Ok((start, text))
    }

    /// Refuses strings that Go's `encoding/json` takes and protojson does not.
    fn check_text(&self, start: usize, end: usize) -> Result<&'a str, Status> {
        let text = std::str::from_utf8(&self.text[start..end]).map_err(|_| self.wrong_syntax(start, "invalid UTF-8 in string"))?;
        match lone_surrogate(text) {
            Some(at) => {
                // Go shows six bytes, whatever they are.
                let after = &self.text[start + at..];
                let shown = String::from_utf8_lossy(&after[..after.len().min(6)]);
                Err(self.wrong_syntax(start, &format!("invalid escape code {} in string", quoted(&shown))))
            }
            None => Ok(text),
        }
    }

    /// The text of a string, or none when the value is another one.
    fn string(&self, token: &str) -> Option<String> {
        token.starts_with('"').then(|| Scanner::new(token.as_bytes()).string().unwrap_or_default())
    }

    fn wrong(&self, at: usize, problem: &str) -> Status {
        Status::invalid_argument(format!("proto: ({}): {problem}", self.place(at)))
    }

    fn wrong_syntax(&self, at: usize, problem: &str) -> Status {
        Status::invalid_argument(format!("proto: syntax error ({}): {problem}", self.place(at)))
    }

    fn invalid(&self, kind: &str, field: &str, at: usize, token: &str) -> Status {
        self.wrong(at, &format!("invalid value for {kind} field {}: {token}", camel(field)))
    }

    fn place(&self, at: usize) -> String {
        let before = &self.text[..at];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let last = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        format!("line {line}:{}", String::from_utf8_lossy(&before[last..]).chars().count() + 1)
    }

    /// Reads a list.
    fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<Option<T>, Status>) -> Result<Vec<T>, Status> {
        self.open(b'[')?;
        let mut elements = Vec::new();
        while self.next(b']')? {
            elements.extend(element(self)?);
        }
        Ok(elements)
    }

    /// Reads an enum by its name or number: none for a name that is unknown, which is skipped as an unknown field is.
    pub(super) fn named(&mut self, field: &str, named: impl Fn(&str) -> Option<i32>) -> Result<Option<i32>, Status> {
        let (at, token) = self.token()?;
        match self.string(token) {
            Some(name) => Ok(named(&name)),
            None => {
                integer(token).and_then(|number| i32::try_from(number).ok()).map(Some).ok_or_else(|| self.invalid("enum", field, at, token))
            }
        }
    }

    /// Reads a list of enums.
    pub(super) fn all_named(&mut self, field: &str, named: impl Fn(&str) -> Option<i32>) -> Result<Vec<i32>, Status> {
        self.list(|reader| reader.named(field, &named))
    }

    /// Reads an integer as a number or in a string.
    fn number<T: TryFrom<i128>>(&mut self, kind: &str, field: &str) -> Result<T, Status> {
        let (at, token) = self.token()?;
        let text = self.string(token);
        let number = integer(text.as_deref().unwrap_or(token)).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| self.invalid(kind, field, at, token))
    }
}

/// A field's value.
pub(super) trait Take: Sized {
    fn take(field: &str, reader: &mut Reader<'_>) -> Result<Self, Status>;
}

impl Take for bool {
    fn take(field: &str, reader: &mut Reader<'_>) -> Result<Self, Status> {
        match reader.token()? {
            (_, "true") => Ok(true),
            (_, "false") => Ok(false),
            (at, token) => Err(reader.invalid("bool", field, at, token)),
        }
    }
}

impl Take for i64 {
    fn take(field: &str, reader: &mut Reader<'_>) -> Result<Self, Status> {
        reader.number("int64", field)
    }
}

impl Take for u64 {
    fn take(field: &str, reader: &mut Reader<'_>) -> Result<Self, Status> {
        reader.number("uint64", field)
    }
}

impl Take for Vec<u8> {
    fn take(field: &str, reader: &mut Reader<'_>) -> Result<Self, Status> {
        let (at, token) = reader.token()?;
        reader.string(token).and_then(|text| bytes(&text)).ok_or_else(|| reader.invalid("bytes", field, at, token))
    }
}

impl<M: Read> Take for M {
    fn take(_: &str, reader: &mut Reader<'_>) -> Result<Self, Status> {
        reader.message()
    }
}

impl<M: Read> Take for Vec<M> {
    fn take(_: &str, reader: &mut Reader<'_>) -> Result<Self, Status> {
        reader.list(|reader| reader.message().map(Some))
    }
}

/// Returns whether a name means a field: the one in the .proto file, or that in lower camel case.
fn is_named(field: &str, name: &str) -> bool {
    field == name || (field.contains('_') && camel(field) == name)
}

fn camel(field: &str) -> String {
    let mut upper = false;
    let mut name = String::with_capacity(field.len());
    for letter in field.chars() {
        match letter {
            '_' => upper = true,
            letter => name.push(if std::mem::take(&mut upper) { letter.to_ascii_uppercase() } else { letter }),
        }
    }
    name
}

fn quoted(text: &str) -> String {
    go::quote::quoted(text)
}

/// Finds half of a surrogate pair that is alone: where its other half should be.
fn lone_surrogate(text: &str) -> Option<usize> {
    let code = |at: usize| text.get(at + 2..at + 6).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        at += found;
        if text.as_bytes().get(at + 1) != Some(&b'u') {
            at += 2;
            continue;
        }
        let first = code(at).unwrap_or(0);
        at += 6;
        if (0xd800..0xe000).contains(&first) {
            let second = text[at..].starts_with("\\u").then(|| code(at)).flatten().unwrap_or(0);
            if first >= 0xdc00 || !(0xdc00..0xe000).contains(&second) {
                return Some(at);
            }
            at += 6;
        }
    }
    None
}

/// Reads an integer of JSON; one with a fraction or an exponent is an integer too when nothing is left behind its point.
fn integer(text: &str) -> Option<i128> {
    let mut scanner = Scanner::new(text.as_bytes());
    let is_number = scanner.number().is_ok() && scanner.at() == text.len();
    if !is_number {
        return None;
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let shift = i64::from(exponent.parse::<i32>().ok()?) - i64::try_from(fraction.len()).ok()?;
    let digits = format!("{whole}{fraction}");
    let number: i128 = if digits.len() > 2 * DIGITS_MAX { None } else { digits.parse().ok() }?;
    match u32::try_from(shift) {
        _ if number == 0 => Some(0),
        Ok(shift) => 10_i128.checked_pow(shift)?.checked_mul(number),
        Err(_) => {
            let divisor = 10_i128.checked_pow(u32::try_from(-shift).ok()?)?;
            (number % divisor == 0).then_some(number / divisor)
        }
    }
}

/// Decodes base64 of either alphabet, with its padding or without any.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let alphabet = if text.contains(['-', '_']) { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
    let padding = if text.len().is_multiple_of(4) { DecodePaddingMode::RequireCanonical } else { DecodePaddingMode::RequireNone };
    let config = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(padding);
    GeneralPurpose::new(alphabet, config).decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_of_protojson() {
        for (text, number) in [("0", 0), ("-0", 0), ("12", 12), ("-12.50e1", -125), ("9e1", 90), ("1200e-2", 12), ("99.0", 99)] {
            assert_eq!(integer(text), Some(number), "{text}");
        }
        for text in ["", " 1", "+1", "01", "1.", "9.9", "1e-1", "9e400", "x", "1e", "0x1"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn values_end_with_the_first_that_is_none() {
        let read = |body: &'static str| {
            let found = values(body.as_bytes());
            found.map(|value| value.map(<[u8]>::len).map_err(|error| error.message().to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(read(" \n"), []);
        assert_eq!(read(r#" {"a":1}{} "#), [Ok(7), Ok(2)]);
        assert_eq!(read("1 nope 2"), [Ok(1), Err("invalid character 'o' in literal null (expecting 'u')".to_owned())]);
        assert_eq!(read(r#"{"a""#), [Err("unexpected EOF".to_owned())]);
    }
}
