//! What two sets make together. What stays as it is in the first one is shared with it.

use std::cmp::Ordering;

use super::{Node, Set};

/// The result of an operation, as long as it is the beginning of the first set only a number.
struct Output<'a> {
    first: &'a Set,
    kept: usize,
    changed: Option<Vec<Node>>,
}

impl<'a> Output<'a> {
    const fn new(first: &'a Set) -> Self {
        Self { first, kept: 0, changed: None }
    }

    /// Takes the node at `at` over.
    fn keep(&mut self, at: usize) {
        match &mut self.changed {
            Some(nodes) => nodes.push(self.first.nodes()[at].clone()),
            None if at == self.kept => self.kept += 1,
            None => self.put(self.first.nodes()[at].clone()),
        }
    }

    /// Puts a node that is not in the first set like this, unless nothing is left of it.
    fn put(&mut self, node: Node) {
        let nodes = self.changed.get_or_insert_with(|| self.first.nodes()[..self.kept].to_vec());
        if node.is_member || !node.children.is_empty() {
            nodes.push(node);
        }
    }

    /// Puts what became of the node at `at`.
    fn replace(&mut self, at: usize, is_member: bool, children: Set) {
        let node = &self.first.nodes()[at];
        if node.is_member == is_member && node.children.is_same(&children) {
            self.keep(at);
        } else {
            self.put(Node { element: node.element.clone(), is_member, children });
        }
    }

    fn finish(self) -> Set {
        match self.changed {
            Some(nodes) => Set::of_sorted(nodes),
            None if self.kept == self.first.nodes().len() => self.first.clone(),
            None => Set::of_sorted(self.first.nodes()[..self.kept].to_vec()),
        }
    }
}

/// A node of two sets.
enum Side<'a> {
    Left(usize),
    Right(&'a Node),
    Both(usize, &'a Node),
}

/// Goes through the nodes of both in order.
fn zip(lhs: &Set, rhs: &Set, mut each: impl FnMut(Side<'_>)) {
    let (left, right) = (lhs.nodes(), rhs.nodes());
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        match left[i].element.cmp(&right[j].element) {
            Ordering::Less => {
                each(Side::Left(i));
                i += 1;
            }
            Ordering::Greater => {
                each(Side::Right(&right[j]));
                j += 1;
            }
            Ordering::Equal => {
                each(Side::Both(i, &right[j]));
                i += 1;
                j += 1;
            }
        }
    }
    (i..left.len()).for_each(|i| each(Side::Left(i)));
    right[j..].iter().for_each(|node| each(Side::Right(node)));
}

impl Set {
    /// Returns the members of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.is_empty() || self.is_same(other) {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let mut out = Output::new(self);
        zip(self, other, |side| match side {
            Side::Left(at) => out.keep(at),
            Side::Right(node) => out.put(node.clone()),
            Side::Both(at, node) => {
                let own = &self.nodes()[at];
                out.replace(at, own.is_member || node.is_member, own.children.union(&node.children));
            }
        });
        out.finish()
    }

    /// Returns the members of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        if self.is_same(other) {
            return self.clone();
        }
        if self.is_empty() || other.is_empty() {
            return Self::new();
        }
        let mut out = Output::new(self);
        zip(self, other, |side| {
            if let Side::Both(at, node) = side {
                let own = &self.nodes()[at];
                out.replace(at, own.is_member && node.is_member, own.children.intersection(&node.children));
            }
        });
        out.finish()
    }

    /// Returns the members that `other` does not have.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if self.is_same(other) {
            return Self::new();
        }
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        let mut out = Output::new(self);
        zip(self, other, |side| match side {
            Side::Left(at) => out.keep(at),
            Side::Right(_) => {}
            Side::Both(at, node) => {
                let own = &self.nodes()[at];
                out.replace(at, own.is_member && !node.is_member, own.children.difference(&node.children));
            }
        });
        out.finish()
    }

    /// Returns the members that `other` does not have, nor any path that leads to them.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        let mut out = Output::new(self);
        zip(self, other, |side| match side {
            Side::Left(at) => out.keep(at),
            Side::Both(at, node) if !node.is_member => {
                let own = &self.nodes()[at];
                out.replace(at, own.is_member, own.children.recursive_difference(&node.children));
            }
            Side::Right(_) | Side::Both(..) => {}
        });
        out.finish()
    }
}
