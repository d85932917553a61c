//! Reads the JSON of a continue token the way Go's `encoding/json` does, with its error texts.

use go::scanner::Scanner;

/// A top-level value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Top<'a> {
    /// An object's members in order: key decoded, value as it stands in the text. A key may repeat.
    Object(Vec<(String, &'a str)>),
    /// Anything else, as it stands in the text.
    Other(&'a str),
}

/// Where the one JSON value of a text starts and ends. The text need not be UTF-8: Go names the wrong byte.
///
/// # Errors
/// Go's message for the first byte that does not fit.
pub(super) fn check(bytes: &[u8]) -> Result<(usize, usize), String> {
    let mut scanner = Scanner::new(bytes);
    let value = scanner.value()?;
    scanner.end()?;
    Ok(value)
}

/// Reads one JSON value.
///
/// # Errors
/// As `check`.
pub(super) fn read(text: &str) -> Result<Top<'_>, String> {
    let (start, end) = check(text.as_bytes())?;
    let mut scanner = Scanner::new(&text.as_bytes()[..end]);
    if scanner.token()? != b'{' {
        return Ok(Top::Other(&text[start..end]));
    }
    scanner.skip();
    let mut members = Vec::new();
    while scanner.token()? != b'}' {
        if scanner.token()? == b',' {
            scanner.skip();
        }
        let key = scanner.key()?;
        let (start, end) = scanner.value()?;
        members.push((key, &text[start..end]));
    }
    Ok(Top::Object(members))
}

/// The text of a string literal that `read` has accepted. A half of a surrogate pair alone becomes U+FFFD, as in Go.
pub(super) fn string(literal: &str) -> String {
    Scanner::new(literal.as_bytes()).string().unwrap_or_default()
}
