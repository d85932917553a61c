//! The types of the language, as declarations, the checker and its errors name them.

use std::{fmt, sync::Arc};

/// The name of the type of values that may be absent.
pub(crate) const OPTIONAL: &str = "optional_type";
/// Parts that one type may have: what is built of more is refused, for each step of an expression may double a type.
pub(crate) const PARTS_MAX: u32 = 1_000;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Any value: what it is shows when it is evaluated.
    Dyn,
    /// What an expression has that is wrong.
    Error,
    /// A boolean.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// An unsigned integer of 64 bits.
    Uint,
    /// A floating-point number of 64 bits.
    Double,
    /// A text.
    String,
    /// Bytes.
    Bytes,
    /// The type of `null`.
    Null,
    /// A point in time.
    Timestamp,
    /// A length of time.
    Duration,
    /// A list of elements of one type.
    List(Arc<Type>),
    /// A map from keys to values.
    Map(Arc<(Type, Type)>),
    /// The type of a type, if that is known.
    Type(Option<Arc<Type>>),
    /// A type of a library, with what it is of.
    Opaque(Arc<Opaque>),
    /// An object with fields, by its name.
    Object(Arc<str>),
    /// A parameter of a declaration, or a type that is not known yet.
    Param(Arc<str>),
}

/// A type of a library.
#[derive(Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Its name.
    pub name: Arc<str>,
    /// The types that it is of.
    pub params: Vec<Type>,
}

impl Type {
    /// Returns the type of lists of `items`.
    #[must_use]
    pub fn list(items: Self) -> Self {
        Self::List(Arc::new(items))
    }

    /// Returns the type of maps from `keys` to `values`.
    #[must_use]
    pub fn map(keys: Self, values: Self) -> Self {
        Self::Map(Arc::new((keys, values)))
    }

    /// Returns the type of values that may be absent.
    #[must_use]
    pub fn optional(of: Self) -> Self {
        Self::opaque_of(OPTIONAL, vec![of])
    }

    /// Returns a type of a library that is of no other types.
    #[must_use]
    pub fn opaque(name: &str) -> Self {
        Self::opaque_of(name, Vec::new())
    }

    /// Returns a type of a library.
    #[must_use]
    pub fn opaque_of(name: &str, params: Vec<Self>) -> Self {
        Self::Opaque(Arc::new(Opaque { name: name.into(), params }))
    }

    /// Returns the type of objects of this name.
    #[must_use]
    pub fn object(name: &str) -> Self {
        Self::Object(name.into())
    }

    /// Returns the parameter of this name.
    #[must_use]
    pub fn param(name: &str) -> Self {
        Self::Param(name.into())
    }

    /// Returns the type of the type `of`.
    #[must_use]
    pub fn type_of(of: Self) -> Self {
        Self::Type(Some(Arc::new(of)))
    }

    /// Returns the types that it is built of.
    #[must_use]
    pub fn params(&self) -> Vec<&Self> {
        match self {
            Self::List(items) => vec![items],
            Self::Map(of) => vec![&of.0, &of.1],
            Self::Type(Some(of)) => vec![of],
            Self::Opaque(opaque) => opaque.params.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the type of a variable that an expression of this type declares: of others than plain ones, lists and maps nothing is known.
    #[must_use]
    pub fn declared(&self) -> Self {
        match self {
            Self::Bool
            | Self::Bytes
            | Self::Double
            | Self::Duration
            | Self::Int
            | Self::Null
            | Self::String
            | Self::Timestamp
            | Self::Uint => self.clone(),
            Self::List(items) => Self::list(items.declared()),
            Self::Map(map) => Self::map(map.0.declared(), map.1.declared()),
            _ => Self::Dyn,
        }
    }

    /// Returns what an optional type is of.
    #[must_use]
    pub fn unwrapped(&self) -> Option<&Self> {
        match self {
            Self::Opaque(opaque) if &*opaque.name == OPTIONAL => opaque.params.first(),
            _ => None,
        }
    }

    /// Returns the name that a value of it has at run time.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Error => "error",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Null => "null_type",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Opaque(opaque) => &opaque.name,
            Self::Object(name) | Self::Param(name) => name,
        }
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether a size is known of each value of it: it is 1.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            _ => self.unwrapped().is_some_and(Self::is_scalar),
        }
    }

    /// Counts its parts, at most up to `PARTS_MAX`.
    pub(crate) fn parts(&self) -> u32 {
        let mut left = PARTS_MAX;
        self.count(&mut left);
        PARTS_MAX - left
    }

    fn count(&self, left: &mut u32) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        for param in self.params() {
            param.count(left);
        }
    }
}

impl fmt::Display for Type {
    /// Prints it as errors of the checker do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => return f.write_str("!error!"),
            Self::Null => return f.write_str("null"),
            Self::Timestamp => return f.write_str("timestamp"),
            Self::Duration => return f.write_str("duration"),
            _ => f.write_str(self.name())?,
        }
        let params = self.params();
        for (at, param) in params.iter().enumerate() {
            write!(f, "{}{param}", if at == 0 { "(" } else { ", " })?;
        }
        if params.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_checkers_names() {
        for (one, text) in [
            (Type::list(Type::Timestamp), "list(timestamp)"),
            (Type::map(Type::String, Type::Dyn), "map(string, dyn)"),
            (Type::optional(Type::Int), "optional_type(int)"),
            (Type::type_of(Type::Null), "type(null)"),
            (Type::Type(None), "type"),
            (Type::opaque("net.IP"), "net.IP"),
        ] {
            assert_eq!(one.to_string(), text);
        }
    }
}
