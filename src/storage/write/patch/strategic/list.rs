//! Lists that merge: by a key, or as sets of scalars, and the order of what comes out.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{DIRECTIVE, Node, Room, unknown_directive, wrong_type};
use crate::write::patch::{
    PatchError,
    printed::{go_type, printed, printed_list},
};

/// Merges a patch list into a list whose elements are told apart by `key`, or are scalars. `delete`: the scalars of the patch are taken away.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    element: Node,
    key: Option<&str>,
    delete: bool,
    room: &mut Room,
) -> Result<Vec<Value>, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    room.take(original.len() + patch.len())?;
    if element_kind(&original, &patch)? != Kind::Object {
        if delete {
            let gone: HashSet<&Value> = patch.iter().collect();
            return Ok(original.into_iter().filter(|value| !gone.contains(value)).collect());
        }
        let mut seen = HashSet::new();
        let both = original.iter().chain(&patch).filter(|value| seen.insert(*value)).cloned().collect();
        return ordered(both, &patch, &original, key);
    }
    let Some(key) = key else { return Err(PatchError::Internal("cannot merge lists without merge key for struct".to_owned())) };
    let (original, patch) = directed(original, patch, key)?;
    let (server, order) = (identities(&original, Some(key)), identities(&patch, Some(key)));
    let merged = by_key(original, patch, element, key, room)?;
    ordered(merged, &order, &server, Some(key))
}

/// The elements with nothing but what tells them apart; those that do not have that, whole, for the error about them.
pub(super) fn identities(elements: &[Value], key: Option<&str>) -> Vec<Value> {
    let alone = |element: &Value| {
        let key = key?;
        let value = element.get(key)?.clone();
        Some(Value::Object([(key.to_owned(), value)].into_iter().collect()))
    };
    elements.iter().map(|element| alone(element).unwrap_or_else(|| element.clone())).collect()
}

/// What all elements of a list are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    Object,
}

/// What the elements of both lists are.
///
/// # Errors
/// When they differ, are lists, or there is none.
pub(super) fn element_kind(original: &[Value], patch: &[Value]) -> Result<Kind, PatchError> {
    let mut all = original.iter().chain(patch);
    let Some(first) = all.next() else {
        return Err(PatchError::Internal("no elements in any of the given slices".to_owned()));
    };
    if first.is_array() {
        return Err(PatchError::Unapplicable);
    }
    if all.any(|value| go_type(value) != go_type(first)) {
        let lists = format!("[{} {}]", printed_list(original), printed_list(patch));
        return Err(PatchError::Internal(format!("list element types are not identical: {lists}")));
    }
    Ok(if first.is_object() { Kind::Object } else { Kind::Scalar })
}

