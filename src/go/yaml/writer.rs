//! Characters, lines and columns: go-yaml's emitter as far as blocks need it. Knows neither keys nor what a scalar means.

/// Characters after which a line is folded at its next space (go-yaml's preferred width).
const WIDTH: usize = 80;

/// What an indicator does besides being written.
#[derive(Clone, Copy)]
pub(super) struct Indicator {
    /// It must stand after a space.
    spaced: bool,
    /// What follows needs no space.
    opens: bool,
    /// It counts as indentation.
    indents: bool,
}

/// `-`, `?`, and the `:` after a `?`.
pub(super) const DASH: Indicator = Indicator { spaced: true, opens: false, indents: true };
/// The `:` after a key.
pub(super) const COLON: Indicator = Indicator { spaced: false, opens: false, indents: false };
/// `{` or `[`.
pub(super) const LEFT: Indicator = Indicator { spaced: true, opens: true, indents: false };
/// `}` or `]`.
pub(super) const RIGHT: Indicator = COLON;
/// A quote before a text, or the head of a block.
const BEFORE: Indicator = Indicator { spaced: true, opens: false, indents: false };
/// A quote after a text, or a hint after the head of a block.
const AFTER: Indicator = COLON;

/// Writes to the end of a buffer.
pub(super) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    /// Characters of this line.
    column: usize,
    /// Whether the last character was a space that counts as one.
    whitespace: bool,
    /// Whether the line has nothing but indentation.
    indention: bool,
}

impl<'o> Writer<'o> {
    /// At the beginning of a line.
    pub(super) fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, column: 0, whitespace: true, indention: true }
    }

    /// Bytes of the buffer.
    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether this line has nothing but indentation.
    pub(super) fn is_indention(&self) -> bool {
        self.indention
    }

    /// Goes to this column of a line that has nothing but indentation: this line or the next.
    pub(super) fn indent(&mut self, indent: usize) {
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.line();
        }
        self.out.resize(self.out.len() + (indent.saturating_sub(self.column)), b' ');
        self.column = self.column.max(indent);
        self.whitespace = true;
        self.indention = true;
    }

    /// Writes an indicator.
    pub(super) fn indicator(&mut self, text: &[u8], how: Indicator) {
        if how.spaced && !self.whitespace {
            self.ascii(b" ");
        }
        self.ascii(text);
        self.whitespace = how.opens;
        self.indention = self.indention && how.indents;
    }

    /// A text without quotes; `fold` is the indentation of its further lines, if it may have any.
    pub(super) fn plain(&mut self, text: &str, fold: Option<usize>) {
        if !self.whitespace {
            self.ascii(b" ");
        }
        self.flow(text, fold, false);
        self.whitespace = false;
        self.indention = false;
    }

    /// A text in single quotes.
    pub(super) fn single(&mut self, text: &str, fold: Option<usize>) {
        self.indicator(b"'", BEFORE);
        self.flow(text, fold, true);
        self.indicator(b"'", AFTER);
    }

    /// The words of a text, folded at spaces that have no neighbour.
    fn flow(&mut self, text: &str, fold: Option<usize>, quoted: bool) {
        let bytes = text.as_bytes();
        let (mut spaces, mut breaks) = (false, false);
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == b' ' {
                let lone = !spaces && at > 0 && at + 1 < bytes.len() && bytes[at + 1] != b' ';
                match fold {
                    Some(indent) if lone && self.column > WIDTH => self.indent(indent),
                    _ => self.ascii(b" "),
                }
                spaces = true;
                at += 1;
            } else if let Some(width) = break_at(bytes, at) {
                self.foreign_break(&bytes[at..at + width]);
                breaks = true;
                at += width;
            } else {
                if breaks {
                    self.indent(fold.unwrap_or(0));
                }
                if quoted && bytes[at] == b'\'' {
                    self.ascii(b"'");
                }
                let ends = |&byte: &u8| byte == b' ' || byte == 0xE2 || (quoted && byte == b'\'');
                let end = bytes[at + 1..].iter().position(ends).map_or(bytes.len(), |more| at + 1 + more);
                self.characters(&bytes[at..end]);
                self.indention = false;
                (spaces, breaks) = (false, false);
                at = end;
            }
        }
    }

    /// A text in double quotes, with escapes, folded at spaces.
    pub(super) fn double(&mut self, text: &str, fold: Option<usize>) {
        self.indicator(b"\"", BEFORE);
        let bytes = text.as_bytes();
        // go-yaml looks for the byte order mark at the beginning of the text, whatever character it is at.
        let all = text.starts_with('\u{feff}');
        let mut spaces = false;
        let mut at = 0;
        while at < bytes.len() {
            if !all && bytes[at] == b' ' {
                match fold {
                    Some(indent) if !spaces && self.column > WIDTH && at > 0 && at + 1 < bytes.len() => {
                        self.indent(indent);
                        if bytes[at + 1] == b' ' {
                            self.ascii(b"\\");
                        }
                    }
                    _ => self.ascii(b" "),
                }
                spaces = true;
                at += 1;
                continue;
            }
            spaces = false;
            if all || is_escaped(bytes, at) {
                let c = text[at..].chars().next().expect("between two characters of the text");
                self.escape(c);
                at += c.len_utf8();
                continue;
            }
            let mut end = at + width(bytes[at]);
            while end < bytes.len() && bytes[end] != b' ' && !is_escaped(bytes, end) {
                end += width(bytes[end]);
            }
            self.characters(&bytes[at..end]);
            at = end;
        }
        self.indicator(b"\"", AFTER);
    }

    fn escape(&mut self, c: char) {
        let short = match c {
            '\0' => "\\0",
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\t' => "\\t",
            '\n' => "\\n",
            '\u{b}' => "\\v",
            '\u{c}' => "\\f",
            '\r' => "\\r",
            '\u{1b}' => "\\e",
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{85}' => "\\N",
            '\u{a0}' => "\\_",
            '\u{2028}' => "\\L",
            '\u{2029}' => "\\P",
            _ => "",
        };
        if !short.is_empty() {
            return self.ascii(short.as_bytes());
        }
        let code = u32::from(c);
        let long = match code {
            ..=0xFF => format!("\\x{code:02X}"),
            0x100..=0xFFFF => format!("\\u{code:04X}"),
            _ => format!("\\U{code:08X}"),
        };
        self.ascii(long.as_bytes());
    }

    /// A text with newlines, line by line, none of them folded.
    pub(super) fn literal(&mut self, text: &str, indent: usize) {
        let bytes = text.as_bytes();
        self.indicator(b"|", BEFORE);
        if bytes[0] == b' ' || break_at(bytes, 0).is_some() {
            // The first line cannot tell how far the block is indented.
            self.indicator(b"2", AFTER);
        }
        let kept = chomp(text);
        if !kept.is_empty() {
            self.indicator(kept, AFTER);
        }
        self.line();
        self.indention = true;
        self.whitespace = true;
        let mut breaks = true;
        let mut at = 0;
        while at < bytes.len() {
            if let Some(width) = break_at(bytes, at) {
                self.foreign_break(&bytes[at..at + width]);
                breaks = true;
                at += width;
                continue;
            }
            if breaks {
                self.indent(indent);
            }
            let end = memchr::memchr2(b'\n', 0xE2, &bytes[at + 1..]).map_or(bytes.len(), |more| at + 1 + more);
            self.characters(&bytes[at..end]);
            self.indention = false;
            breaks = false;
            at = end;
        }
    }

    fn line(&mut self) {
        self.out.push(b'\n');
        self.column = 0;
    }

    /// A break of the text itself: a newline, or one of Unicode's.
    fn foreign_break(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.column = 0;
        self.indention = true;
    }

    fn ascii(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.column += bytes.len();
    }

    fn characters(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.column += bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
    }
}

