//! A JSON tree against the type of its kind: unknown fields, nulls, wrong types (spec api-surface §3.8, §5.6).

use std::fmt::Write as _;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use catalogue::types::{Shape, TypeRef};
use go::{quantity, time};

/// Bytes of the paths of duplicate and unknown fields of one body after which no more are reported; ours: a path repeats its keys, and each of those
/// may be as long as the body.
pub(super) const TOLD_BYTES_MAX: usize = 1 << 20;

/// More unknown fields than this are dropped silently, as in kube-apiserver's decoder.
const UNKNOWN_MAX: usize = 100;

/// Paths of the fields that the type does not have, `spec.containers[0].bar`, in the order of the tree (which is that of the names).
pub(crate) type Unknown = Vec<String>;

/// A value that the type cannot hold: the text after `cannot be handled as a K: `, as Go's decoder words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongType(pub(crate) String);

/// Makes `value` what kube-apiserver's decoder would make of it: unknown fields and nulls are gone, quantities, times and base64 are in their normal
/// form, empty members of an `ObjectMeta` are gone. Other empty members stay: OpenAPI does not tell which ones Go leaves out. Of a kind that is not
/// built in only the metadata is looked at.
///
/// # Errors
/// When a value is not of the JSON type of its field. `value` is then half done.
pub(crate) fn conform(value: &mut Value, group: &str, version: &str, kind: &str) -> Result<Unknown, WrongType> {
    match TypeRef::of(group, version, kind) {
        Some(it) => Walk::over(value, it, "", Reader::Json),
        None => conform_metadata(value),
    }
}

/// As `conform`, of what a strategic merge patch has made: Go reads that out of maps instead of text, with other errors and other ideas of numbers.
///
/// # Errors
/// As `conform`.
pub(crate) fn conform_merged(value: &mut Value, group: &str, version: &str, kind: &str) -> Result<Unknown, WrongType> {
    match TypeRef::of(group, version, kind) {
        Some(it) => Walk::over(value, it, "", Reader::Maps),
        None => conform_metadata(value),
    }
}

/// As `conform`, for `metadata` of a custom resource, or of another object inside one.
///
/// # Errors
/// As `conform`; Go's paths then begin inside of `metadata`.
pub(crate) fn conform_metadata(value: &mut Value) -> Result<Unknown, WrongType> {
    match value.get_mut("metadata") {
        None => Ok(Unknown::new()),
        Some(Value::Null) => {
            value.as_object_mut().map(|object| object.remove("metadata"));
            Ok(Unknown::new())
        }
        Some(metadata) => Walk::over(metadata, TypeRef::object_meta(), "metadata", Reader::Json),
    }
}

/// As `conform`, of `metadata` itself, which is an object inside of another and is told at this path.
///
/// # Errors
/// As `conform`; Go's paths then begin inside of `metadata`.
pub(crate) fn conform_metadata_at(metadata: &mut Value, path: &str) -> Result<Unknown, WrongType> {
    Walk::over(metadata, TypeRef::object_meta(), path, Reader::Json)
}

/// What Go reads a tree with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// Its JSON decoder.
    Json,
    /// Its converter of maps into structs: numbers are converted as Go converts numbers, and no error tells where it is.
    Maps,
}

/// A walk through a tree, and where it is.
struct Walk {
    reader: Reader,
    unknown: Unknown,
    told_bytes: usize,
    object_meta: TypeRef,
    /// As strict errors tell it, with indices and keys.
    path: String,
    /// The fields on the way, as Go's type errors tell it: without indices and keys.
    fields: Vec<&'static str>,
    /// The struct that the last of `fields` is of.
    holder: Option<TypeRef>,
}

impl Walk {
    fn over(value: &mut Value, it: TypeRef, path: &str, reader: Reader) -> Result<Unknown, WrongType> {
        let object_meta = TypeRef::object_meta();
        let mut walk =
            Self { reader, unknown: Unknown::new(), told_bytes: 0, object_meta, path: path.to_owned(), fields: Vec::new(), holder: None };
        walk.object(value, it)?;
        Ok(walk.unknown)
    }

