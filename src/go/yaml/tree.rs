//! JSON as go-yaml reads it: a flat tree of spans, maps already in go-yaml's order.
//!
//! What differs from reading JSON: a next-line character ends a line, and lines are folded; some characters are refused; a key that is too long is none.

use std::{ops::Range, slice};

use super::{NoYaml, number, order};

/// Lists and maps inside each other that a YAML document may have: go-yaml's own number, and as many as Go's `encoding/json` reads of JSON.
pub(super) const YAML_DEPTH_MAX: usize = 10_000;
/// Characters from the beginning of a key to its colon, quotes and escapes included (YAML 1.2 §7.4.2).
const KEY_CHARACTERS: usize = 1024;
/// YAML's next-line character: a line break that Go's JSON leaves as it is.
const NEXT_LINE: char = '\u{85}';

/// A text: where it stands in the JSON, or, from the JSON's length on, among the decoded texts.
#[derive(Clone, Copy)]
pub(super) struct Span {
    at: u32,
    len: u32,
}

/// Children of a node, in the order they are printed.
pub(super) type Children = Range<u32>;

/// What stands for a value.
pub(super) enum Value {
    /// A number, a boolean or null, as it is printed.
    Word(Span),
    Text(Span),
    List(Children),
    Map(Children),
}

/// A value with its key, if it is a member of a map.
pub(super) struct Node {
    pub(super) key: Span,
    pub(super) value: Value,
}

/// A whole value. Costs 24 bytes a node besides the texts that have escapes.
pub(super) struct Tree<'a> {
    json: &'a str,
    decoded: String,
    nodes: Vec<Node>,
    children: Vec<u32>,
}

impl<'a> Tree<'a> {
    /// Reads JSON.
    ///
    /// # Errors
    /// See [`NoYaml`].
    pub(super) fn read(json: &'a [u8]) -> Result<Self, NoYaml> {
        let text = std::str::from_utf8(json).map_err(|error| NoYaml::Json(error.valid_up_to()))?;
        // Spans count in 32 bits. A text may be kept twice (decoded, folded) and a number becomes twice as long (`1e5`), so three parts more are left.
        if text.len() > (u32::MAX / 4) as usize {
            return Err(NoYaml::Size);
        }
        let tree = Tree { json: text, decoded: String::new(), nodes: Vec::new(), children: Vec::new() };
        Reader { tree, at: 0, open: Vec::new(), waiting: Vec::new() }.read()
    }

    pub(super) fn root(&self) -> &Node {
        &self.nodes[0]
    }

    pub(super) fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    pub(super) fn children(&self, range: &Children) -> slice::Iter<'_, u32> {
        self.children[range.start as usize..range.end as usize].iter()
    }

    pub(super) fn text(&self, span: Span) -> &str {
        let (at, len) = (span.at as usize, span.len as usize);
        match at.checked_sub(self.json.len()) {
            None => &self.json[at..at + len],
            Some(at) => &self.decoded[at..at + len],
        }
    }

    /// Keeps a text that is not in the JSON.
    fn keep(&mut self, text: &str) -> Span {
        let span = Span { at: (self.json.len() + self.decoded.len()) as u32, len: text.len() as u32 };
        self.decoded.push_str(text);
        span
    }
}

/// A list or map that has not ended.
struct Open {
    id: u32,
    is_map: bool,
    /// How many nodes waited for their parents when it began.
    first: usize,
}

struct Reader<'a> {
    tree: Tree<'a>,
    at: usize,
    open: Vec<Open>,
    /// Nodes whose parent has not ended.
    waiting: Vec<u32>,
}

