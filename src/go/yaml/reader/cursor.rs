//! The characters of a stream: how far they were read, and where in the text that is. Bytes are looked at in pieces, as in the real server's decoder, so that
//! of two mistakes the same one is found first.

use std::borrow::Cow;

/// Bytes that are decoded at once.
const PIECE: usize = 512;
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A place in a text: characters before it, lines before it, characters before it on its line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spot {
    pub(super) index: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// The first bytes that are no character: where they begin and end.
struct Bad {
    at: usize,
    end: usize,
    problem: &'static str,
}

/// What a body is in UTF-8, up to its first bad character.
pub(super) struct Characters<'b> {
    text: Cow<'b, [u8]>,
    /// Bytes of the byte order mark before it.
    marked: usize,
    bad: Option<Bad>,
}

impl<'b> Characters<'b> {
    pub(super) fn of(bytes: &'b [u8]) -> Self {
        match bytes {
            [0xff, 0xfe, units @ ..] => Self::of_units(units, u16::from_le_bytes),
            [0xfe, 0xff, units @ ..] => Self::of_units(units, u16::from_be_bytes),
            _ => {
                let text = bytes.strip_prefix(MARK).unwrap_or(bytes);
                let bad = first_bad(text);
                let valid = bad.as_ref().map_or(text.len(), |bad| bad.at);
                Self { text: Cow::Borrowed(&text[..valid]), marked: bytes.len() - text.len(), bad }
            }
        }
    }

    /// Reads UTF-16.
    fn of_units(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Self {
        let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        let mut text = String::new();
        let mut problem = None;
        for read in char::decode_utf16(units) {
            match read {
                Ok(character) if is_allowed(character) => text.push(character),
                Ok(_) => problem = Some("control characters are not allowed"),
                Err(error) if error.unpaired_surrogate() >= 0xdc00 => problem = Some("unexpected low surrogate area"),
                Err(_) => problem = Some("expected low surrogate area"),
            }
            if problem.is_some() {
                break;
            }
        }
        let text = text.into_bytes();
        let (at, end) = (text.len(), text.len() + 1);
        let cut = (bytes.len() % 2 == 1).then_some(Bad { at, end: usize::MAX, problem: "incomplete UTF-16 character" });
        let bad = problem.map(|problem| Bad { at, end, problem }).or(cut);
        Self { text: Cow::Owned(text), marked: 2, bad }
    }
}

fn is_allowed(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' | '\u{85}' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => !character.is_control(),
    }
}

fn first_bad(bytes: &[u8]) -> Option<Bad> {
    let (text, is_whole) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, true),
        Err(error) => (std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(), false),
    };
    if let Some((at, character)) = text.char_indices().find(|&(_, character)| !is_allowed(character)) {
        return Some(Bad { at, end: at + character.len_utf8(), problem: "control characters are not allowed" });
    }
    (!is_whole).then(|| no_character(bytes, text.len()))
}

/// What is wrong with the bytes from `at` on, which are no character.
fn no_character(bytes: &[u8], at: usize) -> Bad {
    let width = match bytes[at] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => return Bad { at, end: at + 1, problem: "invalid leading UTF-8 octet" },
    };
    let end = at + width;
    let problem = match bytes.get(at + 1..end) {
        // Known only where more bytes are asked for.
        None => return Bad { at, end: usize::MAX, problem: "incomplete UTF-8 octet sequence" },
        Some(trailing) if trailing.iter().any(|octet| octet & 0xc0 != 0x80) => "invalid trailing UTF-8 octet",
        Some(_) if matches!(bytes[at..], [0xc0 | 0xc1, ..] | [0xe0, ..=0x9f, ..] | [0xf0, ..=0x8f, ..]) => {
            "invalid length of a UTF-8 sequence"
        }
        Some(_) => "invalid Unicode character",
    };
    Bad { at, end, problem }
}

/// Where a scanner is.
pub(super) struct Cursor<'c> {
    text: &'c [u8],
    marked: usize,
    bad: Option<&'c Bad>,
    /// The byte of the next character.
    at: usize,
    /// The byte up to which characters are decoded, how many of them are left, and the byte of the first one that is still kept.
    decoded: usize,
    unread: usize,
    kept: usize,
    pub(super) spot: Spot,
}

impl<'c> Cursor<'c> {
    pub(super) fn new(characters: &'c Characters<'_>) -> Self {
        Self {
            text: &characters.text,
            marked: characters.marked,
            bad: characters.bad.as_ref(),
            at: 0,
            decoded: 0,
            unread: 0,
            kept: 0,
            spot: Spot::default(),
        }
    }

