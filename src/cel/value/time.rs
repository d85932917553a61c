//! Points and lengths of time, with what may be computed with them.

use std::fmt;

use go::calendar::{civil, days};

use super::error::Error;

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// The seconds of 0001-01-01T00:00:00Z and of 9999-12-31T23:59:59Z.
const SECONDS_MIN: i64 = -62_135_596_800;
const SECONDS_MAX: i64 = 253_402_300_799;

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    /// Seconds since 1970 in UTC.
    pub seconds: i64,
    /// Nanoseconds of that second.
    pub nanos: u32,
    /// Seconds east of UTC, in which it is written.
    pub offset: i32,
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

/// The parts of a point in time that a clock and a calendar show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    /// From 1.
    pub(crate) day: i64,
    /// Seconds of the day.
    pub(crate) second: i64,
    /// From 0, a Sunday.
    pub(crate) weekday: i64,
    /// From 0.
    pub(crate) day_of_year: i64,
}

fn overflow() -> Error {
    Error::new("timestamp overflow")
}

impl Timestamp {
    /// Returns the time of so many seconds, in UTC.
    ///
    /// # Errors
    /// It is before the year 1 or after the year 9999.
    pub fn of_seconds(seconds: i64) -> Result<Self, Error> {
        Self { seconds, nanos: 0, offset: 0 }.checked()
    }

    fn checked(self) -> Result<Self, Error> {
        if (SECONDS_MIN..=SECONDS_MAX).contains(&self.seconds) { Ok(self) } else { Err(overflow()) }
    }

    /// Reads RFC 3339.
    ///
    /// # Errors
    /// Go's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (seconds, nanos) = go::time::parse(text)?;
        let zone = text.len().checked_sub(6).and_then(|at| text.get(at..)).filter(|_| !text.ends_with('Z'));
        let offset = zone.and_then(|zone| {
            let minutes = zone.get(1..3)?.parse::<i32>().ok()? * 60 + zone.get(4..6)?.parse::<i32>().ok()?;
            Some(if zone.starts_with('-') { -minutes * 60 } else { minutes * 60 })
        });
        Ok(Self { seconds, nanos: nanos.unsigned_abs(), offset: offset.unwrap_or(0) })
    }

    /// Reads RFC 3339, as the conversion of a text does.
    pub(crate) fn converted(text: &str) -> Option<Result<Self, Error>> {
        Self::parse(text).ok().map(Self::checked)
    }

    /// Reads a date, `2006-01-02`.
    pub(crate) fn date(text: &str) -> Result<Self, String> {
        let whole = format!("{text}T00:00:00Z");
        if text.len() == 10 {
            return Self::parse(&whole);
        }
        let quoted = go::quote::quoted(text);
        Err(format!("parsing time {quoted} as \"2006-01-02\": cannot parse {quoted} as \"2006\""))
    }

    /// Returns it some nanoseconds later.
    pub(crate) fn plus(self, nanos: i64) -> Result<Self, Error> {
        let sum = i64::from(self.nanos) + nanos % NANOS;
        let seconds = self.seconds.checked_add(nanos / NANOS).and_then(|seconds| seconds.checked_add(sum.div_euclid(NANOS)));
        let nanos = u32::try_from(sum.rem_euclid(NANOS)).unwrap_or(0);
        Self { seconds: seconds.ok_or_else(|| Error::new("integer overflow"))?, nanos, offset: self.offset }.checked()
    }

    /// Returns it some nanoseconds earlier.
    pub(crate) fn minus(self, nanos: i64) -> Result<Self, Error> {
        self.plus(nanos.checked_neg().ok_or_else(|| Error::new("integer overflow"))?)
    }

    /// Returns the nanoseconds since another.
    pub(crate) fn since(self, other: Self) -> Result<i64, Error> {
        let seconds = self.seconds.checked_sub(other.seconds).and_then(|seconds| seconds.checked_mul(NANOS));
        let nanos = i64::from(self.nanos) - i64::from(other.nanos);
        seconds.and_then(|whole| whole.checked_add(nanos)).ok_or_else(|| Error::new("integer overflow"))
    }

    /// Returns its parts at so many seconds east of UTC.
    pub(crate) fn parts(self, offset: i64) -> Parts {
        let local = self.seconds.saturating_add(offset);
        let (day_number, second) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = civil(day_number);
        Parts { year, month, day, second, weekday: (day_number + 4).rem_euclid(7), day_of_year: day_number - days(year, 1, 1) }
    }
}

impl fmt::Display for Timestamp {
    /// Prints Go's `RFC3339Nano`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { year, month, day, second, .. } = self.parts(self.offset.into());
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)?;
        if self.nanos != 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.unsigned_abs() / 60);
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Returns the nanoseconds of a length of time as Go's `time.ParseDuration` reads it.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    let read = |text: &str| go::duration::parse(text).map(|duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX));
    let Some(positive) = text.strip_prefix('-').filter(|rest| !rest.starts_with(['-', '+'])) else { return read(text) };
    // Go's reader of negative ones is that of positive ones; its error shows the whole text.
    match read(positive) {
        Ok(nanos) => Ok(-nanos),
        Err(_) => read(text),
    }
}

/// Returns a length of time as its conversion to a text prints it: seconds, with as many digits as there are.
pub(crate) fn duration_text(nanos: i64) -> String {
    let seconds = nanos / NANOS;
    #[expect(clippy::cast_precision_loss, reason = "Go prints the floating-point number of seconds")]
    let float = seconds as f64 + (nanos % NANOS) as f64 / 1e9;
    format!("{float}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_they_were_read() {
        for text in ["2009-02-13T23:31:30Z", "2009-02-13T23:31:30.000000001Z", "2009-02-13T23:31:30.5-08:30", "0001-01-01T00:00:00+01:00"] {
            assert_eq!(Timestamp::parse(text).map(|time| time.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn durations_are_read_with_their_sign() {
        for (text, nanos) in [("1.5s", 1_500_000_000), ("-1h", -3_600_000_000_000), ("+1ns", 1), ("0", 0)] {
            assert_eq!(duration(text), Ok(nanos), "{text}");
        }
        assert_eq!(duration("--1s"), Err("time: invalid duration \"--1s\"".to_owned()));
        assert_eq!(duration_text(1_500_000_000), "1.5s");
    }
}