/// What a block says of the newlines at its end: none (`-`), more than one (`+`), or exactly one.
fn chomp(text: &str) -> &'static [u8] {
    let is_break = |c: &char| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut last = text.chars().rev();
    match (last.next().filter(is_break), last.next()) {
        (None, _) => b"-",
        (Some(_), None) => b"+",
        (Some(_), Some(before)) if is_break(&before) => b"+",
        _ => b"",
    }
}

/// Bytes of the character that begins with this one.
pub(super) fn width(first: u8) -> usize {
    match first {
        0..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    }
}

/// The width of the line break that stands here, if one does: YAML 1.1 has five.
pub(super) fn break_at(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes[at] {
        b'\n' | b'\r' => Some(1),
        0xC2 if bytes[at + 1] == 0x85 => Some(2),
        0xE2 if bytes[at + 1] == 0x80 && matches!(bytes[at + 2], 0xA8 | 0xA9) => Some(3),
        _ => None,
    }
}

/// Whether the character here needs no escape, whatever it does to lines: go-yaml's set ends before U+10000.
pub(super) fn is_printable(bytes: &[u8], at: usize) -> bool {
    match bytes[at] {
        b'\n' | b' '..=b'~' => true,
        0..=0x7F | 0xF0.. => false,
        0xC2 => bytes[at + 1] >= 0xA0,
        0xEF => !matches!((bytes[at + 1], bytes[at + 2]), (0xBB, 0xBF) | (0xBF, 0xBE | 0xBF)),
        _ => true,
    }
}

fn is_escaped(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at], b'"' | b'\\') || !is_printable(bytes, at) || break_at(bytes, at).is_some()
}
