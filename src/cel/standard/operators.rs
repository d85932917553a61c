//! Operators.

use std::cmp::Ordering;

use crate::{
    ast::operator,
    functions::{Code, Function, Work},
    types::Type,
    value::{Error, List, ListKind, Map, Outcome, Value, map_key, set_key, set_keys},
};

fn list_of_a() -> Type {
    Type::list(Type::param("A"))
}

fn map_of_ab() -> Type {
    Type::map(Type::param("A"), Type::param("B"))
}

/// Returns the operators.
pub(super) fn functions() -> Vec<Function> {
    let a = || Type::param("A");
    let mut functions = vec![
        Function::new(operator::CONDITIONAL).declared("conditional", [Type::Bool, a(), a()], a()),
        Function::new(operator::AND).declared("logical_and", [Type::Bool, Type::Bool], Type::Bool),
        Function::new(operator::OR).declared("logical_or", [Type::Bool, Type::Bool], Type::Bool),
        Function::new(operator::NOT).declared("logical_not", [Type::Bool], Type::Bool).code(not),
        Function::new(operator::NOT_STRICTLY_FALSE).declared("not_strictly_false", [Type::Bool], Type::Bool).code(not_strictly_false),
        Function::new(operator::EQUALS).declared("equals", [a(), a()], Type::Bool),
        Function::new(operator::NOT_EQUALS).declared("not_equals", [a(), a()], Type::Bool),
        Function::new(operator::INDEX).declared("index_list", [list_of_a(), Type::Int], a()).declared(
            "index_map",
            [map_of_ab(), a()],
            Type::param("B"),
        ),
        Function::new(operator::IN)
            .declared("in_list", [a(), list_of_a()], Type::Bool)
            .declared("in_map", [a(), map_of_ab()], Type::Bool)
            .code(contains),
    ];
    functions.extend(arithmetic());
    let compared: [(&str, &str, Code); 4] = [
        ("_<_", "less", |_, args| compare("_<_", args, Ordering::is_lt)),
        ("_<=_", "less_equals", |_, args| compare("_<=_", args, Ordering::is_le)),
        ("_>_", "greater", |_, args| compare("_>_", args, Ordering::is_gt)),
        ("_>=_", "greater_equals", |_, args| compare("_>=_", args, Ordering::is_ge)),
    ];
    functions.extend(compared.into_iter().map(|(name, prefix, code)| comparison(name, prefix, code)));
    functions
}

fn arithmetic() -> Vec<Function> {
    let same = |kind: &Type| [kind.clone(), kind.clone()];
    vec![
        Function::new(operator::ADD)
            .declared("add_bytes", same(&Type::Bytes), Type::Bytes)
            .declared("add_double", same(&Type::Double), Type::Double)
            .declared("add_duration_duration", same(&Type::Duration), Type::Duration)
            .declared("add_duration_timestamp", [Type::Duration, Type::Timestamp], Type::Timestamp)
            .declared("add_timestamp_duration", [Type::Timestamp, Type::Duration], Type::Timestamp)
            .declared("add_int64", same(&Type::Int), Type::Int)
            .declared("add_list", same(&list_of_a()), list_of_a())
            .declared("add_string", same(&Type::String), Type::String)
            .declared("add_uint64", same(&Type::Uint), Type::Uint)
            .code(add),
        Function::new("_/_")
            .declared("divide_double", same(&Type::Double), Type::Double)
            .declared("divide_int64", same(&Type::Int), Type::Int)
            .declared("divide_uint64", same(&Type::Uint), Type::Uint)
            .code(divide),
        Function::new("_%_")
            .declared("modulo_int64", same(&Type::Int), Type::Int)
            .declared("modulo_uint64", same(&Type::Uint), Type::Uint)
            .code(modulo),
        Function::new("_*_")
            .declared("multiply_double", same(&Type::Double), Type::Double)
            .declared("multiply_int64", same(&Type::Int), Type::Int)
            .declared("multiply_uint64", same(&Type::Uint), Type::Uint)
            .code(multiply),
        Function::new(operator::NEGATE)
            .declared("negate_double", [Type::Double], Type::Double)
            .declared("negate_int64", [Type::Int], Type::Int)
            .code(negate),
        Function::new("_-_")
            .declared("subtract_double", same(&Type::Double), Type::Double)
            .declared("subtract_duration_duration", same(&Type::Duration), Type::Duration)
            .declared("subtract_int64", same(&Type::Int), Type::Int)
            .declared("subtract_timestamp_duration", [Type::Timestamp, Type::Duration], Type::Timestamp)
            .declared("subtract_timestamp_timestamp", same(&Type::Timestamp), Type::Duration)
            .declared("subtract_uint64", same(&Type::Uint), Type::Uint)
            .code(subtract),
    ]
}

