//! Escapes of the parts of a URL.

use std::fmt::Write as _;

use super::host::is_plain;
use crate::quote::quoted;

/// Characters that a path has as they are, beside letters and digits.
const PATH: &str = "-_.~$&+,/:;=@";
/// Characters that Go leaves in a path that was written with them.
const PATH_WRITTEN: &str = "!'()*[]%";
const USER: &str = "-_.~$&+,;=";
const FRAGMENT: &str = "-_.~!$&()*+,/:;=?@";
const FRAGMENT_WRITTEN: &str = "'[]%";

/// Returns a path, written with escapes, as `URL.EscapedPath` does.
#[must_use]
pub fn escaped_path(path: &str) -> String {
    escaped_as_written(path, PATH, PATH_WRITTEN)
}

/// Returns a fragment, written with escapes, as `URL.EscapedFragment` does.
#[must_use]
pub fn escaped_fragment(fragment: &str) -> String {
    escaped_as_written(fragment, FRAGMENT, FRAGMENT_WRITTEN)
}

/// Returns the user and the password, written with escapes, as `Userinfo.String` does.
#[must_use]
pub fn escaped_user(user: &str) -> String {
    let part = |text: &str| escaped(&decoded(text), |byte| is_of(byte, USER));
    user.split_once(':').map_or_else(|| part(user), |(name, password)| format!("{}:{}", part(name), part(password)))
}

/// Returns a host, written without escapes, with them.
#[must_use]
pub fn escaped_host(host: &str) -> String {
    escaped(host.as_bytes(), is_plain)
}

fn escaped_as_written(text: &str, plain: &str, written: &str) -> String {
    if text.bytes().all(|byte| is_of(byte, plain) || is_of(byte, written)) {
        return text.to_owned();
    }
    escaped(&decoded(text), |byte| is_of(byte, plain))
}

fn is_of(byte: u8, set: &str) -> bool {
    byte.is_ascii_alphanumeric() || byte.is_ascii() && set.contains(char::from(byte))
}

/// The bytes of a text whose escapes are checked.
fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('%') {
        out.extend_from_slice(plain.as_bytes());
        let (digits, after) = after.split_at_checked(2).unwrap_or((after, ""));
        out.extend(u8::from_str_radix(digits, 16));
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn escaped(bytes: &[u8], is_plain: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if is_plain(*byte) {
            out.push(char::from(*byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a String cannot fail");
        }
    }
    out
}

/// Every `%` has two hexadecimal digits behind it.
pub(super) fn checked(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let rest = &text.as_bytes()[at..];
        if !rest.get(1..3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(wrong_escape(rest));
        }
    }
    Ok(())
}

/// What Go says of an escape at the beginning, of which it shows three bytes.
pub(super) fn wrong_escape(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(3)];
    let whole = shown.utf8_chunks().fold(String::new(), |mut text, chunk| {
        let quotes = quoted(chunk.valid());
        text.push_str(&quotes[1..quotes.len() - 1]);
        chunk.invalid().iter().for_each(|byte| write!(text, "\\x{byte:02x}").expect("writing to a String cannot fail"));
        text
    });
    format!("invalid URL escape \"{whole}\"")
}
