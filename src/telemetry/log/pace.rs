//! How often one place in the code may log: what a client or a broken peer can cause again and again must not fill a disk. The next line that is written
//! tells how many were left out.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use super::bar::Bar;
use super::escape::Escaped;
use super::lines::BAR_BEGINS;
use parking_lot::Mutex;
use prometheus::IntCounter;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Lines of one place that may come at once: a start says some things several times …
const AT_ONCE: u32 = 10;
/// … and what it has for each further one.
const PAUSE: Duration = Duration::from_secs(1);

/// A format that leaves lines out. Whoever asks for debug lines gets all of them.
pub(super) struct Paced<F> {
    inner: F,
    /// What closes a line of the format, before which the number of lines left out is put in.
    json: bool,
    sites: Sites,
    left_out: IntCounter,
    /// Standard error is a terminal, and people read it.
    has_bars: bool,
}

/// One for each place that has logged: as many as the program has.
#[derive(Default)]
struct Sites(Mutex<HashMap<Identifier, Site>>);

struct Site {
    lines: u32,
    since: Instant,
    left_out: u64,
}

impl<F> Paced<F> {
    pub(super) fn new(inner: F, json: bool, left_out: IntCounter) -> Self {
        Self { inner, json, sites: Sites::default(), left_out, has_bars: false }
    }

    /// Shows how far something is as bars, which [`super::lines`] puts into one place, or as lines.
    pub(super) fn with_bars(self, has_bars: bool) -> Self {
        Self { has_bars, ..self }
    }
}

impl Sites {
    /// Whether a line may be written, and how many were left out before it.
    fn admit(&self, metadata: &Metadata<'_>, now: Instant) -> Option<u64> {
        let mut sites = self.0.lock();
        let site = sites.entry(metadata.callsite()).or_insert(Site { lines: AT_ONCE, since: now, left_out: 0 });
        site.admit(now)
    }
}

impl Site {
    fn admit(&mut self, now: Instant) -> Option<u64> {
        let earned = u32::try_from(now.saturating_duration_since(self.since).as_secs() / PAUSE.as_secs()).unwrap_or(AT_ONCE);
        if self.lines + earned >= AT_ONCE {
            (self.lines, self.since) = (AT_ONCE, now);
        } else {
            (self.lines, self.since) = (self.lines + earned, self.since + PAUSE * earned);
        }
        match self.lines.checked_sub(1) {
            Some(left) => {
                self.lines = left;
                Some(std::mem::take(&mut self.left_out))
            }
            None => {
                self.left_out += 1;
                None
            }
        }
    }
}

impl<S, N, F> FormatEvent<S, N> for Paced<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        if metadata.target() == progress::TARGET {
            // These keep to their own pace, one line a second for each thing that is under way.
            return match Bar::of(event).filter(|_| self.has_bars) {
                Some(bar) => write!(writer, "{BAR_BEGINS}{bar}"),
                None => self.inner.format_event(context, writer, event),
            };
        }
        // More verbose is greater.
        let admitted = if *metadata.level() > Level::INFO { Some(0) } else { self.sites.admit(metadata, Instant::now()) };
        let left_out = match admitted {
            // An empty line is none: nothing is written.
            None => {
                self.left_out.inc();
                return Ok(());
            }
            Some(left_out) => left_out,
        };
        let mut line = String::new();
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end();
        match (self.json.then(|| line.strip_suffix('}')).flatten(), left_out) {
            (Some(_), 0) => writeln!(writer, "{line}"),
            (Some(open), _) => writeln!(writer, "{open},\"left_out\":{left_out}}}"),
            (None, 0) => writeln!(writer, "{}", Escaped(line)),
            (None, _) => writeln!(writer, "{} left_out={left_out}", Escaped(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_at_once_then_one_a_second() {
        let now = Instant::now();
        let at = |millis: u64| now + Duration::from_millis(millis);
        let mut site = Site { lines: AT_ONCE, since: now, left_out: 0 };
        let first: Vec<_> = (0..12).map(|_| site.admit(now)).collect();
        assert_eq!((&first[..10], &first[10..]), (&[Some(0); 10][..], &[None, None][..]));
        assert_eq!((site.admit(at(999)), site.admit(at(1_000)), site.admit(at(1_001))), (None, Some(3), None));
        let flood = (1_002..11_000).filter(|millis| site.admit(at(*millis)).is_some()).count();
        assert_eq!(flood, 9);
        assert_eq!(site.admit(at(3_600_000)), Some(999), "what was left out since the last one");
        assert_eq!((0..20).filter(|_| site.admit(at(3_600_000)).is_some()).count(), 9, "an hour earns no more than a start has");
    }
}
