//! Strategic merge patch: JSON merge patch where the type says how lists merge, and with directives (spec api-surface §7.3).
//!
//! What kube-apiserver 1.36 does with odd patches is followed too, with its texts; `tests/data/smp` has cases recorded from it.

mod list;

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{
    PatchError,
    printed::{go_type, printed, printed_as_string},
};
use catalogue::types::{Merge, Shape, Strategy, TypeRef};
use go::quote::quoted;

/// Elements that the lists of one patch may have together, each list with those it is merged into counted as often as it is merged; ours: an element that
/// a patch names many times over would have its own lists merged as often. The longest single lists that a body and an object can hold stay below.
const MERGED_MAX: usize = 1_000_000;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_SCALARS: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Applies a patch to an object of this type.
///
/// Parts of the patch that go into the result as they are, such as a new element of a list, may hold nulls and directives that only mean something
/// where there is something to merge with: the decoder drops them as unknown fields (`write::typed`), as in kube-apiserver.
///
/// # Errors
/// The patch is not an object, or has a directive or a list that cannot be (spec api-surface §7.2).
pub(crate) fn apply(original: &Value, patch: &Value, it: TypeRef) -> Result<Value, PatchError> {
    let Value::Object(original) = original else { return Err(wrong_type("map[string]interface {}", original)) };
    match patch {
        Value::Object(patch) => merge(original.clone(), patch.clone(), Node::Struct(it), &mut Room(MERGED_MAX)).map(Value::Object),
        Value::Null => Ok(Value::Object(original.clone())),
        other => Err(PatchError::BadRequest(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go::json::kind(other)
        ))),
    }
}

/// Elements that may still be merged.
struct Room(usize);

impl Room {
    fn take(&mut self, elements: usize) -> Result<(), PatchError> {
        let why = || PatchError::TooLarge(format!("The lists in a strategic merge patch may merge {MERGED_MAX} elements together"));
        self.0 = self.0.checked_sub(elements).ok_or_else(why)?;
        Ok(())
    }
}

/// The type of a place in the tree.
#[derive(Clone, Copy)]
enum Node {
    Struct(TypeRef),
    Other(&'static Shape),
}

impl Node {
    fn of(shape: &'static Shape) -> Self {
        match shape {
            Shape::Struct(it) => Self::Struct(*it),
            other => Self::Other(other),
        }
    }

    /// The type of a member, and how it merges. kube-apiserver looks only into structs.
    fn member(self, name: &str) -> Result<(&'static Shape, Merge), PatchError> {
        let no_field =
            |of: &str| PatchError::Internal(format!("unable to find api field in struct {of} for the json field {}", quoted(name)));
        let no_struct = |of: &str| PatchError::Internal(format!("merging an object in json but data type is not struct, instead is: {of}"));
        match self {
            Self::Struct(it) => it.field(name).map(|field| (&field.shape, field.merge)).ok_or_else(|| no_field(it.go_name())),
            Self::Other(Shape::Any(of)) => Err(no_field(of.rsplit('.').next().unwrap_or(of))),
            Self::Other(Shape::Map(_)) => Err(no_struct("map")),
            Self::Other(Shape::Array(_)) => Err(no_struct("slice")),
            Self::Other(_) => Err(no_struct("string")),
        }
    }

