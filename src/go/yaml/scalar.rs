//! How a text is written: plain, in one of two quotes, or as a block of lines.

use super::{
    plain,
    writer::{Writer, break_at, is_printable, width},
};

/// A text, and what its characters allow.
pub(super) struct Scalar<'a> {
    text: &'a str,
    /// Nothing in it means something to YAML.
    plain: bool,
    /// Single quotes keep it.
    single: bool,
    /// A block of lines keeps it.
    block: bool,
    multiline: bool,
}

/// Characters of a word, wherever they stand in it but at its beginning.
const WORD: [bool; 256] = {
    let mut word = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7F {
        word[byte] = !matches!(byte as u8, b':' | b'#');
        byte += 1;
    }
    word
};

/// What the character before was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Space,
    Break,
    Other,
}

impl<'a> Scalar<'a> {
    /// Looks at every character once.
    pub(super) fn of(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut seen = Seen { indicators: text.starts_with("---") || text.starts_with("..."), ..Seen::default() };
        let mut last = Last::Other;
        // What stands before the first character counts as a space where a `#` is concerned.
        let mut blank = true;
        let mut at = 0;
        while at < bytes.len() {
            if at > 0 && WORD[usize::from(bytes[at])] {
                (last, blank) = (Last::Other, false);
                at += 1;
                continue;
            }
            let next = at + width(bytes[at]);
            let ends = next >= bytes.len() || matches!(bytes[next], b' ' | b'\t');
            seen.indicators |= is_indicator(bytes[at], at == 0, blank, ends);
            seen.special |= !is_printable(bytes, at);
            let (first, end) = (at == 0, next == bytes.len());
            let is_break = break_at(bytes, at).is_some();
            if bytes[at] == b' ' {
                seen.edge |= first || end;
                seen.trailing_space |= end;
                seen.break_space |= last == Last::Break;
                last = Last::Space;
            } else if is_break {
                seen.breaks = true;
                seen.edge |= first || end;
                seen.space_break |= last == Last::Space;
                last = Last::Break;
            } else {
                last = Last::Other;
            }
            blank = is_break || matches!(bytes[at], b' ' | b'\t' | 0);
            at = next;
        }
        let nothing = seen.space_break || seen.special;
        Self {
            text,
            plain: !(nothing || seen.edge || seen.break_space || seen.breaks || seen.indicators),
            single: !(nothing || seen.break_space),
            block: !(nothing || seen.trailing_space || text.is_empty()),
            multiline: seen.breaks,
        }
    }

    /// The text itself.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Whether it has a line break.
    pub(super) fn is_multiline(&self) -> bool {
        self.multiline
    }

    /// Writes it; `fold` is the indentation of its further lines, if it may have any (a key before its colon may not).
    pub(super) fn write(&self, writer: &mut Writer<'_>, fold: Option<usize>) {
        let has_lines = memchr::memchr(b'\n', self.text.as_bytes()).is_some();
        match fold {
            Some(indent) if has_lines && self.block => writer.literal(self.text, indent),
            _ if has_lines || !plain::is_text(self.text) => writer.double(self.text, fold),
            _ if self.plain => writer.plain(self.text, fold),
            _ if self.single => writer.single(self.text, fold),
            _ => writer.double(self.text, fold),
        }
    }
}

/// What was seen anywhere in a text.
#[derive(Default)]
struct Seen {
    indicators: bool,
    special: bool,
    breaks: bool,
    /// A space or a break is its first or last character.
    edge: bool,
    trailing_space: bool,
    break_space: bool,
    space_break: bool,
}

/// Whether a character means something where it stands: `blank` before it, the end or a blank after it.
fn is_indicator(byte: u8, first: bool, blank: bool, ends: bool) -> bool {
    match byte {
        b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@' | b'`' => first,
        b'?' | b'-' => first && ends,
        b':' => ends,
        b'#' => blank,
        _ => false,
    }
}
