//! Atomic, Reliable, Resumable: what a stream lacks, told by the truth.

use std::collections::{BTreeMap, BTreeSet};

use super::{Guarantee, History, Kind, Start, Truth, Verdict, Violation, history::Stream};

/// What is said of a change when deliveries are compared: kind and key; the revision is the map's key.
type Whole = BTreeMap<u64, BTreeSet<(Kind, String)>>;

/// All changes of one revision that the filter selects arrive, or none of them.
pub(crate) fn atomic(history: &History, truth: &Truth) -> Verdict {
    for (stream, due, shown) in compared(history, truth) {
        for (revision, changes) in &shown {
            let Some(whole) = due.get(revision) else { continue };
            if let Some((kind, key)) = whole.difference(changes).next() {
                let detail = format!("{} of the {} changes at {revision} came; {kind:?} {key} did not", changes.len(), whole.len());
                return Err(Violation::new(Guarantee::Atomic, history, detail));
            }
        }
        let mut last = 0;
        let mut closed = BTreeSet::new();
        for revision in stream.changes().map(|c| c.item.revision) {
            if revision != last && !closed.insert(revision) {
                return Err(Violation::new(Guarantee::Atomic, history, format!("the changes at {revision} did not come together")));
            }
            last = revision;
        }
    }
    Ok(())
}

/// Nothing selected is skipped between two things a watch showed or up to what it claims to cover, and nothing is made up.
pub(crate) fn reliable(history: &History, truth: &Truth) -> Verdict {
    for (stream, due, shown) in compared(history, truth) {
        for (revision, changes) in shown.range(..=truth.head) {
            let real = due.get(revision);
            if let Some((kind, key)) = changes.iter().find(|c| real.is_none_or(|real| !real.contains(*c))) {
                let detail = format!("{kind:?} {key} at {revision} never happened for {:?}", history.filter);
                return Err(Violation::new(Guarantee::Reliable, history, detail));
            }
        }
        let first = match (stream.start, shown.first_key_value()) {
            (Start::At(_), None) => continue,
            (Start::At(_), Some((first, _))) => *first,
            _ => 0,
        };
        let until = stream.covered().max(shown.last_key_value().map_or(0, |(last, _)| *last));
        if let Some((revision, changes)) = due.range(first..).take_while(|(r, _)| **r <= until).find(|(r, _)| !shown.contains_key(r)) {
            return Err(Violation::new(Guarantee::Reliable, history, format!("{changes:?} at {revision} was skipped")));
        }
    }
    Ok(())
}

/// A watch from a seen revision continues exactly after it, or ends with 410, and is never silent.
pub(crate) fn resumable(history: &History, truth: &Truth) -> Verdict {
    for (stream, due, shown) in compared(history, truth) {
        let Start::At(seen) = stream.start else { continue };
        let Some((next, changes)) = due.first_key_value() else { continue };
        match shown.first_key_value() {
            Some((first, _)) if first > next => {
                let detail = format!("resumed after {seen}, it went on at {first} and left out {changes:?} at {next}");
                return Err(Violation::new(Guarantee::Resumable, history, detail));
            }
            None if !stream.expired() && *next <= stream.covered() => {
                let detail = format!("resumed after {seen}, it showed neither {changes:?} at {next} nor an error");
                return Err(Violation::new(Guarantee::Resumable, history, detail));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Each stream whose start the truth knows, with what it had to show and what it showed.
fn compared<'a>(history: &'a History, truth: &Truth) -> Vec<(Stream<'a>, Whole, Whole)> {
    let known = history.streams().into_iter().filter_map(|stream| {
        let base = stream.base.filter(|base| truth.knows(*base))?;
        let due = truth.outcomes(&history.filter, base);
        let due = by_revision(due.iter().map(|c| (c.item.revision, c.kind, &c.item.key)));
        let shown = by_revision(stream.changes().map(|c| (c.item.revision, c.kind, &c.item.key)));
        Some((stream, due, shown))
    });
    known.collect()
}

fn by_revision<'a>(changes: impl Iterator<Item = (u64, Kind, &'a String)>) -> Whole {
    let mut whole = Whole::new();
    for (revision, kind, key) in changes {
        whole.entry(revision).or_default().insert((kind, key.clone()));
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guarantees::{Filter, Seen, history::faithful, truth::sample};

    /// The sample's faithful history without the events that `drop` names.
    fn without(drop: impl Fn(&str, u64) -> bool) -> History {
        let mut history = faithful(&sample());
        history.seen.retain(|s| s.change().is_none_or(|c| !drop(&c.item.key, c.item.revision)));
        history
    }

    fn guarantee(verdict: Verdict) -> Option<Guarantee> {
        verdict.err().map(|v| v.guarantee)
    }

    #[test]
    fn atomic_catches_half_a_transaction() {
        let history = without(|key, revision| key == "ns/b" && revision == 14);
        assert_eq!(guarantee(atomic(&history, &sample())), Some(Guarantee::Atomic));
        assert_eq!(reliable(&history, &sample()), Ok(()), "the revision itself was not skipped");
    }

    #[test]
    fn atomic_catches_a_transaction_that_is_torn_apart() {
        let mut history = faithful(&sample());
        let at = history.seen.iter().position(|s| s.change().is_some_and(|c| c.item.revision == 14)).expect("the sample has 14");
        history.seen.swap(at + 1, at + 2);
        assert_eq!(guarantee(atomic(&history, &sample())), Some(Guarantee::Atomic));
    }

    #[test]
    fn reliable_catches_a_gap() {
        let history = without(|_, revision| revision == 15);
        assert_eq!(guarantee(reliable(&history, &sample())), Some(Guarantee::Reliable));
        assert_eq!(atomic(&history, &sample()), Ok(()));
    }

    #[test]
    fn reliable_catches_a_loss_at_the_end() {
        let history = without(|_, revision| revision == 17);
        assert_eq!(guarantee(reliable(&history, &sample())), Some(Guarantee::Reliable));
    }

    #[test]
    fn reliable_catches_an_event_that_the_filter_does_not_select() {
        let mut history = faithful(&sample());
        history.filter = Filter::new("name a", |key, _| key == "ns/a");
        assert_eq!(guarantee(reliable(&history, &sample())), Some(Guarantee::Reliable));
    }

    #[test]
    fn reliable_catches_a_wrong_type() {
        let mut history = faithful(&sample());
        for seen in &mut history.seen {
            if let Seen::Event(change) = seen
                && change.item.revision == 17
            {
                change.kind = Kind::Modified;
            }
        }
        assert_eq!(guarantee(reliable(&history, &sample())), Some(Guarantee::Reliable));
    }

    #[test]
    fn resumable_catches_a_gap_after_the_start() {
        let history = without(|_, revision| revision == 14);
        assert_eq!(guarantee(resumable(&history, &sample())), Some(Guarantee::Resumable));
    }

    #[test]
    fn resumable_catches_silence_but_not_a_410() {
        let mut history = without(|_, revision| revision >= 14);
        assert_eq!(guarantee(resumable(&history, &sample())), Some(Guarantee::Resumable));
        let end = history.seen.len() - 1;
        history.seen.insert(end, Seen::Error { code: 410, message: "too old resource version: 12 (13)".into() });
        assert_eq!(resumable(&history, &sample()), Ok(()));
    }
}
