//! Decimal numbers as Go's `strconv` reads them, with its words for what is wrong.

use std::fmt;

use crate::quote::quoted;

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
