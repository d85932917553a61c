//! The guarantees of a watch, checked against what one client saw and what was really written. Pure: no clock, no socket.

use std::fmt;

pub(crate) use crate::promise::Guarantee;
use crate::{
    history::{Event, History, Item, Record, Wanted},
    truth::{Expected, State},
};

/// One broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Which promise.
    pub(crate) guarantee: Guarantee,
    /// To which client; `None` when it concerns the server as a whole.
    pub(crate) client: Option<usize>,
    /// What was seen, and what the truth is.
    pub(crate) detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.client {
            Some(client) => write!(f, "client {client}: {}", self.detail),
            None => f.write_str(&self.detail),
        }
    }
}

/// When a watch may answer 410.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// Never: nothing that a client has seen went away.
    Never,
    /// When the revision asked for is below the floor that the message names.
    BelowFloor,
    /// Whenever: revisions themselves went back, or the server under test keeps no history.
    Anyhow,
}

/// Every promise, for one client. `eras` is what its filter must see, era by era.
#[must_use]
pub(crate) fn check(history: &History, eras: &[Expected], expiry: Expiry) -> Vec<Violation> {
    let mut found = Vec::new();
    let sessions = sessions(&history.records);
    let mut era = 0;
    for (index, session) in sessions.iter().enumerate() {
        let last = index + 1 == sessions.len();
        let candidates = if last { eras.len() - 1..eras.len() } else { era..eras.len() };
        // A session belongs to one era. Which one is not written on it: the first that explains it whole.
        let mut judged = candidates.map(|e| (e, walk(session, &eras[e], e, last, expiry)));
        let first = judged.next().expect("eras are never empty");
        let (chosen, mut broken) = if first.1.is_empty() { first } else { judged.find(|(_, v)| v.is_empty()).unwrap_or(first) };
        // One sentence instead of every event of a history that no longer is.
        if last && !broken.is_empty() && (era..chosen).any(|e| walk(session, &eras[e], e, false, expiry).is_empty()) {
            broken = vec![(Guarantee::Complete, "it ended in a history that a restored backup has undone".to_owned())];
        }
        era = chosen;
        found.append(&mut broken);
    }
    if sessions.is_empty() {
        found.push((Guarantee::Bounded, "never got a list or a streaming start".to_owned()));
    }
    let last = eras.last().expect("eras are never empty");
    found.extend(complete(&history.state, &last.state_at(u64::MAX)));
    found.into_iter().map(|(guarantee, detail)| Violation { guarantee, client: Some(history.client), detail }).collect()
}

type Found = Vec<(Guarantee, String)>;

/// From one whole state to the next: what a client believes without starting anew. What comes before the first state belongs to it.
fn sessions(records: &[Record]) -> Vec<&[Record]> {
    let starts: Vec<usize> = records.iter().enumerate().filter(|(_, r)| matches!(r, Record::Listed { .. })).map(|(i, _)| i).collect();
    let begins = starts.iter().enumerate().map(|(nth, start)| if nth == 0 { 0 } else { *start });
    let ends = starts.iter().skip(1).copied().chain([records.len()]);
    begins.zip(ends).map(|(start, end)| &records[start..end]).collect()
}

fn walk(session: &[Record], expected: &Expected, era: usize, last: bool, expiry: Expiry) -> Found {
    let mut walk = Walk { expected, found: Vec::new(), next: 0, open: None, seen: 0, changed: 0, bookmark: 0, era, expiry };
    for record in session {
        walk.step(record);
    }
    walk.close_group();
    if last && let Some((revision, events)) = expected.groups.get(walk.next) {
        let missing: usize = expected.groups[walk.next..].iter().map(|(_, e)| e.len()).sum();
        walk.found.push((
            Guarantee::Reliable,
            format!("{missing} events were never delivered, the first at {revision} ({:?}); seen {}", events[0].kind, walk.seen),
        ));
    }
    walk.found
}

