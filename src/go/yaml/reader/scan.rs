//! The tokens of a stream, by the rules of YAML 1.1 as the real server's decoder (go.yaml.in/yaml/v2, after libyaml) has them: which keys may be simple, how
//! deep a line is indented, and what is wrong, with the same line in its text.

mod block;
mod flow;
mod property;

use std::collections::{HashMap, VecDeque};

use super::cursor::{Cursor, Spot};

/// Lists and maps inside each other that are scanned; fewer are decoded.
const DEPTH_SCANNED_MAX: usize = 10_000;
/// Characters up to which a key may be simple.
const KEY_CHARACTERS_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: Spot,
    pub(super) end: Spot,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    StreamStart,
    StreamEnd,
    /// `%YAML 1.1`.
    Version(u8, u8),
    /// `%TAG`: handle and prefix.
    Prefix(String, String),
    DocumentStart,
    DocumentEnd,
    BlockList,
    BlockMap,
    BlockEnd,
    FlowList,
    FlowListEnd,
    FlowMap,
    FlowMapEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    /// Handle and suffix.
    Tag(String, String),
    Scalar {
        text: String,
        plain: bool,
    },
}

/// A token that may turn out to begin a key.
#[derive(Clone, Copy)]
struct SimpleKey {
    is_possible: bool,
    is_required: bool,
    token: usize,
    spot: Spot,
}

pub(super) struct Scanner<'c> {
    at: Cursor<'c>,
    tokens: VecDeque<Token>,
    /// Tokens that were taken out of the queue.
    taken: usize,
    is_begun: bool,
    /// One for the block, one for each list and map in brackets.
    keys: Vec<SimpleKey>,
    /// Which of `keys` begins with the token of that number.
    keys_by_token: HashMap<usize, usize>,
    may_be_key: bool,
    /// The column of the innermost block; -1 is none.
    indent: isize,
    indents: Vec<isize>,
}

fn as_column(column: usize) -> isize {
    isize::try_from(column).unwrap_or(isize::MAX)
}

impl<'c> Scanner<'c> {
    pub(super) fn new(at: Cursor<'c>) -> Self {
        Self {
            at,
            tokens: VecDeque::new(),
            taken: 0,
            is_begun: false,
            keys: Vec::new(),
            keys_by_token: HashMap::new(),
            may_be_key: true,
            indent: -1,
            indents: Vec::new(),
        }
    }

    /// Returns the next token and leaves it there.
    pub(super) fn peek(&mut self) -> Result<&Token, String> {
        while !self.is_ready()? {
            self.fetch()?;
        }
        Ok(&self.tokens[0])
    }

    pub(super) fn take(&mut self) -> Option<Token> {
        self.taken += 1;
        self.tokens.pop_front()
    }

    /// Whether there is a token, and nothing before it may still come: a key is seen late, by its colon.
    fn is_ready(&mut self) -> Result<bool, String> {
        if self.tokens.is_empty() {
            return Ok(false);
        }
        match self.keys_by_token.get(&self.taken) {
            None => Ok(true),
            Some(&key) => self.is_valid(key).map(|valid| !valid),
        }
    }

    /// Returns what is wrong here, with the line that the real server names from the second one on.
    fn wrong<T>(&self, problem: impl Into<String>) -> Result<T, String> {
        let problem = problem.into();
        Err(match self.at.spot.line {
            0 => problem,
            line => format!("line {}: {problem}", line + 1),
        })
    }

    fn in_brackets(&self) -> bool {
        self.keys.len() > 1
    }

    fn fetch(&mut self) -> Result<(), String> {
        self.at.need(1)?;
        if !self.is_begun {
            self.is_begun = true;
            let spot = self.at.spot;
            self.keys.push(SimpleKey { is_possible: false, is_required: false, token: 0, spot });
            self.push(Kind::StreamStart, spot);
            return Ok(());
        }
        self.skip_to_next_token()?;
        self.unroll(as_column(self.at.spot.column));
        self.at.need(4)?;
        if self.at.is_end() {
            return self.fetch_stream_end();
        }
        if self.at.spot.column == 0 && self.at.is(b'%') {
            return self.fetch_directive();
        }
        if self.at.is_document_indicator(b'-') {
            return self.fetch_document_indicator(Kind::DocumentStart);
        }
        if self.at.is_document_indicator(b'.') {
            return self.fetch_document_indicator(Kind::DocumentEnd);
        }
        self.fetch_content()
    }