    /// `value` is not null.
    fn value(&mut self, value: &mut Value, shape: &Shape) -> Result<(), WrongType> {
        match shape {
            Shape::Struct(it) => self.object(value, *it),
            Shape::Array(of) => match value {
                Value::Array(elements) => self.elements(elements, of),
                _ => Err(self.misfit(value, shape)),
            },
            Shape::Map(of) => match value {
                Value::Object(members) => self.members(members, of),
                _ => Err(self.misfit(value, shape)),
            },
            scalar => self.scalar(value, scalar),
        }
    }

    fn object(&mut self, value: &mut Value, it: TypeRef) -> Result<(), WrongType> {
        let Value::Object(members) = value else { return Err(self.misfit(value, &Shape::Struct(it))) };
        let (outer, mut outcome) = (self.holder.replace(it), Ok(()));
        members.retain(|name, member| {
            if outcome.is_err() {
                return true;
            }
            match self.member(name, member, it) {
                Ok(keep) => keep,
                Err(wrong) => {
                    outcome = Err(wrong);
                    true
                }
            }
        });
        self.holder = outer;
        outcome
    }

    /// Whether the member stays.
    fn member(&mut self, name: &str, member: &mut Value, it: TypeRef) -> Result<bool, WrongType> {
        let length = self.step(name);
        let Some(field) = it.field(name) else {
            if self.unknown.len() < UNKNOWN_MAX && self.told_bytes <= TOLD_BYTES_MAX {
                self.told_bytes += self.path.len();
                self.unknown.push(self.path.clone());
            }
            self.path.truncate(length);
            return Ok(false);
        };
        if !member.is_null() {
            self.fields.push(field.name);
            self.value(member, &field.shape)?;
            self.fields.pop();
        }
        self.path.truncate(length);
        Ok(!(member.is_null() || it == self.object_meta && is_empty(member)))
    }