    /// The type of the elements of a member that is a list, and how it merges.
    fn elements(self, name: &str) -> Result<(Self, Merge), PatchError> {
        match self.member(name)? {
            (Shape::Array(of), merge) => Ok((Self::of(of), merge)),
            _ => Err(PatchError::Internal("expected slice or array type, but got: struct".to_owned())),
        }
    }
}

fn merge(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    node: Node,
    room: &mut Room,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    in_order(&mut original, &mut patch, node, room)?;
    for (name, value) in patch {
        match name.starts_with(DELETE_SCALARS) {
            true => member(&mut original, directed(&name, DELETE_SCALARS)?, value, node, true, room)?,
            false => member(&mut original, &name, value, node, false, room)?,
        }
    }
    Ok(original)
}

/// Merges one member of a patch. `delete`: it lists what to take away.
fn member(
    original: &mut Map<String, Value>,
    name: &str,
    patch: Value,
    node: Node,
    delete: bool,
    room: &mut Room,
) -> Result<(), PatchError> {
    if patch.is_null() {
        original.remove(name);
        return Ok(());
    }
    let merged = match (original.get_mut(name).map(Value::take), patch) {
        (Some(Value::Object(original)), Value::Object(patch)) => {
            let (shape, how) = node.member(name)?;
            let replaced = how.strategy == Strategy::Replace;
            Some(Value::Object(if replaced { patch } else { merge(original, patch, Node::of(shape), room)? }))
        }
        (Some(Value::Array(original)), Value::Array(patch)) => {
            let (element, how) = node.elements(name)?;
            let merges = how.strategy == Strategy::Merge || delete;
            Some(Value::Array(if merges { list::merge(original, patch, element, how.key, delete, room)? } else { patch }))
        }
        (None, _) if delete => None,
        (Some(original), patch) if delete && std::mem::discriminant(&original) != std::mem::discriminant(&patch) => Some(original),
        (_, patch) => without_directives(without_nulls(patch)),
    };
    match merged {
        Some(value) => original.insert(name.to_owned(), value),
        None => original.remove(name),
    };
    Ok(())
}

/// `$retainKeys`: the original loses what is not listed; the patch may have nothing else.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let keys: HashSet<&str> = keys.as_array().ok_or_else(bad)?.iter().filter_map(Value::as_str).collect();
    let free = |(name, value): (&String, &Value)| value.is_null() || name.starts_with(DELETE_SCALARS) || name.starts_with(ELEMENT_ORDER);
    if patch.iter().any(|(name, value)| !free((name, value)) && !keys.contains(name.as_str())) {
        return Err(bad());
    }
    original.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// `$setElementOrder/F`: merges the lists F with those directives, and takes both from the patch.
fn in_order(original: &mut Map<String, Value>, patch: &mut Map<String, Value>, node: Node, room: &mut Room) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let order = list_of(patch.remove(&directive).unwrap_or_default())?;
        let name = directed(&directive, ELEMENT_ORDER)?;
        let before = original.remove(name).map(list_of).transpose()?;
        let patched = patch.remove(name).map(list_of).transpose()?;
        let (element, how) = node.elements(name)?;
        let lengths = [before.as_ref(), patched.as_ref(), Some(&order)].map(|list| list.map_or(0, Vec::len));
        room.take(lengths.iter().sum())?;
        list::agrees(patched.as_deref().unwrap_or_default(), &order, how.key)?;
        if before.is_none() && patched.is_none() {
            continue;
        }
        list::element_kind(before.as_deref().unwrap_or_default(), patched.as_deref().unwrap_or_default())?;
        let server = list::identities(before.as_deref().unwrap_or_default(), how.key);
        let merged = match (before, patched) {
            (None, None) => Vec::new(),
            (Some(before), None) => before,
            (None, Some(patched)) => patched.into_iter().filter_map(without_directives).collect(),
            (Some(before), Some(patched)) if how.strategy == Strategy::Merge => {
                list::merge(before, patched, element, how.key, false, room)?
            }
            (Some(_), Some(patched)) => patched,
        };
        original.insert(name.to_owned(), Value::Array(list::ordered(merged, &order, &server, how.key)?));
    }
    Ok(())
}

/// The field that `$directive/field` is about.
fn directed<'a>(name: &'a str, directive: &str) -> Result<&'a str, PatchError> {
    let what = if directive == DELETE_SCALARS { "primitive" } else { "setElementOrder" };
    let field = name.strip_prefix(directive).and_then(|rest| rest.strip_prefix('/'));
    field.ok_or_else(|| PatchError::BadRequest(format!("invalid patch format of {what} list")))
}

/// Without the objects that have a `$patch`; none when it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => {
            Some(members.into_iter().filter_map(|(name, member)| Some((name, without_directives(member)?))).collect())
        }
        Value::Array(elements) => Some(elements.into_iter().filter_map(without_directives).collect()),
        scalar => Some(scalar),
    }
}

/// Without members that are null; elements stay.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            members.into_iter().filter(|(_, member)| !member.is_null()).map(|(name, member)| (name, without_nulls(member))).collect()
        }
        Value::Array(elements) => elements.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

fn list_of(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(elements) => Ok(elements),
        other => Err(wrong_type("[]interface {}", &other)),
    }
}

fn unknown_directive(directive: &Value, members: &Map<String, Value>) -> PatchError {
    let members = printed(&Value::Object(members.clone()));
    PatchError::Internal(format!("unknown patch type: {} in map: {members}", printed_as_string(directive)))
}

fn wrong_type(expected: &str, found: &Value) -> PatchError {
    PatchError::Internal(format!("expected a {expected}, but received a {}", go_type(found)))
}

#[cfg(test)]
mod tests;
