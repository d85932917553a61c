//! Texts made of a format and values: `'%s is %d'.format([name, size])`.

use std::fmt::Write as _;

use go::quote::quoted;

use crate::value::{Error, List, Map, Value};

/// Digits behind the point where a format names no number.
const PLACES: usize = 6;
/// Lists and maps within each other that are written.
const DEPTH_MAX: u32 = 1_000;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    Text,
    Decimal,
    /// With so many digits behind the point.
    Fixed(usize),
    /// At least so wide: Go's library takes the precision for a width.
    Scientific(usize),
    Binary,
    Hexadecimal {
        is_upper: bool,
    },
    Octal,
}

/// What a format may be wrong about.
pub(crate) enum Wrong<E> {
    /// The format itself.
    Format(String),
    /// A value.
    Value(E),
}

impl Clause {
    /// Returns what is said of a value of a type that cannot be written so.
    pub(crate) fn refusal(self, kind: &str) -> String {
        let why = match self {
            Self::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hexadecimal { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("{why}, was given {kind}")
    }
}

/// Reads a format and has each clause written, which has the number of its argument. `has_value` is asked before it is known what a clause is; also before
/// it is known that there is one, if the format `is_checked` only.
///
/// # Errors
/// The format is wrong, or a value.
pub(crate) fn read<E>(
    format: &str,
    is_checked: bool,
    has_value: impl Fn(usize) -> bool,
    mut write: impl FnMut(usize, Clause) -> Result<String, E>,
) -> Result<String, Wrong<E>> {
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    let mut argument = 0;
    while let Some((plain, clause)) = rest.split_once('%') {
        out.push_str(plain);
        if let Some(after) = clause.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        if !(has_value(argument) || is_checked && clause.is_empty()) {
            return Err(Wrong::Format(format!("index {argument} out of range")));
        }
        if clause.is_empty() {
            return Err(Wrong::Format("unexpected end of string".to_owned()));
        }
        let (clause, after) = self::clause(clause).map_err(|why| Wrong::Format(format!("could not parse formatting clause: {why}")))?;
        out.push_str(&write(argument, clause).map_err(Wrong::Value)?);
        (argument, rest) = (argument + 1, after);
    }
    out.push_str(rest);
    Ok(out)
}

/// The clause behind a `%`, and the rest.
fn clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, rest) = precision(text).map_err(|why| format!("error while parsing precision: {why}"))?;
    let places = precision.unwrap_or(PLACES);
    let clause = match rest.as_bytes().first().copied().unwrap_or_default() {
        b's' => Clause::Text,
        b'd' => Clause::Decimal,
        b'f' => Clause::Fixed(places),
        b'e' => Clause::Scientific(places),
        b'b' => Clause::Binary,
        b'x' => Clause::Hexadecimal { is_upper: false },
        b'X' => Clause::Hexadecimal { is_upper: true },
        b'o' => Clause::Octal,
        // A byte counts as the character of that number.
        other => return Err(format!("unrecognized formatting clause \"{}\"", char::from(other))),
    };
    Ok((clause, &rest[1..]))
}

fn precision(text: &str) -> Result<(Option<usize>, &str), String> {
    let Some(digits) = text.strip_prefix('.') else { return Ok((None, text)) };
    let Some(end) = digits.find(|c: char| !c.is_ascii_digit()) else {
        return Err("could not find end of precision specifier".to_owned());
    };
    let (digits, rest) = digits.split_at(end);
    match digits.parse::<i64>() {
        Ok(places) => Ok((usize::try_from(places).ok(), rest)),
        Err(_) => {
            let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
            Err(format!("error while converting precision to integer: strconv.Atoi: parsing {}: {why}", quoted(digits)))
        }
    }
}

/// Writes values into a format.
///
/// # Errors
/// The format is wrong, or a value cannot be written so.
pub(crate) fn formatted(format: &str, values: &List<'_>) -> Result<String, Error> {
    let written = read(
        format,
        false,
        |at| at < values.len(),
        |at, clause| match values.get(at) {
            Some(value) => written(&value?, clause),
            None => Err(Error::no_such_overload()),
        },
    );
    written.map_err(|wrong| match wrong {
        Wrong::Format(why) => Error::new(why),
        Wrong::Value(Error::Failed(why)) => Error::new(format!("error during formatting: {why}")),
        Wrong::Value(exceeded) => exceeded,
    })
}

