//! What a YAML scalar means: the rules of YAML 1.1 as the real server's decoder has them.

use crate::{base64, strconv::underscores_fit};

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

/// Reads a scalar. `tag` is the `str` of `!!str`, or another tag as a whole; `implicit` that its text says what it means.
///
/// # Errors
/// When it is not of the type that its tag names.
pub(super) fn resolve(tag: Option<&str>, text: &str, implicit: bool) -> Result<Scalar, String> {
    let as_text = || Ok(Scalar::Text(text.to_owned()));
    let wanted = match tag {
        None if implicit => return Ok(guess(text)),
        Some("binary") => return binary(text),
        Some(tag @ ("bool" | "int" | "float" | "null" | "timestamp")) => tag,
        // `!!str`, quotes, and tags that nobody knows.
        None | Some(_) => return as_text(),
    };
    let is_time = wanted == "timestamp" && is_time(text);
    let scalar = if is_time { Scalar::Text(text.to_owned()) } else { guess(text) };
    let found = if is_time { "timestamp" } else { name(&scalar) };
    match scalar {
        #[expect(clippy::cast_precision_loss, reason = "as in the real server")]
        Scalar::Int(value) if wanted == "float" => Ok(Scalar::Float(value as f64)),
        scalar if found == wanted => Ok(scalar),
        _ => Err(format!("cannot decode !!{found} `{text}` as a !!{wanted}")),
    }
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
            b'.' if underscores_fit(text, false) => float(&text.replace('_', "")).map_or_else(as_text, Scalar::Float),
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

/// Whether Go reads it as a time: `2001-1-1`, or with `T` and a zone, or with a space and none.
fn is_time(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-').filter(|(year, _)| year.len() == 4) else { return false };
    let Some((month, rest)) = rest.split_once('-') else { return false };
    let day_ends = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (day, rest) = rest.split_at(day_ends);
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else { return false };
    let is_day = (1..=12).contains(&month) && (1..=days(year, month)).contains(&day);
    is_day
        && match rest.split_at_checked(1) {
            None => true,
            Some(("T" | "t", clock)) => clock.find(['Z', '+', '-']).is_some_and(|at| is_clock(&clock[..at]) && is_zone(&clock[at..])),
            Some((" ", clock)) => is_clock(clock),
            Some(_) => false,
        }
}

fn digits(text: &str, at_most: usize) -> Option<u32> {
    let is_number = (1..=at_most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn days(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

/// `15:4:5`, with a fraction or without.
fn is_clock(text: &str) -> bool {
    let (clock, fraction) = text.split_once(['.', ',']).map_or((text, None), |(clock, fraction)| (clock, Some(fraction)));
    let parts: Vec<_> = clock.split(':').map(|part| digits(part, 2)).collect();
    let is_fraction = fraction.is_none_or(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    is_fraction && matches!(parts[..], [Some(..=23), Some(..=59), Some(..=59)])
}

fn is_zone(text: &str) -> bool {
    let two = |at: std::ops::Range<usize>| text.get(at).filter(|part| part.len() == 2).and_then(|part| digits(part, 2));
    text == "Z" || text.len() == 6 && text.get(3..4) == Some(":") && matches!((two(1..3), two(4..6)), (Some(..=24), Some(..=60)))
}

fn binary(text: &str) -> Result<Scalar, String> {
    let bytes = base64::decode(text).map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
    Ok(Scalar::Text(String::from_utf8_lossy(&bytes).into_owned()))
}