/// Follows the elements that are directives: the original without what is deleted, and the patch without them. When they say `replace`, the rest of
/// the patch is all there is.
fn directed(mut original: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let (directives, plain): (Vec<Value>, Vec<Value>) = patch.into_iter().partition(|value| value.get(DIRECTIVE).is_some());
    let (mut replace, mut deleted) = (false, HashSet::new());
    for element in &directives {
        match element.get(DIRECTIVE).and_then(Value::as_str) {
            Some("delete") => {
                deleted.insert(element.get(key).ok_or_else(|| no_key(element, key))?);
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(PatchError::Internal("merging lists cannot yet be specified in the patch".to_owned())),
            _ => {
                let members = element.as_object().cloned().unwrap_or_default();
                return Err(unknown_directive(&element[DIRECTIVE], &members));
            }
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    original.retain(|element| element.get(key).is_none_or(|value| !deleted.contains(value)));
    Ok((original, plain))
}

/// Elements with the same key merge, new ones come last.
fn by_key(mut original: Vec<Value>, patch: Vec<Value>, node: Node, key: &str, room: &mut Room) -> Result<Vec<Value>, PatchError> {
    let mut places: HashMap<Value, usize> = HashMap::new();
    for (index, element) in original.iter().enumerate() {
        if let Some(value) = element.get(key) {
            places.entry(value.clone()).or_insert(index);
        }
    }
    for element in patch {
        let value = element.get(key).ok_or_else(|| no_key(&element, key))?.clone();
        match (places.get(&value), element) {
            (Some(&index), Value::Object(patch)) => {
                let before = original[index].as_object_mut().map(std::mem::take).unwrap_or_default();
                original[index] = Value::Object(super::merge(before, patch, node, room)?);
            }
            (_, element) => {
                places.insert(value, original.len());
                original.push(element);
            }
        }
    }
    Ok(original)
}

/// Brings what the patch names into the order of the patch, the rest into that of the server, and both together so that the server's order holds
/// between them where it can (KEP 356: `$setElementOrder` before the order of the patch before the live one).
pub(super) fn ordered(merged: Vec<Value>, order: &[Value], server: &[Value], key: Option<&str>) -> Result<Vec<Value>, PatchError> {
    if key.is_some()
        && !merged.is_empty()
        && let Some((index, _)) = order.iter().enumerate().find(|(_, element)| !element.is_object())
    {
        return Err(PatchError::Internal(format!("value for key {index} is not a map")));
    }
    if let Some(key) = key {
        keyed(&merged, key)?;
        keyed(order, key)?;
        keyed(server, key)?;
    }
    let (wanted, before) = (places(order, key), places(server, key));
    let (mut patched, mut rest): (Vec<Value>, Vec<Value>) = merged.into_iter().partition(|element| place(&wanted, element, key).is_some());
    patched.sort_by_key(|element| place(&wanted, element, key));
    rest.sort_by_key(|element| place(&before, element, key));
    let mut all = Vec::with_capacity(patched.len() + rest.len());
    let (mut patched, mut rest) = (patched.into_iter().peekable(), rest.into_iter().peekable());
    loop {
        let rest_first = match (rest.peek(), patched.peek()) {
            (Some(left), Some(right)) => match (place(&before, left, key), place(&before, right, key)) {
                (Some(left), Some(right)) => left < right,
                _ => false,
            },
            (left, _) => left.is_some(),
        };
        match if rest_first { rest.next() } else { patched.next() } {
            Some(element) => all.push(element),
            None => return Ok(all),
        }
    }
}

/// Whether the elements of a patch list stand in this order, all of them there.
///
/// # Errors
/// When they do not.
pub(super) fn agrees(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    if key.is_some()
        && let Some(element) = patch.iter().find(|element| !element.is_object())
    {
        return Err(wrong_type("map[string]interface {}", element));
    }
    let mut ahead = order.iter();
    for element in patch.iter().filter(|element| element.get(DIRECTIVE).is_none()) {
        loop {
            let Some(next) = ahead.next() else {
                let (patch, order) = (printed_list(patch), printed_list(order));
                return Err(PatchError::Internal(format!(
                    "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
                )));
            };
            if same(element, next, key)? {
                break;
            }
        }
    }
    Ok(())
}

fn same(left: &Value, right: &Value, key: Option<&str>) -> Result<bool, PatchError> {
    let Some(key) = key else { return Ok(left == right) };
    for side in [left, right] {
        if !side.is_object() {
            return Err(wrong_type("map[string]interface {}", side));
        }
        side.get(key).ok_or_else(|| no_key(side, key))?;
    }
    Ok(left.get(key) == right.get(key))
}

fn keyed(elements: &[Value], key: &str) -> Result<(), PatchError> {
    match elements.iter().find(|element| element.get(key).is_none()) {
        Some(element) if element.is_object() => Err(no_key(element, key)),
        Some(element) => Err(wrong_type("map[string]interface {}", element)),
        None => Ok(()),
    }
}

/// Where each element stands first.
fn places<'a>(order: &'a [Value], key: Option<&str>) -> HashMap<&'a Value, usize> {
    let mut places = HashMap::with_capacity(order.len());
    for (index, element) in order.iter().enumerate() {
        places.entry(identity(element, key)).or_insert(index);
    }
    places
}

fn place(places: &HashMap<&Value, usize>, element: &Value, key: Option<&str>) -> Option<usize> {
    places.get(identity(element, key)).copied()
}

/// What tells an element apart.
fn identity<'a>(element: &'a Value, key: Option<&str>) -> &'a Value {
    key.and_then(|key| element.get(key)).unwrap_or(element)
}

fn no_key(element: &Value, key: &str) -> PatchError {
    PatchError::Internal(format!("map: {} does not contain declared merge key: {key}", printed(element)))
}
