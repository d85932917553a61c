//! Types: what a value may be, and which of its parts may belong to different managers.

mod compile;
pub mod definition;
pub mod openapi;

use std::{cell::Cell, cmp::Ordering, collections::HashMap, sync::Arc};

use serde_json::Value;

use crate::path::PathElement;

/// The name of the type of what is a leaf as a whole, whatever it is.
pub const UNTYPED: &str = "__untyped_atomic_";

/// The name of the type of what has none: maps are granular, lists atomic.
pub const DEDUCED: &str = "__untyped_deduced_";

/// Types that refer to each other.
#[derive(Debug)]
pub struct Schema {
    /// The first one is no type.
    atoms: Vec<Atom>,
    names: HashMap<Box<str>, TypeRef>,
}

/// A reference to a type of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeRef(u32);

impl TypeRef {
    /// No type: nothing of it may be there.
    pub(crate) const NONE: Self = Self(0);
}

/// What a value may be: a scalar, a list, a map, or one of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atom {
    /// Its name, or that of the type that is missing.
    pub(crate) name: Option<Box<str>>,
    /// A reference led nowhere.
    pub(crate) is_missing: bool,
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<Arc<List>>,
    pub(crate) map: Option<Arc<Map>>,
}

/// What a scalar may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A number.
    Numeric,
    /// A string.
    String,
    /// A boolean.
    Boolean,
    /// Any of these.
    Untyped,
}

/// How the elements of a list or map belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementRelationship {
    /// Of lists: each item is found by its keys, or by itself.
    Associative,
    /// All have one manager.
    Atomic,
    /// Of maps: each has its own.
    Separable,
}

/// A list.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) element_type: TypeRef,
    pub(crate) relationship: Option<ElementRelationship>,
    /// The fields by which an associative list's items are told apart, with what they are when an item does not have them. Without any it is a set.
    pub(crate) keys: Vec<Key>,
}

/// A key of an associative list.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: Box<str>,
    pub(crate) default: KeyDefault,
}

/// What an item without a key has.
#[derive(Clone, Debug)]
pub(crate) enum KeyDefault {
    Value(Value),
    None,
    /// The library cannot tell, for this reason.
    Wrong(&'static str),
}

/// A map, or a structure whose fields are declared.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    /// Sorted by name.
    pub(crate) fields: Vec<Field>,
    /// The type of the fields that are not declared.
    pub(crate) element_type: TypeRef,
    pub(crate) relationship: Option<ElementRelationship>,
    /// Nothing is declared, and what it has is untyped.
    pub(crate) is_deduced: bool,
}

/// A declared field.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: Box<str>,
    pub(crate) element: PathElement,
    pub(crate) element_type: TypeRef,
    /// What it is when it is not there: an item is found by it when it is a key.
    pub(crate) default: Option<Box<Value>>,
}

impl Map {
    /// The declared field of this name.
    pub(crate) fn field(&self, name: &[u8]) -> Option<&Field> {
        self.fields.binary_search_by(|field| field.name.as_bytes().cmp(name)).ok().map(|at| &self.fields[at])
    }

    /// Whether a field is declared, and its type.
    pub(crate) fn member(&self, name: &[u8]) -> (bool, TypeRef) {
        self.field(name).map_or((false, self.element_type), |field| (true, field.element_type))
    }

    pub(crate) fn is_atomic(&self) -> bool {
        self.relationship == Some(ElementRelationship::Atomic)
    }

    /// A way through the declared fields for who asks for names in order.
    pub(crate) const fn walk(&self) -> FieldWalk<'_> {
        FieldWalk { map: self, at: Cell::new(0) }
    }
}

/// Finds declared fields by names that come in order.
pub(crate) struct FieldWalk<'s> {
    map: &'s Map,
    at: Cell<usize>,
}

impl<'s> FieldWalk<'s> {
    /// The declared field of this name, and the type of what has it.
    pub(crate) fn find(&self, name: &str) -> (Option<&'s Field>, TypeRef) {
        let rest = &self.map.fields[self.at.get()..];
        // Most fields are a few further on.
        let mut passed = 0;
        for field in rest.iter().take(NEAR) {
            match (*field.name).cmp(name) {
                Ordering::Less => passed += 1,
                Ordering::Equal => {
                    self.at.set(self.at.get() + passed + 1);
                    return (Some(field), field.element_type);
                }
                Ordering::Greater => break,
            }
        }
        if passed == NEAR {
            let (found, further) = match rest[passed..].binary_search_by(|field| (*field.name).cmp(name)) {
                Ok(further) => (Some(&rest[passed + further]), further + 1),
                Err(further) => (None, further),
            };
            self.at.set(self.at.get() + passed + further);
            if let Some(field) = found {
                return (Some(field), field.element_type);
            }
        } else {
            self.at.set(self.at.get() + passed);
        }
        (None, self.map.element_type)
    }

    /// The path element of a field, which is made for those that are not declared.
    pub(crate) fn element(field: Option<&Field>, name: &str) -> PathElement {
        field.map_or_else(|| PathElement::field(name), |field| field.element.clone())
    }
}

/// How many fields are looked at one by one before the others are searched.
const NEAR: usize = 4;

impl List {
    pub(crate) fn is_atomic(&self) -> bool {
        self.relationship == Some(ElementRelationship::Atomic)
    }

    pub(crate) fn is_associative(&self) -> bool {
        self.relationship == Some(ElementRelationship::Associative)
    }
}

impl Schema {
    /// Returns the type of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<TypeRef> {
        self.names.get(name).copied()
    }

    pub(crate) fn atom(&self, of: TypeRef) -> &Atom {
        &self.atoms[of.0 as usize]
    }
}

/// A type with the schema that it is of.
#[derive(Clone, Debug)]
pub struct ParseableType {
    pub(crate) schema: Arc<Schema>,
    pub(crate) type_ref: TypeRef,
}

impl ParseableType {
    /// Finds a type by its name.
    #[must_use]
    pub fn of(schema: &Arc<Schema>, name: &str) -> Option<Self> {
        Some(Self { type_ref: schema.find(name)?, schema: Arc::clone(schema) })
    }

    /// Makes the type of what has none.
    ///
    /// # Panics
    ///
    /// Never: its schema has it.
    #[must_use]
    pub fn deduced() -> Self {
        let schema = Arc::new(Schema::new(definition::common_types()));
        Self::of(&schema, DEDUCED).expect("the common types have it")
    }

    /// Returns the name of the type, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.schema.atom(self.type_ref).name.as_deref()
    }

    /// Returns whether both are the same type of the same schema.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.schema, &other.schema) && self.type_ref == other.type_ref
    }
}

#[cfg(test)]
mod tests;