    fn elements(&mut self, elements: &mut [Value], of: &Shape) -> Result<(), WrongType> {
        for (index, element) in elements.iter_mut().enumerate() {
            let length = self.path.len();
            write!(self.path, "[{index}]").expect("writing to a String cannot fail");
            self.element(element, of)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn members(&mut self, members: &mut Map<String, Value>, of: &Shape) -> Result<(), WrongType> {
        for (key, member) in members {
            let length = self.step(key);
            self.element(member, of)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    /// A null in a list or map is the zero value of its Go type.
    fn element(&mut self, element: &mut Value, of: &Shape) -> Result<(), WrongType> {
        if element.is_null() {
            *element = zero(of);
            return Ok(());
        }
        self.value(element, of)
    }

    fn scalar(&self, value: &mut Value, shape: &Shape) -> Result<(), WrongType> {
        if self.reader == Reader::Maps
            && let Some(number) = converted(value, shape)
        {
            *value = number.into();
        }
        match (shape, &*value) {
            (Shape::String, Value::String(_))
            | (Shape::Boolean, Value::Bool(_))
            | (Shape::Number, Value::Number(_))
            | (Shape::Any(_), _) => {}
            (Shape::IntOrString, Value::String(_)) => {}
            (Shape::Int64, _) if value.is_i64() => {}
            (Shape::Int32 | Shape::IntOrString, _) if value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => {}
            (Shape::Bytes, Value::String(text)) => *value = Value::String(base64(text)?),
            (Shape::Quantity, Value::String(text)) => *value = Value::String(quantity::canonical(text).map_err(warnings)?),
            (Shape::Quantity, Value::Number(number)) => *value = Value::String(quantity::canonical(&number.to_string()).map_err(warnings)?),
            (Shape::Quantity, _) => return Err(warnings(quantity::FORMAT)),
            (Shape::Time, Value::String(text)) => *value = time::seconds(text).map_err(WrongType)?.map_or(Value::Null, Value::String),
            (Shape::MicroTime, Value::String(text)) => *value = time::micros(text).map_err(WrongType)?.map_or(Value::Null, Value::String),
            _ => return Err(self.misfit(value, shape)),
        }
        Ok(())
    }

    /// Goes one name further and tells where it was.
    fn step(&mut self, name: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        length
    }

    fn misfit(&self, value: &Value, shape: &Shape) -> WrongType {
        match (self.reader, uncopied(value, shape)) {
            (Reader::Maps, Some(why)) => WrongType(why),
            _ => self.wrong(value, &go_type(shape)),
        }
    }

    fn wrong(&self, value: &Value, go_type: &str) -> WrongType {
        let number = matches!(go_type, "int32" | "int64" | "float64");
        let found = match value {
            Value::Number(text) if number => format!("number {text}"),
            other => go::json::kind(other).to_owned(),
        };
        WrongType(match self.holder {
            Some(holder) => {
                let path = self.fields.join(".");
                format!("json: cannot unmarshal {found} into Go struct field {}.{path} of type {go_type}", holder.go_name())
            }
            None => format!("json: cannot unmarshal {found} into Go value of type {go_type}"),
        })
    }
}

/// A number as Go converts it to an integer: the bits that fit, of a float without a fraction the whole.
fn converted(value: &Value, shape: &Shape) -> Option<i64> {
    let number = match value.as_i64() {
        Some(number) => number,
        #[expect(clippy::cast_possible_truncation, reason = "as Go does it")]
        None => value.as_f64().filter(|float| float.fract() == 0.0)? as i64,
    };
    match shape {
        #[expect(clippy::cast_possible_truncation, reason = "as Go does it")]
        Shape::Int32 => Some(i64::from(number as i32)),
        Shape::Int64 => Some(number),
        _ => None,
    }
}

/// Why a value cannot be copied into a field; none of types that read JSON themselves.
fn uncopied(value: &Value, shape: &Shape) -> Option<String> {
    let kind = match value {
        Value::Object(_) => "map",
        Value::Array(_) => "slice",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::Null => "invalid",
    };
    Some(match shape {
        Shape::Struct(_) => format!("cannot restore struct from: {kind}"),
        Shape::Array(_) | Shape::Bytes => format!("cannot restore slice from {kind}"),
        Shape::Map(_) => format!("cannot restore map from {kind}"),
        // Go converts between these, but not as JSON means it.
        Shape::String if kind == "int64" => "cannot convert int64 to string".to_owned(),
        Shape::Int32 | Shape::Int64 if kind == "float64" => format!("cannot convert float64 to {}", go_type(shape)),
        Shape::String | Shape::Int32 | Shape::Int64 | Shape::Number | Shape::Boolean => format!("unrecognized type: {}", go_type(shape)),
        Shape::IntOrString | Shape::Quantity | Shape::Time | Shape::MicroTime | Shape::Any(_) => return None,
    })
}

fn warnings(text: &str) -> WrongType {
    WrongType(text.to_owned())
}

/// What Go leaves out of an `ObjectMeta`; its numbers that are pointers keep their zero, `generation` does not.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String => Value::String(String::new()),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString | Shape::Number => Value::from(0),
        Shape::Boolean => Value::Bool(false),
        Shape::Quantity => Value::String("0".to_owned()),
        Shape::Struct(_) => Value::Object(Map::new()),
        Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Any(_) | Shape::Array(_) | Shape::Map(_) => Value::Null,
    }
}

/// As Go names it in an error. Types of their own that hide behind a scalar (`types.UID`) are not in OpenAPI.
fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::String | Shape::Time | Shape::MicroTime => "string".to_owned(),
        Shape::Int32 | Shape::IntOrString => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::Number => "float64".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::Any(_) => "runtime.RawExtension".to_owned(),
        Shape::Array(of) => format!("[]{}", go_type(of)),
        Shape::Map(of) if **of == Shape::Quantity => "v1.ResourceList".to_owned(),
        Shape::Map(of) => format!("map[string]{}", go_type(of)),
        Shape::Struct(it) => it.go_type().to_owned(),
    }
}

/// Go skips line ends, and writes what it read anew.
fn base64(text: &str) -> Result<String, WrongType> {
    go::base64::decode(text).map(|bytes| BASE64_STANDARD.encode(bytes)).map_err(|wrong| WrongType(wrong.to_string()))
}

#[cfg(test)]
mod tests;
