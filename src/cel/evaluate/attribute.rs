//! Names, fields and elements. Each qualifier costs one, and so does the name or the value before them.

use super::{Run, Slot};
use crate::{
    plan::{Attribute, Qualifier, QualifierKey, Root, go_type, is_key},
    value::{Error, List, Outcome, Text, Value, double_to_int},
};

impl<'v> Run<'v> {
    pub(super) fn attribute(&mut self, attribute: &'v Attribute) -> Outcome<'v> {
        let outcome = self.resolve(attribute);
        if matches!(outcome, Err(Error::CostExceeded)) {
            return outcome;
        }
        if !matches!(attribute.root, Root::Conditional(..)) {
            self.charge(1)?;
        }
        outcome
    }

    /// Whether a field is there. Costs what its qualifiers do.
    pub(super) fn test(&mut self, attribute: &'v Attribute) -> Outcome<'v> {
        match self.resolve(attribute)? {
            Value::Optional(value) => Ok(Value::Bool(value.is_some())),
            other => Ok(other),
        }
    }

    fn resolve(&mut self, attribute: &'v Attribute) -> Outcome<'v> {
        let value = match &attribute.root {
            Root::Local(slot) => self.local(*slot)?,
            Root::Variable(at) => match &self.variables[*at] {
                Some(value) => value.clone()?,
                None => return Err(Error::new(format!("no such attribute(s): {}", self.names.variables[*at]))),
            },
            Root::Node(node) => self.node(node)?,
            Root::Conditional(parts) => match self.node(&parts.0)? {
                Value::Bool(value) => self.resolve(if value { &parts.1 } else { &parts.2 })?,
                _ => return Err(Error::no_such_overload()),
            },
        };
        if attribute.qualifiers.is_empty() { Ok(value) } else { self.qualified(value, &attribute.qualifiers) }
    }

    /// Returns a variable of a loop, computed if this is the first time that it is needed.
    fn local(&mut self, slot: usize) -> Outcome<'v> {
        match &self.slots[slot] {
            Slot::Is(value) => value.clone(),
            Slot::Later(node) => {
                let node = *node;
                let value = self.node(node);
                self.slots[slot] = Slot::Is(value.clone());
                value
            }
        }
    }

    fn qualified(&mut self, value: Value<'v>, qualifiers: &'v [Qualifier]) -> Outcome<'v> {
        let (mut value, mut is_optional) = match value {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => ((*value).clone(), true),
            other => (other, false),
        };
        for qualifier in qualifiers {
            is_optional |= qualifier.optional;
            match self.qualify(&value, qualifier, is_optional)? {
                Some(found) => value = found,
                None => return Ok(Value::Optional(None)),
            }
        }
        Ok(if is_optional { Value::some(value) } else { value })
    }

    /// Returns a field or an element; none if it may be absent and is.
    fn qualify(&mut self, value: &Value<'v>, qualifier: &'v Qualifier, is_optional: bool) -> Result<Option<Value<'v>>, Error> {
        let key = match &qualifier.key {
            QualifierKey::Field(name) => Ok(Value::String(Text::Borrowed(name))),
            QualifierKey::Const(key) => Ok(key.borrowed()),
            QualifierKey::Attribute(attribute) => self.resolve(attribute),
            QualifierKey::Node(node) => self.node(node),
        };
        if matches!(key, Err(Error::CostExceeded)) {
            return Err(Error::CostExceeded);
        }
        let found = key.and_then(|key| match &qualifier.key {
            QualifierKey::Attribute(_) | QualifierKey::Node(_) if !is_key(&key) => {
                Err(Error::new(format!("invalid qualifier type: {}", go_type(&key))))
            }
            _ => find(value, &key, is_optional || qualifier.test),
        });
        let is_charged = !is_optional || matches!(found, Ok(Some(_)));
        self.charge(u64::from(is_charged))?;
        match found? {
            None if qualifier.test && !is_optional => Ok(Some(Value::Bool(false))),
            None => Ok(None),
            Some(_) if qualifier.test => Ok(Some(Value::Bool(true))),
            found => Ok(found),
        }
    }
}

/// Returns what a value has for a key; none if it may be absent and is.
fn find<'v>(value: &Value<'v>, key: &Value<'v>, may_be_absent: bool) -> Result<Option<Value<'v>>, Error> {
    let found = match value {
        Value::Map(map) => map.find(key),
        Value::List(list) => element(list, key)?,
        Value::Object(object) => return object.find(key, may_be_absent).map_err(|key| Error::new(format!("no such key: {key}"))),
        _ => None,
    };
    match found {
        Some(found) => found.map(Some),
        None if may_be_absent => Ok(None),
        None if matches!(value, Value::List(_)) => Err(Error::new(format!("index out of bounds: {key}"))),
        None => Err(Error::new(format!("no such key: {key}"))),
    }
}

fn element<'v>(list: &List<'v>, key: &Value<'v>) -> Result<Option<Outcome<'v>>, Error> {
    let unsupported = || Error::new(format!("unsupported index value {key} in list"));
    let at = match key {
        Value::Int(at) => *at,
        Value::Uint(at) => i64::try_from(*at).map_err(|_| unsupported())?,
        Value::Double(at) => double_to_int(*at).filter(|_| at.fract() == 0.0).ok_or_else(unsupported)?,
        other => return Err(Error::new(format!("unsupported index type '{}' in list", other.type_name()))),
    };
    Ok(usize::try_from(at).ok().and_then(|at| list.get(at)))
}
