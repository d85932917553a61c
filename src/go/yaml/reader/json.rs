//! JSON of which YAML says the same, read as JSON: what programs send as YAML is JSON as a rule, and ten times as fast to read.

use serde_json::{Map, Value};

use super::DEPTH_MAX;

/// Bytes of a key up to which YAML takes it for one.
const KEY_BYTES_MAX: usize = 1000;
/// Digits of an integer that fits whatever they are.
const DIGITS_MAX: usize = 18;

/// Reads an object on one line. `None` when it is none, or when it has anything that YAML may read otherwise: line breaks, fractions and exponents, keys that
/// stand twice, merge keys, surrogates, characters that YAML does not print or takes for line breaks.
pub(super) fn read(text: &str) -> Option<Value> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    if reader.next() != Some(b'{') {
        return None;
    }
    let value = reader.value()?;
    let rest = &text[reader.at..];
    matches!(rest, "" | "\n").then_some(value)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    /// Returns the next byte after spaces.
    fn next(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at)? {
                b' ' => self.at += 1,
                byte => return Some(*byte),
            }
        }
    }

    fn takes(&mut self, word: &str) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn value(&mut self) -> Option<Value> {
        match self.next()? {
            b'{' => self.nested(Self::members),
            b'[' => self.nested(Self::items),
            b'"' => self.string().map(Value::String),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => self.integer(),
        }
    }

    /// Takes a word that something else follows.
    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        self.takes(word)?;
        self.ends_here().then_some(value)
    }

    fn ends_here(&self) -> bool {
        matches!(self.text.as_bytes().get(self.at), Some(b',' | b']' | b'}' | b' '))
    }

    fn integer(&mut self) -> Option<Value> {
        let start = self.at;
        let is_negative = self.takes("-").is_some();
        let digits = self.text[self.at..].bytes().take_while(u8::is_ascii_digit).count();
        let leads_with_zero = self.text[self.at..].starts_with('0');
        self.at += digits;
        // `-0` is a float to JSON, `010` another number to YAML.
        if digits == 0 || digits > DIGITS_MAX || leads_with_zero && (digits > 1 || is_negative) || !self.ends_here() {
            return None;
        }
        self.text[start..self.at].parse::<i64>().ok().map(Value::from)
    }

    fn nested(&mut self, inside: fn(&mut Self) -> Option<Value>) -> Option<Value> {
        self.at += 1;
        self.depth += 1;
        let value = if self.depth > DEPTH_MAX { None } else { inside(self) };
        self.depth -= 1;
        value
    }

    fn items(&mut self) -> Option<Value> {
        let mut items = Vec::new();
        if self.next()? != b']' {
            loop {
                items.push(self.value()?);
                match self.next()? {
                    b',' => self.at += 1,
                    b']' => break,
                    _ => return None,
                }
            }
        }
        self.at += 1;
        Some(Value::Array(items))
    }

    fn members(&mut self) -> Option<Value> {
        let mut members = Map::new();
        if self.next()? != b'}' {
            loop {
                if self.next()? != b'"' {
                    return None;
                }
                let start = self.at;
                let key = self.string()?;
                if self.at - start > KEY_BYTES_MAX || key == "<<" {
                    return None;
                }
                self.takes(":")?;
                if members.insert(key, self.value()?).is_some() {
                    return None;
                }
                match self.next()? {
                    b',' => self.at += 1,
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        self.at += 1;
        Some(Value::Object(members))
    }

    fn string(&mut self) -> Option<String> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.bytes().take_while(|byte| (b' '..=b'~').contains(byte) && !matches!(byte, b'"' | b'\\')).count();
            string.push_str(&rest[..plain]);
            self.at += plain;
            match rest[plain..].chars().next()? {
                '"' => {
                    self.at += 1;
                    return Some(string);
                }
                '\\' => string.push(self.escaped()?),
                other if is_printed(other) => {
                    string.push(other);
                    self.at += other.len_utf8();
                }
                _ => return None,
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let kind = *self.text.as_bytes().get(self.at + 1)?;
        self.at += 2;
        Some(match kind {
            b'"' => '"',
            b'\\' => '\\',
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            // What Go writes of `<`, `>`, `&`.
            b'u' => {
                let digits = self.text.get(self.at..self.at + 4).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
                self.at += 4;
                char::from_u32(u32::from_str_radix(digits, 16).ok()?).filter(|char| (' '..='~').contains(char))?
            }
            _ => return None,
        })
    }
}

/// Whether a character beyond ASCII is one to YAML, and no line break.
fn is_printed(char: char) -> bool {
    char >= '\u{a0}' && !matches!(char, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::parse_as_yaml, *};

    #[test]
    fn what_programs_send_is_read() {
        let sent = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","labels":null},"data":{"a":"\u003cp\u003e\n\"é\"","n":[-12, 0,true,{}]}}"#;
        assert_eq!(read(&format!("{sent}\n")), serde_json::from_str(sent).ok());
        for other in [
            "",
            "[]",
            "{\"a\":1.5}",
            "{\"a\":1e3}",
            "{\"a\":-0}",
            "{\"a\":010}",
            "{\"a\":1,\"a\":1}",
            "{\"<<\":{}}",
            "{\"a\":\"\u{2028}\"}",
            "{}x",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(read(&format!("{{\"a\":{}1{}}}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX))), None);
    }

    proptest! {
        /// Whatever is read here, the reader of YAML reads so too, without anything to tell.
        #[test]
        fn yaml_says_the_same(value in corpus::any_json(), texts in prop::collection::vec(any::<String>(), 0..4), cut in any::<prop::sample::Index>(), with in "[ \\[\\]{},:\"\\\\0-9a-f\\-\u{85}\u{a0}\u{2028}~<]{0,3}") {
            let whole = serde_json::json!({"a": value, "b": texts}).to_string();
            let at = (0..=cut.index(whole.len())).rev().find(|at| whole.is_char_boundary(*at)).unwrap_or(0);
            for text in [whole.clone(), [&whole[..at], &with, &whole[at..]].concat()] {
                if let Some(value) = read(&text) {
                    let document = parse_as_yaml(text.as_bytes()).map_err(|wrong| TestCaseError::fail(format!("{text}: {wrong}")))?;
                    prop_assert_eq!((&document.value, document.duplicates.len()), (&value, 0), "{}", text);
                }
            }
        }
    }
}
