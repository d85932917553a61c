//! Maps and objects: of an object, or made.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map as JsonMap, Value as Json};

use super::{Error, Outcome, Text, Value, double_to_int, double_to_uint};
use crate::{made, shape::Fields};

/// A map or an object.
#[derive(Clone, Debug)]
pub enum Map<'v> {
    /// One that was made, by key; an entry keeps the key as it was written.
    Made(Arc<BTreeMap<Key<'v>, (Value<'v>, Value<'v>)>>),
    /// One of an object, and what its fields are.
    Json(&'v JsonMap<String, Json>, &'v Fields),
}

/// What entries are found by: numbers that are equal are one key, whatever their type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key<'v> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number above all of `Int`.
    Uint(u64),
    /// The bits of a number that is not whole.
    Double(u64),
    /// A text.
    Text(Text<'v>),
    /// A value that nothing is equal to as a key, by its place.
    Unequal(usize),
}

impl<'v> Key<'v> {
    /// Returns the key that a value is.
    #[must_use]
    pub fn of(value: &Value<'v>) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::unsigned(*value),
            Value::Double(value) => match (double_to_int(*value), double_to_uint(*value)) {
                (Some(int), _) if int as f64 == *value => Self::Int(int),
                (_, Some(uint)) if uint as f64 == *value => Self::unsigned(uint),
                _ => Self::Double(value.to_bits()),
            },
            Value::String(text) => Self::Text(text.clone()),
            _ => return None,
        })
    }

    fn unsigned(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Uint(value), Self::Int)
    }
}

/// Makes a map.
#[derive(Debug, Default)]
pub struct MapBuilder<'v> {
    entries: BTreeMap<Key<'v>, (Value<'v>, Value<'v>)>,
}

impl<'v> MapBuilder<'v> {
    /// Sets an entry; a later one replaces an earlier one.
    ///
    /// # Errors
    /// The key is of a type that no key may have.
    pub fn insert(&mut self, key: Value<'v>, value: Value<'v>) -> Result<(), Error> {
        self.entries.insert(place(&key, self.entries.len())?, (key, value));
        Ok(())
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, key: &Value<'v>) {
        if let Some(place) = Key::of(key) {
            self.entries.remove(&place);
        }
    }

    /// Returns the map.
    #[must_use]
    pub fn build(self) -> Value<'v> {
        Value::Map(Map::Made(Arc::new(self.entries)))
    }
}

impl<'v> Map<'v> {
    /// Returns how many entries it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Made(entries) => entries.len(),
            Self::Json(members, _) => members.len(),
        }
    }

    /// Returns whether it has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// The key is of a wrong type, or the value not of its shape.
    pub fn find(&self, key: &Value<'v>) -> Option<Outcome<'v>> {
        match self {
            Self::Made(entries) => entries.get(&Key::of(key)?).map(|(_, value)| Ok(value.clone())),
            Self::Json(members, fields) => match key {
                Value::String(text) => fields.find(members, text),
                // A map that has no schema has no other keys; one that has a schema refuses them.
                _ if fields.is_any() => None,
                _ => Some(Err(Error::no_such_overload())),
            },
        }
    }

    /// Returns the value of a field.
    ///
    /// # Errors
    /// The value is not of its shape.
    pub fn field(&self, name: &str) -> Option<Outcome<'v>> {
        match self {
            Self::Made(entries) => {
                // The entries live for longer than the key that is looked up.
                let entries: &BTreeMap<Key<'_>, (Value<'v>, Value<'v>)> = entries;
                find_text(entries, name).map(|value| Ok(value.clone()))
            }
            Self::Json(members, fields) => fields.find(members, name),
        }
    }

    /// Returns its keys; of an object, those that it declares.
    pub fn keys(&self) -> Vec<Value<'v>> {
        match self {
            Self::Made(entries) => entries.values().map(|(key, _)| key.clone()).collect(),
            Self::Json(members, fields) => fields.keys(members),
        }
    }

    /// Returns its entries.
    ///
    /// # Errors
    /// The value is not of its shape.
    pub fn entries(&self) -> Vec<(Value<'v>, Outcome<'v>)> {
        match self {
            Self::Made(entries) => entries.values().map(|(key, value)| (key.clone(), Ok(value.clone()))).collect(),
            Self::Json(..) => self
                .keys()
                .into_iter()
                .filter_map(|key| {
                    let value = self.find(&key)?;
                    Some((key, value))
                })
                .collect(),
        }
    }

    /// Returns one entry.
    pub(crate) fn first(&self) -> Option<(Value<'v>, Outcome<'v>)> {
        match self {
            Self::Made(entries) => entries.values().next().map(|(key, value)| (key.clone(), Ok(value.clone()))),
            Self::Json(members, fields) => {
                let (name, member) = members.iter().find_map(|(name, member)| Some((name, (member, fields.shape(name)?))))?;
                Some((Value::text(name), Value::of_shape(member.0, member.1)))
            }
        }
    }

    /// Sets an entry that must not be there yet; a map that nobody else has is not copied.
    pub(crate) fn inserted(self, key: Value<'v>, value: Value<'v>) -> Outcome<'v> {
        let mut entries = match self {
            Self::Made(entries) => entries,
            other => {
                let mut builder = MapBuilder::default();
                for (key, value) in other.entries() {
                    builder.insert(key, value?)?;
                }
                Arc::new(builder.entries)
            }
        };
        let place = place(&key, entries.len())?;
        if entries.contains_key(&place) {
            return Err(Error::new(format!("insert failed: key {key} already exists")));
        }
        Arc::make_mut(&mut entries).insert(place, (key, value));
        Ok(Value::Map(Map::Made(entries)))
    }
}

