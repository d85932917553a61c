//! What is there and what is applied, in one value.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    As, Kinds, ValidationErrors, Walk, deduce, handle, item::Index, items, members, same_kinds, validate::check_scalar, zip_members,
};
use crate::schema::{FieldWalk, List, Map};

/// What became of two values.
enum Merged<'v> {
    /// Nothing is left.
    Nothing,
    /// The first one as it was.
    Left,
    /// Another value.
    Value(Cow<'v, Value>),
}

impl<'v> Merged<'v> {
    /// The second value if there is one, or else the first.
    fn leaf(lhs: Option<&Value>, rhs: Option<&'v Value>) -> Self {
        match rhs {
            Some(rhs) if lhs == Some(rhs) => Self::Left,
            Some(rhs) => Self::Value(Cow::Borrowed(rhs)),
            None => Self::Left,
        }
    }
}

/// `None` when the second value says nothing that the first one does not have.
pub(super) fn merge(walk: Walk<'_>, lhs: &Value, rhs: &Value) -> Result<Option<Value>, ValidationErrors> {
    let mut errors = ValidationErrors::default();
    let merged = of_values(walk, Some(lhs), Some(rhs), &mut errors);
    errors.into_result()?;
    Ok(match merged {
        Merged::Left => None,
        Merged::Nothing => Some(Value::Null),
        Merged::Value(value) => Some(value.into_owned()),
    })
}

fn of_values<'v>(walk: Walk<'_>, lhs: Option<&'v Value>, rhs: Option<&'v Value>, errors: &mut ValidationErrors) -> Merged<'v> {
    // What is there only is valid, and stays.
    if rhs.is_none() {
        return Merged::Left;
    }
    let atom = match walk.atom("inlined type") {
        Ok(atom) => atom,
        Err(wrong) => {
            errors.extend(wrong);
            return Merged::Nothing;
        }
    };
    let (left, right) = (deduce(atom, lhs), deduce(atom, rhs));
    if lhs.is_some() && !same_kinds(atom, left, right) {
        as_kind(walk, left, lhs, rhs, errors);
    }
    as_kind(walk, right, lhs, rhs, errors)
}

/// Merges two values that are taken in one of the ways of their type.
fn as_kind<'v>(walk: Walk<'_>, kinds: Kinds, lhs: Option<&'v Value>, rhs: Option<&'v Value>, errors: &mut ValidationErrors) -> Merged<'v> {
    match walk.atom("inlined type").and_then(|atom| handle(atom, kinds)) {
        Err(wrong) => {
            errors.extend(wrong);
            Merged::Nothing
        }
        Ok(As::Scalar(scalar)) => {
            let wrong = (check_scalar(scalar, lhs, "lhs: "), check_scalar(scalar, rhs, "rhs: "));
            if !wrong.0.is_empty() && !wrong.1.is_empty() {
                errors.extend(wrong.0);
                errors.extend(wrong.1);
                return Merged::Nothing;
            }
            Merged::leaf(lhs, rhs)
        }
        Ok(As::List(list)) => {
            let (left, right) = (items(lhs), items(rhs));
            if list.is_atomic() || (left.is_none_or(<[Value]>::is_empty) && right.is_none_or(<[Value]>::is_empty)) {
                return Merged::leaf(lhs, rhs);
            }
            match right {
                // Nothing is said of any item.
                None | Some([]) if left.is_some() => Merged::Left,
                _ => of_items(walk, list, left, right.unwrap_or_default(), rhs, errors),
            }
        }
        Ok(As::Map(map)) => {
            let (left, right) = (members(lhs), members(rhs));
            if map.is_atomic() || (left.is_none_or(serde_json::Map::is_empty) && right.is_none_or(serde_json::Map::is_empty)) {
                return Merged::leaf(lhs, rhs);
            }
            of_members(walk, map, left, right, rhs, errors)
        }
    }
}

