//! The labels of an object, in the order in which they are looked up.

use crate::string_table::StringTable;

/// Labels that are to become an object's: sorted by key, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSet(Vec<(Box<str>, Box<str>)>);

/// The labels of an object: sorted by key, each key once.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'o>(StringTable<'o>);

impl LabelSet {
    /// Keys and values, one after the other.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|(key, value)| [&**key, &**value])
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<'o> Labels<'o> {
    /// Keys and values, one after the other.
    pub(crate) fn new(table: StringTable<'o>) -> Self {
        Self(table)
    }

    /// The value of a label, if it is there.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'o str> {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            match self.0.bytes(2 * middle).cmp(key.as_bytes()) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Some(self.0.text(2 * middle + 1)),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        None
    }

    /// Keys and values, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (&'o str, &'o str)> {
        (0..self.len()).map(move |at| (self.0.text(2 * at), self.0.text(2 * at + 1)))
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / 2
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// In any order. Of a key that stands twice the last value counts, as in Go.
impl From<Vec<(Box<str>, Box<str>)>> for LabelSet {
    fn from(mut labels: Vec<(Box<str>, Box<str>)>) -> Self {
        // What kube-apiserver and this server store is sorted.
        if !labels.is_sorted_by(|a, b| a.0 < b.0) {
            labels.reverse();
            labels.sort_by(|a, b| a.0.cmp(&b.0));
            labels.dedup_by(|later, first| later.0 == first.0);
        }
        Self(labels)
    }
}

#[cfg(any(test, feature = "testing"))]
impl From<&[(&str, &str)]> for LabelSet {
    fn from(labels: &[(&str, &str)]) -> Self {
        labels.iter().map(|(key, value)| (Box::from(*key), Box::from(*value))).collect::<Vec<_>>().into()
    }
}

#[cfg(test)]
mod tests {
    use crate::test_object_with;

    #[test]
    fn the_last_of_a_key_counts() {
        let object = test_object_with("x", 1, &[("b", "1"), ("a", "2"), ("b", "3"), ("a", "4"), ("c", "")], &[]);
        let labels = object.labels();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "4"), ("b", "3"), ("c", "")]);
        assert_eq!((labels.get("a"), labels.get("b"), labels.get("c"), labels.get("d")), (Some("4"), Some("3"), Some(""), None));
    }
}
