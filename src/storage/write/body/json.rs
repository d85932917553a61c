//! JSON as Go's `encoding/json` reads it: its errors, its integers, its patience with broken text; and the keys that stand twice.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
};

use serde_json::{Map, Value};

use super::{BODY_DEPTH_MAX, DUPLICATES_MAX, Duplicate, PATHS_BYTES_MAX, long_paths};
use crate::write::typed::TOLD_BYTES_MAX;
use go::scanner::Scanner;

/// A document that could be read.
pub(super) struct Read {
    pub(super) value: Value,
    pub(super) duplicates: Vec<Duplicate>,
    /// The first number that no float64 holds; the largest one stands in its place.
    pub(super) overflow: Option<String>,
}

/// What becomes of a key that an object has more than once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DuplicateKeys {
    /// The last one wins.
    Last,
    /// Objects are merged, of all else the last one wins.
    Merged,
}

/// Reads one document. Integers that fit are int64, all other numbers float64, as the real server keeps them.
///
/// # Errors
/// The text of Go's syntax error.
pub(super) fn parse(bytes: &[u8], duplicate_keys: DuplicateKeys) -> Result<Read, String> {
    let mut parser = Parser::new(bytes, duplicate_keys);
    let value = parser.value()?;
    parser.scanner.end()?;
    let duplicates = parser.duplicates.into_iter().map(Duplicate::Field).collect();
    Ok(Read { value, duplicates, overflow: parser.overflow })
}

/// The order in which a document comes to these paths, each for the time that stands with it: 1 is the first. A path that it does not come to so often
/// is left out.
pub(super) fn order(bytes: &[u8], paths: impl IntoIterator<Item = (String, usize)>) -> Vec<String> {
    let mut parser = Parser { awaited: paths.into_iter().collect(), ..Parser::new(bytes, DuplicateKeys::Last) };
    // It was read before, or there would be no paths.
    let _ = parser.value();
    parser.met
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    duplicate_keys: DuplicateKeys,
    depth: usize,
    /// Where we are, as duplicates are reported: `spec.a[0]`.
    path: String,
    /// Bytes that the paths may still have.
    paths_room: usize,
    duplicates: Vec<String>,
    /// The same, to find them.
    warnings: HashSet<String>,
    told_bytes: usize,
    overflow: Option<String>,
    /// Paths of `order` that are still to come, with how often.
    awaited: BTreeMap<String, usize>,
    met: Vec<String>,
}

impl<'a> Parser<'a> {
    fn new(bytes: &'a [u8], duplicate_keys: DuplicateKeys) -> Self {
        let (path, duplicates, warnings, awaited, met) = Default::default();
        let paths_room = PATHS_BYTES_MAX;
        Self {
            scanner: Scanner::new(bytes),
            duplicate_keys,
            depth: 0,
            path,
            paths_room,
            duplicates,
            warnings,
            told_bytes: 0,
            overflow: None,
            awaited,
            met,
        }
    }

