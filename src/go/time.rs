//! Times as Go's `time.Parse` reads and `metav1.Time` writes them.

use super::{
    calendar::{civil, days, month_days},
    quote::time_quoted as quoted,
};

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Without a zone.
const LOCAL: &str = "2006-01-02T15:04:05";

const DAY: i64 = 86_400;

/// A `metav1.Time` in UTC with seconds; none for Go's zero time, which is written as null.
///
/// # Errors
/// Go's text.
pub fn seconds(text: &str) -> Result<Option<String>, String> {
    let (moment, _) = Reader { text, rest: text, layout: SECONDS }.moment()?;
    Ok(written(text, moment, ""))
}

/// A `metav1.MicroTime` in UTC with six digits of a second.
///
/// # Errors
/// Go's text: exactly six digits must be there.
pub fn micros(text: &str) -> Result<Option<String>, String> {
    let (moment, fraction) = Reader { text, rest: text, layout: MICROS }.moment()?;
    Ok(written(text, moment, fraction))
}

/// Seconds since 1970-01-01 UTC and nanoseconds of that second, of RFC 3339 as `time.Parse` reads it: an hour may have one digit, a fraction a comma.
///
/// # Errors
/// Go's text.
pub fn parse(text: &str) -> Result<(i64, i32), String> {
    if let Some(seconds) = plain(text.as_bytes()) {
        return Ok((seconds, 0));
    }
    Reader { text, rest: text, layout: SECONDS }.moment().map(with_nanos)
}

/// The same of a time without a zone, which is one in UTC.
///
/// # Errors
/// Go's text.
pub fn parse_local(text: &str) -> Result<(i64, i32), String> {
    Reader { text, rest: text, layout: LOCAL }.moment().map(with_nanos)
}

fn with_nanos((seconds, fraction): (i64, &str)) -> (i64, i32) {
    let digits = fraction.bytes().skip(1).chain(std::iter::repeat(b'0')).take(9);
    (seconds, digits.fold(0, |nanos, digit| nanos * 10 + i32::from(digit - b'0')))
}

/// The form that nearly every time has: `2006-01-02T15:04:05Z`.
fn plain(text: &[u8]) -> Option<i64> {
    let text: &[u8; 20] = text.try_into().ok()?;
    if [4, 7, 10, 13, 16, 19].map(|at| text[at]) != *b"--T::Z" {
        return None;
    }
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_one = (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day) && hour < 24 && minute < 60 && second < 60;
    is_one.then(|| days(year, month, day) * DAY + hour * 3600 + minute * 60 + second)
}

