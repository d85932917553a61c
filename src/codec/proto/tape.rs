//! A JSON text cut into its values in one pass, so that members can be visited in any order without reading them again.

use super::{
    MESSAGE_DEPTH_MAX,
    error::{ProtoError, Result},
};
use crate::skip;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    True,
    False,
    Number,
    /// A string, or the name of a member, without escapes.
    Plain,
    /// One with escapes.
    Escaped,
    Array,
    /// Its nodes are names and values in turn.
    Object,
}

/// A value, or the name of a member. Offsets are those of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// Of a string, after its quote.
    pub(super) start: u32,
    /// Of a string, its quote.
    pub(super) end: u32,
    /// The index of the node that follows it and everything inside it.
    pub(super) next: u32,
}

/// The nodes of a text, the whole value first, in place of what `nodes` had. `open`: of an object without its first bracket.
///
/// # Errors
/// It is no JSON, nested too deeply, or longer than 4 GiB.
pub(super) fn read(text: &[u8], open: bool, nodes: &mut Vec<Node>) -> Result<()> {
    if u32::try_from(text.len()).is_err() {
        return Err(ProtoError::TooLarge);
    }
    nodes.clear();
    // A value of Kubernetes' objects is some ten bytes long.
    nodes.reserve(text.len() / 10 + 8);
    let mut tape = Tape { text, at: 0, nodes };
    if open {
        tape.inside(Kind::Object, b'}', 0)?;
    } else {
        tape.value(0)?;
    }
    tape.spaces();
    if tape.at < text.len() { Err(tape.wrong()) } else { Ok(()) }
}

struct Tape<'t> {
    text: &'t [u8],
    at: usize,
    nodes: &'t mut Vec<Node>,
}

impl Tape<'_> {
    fn wrong(&self) -> ProtoError {
        ProtoError::Json(self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn spaces(&mut self) {
        // Nearly all of what is read has none.
        if self.peek().is_none_or(|byte| byte > b' ') {
            return;
        }
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<()> {
        self.spaces();
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.container(Kind::Object, b'}', depth),
            Some(b'[') => self.container(Kind::Array, b']', depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", Kind::True),
            Some(b'f') => self.word(b"false", Kind::False),
            Some(b'n') => self.word(b"null", Kind::Null),
            _ => Err(self.wrong()),
        }
    }

    fn container(&mut self, kind: Kind, close: u8, depth: usize) -> Result<()> {
        if depth >= MESSAGE_DEPTH_MAX {
            return Err(ProtoError::Depth);
        }
        self.at += 1;
        self.inside(kind, close, depth)
    }

    /// What comes after the first bracket, up to the last one.
    fn inside(&mut self, kind: Kind, close: u8, depth: usize) -> Result<()> {
        let (index, start) = (self.nodes.len(), self.at.saturating_sub(1));
        self.push(kind, start, start);
        self.spaces();
        if self.peek() != Some(close) {
            loop {
                if kind == Kind::Object {
                    self.spaces();
                    if self.peek() != Some(b'"') {
                        return Err(self.wrong());
                    }
                    self.string()?;
                    self.spaces();
                    self.byte(b':')?;
                }
                self.value(depth + 1)?;
                self.spaces();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(byte) if byte == close => break,
                    _ => return Err(self.wrong()),
                }
            }
        }
        self.at += 1;
        let (end, next) = (self.at as u32, self.nodes.len() as u32);
        let node = &mut self.nodes[index];
        (node.end, node.next) = (end, next);
        Ok(())
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { kind, start: start as u32, end: end as u32, next });
    }

    fn byte(&mut self, byte: u8) -> Result<()> {
        if self.peek() != Some(byte) {
            return Err(self.wrong());
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Result<()> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.wrong());
        }
        self.push(kind, self.at, self.at + word.len());
        self.at += word.len();
        Ok(())
    }

    fn string(&mut self) -> Result<()> {
        let start = self.at + 1;
        if let Some(end) = skip::plain(self.text, start) {
            self.push(Kind::Plain, start, end);
            self.at = end + 1;
            return Ok(());
        }
        let mut kind = Kind::Plain;
        self.at = start;
        loop {
            let rest = &self.text[self.at..];
            let end = memchr::memchr2(b'"', b'\\', rest).ok_or(ProtoError::Json(self.text.len()))?;
            self.plain(&rest[..end])?;
            self.at += end + 1;
            if rest[end] == b'"' {
                break;
            }
            kind = Kind::Escaped;
            self.escape()?;
        }
        self.push(kind, start, self.at - 1);
        Ok(())
    }

    /// What stands in a string as it is: UTF-8 without control characters. (Outside of strings, JSON has ASCII alone.)
    fn plain(&self, text: &[u8]) -> Result<()> {
        // One loop without an exit, which the compiler turns into vectors.
        let (least, all) = text.iter().fold((u8::MAX, 0), |(least, all), byte| (least.min(*byte), all | byte));
        if least >= b' ' && (all < 0x80 || std::str::from_utf8(text).is_ok()) {
            return Ok(());
        }
        let control = text.iter().position(|byte| *byte < b' ').unwrap_or(text.len());
        let valid = std::str::from_utf8(text).map_or_else(|error| error.valid_up_to(), str::len);
        Err(ProtoError::Json(self.at + control.min(valid)))
    }

    fn escape(&mut self) -> Result<()> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') if self.text.get(self.at + 1..self.at + 5).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => self.at += 5,
            _ => return Err(self.wrong()),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<()> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        self.push(Kind::Number, start, self.at);
        Ok(())
    }

    /// One at least.
    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.wrong()) } else { Ok(()) }
    }
}

