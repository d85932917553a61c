//! Objects and patches that an expression makes, and other values, as JSON (`pkg/cel/mutation` of apiserver).

use std::{fmt, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map as JsonMap, Number, Value as Json};

use super::{List, Map, Object, Outcome, Value, duration_text};

/// Integers from here on are texts in JSON, as in protobuf's.
const SAFE_END: u64 = 1 << 53;

impl<'v> Object<'v> {
    /// Returns it as JSON, if each object in it has the type of the field that it is in.
    ///
    /// # Errors
    /// One has not, or a value is none that an object may have.
    pub fn to_json(&self) -> Result<Json, String> {
        let mut wrong = Vec::new();
        self.misnamed(&mut self.name().to_owned(), &mut wrong);
        if !wrong.is_empty() {
            return Err(format!("type mismatch: {}", wrong.join("\n")));
        }
        self.native()
    }

    fn misnamed(&self, path: &mut String, wrong: &mut Vec<String>) {
        if *path != *self.name() {
            wrong.push(format!(
                "unexpected type name {}, expected {}, which matches field name path from root Object type",
                go::quote::quoted(self.name()),
                go::quote::quoted(path)
            ));
        }
        for (name, value) in self.fields() {
            let length = path.len();
            path.push('.');
            path.push_str(name);
            misnamed_in(value, path, wrong);
            path.truncate(length);
        }
    }

    fn native(&self) -> Result<Json, String> {
        let field = |(name, value): (&Arc<str>, &Value<'v>)| Ok((name.to_string(), native_field(value)?));
        self.fields().iter().map(field).collect::<Result<JsonMap<_, _>, _>>().map(Json::Object)
    }
}

fn misnamed_in(value: &Value<'_>, path: &mut String, wrong: &mut Vec<String>) {
    match value {
        Value::Object(object) => object.misnamed(path, wrong),
        Value::List(list @ List::Made(_)) => list.iter().flatten().for_each(|element| misnamed_in(&element, path, wrong)),
        Value::Map(map @ Map::Made(_)) => map.entries().iter().for_each(|(_, value)| {
            if let Ok(value) = value {
                misnamed_in(value, path, wrong);
            }
        }),
        _ => {}
    }
}

/// The value of a field. Lists and maps that are made are taken for one level, as there.
fn native_field(value: &Value<'_>) -> Result<Json, String> {
    match value {
        Value::List(list @ List::Made(_)) => list.iter().map(|element| native(&shown(element)?)).collect::<Result<_, _>>().map(Json::Array),
        Value::Map(map @ Map::Made(_)) => map
            .entries()
            .into_iter()
            .map(|(key, value)| match key {
                Value::String(name) => Ok((name.to_string(), native(&shown(value)?)?)),
                key => Err(format!("map key {} is of type {}, not string", go::quote::quoted(&key.to_string()), key.type_name())),
            })
            .collect::<Result<JsonMap<_, _>, _>>()
            .map(Json::Object),
        other => native(other),
    }
}

fn native(value: &Value<'_>) -> Result<Json, String> {
    Ok(match value {
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => (*value).into(),
        Value::Uint(value) => (*value).into(),
        Value::Double(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
        Value::String(text) => Json::String(text.to_string()),
        Value::Object(object) if !object.is_patch() => object.native()?,
        Value::List(List::Json(elements, ..)) => Json::Array(elements.to_vec()),
        Value::Map(Map::Json(members, _)) => Json::Object((*members).clone()),
        Value::Unknown(json) => (*json).clone(),
        other => return Err(format!("a value of the type {} is none that an object may have", other.type_name())),
    })
}

fn shown<'v>(value: Outcome<'v>) -> Result<Value<'v>, String> {
    value.map_err(|error| error.to_string())
}

impl Value<'_> {
    /// Returns it as JSON, as protobuf's values are.
    ///
    /// # Errors
    /// It is of a type that has no JSON.
    pub fn to_json(&self) -> Result<Json, String> {
        Ok(match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) if value.unsigned_abs() < SAFE_END => (*value).into(),
            Self::Int(value) => value.to_string().into(),
            Self::Uint(value) if *value < SAFE_END => (*value).into(),
            Self::Uint(value) => value.to_string().into(),
            Self::Double(value) => Number::from_f64(*value).map_or_else(|| value.to_string().into(), Json::Number),
            Self::String(text) => Json::String(text.to_string()),
            Self::Bytes(bytes) => BASE64_STANDARD.encode(bytes).into(),
            Self::Timestamp(time) => time.to_string().into(),
            Self::Duration(nanos) => duration_text(*nanos).into(),
            Self::List(list) => list.iter().map(|element| shown(element)?.to_json()).collect::<Result<_, _>>().map(Json::Array)?,
            Self::Map(map) => {
                let entry = |(key, value): (Value<'_>, Outcome<'_>)| match key {
                    Value::String(name) => Ok((name.to_string(), shown(value)?.to_json()?)),
                    key => Ok((key.to_string(), shown(value)?.to_json()?)),
                };
                map.entries().into_iter().map(entry).collect::<Result<JsonMap<_, _>, String>>().map(Json::Object)?
            }
            Self::Object(object) if !object.is_patch() => object.to_json()?,
            Self::Unknown(json) => (*json).clone(),
            other => return Err(format!("unsupported type conversion from '{}' to google.protobuf.Value", other.type_name())),
        })
    }
}

impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{{", self.name())?;
        for (at, (name, value)) in self.fields().iter().enumerate() {
            write!(f, "{}{name}: {value}", if at == 0 { "" } else { ", " })?;
        }
        f.write_str("}")
    }
}
