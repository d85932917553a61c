//! Sets of fields: a tree of path elements, each of which may be a member and may have children. Trees are shared, so a copy and what does not change cost
//! nothing.

mod filter;
mod named;
mod operations;

pub use filter::{Filter, PathElementMatcher, SetMatcher};

use std::{fmt, sync::Arc};

use crate::path::{Path, PathElement};

/// A set of paths.
#[derive(Clone, Default)]
pub struct Set {
    /// Sorted, each element once; `None` when there are none.
    nodes: Option<Arc<Vec<Node>>>,
}

/// An element below a path: it is a member, or has children, or both.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) element: PathElement,
    pub(crate) is_member: bool,
    pub(crate) children: Set,
}

impl Set {
    /// Makes the set without members.
    #[must_use]
    pub const fn new() -> Self {
        Self { nodes: None }
    }

    /// Makes a set of sorted nodes.
    pub(crate) fn of_sorted(nodes: Vec<Node>) -> Self {
        debug_assert!(nodes.is_sorted_by(|lhs, rhs| lhs.element < rhs.element), "nodes are sorted, each once");
        debug_assert!(nodes.iter().all(|node| node.is_member || !node.children.is_empty()), "a node is there for something");
        Self { nodes: (!nodes.is_empty()).then(|| Arc::new(nodes)) }
    }

    /// Makes a set of nodes in any order; of one element the members and children are put together.
    pub(crate) fn of_nodes(mut nodes: Vec<Node>) -> Self {
        nodes.retain(|node| node.is_member || !node.children.is_empty());
        if !nodes.is_sorted_by(|lhs, rhs| lhs.element < rhs.element) {
            nodes.sort_by(|lhs, rhs| lhs.element.cmp(&rhs.element));
            nodes.dedup_by(|from, into| {
                let is_same = from.element == into.element;
                if is_same {
                    into.is_member |= from.is_member;
                    into.children = into.children.union(&from.children);
                }
                is_same
            });
        }
        Self::of_sorted(nodes)
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        self.nodes.as_deref().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn node(&self, element: &PathElement) -> Option<&Node> {
        let nodes = self.nodes();
        nodes.binary_search_by(|node| node.element.cmp(element)).ok().map(|at| &nodes[at])
    }

    /// Adds a path. The empty one, which stands for the whole object, is nobody's.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((element, rest)) = path.split_first() else { return };
        let nodes = Arc::make_mut(self.nodes.get_or_insert_default());
        let at = match nodes.binary_search_by(|node| node.element.cmp(element)) {
            Ok(at) => at,
            Err(at) => {
                nodes.insert(at, Node { element: element.clone(), is_member: false, children: Self::new() });
                at
            }
        };
        if rest.is_empty() {
            nodes[at].is_member = true;
        } else {
            nodes[at].children.insert(rest);
        }
    }

    /// Returns whether the path is a member.
    #[must_use]
    pub fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [element] => self.node(element).is_some_and(|node| node.is_member),
            [element, rest @ ..] => self.node(element).is_some_and(|node| node.children.has(rest)),
        }
    }

    /// Returns whether there are no members.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_none()
    }

    /// Returns how many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.nodes().iter().map(|node| usize::from(node.is_member) + node.children.size()).sum()
    }

    /// Returns whether both are the same tree in memory, so that nothing has to be compared, encoded or stored anew.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.nodes, &other.nodes) {
            (None, None) => true,
            (Some(lhs), Some(rhs)) => Arc::ptr_eq(lhs, rhs),
            _ => false,
        }
    }

    /// Calls `each` with every member: first those of a level in their order, then what is below them.
    pub fn iterate(&self, each: &mut impl FnMut(&Path)) {
        self.iterate_below(&mut Path::default(), each);
    }

    fn iterate_below(&self, prefix: &mut Path, each: &mut impl FnMut(&Path)) {
        for node in self.nodes().iter().filter(|node| node.is_member) {
            prefix.0.push(node.element.clone());
            each(prefix);
            prefix.0.pop();
        }
        for node in self.nodes().iter().filter(|node| !node.children.is_empty()) {
            prefix.0.push(node.element.clone());
            node.children.iterate_below(prefix, each);
            prefix.0.pop();
        }
    }

    /// Returns the members in the order of [`Set::iterate`].
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.iterate(&mut |path| paths.push(path.clone()));
        paths
    }

    /// Returns the members that have none below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let nodes = self.nodes().iter().map(|node| Node {
            element: node.element.clone(),
            is_member: node.is_member && node.children.is_empty(),
            children: node.children.leaves(),
        });
        Self::of_sorted(nodes.collect())
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.is_member == other.is_member && self.element == other.element && self.children == other.children
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.nodes() == other.nodes()
    }
}

impl Eq for Set {}

impl FromIterator<Path> for Set {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Self::new();
        paths.into_iter().for_each(|path| set.insert(&path.0));
        set
    }
}

/// One member a line.
impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = Ok(());
        let mut is_first = true;
        self.iterate(&mut |path| {
            let before = if std::mem::take(&mut is_first) { "" } else { "\n" };
            shown = shown.and_then(|()| write!(f, "{before}{path}"));
        });
        shown
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.paths().iter().map(ToString::to_string)).finish()
    }
}

#[cfg(test)]
mod tests;
