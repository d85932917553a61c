//! How far something is that takes its time, and how people are told: nothing of what ends within a second, then a line a second in the log. On a terminal the
//! log makes one bar of these lines.

use std::fmt;
use std::time::{Duration, Instant};

/// How long something may take of which nothing is told, and the time between two lines.
pub const EVERY: Duration = Duration::from_secs(1);
/// Where the lines come from, as the log knows it.
pub const TARGET: &str = "watchcache_progress";
/// Places of a bar.
const BAR: u64 = 30;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Shown as MiB.
    Bytes,
    /// Objects of a resource.
    Objects,
    /// Changes that a store keeps.
    Changes,
}

impl Unit {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Objects => "objects",
            Self::Changes => "changes",
        }
    }

    /// The unit of a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Bytes, Self::Objects, Self::Changes].into_iter().find(|unit| unit.word() == word)
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// What is done.
    pub done: u64,
    /// About how much it will be; none where nobody knows.
    pub total: Option<u64>,
    /// Since it began.
    pub passed: Duration,
}

impl State {
    /// The share that is done, in percent.
    #[must_use]
    pub fn percent(&self) -> Option<u64> {
        let (done, total) = (u128::from(self.done), u128::from(self.total.filter(|total| *total > 0)?));
        Some(u64::try_from(done * 100 / total).unwrap_or(100).min(100))
    }

    /// What is done in a second, in the mean.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.done as f64 / self.passed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The time that is left if it goes on like this.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let left = self.total?.saturating_sub(self.done);
        Duration::try_from_secs_f64(left as f64 / Some(self.rate()).filter(|rate| *rate > 0.0)?).ok()
    }
}

/// Says when something is told again.
#[derive(Debug)]
pub struct Meter {
    began: Instant,
    told: Option<Instant>,
}

impl Meter {
    /// Of something that begins now.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self { began: now, told: None }
    }

    /// Returns what is to be told now, if it is time.
    pub fn at(&mut self, done: u64, total: Option<u64>, now: Instant) -> Option<State> {
        let last = self.told.unwrap_or(self.began);
        if now.saturating_duration_since(last) < EVERY {
            return None;
        }
        self.told = Some(now);
        // What was guessed too low is at its end.
        Some(State { done, total: total.map(|total| total.max(done)), passed: now.saturating_duration_since(self.began) })
    }

    /// Returns how long it has taken, if anything of it was told.
    #[must_use]
    pub fn end(&self, now: Instant) -> Option<Duration> {
        self.told.map(|_| now.saturating_duration_since(self.began))
    }
}

/// Something that takes its time, told in the log until it is dropped.
#[derive(Debug)]
pub struct Progress {
    what: String,
    unit: Unit,
    meter: Meter,
}

impl Progress {
    /// Begins to do something: "loading pods".
    #[must_use]
    pub fn new(what: impl Into<String>, unit: Unit) -> Self {
        Self { what: what.into(), unit, meter: Meter::new(Instant::now()) }
    }

    /// Tells how far it is, if it is time; of how much, if that is known.
    pub fn at(&mut self, done: u64, total: Option<u64>) -> Option<State> {
        let state = self.meter.at(done, total, Instant::now())?;
        let State { total, passed, .. } = state;
        let (percent, left) = (state.percent(), state.left().map(|left| left.as_secs()));
        let (rate, unit) = (state.rate() as u64, self.unit.word());
        tracing::info!(target: TARGET, percent, done, total, unit, each_second = rate, seconds = passed.as_secs(), seconds_left = left, "{}", self.what);
        Some(state)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(passed) = self.meter.end(Instant::now()) {
            tracing::info!("{}: over after {:.1} s", self.what, passed.as_secs_f64());
        }
    }
}

