//! Together, Fresh, Complete, Bounded: what lists, single objects and the state that a client keeps can break.

use std::{collections::BTreeMap, time::Duration};

use super::{Asked, Guarantee, History, Item, Kind, Page, Seen, Truth, Verdict, Violation, truth::essence};

/// A list shows one revision: every object as it was then, none newer, and the same on each of its pages.
pub(crate) fn together(history: &History, truth: &Truth) -> Verdict {
    let broken = |detail: String| Err(Violation::new(Guarantee::Together, history, detail));
    let mut pages: Vec<&Page> = Vec::new();
    for page in history.seen.iter().filter_map(listed) {
        if let Some(newer) = page.items.iter().find(|item| item.revision > page.revision) {
            return broken(format!("{} at {} is in a list at {}", newer.key, newer.revision, page.revision));
        }
        if page.asked != Asked::Continued {
            pages.clear();
        }
        pages.push(page);
        if page.revision != pages[0].revision {
            return broken(format!("a page at {} continues a list at {}", page.revision, pages[0].revision));
        }
        if !page.more && truth.knows(page.revision) {
            let shown = pages.iter().flat_map(|p| &p.items).collect::<Vec<_>>();
            if let Some(difference) = differs(&shown, &truth.state(&history.filter, page.revision), true) {
                return broken(format!("a list at {} {difference}", page.revision));
            }
        }
    }
    Ok(())
}

/// A list asked for at least R is answered at or after R, one asked for exactly R at R.
pub(crate) fn fresh(history: &History) -> Verdict {
    for page in history.seen.iter().filter_map(listed) {
        let kept = match page.asked {
            Asked::Any | Asked::Continued => true,
            Asked::AtLeast(revision) | Asked::Newest { known: revision } => page.revision >= revision,
            Asked::Exactly(revision) => page.revision == revision,
        };
        if !kept {
            let detail = format!("a list asked for {:?} was answered at {}", page.asked, page.revision);
            return Err(Violation::new(Guarantee::Fresh, history, detail));
        }
    }
    Ok(())
}

/// An object asked for at least R is shown as it was at R or later.
pub(crate) fn current(history: &History, truth: &Truth) -> Verdict {
    for seen in &history.seen {
        let Seen::Got { key, at_least, item, .. } = seen else { continue };
        let newest = item.as_ref().map_or(0, |i| i.revision).max(*at_least);
        if !(truth.knows(*at_least) && truth.knows(newest)) {
            continue;
        }
        let versions = truth.versions(key);
        let lived =
            versions.iter().enumerate().map(|(nth, (_, version))| (*version, versions.get(nth + 1).map_or(u64::MAX, |next| next.0)));
        let same = |version: Option<&Item>| match (version, item) {
            (Some(version), Some(item)) => version.revision == item.revision && essence(&version.body) == essence(&item.body),
            (None, None) => true,
            _ => false,
        };
        // A version lives until the next one is written: it must have been there at R or after.
        if !lived.into_iter().any(|(version, until)| until > *at_least && same(version)) {
            let shown = item.as_ref().map_or("not there".into(), |i| format!("at {}", i.revision));
            let detail = format!("{key}, asked for at least {at_least}, was {shown}; it never was so at or after that");
            return Err(Violation::new(Guarantee::Fresh, history, detail));
        }
    }
    Ok(())
}