/// The text of a string with escapes; half of a surrogate pair becomes U+FFFD, as in Go. `escaped` is what [`read`] found between two quotes.
pub(super) fn unescaped(escaped: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let byte = rest[at + 1];
        rest = &rest[at + 2..];
        match byte {
            b'u' => {
                let mut unit = hex(rest);
                rest = &rest[4..];
                if (0xd800..0xdc00).contains(&unit) && rest.starts_with(br"\u") && (0xdc00..0xe000).contains(&hex(&rest[2..])) {
                    unit = 0x1_0000 + ((unit - 0xd800) << 10) + (hex(&rest[2..]) - 0xdc00);
                    rest = &rest[6..];
                }
                let c = char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            byte => out.push(byte),
        }
    }
    out.extend_from_slice(rest);
    out
}

/// Four hexadecimal digits.
fn hex(digits: &[u8]) -> u32 {
    digits.iter().take(4).fold(0, |value, digit| value << 4 | char::from(*digit).to_digit(16).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        super::read(text.as_bytes(), false, &mut nodes).map(|()| nodes)
    }

    #[test]
    fn nodes_know_what_follows_them() {
        let text = r#" {"a":[1,{"b":null}, "x\n"],"c\"":-1.5e+3,"":true,"d":{}} "#;
        let nodes = read(text).expect("JSON");
        let shown: Vec<(Kind, &str, u32)> = nodes.iter().map(|n| (n.kind, &text[n.start as usize..n.end as usize], n.next)).collect();
        assert_eq!(shown[0].2, nodes.len() as u32);
        assert_eq!(shown[1], (Kind::Plain, "a", 2));
        assert_eq!(shown[2], (Kind::Array, r#"[1,{"b":null}, "x\n"]"#, 8));
        assert_eq!(shown[7], (Kind::Escaped, r"x\n", 8));
        assert_eq!(shown[8..10], [(Kind::Escaped, r#"c\""#, 9), (Kind::Number, "-1.5e+3", 10)]);
        assert_eq!(shown[13], (Kind::Object, "{}", 14));
    }

    #[test]
    fn an_object_may_be_open() {
        let mut nodes = Vec::new();
        for (text, at) in [("", 0), (r#""a":1"#, 5), ("\"a\":1}}", 6), ("]", 0), ("{}", 0)] {
            assert_eq!(super::read(text.as_bytes(), true, &mut nodes), Err(ProtoError::Json(at)), "{text}");
        }
        super::read(b" } ", true, &mut nodes).expect("an object");
        assert_eq!((nodes.len(), nodes[0].kind, nodes[0].next), (1, Kind::Object, 1));
    }

    #[test]
    fn strings_are_text() {
        let read = |text: &[u8]| super::read(text, false, &mut Vec::new());
        for (text, at) in [
            (&b"\"ab\xff\""[..], 3),
            (b"\"\\n\xc3\"", 3),
            (b"\"\xc3\\u0041\xa9\"", 1),
            (b"\"a\x01\xff\"", 2),
            (b"\"\xff\x01\"", 1),
            (b"\"\x1f\"", 1),
        ] {
            assert_eq!(read(text), Err(ProtoError::Json(at)), "{}", text.escape_ascii());
        }
        assert_eq!(read("\"é\\né \u{7f}\"".as_bytes()), Ok(()));
    }

    #[test]
    fn escapes_are_those_of_go() {
        for (escaped, plain) in [
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"a\u003c\u00E9\u2028", "a<é\u{2028}"),
            (r"\ud83d\ude00", "\u{1f600}"),
            (r"\ud83d", "\u{fffd}"),
            (r"\ud83dx\ude00\ud83d\u0041", "\u{fffd}x\u{fffd}\u{fffd}A"),
        ] {
            assert_eq!(String::from_utf8(unescaped(escaped.as_bytes())).expect("UTF-8"), plain, "{escaped}");
        }
    }

    #[test]
    fn depth_has_a_limit() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(&nested(MESSAGE_DEPTH_MAX)).is_ok());
        assert_eq!(read(&nested(MESSAGE_DEPTH_MAX + 1)).err(), Some(ProtoError::Depth));
    }

    proptest! {
        /// What is JSON for serde_json is JSON here, and the other way round.
        #[test]
        fn agrees_with_another_reader(text in r#"[\[\]{}",:\\u0-9eE+.a-f ntrls-]{0,24}"#) {
            let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text);
            let ours = read(&text);
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}", theirs.err());
            // Without its first bracket, all stands one byte before.
            if let (Ok(ours), true) = (ours, text.starts_with('{')) {
                let mut open = Vec::new();
                super::read(&text.as_bytes()[1..], true, &mut open).expect("the same");
                let shown = |nodes: &[Node], before: u32| nodes.iter().skip(1).map(|n| (n.kind, n.start + before, n.end + before, n.next)).collect::<Vec<_>>();
                prop_assert_eq!((shown(&open, 1), open[0].next), (shown(&ours, 0), ours[0].next));
            }
        }
    }
}
