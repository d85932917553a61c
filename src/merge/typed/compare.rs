//! What has changed between two values.

use std::fmt;

use serde_json::Value;

use super::{As, Kinds, ValidationErrors, Walk, deduce, handle, item, items, members, same_kinds, validate::check_scalar, zip_members};
use crate::{
    path::PathElement,
    schema::{FieldWalk, List, Map, Scalar},
    set::{Filter, Node, Set},
    value::equals,
};

/// The fields in which two values differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Those that only the first one has.
    pub removed: Set,
    /// Those that both have, otherwise.
    pub modified: Set,
    /// Those that only the second one has.
    pub added: Set,
}

impl Comparison {
    /// Returns whether there are none.
    #[must_use]
    pub const fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Returns what a filter leaves of the comparison.
    #[must_use]
    pub fn filter_fields(self, filter: Option<&Filter>) -> Self {
        match filter {
            Some(filter) => self.each(|set| filter.filter(set)),
            None => self,
        }
    }

    fn each(self, change: impl Fn(&Set) -> Set) -> Self {
        Self { removed: change(&self.removed), modified: change(&self.modified), added: change(&self.added) }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, set) in [("Modified", &self.modified), ("Added", &self.added), ("Removed", &self.removed)] {
            if !set.is_empty() {
                writeln!(f, "- {name} Fields:\n{set}")?;
            }
        }
        Ok(())
    }
}

pub(super) fn compare(walk: Walk<'_>, lhs: &Value, rhs: &Value) -> Result<Comparison, ValidationErrors> {
    let mut errors = ValidationErrors::default();
    let [removed, modified, added] = differences(walk, Some(lhs), Some(rhs), &mut errors).below;
    errors.into_result().map(|()| Comparison { removed, modified, added })
}

const REMOVED: usize = 0;
const MODIFIED: usize = 1;
const ADDED: usize = 2;

/// How a field differs, and what differs below it: what is removed, modified, added.
#[derive(Default)]
struct Difference {
    is_member: [bool; 3],
    below: [Set; 3],
}

impl Difference {
    const fn none() -> Self {
        Self { is_member: [false; 3], below: [const { Set::new() }; 3] }
    }

    const fn itself(how: usize) -> Self {
        let mut difference = Self::none();
        difference.is_member[how] = true;
        difference
    }

    fn union(&mut self, other: &Self) {
        for how in [REMOVED, MODIFIED, ADDED] {
            self.is_member[how] |= other.is_member[how];
            self.below[how] = self.below[how].union(&other.below[how]);
        }
    }
}

/// The differences of the fields of one level.
#[derive(Default)]
struct Level([Vec<Node>; 3]);

impl Level {
    fn add(&mut self, difference: Difference, element: impl Fn() -> PathElement) {
        for ((nodes, is_member), children) in self.0.iter_mut().zip(difference.is_member).zip(difference.below) {
            if is_member || !children.is_empty() {
                nodes.push(Node { element: element(), is_member, children });
            }
        }
    }

    fn finish(self) -> Difference {
        Difference { is_member: [false; 3], below: self.0.map(Set::of_nodes) }
    }
}

/// Where one of the values is missing, everything that the other has is a difference.
fn differences(walk: Walk<'_>, lhs: Option<&Value>, rhs: Option<&Value>, errors: &mut ValidationErrors) -> Difference {
    let atom = match walk.atom("inlined type") {
        Ok(atom) => atom,
        Err(wrong) => {
            errors.extend(wrong);
            return Difference::none();
        }
    };
    let (left, right) = (deduce(atom, lhs), deduce(atom, rhs));
    let (mut difference, is_leaf) = if rhs.is_none() {
        as_kind(walk, left, lhs, rhs, errors)
    } else if lhs.is_none() || same_kinds(atom, left, right) {
        as_kind(walk, right, lhs, rhs, errors)
    } else {
        let (as_left, _) = as_kind(walk, left, lhs, rhs, errors);
        let (mut difference, is_leaf) = as_kind(walk, right, lhs, rhs, errors);
        difference.union(&as_left);
        (difference, is_leaf)
    };
    if !is_leaf {
        difference.is_member[ADDED] |= lhs.is_none();
        difference.is_member[REMOVED] |= rhs.is_none();
    }
    difference
}

/// The differences of two values that are taken in one of the ways of their type, and whether they are leaves in it.
fn as_kind(walk: Walk<'_>, kinds: Kinds, lhs: Option<&Value>, rhs: Option<&Value>, errors: &mut ValidationErrors) -> (Difference, bool) {
    match walk.atom("inlined type").and_then(|atom| handle(atom, kinds)) {
        Err(wrong) => {
            errors.extend(wrong);
            (Difference::none(), false)
        }
        Ok(As::Scalar(scalar)) => of_scalars(scalar, lhs, rhs, errors),
        Ok(As::List(list)) => {
            let (left, right) = (items(lhs), items(rhs));
            if list.is_atomic() || (left.is_none_or(<[Value]>::is_empty) && right.is_none_or(<[Value]>::is_empty)) {
                return (of_leaves(lhs, rhs), true);
            }
            (of_items(walk, list, left.unwrap_or_default(), right.unwrap_or_default(), errors), false)
        }
        Ok(As::Map(map)) => {
            let (left, right) = (members(lhs), members(rhs));
            if map.is_atomic() || (left.is_none_or(serde_json::Map::is_empty) && right.is_none_or(serde_json::Map::is_empty)) {
                return (of_leaves(lhs, rhs), true);
            }
            (of_members(walk, map, left, right, errors), false)
        }
    }
}

