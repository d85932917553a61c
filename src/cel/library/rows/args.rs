//! The arguments of functions, as what they must be.

use crate::{
    functions::Function,
    value::{Error, List, Opaque, Text, Value},
};

/// Functions of one library.
pub(super) type Rows = Vec<Function>;

/// The argument that is a text.
pub(super) fn text<'a, 'v>(args: &'a [Value<'v>], at: usize) -> Result<&'a Text<'v>, Error> {
    match args.get(at) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Error::no_such_overload()),
    }
}

pub(super) fn int(args: &[Value<'_>], at: usize) -> Result<i64, Error> {
    match args.get(at) {
        Some(Value::Int(value)) => Ok(*value),
        _ => Err(Error::no_such_overload()),
    }
}

pub(super) fn boolean(args: &[Value<'_>], at: usize) -> Result<bool, Error> {
    match args.get(at) {
        Some(Value::Bool(value)) => Ok(*value),
        _ => Err(Error::no_such_overload()),
    }
}

pub(super) fn list<'a, 'v>(args: &'a [Value<'v>], at: usize) -> Result<&'a List<'v>, Error> {
    match args.get(at) {
        Some(Value::List(list)) => Ok(list),
        _ => Err(Error::no_such_overload()),
    }
}

/// The argument that is a value of a library.
pub(super) fn opaque<'a, T: Opaque>(args: &'a [Value<'_>], at: usize) -> Result<&'a T, Error> {
    match args.get(at) {
        Some(Value::Opaque(value)) => value.get().ok_or_else(Error::no_such_overload),
        _ => Err(Error::no_such_overload()),
    }
}

/// A part of a text, which borrows from an object if the text does.
pub(super) fn part<'v>(text: &Text<'v>, cut: impl for<'t> FnOnce(&'t str) -> Result<&'t str, String>) -> Result<Value<'v>, Error> {
    match text {
        Text::Borrowed(text) => cut(text).map(Value::text),
        Text::Shared(text) => cut(text).map(Value::string),
    }
    .map_err(Error::new)
}

/// Parts of a text, which borrow from an object if the text does.
pub(super) fn parts<'v, E>(text: &Text<'v>, cut: impl for<'t> FnOnce(&'t str) -> Result<Vec<&'t str>, E>) -> Result<Value<'v>, E> {
    let values = match text {
        Text::Borrowed(text) => cut(text)?.into_iter().map(Value::text).collect(),
        Text::Shared(text) => cut(text)?.into_iter().map(Value::string).collect(),
    };
    Ok(Value::list(values))
}
