//! Ranges of etcd's keys.

/// A half-open range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key in it.
    pub start: Vec<u8>,
    /// First key after it; empty for the single key `start`.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// Whether a key lies in it.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        if self.end.is_empty() { key == self.start } else { key >= &self.start[..] && key < &self.end[..] }
    }

    /// The keys that start with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        Self { start: prefix.to_vec(), end: after_prefix(prefix) }
    }
}

/// The first key after all keys with this prefix. A prefix of 0xff bytes only has none; ours never is one.
fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            break;
        }
    }
    end
}
