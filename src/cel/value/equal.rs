//! Equality and order of values.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::Value as Json;

use super::{
    Error, List, ListKind, Map, Object, Value,
    number::{INT_END, UINT_END},
};
use crate::shape::{Fields, ShapeKind};

/// Levels of values in values that are compared: what is deeper is not equal. No object that is stored is as deep.
const DEPTH_MAX: u32 = 1_000;

impl<'v> Value<'v> {
    /// Returns whether two values are equal.
    ///
    /// # Errors
    /// A part of them is not of its shape, or cannot be compared.
    pub fn equals(&self, other: &Self) -> Result<bool, Error> {
        self.equals_at(other, DEPTH_MAX)
    }

    fn equals_at(&self, other: &Self, left: u32) -> Result<bool, Error> {
        if left == 0 {
            return Ok(false);
        }
        Ok(match (self, other) {
            (Self::Null, Self::Null) | (Self::Optional(None), Self::Optional(None)) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(_) | Self::Uint(_) | Self::Double(_), Self::Int(_) | Self::Uint(_) | Self::Double(_)) => {
                compare_numbers(self, other).is_some_and(Ordering::is_eq)
            }
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::List(a), Self::List(b)) => return lists(a, b, left - 1),
            (Self::Map(a), Self::Map(b)) => return maps(a, b, left - 1),
            // What an object holds refuses to be compared with what is of another type.
            (Self::List(List::Json(_, shape, _)), _) if !matches!(shape.kind, ShapeKind::Any) && !matches!(other, Self::Null) => {
                return Err(Error::no_such_overload());
            }
            (Self::Map(Map::Json(_, fields)), _) if !fields.is_any() && !matches!(other, Self::Null) => {
                return Err(Error::no_such_overload());
            }
            (Self::Optional(Some(a)), Self::Optional(Some(b))) => return a.equals_at(b, left - 1),
            (Self::Opaque(a), Self::Opaque(b)) if a.type_name() == b.type_name() => a.equals(&**b),
            (Self::Opaque(_), _) => return Err(Error::no_such_overload()),
            (Self::Object(a), Self::Object(b)) => return objects(a, b, left - 1),
            (Self::Unknown(json), other) => is_json(other, json),
            _ => false,
        })
    }

    /// Returns how two values compare.
    ///
    /// # Errors
    /// There is no order of them.
    pub fn compare(&self, other: &Self) -> Result<Ordering, Error> {
        match (self, other) {
            (Self::Int(_) | Self::Uint(_) | Self::Double(_), Self::Int(_) | Self::Uint(_) | Self::Double(_)) => {
                compare_numbers(self, other).ok_or_else(|| Error::new("NaN values cannot be ordered"))
            }
            (Self::Bool(a), Self::Bool(b)) => Ok(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Ok(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Ok(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Ok(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Ok(a.cmp(b)),
            _ => Err(Error::no_such_overload()),
        }
    }
}

/// Returns whether a value is JSON, as far as the part of an object shows whose type is unknown.
fn is_json(value: &Value<'_>, json: &Json) -> bool {
    match (value, json) {
        (Value::Unknown(other), json) => *other == json,
        (Value::Bool(value), Json::Bool(json)) => value == json,
        (Value::Int(value), Json::Number(json)) => json.as_i64() == Some(*value),
        (Value::Double(value), Json::Number(json)) => json.is_f64() && json.as_f64() == Some(*value),
        (Value::String(text), Json::String(json)) => **text == **json,
        (Value::List(List::Json(elements, ..)), Json::Array(json)) => *elements == json,
        (Value::Map(Map::Json(members, _)), Json::Object(json)) => *members == json,
        _ => false,
    }
}

fn objects(one: &Object<'_>, other: &Object<'_>, left: u32) -> Result<bool, Error> {
    if one.name() != other.name() || one.fields().len() != other.fields().len() {
        return Ok(false);
    }
    for ((name, a), (other, b)) in one.fields().iter().zip(other.fields()) {
        if name != other || !a.equals_at(b, left)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn lists(one: &List<'_>, other: &List<'_>, left: u32) -> Result<bool, Error> {
    if one.len() != other.len() {
        return Ok(false);
    }
    match one.kind() {
        ListKind::Atomic => {
            for (a, b) in one.iter().zip(other.iter()) {
                if !a?.equals_at(&b?, left)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListKind::Set => {
            let keys = set_keys(one)?;
            for element in other.iter() {
                if !keys.contains(&set_key(&element?)?) {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListKind::Map(names) => map_lists(one, other, names, left),
    }
}

/// Returns what a value is found by in a set: what Go would hash, where `1` and `1.0` differ as an object has them.
///
/// # Errors
/// Go cannot hash it.
pub(crate) fn set_key(value: &Value<'_>) -> Result<String, Error> {
    Ok(match value {
        Value::Int(value) => format!("i{value}"),
        Value::Uint(value) => format!("u{value}"),
        Value::Double(value) => double_key(*value),
        Value::String(text) => format!("s{}", &**text),
        Value::List(_) => return Err(unhashable("[]interface {}")),
        Value::Map(_) => return Err(unhashable("map[string]interface {}")),
        Value::Bytes(_) => return Err(unhashable("[]uint8")),
        other => format!("{} {other}", other.type_name()),
    })
}

/// Returns the same of a part of an object.
fn json_key(json: &Json) -> Result<String, Error> {
    Ok(match json {
        Json::Null => "nil".to_owned(),
        Json::Bool(value) => format!("bool {value}"),
        Json::Number(number) => {
            number.as_i64().map_or_else(|| double_key(number.as_f64().unwrap_or(f64::NAN)), |value| format!("i{value}"))
        }
        Json::String(text) => format!("s{text}"),
        Json::Array(_) => return Err(unhashable("[]interface {}")),
        Json::Object(_) => return Err(unhashable("map[string]interface {}")),
    })
}

fn double_key(value: f64) -> String {
    format!("f{}", if value == 0.0 { 0.0 } else { value })
}

fn unhashable(kind: &str) -> Error {
    Error::new(format!("internal error: runtime error: hash of unhashable type {kind}"))
}

/// Returns what the elements of a set are found by.
///
/// # Errors
/// Go cannot hash one.
pub(crate) fn set_keys(list: &List<'_>) -> Result<BTreeSet<String>, Error> {
    match list {
        List::Json(elements, ..) => elements.iter().map(json_key).collect(),
        made @ List::Made(_) => made.iter().map(|element| set_key(&element?)).collect(),
    }
}

/// Returns what an element of a list is found by that has keys, whose names are those that expressions have for them: a key that has another name in the
/// object is never found, as in Kubernetes.
pub(crate) fn map_key(value: &Value<'_>, names: &[Box<str>]) -> Result<Vec<Option<String>>, Error> {
    match value {
        Value::Map(Map::Json(members, _)) => names.iter().map(|name| members.get(&**name).map(json_key).transpose()).collect(),
        Value::Map(made @ Map::Made(_)) => {
            let key = |name: &str| made.field(name).transpose()?.as_ref().map(set_key).transpose();
            names.iter().map(|name| key(name)).collect()
        }
        other => {
            Err(Error::new(format!("unexpected data format for element of array with x-kubernetes-list-type=map: {}", other.type_name())))
        }
    }
}

fn map_lists(one: &List<'_>, other: &List<'_>, names: &[Box<str>], left: u32) -> Result<bool, Error> {
    let mut by_key = BTreeMap::new();
    for element in one.iter() {
        let element = element?;
        by_key.insert(map_key(&element, names)?, element);
    }
    for element in other.iter() {
        let element = element?;
        match by_key.get(&map_key(&element, names)?) {
            Some(found) if found.equals_at(&element, left)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn maps(one: &Map<'_>, other: &Map<'_>, left: u32) -> Result<bool, Error> {
    if one.len() != other.len() {
        return Ok(false);
    }
    let mut has_unknown = false;
    match (one, other) {
        (Map::Json(members, fields), Map::Json(others, other_fields)) if fields.is_any() || !other_fields.is_any() => {
            let are_equal = unknown_equal(members, others, fields);
            if !are_equal {
                return Ok(false);
            }
        }
        // Members without a shape can only be compared with those of a value that has one.
        (Map::Json(members, fields), _) => has_unknown = members.keys().any(|name| fields.shape(name).is_none()),
        _ => {}
    }
    let (keys, is_object) = match one {
        // By the names that members have in the object.
        Map::Json(members, fields) if !fields.is_any() => {
            let known = members.keys().filter(|name| fields.shape(name).is_some());
            (known.map(|name| Value::text(name)).collect(), true)
        }
        other => (other.keys(), false),
    };
    for key in keys {
        match (one.find(&key), other.find(&key)) {
            (Some(value), Some(found)) => {
                if !value?.equals_at(&found?, left)? {
                    return Ok(false);
                }
            }
            (None, None) if is_object => {}
            _ => return Ok(false),
        }
    }
    if has_unknown { Err(Error::no_such_overload()) } else { Ok(true) }
}

/// Returns whether the members without a shape, where both have them, are the same.
fn unknown_equal(members: &serde_json::Map<String, Json>, others: &serde_json::Map<String, Json>, fields: &Fields) -> bool {
    members.iter().filter(|(name, _)| fields.shape(name).is_none()).all(|(name, value)| others.get(name).is_none_or(|other| other == value))
}

/// Returns how two numbers compare; none if one is not a number, or not comparable.
pub(crate) fn compare_numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    Some(match (one, other) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Uint(a), Value::Uint(b)) => a.cmp(b),
        (Value::Double(a), Value::Double(b)) => return a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Value::Uint(a), Value::Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Value::Int(a), Value::Double(b)) => double_with_int(*b, *a)?.reverse(),
        (Value::Double(a), Value::Int(b)) => double_with_int(*a, *b)?,
        (Value::Uint(a), Value::Double(b)) => double_with_uint(*b, *a)?.reverse(),
        (Value::Double(a), Value::Uint(b)) => double_with_uint(*a, *b)?,
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "cel-go compares the number that it becomes")]
fn double_with_int(double: f64, int: i64) -> Option<Ordering> {
    if double < -INT_END {
        return Some(Ordering::Less);
    }
    if double > INT_END { Some(Ordering::Greater) } else { double.partial_cmp(&(int as f64)) }
}

#[expect(clippy::cast_precision_loss, reason = "cel-go compares the number that it becomes")]
fn double_with_uint(double: f64, uint: u64) -> Option<Ordering> {
    if double < 0.0 {
        return Some(Ordering::Less);
    }
    if double > UINT_END { Some(Ordering::Greater) } else { double.partial_cmp(&(uint as f64)) }
}