fn of_members<'v>(
    walk: Walk<'_>,
    map: &Map,
    left: Option<&'v serde_json::Map<String, Value>>,
    right: Option<&'v serde_json::Map<String, Value>>,
    rhs: Option<&'v Value>,
    errors: &mut ValidationErrors,
) -> Merged<'v> {
    let fields = map.walk();
    // What differs from the first value, and whether anything differs from the second one.
    let mut changed: Vec<(&str, Option<Cow<'v, Value>>)> = Vec::new();
    let mut is_right = left.is_none_or(serde_json::Map::is_empty);
    zip_members(left, right, |name, lhs, rhs| {
        let (field, of) = fields.find(name);
        let mut below = ValidationErrors::default();
        let merged = of_values(walk.below(of), lhs, rhs, &mut below);
        errors.extend_below(below, || FieldWalk::element(field, name));
        match merged {
            Merged::Left => {}
            Merged::Nothing => {
                is_right = false;
                changed.push((name, None));
            }
            Merged::Value(value) => {
                is_right &= matches!(value, Cow::Borrowed(_));
                changed.push((name, Some(value)));
            }
        }
    });
    if is_right {
        // All is new, and as it was given.
        return rhs.map_or(Merged::Nothing, |rhs| Merged::Value(Cow::Borrowed(rhs)));
    }
    if changed.is_empty() && left.is_some() {
        return Merged::Left;
    }
    let mut out = serde_json::Map::new();
    let mut changed = changed.into_iter().peekable();
    for (name, value) in left.into_iter().flatten() {
        while let Some((new, value)) = changed.next_if(|(changed, _)| *changed < name.as_str()) {
            out.extend(value.map(|value| (new.to_owned(), value.into_owned())));
        }
        match changed.next_if(|(changed, _)| changed == name) {
            Some((_, value)) => out.extend(value.map(|value| (name.clone(), value.into_owned()))),
            None => out.extend([(name.clone(), value.clone())]),
        }
    }
    out.extend(changed.filter_map(|(name, value)| Some((name.to_owned(), value?.into_owned()))));
    if out.is_empty() { Merged::Nothing } else { Merged::Value(Cow::Owned(Value::Object(out))) }
}

/// An item of the first list, as the second one sees it.
#[derive(Clone, Copy)]
enum Known<'v> {
    /// There is none.
    Missing,
    /// It is there more than once: none of them is merged.
    Repeated,
    Once(&'v Value),
}

impl<'v> Known<'v> {
    const fn value(self) -> Option<&'v Value> {
        match self {
            Self::Missing => None,
            Self::Repeated => Some(&Value::Null),
            Self::Once(value) => Some(value),
        }
    }
}

/// How the items of two lists belong together.
struct Pairs<'v> {
    /// For each item of the first list, which one of the second it is.
    in_rhs: Vec<Option<usize>>,
    /// For each item of the second list, what it was in the first.
    in_lhs: Vec<Known<'v>>,
}

fn pair<'v>(left: &Index, right: &Index, lhs: &'v [Value]) -> Pairs<'v> {
    let mut pairs = Pairs { in_rhs: vec![None; left.elements.len()], in_lhs: vec![Known::Missing; right.elements.len()] };
    let mut rgroups = right.groups().peekable();
    for lgroup in left.groups() {
        let element = &left.elements[lgroup[0]];
        while rgroups.next_if(|rgroup| right.elements[rgroup[0]] < *element).is_some() {}
        let Some([r]) = rgroups.next_if(|rgroup| right.elements[rgroup[0]] == *element) else { continue };
        lgroup.iter().for_each(|l| pairs.in_rhs[*l] = Some(*r));
        pairs.in_lhs[*r] = if let [l] = lgroup { Known::Once(&lhs[*l]) } else { Known::Repeated };
    }
    pairs
}

