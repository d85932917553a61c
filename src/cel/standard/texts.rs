//! Functions of texts, and the sizes of values.

use super::operators::not_of;
use crate::{
    functions::{Function, Work},
    types::Type,
    value::{Error, Outcome, Value},
};

/// Returns the functions.
pub(super) fn functions() -> Vec<Function> {
    let list = || Type::list(Type::param("A"));
    let map = || Type::map(Type::param("A"), Type::param("B"));
    let two = || [Type::String, Type::String];
    vec![
        Function::new("size")
            .global("size_bytes", [Type::Bytes], Type::Int, size)
            .member("bytes_size", [Type::Bytes], Type::Int, size)
            .global("size_list", [list()], Type::Int, size)
            .member("list_size", [list()], Type::Int, size)
            .global("size_map", [map()], Type::Int, size)
            .member("map_size", [map()], Type::Int, size)
            .global("size_string", [Type::String], Type::Int, size)
            .member("string_size", [Type::String], Type::Int, size)
            .code(size),
        Function::new("contains")
            .member("contains_string", two(), Type::Bool, |_, args| test(args, |text, part| text.contains(part)))
            .unguarded(),
        Function::new("endsWith")
            .member("ends_with_string", two(), Type::Bool, |_, args| test(args, |text, part| text.ends_with(part)))
            .unguarded(),
        Function::new("startsWith")
            .member("starts_with_string", two(), Type::Bool, |_, args| test(args, |text, part| text.starts_with(part)))
            .unguarded(),
        Function::new("matches")
            .global("matches", two(), Type::Bool, matches)
            .member("matches_string", two(), Type::Bool, matches)
            .code(matches),
    ]
}

fn size<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
            Ok(Value::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
        }
        [value] => Err(not_of("size", value)),
        _ => Err(Error::no_such_overload()),
    }
}

fn test<'v>(args: &[Value<'v>], is: fn(&str, &str) -> bool) -> Outcome<'v> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(is(text, part))),
        _ => Err(Error::no_such_overload()),
    }
}

fn matches<'v>(work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::String(text), Value::String(pattern)] => {
            let regex = work.regex(pattern)?;
            work.matches(&regex, text).map(Value::Bool)
        }
        [Value::String(_), _] => Err(Error::no_such_overload()),
        [value, _] => Err(not_of("matches", value)),
        _ => Err(Error::no_such_overload()),
    }
}