    /// Decodes until this many characters are there, or the text ends.
    pub(super) fn need(&mut self, characters: usize) -> Result<(), String> {
        if self.unread >= characters {
            return Ok(());
        }
        self.kept = self.at;
        while self.unread < characters {
            if self.decoded == self.text.len() && self.bad.is_none() {
                // The end is a character, too.
                self.unread += 1;
                break;
            }
            let end = self.decoded + PIECE - if self.decoded == 0 { self.marked } else { 0 };
            if let Some(bad) = self.bad.filter(|bad| bad.end <= end || self.decoded == bad.at) {
                return Err(bad.problem.to_owned());
            }
            let mut end = end.min(self.text.len());
            while self.text.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
                end -= 1;
            }
            self.unread += self.text[self.decoded..end].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
            self.decoded = end;
        }
        Ok(())
    }

    /// Returns the byte that many bytes ahead; after the end it is 0, which no text has.
    pub(super) fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    pub(super) fn is(&self, byte: u8) -> bool {
        self.byte(0) == byte
    }

    pub(super) fn is_end(&self) -> bool {
        self.is(0)
    }

    /// Space or tab.
    pub(super) fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t')
    }

    /// What YAML 1.1 calls a break: CR, LF, NEL, LS, PS.
    pub(super) fn is_break(&self, ahead: usize) -> bool {
        match self.byte(ahead) {
            b'\r' | b'\n' => true,
            0xc2 => self.byte(ahead + 1) == 0x85,
            0xe2 => self.byte(ahead + 1) == 0x80 && matches!(self.byte(ahead + 2), 0xa8 | 0xa9),
            _ => false,
        }
    }

    pub(super) fn is_break_or_end(&self, ahead: usize) -> bool {
        self.byte(ahead) == 0 || self.is_break(ahead)
    }

    /// Whether nothing stands here that is to be seen.
    pub(super) fn is_gap(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_break_or_end(ahead)
    }

    /// `---` or `...` at the beginning of a line, and nothing after it.
    pub(super) fn is_document_indicator(&self, byte: u8) -> bool {
        self.spot.column == 0 && (0..3).all(|ahead| self.byte(ahead) == byte) && self.is_gap(3)
    }

    /// Whether a line begins while the oldest character that is kept is a byte order mark: the real server does not ask about the next one.
    pub(super) fn is_marked(&self) -> bool {
        self.spot.column == 0 && self.text[self.kept.min(self.text.len())..].starts_with(MARK)
    }

    pub(super) fn skip(&mut self) {
        self.at += width(self.byte(0));
        self.moved(1);
    }

    pub(super) fn skip_many(&mut self, characters: usize) {
        for _ in 0..characters {
            self.skip();
        }
    }

    fn moved(&mut self, characters: usize) {
        self.spot.index += characters;
        self.spot.column += characters;
        self.unread = self.unread.saturating_sub(characters);
    }

    /// Skips a break, if there is one.
    pub(super) fn skip_line(&mut self) {
        self.take_line(&mut Vec::new());
    }

    /// Takes one character.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        let end = (self.at + width(self.byte(0))).min(self.text.len());
        into.extend_from_slice(&self.text[self.at..end]);
        self.at = end;
        self.moved(1);
    }

    /// Takes one break: LS and PS as they are, any other as LF.
    pub(super) fn take_line(&mut self, into: &mut Vec<u8>) {
        if !self.is_break(0) {
            return;
        }
        match (self.byte(0), self.byte(1)) {
            (b'\r', b'\n') => {
                into.push(b'\n');
                self.at += 2;
                self.moved(1);
            }
            (b'\r' | b'\n', _) => {
                into.push(b'\n');
                self.at += 1;
            }
            (0xc2, _) => {
                into.push(b'\n');
                self.at += 2;
            }
            _ => {
                into.extend_from_slice(&self.text[self.at..self.at + 3]);
                self.at += 3;
            }
        }
        self.moved(1);
        self.spot.column = 0;
        self.spot.line += 1;
    }

    /// Skips spaces and tabs.
    pub(super) fn skip_blanks(&mut self) -> Result<(), String> {
        self.need(1)?;
        while self.is_blank(0) {
            self.skip();
            self.need(1)?;
        }
        Ok(())
    }

    /// Skips a comment up to its break.
    pub(super) fn skip_comment(&mut self) -> Result<(), String> {
        if self.is(b'#') {
            while !self.is_break_or_end(0) {
                self.skip();
                self.need(1)?;
            }
        }
        Ok(())
    }

    /// Skips the break that a line must end with; `false` when something else stands there.
    pub(super) fn skip_end_of_line(&mut self) -> Result<bool, String> {
        self.skip_blanks()?;
        self.skip_comment()?;
        if !self.is_break_or_end(0) {
            return Ok(false);
        }
        if self.is_break(0) {
            self.need(2)?;
            self.skip_line();
        }
        Ok(true)
    }

    /// Takes letters, digits, `_` and `-`.
    pub(super) fn take_word(&mut self, into: &mut Vec<u8>) -> Result<(), String> {
        self.need(1)?;
        while is_word(self.byte(0)) {
            self.take(into);
            self.need(1)?;
        }
        Ok(())
    }
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn width(first: u8) -> usize {
    match first {
        0..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    }
}
