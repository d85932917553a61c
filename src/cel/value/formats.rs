//! Texts of objects that are times and lengths of time, as `strfmt` of kube-openapi reads them: more than the language's own conversions do.

use go::{strconv, time};

use super::{Timestamp, time::duration as of_go};

const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000 * MICROSECOND;
const SECOND: i64 = 1_000 * MILLISECOND;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Units with their names, the last of which may be longer.
const UNITS: [(&[&str], i64); 8] = [
    (&["ns", "nano"], 1),
    (&["us", "µs", "micro"], MICROSECOND),
    (&["ms", "milli"], MILLISECOND),
    (&["s", "sec"], SECOND),
    (&["m", "min"], MINUTE),
    (&["h", "hr", "hour"], HOUR),
    (&["d", "day"], DAY),
    (&["w", "wk", "week"], 7 * DAY),
];

/// Returns the nanoseconds of Go's form, or of numbers with words between which anything may stand.
///
/// # Errors
/// The text of `strfmt`.
pub(super) fn duration(text: &str) -> Result<i64, String> {
    if let Ok(nanos) = of_go(text) {
        return Ok(nanos);
    }
    let mut sum = None;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (number, after) = cut(&rest[start..], |c| c.is_ascii_digit());
        let (unit, behind) = cut(after.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']), |c| c.is_ascii_alphabetic() || c == 'µ');
        rest = if unit.is_empty() { after } else { behind };
        if unit.is_empty() {
            continue;
        }
        let factor = strconv::parse_int(number).map_err(|why| why.replace("ParseInt", "Atoi"))?;
        if let Some(nanos) = nanos(&unit.to_lowercase()) {
            sum = Some(i64::wrapping_add(sum.unwrap_or(0), factor.wrapping_mul(nanos)));
        }
    }
    sum.ok_or_else(|| format!("unable to parse {text} as duration"))
}

/// The beginning of which all characters are some, and the rest.
fn cut(text: &str, is: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is(c)).unwrap_or(text.len()))
}

fn nanos(unit: &str) -> Option<i64> {
    let is = |names: &&[&str]| names.contains(&unit) || names.last().is_some_and(|last| unit.starts_with(last));
    UNITS.iter().find(|(names, _)| is(names)).map(|(_, nanos)| *nanos)
}

/// Returns the time of RFC 3339, or of a text without a zone; 1970 of one that is empty.
///
/// # Errors
/// Go's text of the form that is tried last.
pub(super) fn date_time(text: &str) -> Result<Timestamp, String> {
    if text.is_empty() {
        return Ok(Timestamp { seconds: 0, nanos: 0, offset: 0 });
    }
    Timestamp::parse(text).or_else(|_| {
        let (seconds, nanos) = time::parse_local(text)?;
        Ok(Timestamp { seconds, nanos: nanos.unsigned_abs(), offset: 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_words() {
        for (text, nanos) in
            [("1 day", DAY), ("2wk 3 hours", 14 * DAY + 3 * HOUR), ("5 x 1s", SECOND), ("-1h", -HOUR), ("1.5 min", 5 * MINUTE)]
        {
            assert_eq!(duration(text), Ok(nanos), "{text}");
        }
        assert_eq!(duration("x"), Err("unable to parse x as duration".to_owned()));
        let long = "99999999999999999999";
        assert_eq!(duration(&format!("{long} s")), Err(format!("strconv.Atoi: parsing \"{long}\": value out of range")));
    }

    #[test]
    fn times_need_no_zone() {
        let seconds = |text: &str| date_time(text).map(|time| time.seconds);
        assert_eq!((seconds(""), seconds("1970-01-01T00:00:05"), seconds("1970-01-01T01:00:05+01:00")), (Ok(0), Ok(5), Ok(5)));
        let why = "parsing time \"x\" as \"2006-01-02T15:04:05\": cannot parse \"x\" as \"2006\"";
        assert_eq!(seconds("x"), Err(why.to_owned()));
    }
}
