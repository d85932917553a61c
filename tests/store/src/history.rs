//! What writers were promised and what readers saw, compared with what is there. Knows no socket and no server.

use std::collections::BTreeMap;

/// What one revision did to one key: the value put, or `None` for a delete.
pub(crate) type Content = Option<Vec<u8>>;

/// Key at a revision, and what it became there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) revision: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) content: Content,
}

/// All that was there once, and must be there for ever.
#[derive(Debug, Default)]
pub(crate) struct History {
    changes: BTreeMap<(i64, Vec<u8>), Content>,
    head: i64,
}

impl History {
    /// Adds what the store has after a restart. Revisions follow each other without a hole, and none is new below the old head.
    pub(crate) fn extend(&mut self, head: i64, changes: Vec<Change>) -> Vec<String> {
        let mut broken = Vec::new();
        let mut next = self.head + 1;
        if head < self.head {
            broken.push(format!("the head went back from {} to {head}", self.head));
        }
        for change in changes {
            if change.revision > next || change.revision < next - 1 || change.revision <= self.head {
                broken.push(format!("revision {} comes where {next} should", change.revision));
            }
            next = change.revision + 1;
            self.changes.insert((change.revision, change.key), change.content);
        }
        // Revision 1 is the empty store.
        if next != head + 1 && head > 1 {
            broken.push(format!("the changes end at {}, the head is {head}", next - 1));
        }
        self.head = self.head.max(head);
        broken
    }

    /// The last revision that is known.
    pub(crate) fn head(&self) -> i64 {
        self.head
    }

    /// The store as it must be now: key, revision of its last change, value.
    pub(crate) fn state(&self) -> Vec<(Vec<u8>, i64, Vec<u8>)> {
        let mut newest: BTreeMap<&[u8], (i64, &Content)> = BTreeMap::new();
        for ((revision, key), content) in &self.changes {
            newest.insert(key, (*revision, content));
        }
        let there = |(key, (revision, content)): (&[u8], (i64, &Content))| Some((key.to_vec(), revision, content.clone()?));
        newest.into_iter().filter_map(there).collect()
    }

    /// What the store must still have, but has not or has otherwise; `why` says who was told so.
    pub(crate) fn missing(&self, told: &[Change], why: &str) -> Vec<String> {
        let kept = |change: &&Change| self.changes.get(&(change.revision, change.key.clone())) != Some(&change.content);
        told.iter().filter(kept).map(|lost| format!("{why} is gone or another: {} of {}", lost.revision, lost.key.escape_ascii())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(revision: i64, value: &str) -> Change {
        Change { revision, key: b"k".to_vec(), content: Some(value.into()) }
    }

    #[test]
    fn what_was_told_must_be_there_with_its_content() {
        let mut history = History::default();
        assert_eq!(history.extend(1, Vec::new()), Vec::<String>::new());
        assert_eq!(history.extend(3, vec![change(2, "a"), change(3, "b")]), Vec::<String>::new());
        assert_eq!(history.missing(&[change(2, "a"), change(3, "b")], "x").len(), 0);
        assert_eq!(history.missing(&[change(2, "z"), change(4, "c")], "x").len(), 2);
    }

    #[test]
    fn the_state_is_what_the_last_changes_left() {
        let mut history = History::default();
        history.extend(1, Vec::new());
        history.extend(3, vec![change(2, "a"), change(3, "b")]);
        assert_eq!(history.state(), [(b"k".to_vec(), 3, b"b".to_vec())]);
        history.extend(4, vec![Change { revision: 4, key: b"k".to_vec(), content: None }]);
        assert_eq!(history.state(), []);
    }

    #[test]
    fn revisions_have_no_holes_and_never_come_again() {
        let mut history = History::default();
        history.extend(3, vec![change(2, "a"), change(3, "b")]);
        assert_eq!(history.extend(2, Vec::new()).len(), 2, "the head goes back, and the changes do not end there");
        assert_eq!(history.extend(5, vec![change(5, "c")]).len(), 1, "a hole");
        assert_eq!(history.extend(7, vec![change(6, "c")]).len(), 1, "an end that is missing");
    }
}
