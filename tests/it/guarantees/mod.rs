//! The promises by name, one validator each: they read what clients saw and what was written, and know no server.

mod history;
mod lists;
mod order;
mod promise;
mod truth;
mod whole;

use std::fmt;

pub(crate) use history::{Asked, Change, History, Item, Kind, Page, Seen, Start};
pub(crate) use lists::{Limits, bounded, complete, current, fresh, together};
pub(crate) use order::{bookmarkable, ordered, unique};
pub(crate) use promise::Guarantee;
pub(crate) use truth::{Filter, Truth, Write};
pub(crate) use whole::{atomic, reliable, resumable};

/// A broken promise, with what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) guarantee: Guarantee,
    /// Which client, and what it saw.
    pub(crate) detail: String,
}

impl Violation {
    fn new(guarantee: Guarantee, history: &History, detail: impl fmt::Display) -> Self {
        Self { guarantee, detail: format!("{}: {detail}", history.client) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is broken ({}): {}", self.guarantee, self.guarantee.sentence(), self.detail)
    }
}

/// What a validator answers.
pub(crate) type Verdict = Result<(), Violation>;

/// Every validator over one history; what is broken, in the order of the table of names.
pub(crate) fn broken(history: &History, truth: &Truth, limits: &Limits) -> Vec<Violation> {
    [
        ordered(history),
        atomic(history, truth),
        unique(history),
        reliable(history, truth),
        resumable(history, truth),
        bookmarkable(history, truth),
        together(history, truth),
        fresh(history),
        current(history, truth),
        complete(history, truth),
        bounded(history, limits),
    ]
    .into_iter()
    .filter_map(Result::err)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_prints_its_sentence() {
        let violation = Violation::new(Guarantee::Unique, &History::new("c", Filter::all()), "a/b at 7 came twice");
        assert_eq!(
            violation.to_string(),
            "Unique is broken (a watch never shows the same change (a key at a revision) twice): c: a/b at 7 came twice"
        );
    }

    #[test]
    fn a_faithful_history_breaks_nothing() {
        let truth = truth::sample();
        let history = history::faithful(&truth);
        assert_eq!(broken(&history, &truth, &Limits::default()), []);
    }
}
