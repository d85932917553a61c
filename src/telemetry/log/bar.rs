//! Lines that tell how far something is (`progress`), as a bar for a terminal: each takes the place of the one before.

use std::fmt::{self, Debug};
use std::time::Duration;

use progress::{Line, State, Unit};
use tracing::Event;
use tracing::field::{Field, Visit};

/// What a line of `progress` says.
#[derive(Default)]
pub(super) struct Bar {
    what: String,
    unit: Option<Unit>,
    done: Option<u64>,
    total: Option<u64>,
    seconds: u64,
}

impl Bar {
    /// The bar of an event; none when it does not say how far something is.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        if event.metadata().target() != progress::TARGET {
            return None;
        }
        let mut bar = Self::default();
        event.record(&mut bar);
        (bar.unit.is_some() && bar.done.is_some()).then_some(bar)
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(unit), Some(done)) = (self.unit, self.done) else { return Ok(()) };
        let state = State { done, total: self.total, passed: Duration::from_secs(self.seconds) };
        write!(out, "{}", Line { what: &self.what, unit, state })
    }
}

impl Visit for Bar {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "done" => self.done = Some(value),
            "total" => self.total = Some(value),
            "seconds" => self.seconds = value,
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "unit" {
            self.unit = Unit::of(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.what = format!("{value:?}");
        }
    }
}