/// The walk along one session.
struct Walk<'a> {
    expected: &'a Expected,
    found: Found,
    /// The first group that has not begun.
    next: usize,
    /// The group being delivered, and what of it has come.
    open: Option<(usize, Vec<bool>)>,
    /// Last revision of an event, a bookmark or the list.
    seen: u64,
    /// Last revision of an event, or of the list.
    changed: u64,
    /// Last plain bookmark of this session, 0 before the first.
    bookmark: u64,
    era: usize,
    expiry: Expiry,
}

impl Walk<'_> {
    fn step(&mut self, record: &Record) {
        match record {
            Record::Listed { revision, wanted, items } => self.listed(*revision, *wanted, items),
            Record::Opened { from } if *from != self.seen => self.report(
                Guarantee::Resumable,
                format!("the harness resumed from {from} though it had seen {}: a fault of the harness", self.seen),
            ),
            Record::Event(event) => self.event(event),
            Record::Foreign(revision) => {
                self.ordered(*revision);
                self.seen = self.seen.max(*revision);
            }
            Record::Bookmark(revision) => self.bookmark(*revision),
            Record::Expired { requested, floor } => self.expired(*requested, *floor),
            Record::Ended { clean: true } => self.close_group(),
            Record::Odd(what) => self.report(Guarantee::Reliable, what.clone()),
            Record::Opened { .. } | Record::Ended { clean: false } | Record::Refused(_) => {}
        }
    }

    fn listed(&mut self, revision: u64, wanted: Wanted, items: &[Item]) {
        self.seen = revision;
        self.changed = revision;
        self.next = self.expected.first_after(revision);
        let least = match wanted {
            Wanted::Any => 0,
            Wanted::AtLeast(least) => least,
            Wanted::Newest { era, head } if era == self.era => head,
            Wanted::Newest { .. } => 0,
        };
        if revision < least {
            self.report(Guarantee::Fresh, format!("a list at {revision} though {least} was asked or acknowledged before"));
        }
        let state: State = items.iter().map(|i| (i.key, (i.revision, i.digest))).collect();
        if state.len() != items.len() {
            self.report(Guarantee::Together, format!("{} items of {} are repeated", items.len() - state.len(), items.len()));
        }
        if let Some(difference) = difference(&state, &self.expected.state_at(revision)) {
            self.report(Guarantee::Together, format!("the state at {revision} is wrong: {difference}"));
        }
    }

    fn event(&mut self, event: &Event) {
        let place = self.expected.groups.binary_search_by_key(&event.revision, |(at, _)| *at);
        if self.open.as_ref().is_none_or(|(at, _)| place != Ok(*at)) {
            self.close_group();
        }
        let Some(place) = place.ok().filter(|at| self.expected.groups[*at].1.iter().any(|e| e.key == event.key)) else {
            self.ordered(event.revision);
            self.seen = self.seen.max(event.revision);
            return self.report(Guarantee::Reliable, format!("{:?} of {:x} at {} never happened", event.kind, event.key, event.revision));
        };
        if event.revision <= self.bookmark {
            self.report(Guarantee::Bookmarkable, format!("an event at {} after a bookmark at {}", event.revision, self.bookmark));
        }
        if event.revision < self.changed {
            self.report(Guarantee::Ordered, format!("{} after {}", event.revision, self.changed));
        }
        self.changed = self.changed.max(event.revision);
        if place >= self.next {
            self.skip_to(place);
            self.open = Some((place, vec![false; self.expected.groups[place].1.len()]));
            self.next = place + 1;
        }
        self.take(place, event);
        self.seen = self.seen.max(event.revision);
    }

    fn skip_to(&mut self, place: usize) {
        if let Some((revision, events)) = self.expected.groups[self.next..place].first() {
            let text = format!(
                "{} revisions were skipped, the first {revision} ({} events), before {}",
                place - self.next,
                events.len(),
                self.expected.groups[place].0
            );
            self.report(Guarantee::Reliable, text);
        }
    }

    fn take(&mut self, place: usize, event: &Event) {
        let truth = &self.expected.groups[place].1;
        let at = truth.iter().position(|e| e.key == event.key).expect("the caller found the key in this group");
        if truth[at] != *event {
            self.report(
                Guarantee::Reliable,
                format!(
                    "{:?} of {:x} at {} is not the truth: {:?}, or the body differs",
                    event.kind, event.key, event.revision, truth[at].kind
                ),
            );
        }
        match &mut self.open {
            Some((open, came)) if *open == place && !came[at] => came[at] = true,
            _ => self.report(Guarantee::Unique, format!("{:?} of {:x} at {} came again", event.kind, event.key, event.revision)),
        }
    }

    fn ordered(&mut self, revision: u64) {
        if revision < self.seen {
            self.report(Guarantee::Ordered, format!("{revision} after {}", self.seen));
        }
    }

    fn bookmark(&mut self, revision: u64) {
        self.ordered(revision);
        if let Some((missing, events)) = self.expected.groups.get(self.next).filter(|(at, _)| *at <= revision) {
            let text = format!("a bookmark at {revision} before the event at {missing} ({} of it)", events.len());
            self.report(Guarantee::Bookmarkable, text);
        }
        let half = self.open.as_ref().filter(|(at, came)| self.expected.groups[*at].0 <= revision && came.contains(&false));
        if half.is_some() {
            self.report(Guarantee::Bookmarkable, format!("a bookmark at {revision} inside a revision"));
        }
        self.seen = self.seen.max(revision);
        self.bookmark = self.bookmark.max(revision);
    }

    fn expired(&mut self, requested: u64, floor: Option<u64>) {
        if self.expiry == Expiry::Never {
            self.report(Guarantee::Resumable, format!("410 from {requested} (floor {floor:?}) where none is allowed"));
        }
        if let Some(floor) = floor.filter(|f| self.expiry != Expiry::Anyhow && requested >= *f) {
            self.report(Guarantee::Resumable, format!("410 from {requested} though the floor is {floor}"));
        }
    }

    /// No more of the open group can come: another revision begins, or the stream ended between revisions.
    fn close_group(&mut self) {
        let Some((place, came)) = self.open.take() else { return };
        let missing = came.iter().filter(|c| !**c).count();
        if missing > 0 {
            let (revision, events) = &self.expected.groups[place];
            self.report(Guarantee::Atomic, format!("{missing} of {} events at {revision} did not come with it", events.len()));
        }
    }

    fn report(&mut self, guarantee: Guarantee, detail: String) {
        self.found.push((guarantee, detail));
    }
}

fn complete(state: &State, truth: &State) -> Option<(Guarantee, String)> {
    difference(state, truth).map(|d| (Guarantee::Complete, format!("the client's state at the end is not the truth: {d}")))
}

/// The first difference in words, with the count of all; `None` when equal.
fn difference(state: &State, truth: &State) -> Option<String> {
    let missing: Vec<_> = truth.iter().filter(|(k, _)| !state.contains_key(*k)).collect();
    let surplus: Vec<_> = state.iter().filter(|(k, _)| !truth.contains_key(*k)).collect();
    let stale: Vec<_> = state.iter().filter(|(k, v)| truth.get(*k).is_some_and(|t| t != *v)).collect();
    let (kind, key, revision) = match (missing.first(), surplus.first(), stale.first()) {
        (None, None, None) => return None,
        (Some((key, (revision, _))), _, _) => ("missing", key, revision),
        (None, Some((key, (revision, _))), _) => ("surplus", key, revision),
        (None, None, Some((key, (revision, _)))) => ("stale", key, revision),
    };
    Some(format!(
        "{} missing, {} surplus, {} stale of {}; {kind}: {key:x} at {revision}",
        missing.len(),
        surplus.len(),
        stale.len(),
        truth.len()
    ))
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
