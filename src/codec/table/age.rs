//! Times and how long ago they were, as tables tell them.

use std::time::Duration;

use crate::encode;
use go::time;

/// Nanoseconds since 1970-01-01 UTC. Seconds are not enough: ages are truncated, and some times have microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(i128);

const SECOND: i128 = 1_000_000_000;

/// Go's `time.Time{}`, which prints as 0001-01-01T00:00:00Z and counts as unset.
const ZERO: Moment = Moment(-62_135_596_800 * SECOND);

impl Moment {
    /// A time given as its distance from 1970.
    pub(super) fn since_epoch(elapsed: Duration) -> Self {
        Self(i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX))
    }

    /// Reads an RFC 3339 time as Go's `time.Parse` does; `None` when it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (seconds, nanos) = time::parse(text).ok()?;
        Some(Self(i128::from(seconds) * SECOND + i128::from(nanos)))
    }

    /// Whether Go's `IsZero` says so.
    pub(super) fn is_zero(self) -> bool {
        self == ZERO
    }

    /// The text for the time from `self` until `end` (apimachinery `duration.HumanDuration`).
    pub(super) fn until(self, end: Self) -> String {
        human(end.0 - self.0)
    }

    /// Appends the same.
    pub(super) fn until_into(self, end: Self, out: &mut Vec<u8>) {
        human_into(end.0 - self.0, out);
    }
}

/// Two or three significant figures (spec api-surface §4.2). Go truncates towards zero.
fn human(nanos: i128) -> String {
    let mut text = Vec::with_capacity(8);
    human_into(nanos, &mut text);
    String::from_utf8(text).expect("digits and letters")
}

fn human_into(nanos: i128, out: &mut Vec<u8>) {
    // Go's Duration ends at 292 years.
    let nanos = i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX });
    if nanos <= -2_000_000_000 {
        return out.extend_from_slice(b"<invalid>");
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let mut one = |count: u64, unit: u8| {
        encode::revision_into(count, out);
        out.push(unit);
    };
    let mut two = |first: u64, unit: u8, second: u64, smaller: u8| {
        one(first, unit);
        if second > 0 {
            one(second, smaller);
        }
    };
    match () {
        () if seconds < 120 => one(seconds, b's'),
        () if minutes < 10 => two(minutes, b'm', seconds % 60, b's'),
        () if minutes < 180 => one(minutes, b'm'),
        () if hours < 8 => two(hours, b'h', minutes % 60, b'm'),
        () if hours < 48 => one(hours, b'h'),
        () if days < 8 => two(days, b'd', hours % 24, b'h'),
        () if hours < 24 * 365 * 2 => one(days, b'd'),
        () if years < 8 => two(years, b'y', days % 365, b'd'),
        () => one(years, b'y'),
    }
}

/// A number of seconds as a duration (`expirationSeconds` of a certificate request).
pub(super) fn human_seconds(seconds: i64) -> String {
    human(i128::from(seconds) * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_human_duration() {
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600, "8h"),
            (48 * 3600 - 1, "47h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (8 * 86_400, "8d"),
            (730 * 86_400 - 1, "729d"),
            (730 * 86_400, "2y"),
            (731 * 86_400, "2y1d"),
            (8 * 365 * 86_400, "8y"),
            (i64::MAX, "292y"),
        ] {
            assert_eq!(human_seconds(seconds), text, "{seconds}");
        }
        assert_eq!(human(-1_999_999_999), "0s", "truncated towards zero");
    }

    #[test]
    fn times_are_read_as_go_reads_them() {
        let check = |text: &str, expect: Option<i128>| assert_eq!(Moment::parse(text), expect.map(Moment), "{text}");
        check("1970-01-01T00:00:01Z", Some(SECOND));
        check("1970-01-01T02:00:00.5+02:00", Some(SECOND / 2));
        check("1969-12-31T23:59:59.999999Z", Some(-1000));
        check("0001-01-01T00:00:00Z", Some(ZERO.0));
        for wrong in [
            "",
            "1970-01-01",
            "1970-01-01 00:00:00Z",
            "1970-02-30T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00+0200",
            "x970-01-01T00:00:00Z",
            "1970-01-01T00:00:00Zé",
            "197é-01-01T00:00:0Z",
        ] {
            check(wrong, None);
        }
    }
}