/// After its list, its events and its relists, a client has exactly the objects that are there.
pub(crate) fn complete(history: &History, truth: &Truth) -> Verdict {
    let mut state: BTreeMap<&str, &Item> = BTreeMap::new();
    for seen in &history.seen {
        match seen {
            Seen::Listed(page) => {
                if page.asked != Asked::Continued {
                    state.clear();
                }
                state.extend(page.items.iter().map(|item| (item.key.as_str(), item)));
            }
            Seen::Watching { start, .. } if !matches!(start, super::Start::At(_)) => state.clear(),
            Seen::Event(change) if change.kind == Kind::Deleted => drop(state.remove(change.item.key.as_str())),
            Seen::Event(change) => drop(state.insert(&change.item.key, &change.item)),
            Seen::Settled { revision } if truth.knows(*revision) => {
                let shown: Vec<&Item> = state.values().copied().collect();
                if let Some(difference) = differs(&shown, &truth.state(&history.filter, *revision), true) {
                    let detail = format!("at {revision} the client's state {difference}");
                    return Err(Violation::new(Guarantee::Complete, history, detail));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a client may expect of answers and streams.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Longest time a list or a refusal may take: the freshness wait of 3 s (spec list-watch §0.2), an etcd read after it, and much slack for a busy
    /// machine, on which many clients and several programs share few cores. What waits without a limit takes longer.
    pub(crate) answer: Duration,
    /// How long after its `timeoutSeconds` a watch may still be there.
    pub(crate) grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { answer: Duration::from_secs(30), grace: Duration::from_secs(10) }
    }
}

/// Every page, answer and watch keeps the limit that it was asked with.
pub(crate) fn bounded(history: &History, limits: &Limits) -> Verdict {
    let broken = |detail: String| Err(Violation::new(Guarantee::Bounded, history, detail));
    let mut deadline = None;
    for seen in &history.seen {
        match seen {
            Seen::Listed(Page { limit: Some(limit), items, .. }) if items.len() > *limit => {
                return broken(format!("a page of {limit} has {} items", items.len()));
            }
            Seen::Listed(Page { took, .. }) | Seen::Got { took, .. } | Seen::Refused { took, .. } if *took > limits.answer => {
                return broken(format!("an answer took {took:?}"));
            }
            Seen::Watching { timeout, .. } => deadline = timeout.map(|t| t + limits.grace),
            Seen::Ended { took } if deadline.is_some_and(|d| *took > d) => {
                return broken(format!("a watch lasted {took:?}, {deadline:?} at most were asked for"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn listed(seen: &Seen) -> Option<&Page> {
    if let Seen::Listed(page) = seen { Some(page) } else { None }
}

/// The first difference between what was shown and what is so, as the end of a sentence; order does not count.
fn differs(shown: &[&Item], real: &[Item], bodies: bool) -> Option<String> {
    let mut left: BTreeMap<&str, &Item> = shown.iter().map(|item| (item.key.as_str(), *item)).collect();
    if left.len() != shown.len() {
        return Some("has a key twice".into());
    }
    for item in real {
        match left.remove(item.key.as_str()) {
            None => return Some(format!("lacks {} at {}", item.key, item.revision)),
            Some(seen) if seen.revision != item.revision => {
                return Some(format!("has {} at {}, not at {}", item.key, seen.revision, item.revision));
            }
            Some(seen) if bodies && essence(&seen.body) != essence(&item.body) => {
                return Some(format!("has {} at {} with another body than was written", item.key, item.revision));
            }
            Some(_) => {}
        }
    }
    left.into_values().next().map(|extra| format!("has {} at {}, which is not there", extra.key, extra.revision))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guarantees::{Filter, history::faithful, truth::sample};

    fn page(asked: Asked, revision: u64, items: Vec<Item>) -> Page {
        Page { asked, limit: None, revision, items, more: false, took: Duration::from_millis(1) }
    }

    fn listing(pages: impl IntoIterator<Item = Page>) -> History {
        let mut history = History::new("lister", Filter::all());
        history.seen.extend(pages.into_iter().map(Seen::Listed));
        history
    }

    fn guarantee(verdict: Verdict) -> Option<Guarantee> {
        verdict.err().map(|v| v.guarantee)
    }

    #[test]
    fn current_catches_an_object_from_before() {
        let truth = sample();
        let got = |at_least, revision| {
            let item = truth.state(&Filter::all(), revision).into_iter().find(|i| i.key == "ns/a");
            let mut history = History::new("getter", Filter::all());
            history.seen.push(Seen::Got { key: "ns/a".into(), at_least, item, took: Duration::from_millis(1) });
            guarantee(current(&history, &truth))
        };
        assert_eq!([got(10, 10), got(11, 11), got(12, 11), got(13, 14), got(18, 14)], [None; 5]);
        assert_eq!([got(11, 10), got(14, 11)], [Some(Guarantee::Fresh); 2]);
        let mut history = History::new("getter", Filter::all());
        history.seen.push(Seen::Got { key: "ns/c".into(), at_least: 12, item: None, took: Duration::from_millis(1) });
        assert_eq!(current(&history, &truth), Ok(()), "it is gone at 15");
        history.seen.push(Seen::Got { key: "ns/a".into(), at_least: 12, item: None, took: Duration::from_millis(1) });
        assert_eq!(guarantee(current(&history, &truth)), Some(Guarantee::Fresh));
    }

    #[test]
    fn together_accepts_every_revision_of_the_truth() {
        let truth = sample();
        let all = Filter::all();
        let pages = (truth.floor..=truth.head).map(|r| page(Asked::Exactly(r), r, truth.state(&all, r)));
        assert_eq!(together(&listing(pages), &truth), Ok(()));
    }

    #[test]
    fn together_catches_an_object_of_another_revision() {
        let truth = sample();
        let newer = page(Asked::Any, 11, truth.state(&Filter::all(), 14));
        assert_eq!(guarantee(together(&listing([newer]), &truth)), Some(Guarantee::Together));
        let older = page(Asked::Any, 14, truth.state(&Filter::all(), 11));
        assert_eq!(guarantee(together(&listing([older]), &truth)), Some(Guarantee::Together));
    }

    #[test]
    fn together_catches_a_wrong_body() {
        let truth = sample();
        let mut items = truth.state(&Filter::all(), 14);
        items[0].body = items[1].body.clone();
        assert_eq!(guarantee(together(&listing([page(Asked::Any, 14, items)]), &truth)), Some(Guarantee::Together));
    }

    #[test]
    fn together_catches_pages_of_two_revisions() {
        let truth = sample();
        let (mut first, mut second) = (page(Asked::Any, 14, truth.state(&Filter::all(), 14)), page(Asked::Continued, 15, Vec::new()));
        second.items = first.items.split_off(1);
        first.more = true;
        assert_eq!(guarantee(together(&listing([first.clone(), second.clone()]), &truth)), Some(Guarantee::Together));
        second.revision = 14;
        assert_eq!(together(&listing([first, second]), &truth), Ok(()));
    }

    #[test]
    fn fresh_catches_an_old_answer() {
        for asked in [Asked::AtLeast(15), Asked::Newest { known: 15 }, Asked::Exactly(15)] {
            assert_eq!(guarantee(fresh(&listing([page(asked, 14, Vec::new())]))), Some(Guarantee::Fresh));
            assert_eq!(fresh(&listing([page(asked, 15, Vec::new())])), Ok(()));
        }
        assert_eq!(guarantee(fresh(&listing([page(Asked::Exactly(15), 16, Vec::new())]))), Some(Guarantee::Fresh));
    }

    #[test]
    fn complete_catches_an_object_that_should_be_gone() {
        let truth = sample();
        let mut history = faithful(&truth);
        history.seen.retain(|s| s.change().is_none_or(|c| c.item.revision != 15));
        let violation = complete(&history, &truth).expect_err("ns/c was deleted at 15");
        assert!(violation.detail.contains("has ns/c at 12, which is not there"), "{violation}");
    }

    #[test]
    fn complete_starts_anew_with_a_relist() {
        let truth = sample();
        let mut history = faithful(&truth);
        let stale = page(Asked::Any, 14, truth.state(&Filter::all(), 14));
        history.seen.insert(0, Seen::Listed(stale));
        assert_eq!(complete(&history, &truth), Ok(()));
    }

    #[test]
    fn bounded_catches_long_pages_slow_answers_and_late_ends() {
        let truth = sample();
        let limits = Limits::default();
        let mut long = page(Asked::Any, 14, truth.state(&Filter::all(), 14));
        long.limit = Some(1);
        assert_eq!(guarantee(bounded(&listing([long]), &limits)), Some(Guarantee::Bounded));
        let mut slow = page(Asked::Any, 14, Vec::new());
        slow.took = limits.answer + Duration::from_millis(1);
        assert_eq!(guarantee(bounded(&listing([slow]), &limits)), Some(Guarantee::Bounded));
        let mut late = History::new("watcher", Filter::all());
        let timeout = Duration::from_secs(5);
        late.seen.push(Seen::Watching { start: super::super::Start::At(1), timeout: Some(timeout) });
        late.seen.push(Seen::Ended { took: timeout + limits.grace + Duration::from_millis(1) });
        assert_eq!(guarantee(bounded(&late, &limits)), Some(Guarantee::Bounded));
    }
}
