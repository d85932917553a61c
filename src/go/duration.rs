//! Go's duration syntax (`1h30m`, `1.5s`, `100ms`), as flags and the `timeout` query parameter use it.

use std::time::Duration;

use super::quote::time_quoted as quoted;

/// Parses what Go's `time.ParseDuration` parses. Negative values are clamped to zero: every caller treats "no time" and "less than no time" alike.
///
/// # Errors
/// The text of Go's error, byte for byte (spec list-watch §2.14: `time: invalid duration "abc"`).
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let Some(unit_nanos) = unit_nanos(unit) else {
            return Err(format!("time: unknown unit {} in duration {}", quoted(unit), quoted(text)));
        };
        nanos += part_nanos(whole, fraction, unit_nanos).ok_or_else(invalid)?;
        if nanos > i64::MAX as u128 {
            return Err(invalid());
        }
        rest = after;
    }
    let nanos = u64::try_from(nanos).map_err(|_| invalid())?;
    Ok(if negative { Duration::ZERO } else { Duration::from_nanos(nanos) })
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Nanoseconds of `whole.fraction` units; `None` when it does not fit Go's int64.
fn part_nanos(whole: &str, fraction: &str, unit: u64) -> Option<u128> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = u128::from(whole) * u128::from(unit);
    let mut place = u128::from(unit);
    for digit in fraction.bytes() {
        place /= 10;
        nanos += u128::from(digit - b'0') * place;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_go_durations() {
        for (text, millis) in
            [("0", 0), ("60s", 60_000), ("1m0s", 60_000), ("1h30m", 5_400_000), ("1.5s", 1_500), (".5s", 500), ("-3s", 0), ("+250ms", 250)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_in_gos_words() {
        for (text, message) in [
            ("abc", "time: invalid duration \"abc\""),
            ("", "time: invalid duration \"\""),
            ("60", "time: missing unit in duration \"60\""),
            ("3x", "time: unknown unit \"x\" in duration \"3x\""),
            ("9999999999h", "time: invalid duration \"9999999999h\""),
        ] {
            assert_eq!(parse(text), Err(message.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,24}") {
            let _ = parse(&text);
        }

        #[test]
        fn milliseconds_survive(millis in 0u64..10_000_000) {
            prop_assert_eq!(parse(&format!("{millis}ms")), Ok(Duration::from_millis(millis)));
        }
    }
}