    fn value(&mut self) -> Result<Value, String> {
        match self.scanner.token()? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'"' => self.scanner.string().map(Value::String),
            b't' => self.scanner.literal("true").map(|()| Value::Bool(true)),
            b'f' => self.scanner.literal("false").map(|()| Value::Bool(false)),
            b'n' => self.scanner.literal("null").map(|()| Value::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(self.scanner.unexpected("looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, String>) -> Result<Value, String> {
        if self.depth == BODY_DEPTH_MAX {
            return Err(self.scanner.unexpected("exceeded max depth"));
        }
        self.depth += 1;
        self.scanner.skip();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Value, String> {
        let mut members = Map::new();
        let parent = self.path.len();
        if self.scanner.token()? == b'}' {
            self.scanner.skip();
            return Ok(Value::Object(members));
        }
        loop {
            if self.scanner.token()? != b'"' {
                return Err(self.scanner.unexpected("looking for beginning of object key string"));
            }
            let key = self.scanner.string()?;
            if self.scanner.token()? != b':' {
                return Err(self.scanner.unexpected("after object key"));
            }
            self.scanner.skip();
            if parent > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            self.count_path()?;
            self.meet();
            if members.contains_key(&key) {
                self.tell_duplicate();
            }
            let value = self.value()?;
            self.path.truncate(parent);
            match (members.get_mut(&key), value) {
                (Some(Value::Object(old)), Value::Object(new)) if self.duplicate_keys == DuplicateKeys::Merged => merge(old, new),
                (_, value) => {
                    members.insert(key, value);
                }
            }
            match self.scanner.token()? {
                b',' => self.scanner.skip(),
                b'}' => break self.scanner.skip(),
                _ => return Err(self.scanner.unexpected("after object key:value pair")),
            }
        }
        Ok(Value::Object(members))
    }

    fn array(&mut self) -> Result<Value, String> {
        let mut items = Vec::new();
        let parent = self.path.len();
        if self.scanner.token()? == b']' {
            self.scanner.skip();
            return Ok(Value::Array(items));
        }
        loop {
            write!(self.path, "[{}]", items.len()).expect("writing to a String cannot fail");
            self.count_path()?;
            items.push(self.value()?);
            self.path.truncate(parent);
            match self.scanner.token()? {
                b',' => self.scanner.skip(),
                b']' => break self.scanner.skip(),
                _ => return Err(self.scanner.unexpected("after array element")),
            }
        }
        Ok(Value::Array(items))
    }

    /// Before anything else looks at the path: a long one is not looked at too often.
    fn count_path(&mut self) -> Result<(), String> {
        self.paths_room = self.paths_room.checked_sub(self.path.len()).ok_or_else(long_paths)?;
        Ok(())
    }

    fn meet(&mut self) {
        if self.awaited.is_empty() {
            return;
        }
        let Some(times) = self.awaited.get_mut(&self.path) else { return };
        *times -= 1;
        if *times == 0 {
            self.awaited.remove(&self.path);
            self.met.push(self.path.clone());
        }
    }

    fn tell_duplicate(&mut self) {
        let is_full = self.duplicates.len() == DUPLICATES_MAX || self.told_bytes > TOLD_BYTES_MAX;
        if !is_full && !self.warnings.contains(&self.path) {
            self.told_bytes += self.path.len();
            self.warnings.insert(self.path.clone());
            self.duplicates.push(self.path.clone());
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let (text, is_integer) = self.scanner.number()?;
        let text = String::from_utf8_lossy(text);
        if let Some(exact) = text.parse::<i64>().ok().filter(|_| is_integer) {
            return Ok(exact.into());
        }
        let number = float_of(&text);
        if number.is_infinite() {
            self.overflow.get_or_insert_with(|| text.into_owned());
        }
        Ok(held(number).into())
    }
}

fn float_of(text: &str) -> f64 {
    text.parse().unwrap_or_default()
}

/// The float that stands for one in a tree.
fn held(number: f64) -> f64 {
    number.clamp(f64::MIN, f64::MAX)
}

/// Returns the first number of a document that is printed like this, as it was sent.
pub(super) fn number_as_sent<'b>(bytes: &'b [u8], printed: &str) -> Option<&'b str> {
    let wanted = float_of(printed);
    let mut scanner = Scanner::new(bytes);
    loop {
        match scanner.token().ok()? {
            b'"' => drop(scanner.string().ok()?),
            b'-' | b'0'..=b'9' => {
                let text = std::str::from_utf8(scanner.number().ok()?.0).ok()?;
                if text == printed || text.parse::<i64>().is_err() && held(float_of(text)).to_bits() == wanted.to_bits() {
                    return Some(text);
                }
            }
            _ => scanner.skip(),
        }
    }
}

fn merge(old: &mut Map<String, Value>, new: Map<String, Value>) {
    for (key, value) in new {
        match (old.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (_, value) => {
                old.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use go::scanner::END;

    fn read(text: &str) -> Value {
        parse(text.as_bytes(), DuplicateKeys::Last).map(|read| read.value).expect("JSON")
    }

    /// Each of these was sent to a kube-apiserver.
    #[test]
    fn errors_are_those_of_go() {
        let cases: &[(&[u8], &str)] = &[
            (b"{", END),
            (b"{\"a\"", END),
            (b"{\"a\":", END),
            (b"\"abc", END),
            (b"{x", "invalid character 'x' looking for beginning of object key string"),
            (b"{\"a\" x", "invalid character 'x' after object key"),
            (b"{\"a\":1 x", "invalid character 'x' after object key:value pair"),
            (b"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            (b"[1 x", "invalid character 'x' after array element"),
            (b"[1,]", "invalid character ']' looking for beginning of value"),
            (b"tru", "invalid character ' ' in literal true (expecting 'e')"),
            (b"nulx", "invalid character 'x' in literal null (expecting 'l')"),
            (b"-", "invalid character ' ' in numeric literal"),
            (b"01", "invalid character '1' after top-level value"),
            (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
            (b"1e", "invalid character ' ' in exponent of numeric literal"),
            (b"1e+x", "invalid character 'x' in exponent of numeric literal"),
            (b"\"\x01\"", "invalid character '\\x01' in string literal"),
            (b"\"\\x\"", "invalid character 'x' in string escape code"),
            (b"\"\\u12x\"", "invalid character 'x' in \\u hexadecimal character escape"),
            (b"{} x", "invalid character 'x' after top-level value"),
            (b"'", "invalid character '\\'' looking for beginning of value"),
            (b"\xef\xbb\xbf{}", "invalid character 'ï' looking for beginning of value"),
            (b"\xff", "invalid character 'ÿ' looking for beginning of value"),
        ];
        for (body, want) in cases {
            assert_eq!(
                parse(body, DuplicateKeys::Last).map(|read| read.value),
                Err((*want).to_owned()),
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn depth_has_a_limit() {
        let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(deep(BODY_DEPTH_MAX).as_bytes(), DuplicateKeys::Last).is_ok());
        assert!(serde_json::from_str::<Value>(&deep(BODY_DEPTH_MAX)).is_ok(), "what is written can be read back");
        assert_eq!(
            parse(deep(BODY_DEPTH_MAX + 1).as_bytes(), DuplicateKeys::Last).err().as_deref(),
            Some("invalid character '[' exceeded max depth")
        );
    }

    #[test]
    fn numbers_are_int64_or_float64() {
        let numbers = "[9223372036854775807,9223372036854775808,18446744073709551615,-0,1.0,1e2,0.1]";
        assert_eq!(read(numbers), json!([i64::MAX, 9_223_372_036_854_775_808_f64, 18_446_744_073_709_551_615_f64, 0, 1.0, 100.0, 0.1]));
        assert!(read("[-0]")[0].is_i64() && read("[1.0]")[0].is_f64() && read("[9223372036854775808]")[0].is_f64());
    }

    #[test]
    fn broken_text_is_replaced_byte_by_byte() {
        let text = parse(b"\"a\xff\xfe\xe2\x82z\"", DuplicateKeys::Last).map(|read| read.value).expect("Go reads it");
        assert_eq!(text, "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}z");
        assert_eq!(read(r#""\ud800x\udc00\ud800A😀""#), "\u{fffd}x\u{fffd}\u{fffd}A\u{1f600}");
    }

    #[test]
    fn the_last_duplicate_wins() {
        assert_eq!(read(r#"{"a":1,"a":{"b":2},"a":{"c":3}}"#), json!({"a": {"c": 3}}));
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map(".{0,4}", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_what_serde_json_reads(value in tree()) {
            let text = value.to_string();
            let read = parse(text.as_bytes(), DuplicateKeys::Last).map_err(TestCaseError::fail)?;
            prop_assert_eq!(&read.value, &value);
            prop_assert!(read.duplicates.is_empty() && read.overflow.is_none());
        }

        #[test]
        fn refuses_what_serde_json_refuses(text in r#"[\[\]{}:,"\\ae0-9.tru\-+]{0,12}"#) {
            prop_assert_eq!(parse(text.as_bytes(), DuplicateKeys::Last).is_ok(), serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{}", text);
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes, DuplicateKeys::Last);
        }
    }
}