/// The items of the second list come in their order, and those that only the first one has where they were among the others.
fn of_items<'v>(
    walk: Walk<'_>,
    list: &List,
    left: Option<&'v [Value]>,
    right: &'v [Value],
    rhs: Option<&'v Value>,
    errors: &mut ValidationErrors,
) -> Merged<'v> {
    let lhs = left.unwrap_or_default();
    let (l_index, r_index) = (Index::new(list, lhs), Index::new(list, right));
    let mut wrong = r_index.errors.clone();
    for group in r_index.groups().filter(|group| group.len() > 1) {
        group[1..]
            .iter()
            .for_each(|_| wrong.extend(ValidationErrors::one(format!("duplicate entries for key {}", r_index.elements[group[0]]))));
    }
    wrong.extend(l_index.errors.clone());
    if !wrong.is_empty() {
        errors.extend(wrong);
        return Merged::Nothing;
    }
    let pairs = pair(&l_index, &r_index, lhs);
    let mut out: Vec<Cow<'v, Value>> = Vec::with_capacity(lhs.len().max(right.len()));
    let (mut is_left, mut is_right) = (left.is_some(), true);
    for step in order(&pairs) {
        // What is wrong with an item of a list is not told.
        let mut untold = ValidationErrors::default();
        let (l, r) = match step {
            Step::Left(l) => (Some(&lhs[l]), None),
            Step::Right(r) => (pairs.in_lhs[r].value(), Some(&right[r])),
        };
        match of_values(walk.below(list.element_type), l, r, &mut untold) {
            Merged::Nothing => (is_left, is_right) = (false, false),
            Merged::Left => {
                is_right = false;
                let value = l.unwrap_or(&Value::Null);
                is_left = is_left && lhs.get(out.len()).is_some_and(|at| std::ptr::eq(at, value));
                out.push(Cow::Borrowed(value));
            }
            Merged::Value(value) => {
                is_left = false;
                is_right =
                    is_right && matches!(&value, Cow::Borrowed(value) if right.get(out.len()).is_some_and(|at| std::ptr::eq(at, *value)));
                out.push(value);
            }
        }
    }
    if is_left && out.len() == lhs.len() {
        return Merged::Left;
    }
    match rhs {
        Some(rhs) if is_right && out.len() == right.len() => Merged::Value(Cow::Borrowed(rhs)),
        _ if out.is_empty() => Merged::Nothing,
        _ => Merged::Value(Cow::Owned(Value::Array(out.into_iter().map(Cow::into_owned).collect()))),
    }
}

/// Which item comes next.
#[derive(Clone, Copy)]
enum Step {
    /// One that only the first list has.
    Left(usize),
    /// One of the second list, with what it was in the first.
    Right(usize),
}

fn order(pairs: &Pairs<'_>) -> Vec<Step> {
    let (l_len, r_len) = (pairs.in_rhs.len(), pairs.in_lhs.len());
    let mut out = Vec::with_capacity(l_len.max(r_len));
    let mut is_merged = vec![false; r_len];
    let mut shared = (0..r_len).filter(|r| !matches!(pairs.in_lhs[*r], Known::Missing));
    let mut next_shared = shared.next();
    let (mut l, mut r) = (0, 0);
    while l < l_len || r < r_len {
        if l < l_len && r < r_len {
            if pairs.in_rhs[l] == Some(r) {
                is_merged[r] = true;
                out.push(Step::Right(r));
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            // One that both have, but not the one whose turn it is.
            if pairs.in_rhs[l].is_some() && next_shared.is_some() && next_shared != pairs.in_rhs[l] {
                l += 1;
                continue;
            }
        }
        if l < l_len {
            match pairs.in_rhs[l] {
                None => {
                    out.push(Step::Left(l));
                    l += 1;
                    continue;
                }
                Some(known) if is_merged[known] => l += 1,
                Some(_) => {}
            }
        }
        if r < r_len {
            is_merged[r] = true;
            out.push(Step::Right(r));
            if next_shared == Some(r) {
                next_shared = shared.next();
            }
            r += 1;
        }
    }
    out
}
