//! Ordered, Unique, Bookmarkable: what the order of a stream alone can break.

use std::collections::HashSet;

use super::{Guarantee, History, Seen, Truth, Verdict, Violation, history::Stream};

/// Revisions on a watch never go back, initial events apart; a live event is newer than the start.
pub(crate) fn ordered(history: &History) -> Verdict {
    for stream in history.streams() {
        let mut last = 0;
        if let Some(base) = stream.base
            && let Some(first) = stream.changes().next()
            && first.item.revision <= base
        {
            let detail = format!("{} at {} came after a start at {base}", first.item.key, first.item.revision);
            return Err(Violation::new(Guarantee::Ordered, history, detail));
        }
        for seen in stream.rest {
            let Some(revision) = seen.change().map(|c| c.item.revision).or(seen.bookmark()) else { continue };
            if revision < last {
                return Err(Violation::new(Guarantee::Ordered, history, format!("{revision} came after {last}")));
            }
            last = revision;
        }
    }
    Ok(())
}

/// A watch never shows the same key at the same revision twice, nor a key twice among its initial events.
pub(crate) fn unique(history: &History) -> Verdict {
    for stream in history.streams() {
        let mut keys = HashSet::new();
        if let Some(twice) = stream.initial.iter().find(|c| !keys.insert(&c.item.key)) {
            let detail = format!("{} came twice among the initial events", twice.item.key);
            return Err(Violation::new(Guarantee::Unique, history, detail));
        }
        let mut changes = HashSet::new();
        if let Some(twice) = stream.changes().find(|c| !changes.insert((&c.item.key, c.item.revision))) {
            let detail = format!("{} at {} came twice", twice.item.key, twice.item.revision);
            return Err(Violation::new(Guarantee::Unique, history, detail));
        }
    }
    Ok(())
}

/// A bookmark at R comes after every selected change up to R, and none at or below R comes after it.
pub(crate) fn bookmarkable(history: &History, truth: &Truth) -> Verdict {
    for stream in history.streams() {
        let mut mark = 0;
        for seen in stream.rest {
            mark = mark.max(seen.bookmark().unwrap_or(0));
            if let Some(change) = seen.change()
                && change.item.revision <= mark
            {
                let detail = format!("{} at {} came after a bookmark at {mark}", change.item.key, change.item.revision);
                return Err(Violation::new(Guarantee::Bookmarkable, history, detail));
            }
        }
        missing_before_a_bookmark(history, truth, &stream)?;
    }
    Ok(())
}

fn missing_before_a_bookmark(history: &History, truth: &Truth, stream: &Stream<'_>) -> Verdict {
    let Some(base) = stream.base.filter(|b| truth.knows(*b)) else { return Ok(()) };
    let mut due = truth.outcomes(&history.filter, base).into_iter().peekable();
    let mut shown = HashSet::new();
    for seen in stream.rest {
        match seen {
            Seen::Event(change) => drop(shown.insert((change.item.key.as_str(), change.item.revision))),
            Seen::Bookmark { revision, .. } => {
                while let Some(change) = due.next_if(|c| c.item.revision <= *revision) {
                    if !shown.contains(&(change.item.key.as_str(), change.item.revision)) {
                        let detail = format!("a bookmark at {revision} came before {} at {}", change.item.key, change.item.revision);
                        return Err(Violation::new(Guarantee::Bookmarkable, history, detail));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guarantees::{history::faithful, truth::sample};

    /// The positions of the events in the sample's history: of `faithful`, events 0 and 1 come before its bookmark, the rest after a resume.
    fn events(history: &History) -> Vec<usize> {
        history.seen.iter().enumerate().filter(|(_, s)| s.change().is_some()).map(|(at, _)| at).collect()
    }

    #[test]
    fn ordered_catches_a_step_back() {
        let mut history = faithful(&sample());
        let at = events(&history);
        history.seen.swap(at[0], at[1]);
        let violation = ordered(&history).expect_err("12 came before 11");
        assert_eq!(violation.guarantee, Guarantee::Ordered);
        assert!(violation.detail.contains("11 came after 12"), "{violation}");
    }

    #[test]
    fn ordered_catches_an_event_from_before_the_start() {
        let mut history = faithful(&sample());
        let at = events(&history);
        let old = history.seen[at[0]].clone();
        history.seen.insert(at[2], old);
        assert_eq!(ordered(&history).map_err(|v| v.guarantee), Err(Guarantee::Ordered));
    }

    #[test]
    fn unique_catches_a_repeated_change() {
        let mut history = faithful(&sample());
        let at = events(&history);
        let twice = history.seen[at[3]].clone();
        history.seen.insert(at[3], twice);
        assert_eq!(ordered(&history), Ok(()), "a repetition is not a step back");
        assert_eq!(unique(&history).map_err(|v| v.guarantee), Err(Guarantee::Unique));
    }

    #[test]
    fn bookmarkable_catches_an_event_after_its_bookmark() {
        let mut history = faithful(&sample());
        let at = events(&history);
        history.seen.swap(at[1], at[1] + 1);
        let violation = bookmarkable(&history, &Truth::default()).expect_err("12 came after the bookmark at 12");
        assert!(violation.detail.contains("ns/c at 12 came after a bookmark at 12"), "{violation}");
    }

    #[test]
    fn bookmarkable_catches_a_bookmark_that_claims_too_much() {
        let mut history = faithful(&sample());
        let at = events(&history);
        history.seen.remove(at[1]);
        let violation = bookmarkable(&history, &sample()).expect_err("the bookmark at 12 covers a change that never came");
        assert!(violation.detail.contains("a bookmark at 12 came before ns/c at 12"), "{violation}");
    }
}
