//! Schedules of CronJobs: why a text is none, in the words of the parser that kube-apiserver uses (`cron.ParseStandard` of robfig/cron).

use go::{duration, quote::quoted, strconv};

use crate::zones;

/// The values of a field, and the names that some have.
struct Bounds {
    min: i64,
    max: i64,
    /// Names from `first` on.
    names: &'static [&'static str],
    first: i64,
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[], first: 0 },
    Bounds { min: 0, max: 23, names: &[], first: 0 },
    Bounds { min: 1, max: 31, names: &[], first: 0 },
    Bounds { min: 1, max: 12, names: MONTHS, first: 1 },
    Bounds { min: 0, max: 6, names: DAYS, first: 0 },
];
const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Judges a schedule.
///
/// # Errors
/// Why it is none.
pub(crate) fn judge(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut schedule = schedule;
    if let Some(rest) = schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        // The parser panics where nothing comes after the zone.
        let Some((zone, rest)) = rest.split_once(' ') else {
            return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
        };
        if let Some(why) = zones::unknown(zone) {
            return Err(format!("provided bad location {zone}: {why}"));
        }
        schedule = rest.trim();
    }
    if schedule.starts_with('@') {
        return descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly {} fields, found {}: [{}]", FIELDS.len(), fields.len(), fields.join(" ")));
    }
    fields.iter().zip(FIELDS).try_for_each(|(field, bounds)| {
        field.split(',').filter(|range| !range.is_empty()).try_for_each(|range| judge_range(range, &bounds))
    })
}

fn descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(every) => match duration::parse(every) {
            Ok(_) => Ok(()),
            Err(why) => Err(format!("failed to parse duration {text}: {why}")),
        },
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// `number`, `number-number`, `*` or `?`, each with a step after a slash or without.
fn judge_range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        (bounds.min, bounds.max)
    } else {
        let start = number_or_name(ends[0], bounds)?;
        match ends[..] {
            [_] => (start, start),
            [_, end] => (start, number_or_name(end, bounds)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < bounds.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.min));
    }
    if end > bounds.max {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 { Err(format!("step of range should be a positive number: {text}")) } else { Ok(()) }
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<i64, String> {
    let lower = text.to_lowercase();
    match (bounds.first..).zip(bounds.names).find(|(_, name)| **name == lower) {
        Some((number, _)) => Ok(number),
        None => number(text),
    }
}

fn number(text: &str) -> Result<i64, String> {
    let number = strconv::parse_int(text).map_err(|why| {
        let why = why.rsplit_once(": ").map_or("", |(_, why)| why);
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", quoted(text))
    })?;
    if number < 0 { Err(format!("negative number ({number}) not allowed: {text}")) } else { Ok(number) }
}
