//! Dates, times and durations.

use go::calendar;

/// `2006-01-02`, of a day that there is.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let are_digits = bytes.iter().enumerate().all(|(at, byte)| if matches!(at, 4 | 7) { *byte == b'-' } else { byte.is_ascii_digit() });
    if bytes.len() != 10 || !are_digits {
        return false;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().unwrap_or_default();
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    (1..=12).contains(&month) && (1..=calendar::month_days(year, month)).contains(&day)
}

/// A date, a `T` and a time with its zone; what stands behind another `T` does not count.
pub(super) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    parts.next().is_some_and(is_date) && parts.next().is_some_and(is_time)
}

/// `15:04:05`, perhaps with a fraction, and `z` or `+07:00`.
fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let bytes = clock.as_bytes();
    let are_digits = bytes.iter().enumerate().all(|(at, byte)| if matches!(at, 2 | 5) { *byte == b':' } else { byte.is_ascii_digit() });
    let is_clock = are_digits && &clock[..2] <= "23" && &clock[3..5] <= "59" && &clock[6..] <= "59";
    is_clock && (is_zone(rest) || without_fraction(rest).is_some_and(is_zone))
}

/// What follows any character and then digits.
fn without_fraction(text: &str) -> Option<&str> {
    let mut rest = text.chars();
    rest.next().filter(|c| *c != '\n')?;
    let digits = rest.as_str();
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < digits.len()).then_some(rest)
}

fn is_zone(text: &str) -> bool {
    let is_right = |(at, byte): (usize, &u8)| match at {
        0 => matches!(byte, b'+' | b'-'),
        3 => *byte == b':',
        _ => byte.is_ascii_digit(),
    };
    text == "z" || text.len() == 6 && text.bytes().enumerate().all(|(at, byte)| is_right((at, &byte)))
}

/// Go's durations; and numbers with units in words, between which anything may stand.
pub(super) fn is_duration(text: &str) -> bool {
    if go::duration::parse(text).is_ok() {
        return true;
    }
    let mut is_any = false;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = &rest[start..];
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let (number, after) = number.split_at(end);
        let unit = after.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        let end = unit.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(unit.len());
        let (unit, behind) = unit.split_at(end);
        if unit.is_empty() {
            rest = after;
            continue;
        }
        if number.parse::<i64>().is_err() {
            return false;
        }
        is_any = is_any || is_unit(&unit.to_lowercase());
        rest = behind;
    }
    is_any
}

fn is_unit(unit: &str) -> bool {
    const SHORT: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const LONG: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    SHORT.contains(&unit) || LONG.iter().any(|long| unit.starts_with(long))
}
