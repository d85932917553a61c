//! Reads the JSON of a continue token the way Go's `encoding/json` does, with its error texts.

use go::scanner::Scanner;

/// Arrays and objects inside each other that a continue token may have: as many as Go's `encoding/json` reads.
const TOKEN_DEPTH_MAX: usize = 10_000;

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
    let value = value(&mut scanner)?;
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
        let key = key(&mut scanner)?;
        let (start, end) = value(&mut scanner)?;
        members.push((key, &text[start..end]));
    }
    Ok(Top::Object(members))
}

/// The text of a string literal that `read` has accepted. A half of a surrogate pair alone becomes U+FFFD, as in Go.
pub(super) fn string(literal: &str) -> String {
    Scanner::new(literal.as_bytes()).string().unwrap_or_default()
}

/// Skips one whole value; where it starts and ends. What is inside of it may be too deep to call for.
fn value(scanner: &mut Scanner<'_>) -> Result<(usize, usize), String> {
    let mut open = Vec::new();
    scanner.token()?;
    let start = scanner.at();
    loop {
        match scanner.token()? {
            bracket @ (b'{' | b'[') => {
                if open.len() == TOKEN_DEPTH_MAX {
                    return Err(scanner.unexpected("exceeded max depth"));
                }
                open.push(bracket);
                scanner.skip();
                let is_empty = matches!((bracket, scanner.token()?), (b'{', b'}') | (b'[', b']'));
                if !is_empty {
                    if bracket == b'{' {
                        key(scanner)?;
                    }
                    continue;
                }
            }
            b'"' => drop(scanner.string()?),
            b't' => scanner.literal("true")?,
            b'f' => scanner.literal("false")?,
            b'n' => scanner.literal("null")?,
            b'-' | b'0'..=b'9' => drop(scanner.number()?),
            _ => return Err(scanner.unexpected("looking for beginning of value")),
        }
        if ascend(scanner, &mut open)? {
            return Ok((start, scanner.at()));
        }
    }
}

/// After a value: closes what ends here, and goes on to the next value. True when nothing is left open.
fn ascend(scanner: &mut Scanner<'_>, open: &mut Vec<u8>) -> Result<bool, String> {
    while let Some(inside) = open.last() {
        match (*inside, scanner.token()?) {
            (b'{', b'}') | (b'[', b']') => {
                open.pop();
                scanner.skip();
            }
            (b'{', b',') => {
                scanner.skip();
                key(scanner)?;
                return Ok(false);
            }
            (b'[', b',') => {
                scanner.skip();
                return Ok(false);
            }
            (b'{', _) => return Err(scanner.unexpected("after object key:value pair")),
            _ => return Err(scanner.unexpected("after array element")),
        }
    }
    Ok(true)
}

/// Reads `"key" :`
fn key(scanner: &mut Scanner<'_>) -> Result<String, String> {
    if scanner.token()? != b'"' {
        return Err(scanner.unexpected("looking for beginning of object key string"));
    }
    let key = scanner.string()?;
    if scanner.token()? != b':' {
        return Err(scanner.unexpected("after object key"));
    }
    scanner.skip();
    Ok(key)
}