/// The key of what has none.
const NO_KEY: Span = Span { at: 0, len: 0 };

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<Tree<'a>, NoYaml> {
        let mut key = NO_KEY;
        loop {
            if let Some(is_map) = self.value(key)? {
                // Its first child comes next.
                key = self.next_key(is_map)?;
                continue;
            }
            // A value has ended: with it, all that it was the last child of.
            loop {
                let Some(open) = self.open.last() else {
                    return if self.peek().is_none() { Ok(self.tree) } else { Err(self.wrong()) };
                };
                let is_map = open.is_map;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        key = self.next_key(is_map)?;
                        break;
                    }
                    Some(b'}') if is_map => self.close(),
                    Some(b']') if !is_map => self.close(),
                    _ => return Err(self.wrong()),
                }
            }
        }
    }

    /// Reads a value; of a list or map that is not empty only the beginning, and then it says which.
    fn value(&mut self, key: Span) -> Result<Option<bool>, NoYaml> {
        let first = self.peek().ok_or_else(|| self.wrong())?;
        let id = self.tree.nodes.len() as u32;
        let value = match first {
            b'{' | b'[' => {
                let is_map = first == b'{';
                if self.open.len() == YAML_DEPTH_MAX {
                    return Err(NoYaml::Depth);
                }
                self.at += 1;
                let none = 0..0;
                let value = if is_map { Value::Map(none) } else { Value::List(none) };
                if self.peek() != Some(if is_map { b'}' } else { b']' }) {
                    self.tree.nodes.push(Node { key, value });
                    self.waiting.push(id);
                    self.open.push(Open { id, is_map, first: self.waiting.len() });
                    return Ok(Some(is_map));
                }
                self.at += 1;
                value
            }
            b'"' => Value::Text(self.string()?),
            _ => Value::Word(self.word()?),
        };
        self.tree.nodes.push(Node { key, value });
        self.waiting.push(id);
        Ok(None)
    }

    /// Ends the innermost list or map: its children are known and, in a map, get their order.
    fn close(&mut self) {
        self.at += 1;
        let open = self.open.pop().expect("the caller looked");
        let mut ids = self.waiting.split_off(open.first);
        let tree = &mut self.tree;
        if open.is_map {
            let key = |id: u32| tree.text(tree.nodes[id as usize].key);
            order::sort(&mut ids, |a, b| order::is_less(key(a), key(b)));
            // Of members with one key the last counts.
            ids.reverse();
            ids.dedup_by(|earlier, later| key(*earlier) == key(*later));
            ids.reverse();
        }
        let start = tree.children.len() as u32;
        tree.children.append(&mut ids);
        let range = start..tree.children.len() as u32;
        tree.nodes[open.id as usize].value = if open.is_map { Value::Map(range) } else { Value::List(range) };
    }

    /// The key of the next child, past its colon; nothing in a list.
    fn next_key(&mut self, is_map: bool) -> Result<Span, NoYaml> {
        if !is_map {
            return Ok(NO_KEY);
        }
        if self.peek() != Some(b'"') {
            return Err(self.wrong());
        }
        let text = self.decoded()?;
        let read = self.tree.text(text);
        if read.contains(NEXT_LINE) || is_too_long(read) {
            return Err(NoYaml::Key { line: self.lines() });
        }
        let key = self.checked(text)?;
        if self.peek() != Some(b':') {
            return Err(self.wrong());
        }
        self.at += 1;
        Ok(key)
    }

    fn string(&mut self) -> Result<Span, NoYaml> {
        let text = self.decoded()?;
        self.checked(text)
    }

    /// A string without its quotes and escapes.
    fn decoded(&mut self) -> Result<Span, NoYaml> {
        let begin = self.at;
        let bytes = self.tree.json.as_bytes();
        let mut end = begin + 1;
        let mut escapes = false;
        loop {
            let more = bytes.get(end..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest));
            end += more.ok_or(NoYaml::Json(bytes.len()))?;
            if bytes[end] == b'"' {
                break;
            }
            escapes = true;
            end += 2;
        }
        self.at = end + 1;
        if !escapes {
            return Ok(Span { at: (begin + 1) as u32, len: (end - begin - 1) as u32 });
        }
        let text: String = serde_json::from_str(&self.tree.json[begin..self.at]).map_err(|_| NoYaml::Json(begin))?;
        Ok(self.tree.keep(&text))
    }

    /// What go-yaml makes of a text in quotes.
    fn checked(&mut self, span: Span) -> Result<Span, NoYaml> {
        let text = self.tree.text(span);
        let bytes = text.as_bytes();
        let mut lines = false;
        for at in memchr::memchr3_iter(0x7F, 0xC2, 0xEF, bytes) {
            match &bytes[at..] {
                [0xC2, 0x85, ..] => lines = true,
                [0x7F, ..] | [0xC2, 0x80..0xA0, ..] | [0xEF, 0xBF, 0xBE | 0xBF, ..] => return Err(NoYaml::Control),
                _ => {}
            }
        }
        if !lines {
            return Ok(span);
        }
        let folded = fold(text).ok_or_else(|| NoYaml::Document { line: self.lines() + 1 })?;
        Ok(self.tree.keep(&folded))
    }

    fn word(&mut self) -> Result<Span, NoYaml> {
        let begin = self.at;
        let rest = &self.tree.json.as_bytes()[begin..];
        let len = rest.iter().position(|byte| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n')).unwrap_or(rest.len());
        self.at += len;
        let word = &self.tree.json[begin..begin + len];
        if matches!(word, "null" | "true" | "false") {
            return Ok(Span { at: begin as u32, len: len as u32 });
        }
        let shown = number::shown(word).ok_or(NoYaml::Json(begin))?;
        Ok(self.tree.keep(&shown))
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.tree.json.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// How many lines have ended before here.
    fn lines(&self) -> usize {
        self.tree.json[..self.at].matches(NEXT_LINE).count()
    }

    fn wrong(&self) -> NoYaml {
        NoYaml::Json(self.at)
    }
}

/// Whether a key, as Go's JSON has it, reaches too far before its colon.
fn is_too_long(key: &str) -> bool {
    // Six characters for one at most.
    if 6 * key.len() + 2 <= KEY_CHARACTERS {
        return false;
    }
    let characters = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
        _ => 1,
    };
    key.chars().map(characters).sum::<usize>() + 2 > KEY_CHARACTERS
}

