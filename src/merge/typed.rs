//! Values with their types: what is valid, which fields there are, and what two objects or an object and a set make together.

mod atomics;
mod compare;
mod item;
mod merge;
mod reconcile;
mod remove;
mod to_field_set;
mod validate;

pub use compare::Comparison;
pub use reconcile::reconcile_field_set_with_schema;

use std::{borrow::Cow, fmt};

use serde_json::{Map, Value};

use crate::{
    DEPTH_MAX,
    path::{Path, PathElement},
    schema::{Atom, ParseableType, Schema, TypeRef},
    set::Set,
};

/// Whether items of sets and associative lists may be there more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// They may: of objects that are stored or updated.
    Allowed,
    /// They may not: of what is applied.
    Refused,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// The field.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.path, self.message) }
    }
}

/// How many errors of a value are told: what is nested deep has long paths.
pub(crate) const ERRORS_MAX: usize = 1_000;

/// What is wrong with a value, at most a thousand errors; never empty where it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationErrors(pub Vec<ValidationError>);

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [error] = &self.0[..] {
            return error.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for ValidationErrors {}

impl ValidationErrors {
    pub(crate) fn one(message: String) -> Self {
        Self(vec![ValidationError { path: String::new(), message }])
    }

    /// Whether there are none: then it is no error.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the errors of what is below an element.
    fn extend_below(&mut self, below: Self, element: impl FnOnce() -> PathElement) {
        let room = ERRORS_MAX.saturating_sub(self.0.len());
        if below.0.is_empty() || room == 0 {
            return;
        }
        let prefix = element().to_string();
        self.0.extend(below.0.into_iter().take(room).map(|error| ValidationError { path: format!("{prefix}{}", error.path), ..error }));
    }

    fn extend(&mut self, other: Self) {
        let room = ERRORS_MAX.saturating_sub(self.0.len());
        self.0.extend(other.0.into_iter().take(room));
    }

    fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

/// A value and its type.
#[derive(Clone, Debug)]
pub struct TypedValue<'a> {
    value: Cow<'a, Value>,
    of: ParseableType,
}

impl<'a> TypedValue<'a> {
    /// Gives a value a type, if it is valid.
    ///
    /// # Errors
    ///
    /// What is not valid.
    pub fn new(value: Cow<'a, Value>, of: &ParseableType, duplicates: Duplicates) -> Result<Self, ValidationErrors> {
        let typed = Self::unvalidated(value, of);
        typed.validate(duplicates)?;
        Ok(typed)
    }

    /// Gives a value a type that it is known to be of.
    #[must_use]
    pub fn unvalidated(value: Cow<'a, Value>, of: &ParseableType) -> Self {
        Self { value, of: of.clone() }
    }

    /// Gives a value that is kept elsewhere a type that it is known to be of.
    #[must_use]
    pub fn borrowed(value: &'a Value, of: &ParseableType) -> Self {
        Self::unvalidated(Cow::Borrowed(value), of)
    }

    /// Returns the same without a copy.
    #[must_use]
    pub fn borrow(&self) -> TypedValue<'_> {
        TypedValue { value: Cow::Borrowed(&self.value), of: self.of.clone() }
    }

    /// Returns the same with a value of its own.
    #[must_use]
    pub fn into_owned(self) -> TypedValue<'static> {
        TypedValue { value: Cow::Owned(self.value.into_owned()), of: self.of }
    }

    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the value alone.
    #[must_use]
    pub fn into_value(self) -> Cow<'a, Value> {
        self.value
    }

    /// Returns the type.
    #[must_use]
    pub const fn parseable_type(&self) -> &ParseableType {
        &self.of
    }

    /// Returns the paths of the lists and maps in it that are replaced as a whole when it is merged.
    #[must_use]
    pub fn atomics(&self) -> Vec<String> {
        atomics::atomics(&self.of.schema, self.of.type_ref, &self.value)
    }

    /// Checks the value.
    ///
    /// # Errors
    ///
    /// What is not valid.
    pub fn validate(&self, duplicates: Duplicates) -> Result<(), ValidationErrors> {
        validate::validate(self.walk(), &self.value, duplicates)
    }

    /// Returns the fields that the value has.
    ///
    /// # Errors
    ///
    /// The schema does not have a type that it refers to.
    pub fn to_field_set(&self) -> Result<Set, ValidationErrors> {
        to_field_set::to_field_set(self.walk(), &self.value)
    }

    /// Returns what `rhs` has removed, modified and added.
    ///
    /// # Errors
    ///
    /// The types are not the same, or items of a list cannot be told apart.
    pub fn compare(&self, rhs: &TypedValue<'_>) -> Result<Comparison, ValidationErrors> {
        self.check_same_type(rhs)?;
        compare::compare(self.walk(), &self.value, &rhs.value)
    }

    /// Returns this value with what `config` says, or `None` when that changes nothing.
    ///
    /// # Errors
    ///
    /// The types are not the same, or items of a list cannot be told apart.
    pub fn merge(&self, config: &TypedValue<'_>) -> Result<Option<Value>, ValidationErrors> {
        self.check_same_type(config)?;
        merge::merge(self.walk(), &self.value, &config.value)
    }

    /// Returns the value without these fields, or `None` when it has none of them.
    #[must_use]
    pub fn remove_items(&self, items: &Set) -> Option<Value> {
        remove::remove(self.walk(), &self.value, items)
    }

    /// Returns what the value has of these fields.
    #[must_use]
    pub fn extract_items(&self, items: &Set) -> Value {
        remove::extract(self.walk(), &self.value, items)
    }

    /// Returns what the value has of these fields, items of associative lists with their keys.
    #[must_use]
    pub fn extract_items_with_keys(&self, items: &Set) -> Value {
        let Ok(own) = self.to_field_set() else { return self.extract_items(items) };
        let mut keys = Set::new();
        items.iterate(&mut |path| {
            if own.has(&path.0) {
                insert_keys(path, &mut keys);
            }
        });
        self.extract_items(&items.union(&keys))
    }

    fn check_same_type(&self, other: &TypedValue<'_>) -> Result<(), ValidationErrors> {
        if self.of.is_same(&other.of) {
            return Ok(());
        }
        if !std::sync::Arc::ptr_eq(&self.of.schema, &other.of.schema) {
            return Err(ValidationErrors::one("expected objects with types from the same schema".to_owned()));
        }
        let (own, others) = (self.of.name().unwrap_or("inlined"), other.of.name().unwrap_or("inlined"));
        Err(ValidationErrors::one(format!("expected objects of the same type, but got {own} and {others}")))
    }

    fn walk(&self) -> Walk<'_> {
        Walk { schema: &self.of.schema, of: self.of.type_ref, depth: 0 }
    }
}

