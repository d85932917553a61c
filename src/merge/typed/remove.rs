//! A value without some of its fields, or with nothing but them.

use std::borrow::Cow;

use serde_json::Value;

use super::{As, Walk, item};
use crate::{
    schema::{FieldWalk, List, Map},
    set::Set,
};

/// `None` when the value has none of the fields.
pub(super) fn remove(walk: Walk<'_>, value: &Value, items: &Set) -> Option<Value> {
    match of_value(Removal { is_extraction: false }, walk, value, items) {
        Cow::Borrowed(left) if std::ptr::eq(left, value) => None,
        left => Some(left.into_owned()),
    }
}

pub(super) fn extract(walk: Walk<'_>, value: &Value, items: &Set) -> Value {
    of_value(Removal { is_extraction: true }, walk, value, items).into_owned()
}

/// Whether fields are taken out, or nothing else is kept.
#[derive(Clone, Copy)]
struct Removal {
    is_extraction: bool,
}

/// Null where nothing is left.
fn of_value<'v>(removal: Removal, walk: Walk<'_>, value: &'v Value, fields: &Set) -> Cow<'v, Value> {
    let whole = if removal.is_extraction { Cow::Borrowed(value) } else { Cow::Owned(Value::Null) };
    match (walk.resolve(value), value) {
        (Ok(As::Scalar(_)), _) => Cow::Borrowed(value),
        (Ok(As::List(list)), Value::Array(items)) => {
            if items.is_empty() || list.is_atomic() {
                whole
            } else {
                of_items(removal, walk, list, value, items, fields)
            }
        }
        (Ok(As::Map(map)), Value::Object(members)) => {
            if members.is_empty() || map.is_atomic() {
                whole
            } else {
                of_members(removal, walk, map, value, members, fields)
            }
        }
        _ => Cow::Owned(Value::Null),
    }
}

fn of_items<'v>(removal: Removal, walk: Walk<'_>, list: &List, whole: &'v Value, items: &'v [Value], fields: &Set) -> Cow<'v, Value> {
    let mut out: Vec<Cow<'v, Value>> = Vec::with_capacity(items.len());
    for item in items {
        let found = item::element(list, item).ok();
        let node = found.as_ref().and_then(|element| fields.node(element));
        let is_member = node.is_some_and(|node| node.is_member);
        let below = node.map(|node| &node.children).filter(|children| !children.is_empty());
        if (removal.is_extraction && !is_member && below.is_none()) || (!removal.is_extraction && is_member) {
            continue;
        }
        out.push(below.map_or(Cow::Borrowed(item), |below| of_value(removal, walk.below(list.element_type), item, below)));
    }
    if out.is_empty() {
        return Cow::Owned(Value::Null);
    }
    let is_whole = out.len() == items.len() && out.iter().zip(items).all(|(out, item)| is_same(out, item));
    if is_whole { Cow::Borrowed(whole) } else { Cow::Owned(Value::Array(out.into_iter().map(Cow::into_owned).collect())) }
}

fn of_members<'v>(
    removal: Removal,
    walk: Walk<'_>,
    map: &Map,
    whole: &'v Value,
    members: &'v serde_json::Map<String, Value>,
    fields: &Set,
) -> Cow<'v, Value> {
    let declared = map.walk();
    let mut out: Vec<(&'v String, Cow<'v, Value>)> = Vec::with_capacity(members.len());
    for (name, member) in members {
        let (field, of) = declared.find(name);
        let node = fields.node(&FieldWalk::element(field, name));
        let below = node.map(|node| &node.children).filter(|children| !children.is_empty());
        match (removal.is_extraction, node.is_some_and(|node| node.is_member), below) {
            // The library looks in it for the fields of this level, not of the next.
            (true, true, _) => out.push((name, of_value(removal, walk.below(of), member, fields))),
            (false, true, _) | (true, false, None) => {}
            (_, false, Some(below)) => out.push((name, of_value(removal, walk.below(of), member, below))),
            (false, false, None) => out.push((name, Cow::Borrowed(member))),
        }
    }
    if out.is_empty() {
        return Cow::Owned(Value::Null);
    }
    let is_whole = out.len() == members.len() && out.iter().zip(members.values()).all(|((_, out), member)| is_same(out, member));
    if is_whole {
        return Cow::Borrowed(whole);
    }
    Cow::Owned(Value::Object(out.into_iter().map(|(name, value)| (name.clone(), value.into_owned())).collect()))
}

/// Whether a value is there as it was: where it was.
fn is_same(out: &Value, value: &Value) -> bool {
    std::ptr::eq(out, value)
}