fn written(value: &Value<'_>, clause: Clause) -> Result<String, Error> {
    let refused = || Error::new(clause.refusal(value.type_name()));
    Ok(match (clause, value) {
        (Clause::Text, value) => text(value, DEPTH_MAX)?.ok_or_else(refused)?,
        (Clause::Decimal, Value::Int(value)) => value.to_string(),
        (Clause::Decimal, Value::Uint(value)) => value.to_string(),
        (Clause::Fixed(places), value) => fixed(number(value).ok_or_else(refused)?, places),
        (Clause::Scientific(width), value) => scientific(number(value).ok_or_else(refused)?, width),
        (Clause::Binary, Value::Bool(value)) => u8::from(*value).to_string(),
        (Clause::Binary, value) => signed(value, |value| format!("{value:b}")).ok_or_else(refused)?,
        (Clause::Octal, value) => signed(value, |value| format!("{value:o}")).ok_or_else(refused)?,
        (Clause::Hexadecimal { is_upper }, value) => {
            let lower = match value {
                Value::String(text) => hexadecimal(text.as_bytes()),
                Value::Bytes(bytes) => hexadecimal(bytes),
                value => signed(value, |value| format!("{value:x}")).ok_or_else(refused)?,
            };
            if is_upper { lower.to_ascii_uppercase() } else { lower }
        }
        _ => return Err(refused()),
    })
}

/// The number that a value is; some are written as texts.
fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// A whole number with its sign before its digits.
fn signed(value: &Value<'_>, digits: fn(u64) -> String) -> Option<String> {
    match value {
        Value::Int(value) if *value < 0 => Some(format!("-{}", digits(value.unsigned_abs()))),
        Value::Int(value) => Some(digits(value.unsigned_abs())),
        Value::Uint(value) => Some(digits(*value)),
        _ => None,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What Go's library writes for a number of digits that it cannot read.
const NO_VERB: &str = "%!(NOVERB)";
/// The largest number of digits or columns whose first digits, without the last one, Go's library reads.
const READ_MAX: usize = 10_000_009;
/// No number has more digits behind its point.
const FRACTION_MAX: usize = 1_100;

/// A number as it is written in American English, in groups of three digits.
fn fixed(value: f64, places: usize) -> String {
    if places > READ_MAX {
        return NO_VERB.to_owned();
    }
    if let Some(name) = unusual(value) {
        return name.to_owned();
    }
    let exact = format!("{:.*}", places.min(FRACTION_MAX), if value == 0.0 { 0.0 } else { value });
    let (sign, unsigned) = exact.strip_prefix('-').map_or(("", &*exact), |unsigned| ("-", unsigned));
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut text = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    // Go's library keeps the least number of digits in one byte.
    let fraction = format!("{:0<1$}", fraction.trim_end_matches('0'), places % 256);
    if fraction.is_empty() { text } else { text + "." + &fraction }
}

/// A number between 1 and 10 and a power of ten.
fn scientific(value: f64, width: usize) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    if width > READ_MAX {
        return NO_VERB.to_owned();
    }
    let text = unusual(value).map_or_else(
        || {
            let text = format!("{:.PLACES$e}", if value == 0.0 { 0.0 } else { value });
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
            let raised: String = format!("{digits:0>2}").chars().filter_map(|c| RAISED.get(c.to_digit(10)? as usize)).collect();
            format!("{mantissa}×10{sign}{raised}")
        },
        str::to_owned,
    );
    // Go's library keeps the width in two bytes.
    let missing = (width % 65_536).saturating_sub(text.chars().count());
    " ".repeat(missing) + &text
}

fn unusual(value: f64) -> Option<&'static str> {
    match value {
        value if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// A value as `%s` writes it; none of a type that it cannot write.
fn text(value: &Value<'_>, left: u32) -> Result<Option<String>, Error> {
    Ok(Some(match value {
        Value::List(list) => list_text(list, left)?,
        Value::Map(map) => map_text(map, left)?,
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                return Err(Error::new("could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string"));
            }
        },
        Value::Optional(_) | Value::Opaque(_) | Value::Unknown(_) => return Ok(None),
        scalar => scalar.to_string(),
    }))
}

fn list_text(list: &List<'_>, left: u32) -> Result<String, Error> {
    let texts: Result<Vec<_>, Error> = list.iter().map(|element| part(&element?, left)).collect();
    Ok(format!("[{}]", texts?.join(", ")))
}

fn map_text(map: &Map<'_>, left: u32) -> Result<String, Error> {
    let mut entries = Vec::new();
    for (key, value) in map.entries() {
        let key = match &key {
            Value::String(text) => quoted(text),
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) => key.to_string(),
            other => return Err(Error::new(format!("no formatting function for map key of type {}", other.type_name()))),
        };
        entries.push((key, part(&value?, left)?));
    }
    entries.sort();
    let texts: Vec<_> = entries.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", texts.join(", ")))
}

/// A value in a list or a map.
fn part(value: &Value<'_>, left: u32) -> Result<String, Error> {
    let left = left.checked_sub(1).ok_or(Error::CostExceeded)?;
    let plain = text(value, left)?.ok_or_else(|| Error::new(format!("no formatting function for {}", value.type_name())))?;
    Ok(match value {
        Value::String(_) => quoted(&plain),
        Value::Bytes(_) => format!("b{}", quoted(&plain)),
        Value::Timestamp(_) => format!("timestamp({})", quoted(&plain)),
        Value::Duration(_) => format!("duration({})", quoted(&plain)),
        Value::Double(value) if value.is_finite() => format!("{value:.PLACES$}"),
        Value::Double(_) => quoted(&plain),
        _ => plain,
    })
}
