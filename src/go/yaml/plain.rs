//! Whether a text without quotes would be read as a text: YAML 1.1's other types as go-yaml recognises them.

use crate::calendar::month_days;

/// Whether it needs no quotes for what it says.
pub(super) fn is_text(text: &str) -> bool {
    match text.as_bytes() {
        [] | b"~" => false,
        [b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O', ..] => !is_name(text),
        [b'.', ..] => !is_name(text) && !is_dotted(text),
        [b'+' | b'-', ..] => !is_name(text) && !is_number(text) && !is_base_60(text),
        [b'0'..=b'9', ..] => !is_time(text) && !is_number(text) && !is_base_60(text),
        _ => true,
    }
}

/// Booleans, null, and floats that have names.
fn is_name(text: &str) -> bool {
    matches!(
        text,
        "y" | "Y"
            | "yes"
            | "Yes"
            | "YES"
            | "n"
            | "N"
            | "no"
            | "No"
            | "NO"
            | "true"
            | "True"
            | "TRUE"
            | "false"
            | "False"
            | "FALSE"
            | "on"
            | "On"
            | "ON"
            | "off"
            | "Off"
            | "OFF"
            | "null"
            | "Null"
            | "NULL"
            | ".nan"
            | ".NaN"
            | ".NAN"
            | ".inf"
            | ".Inf"
            | ".INF"
            | "+.inf"
            | "+.Inf"
            | "+.INF"
            | "-.inf"
            | "-.Inf"
            | "-.INF"
    )
}

/// A number that begins with a sign or a digit; underscores are nothing.
fn is_number(text: &str) -> bool {
    let plain = text.replace('_', "");
    is_integer(&plain) || is_float(&plain)
}

/// Go's `ParseInt` and `ParseUint` with base 0, and go-yaml's own binary numbers.
fn is_integer(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (base, digits) = match unsigned.as_bytes() {
        // go-yaml hands what follows `0b` on with a sign of its own.
        [b'0', b'b', b'+' | b'-', ..] if unsigned.len() == text.len() => return fits(&text[2..], &text[3..], 2),
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    fits(text, digits, base)
}

/// Whether digits are a number of 64 bits, with the sign that `signed` begins with.
fn fits(signed: &str, digits: &str, base: u32) -> bool {
    let Some(size) =
        Some(digits).filter(|digits| !digits.starts_with(['+', '-'])).and_then(|digits| u128::from_str_radix(digits, base).ok())
    else {
        return false;
    };
    match signed.as_bytes()[0] {
        b'-' => size <= 1 << 63,
        b'+' => size < 1 << 63,
        _ => u64::try_from(size).is_ok(),
    }
}

/// A decimal float that is not too large for one.
fn is_float(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = digits.split_once(['e', 'E']).map_or((digits, None), |(mantissa, exponent)| (mantissa, Some(exponent)));
    let (whole, part) = mantissa.split_once('.').map_or((mantissa, None), |(whole, part)| (whole, Some(part)));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_exponent = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && is_digits(exponent)
    });
    let has_digits = !whole.is_empty() || part.is_some_and(|part| !part.is_empty());
    has_digits && has_exponent && is_digits(whole) && part.is_none_or(is_digits) && text.parse().is_ok_and(f64::is_finite)
}

/// A float that begins with its point: here underscores stand between digits only.
fn is_dotted(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let well = |at: usize| bytes[at] != b'_' || (is_digit(at - 1) || bytes[at - 1] == b'_') && is_digit(at + 1);
    !text.contains("__") && (1..bytes.len()).all(well) && is_float(&text.replace('_', ""))
}

/// `190:20:30`: no number to go-yaml, which quotes it for others.
fn is_base_60(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = digits.split(':');
    let first = parts.next().unwrap_or_default();
    if !first.starts_with(|c: char| c.is_ascii_digit()) || !first.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        return false;
    }
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return false };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    let is_sixtieth = |part: &&str| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    parts.iter().all(is_sixtieth) && is_sixtieth(&last) && fraction.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

