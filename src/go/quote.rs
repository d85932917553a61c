//! Strings in quotes as Go prints them, because the API's messages and tokens are made that way.

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

/// As Go's package `time` quotes what it cannot read: other bytes than printable ASCII one by one.
#[must_use]
pub fn time_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='\x7f' => out.push(c),
            c => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| {
                let _ = write!(out, "\\x{byte:02x}");
            }),
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

/// Bytes that Go's encoder escapes, and the first one of U+2028 and U+2029.
const MARKED: [bool; 256] = {
    let mut marked = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        marked[byte] = byte < 0x20 || matches!(byte as u8, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2);
        byte += 1;
    }
    marked
};

/// Appends `text` quoted and escaped as Go's encoder does with HTML escaping on: `< > &`, U+2028 and U+2029 as `\u` with lower-case hex,
/// `\b \f \n \r \t` by their short names (since Go 1.22), other control characters as `\u00xx`, DEL and the rest as they are.
pub fn json_into(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut copied = 0;
    let mut at = 0;
    while let Some(plain) = bytes[at..].iter().position(|byte| MARKED[usize::from(*byte)]) {
        at += plain;
        let byte = bytes[at];
        if byte == 0xe2 && !matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) {
            at += 1;
            continue;
        }
        out.extend_from_slice(&bytes[copied..at]);
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(br"\b"),
            0x0c => out.extend_from_slice(br"\f"),
            b'\n' => out.extend_from_slice(br"\n"),
            b'\r' => out.extend_from_slice(br"\r"),
            b'\t' => out.extend_from_slice(br"\t"),
            0xe2 => out.extend_from_slice(if bytes[at + 2] == 0xa8 { br"\u2028" } else { br"\u2029" }),
            _ => {
                out.extend_from_slice(br"\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
        at += if byte == 0xe2 { 3 } else { 1 };
        copied = at;
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

/// As [`json_into`], alone (spec list-watch §1.4).
#[must_use]
pub fn json_quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    json_into(text, &mut out);
    String::from_utf8(out).expect("escapes are ASCII, and nothing of the text is cut")
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
    use super::{json_quoted, quoted, quoted_byte, time_quoted};

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
    fn go_quotes_what_is_no_time() {
        let cases = [("1 h", r#""1 h""#), ("a\"\\", r#""a\"\\""#), ("\t\u{7f}é", "\"\\x09\u{7f}\\xc3\\xa9\"")];
        for (text, want) in cases {
            assert_eq!(time_quoted(text), want);
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
