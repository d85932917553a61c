//! The values that an expression works with. What comes of an object borrows from it; nothing of the object is copied.

mod display;
mod equal;
mod error;
mod formats;
mod json;
mod list;
mod map;
mod native;
mod number;
mod time;

use std::{any::Any, fmt, ops::Deref, sync::Arc};

pub(crate) use equal::{map_key, set_key, set_keys};
pub use error::Error;
pub use list::{List, ListKind};
pub use map::{Key, Map, MapBuilder, Object};
pub(crate) use number::{double_text, double_to_int, double_to_uint};
pub use time::Timestamp;
pub(crate) use time::{Parts, duration, duration_text};

/// What comes of an evaluation.
pub type Outcome<'v> = Result<Value<'v>, Error>;

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'v> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A text.
    String(Text<'v>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A length of time, in nanoseconds.
    Duration(i64),
    /// A type, by its name.
    Type(Arc<str>),
    /// A list.
    List(List<'v>),
    /// A map, or an object.
    Map(Map<'v>),
    /// A value that may be absent.
    Optional(Option<Arc<Value<'v>>>),
    /// A value of a library.
    Opaque(Arc<dyn Opaque>),
    /// An object or a patch that the expression makes.
    Object(Object<'v>),
    /// A part of an object whose type is unknown: it can only be compared.
    Unknown(&'v serde_json::Value),
}

/// A value of a library.
pub trait Opaque: Any + fmt::Debug + Send + Sync {
    /// Returns the name of its type.
    fn type_name(&self) -> &str;
    /// Returns whether it is equal to another.
    fn equals(&self, other: &dyn Opaque) -> bool;
    /// Returns whether the two can be compared: what cannot is neither equal nor unequal.
    fn is_comparable(&self, other: &dyn Opaque) -> bool {
        self.type_name() == other.type_name()
    }
    /// Returns its size, if it has one, as costs count it.
    fn size(&self) -> Option<u64> {
        None
    }
}

impl dyn Opaque {
    /// Returns it as what it is.
    #[must_use]
    pub fn get<T: Opaque>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// A text that is borrowed or shared.
#[derive(Clone)]
pub enum Text<'v> {
    /// A part of an object or of an expression.
    Borrowed(&'v str),
    /// One that was made.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl Error {
    /// Returns the error of a function that has no overload for these arguments, with their types.
    #[must_use]
    pub fn no_overload_of(function: &str, args: &[Value<'_>]) -> Self {
        let types: Vec<_> = args.iter().map(Value::type_name).collect();
        Self::new(format!("no such overload: {function}({})", types.join(", ")))
    }
}

impl<'v> Value<'v> {
    /// Returns a text that is borrowed.
    #[must_use]
    pub const fn text(text: &'v str) -> Self {
        Self::String(Text::Borrowed(text))
    }

    /// Returns a text that was made.
    #[must_use]
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    /// Returns a list of values.
    #[must_use]
    pub fn list(values: Vec<Self>) -> Self {
        Self::List(List::new(values))
    }

    /// Returns a value that is there.
    #[must_use]
    pub fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// Returns a value of a library.
    #[must_use]
    pub fn opaque(value: impl Opaque) -> Self {
        Self::Opaque(Arc::new(value))
    }

    /// Returns the name of its type.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Opaque(opaque) => opaque.type_name(),
            Self::Object(object) => object.name(),
            Self::Unknown(_) => "unknown",
        }
    }

    /// Returns its size as costs count it: characters, bytes, elements or entries; 1 of what has none.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(value)) => value.size(),
            Self::Opaque(opaque) => opaque.size().unwrap_or(1),
            _ => 1,
        }
    }

    /// Returns it, borrowing what can be borrowed.
    #[must_use]
    pub(crate) fn borrowed(&'v self) -> Self {
        match self {
            Self::String(Text::Shared(text)) => Self::String(Text::Borrowed(text)),
            other => other.clone(),
        }
    }
}
