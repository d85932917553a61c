//! Which fields a value has.

use serde_json::Value;

use super::{As, ValidationErrors, Walk, item::Index};
use crate::{
    schema::{FieldWalk, List, Map},
    set::{Node, Set},
};

pub(super) fn to_field_set(walk: Walk<'_>, value: &Value) -> Result<Set, ValidationErrors> {
    let mut errors = ValidationErrors::default();
    let (_, set) = fields(walk, value, &mut errors);
    errors.into_result().map(|()| set)
}

/// Whether the value itself is a field, and which ones are below it.
fn fields(walk: Walk<'_>, value: &Value, errors: &mut ValidationErrors) -> (bool, Set) {
    match walk.resolve(value) {
        Err(wrong) => {
            errors.extend(wrong);
            (false, Set::new())
        }
        Ok(As::Scalar(_)) => (true, Set::new()),
        Ok(As::List(list)) if list.is_atomic() => (true, Set::new()),
        Ok(As::Map(map)) if map.is_atomic() => (true, Set::new()),
        Ok(As::List(list)) => (false, value.as_array().map_or_else(Set::new, |items| of_items(walk, list, items, errors))),
        Ok(As::Map(map)) => (false, value.as_object().map_or_else(Set::new, |members| of_members(walk, map, members, errors))),
    }
}

/// Every item is a field. Of those that are there more than once nothing below is.
fn of_items(walk: Walk<'_>, list: &List, items: &[Value], errors: &mut ValidationErrors) -> Set {
    let index = Index::new(list, items);
    let mut nodes = Vec::with_capacity(items.len());
    for group in index.groups() {
        let children = match group {
            [one] => fields(walk.below(list.element_type), &items[index.places[*one]], errors).1,
            _ => Set::new(),
        };
        nodes.push(Node { element: index.elements[group[0]].clone(), is_member: true, children });
    }
    Set::of_sorted(nodes)
}

/// A member is a field if it is a leaf, null, an empty map, or not declared.
fn of_members(walk: Walk<'_>, map: &Map, members: &serde_json::Map<String, Value>, errors: &mut ValidationErrors) -> Set {
    let walk_fields = map.walk();
    let mut nodes = Vec::with_capacity(members.len());
    for (name, member) in members {
        let (field, of) = walk_fields.find(name);
        let (is_leaf, children) = fields(walk.below(of), member, errors);
        let is_empty = member.is_null() || member.as_object().is_some_and(serde_json::Map::is_empty);
        let is_member = is_leaf || is_empty || field.is_none();
        if is_member || !children.is_empty() {
            nodes.push(Node { element: FieldWalk::element(field, name), is_member, children });
        }
    }
    Set::of_sorted(nodes)
}
