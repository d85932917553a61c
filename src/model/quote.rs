//! Strings in quotes as Go prints them, because the API's messages and tokens are made that way. Knows no message.

use std::fmt::Write as _;

/// As `strconv.Quote` prints it (`%q`): the form of a wrong value inside an error message.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c => push_escaped(&mut out, c),
        }
    }
    out.push('"');
    out
}

/// One byte in single quotes as `encoding/json` names an unexpected one: read as the code point of that number.
#[must_use]
pub fn quoted_byte(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => r#"'"'"#.to_owned(),
        b'\\' => r"'\\'".to_owned(),
        byte => {
            let mut out = String::from("'");
            push_escaped(&mut out, char::from(byte));
            out.push('\'');
            out
        }
    }
}

/// As `encoding/json` prints it: `<`, `>`, `&`, U+2028 and U+2029 escaped (spec list-watch §1.4).
#[must_use]
pub fn json_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => push_hex(&mut out, 'u', 4, c),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        c if c < ' ' || c == '\u{7f}' => push_hex(out, 'x', 2, c),
        c if printable(c) => out.push(c),
        c if u32::from(c) < 0x1_0000 => push_hex(out, 'u', 4, c),
        c => push_hex(out, 'U', 8, c),
    }
}

fn push_hex(out: &mut String, letter: char, width: usize, c: char) {
    write!(out, "\\{letter}{:0width$x}", u32::from(c)).expect("writing to a String cannot fail");
}

/// Go's `IsPrint`: letters, marks, numbers, punctuation, symbols and the plain space. Rust's debug form escapes exactly the others; a letter is
/// put in front because at the start of a string it also escapes marks.
#[must_use]
pub fn printable(c: char) -> bool {
    if c.is_ascii() { !c.is_ascii_control() } else { String::from_iter(['a', c]).escape_debug().skip(1).eq([c]) }
}

#[cfg(test)]
mod tests {
    use super::{json_quoted, quoted, quoted_byte};

    #[test]
    fn go_quotes() {
        let cases = [
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("\"\\'", r#""\"\\'""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}\0\u{1f}\u{7f}", r#""\a\b\f\n\r\t\v\x00\x1f\x7f""#),
            ("é\u{301}\u{fffd}", "\"é\u{301}\u{fffd}\""),
            ("\u{a0}\u{ad}\u{2028}\u{e000}", r#""\u00a0\u00ad\u2028\ue000""#),
            ("\u{e0001}\u{1f600}", "\"\\U000e0001\u{1f600}\""),
        ];
        for (text, want) in cases {
            assert_eq!(quoted(text), want);
        }
    }

    #[test]
    fn go_quotes_a_byte() {
        for (byte, want) in
            [(b'x', "'x'"), (b'\'', "'\\''"), (b'"', "'\"'"), (b'\\', "'\\\\'"), (0, "'\\x00'"), (0xff, "'ÿ'"), (0x80, "'\\u0080'")]
        {
            assert_eq!(quoted_byte(byte), want);
        }
    }

    #[test]
    fn go_quotes_json() {
        assert_eq!(
            json_quoted("a\"\\<>&\u{2028}\u{2029}\0\u{8}\u{c}\n\r\t\u{1f}é\u{7f}"),
            "\"a\\\"\\\\\\u003c\\u003e\\u0026\\u2028\\u2029\\u0000\\b\\f\\n\\r\\t\\u001fé\u{7f}\""
        );
    }
}