/// The overloads of a comparison, whose ids have one beginning.
fn comparison(name: &'static str, prefix: &str, code: Code) -> Function {
    let kinds = [
        ("bool", [Type::Bool, Type::Bool]),
        ("int64", [Type::Int, Type::Int]),
        ("int64_double", [Type::Int, Type::Double]),
        ("int64_uint64", [Type::Int, Type::Uint]),
        ("uint64", [Type::Uint, Type::Uint]),
        ("uint64_double", [Type::Uint, Type::Double]),
        ("uint64_int64", [Type::Uint, Type::Int]),
        ("double", [Type::Double, Type::Double]),
        ("double_int64", [Type::Double, Type::Int]),
        ("double_uint64", [Type::Double, Type::Uint]),
        ("string", [Type::String, Type::String]),
        ("bytes", [Type::Bytes, Type::Bytes]),
        ("timestamp", [Type::Timestamp, Type::Timestamp]),
        ("duration", [Type::Duration, Type::Duration]),
    ];
    let ids = COMPARISONS.iter().find(|(known, _)| *known == prefix).map_or(&[""; 14], |(_, ids)| ids);
    kinds.into_iter().zip(ids).fold(Function::new(name), |function, ((_, args), id)| function.declared(id, args, Type::Bool)).code(code)
}

/// The ids of the comparisons' overloads, in the order of `comparison`.
macro_rules! ids {
    ($prefix:literal) => {
        [
            concat!($prefix, "_bool"),
            concat!($prefix, "_int64"),
            concat!($prefix, "_int64_double"),
            concat!($prefix, "_int64_uint64"),
            concat!($prefix, "_uint64"),
            concat!($prefix, "_uint64_double"),
            concat!($prefix, "_uint64_int64"),
            concat!($prefix, "_double"),
            concat!($prefix, "_double_int64"),
            concat!($prefix, "_double_uint64"),
            concat!($prefix, "_string"),
            concat!($prefix, "_bytes"),
            concat!($prefix, "_timestamp"),
            concat!($prefix, "_duration"),
        ]
    };
}

const COMPARISONS: [(&str, [&str; 14]); 4] = [
    ("less", ids!("less")),
    ("less_equals", ids!("less_equals")),
    ("greater", ids!("greater")),
    ("greater_equals", ids!("greater_equals")),
];

fn overflow<T>() -> Result<T, Error> {
    Err(Error::new("integer overflow"))
}

fn unsigned_overflow<T>() -> Result<T, Error> {
    Err(Error::new("unsigned integer overflow"))
}

/// The error of an operator that values of this type do not have. Some types answer for all operators, without the name.
pub(super) fn not_of(function: &str, value: &Value<'_>) -> Error {
    match value {
        Value::String(_) | Value::Duration(_) | Value::Timestamp(_) => Error::no_such_overload(),
        _ => Error::new(format!("no such overload: {function}")),
    }
}

fn not<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(Error::no_such_overload()),
    }
}

fn not_strictly_false<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    Ok(Value::Bool(!matches!(args, [Value::Bool(false)])))
}

fn compare<'v>(name: &str, args: &[Value<'v>], is: fn(Ordering) -> bool) -> Outcome<'v> {
    let [one, other] = args else { return Err(Error::no_such_overload()) };
    match one {
        Value::Bool(_)
        | Value::Bytes(_)
        | Value::Double(_)
        | Value::Duration(_)
        | Value::Int(_)
        | Value::String(_)
        | Value::Timestamp(_)
        | Value::Uint(_) => one.compare(other).map(|order| Value::Bool(is(order))),
        _ => Err(not_of(name, one)),
    }
}

fn add<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Int(a), Value::Int(b)] => a.checked_add(*b).map_or_else(overflow, |sum| Ok(Value::Int(sum))),
        [Value::Uint(a), Value::Uint(b)] => a.checked_add(*b).map_or_else(unsigned_overflow, |sum| Ok(Value::Uint(sum))),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::String(a), Value::String(b)] => Ok(Value::string([&**a, &**b].concat())),
        [Value::Bytes(a), Value::Bytes(b)] => Ok(Value::Bytes([&**a, &**b].concat().into())),
        [Value::Duration(a), Value::Duration(b)] => a.checked_add(*b).map_or_else(overflow, |sum| Ok(Value::Duration(sum))),
        [Value::Duration(nanos), Value::Timestamp(time)] | [Value::Timestamp(time), Value::Duration(nanos)] => {
            time.plus(*nanos).map(Value::Timestamp)
        }
        [Value::List(a), Value::List(b)] => joined(a, b),
        [
            Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
            | Value::List(_),
            _,
        ] => Err(Error::no_such_overload()),
        _ => Err(args.first().map_or_else(Error::no_such_overload, |one| not_of(operator::ADD, one))),
    }
}

