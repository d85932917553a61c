//! Points in time as RFC 3339 writes them, as `metav1.Time` and `MicroTime` have them.

use crate::calendar::civil;

/// Seconds of Go's zero time, which is no time at all: 0001-01-01T00:00:00Z.
pub const ZERO: i64 = -62_135_596_800;

const DAY: i64 = 86_400;

/// Appends `"2006-01-02T15:04:05Z"`, with six digits of `nanos` if there are some.
pub fn text_into(seconds: i64, nanos: Option<i32>, out: &mut Vec<u8>) {
    // A second may be more than a day's worth when nanoseconds are broken; Go carries them over too.
    let whole = nanos.unwrap_or(0).div_euclid(1_000_000_000);
    let seconds = seconds.saturating_add(i64::from(whole));
    let (year, month, day) = civil(seconds.div_euclid(DAY));
    let of_day = seconds.rem_euclid(DAY);
    out.push(b'"');
    if year < 0 {
        out.push(b'-');
    }
    digits_into(year.unsigned_abs(), 4, out);
    for (before, value) in [(b'-', month), (b'-', day), (b'T', of_day / 3600), (b':', of_day / 60 % 60), (b':', of_day % 60)] {
        out.push(before);
        digits_into(value.unsigned_abs(), 2, out);
    }
    if let Some(nanos) = nanos {
        out.push(b'.');
        digits_into(u64::from(nanos.rem_euclid(1_000_000_000).unsigned_abs() / 1000), 6, out);
    }
    out.extend_from_slice(b"Z\"");
}

/// At least `width` digits.
fn digits_into(mut value: u64, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    while value > 0 || out.len() < start + width {
        out.push(b'0' + (value % 10) as u8);
        value /= 10;
    }
    out[start..].reverse();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time;

    fn parse(text: &[u8]) -> Option<(i64, i32)> {
        time::parse(std::str::from_utf8(text).ok()?).ok()
    }

    fn text(seconds: i64, nanos: Option<i32>) -> String {
        let mut out = Vec::new();
        text_into(seconds, nanos, &mut out);
        String::from_utf8(out).expect("ASCII").trim_matches('"').to_owned()
    }

    #[test]
    fn times_are_written_as_go_does() {
        assert_eq!(text(0, None), "1970-01-01T00:00:00Z");
        assert_eq!(text(1_795_280_400, Some(1_999)), "2026-11-21T17:00:00.000001Z");
        assert_eq!(text(ZERO, None), "0001-01-01T00:00:00Z");
        assert_eq!(text(-1, Some(-1)), "1969-12-31T23:59:58.999999Z");
        for seconds in [i64::MIN, i64::MAX, 253_402_300_800] {
            assert!(text(seconds, Some(i32::MIN)).ends_with('Z'), "no panic");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        assert_eq!(parse(b"2026-11-21T19:00:00.5+02:00"), Some((1_795_280_400, 500_000_000)));
        for text in [
            "",
            "2026-11-21",
            "2026-02-29T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T17:00:00",
            "2026-11-21T17:00:00.Z",
            "2026-11-21t17:00:00Z",
            "2026-11-21T17:00:00Zx",
            "2026-11-21T17:00:00+0200",
            "+026-11-21T17:00:00Z",
            "2026-13-21T17:00:00Z",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn times_and_back(seconds in ZERO..253_402_300_800, micros in 0..1_000_000i32) {
            prop_assert_eq!(parse(text(seconds, None).as_bytes()), Some((seconds, 0)));
            prop_assert_eq!(parse(text(seconds, Some(micros * 1000 + 7)).as_bytes()), Some((seconds, micros * 1000)));
        }

        #[test]
        fn anything_is_read_without_panic(text in "[0-9TZ:.+-]{0,30}") {
            let _ = parse(text.as_bytes());
        }
    }
}