fn of_scalars(scalar: Scalar, lhs: Option<&Value>, rhs: Option<&Value>, errors: &mut ValidationErrors) -> (Difference, bool) {
    let wrong = (check_scalar(scalar, lhs, "lhs: "), check_scalar(scalar, rhs, "rhs: "));
    if !wrong.0.is_empty() && !wrong.1.is_empty() {
        errors.extend(wrong.0);
        errors.extend(wrong.1);
        return (Difference::none(), false);
    }
    (of_leaves(lhs, rhs), true)
}

fn of_leaves(lhs: Option<&Value>, rhs: Option<&Value>) -> Difference {
    match (lhs, rhs) {
        (None, _) => Difference::itself(ADDED),
        (_, None) => Difference::itself(REMOVED),
        (Some(lhs), Some(rhs)) if equals(lhs, rhs) => Difference::none(),
        _ => Difference::itself(MODIFIED),
    }
}

fn of_members(
    walk: Walk<'_>,
    map: &Map,
    lhs: Option<&serde_json::Map<String, Value>>,
    rhs: Option<&serde_json::Map<String, Value>>,
    errors: &mut ValidationErrors,
) -> Difference {
    let fields = map.walk();
    let mut level = Level::default();
    zip_members(lhs, rhs, |name, lhs, rhs| {
        let (field, of) = fields.find(name);
        let element = || FieldWalk::element(field, name);
        let mut below = ValidationErrors::default();
        level.add(differences(walk.below(of), lhs, rhs, &mut below), element);
        errors.extend_below(below, element);
    });
    level.finish()
}

fn of_items(walk: Walk<'_>, list: &List, lhs: &[Value], rhs: &[Value], errors: &mut ValidationErrors) -> Difference {
    if side_by_side(list, lhs, rhs) {
        return Difference::none();
    }
    let (mut left, mut right) = (item::Index::new(list, lhs), item::Index::new(list, rhs));
    errors.extend(std::mem::take(&mut left.errors));
    errors.extend(std::mem::take(&mut right.errors));
    let mut level = Level::default();
    let (mut lgroups, mut rgroups) = (left.groups().peekable(), right.groups().peekable());
    loop {
        let order = match (lgroups.peek(), rgroups.peek()) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(lgroup), Some(rgroup)) => left.elements[lgroup[0]].cmp(&right.elements[rgroup[0]]),
        };
        let lgroup = if order.is_le() { lgroups.next() } else { None }.unwrap_or_default();
        let rgroup = if order.is_ge() { rgroups.next() } else { None }.unwrap_or_default();
        let element = match (lgroup, rgroup) {
            ([first, ..], _) => &left.elements[*first],
            (_, [first, ..]) => &right.elements[*first],
            ([], []) => break,
        };
        let litem = |at: &usize| &lhs[left.places[*at]];
        let ritem = |at: &usize| &rhs[right.places[*at]];
        let mut below = ValidationErrors::default();
        let mut one = |lhs, rhs| differences(walk.below(list.element_type), lhs, rhs, &mut below);
        let difference = match (lgroup, rgroup) {
            ([] | [_], [] | [_]) => one(lgroup.first().map(litem), rgroup.first().map(ritem)),
            // Items that are there more than once are one field together.
            ([_, _, ..], [_, _, ..]) => {
                let is_same = lgroup.len() == rgroup.len() && lgroup.iter().zip(rgroup).all(|(lhs, rhs)| equals(litem(lhs), ritem(rhs)));
                if is_same { Difference::none() } else { Difference::itself(MODIFIED) }
            }
            ([_, _, ..], _) => {
                let mut difference = rgroup.first().map_or_else(Difference::none, |item| one(None, Some(ritem(item))));
                difference.is_member[REMOVED] = true;
                difference
            }
            (_, _) => {
                let mut difference = lgroup.first().map_or_else(Difference::none, |item| one(Some(litem(item)), None));
                difference.is_member[ADDED] = true;
                difference
            }
        };
        level.add(difference, || element.clone());
        errors.extend_below(below, || element.clone());
    }
    level.finish()
}

/// Whether two lists have the same items in the same order, all of which can be told apart: then there is no need to find any.
fn side_by_side(list: &List, lhs: &[Value], rhs: &[Value]) -> bool {
    lhs.len() == rhs.len()
        && lhs.iter().zip(rhs).all(|(lhs, rhs)| equals(lhs, rhs))
        && lhs.iter().all(|item| item::check(list, item).is_ok())
}