/// A date, or a date and a time, as Go's `time.Parse` takes them in go-yaml's four layouts.
fn is_time(text: &str) -> bool {
    let Some((date, rest)) = date(text) else { return false };
    let (year, month, day) = date;
    if !(1..=12).contains(&month) || day < 1 || day > month_days(year, month) {
        return false;
    }
    match rest.as_bytes() {
        [] => true,
        [b'T' | b't', ..] => clock(&rest[1..]).is_some_and(is_zone),
        [b' ', ..] => clock(rest.trim_start_matches(' ')) == Some(""),
        _ => false,
    }
}

type Date = (i64, i64, i64);

fn date(text: &str) -> Option<(Date, &str)> {
    let (year, rest) = text.split_at_checked(4)?;
    if !year.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (month, rest) = one_or_two(rest.strip_prefix('-')?)?;
    let (day, rest) = one_or_two(rest.strip_prefix('-')?)?;
    Some(((year.parse().ok()?, month, day), rest))
}

/// What follows hours, minutes, seconds and their fraction.
fn clock(text: &str) -> Option<&str> {
    let (hour, rest) = one_or_two(text)?;
    let (minute, rest) = one_or_two(rest.strip_prefix(':')?)?;
    let (second, rest) = one_or_two(rest.strip_prefix(':')?)?;
    if hour >= 24 || minute >= 60 || second >= 60 {
        return None;
    }
    match rest.strip_prefix(['.', ',']) {
        Some(fraction) if fraction.starts_with(|c: char| c.is_ascii_digit()) => {
            Some(fraction.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        _ => Some(rest),
    }
}

/// `Z` or `+01:00`; Go allows 24 hours and 60 minutes.
fn is_zone(text: &str) -> bool {
    let digits = |tens: &u8, ones: &u8| 10 * (tens - b'0') + (ones - b'0');
    match text.as_bytes() {
        b"Z" => true,
        [b'+' | b'-', a @ b'0'..=b'9', b @ b'0'..=b'9', b':', c @ b'0'..=b'9', d @ b'0'..=b'9'] => digits(a, b) <= 24 && digits(c, d) <= 60,
        _ => false,
    }
}

/// A number of one or two digits.
fn one_or_two(text: &str) -> Option<(i64, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_types_are_told_apart() {
        let others = [
            "",
            "~",
            "y",
            "No",
            "ON",
            "null",
            ".inf",
            "-.Inf",
            ".5",
            ".5e3",
            ".1_0",
            "1",
            "-1",
            "+1",
            "0x1F",
            "0o17",
            "017",
            "08",
            "0b101",
            "-0b11",
            "0b-1",
            "1_000",
            "1__0",
            "1.",
            "-.5",
            "1e3",
            "1.5E-3",
            "0_",
            "18446744073709551615",
            "-9223372036854775808",
            "99999999999999999999",
            "190:20:30",
            "1:5",
            "+1_0:59.5_",
            "2001-01-01",
            "2001-1-1",
            "2024-02-29",
            "2001-01-01T10:00:00Z",
            "2001-1-1t1:2:3.5+24:60",
            "2001-01-01   10:20:30,5",
        ];
        for text in others {
            assert!(!is_text(text), "{text:?}");
        }
        let texts = [
            "a",
            "yEs",
            "nullx",
            "Nu",
            ".",
            "._1",
            ".1_",
            ".1__0",
            ".e5",
            ".5.5",
            ".1e999",
            "+",
            "-",
            "--1",
            "1e400",
            "0x",
            "0xg",
            "0b",
            "0b2",
            "-0b-1",
            "1:60",
            "1:",
            ":1",
            "1:5:",
            "1.2.3",
            "2001-02-29",
            "2001-13-01",
            "2001-01-01T",
            "2001-01-01T10:00:00",
            "2001-01-01 10:00",
            "2001-01-01T24:0:0Z",
            "2001-01-01T10:00:00+25:00",
            "2001-01-01T10:00:00 Z",
            "20011-01-01",
            "1Gi",
            "100m",
            "10.0.0.1",
            "<<",
            "=",
            "1 2",
            "é",
        ];
        for text in texts {
            assert!(is_text(text), "{text:?}");
        }
    }
}
