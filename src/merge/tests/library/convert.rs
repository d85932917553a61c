//! The converters of structured-merge-diff's tests.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Map, Value};
use watchcache_merge::{ConvertError, Converter, Duplicates, ParseableType, Schema, TypedValue};

/// How the versions of a case relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// All are the same.
    Same,
    /// Names end with the version.
    Renamed,
    /// Names are one letter, as often as the version says.
    Repeated,
    /// A field of one is made of one that the other must have.
    Reliant,
}

pub(crate) struct TestConverter {
    pub(crate) relation: Relation,
    pub(crate) schema: Arc<Schema>,
    /// The type of all versions, where they have one.
    pub(crate) same: Option<ParseableType>,
}

impl TestConverter {
    fn of(&self, value: Value, version: &str) -> Result<TypedValue<'static>, ConvertError> {
        let of = self.same.clone().or_else(|| ParseableType::of(&self.schema, version));
        let of = of.ok_or_else(|| ConvertError::Failed(format!("schema error: no type found matching: {version}")))?;
        TypedValue::new(Cow::Owned(value), &of, Duplicates::Refused).map_err(|e| ConvertError::Failed(e.to_string()))
    }
}

impl Converter for TestConverter {
    fn convert<'a>(&self, object: &'a TypedValue<'_>, version: &str) -> Result<TypedValue<'a>, ConvertError> {
        let from = object.parseable_type().name().unwrap_or_default();
        let missing = || ConvertError::MissingVersion("cannot convert to invalid version".to_owned());
        match self.relation {
            Relation::Same if version.is_empty() => Err(ConvertError::Failed("cannot convert to invalid version: \"\"".to_owned())),
            Relation::Same => Ok(object.borrow()),
            Relation::Renamed => self.of(renamed(object.value(), from, version), version),
            Relation::Repeated => {
                let times = version.strip_prefix('v').and_then(|number| number.parse().ok()).ok_or_else(missing)?;
                self.of(repeated_first(object.value(), times), version)
            }
            Relation::Reliant if from == version => Ok(object.borrow()),
            Relation::Reliant => {
                let text = object.value().to_string();
                let (own, others) = ("required_field_bar", "field_foo_rely_on_bar");
                let converted = match version {
                    "v1" if text.contains(own) => text.replace(own, others),
                    "v1" => return Err(ConvertError::Failed("missing requried field bar".to_owned())),
                    "v2" => text.replace(others, own),
                    _ => return Err(missing()),
                };
                self.of(serde_json::from_str(&converted).expect("names have no quotes"), version)
            }
        }
    }
}

fn renamed(value: &Value, from: &str, to: &str) -> Value {
    match value {
        Value::Object(members) => {
            let rename = |(name, member): (&String, &Value)| {
                let name = name.strip_suffix(from).map_or_else(|| name.clone(), |stem| format!("{stem}{to}"));
                (name, renamed(member, from, to))
            };
            Value::Object(members.iter().map(rename).collect())
        }
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Array(items) => items.iter().map(|item| renamed(item, from, to)).collect(),
        _ => value.clone(),
    }
}

/// The first field as it is, and below it names alone.
fn repeated_first(value: &Value, times: usize) -> Value {
    let Some((name, below)) = value.as_object().and_then(|members| members.iter().next()) else { return value.clone() };
    let below = match below {
        Value::Object(members) if !members.is_empty() => repeated(members, times),
        _ => below.clone(),
    };
    Value::Object(Map::from_iter([(name.clone(), below)]))
}

fn repeated(members: &Map<String, Value>, times: usize) -> Value {
    let rename = |(name, below): (&String, &Value)| {
        let below = match below {
            Value::Object(members) if !members.is_empty() => repeated(members, times),
            _ => Value::Null,
        };
        (name.chars().next().map(String::from).unwrap_or_default().repeat(times), below)
    };
    Value::Object(members.iter().map(rename).collect())
}