/// Returns what an entry is found by in a map that has so many already.
fn place<'v>(key: &Value<'v>, entries: usize) -> Result<Key<'v>, Error> {
    match key {
        // As Go panics.
        Value::Bytes(_) => Err(Error::new("internal error: runtime error: hash of unhashable type types.Bytes")),
        _ => Ok(Key::of(key).unwrap_or(Key::Unequal(entries))),
    }
}

/// Returns the value of a text. Its own function: the lifetime of keys is shortened to that of `name`.
fn find_text<'m, 'v, 'k>(entries: &'m BTreeMap<Key<'k>, (Value<'v>, Value<'v>)>, name: &'k str) -> Option<&'m Value<'v>> {
    entries.get(&Key::Text(Text::Borrowed(name))).map(|(_, value)| value)
}

/// An object or an operation of a patch.
#[derive(Clone, Debug)]
pub struct Object<'v> {
    name: Arc<str>,
    fields: Arc<BTreeMap<Arc<str>, Value<'v>>>,
}

impl<'v> Object<'v> {
    /// Makes an object of this type.
    ///
    /// # Errors
    /// There is no such type.
    pub(crate) fn made(name: &Arc<str>, fields: Vec<(Arc<str>, Value<'v>)>) -> Result<Self, Error> {
        if !made::is_made(name) {
            return Err(Error::new(format!("unknown type '{name}'")));
        }
        Ok(Self { name: name.clone(), fields: Arc::new(fields.into_iter().collect()) })
    }

    /// Returns the name of its type.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it is an operation of a patch.
    #[must_use]
    pub fn is_patch(&self) -> bool {
        made::is_patch(&self.name)
    }

    /// Returns its fields.
    #[must_use]
    pub fn fields(&self) -> &BTreeMap<Arc<str>, Value<'v>> {
        &self.fields
    }

    /// Returns a field: null if it is not set, none if it may be absent and is.
    ///
    /// # Errors
    /// It has no field of this name.
    pub(crate) fn find<'k>(&self, key: &'k Value<'v>, may_be_absent: bool) -> Result<Option<Value<'v>>, &'k Value<'v>> {
        let Value::String(name) = key else { return Err(key) };
        match self.fields.get(&**name) {
            Some(value) => Ok(Some(value.clone())),
            None if may_be_absent => Ok(None),
            None if made::is_text(&self.name, name) => Ok(Some(Value::text(""))),
            None => Ok(Some(Value::Null)),
        }
    }
}