/// Two lists as one: of sets and of lists with keys, what is in both is there once.
fn joined<'v>(one: &List<'v>, other: &List<'v>) -> Outcome<'v> {
    let kind = one.kind();
    if *kind == ListKind::Atomic && other.is_empty() {
        return Ok(Value::List(one.clone()));
    }
    if *kind == ListKind::Atomic && one.is_empty() && matches!(one, List::Made(_)) {
        return Ok(Value::List(other.clone()));
    }
    let mut values = one.values()?;
    match kind {
        ListKind::Atomic => values.extend(other.values()?),
        ListKind::Set => {
            let mut known = set_keys(one)?;
            for value in other.iter() {
                let value = value?;
                if known.insert(set_key(&value)?) {
                    values.push(value);
                }
            }
        }
        ListKind::Map(names) => {
            let mut places = std::collections::BTreeMap::new();
            for (at, value) in values.iter().enumerate() {
                places.insert(map_key(value, names)?, at);
            }
            for value in other.iter() {
                let value = value?;
                match places.get(&map_key(&value, names)?) {
                    Some(at) => values[*at] = value,
                    None => values.push(value),
                }
            }
        }
    }
    Ok(Value::List(List::of_kind(values, kind.clone())))
}

fn subtract<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Int(a), Value::Int(b)] => a.checked_sub(*b).map_or_else(overflow, |left| Ok(Value::Int(left))),
        [Value::Uint(a), Value::Uint(b)] => a.checked_sub(*b).map_or_else(unsigned_overflow, |left| Ok(Value::Uint(left))),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => a.checked_sub(*b).map_or_else(overflow, |left| Ok(Value::Duration(left))),
        [Value::Timestamp(time), Value::Duration(nanos)] => time.minus(*nanos).map(Value::Timestamp),
        [Value::Timestamp(a), Value::Timestamp(b)] => a.since(*b).map(Value::Duration),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_) | Value::Timestamp(_), _] => Err(Error::no_such_overload()),
        _ => Err(args.first().map_or_else(Error::no_such_overload, |one| not_of("_-_", one))),
    }
}

fn multiply<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Int(a), Value::Int(b)] => a.checked_mul(*b).map_or_else(overflow, |product| Ok(Value::Int(product))),
        [Value::Uint(a), Value::Uint(b)] => a.checked_mul(*b).map_or_else(unsigned_overflow, |product| Ok(Value::Uint(product))),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => Err(Error::no_such_overload()),
        _ => Err(args.first().map_or_else(Error::no_such_overload, |one| not_of("_*_", one))),
    }
}

fn divide<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Error::new("division by zero")),
        [Value::Int(a), Value::Int(b)] => a.checked_div(*b).map_or_else(overflow, |ratio| Ok(Value::Int(ratio))),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a / b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => Err(Error::no_such_overload()),
        _ => Err(args.first().map_or_else(Error::no_such_overload, |one| not_of("_/_", one))),
    }
}

fn modulo<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Error::new("modulus by zero")),
        [Value::Int(a), Value::Int(b)] => a.checked_rem(*b).map_or_else(overflow, |rest| Ok(Value::Int(rest))),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a % b)),
        [Value::Int(_) | Value::Uint(_), _] => Err(Error::no_such_overload()),
        _ => Err(args.first().map_or_else(Error::no_such_overload, |one| not_of("_%_", one))),
    }
}

fn negate<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Int(value)] => value.checked_neg().map_or_else(overflow, |value| Ok(Value::Int(value))),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        [Value::Duration(nanos)] => nanos.checked_neg().map_or_else(overflow, |nanos| Ok(Value::Duration(nanos))),
        [Value::Bool(_)] => Err(Error::no_such_overload()),
        _ => Err(args.first().map_or_else(Error::no_such_overload, |one| not_of(operator::NEGATE, one))),
    }
}

fn contains<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [value, Value::List(list)] => {
            let mut error = None;
            for element in list.iter() {
                match element.and_then(|element| element.equals(value)) {
                    Ok(true) => return Ok(Value::Bool(true)),
                    Ok(false) => {}
                    Err(failed) => error = error.or(Some(failed)),
                }
            }
            // Lists that were made do not say that elements could not be compared.
            error.filter(|_| matches!(list, List::Json(..))).map_or(Ok(Value::Bool(false)), Err)
        }
        [key, Value::Map(map)] => match map.find(key) {
            Some(Err(error)) if matches!(map, Map::Json(..)) => Err(error),
            found => Ok(Value::Bool(found.is_some())),
        },
        _ => Err(Error::no_such_overload()),
    }
}
