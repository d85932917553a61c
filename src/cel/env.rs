//! Environments: the variables, types and functions that expressions may use.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{functions::Functions, made, shape::is_word, types::Type};

/// Types that every environment has, by the names that expressions have for them.
const TYPES: [(&str, Type); 10] = [
    ("bool", Type::Bool),
    ("bytes", Type::Bytes),
    ("double", Type::Double),
    ("google.protobuf.Duration", Type::Duration),
    ("int", Type::Int),
    ("null_type", Type::Null),
    ("string", Type::String),
    ("google.protobuf.Timestamp", Type::Timestamp),
    ("type", Type::Type(None)),
    ("uint", Type::Uint),
];

/// What expressions may use.
#[derive(Clone, Debug)]
pub struct Env {
    variables: HashMap<Arc<str>, Type>,
    objects: HashMap<Arc<str>, BTreeMap<Box<str>, Type>>,
    types: HashMap<Arc<str>, Type>,
    pub(crate) functions: Arc<Functions>,
    /// Whether the elements of a list, and the keys and values of a map, must be of one type, and literals of durations, times and regular expressions be
    /// some.
    pub(crate) strict: bool,
    /// Whether expressions may make objects and patches: see [`Self::with_patches`].
    makes_patches: bool,
}

/// No object is declared by a name.
#[derive(Debug)]
pub(crate) struct NoSuchObject;

/// What a name is.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    Variable(Type),
    /// A type, by the name of its values' type.
    TypeName(Type),
}

impl Env {
    /// Returns an environment with these functions.
    #[must_use]
    pub fn new(functions: Arc<Functions>) -> Self {
        let mut types: HashMap<Arc<str>, Type> = TYPES.into_iter().map(|(name, kind)| (name.into(), kind)).collect();
        types.insert("list".into(), Type::list(Type::param("A")));
        types.insert("map".into(), Type::map(Type::param("A"), Type::param("B")));
        types.insert("optional_type".into(), Type::optional(Type::Dyn));
        Self { variables: HashMap::new(), objects: HashMap::new(), types, functions, strict: false, makes_patches: false }
    }

    /// Refuses lists and maps of several types, and literals that are none, as Kubernetes does.
    #[must_use]
    pub const fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Declares `JSONPatch`, and `Object` with any field; what is below a field is `Object.field`.
    #[must_use]
    pub const fn with_patches(mut self) -> Self {
        self.makes_patches = true;
        self
    }

    /// Declares a variable.
    #[must_use]
    pub fn variable(mut self, name: &str, kind: Type) -> Self {
        self.variables.insert(name.into(), kind);
        self
    }

    /// Declares an object's type with its fields, by the names that expressions have for them.
    #[must_use]
    pub fn object<N: Into<Box<str>>>(mut self, name: &str, fields: impl IntoIterator<Item = (N, Type)>) -> Self {
        self.objects.insert(name.into(), fields.into_iter().map(|(name, kind)| (name.into(), kind)).collect());
        self
    }

    /// Declares one more field of an object's type.
    #[must_use]
    pub fn field(mut self, object: &str, name: &str, kind: Type) -> Self {
        self.objects.entry(object.into()).or_default().insert(name.into(), kind);
        self
    }

    /// Declares a name for a type of a library.
    #[must_use]
    pub fn named_type(mut self, kind: Type) -> Self {
        self.types.insert(kind.name().into(), kind);
        self
    }

    pub(crate) fn named(&self, name: &str) -> Option<Named> {
        if let Some(kind) = self.variables.get(name) {
            return Some(Named::Variable(kind.clone()));
        }
        if self.objects.contains_key(name) || self.makes_patches && made::is_made(name) {
            return Some(Named::TypeName(Type::object(name)));
        }
        self.types.get(name).cloned().map(Named::TypeName)
    }

    /// Returns the type of a field, which a field of this name may have in escaped form.
    ///
    /// # Errors
    /// There is no such object.
    pub(crate) fn field_of(&self, object: &str, name: &str) -> Result<Option<Type>, NoSuchObject> {
        if self.makes_patches && made::is_made(object) {
            return Ok(made::field_of(object, name));
        }
        let fields = self.objects.get(object).ok_or(NoSuchObject)?;
        let escaped = || if is_word(name) { fields.get(&*format!("__{name}__")) } else { None };
        Ok(fields.get(name).or_else(escaped).cloned())
    }
}