/// Adds the key fields of the items that a path goes through.
fn insert_keys(path: &Path, keys: &mut Set) {
    for (at, element) in path.0.iter().enumerate() {
        if let PathElement::Key(fields) = element {
            for (name, _) in fields.iter() {
                let mut field = path.0[..=at].to_vec();
                field.push(PathElement::Field(name.clone()));
                keys.insert(&field);
            }
        }
    }
}

/// Where a walk through a value is in its schema.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'s> {
    schema: &'s Schema,
    of: TypeRef,
    depth: usize,
}

/// How a value is taken, of the ways that its type allows.
#[derive(Clone, Copy)]
enum As<'s> {
    Map(&'s crate::schema::Map),
    Scalar(crate::schema::Scalar),
    List(&'s crate::schema::List),
}

/// Which ways of a type are left once the value is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinds {
    All,
    Scalar,
    List,
    Map,
}

impl<'s> Walk<'s> {
    /// The place of what is below, if that is not too deep.
    const fn below(self, of: TypeRef) -> Self {
        Self { schema: self.schema, of, depth: self.depth + 1 }
    }

    /// The type of the place.
    fn atom(self, unnamed: &str) -> Result<&'s Atom, ValidationErrors> {
        if self.depth > DEPTH_MAX {
            return Err(ValidationErrors::one(format!("nested deeper than {DEPTH_MAX}")));
        }
        let atom = self.schema.atom(self.of);
        if atom.is_missing {
            let name = atom.name.as_deref().unwrap_or(unnamed);
            return Err(ValidationErrors::one(format!("schema error: no type found matching: {name}")));
        }
        Ok(atom)
    }

    /// The type of the place, and how it takes `value`.
    fn resolve(self, value: &Value) -> Result<As<'s>, ValidationErrors> {
        let atom = self.atom("inlined type")?;
        handle(atom, deduce(atom, Some(value)))
    }
}

/// Which ways of a type a value leaves: its own, if the type has it; otherwise all. Nothing and null fit everything.
const fn deduce(atom: &Atom, value: Option<&Value>) -> Kinds {
    match value {
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if atom.scalar.is_some() => Kinds::Scalar,
        Some(Value::Array(_)) if atom.list.is_some() => Kinds::List,
        Some(Value::Object(_)) if atom.map.is_some() => Kinds::Map,
        _ => Kinds::All,
    }
}

/// Whether a type has more than one way, so that it makes a difference which is left.
fn same_kinds(atom: &Atom, lhs: Kinds, rhs: Kinds) -> bool {
    let ways = usize::from(atom.scalar.is_some()) + usize::from(atom.list.is_some()) + usize::from(atom.map.is_some());
    lhs == rhs || ways <= 1
}

/// The way that is taken of those that are left.
fn handle(atom: &Atom, kinds: Kinds) -> Result<As<'_>, ValidationErrors> {
    match (kinds, &atom.map, atom.scalar, &atom.list) {
        (Kinds::All | Kinds::Map, Some(map), ..) => Ok(As::Map(map)),
        (Kinds::All | Kinds::Scalar, _, Some(scalar), _) => Ok(As::Scalar(scalar)),
        (Kinds::All | Kinds::List, _, _, Some(list)) => Ok(As::List(list)),
        _ => {
            let name = atom.name.as_deref().map_or_else(|| "inlined".to_owned(), |name| format!("named type: {name}"));
            Err(ValidationErrors::one(format!("schema error: invalid atom: {name}")))
        }
    }
}

/// A value's items, if it is a list.
fn items(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array).map(Vec::as_slice)
}

/// A value's members, if it is a map.
fn members(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// Goes through the members of two maps in order, each name once.
fn zip_members<'v>(
    lhs: Option<&'v Map<String, Value>>,
    rhs: Option<&'v Map<String, Value>>,
    mut each: impl FnMut(&'v str, Option<&'v Value>, Option<&'v Value>),
) {
    let mut left = lhs.into_iter().flatten().peekable();
    let mut right = rhs.into_iter().flatten().peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((lname, _)), Some((rname, _))) => lname.cmp(rname),
        };
        let lmember = if order.is_le() { left.next() } else { None };
        let rmember = if order.is_ge() { right.next() } else { None };
        let name = lmember.or(rmember).map_or("", |(name, _)| name.as_str());
        each(name, lmember.map(|(_, value)| value), rmember.map(|(_, value)| value));
    }
}

#[cfg(test)]
pub(crate) mod tests;
