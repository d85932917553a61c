//! Functions that make one value of a list, as Kubernetes has them.

use std::cmp::Ordering;

use super::{
    args::{Rows, list},
    costs,
};
use crate::{
    functions::{Code, Function, Work},
    types::Type,
    value::{Error, Outcome, Value},
};

/// The types whose values have an order, with the ids of their overloads: is sorted, most, least.
pub(super) const ORDERED: [(Type, [&str; 3]); 8] = [
    (Type::Int, ["list_int_is_sorted_bool", "list_int_max_int", "list_int_min_int"]),
    (Type::Uint, ["list_uint_is_sorted_bool", "list_uint_max_uint", "list_uint_min_uint"]),
    (Type::Double, ["list_double_is_sorted_bool", "list_double_max_double", "list_double_min_double"]),
    (Type::Bool, ["list_bool_is_sorted_bool", "list_bool_max_bool", "list_bool_min_bool"]),
    (Type::Duration, ["list_duration_is_sorted_bool", "list_duration_max_duration", "list_duration_min_duration"]),
    (Type::Timestamp, ["list_timestamp_is_sorted_bool", "list_timestamp_max_timestamp", "list_timestamp_min_timestamp"]),
    (Type::String, ["list_string_is_sorted_bool", "list_string_max_string", "list_string_min_string"]),
    (Type::Bytes, ["list_bytes_is_sorted_bool", "list_bytes_max_bytes", "list_bytes_min_bytes"]),
];

pub(super) fn functions() -> Rows {
    let items = || Type::list(Type::param("A"));
    let functions = [
        ordered("isSorted", 0, is_sorted),
        ordered("max", 1, |_, args| best(args, "max", Ordering::Less)),
        ordered("min", 2, |_, args| best(args, "min", Ordering::Greater)),
        Function::new("sum")
            .member("list_int_sum_int", [Type::list(Type::Int)], Type::Int, |_, args| sum(args, Value::Int(0)))
            .member("list_uint_sum_uint", [Type::list(Type::Uint)], Type::Uint, |_, args| sum(args, Value::Uint(0)))
            .member("list_double_sum_double", [Type::list(Type::Double)], Type::Double, |_, args| sum(args, Value::Double(0.0)))
            .member("list_duration_sum_duration", [Type::list(Type::Duration)], Type::Duration, |_, args| sum(args, Value::Duration(0))),
        Function::new("indexOf").member("list_a_index_of_int", [items(), Type::param("A")], Type::Int, index_of),
        Function::new("lastIndexOf").member("list_a_last_index_of_int", [items(), Type::param("A")], Type::Int, last_index_of),
    ];
    functions.map(|function| function.costs(costs::traversed, costs::traversed_estimate)).into()
}

/// A function with an overload for each type whose values have an order.
fn ordered(name: &'static str, id: usize, code: Code) -> Function {
    ORDERED.into_iter().fold(Function::new(name), |function, (kind, ids)| {
        let result = if id == 0 { Type::Bool } else { kind.clone() };
        function.member(ids[id], [Type::list(kind)], result, code)
    })
}

fn is_sorted<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let values = comparable(args)?;
    // What has no order is no reason.
    Ok(Value::Bool(values.windows(2).all(|pair| !pair[0].compare(&pair[1]).is_ok_and(Ordering::is_gt))))
}

/// The value that is `worse` than no other before it.
fn best<'v>(args: &[Value<'v>], name: &str, worse: Ordering) -> Outcome<'v> {
    let better = |best: Value<'v>, next: Value<'v>| if best.compare(&next) == Ok(worse) { next } else { best };
    comparable(args)?.into_iter().reduce(better).ok_or_else(|| Error::new(format!("{name} called on empty list")))
}

fn comparable<'v>(args: &[Value<'v>]) -> Result<Vec<Value<'v>>, Error> {
    let values = list(args, 0)?.values()?;
    let is_ordered = values.iter().all(|value| ORDERED.iter().any(|(kind, _)| kind.name() == value.type_name()));
    if is_ordered { Ok(values) } else { Err(Error::no_such_overload()) }
}

fn sum<'v>(args: &[Value<'v>], zero: Value<'v>) -> Outcome<'v> {
    let overflow = || Error::new("integer overflow");
    list(args, 0)?.iter().try_fold(zero, |sum, next| {
        Ok(match (sum, next?) {
            (Value::Int(sum), Value::Int(next)) => Value::Int(sum.checked_add(next).ok_or_else(overflow)?),
            (Value::Uint(sum), Value::Uint(next)) => {
                Value::Uint(sum.checked_add(next).ok_or_else(|| Error::new("unsigned integer overflow"))?)
            }
            (Value::Double(sum), Value::Double(next)) => Value::Double(sum + next),
            (Value::Duration(sum), Value::Duration(next)) => Value::Duration(sum.checked_add(next).ok_or_else(overflow)?),
            _ => return Err(Error::no_such_overload()),
        })
    })
}

fn index_of<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let at = list(args, 0)?.iter().position(|value| is_equal(value, &args[1]));
    Ok(index(at))
}

fn last_index_of<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let list = list(args, 0)?;
    let at = (0..list.len()).rev().find(|at| list.get(*at).is_some_and(|value| is_equal(value, &args[1])));
    Ok(index(at))
}

fn is_equal<'v>(value: Outcome<'v>, other: &Value<'v>) -> bool {
    value.and_then(|value| value.equals(other)).unwrap_or(false)
}

fn index<'v>(at: Option<usize>) -> Value<'v> {
    Value::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}
