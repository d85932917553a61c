//! Parts of objects as values, read as their shape says.

use serde_json::Value as Json;

use super::{Error, List, ListKind, Map, Outcome, Timestamp, Value, formats};
use crate::shape::{ANY, ANY_FIELDS, Shape, ShapeKind};

static ATOMIC: ListKind = ListKind::Atomic;

impl<'v> Value<'v> {
    /// Returns the value that JSON is without a schema.
    #[must_use]
    pub fn of_json(json: &'v Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => number.as_i64().map_or_else(|| Self::Double(number.as_f64().unwrap_or(f64::NAN)), Self::Int),
            Json::String(text) => Self::text(text),
            Json::Array(elements) => Self::List(List::Json(elements, &ANY, &ATOMIC)),
            Json::Object(members) => Self::Map(Map::Json(members, &ANY_FIELDS)),
        }
    }

    /// Returns the value that JSON is as its shape says.
    ///
    /// # Errors
    /// It is not of its shape.
    pub fn of_shape(json: &'v Json, shape: &'v Shape) -> Outcome<'v> {
        if matches!(shape.kind, ShapeKind::Any) {
            return Ok(Self::of_json(json));
        }
        if json.is_null() {
            return if shape.nullable { Ok(Self::Null) } else { Err(Error::new("invalid data, got null for schema with nullable=false")) };
        }
        match (&shape.kind, json) {
            (ShapeKind::IntOrString | ShapeKind::String, Json::String(text)) => Ok(Self::text(text)),
            (ShapeKind::IntOrString | ShapeKind::Integer, Json::Number(number)) if number.is_i64() => {
                Ok(Self::Int(number.as_i64().unwrap_or_default()))
            }
            (ShapeKind::Number, Json::Number(number)) => Ok(Self::Double(number.as_f64().unwrap_or(f64::NAN))),
            (ShapeKind::Bool, Json::Bool(value)) => Ok(Self::Bool(*value)),
            (ShapeKind::Object(fields), Json::Object(members)) => Ok(Self::Map(Map::Json(members, fields))),
            (ShapeKind::List(shape, kind), Json::Array(elements)) => Ok(Self::List(List::Json(elements, shape, kind))),
            (ShapeKind::Unknown, _) => Ok(Self::Unknown(json)),
            (ShapeKind::Duration | ShapeKind::Date | ShapeKind::DateTime | ShapeKind::Byte, Json::String(text)) => {
                Self::formatted(text, &shape.kind)
            }
            (kind, _) => Err(Error::new(misfit(kind, json))),
        }
    }

    fn formatted(text: &str, kind: &ShapeKind) -> Outcome<'v> {
        match kind {
            ShapeKind::Duration => {
                formats::duration(text).map(Self::Duration).map_err(|why| Error::new(format!("Invalid duration {text}: {why}")))
            }
            ShapeKind::Date => {
                Timestamp::date(text).map(Self::Timestamp).map_err(|why| Error::new(format!("Invalid date formatted string {text}: {why}")))
            }
            ShapeKind::DateTime => formats::date_time(text)
                .map(Self::Timestamp)
                .map_err(|why| Error::new(format!("Invalid date-time formatted string {text}: {why}"))),
            _ => go::base64::decode(text)
                .map(|bytes| Self::Bytes(bytes.into()))
                .map_err(|why| Error::new(format!("Invalid byte formatted string {text}: {why}"))),
        }
    }
}

/// What is wrong with a part that is not of its shape.
fn misfit(kind: &ShapeKind, json: &Json) -> String {
    let found = match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    match kind {
        ShapeKind::IntOrString => "invalid data, expected XIntOrString value to be either a string or integer".to_owned(),
        ShapeKind::Object(_) => "invalid data, expected a map for the provided schema with type=object".to_owned(),
        ShapeKind::List(..) => "invalid data, expected an array for the provided schema with type=array".to_owned(),
        ShapeKind::Integer => format!("invalid data, expected int, got {found}"),
        ShapeKind::Number => format!("invalid data, expected float, got {found}"),
        ShapeKind::Bool => format!("invalid data, expected bool, got {found}"),
        ShapeKind::Invalid(name) => format!(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with x-kubernetes-int-or-string or \
             x-kubernetes-preserve-unknown-fields is true, got {name}"
        ),
        _ => format!("invalid data, expected string, got {found}"),
    }
}