    fn fetch_content(&mut self) -> Result<(), String> {
        let in_brackets = self.in_brackets();
        match self.at.byte(0) {
            b'[' => self.fetch_open(Kind::FlowList),
            b'{' => self.fetch_open(Kind::FlowMap),
            b']' => self.fetch_close(Kind::FlowListEnd),
            b'}' => self.fetch_close(Kind::FlowMapEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.at.is_gap(1) => self.fetch_block_entry(),
            b'?' if in_brackets || self.at.is_gap(1) => self.fetch_key(),
            b':' if in_brackets || self.at.is_gap(1) => self.fetch_value(),
            b'*' => self.fetch_anchor(Kind::Alias),
            b'&' => self.fetch_anchor(Kind::Anchor),
            b'!' => self.fetch_tag(),
            b'|' if !in_brackets => self.fetch_block_scalar(true),
            b'>' if !in_brackets => self.fetch_block_scalar(false),
            b'\'' => self.fetch_quoted(true),
            b'"' => self.fetch_quoted(false),
            _ if self.begins_plain() => self.fetch_plain(),
            _ => self.wrong("found character that cannot start any token"),
        }
    }

    fn begins_plain(&self) -> bool {
        match self.at.byte(0) {
            b'-' => !self.at.is_blank(1),
            b'?' | b':' => !self.in_brackets() && !self.at.is_gap(1),
            b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@' | b'`' => false,
            _ => !self.at.is_gap(0),
        }
    }

    /// Skips what separates tokens.
    fn skip_to_next_token(&mut self) -> Result<(), String> {
        loop {
            self.at.need(1)?;
            if self.at.is_marked() {
                self.at.skip();
            }
            self.at.need(1)?;
            while self.at.is(b' ') || (self.in_brackets() || !self.may_be_key) && self.at.is(b'\t') {
                self.at.skip();
                self.at.need(1)?;
            }
            self.at.skip_comment()?;
            if !self.at.is_break(0) {
                return Ok(());
            }
            self.at.need(2)?;
            self.at.skip_line();
            if !self.in_brackets() {
                self.may_be_key = true;
            }
        }
    }

    fn push(&mut self, kind: Kind, start: Spot) {
        let end = self.at.spot;
        self.tokens.push_back(Token { kind, start, end });
    }

    /// Adds a token of so many characters.
    fn push_indicator(&mut self, kind: Kind, characters: usize) {
        let start = self.at.spot;
        self.at.skip_many(characters);
        self.push(kind, start);
    }

    /// Whether a token may still begin a key: it must be on this line, and near.
    fn is_valid(&mut self, key: usize) -> Result<bool, String> {
        let Some(simple) = self.keys.get(key).copied().filter(|simple| simple.is_possible) else {
            return Ok(false);
        };
        let now = self.at.spot;
        if simple.spot.line >= now.line && simple.spot.index + KEY_CHARACTERS_MAX >= now.index {
            return Ok(true);
        }
        if simple.is_required {
            return self.wrong("could not find expected ':'");
        }
        self.keys[key].is_possible = false;
        Ok(false)
    }

    fn save_key(&mut self) -> Result<(), String> {
        if self.may_be_key {
            let is_required = !self.in_brackets() && self.indent == as_column(self.at.spot.column);
            self.forget_key()?;
            let token = self.taken + self.tokens.len();
            let last = self.keys.len() - 1;
            self.keys[last] = SimpleKey { is_possible: true, is_required, token, spot: self.at.spot };
            self.keys_by_token.insert(token, last);
        }
        Ok(())
    }

    fn forget_key(&mut self) -> Result<(), String> {
        let last = self.keys.len() - 1;
        let key = self.keys[last];
        if key.is_possible {
            if key.is_required {
                return self.wrong("could not find expected ':'");
            }
            self.keys[last].is_possible = false;
            self.keys_by_token.remove(&key.token);
        }
        Ok(())
    }

    /// Begins a block when this column is further right than the one we are in: before the token of that number, or after the last.
    fn roll(&mut self, column: usize, before: Option<usize>, kind: Kind, spot: Spot) -> Result<(), String> {
        let column = as_column(column);
        if self.in_brackets() || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > DEPTH_SCANNED_MAX {
            return self.wrong(format!("exceeded max depth of {DEPTH_SCANNED_MAX}"));
        }
        let at = before.map_or(self.tokens.len(), |token| token - self.taken);
        self.tokens.insert(at, Token { kind, start: spot, end: spot });
        Ok(())
    }

    /// Ends the blocks that are further right.
    fn unroll(&mut self, column: isize) {
        if self.in_brackets() {
            return;
        }
        while self.indent > column {
            self.push(Kind::BlockEnd, self.at.spot);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch_stream_end(&mut self) -> Result<(), String> {
        if self.at.spot.column != 0 {
            self.at.spot.column = 0;
            self.at.spot.line += 1;
        }
        self.end_blocks()?;
        self.push(Kind::StreamEnd, self.at.spot);
        Ok(())
    }

    fn end_blocks(&mut self) -> Result<(), String> {
        self.unroll(-1);
        self.forget_key()?;
        self.may_be_key = false;
        Ok(())
    }

    fn fetch_document_indicator(&mut self, kind: Kind) -> Result<(), String> {
        self.end_blocks()?;
        self.push_indicator(kind, 3);
        Ok(())
    }

    fn fetch_open(&mut self, kind: Kind) -> Result<(), String> {
        self.save_key()?;
        let token = self.taken + self.tokens.len();
        self.keys.push(SimpleKey { is_possible: false, is_required: false, token, spot: self.at.spot });
        if self.keys.len() - 1 > DEPTH_SCANNED_MAX {
            return self.wrong(format!("exceeded max depth of {DEPTH_SCANNED_MAX}"));
        }
        self.may_be_key = true;
        self.push_indicator(kind, 1);
        Ok(())
    }

    fn fetch_close(&mut self, kind: Kind) -> Result<(), String> {
        self.forget_key()?;
        if self.in_brackets()
            && let Some(key) = self.keys.pop()
        {
            self.keys_by_token.remove(&key.token);
        }
        self.may_be_key = false;
        self.push_indicator(kind, 1);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Result<(), String> {
        self.forget_key()?;
        self.may_be_key = true;
        self.push_indicator(Kind::FlowEntry, 1);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), String> {
        self.begin_in_block(Kind::BlockList, "block sequence entries are not allowed in this context")?;
        self.forget_key()?;
        self.may_be_key = true;
        self.push_indicator(Kind::BlockEntry, 1);
        Ok(())
    }

    /// Begins a block here, where a key could stand, if we are not in brackets.
    fn begin_in_block(&mut self, kind: Kind, problem: &str) -> Result<(), String> {
        if self.in_brackets() {
            return Ok(());
        }
        if !self.may_be_key {
            return self.wrong(problem);
        }
        self.roll(self.at.spot.column, None, kind, self.at.spot)
    }

    fn fetch_key(&mut self) -> Result<(), String> {
        self.begin_in_block(Kind::BlockMap, "mapping keys are not allowed in this context")?;
        self.forget_key()?;
        self.may_be_key = !self.in_brackets();
        self.push_indicator(Kind::Key, 1);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), String> {
        let last = self.keys.len() - 1;
        if self.is_valid(last)? {
            let key = self.keys[last];
            self.tokens.insert(key.token - self.taken, Token { kind: Kind::Key, start: key.spot, end: key.spot });
            self.roll(key.spot.column, Some(key.token), Kind::BlockMap, key.spot)?;
            self.keys[last].is_possible = false;
            self.keys_by_token.remove(&key.token);
            self.may_be_key = false;
        } else {
            self.begin_in_block(Kind::BlockMap, "mapping values are not allowed in this context")?;
            self.may_be_key = !self.in_brackets();
        }
        self.push_indicator(Kind::Value, 1);
        Ok(())
    }
}

/// Every byte was a character of the text, but for those that `%` wrote in a tag.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