/// Seconds since 1970.
fn written(text: &str, moment: i64, fraction: &str) -> Option<String> {
    let (days, second) = (moment.div_euclid(DAY), moment.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    if (year, month, day, second) == (1, 1, 1, 0) && fraction.trim_matches(['.', '0']).is_empty() {
        return None;
    }
    if !(0..=9999).contains(&year) {
        return Some(text.to_owned()); // out of RFC 3339 by its offset alone
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl<'a> Reader<'a> {
    /// Seconds since 1970, and the fraction with its dot as it stands there (with MICROS only).
    fn moment(mut self) -> Result<(i64, &'a str), String> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.within(1..=12, "01", "month")?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        let hour = self.hour()?;
        self.literal(":")?;
        let minute = self.within(0..=59, "04", "minute")?;
        self.literal(":")?;
        let second = self.within(0..=59, "05", "second")?;
        let fraction = self.fraction()?;
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {}: extra text: {}", quoted(self.text), quoted(self.rest)));
        }
        if !(1..=month_days(year, month)).contains(&day) {
            return Err(self.out_of_range("day"));
        }
        Ok((days(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset, fraction))
    }

    /// So many digits.
    fn digits(&mut self, count: usize, element: &str) -> Result<i64, String> {
        match self.rest.get(..count).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit())).and_then(|digits| digits.parse().ok()) {
            Some(number) => {
                self.rest = &self.rest[count..];
                Ok(number)
            }
            None => Err(self.cannot(element)),
        }
    }

    fn within(&mut self, range: std::ops::RangeInclusive<i64>, element: &str, name: &str) -> Result<i64, String> {
        let number = self.digits(2, element)?;
        if range.contains(&number) { Ok(number) } else { Err(self.out_of_range(name)) }
    }

    /// Go takes an hour of one digit too.
    fn hour(&mut self) -> Result<i64, String> {
        let count = if self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) { 2 } else { 1 };
        let hour = self.digits(count, "15")?;
        if hour < 24 { Ok(hour) } else { Err(self.out_of_range("hour")) }
    }

    fn fraction(&mut self) -> Result<&'a str, String> {
        let digits = self.rest.get(1..).map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        let begins = self.rest.starts_with(['.', ',']);
        let length = match self.layout {
            MICROS if begins && digits >= 6 => 7,
            MICROS => return Err(self.cannot(".000000")),
            _ if begins && digits > 0 => 1 + digits,
            _ => 0,
        };
        let (fraction, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(fraction)
    }

    /// Seconds east of UTC.
    fn offset(&mut self) -> Result<i64, String> {
        if self.layout == LOCAL {
            return Ok(0);
        }
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let number = |range| {
            self.rest.get(range).filter(|digits: &&str| digits.bytes().all(|b| b.is_ascii_digit())).and_then(|d| d.parse::<i64>().ok())
        };
        let (sign, colon) = (self.rest.as_bytes().first(), self.rest.as_bytes().get(3));
        let (Some(sign @ (b'+' | b'-')), Some(b':'), Some(hours), Some(minutes)) = (sign, colon, number(1..3), number(4..6)) else {
            return Err(self.cannot("Z07:00"));
        };
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        let east = hours * 3600 + minutes * 60;
        let east = if *sign == b'-' { -east } else { east };
        self.rest = &self.rest[6..];
        Ok(east)
    }

    fn literal(&mut self, element: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(element).ok_or_else(|| self.cannot(element))?;
        Ok(())
    }

    fn cannot(&self, element: &str) -> String {
        format!("parsing time {} as {}: cannot parse {} as {}", quoted(self.text), quoted(self.layout), quoted(self.rest), quoted(element))
    }

    fn out_of_range(&self, name: &str) -> String {
        format!("parsing time {}: {name} out of range", quoted(self.text))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use corpus::Subject;

    /// Recorded from kube-apiserver 1.36.3: `metadata.creationTimestamp` and a Lease's `spec.renewTime`.
    #[test]
    fn times_are_read_as_go_reads_them() {
        let ok = |text: &str, expect: &str| assert_eq!(seconds(text), Ok(Some(expect.to_owned())), "{text}");
        ok("2020-01-01T00:00:00+02:00", "2019-12-31T22:00:00Z");
        ok("2020-01-01T00:00:00.99Z", "2020-01-01T00:00:00Z");
        ok("2020-02-01T2:00:00Z", "2020-02-01T02:00:00Z");
        ok("2020-02-01T20:00:00,5Z", "2020-02-01T20:00:00Z");
        ok("2024-02-29T23:59:59-00:30", "2024-03-01T00:29:59Z");
        assert_eq!(seconds("0001-01-01T00:00:00Z"), Ok(None));
        let micro = |text: &str, expect: &str| assert_eq!(micros(text), Ok(Some(expect.to_owned())), "{text}");
        micro("2020-01-01T00:00:00.123456Z", "2020-01-01T00:00:00.123456Z");
        micro("2020-01-01T00:00:00.123456+01:00", "2019-12-31T23:00:00.123456Z");
    }

    #[test]
    fn errors_are_those_of_go() {
        let layout = r#" as "2006-01-02T15:04:05Z07:00": cannot parse "#;
        for (text, tail) in [
            ("abc", format!(r#"{layout}"abc" as "2006""#)),
            ("", format!(r#"{layout}"" as "2006""#)),
            ("2020-01-01", format!(r#"{layout}"" as "T""#)),
            ("2020-02-01T20:00:00", format!(r#"{layout}"" as "Z07:00""#)),
            ("2020-02-01 20:00:00Z", format!(r#"{layout}" 20:00:00Z" as "T""#)),
            ("2020-2-01T20:00:00Z", format!(r#"{layout}"2-01T20:00:00Z" as "01""#)),
            ("2020-02-01T20:00:00+0200", format!(r#"{layout}"+0200" as "Z07:00""#)),
            ("2020-02-01t20:00:00z", format!(r#"{layout}"t20:00:00z" as "T""#)),
            ("20200-02-01T20:00:00Z", format!(r#"{layout}"0-02-01T20:00:00Z" as "-""#)),
            ("2020-02-01T20:00:00ZZ", r#": extra text: "Z""#.to_owned()),
            ("2020-13-01T00:00:00Z", ": month out of range".to_owned()),
            ("2020-02-30T00:00:00Z", ": day out of range".to_owned()),
            ("2020-02-01T25:00:00Z", ": hour out of range".to_owned()),
            ("2020-02-01T20:61:00Z", ": minute out of range".to_owned()),
            ("2020-02-01T20:00:61Z", ": second out of range".to_owned()),
            ("2020-02-01T20:00:00+25:00", ": time zone offset hour out of range".to_owned()),
        ] {
            assert_eq!(seconds(text), Err(format!("parsing time {text:?}{tail}")));
        }
        assert_eq!(parse_local("2020-01-02T03:04:05.5"), Ok((1_577_934_245, 500_000_000)));
        for (text, tail) in
            [("x", r#" as "2006-01-02T15:04:05": cannot parse "x" as "2006""#), ("2020-01-02T03:04:05z", r#": extra text: "z""#)]
        {
            assert_eq!(parse_local(text), Err(format!("parsing time {text:?}{tail}")));
        }
        let layout = r#" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "#;
        for (text, tail) in [
            ("2020-01-01T00:00:00Z", r#""Z" as ".000000""#),
            ("2020-01-01T00:00:00.5Z", r#"".5Z" as ".000000""#),
            ("2020-01-01T00:00:00.1234567Z", r#""7Z" as "Z07:00""#),
        ] {
            assert_eq!(micros(text), Err(format!("parsing time {text:?}{layout}{tail}")));
        }
    }

    #[test]
    fn corpus() {
        Subject {
            name: "times",
            law: |input| {
                let text = String::from_utf8_lossy(input);
                let mut any = false;
                for read in [seconds, micros] {
                    if let Ok(Some(normal)) = read(&text) {
                        assert_eq!(read(&normal), Ok(Some(normal.clone())), "a normal form is its own");
                        any = true;
                    }
                }
                any
            },
            words: &[
                "2026-11-21T17:15:00Z",
                "0001-01-01T00:00:00Z",
                "T",
                "Z",
                "+24:00",
                "-00:60",
                ".000000",
                ",5",
                "-",
                ":",
                "99",
                "9999",
                "0000",
                "02-29",
            ],
            long: &[["2026-11-21T17:15:00.", "0", "Z"], ["", "0", ""], ["2026-11-21T17:15:00Z", "Z", ""]],
        }
        .check();
    }

    proptest! {
        /// The quick way reads what the other one reads.
        #[test]
        fn plain_times_are_read_alike(text in "[0-2][0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]Z") {
            let slow = Reader { text: &text, rest: &text, layout: SECONDS }.moment().map(|(seconds, _)| (seconds, 0));
            prop_assert_eq!(parse(&text), slow);
        }
    }

    proptest! {
        #[test]
        fn anything_is_read_without_panic(text in "\\PC{0,30}") {
            let _ = (seconds(&text), micros(&text));
        }
    }
}
