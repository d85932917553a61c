//! The items of associative lists: how they are told apart, and found.

use serde_json::Value;

use super::ValidationErrors;
use crate::{
    path::{Name, PathElement},
    schema::{KeyDefault, List},
};

/// The path element of an item.
pub(super) fn element(list: &List, item: &Value) -> Result<PathElement, String> {
    if !list.is_associative() {
        return Err("invalid indexing of non-associative list".to_owned());
    }
    if list.keys.is_empty() { set_element(item) } else { keyed_element(list, item) }
}

/// Whether an item has a path element.
pub(super) fn check(list: &List, item: &Value) -> Result<(), String> {
    let is_told = list.is_associative()
        && match item {
            Value::Object(members) => !list.keys.is_empty() && list.keys.iter().all(|key| members.contains_key(&*key.name)),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => list.keys.is_empty(),
            Value::Null | Value::Array(_) => false,
        };
    if is_told { Ok(()) } else { element(list, item).map(drop) }
}

fn keyed_element(list: &List, item: &Value) -> Result<PathElement, String> {
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut fields: Vec<(Name, Value)> = Vec::with_capacity(list.keys.len());
    for key in &list.keys {
        let value = match (members.get(&*key.name), &key.default) {
            (Some(value), _) | (None, KeyDefault::Value(value)) => value.clone(),
            (None, KeyDefault::None) => continue,
            (None, KeyDefault::Wrong(why)) => return Err(format!("couldn't find default value for {}: {why}", key.name)),
        };
        fields.push((Name::from(&*key.name), value));
    }
    if fields.is_empty() {
        let names: Vec<String> = list.keys.iter().map(|key| go::quote::quoted(&key.name)).collect();
        let names = names.join(" ");
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{names}] (and doesn't have default values for any key fields)"
        ));
    }
    fields.sort_by(|(lhs, _), (rhs, _)| lhs.cmp(rhs));
    Ok(PathElement::Key(fields.into()))
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(PathElement::value(item.clone())),
    }
}

/// The elements of a list's items, with the places of the items in the order of their elements. What cannot be told apart is left out, and told.
pub(super) struct Index {
    pub(super) elements: Vec<PathElement>,
    /// Which item each element is of.
    pub(super) places: Vec<usize>,
    /// Places in `elements`, sorted by element; of equal ones the first comes first.
    pub(super) sorted: Vec<usize>,
    pub(super) errors: ValidationErrors,
}

impl Index {
    pub(super) fn new(list: &List, items: &[Value]) -> Self {
        let mut errors = ValidationErrors::default();
        let mut elements = Vec::with_capacity(items.len());
        let mut places = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            match element(list, item) {
                Ok(element) => {
                    elements.push(element);
                    places.push(place);
                }
                Err(why) => errors.extend(ValidationErrors::one(format!("element {place}: {why}"))),
            }
        }
        let mut sorted: Vec<usize> = (0..elements.len()).collect();
        sorted.sort_by(|lhs, rhs| elements[*lhs].cmp(&elements[*rhs]));
        Self { elements, places, sorted, errors }
    }

    /// Runs of equal elements, in order.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[usize]> {
        self.sorted.chunk_by(|lhs, rhs| self.elements[*lhs] == self.elements[*rhs])
    }
}
