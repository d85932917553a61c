//! Types as they are written down: what schemas are made of.

use serde_json::Value;

use super::{DEDUCED, ElementRelationship, Scalar, UNTYPED};

/// A type with a name.
#[derive(Clone, Debug)]
pub struct TypeDef {
    /// By which others refer to it.
    pub name: String,
    /// What it is.
    pub atom: Atom,
}

/// What a value may be. Nothing is valid where nothing is set.
#[derive(Clone, Debug, Default)]
pub struct Atom {
    /// A scalar.
    pub scalar: Option<Scalar>,
    /// A list.
    pub list: Option<Box<List>>,
    /// A map.
    pub map: Option<Box<Map>>,
}

/// A reference to a type, or a type without a name.
#[derive(Clone, Debug, Default)]
pub struct TypeRef {
    /// The name of the type.
    pub named: Option<String>,
    /// The type, where it has no name.
    pub inlined: Atom,
    /// How the elements belong together here, whatever the type says.
    pub relationship: Option<ElementRelationship>,
}

/// A list.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The type of its items.
    pub element_type: TypeRef,
    /// How they belong together.
    pub relationship: Option<ElementRelationship>,
    /// The fields by which items are told apart.
    pub keys: Vec<String>,
}

/// A map or structure.
#[derive(Clone, Debug, Default)]
pub struct Map {
    /// Its declared fields.
    pub fields: Vec<StructField>,
    /// The type of the others.
    pub element_type: TypeRef,
    /// How they belong together.
    pub relationship: Option<ElementRelationship>,
}

/// A declared field.
#[derive(Clone, Debug, Default)]
pub struct StructField {
    /// Its name.
    pub name: String,
    /// Its type.
    pub of: TypeRef,
    /// What it is when it is not there.
    pub default: Option<Value>,
}

impl TypeRef {
    /// Makes a reference by name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { named: Some(name.to_owned()), ..Self::default() }
    }

    /// Whether it says nothing.
    pub(super) const fn is_empty(&self) -> bool {
        let Atom { scalar, list, map } = &self.inlined;
        self.named.is_none() && self.relationship.is_none() && scalar.is_none() && list.is_none() && map.is_none()
    }
}

/// Returns the types of what has none, which the schemas of documents have besides their own.
#[must_use]
pub fn common_types() -> Vec<TypeDef> {
    let common = |name: &str, members: ElementRelationship| TypeDef {
        name: name.to_owned(),
        atom: Atom {
            scalar: Some(Scalar::Untyped),
            list: Some(Box::new(List {
                element_type: TypeRef::named(UNTYPED),
                relationship: Some(ElementRelationship::Atomic),
                keys: Vec::new(),
            })),
            map: Some(Box::new(Map { fields: Vec::new(), element_type: TypeRef::named(name), relationship: Some(members) })),
        },
    };
    vec![common(UNTYPED, ElementRelationship::Atomic), common(DEDUCED, ElementRelationship::Separable)]
}