/// A line with a bar, for a terminal.
#[derive(Debug)]
pub struct Line<'a> {
    /// What is done.
    pub what: &'a str,
    /// What is counted.
    pub unit: Unit,
    /// How far it is.
    pub state: State,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { done, total, passed } = self.state;
        write!(out, "{}", self.what)?;
        if let Some(percent) = self.state.percent() {
            let full = (BAR * percent / 100) as usize;
            write!(out, " [{}{}] {percent} %", "#".repeat(full), " ".repeat(BAR as usize - full))?;
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        match (self.unit, total) {
            // Only that it goes on.
            (_, None) if done == 0 => {}
            (Unit::Bytes, Some(total)) => write!(out, ", {:.1} of {:.1} MiB", mib(done), mib(total))?,
            (Unit::Bytes, None) => write!(out, ", {:.1} MiB", mib(done))?,
            (unit, Some(total)) => write!(out, ", {done} of {total} {}", unit.word())?,
            (unit, None) => write!(out, ", {done} {}", unit.word())?,
        }
        match self.state.left() {
            Some(left) => write!(out, ", {} s left", left.as_secs()),
            None => write!(out, ", {} s", passed.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_ends_within_a_second_is_not_told_and_what_lasts_once_a_second() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        let at = |millis: u64| start + Duration::from_millis(millis);
        let told: Vec<u64> = (0..3_500).step_by(50).filter(|millis| meter.at(*millis, None, at(*millis)).is_some()).collect();
        assert_eq!(told, [1_000, 2_000, 3_000]);
        assert_eq!(meter.end(at(3_700)), Some(Duration::from_millis(3_700)));
        let mut short = Meter::new(start);
        assert_eq!((short.at(1, Some(2), at(999)), short.end(at(999))), (None, None));
        // A step that took long is told once.
        let late = short.at(1, Some(2), at(9_000)).expect("it is time");
        assert_eq!((late.passed, short.at(2, Some(2), at(9_999))), (9 * SECOND, None));
    }

    #[test]
    fn share_and_time_left_are_those_of_the_mean() {
        let state = |done, total, seconds| State { done, total, passed: seconds * SECOND };
        let quarter = state(1_000, Some(4_000), 2);
        assert_eq!((quarter.percent(), quarter.rate(), quarter.left()), (Some(25), 500.0, Some(6 * SECOND)));
        let unknown = state(1_000, None, 2);
        assert_eq!((unknown.percent(), unknown.left()), (None, None));
        assert_eq!((state(0, Some(9), 3).percent(), state(0, Some(9), 3).left()), (Some(0), None), "nobody knows how fast it is");
        assert_eq!((state(0, Some(0), 3).percent(), state(5, Some(0), 3).percent()), (None, None));
        assert_eq!(state(u64::MAX, Some(u64::MAX), 1).percent(), Some(100));
    }

    #[test]
    fn more_than_was_guessed_is_all() {
        let start = Instant::now();
        let state = Meter::new(start).at(9, Some(3), start + SECOND).expect("it is time");
        assert_eq!((state.total, state.percent(), state.left()), (Some(9), Some(100), Some(Duration::ZERO)));
    }

    #[test]
    fn a_line_has_a_bar_where_the_whole_is_known() {
        let line = |unit, done, total| Line { what: "saving", unit, state: State { done, total, passed: 3 * SECOND } }.to_string();
        let bar = |full: usize| format!("[{}{}]", "#".repeat(full), " ".repeat(30 - full));
        assert_eq!(line(Unit::Bytes, 1 << 20, Some(4 << 20)), format!("saving {} 25 %, 1.0 of 4.0 MiB, 9 s left", bar(7)));
        assert_eq!(line(Unit::Objects, 30, Some(30)), format!("saving {} 100 %, 30 of 30 objects, 0 s left", bar(30)));
        assert_eq!(line(Unit::Changes, 5, None), "saving, 5 changes, 3 s");
        assert_eq!(line(Unit::Bytes, 0, None), "saving, 3 s");
        assert_eq!(line(Unit::Bytes, 0, Some(0)), "saving, 0.0 of 0.0 MiB, 3 s");
    }
}