/// Folds the lines of a text in quotes: a line break between two texts is a space, of more each but the first is a newline, and spaces around them go.
/// `None` when a line begins as a document does.
fn fold(text: &str) -> Option<String> {
    let mut lines = text.split(NEXT_LINE);
    let mut folded = String::with_capacity(text.len());
    folded.push_str(lines.next().unwrap_or_default());
    let mut breaks = 0;
    let mut rest = lines.peekable();
    while let Some(line) = rest.next() {
        if breaks == 0 {
            folded.truncate(folded.trim_end_matches(' ').len());
        }
        breaks += 1;
        let after = line.strip_prefix("---").or(line.strip_prefix("..."));
        if after.is_some_and(|after| after.starts_with(' ') || (after.is_empty() && rest.peek().is_some())) {
            return None;
        }
        let line = line.trim_start_matches(' ');
        if line.is_empty() && rest.peek().is_some() {
            continue;
        }
        if breaks == 1 {
            folded.push(' ');
        }
        folded.extend((1..breaks).map(|_| '\n'));
        folded.push_str(line);
        breaks = 0;
    }
    Some(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_folded() {
        for (text, folded) in [
            ("a\u{85}b", "a b"),
            ("a \u{85} b", "a b"),
            ("a\u{85}\u{85}b", "a\nb"),
            ("a\u{85} \u{85}\u{85}b", "a\n\nb"),
            ("\u{85}", " "),
            ("a\u{85}", "a "),
            ("a\u{85}\u{85}", "a\n"),
            ("\u{85}a b\u{85}c", " a b c"),
        ] {
            assert_eq!(fold(text).as_deref(), Some(folded), "{text:?}");
        }
        assert_eq!([fold("a\u{85}--- b"), fold("a\u{85}...\u{85}")], [None, None]);
        assert!(fold("a\u{85}---").is_some());
    }

    #[test]
    fn only_json_is_read() {
        for (text, at) in [
            ("", 0),
            ("{", 1),
            ("[1", 2),
            ("[1,]", 3),
            ("{\"a\"}", 4),
            ("{\"a\" 1}", 5),
            ("{a:1}", 1),
            ("[1}", 2),
            ("1 2", 2),
            ("\"a", 2),
            ("\"\\", 2),
            ("\"\\ud800\"", 0),
            ("tru", 0),
            ("[1 2]", 3),
            ("{\"a\":1,}", 7),
            ("nan", 0),
            ("Infinity", 0),
            ("0x1", 0),
            ("--1", 0),
        ] {
            assert_eq!(Tree::read(text.as_bytes()).err(), Some(NoYaml::Json(at)), "{text}");
        }
        assert_eq!(Tree::read(b"\"\xff\"").err(), Some(NoYaml::Json(1)));
    }
}
