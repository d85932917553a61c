//! The labels of an object, in the order in which they are looked up.

/// Sorted by key, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    /// The value of a label, if it is there.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|at| &*self.0[at].1)
    }

    /// Keys and values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// In any order. Of a key that stands twice the last value counts, as in Go.
impl From<Vec<(Box<str>, Box<str>)>> for Labels {
    fn from(mut labels: Vec<(Box<str>, Box<str>)>) -> Self {
        // What kube-apiserver and this server store is sorted.
        if !labels.is_sorted_by(|a, b| a.0 < b.0) {
            labels.reverse();
            labels.sort_by(|a, b| a.0.cmp(&b.0));
            labels.dedup_by(|later, first| later.0 == first.0);
        }
        Self(labels.into())
    }
}

#[cfg(any(test, feature = "testing"))]
impl From<&[(&str, &str)]> for Labels {
    fn from(labels: &[(&str, &str)]) -> Self {
        labels.iter().map(|(key, value)| (Box::from(*key), Box::from(*value))).collect::<Vec<_>>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_key_counts() {
        let labels = Labels::from(&[("b", "1"), ("a", "2"), ("b", "3"), ("a", "4"), ("c", "")][..]);
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "4"), ("b", "3"), ("c", "")]);
        assert_eq!((labels.get("a"), labels.get("b"), labels.get("c"), labels.get("d")), (Some("4"), Some("3"), Some(""), None));
    }
}
