//! The log: text for people or JSON for machines, on standard error. Logging neither waits nor fails (`lines`), and a flood of one line is thinned (`pace`).

mod bar;
mod escape;
mod lines;
mod pace;

use std::{
    io::{self, IsTerminal, Write},
    process,
    sync::{LazyLock, OnceLock},
    time::Duration,
};

use prometheus::{IntCounterVec, Opts};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use super::panics;
use crate::settings::{Log, LogFormat};
use lines::{Dropped, Lines};
use pace::Paced;

/// How long the last lines may take when the process ends: a pipe that nobody reads must not keep it.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// `watchcache_log_lines_dropped_total`: of the process, as the log is.
pub(super) static DROPPED: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let options = Opts::new(
        "watchcache_log_lines_dropped_total",
        "Lines that are not in the log: the queue was full, the write failed, or they came again and again (flood).",
    );
    let family = IntCounterVec::new(options, &["reason"]).expect("a name and a label");
    ["full", "failed", "flood"].into_iter().for_each(|reason| drop(family.with_label_values(&[reason])));
    family
});

/// The process's log, once it has begun.
static LOG: OnceLock<Lines> = OnceLock::new();

/// Sets up the process's log, and what becomes of panics. Call once, first.
///
/// # Errors
/// One line: directives that cannot be read, no thread, or a log that is set up already.
pub fn start(log: &Log) -> Result<(), String> {
    let filter = EnvFilter::try_new(&log.directives).map_err(|error| format!("--log-level {:?}: {error}", log.directives))?;
    let reason = |reason: &str| DROPPED.with_label_values(&[reason]);
    let lines = Lines::start(io::stderr(), Dropped { full: reason("full"), failed: reason("failed") })
        .map_err(|error| format!("the log cannot be set up: {error}"))?;
    let _first = LOG.set(lines.clone());
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines).with_ansi(false).log_internal_errors(false);
    let set = match log.format {
        LogFormat::Text => {
            let has_bars = io::stderr().is_terminal();
            subscriber.map_event_format(|inner| Paced::new(inner, false, reason("flood")).with_bars(has_bars)).try_init()
        }
        LogFormat::Json => {
            subscriber.json().flatten_event(true).map_event_format(|inner| Paced::new(inner, true, reason("flood"))).try_init()
        }
    };
    set.map_err(|error| format!("the log cannot be set up: {error}"))?;
    panics::install();
    Ok(())
}

/// A line as it is, after all that was logged.
pub fn say(line: &str) {
    if let Some(lines) = LOG.get() {
        lines.offer(line.as_bytes());
    }
}

/// Waits until the log is written; a second at most.
pub fn flush() {
    if let Some(lines) = LOG.get() {
        lines.flush(FLUSH_MAX);
    }
}

/// Ends the process now, with the log written and nothing else.
pub fn end(code: i32) -> ! {
    flush();
    process::exit(code)
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Lines;

    fn make_writer(&'a self) -> &'a Lines {
        self
    }
}

/// Each write is a whole line: so the subscriber has it.
impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.offer(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use serde_json::Value;
    use tracing::subscriber::with_default;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines of a flood of a thousand, a pause, and one more.
    fn flood(json: bool) -> Vec<String> {
        let kept = Kept::default();
        let (writer, counter) = (kept.clone(), DROPPED.with_label_values(&["flood"]));
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false);
        let work = || {
            for n in 0..1_001 {
                if n == 1_000 {
                    std::thread::sleep(Duration::from_millis(1_100));
                }
                tracing::warn!(n, "a peer's {{fault}}");
            }
        };
        if json {
            with_default(subscriber.json().flatten_event(true).map_event_format(|inner| Paced::new(inner, true, counter)).finish(), work);
        } else {
            with_default(subscriber.map_event_format(|inner| Paced::new(inner, false, counter)).finish(), work);
        }
        let text = String::from_utf8(kept.0.lock().clone()).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn how_far_something_is_is_a_bar_on_a_terminal_and_lines_elsewhere() {
        let told = |has_bars: bool| {
            let kept = Kept::default();
            let (writer, counter) = (kept.clone(), DROPPED.with_label_values(&["flood"]));
            let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).without_time();
            let subscriber = subscriber.map_event_format(|inner| Paced::new(inner, false, counter).with_bars(has_bars)).finish();
            with_default(subscriber, || {
                let mut saving = progress::Progress::new("saving", progress::Unit::Changes);
                std::thread::sleep(progress::EVERY);
                assert!(saving.at(30, Some(60)).is_some());
            });
            String::from_utf8(std::mem::take(&mut *kept.0.lock())).expect("text")
        };
        let bar = told(true);
        let (bar, end) = bar.split_once('\n').map_or((&*bar, ""), |(first, _)| first.split_once(" INFO").unwrap_or((first, "")));
        assert!(
            bar.starts_with("\rsaving [###############               ] 50 %, 30 of 60 changes, ") && bar.contains(" s left"),
            "{bar:?}"
        );
        assert!(end.contains("saving: over after "), "{end:?}");
        let lines = told(false);
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        for field in ["saving", "percent=50", "done=30", "total=60", "unit=\"changes\"", "seconds_left="] {
            assert!(lines[0].contains(field), "{field} in {}", lines[0]);
        }
    }

    /// A user that names itself after a line of the log, at every kind of field and in the message.
    #[test]
    fn no_text_from_outside_begins_a_line_of_its_own() {
        let text = "eve\n2026-01-01T00:00:00Z  WARN forged\r\u{1b}[2K\u{2028}forged\u{85}";
        let kept = Kept::default();
        let (writer, counter) = (kept.clone(), DROPPED.with_label_values(&["flood"]));
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false);
        with_default(subscriber.map_event_format(|inner| Paced::new(inner, false, counter)).finish(), || {
            tracing::warn!(user = %text, name = text, debug = ?[text], error = %io::Error::other(text), "refused: {text}");
        });
        let told = String::from_utf8(kept.0.lock().clone()).expect("text");
        let line = told.strip_suffix('\n').expect("a line has an end");
        assert!(!line.contains(|c: char| c.is_control() || c == '\u{2028}'), "{line:?}");
        assert!(line.contains("user=eve\\n2026") && line.contains("refused: eve\\n2026"), "{line}");
    }

    #[test]
    fn a_flood_is_ten_lines_and_a_number() {
        for json in [false, true] {
            let lines = flood(json);
            // A slow machine may take a second for the thousand.
            assert!((11..20).contains(&lines.len()), "{lines:?}");
            let left_out = |line: &String| match json {
                false => line.rsplit_once(" left_out=").and_then(|(_, number)| number.parse().ok()),
                true => serde_json::from_str::<Value>(line).expect("each line is an object").get("left_out").and_then(Value::as_u64),
            };
            assert_eq!(lines[..10].iter().find_map(left_out), None);
            assert_eq!(lines.iter().filter_map(left_out).sum::<u64>() + lines.len() as u64, 1_001, "{lines:?}");
        }
    }
}
