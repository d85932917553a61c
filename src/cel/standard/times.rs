//! The parts of times.

use crate::{
    functions::{Code, Function},
    types::Type,
    value::{Error, Outcome, Parts, Timestamp, Value},
};

/// Getters: their name, their overloads (of a time, of a time in a zone, of a length of time) and their code.
const GETTERS: [(&str, [&str; 3], Code); 10] = [
    ("getFullYear", ["timestamp_to_year", "timestamp_to_year_with_tz", ""], |_, args| part(args, |parts, _| parts.year, None)),
    ("getMonth", ["timestamp_to_month", "timestamp_to_month_with_tz", ""], |_, args| part(args, |parts, _| parts.month - 1, None)),
    ("getDayOfYear", ["timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz", ""], |_, args| {
        part(args, |parts, _| parts.day_of_year, None)
    }),
    ("getDayOfMonth", ["timestamp_to_day_of_month", "timestamp_to_day_of_month_with_tz", ""], |_, args| {
        part(args, |parts, _| parts.day - 1, None)
    }),
    ("getDate", ["timestamp_to_day_of_month_1_based", "timestamp_to_day_of_month_1_based_with_tz", ""], |_, args| {
        part(args, |parts, _| parts.day, None)
    }),
    ("getDayOfWeek", ["timestamp_to_day_of_week", "timestamp_to_day_of_week_with_tz", ""], |_, args| {
        part(args, |parts, _| parts.weekday, None)
    }),
    ("getHours", ["timestamp_to_hours", "timestamp_to_hours_with_tz", "duration_to_hours"], |_, args| {
        part(args, |parts, _| parts.second / 3600, Some(3_600_000_000_000))
    }),
    ("getMinutes", ["timestamp_to_minutes", "timestamp_to_minutes_with_tz", "duration_to_minutes"], |_, args| {
        part(args, |parts, _| parts.second / 60 % 60, Some(60_000_000_000))
    }),
    ("getSeconds", ["timestamp_to_seconds", "timestamp_to_seconds_tz", "duration_to_seconds"], |_, args| {
        part(args, |parts, _| parts.second % 60, Some(1_000_000_000))
    }),
    ("getMilliseconds", ["timestamp_to_milliseconds", "timestamp_to_milliseconds_with_tz", "duration_to_milliseconds"], |_, args| {
        part(args, |_, nanos| nanos / 1_000_000, Some(1_000_000))
    }),
];

/// Returns the functions.
pub(super) fn functions() -> Vec<Function> {
    GETTERS
        .into_iter()
        .map(|(name, [of_time, in_zone, of_duration], code)| {
            let function = Function::new(name).member(of_time, [Type::Timestamp], Type::Int, code).member(
                in_zone,
                [Type::Timestamp, Type::String],
                Type::Int,
                code,
            );
            if of_duration.is_empty() { function } else { function.member(of_duration, [Type::Duration], Type::Int, code) }
        })
        .collect()
}

/// Returns a part of a time, or the whole units in a length of time.
fn part<'v>(args: &[Value<'v>], get: fn(Parts, i64) -> i64, unit: Option<i64>) -> Outcome<'v> {
    let of_time = |time: &Timestamp, offset| Ok(Value::Int(get(time.parts(offset), time.nanos.into())));
    match (args, unit) {
        ([Value::Timestamp(time)], _) => of_time(time, 0),
        ([Value::Timestamp(time), Value::String(zone)], _) => of_time(time, offset(zone, time.seconds)?),
        ([Value::Duration(nanos)], Some(unit)) => Ok(Value::Int(nanos / unit)),
        _ => Err(Error::no_such_overload()),
    }
}

/// Returns the seconds east of UTC of a zone, by its name or as `-08:00`, at a time.
fn offset(zone: &str, seconds: i64) -> Result<i64, Error> {
    let Some((hours, minutes)) = zone.split_once(':') else { return super::zone::offset(zone, seconds).map_err(Error::new) };
    let number = |text: &str| go::strconv::parse_int(text).map_err(|why| Error::new(why.replacen("strconv.ParseInt", "strconv.Atoi", 1)));
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = hours.wrapping_mul(60).wrapping_add(if zone.starts_with('-') { minutes.wrapping_neg() } else { minutes });
    Ok(i64::from(i32::try_from(minutes.wrapping_mul(60)).unwrap_or(0)))
}
