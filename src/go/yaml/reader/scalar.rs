//! What a YAML scalar means: the rules of YAML 1.1 as the real server's decoder has them.

use base64::{Engine, prelude::BASE64_STANDARD};

/// A scalar with its type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond int64.
    Unsigned(u64),
    Float(f64),
    Text(String),
}

/// Reads a scalar. `tag` is `str` of `!!str`, `plain` that it has no quotes.
///
/// # Errors
/// When it is not of the type that its tag names.
pub(super) fn resolve(tag: Option<&str>, text: &str, plain: bool) -> Result<Scalar, String> {
    let as_text = || Ok(Scalar::Text(text.to_owned()));
    let wanted = match tag {
        None if plain => return Ok(guess(text)),
        Some("binary") => return binary(text),
        Some(tag @ ("bool" | "int" | "float" | "null" | "timestamp")) => tag,
        // `!!str`, quotes, and tags that nobody knows.
        None | Some(_) => return as_text(),
    };
    if wanted == "timestamp" && is_date(text) {
        return as_text();
    }
    let scalar = guess(text);
    let found = name(&scalar);
    if found == wanted || (found == "int" && wanted == "float") {
        return Ok(scalar);
    }
    Err(format!("cannot decode !!{found} `{text}` as a !!{wanted}"))
}

fn name(scalar: &Scalar) -> &'static str {
    match scalar {
        Scalar::Null => "null",
        Scalar::Bool(_) => "bool",
        Scalar::Int(_) | Scalar::Unsigned(_) => "int",
        Scalar::Float(_) => "float",
        Scalar::Text(_) => "str",
    }
}

fn guess(text: &str) -> Scalar {
    let as_text = || Scalar::Text(text.to_owned());
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => match text.as_bytes()[0] {
            b'.' => float(text).map_or_else(as_text, Scalar::Float),
            b'+' | b'-' | b'0'..=b'9' => number(&text.replace('_', "")).unwrap_or_else(as_text),
            _ => as_text(),
        },
    }
}

fn number(text: &str) -> Option<Scalar> {
    integer(text).or_else(|| float(text).map(Scalar::Float))
}

/// Go's `ParseInt` with base 0, then its `ParseUint`.
fn integer(text: &str) -> Option<Scalar> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let size = i128::from_str_radix(digits, base).ok()?;
    let number = if text.starts_with('-') { -size } else { size };
    match i64::try_from(number) {
        Ok(number) => Some(Scalar::Int(number)),
        Err(_) if text.starts_with('+') => None,
        Err(_) => u64::try_from(number).ok().map(Scalar::Unsigned),
    }
}

/// A decimal float that has a finite value.
fn float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let only = digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    Some(text).filter(|_| numeric && only)?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// `2001-01-01…`: nearly what the real server takes for a time.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 8 && bytes[..4].iter().all(u8::is_ascii_digit) && bytes[4] == b'-'
}

fn binary(text: &str) -> Result<Scalar, String> {
    let digits: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = BASE64_STANDARD.decode(digits).map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
    Ok(Scalar::Text(String::from_utf8_lossy(&bytes).into_owned()))
}
