//! One line of the text format is one line: what came from outside (a name, a message, an error of another server) cannot begin another one, nor move the
//! cursor.

use std::fmt;

/// A line of which all characters that a terminal or a reader of lines obeys are written as in a string of Rust, whichever field or message they are in.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_obeyed(*c)) {
            out.write_str(&rest[..at])?;
            match c {
                '\n' => out.write_str("\\n")?,
                '\r' => out.write_str("\\r")?,
                '\t' => out.write_str("\\t")?,
                c => write!(out, "\\u{{{:x}}}", u32::from(c))?,
            }
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_str(rest)
    }
}

/// Controls (C0, DEL, C1), separators of lines and paragraphs, and marks that turn the direction of a text.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_obeyed_is_escaped_and_the_rest_stays() {
        let line = |text: &str| Escaped(text).to_string();
        assert_eq!(line("plain, \u{e4}\u{1f600} \\n \"quoted\""), "plain, \u{e4}\u{1f600} \\n \"quoted\"");
        assert_eq!(line("a\nb\r\n\tc"), "a\\nb\\r\\n\\tc");
        assert_eq!(line("\u{1b}[31m\0\u{7f}\u{9b}\u{85}"), "\\u{1b}[31m\\u{0}\\u{7f}\\u{9b}\\u{85}");
        assert_eq!(line("\u{2028}x\u{2029}\u{202e}\u{2066}"), "\\u{2028}x\\u{2029}\\u{202e}\\u{2066}");
    }
}
