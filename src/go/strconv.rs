//! Decimal numbers as Go's `strconv` reads them, with its words for what is wrong.

use std::fmt;

use crate::quote::quoted;

pub use crate::yaml::number::general as format_float;

/// Go's two complaints about a number.
enum NotANumber {
    Syntax,
    Range,
}

impl fmt::Display for NotANumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "invalid syntax",
            Self::Range => "value out of range",
        })
    }
}

/// `ParseUint(text, 10, 64)`.
///
/// # Errors
/// Go's message.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    digits(text).map_err(|problem| format!("strconv.ParseUint: parsing {}: {problem}", quoted(text)))
}

/// `ParseInt(text, 10, 64)`: a sign may come first.
///
/// # Errors
/// Go's message.
pub fn parse_int(text: &str) -> Result<i64, String> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let signed = |number: u64| if negative { 0_i64.checked_sub_unsigned(number) } else { i64::try_from(number).ok() };
    digits(unsigned)
        .and_then(|number| signed(number).ok_or(NotANumber::Range))
        .map_err(|problem| format!("strconv.ParseInt: parsing {}: {problem}", quoted(text)))
}

/// `ParseFloat(text, 32)`: what it answers, also beside an error: nothing that can be read is 0, and what is too large is infinite.
#[must_use]
pub fn parse_float(text: &str) -> f32 {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_hex = unsigned.len() > 2 && unsigned.as_bytes()[0] == b'0' && unsigned.as_bytes()[1].eq_ignore_ascii_case(&b'x');
    if !underscores_fit(unsigned, is_hex) || unsigned.len() < text.len() && unsigned.eq_ignore_ascii_case("nan") {
        return 0.0;
    }
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    if is_hex { hexadecimal(&digits).unwrap_or(0.0) } else { digits.parse().unwrap_or(0.0) }
}

/// Whether each `_` stands between digits, or between `0x` and a digit.
pub(crate) fn underscores_fit(unsigned: &str, is_hex: bool) -> bool {
    let is_digit = |byte: &u8| if is_hex { byte.is_ascii_hexdigit() } else { byte.is_ascii_digit() };
    let bytes = unsigned.as_bytes();
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_').all(|(at, _)| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        (is_hex && at == 2 || before.is_some_and(is_digit)) && bytes.get(at + 1).is_some_and(is_digit)
    })
}

/// A sign, `0x`, hexadecimal digits with at most one point, `p` and a decimal exponent.
fn hexadecimal(text: &str) -> Option<f32> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = unsigned[2..].split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let is_number = exponent.strip_prefix(['+', '-']).unwrap_or(exponent).bytes().all(|byte| byte.is_ascii_digit());
    let exponent: i32 = exponent
        .parse()
        .ok()
        .or_else(|| (is_number && exponent.len() > 1).then_some(if exponent.starts_with('-') { i32::MIN } else { i32::MAX }))?;
    let digit = |sum: f64, c: char| c.to_digit(16).map(|digit| sum * 16.0 + f64::from(digit));
    let sum = whole.chars().chain(fraction.chars()).try_fold(0.0, digit)?;
    let scale = exponent.saturating_sub(i32::try_from(fraction.len()).unwrap_or(i32::MAX).saturating_mul(4));
    let value = if sum == 0.0 { 0.0 } else { sum * f64::from(scale).exp2() };
    #[expect(clippy::cast_possible_truncation, reason = "a float of 32 bits is asked for")]
    Some(if text.starts_with('-') { -value as f32 } else { value as f32 })
}

/// Digits only. Go stops at the first one that leaves the range, before it sees what follows.
fn digits(text: &str) -> Result<u64, NotANumber> {
    if text.is_empty() {
        return Err(NotANumber::Syntax);
    }
    text.bytes().try_fold(0_u64, |number, byte| match byte {
        b'0'..=b'9' => number.checked_mul(10).and_then(|n| n.checked_add(u64::from(byte - b'0'))).ok_or(NotANumber::Range),
        _ => Err(NotANumber::Syntax),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As Go 1.26 answers.
    #[test]
    fn floats() {
        for (text, expected) in [
            ("0.5", 0.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e-3", 0.001),
            ("+1", 1.0),
            ("", 0.0),
            (".", 0.0),
            (" 1", 0.0),
            ("1 ", 0.0),
            ("x", 0.0),
            ("e5", 0.0),
            ("1_0", 10.0),
            ("1e1_0", 1e10),
            ("1_", 0.0),
            ("_1", 0.0),
            ("1__0", 0.0),
            ("1_.5", 0.0),
            ("0x1p-1", 0.5),
            ("0x_1p-1", 0.5),
            ("0X1P+1", 2.0),
            ("0x.8p0", 0.5),
            ("0x1_0p1", 32.0),
            ("0x1", 0.0),
            ("0xp1", 0.0),
            ("0x1p", 0.0),
            ("-0x1p1", -2.0),
            ("0b1", 0.0),
            ("1e400", f32::INFINITY),
            ("0x1p99999999999", f32::INFINITY),
            ("inf", f32::INFINITY),
            ("-Inf", f32::NEG_INFINITY),
            ("Infinity", f32::INFINITY),
            ("+nan", 0.0),
        ] {
            assert!(
                (parse_float(text) - expected).abs() < f32::EPSILON || parse_float(text) == expected,
                "{text:?}: {}",
                parse_float(text)
            );
        }
        assert!(parse_float("nan").is_nan() && parse_float("NaN").is_nan());
    }

    #[test]
    fn reads_numbers() {
        assert_eq!((parse_int("-5"), parse_int("+5"), parse_int("-9223372036854775808")), (Ok(-5), Ok(5), Ok(i64::MIN)));
        assert_eq!((parse_uint("085"), parse_uint("18446744073709551615")), (Ok(85), Ok(u64::MAX)));
        let (syntax, range) = ("invalid syntax", "value out of range");
        for (text, why) in [
            ("", syntax),
            ("abc", syntax),
            ("-", syntax),
            (" 5", syntax),
            ("1_0", syntax),
            ("0x1", syntax),
            ("a\"", syntax),
            ("99999999999999999999", range),
            ("99999999999999999999x", range),
        ] {
            assert_eq!(parse_int(text), Err(format!("strconv.ParseInt: parsing {}: {why}", quoted(text))));
            assert_eq!(parse_uint(text), Err(format!("strconv.ParseUint: parsing {}: {why}", quoted(text))));
        }
        for (text, why) in [("9223372036854775808", range), ("9223372036854775808x", syntax)] {
            assert_eq!(parse_int(text), Err(format!("strconv.ParseInt: parsing {}: {why}", quoted(text))));
        }
        for text in ["-1", "+1"] {
            assert_eq!(parse_uint(text), Err(format!("strconv.ParseUint: parsing {}: {syntax}", quoted(text))));
        }
    }

    proptest! {
        #[test]
        fn numbers_as_the_standard_library(text in "[-+]?[0-9]{0,21}") {
            prop_assert_eq!(parse_int(&text).ok(), text.parse::<i64>().ok());
        }
    }
}
