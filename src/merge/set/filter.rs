//! Which fields of a set count: all but those that are reset, or only those that patterns match.

use std::cmp::Ordering;

use super::{Node, Set};
use crate::path::PathElement;

/// Leaves fields out of a set.
#[derive(Clone, Debug)]
pub enum Filter {
    /// All but these paths and what is below them.
    Exclude(Set),
    /// Only what matches.
    Include(SetMatcher),
}

impl Filter {
    /// Makes the filter of what any of the patterns matches; without patterns everything does.
    #[must_use]
    pub fn include(patterns: impl IntoIterator<Item = SetMatcher>) -> Self {
        Self::Include(patterns.into_iter().reduce(|merged, pattern| merged.merge(&pattern)).unwrap_or(SetMatcher::any()))
    }

    /// Returns what is left of `set`.
    #[must_use]
    pub fn filter(&self, set: &Set) -> Set {
        match self {
            Self::Exclude(fields) => set.recursive_difference(fields),
            Self::Include(pattern) => set.filter_include_matches(pattern),
        }
    }
}

/// A pattern of sets.
#[derive(Clone, Debug)]
pub struct SetMatcher {
    /// Everything matches.
    is_wildcard: bool,
    /// What may stand at this level, with the pattern of what is below it. Wildcards come first.
    members: Vec<(PathElementMatcher, SetMatcher)>,
}

/// A pattern of path elements.
#[derive(Clone, Debug)]
pub enum PathElementMatcher {
    /// Any element.
    Any,
    /// This one.
    Is(PathElement),
}

impl PathElementMatcher {
    fn matches(&self, element: &PathElement) -> bool {
        match self {
            Self::Any => true,
            Self::Is(pattern) => pattern == element,
        }
    }

    /// The library's order, in which no wildcard equals another.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Any, Self::Is(_)) => Ordering::Less,
            (_, Self::Any) => Ordering::Greater,
            (Self::Is(lhs), Self::Is(rhs)) => lhs.cmp(rhs),
        }
    }
}

impl SetMatcher {
    /// Makes the pattern that everything matches.
    #[must_use]
    pub const fn any() -> Self {
        Self { is_wildcard: true, members: Vec::new() }
    }

    /// Makes the pattern of these elements, each with what must match below it.
    #[must_use]
    pub fn new(mut members: Vec<(PathElementMatcher, Self)>) -> Self {
        // Stable: of equal ones the first counts.
        members.sort_by(|(lhs, _), (rhs, _)| match (lhs, rhs) {
            (PathElementMatcher::Any, PathElementMatcher::Any) => Ordering::Equal,
            _ => lhs.compare(rhs),
        });
        Self { is_wildcard: false, members }
    }

    /// Makes the pattern of everything below a path.
    #[must_use]
    pub fn prefix(path: impl IntoIterator<Item = PathElementMatcher, IntoIter: DoubleEndedIterator>) -> Self {
        path.into_iter().rev().fold(Self::any(), |below, element| Self { is_wildcard: false, members: vec![(element, below)] })
    }

    /// Returns the pattern of what either matches.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        if self.is_wildcard || other.is_wildcard {
            return Self::any();
        }
        let mut merged = self.members.clone();
        for (pattern, below) in &other.members {
            match self.find(pattern) {
                Some(at) => merged[at].1 = merged[at].1.merge(below),
                None => merged.push((pattern.clone(), below.clone())),
            }
        }
        Self::new(merged)
    }

    /// The library's search, which compares the wrong way round and so finds a pattern only where its halving ends; what it does not find stands twice, and the
    /// first one counts. Filters of several patterns depend on it.
    fn find(&self, pattern: &PathElementMatcher) -> Option<usize> {
        let (mut from, mut to) = (0, self.members.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            if self.members[middle].0.compare(pattern).is_gt() {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        (from < self.members.len() && self.members[from].0.compare(pattern).is_eq()).then_some(from)
    }
}

impl Set {
    /// Returns the members that match a pattern.
    #[must_use]
    pub fn filter_include_matches(&self, pattern: &SetMatcher) -> Self {
        if pattern.is_wildcard {
            return self.clone();
        }
        let nodes = self.nodes().iter().filter_map(|node| {
            let (_, below) = pattern.members.iter().find(|(pattern, _)| pattern.matches(&node.element))?;
            Some(Node { element: node.element.clone(), is_member: node.is_member, children: node.children.filter_include_matches(below) })
        });
        Self::of_sorted(nodes.filter(|node| node.is_member || !node.children.is_empty()).collect())
    }
}
