//! Functions that make a list of a list, in version 3 of cel-go's library.

use std::cmp::Ordering;

use super::{
    args::{Rows, int, list},
    costs,
    summaries::ORDERED,
};
use crate::{
    ast::Literal,
    functions::{Estimate, Function, Overload, Spent, Work},
    library::sort::sort_by,
    sizes::{Call, CallCost, Node, Range, TEXT_FACTOR},
    types::Type,
    value::{Error, List, Outcome, Value},
};

/// What each list costs that is made, and its call.
const MADE: u64 = 11;
/// Elements of a list all of which are compared with each other: more cost more than any limit allows.
const COMPARED_MAX: usize = 2_300;
/// Elements that are made of nothing: more cost more than any limit allows.
const RANGE_MAX: i64 = 10_000_000;
/// Levels that are made flat; no object has as many.
const DEPTH_MAX: i64 = 1_000;

const SORT_IDS: [[&str; 2]; 8] = [
    ["list_int_sort", "list_int_sortByAssociatedKeys"],
    ["list_uint_sort", "list_uint_sortByAssociatedKeys"],
    ["list_double_sort", "list_double_sortByAssociatedKeys"],
    ["list_bool_sort", "list_bool_sortByAssociatedKeys"],
    ["list_google.protobuf.Duration_sort", "list_google.protobuf.Duration_sortByAssociatedKeys"],
    ["list_google.protobuf.Timestamp_sort", "list_google.protobuf.Timestamp_sortByAssociatedKeys"],
    ["list_string_sort", "list_string_sortByAssociatedKeys"],
    ["list_bytes_sort", "list_bytes_sortByAssociatedKeys"],
];

pub(super) fn functions() -> Rows {
    let items = || Type::list(Type::param("T"));
    vec![
        Function::new("slice")
            .member("list_slice", [items(), Type::Int, Type::Int], items(), slice)
            .overload_costs(result_cost, slice_estimate),
        Function::new("flatten")
            .member("list_flatten", [Type::list(items())], items(), flatten)
            .overload_costs(flatten_cost, flatten_estimate)
            .member("list_flatten_int", [Type::list(Type::Dyn), Type::Int], Type::list(Type::Dyn), flatten)
            .overload_costs(flatten_cost, flatten_estimate)
            .unguarded(),
        sorting(Function::new("sort").code(sort), 0, sort_cost, sort_estimate),
        sorting(Function::new("@sortByAssociatedKeys").code(sort_by_keys), 1, sort_by_cost, sort_by_estimate),
        Function::new("lists.range")
            .global("lists_range", [Type::Int], Type::list(Type::Int), range)
            .overload_costs(result_cost, range_estimate),
        Function::new("reverse").member("list_reverse", [items()], items(), reverse).overload_costs(result_cost, reverse_estimate),
        Function::new("distinct").member("list_distinct", [items()], items(), distinct).overload_costs(sort_cost, distinct_estimate),
    ]
}

/// A function with an overload for each type whose values have an order.
fn sorting(function: Function, id: usize, spent: Spent, estimate: Estimate) -> Function {
    let overload = |(kind, ids): (Type, [&'static str; 2])| {
        let (args, result) = match id {
            0 => (vec![Type::list(kind.clone())], Type::list(kind)),
            _ => (vec![Type::list(Type::param("T")), Type::list(kind)], Type::list(Type::param("T"))),
        };
        Overload { id: ids[id], member: true, args, result, code: None, spent: Some(spent), estimate: Some(estimate) }
    };
    ORDERED.into_iter().map(|(kind, _)| kind).zip(SORT_IDS).map(overload).fold(function, Function::overload)
}

fn slice<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let (list, start, end) = (list(args, 0)?, int(args, 1)?, int(args, 2)?);
    let wrong = |why: String| Err(Error::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return wrong("negative indexes not supported".to_owned());
    };
    if from > to {
        return wrong("start index must be less than or equal to end index".to_owned());
    }
    if list.len() < to {
        return wrong(format!("list is length {}", list.len()));
    }
    let values: Result<_, _> = (from..to).filter_map(|at| list.get(at)).collect();
    values.map(Value::list)
}

fn flatten<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let depth = if args.len() > 1 { int(args, 1).map_err(|_| not_flat(args))? } else { 1 };
    if depth < 0 {
        return Err(Error::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    let Some(Value::List(list)) = args.first() else { return Err(not_flat(args)) };
    flatten_into(list, depth.min(DEPTH_MAX), &mut flat)?;
    Ok(Value::list(flat))
}

fn not_flat(args: &[Value<'_>]) -> Error {
    let name = |value: &Value<'_>| match value {
        Value::List(_) => "list(dyn)".to_owned(),
        Value::Map(_) => "map(dyn, dyn)".to_owned(),
        Value::Optional(_) => "optional_type(dyn)".to_owned(),
        other => other.type_name().to_owned(),
    };
    let depth = args.get(1).map(name).unwrap_or_default();
    Error::new(format!("no such overload: {}.flatten({depth})", args.first().map(name).unwrap_or_default()))
}

fn flatten_into<'v>(list: &List<'v>, depth: i64, flat: &mut Vec<Value<'v>>) -> Result<(), Error> {
    for element in list.iter() {
        match element? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, flat)?,
            other => flat.push(other),
        }
    }
    Ok(())
}

fn sort<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let list = list(args, 0)?;
    sorted(list, list)
}

fn sort_by_keys<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    sorted(list(args, 0)?, list(args, 1)?)
}

fn sorted<'v>(list: &List<'v>, keys: &List<'v>) -> Outcome<'v> {
    if list.len() != keys.len() {
        return Err(Error::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    bounded(list)?;
    let keys = keys.values()?;
    let Some(first) = keys.first() else { return Ok(Value::List(list.clone())) };
    if !ORDERED.iter().any(|(kind, _)| kind.name() == first.type_name()) {
        return Err(Error::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Error::new("list elements must have the same type"));
    }
    let mut pairs: Vec<_> = keys.into_iter().zip(list.values()?).collect();
    sort_by(&mut pairs, |(one, _), (other, _)| one.compare(other) == Ok(Ordering::Less));
    Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect()))
}

fn bounded(list: &List<'_>) -> Result<(), Error> {
    if list.len() > COMPARED_MAX { Err(Error::CostExceeded) } else { Ok(()) }
}

fn range<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let end = int(args, 0)?;
    if end > RANGE_MAX { Err(Error::CostExceeded) } else { Ok(Value::list((0..end).map(Value::Int).collect())) }
}

fn reverse<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let mut values = list(args, 0)?.values()?;
    values.reverse();
    Ok(Value::list(values))
}

fn distinct<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let list = list(args, 0)?;
    bounded(list)?;
    if list.is_empty() {
        return Ok(Value::List(list.clone()));
    }
    let mut unique: Vec<Value<'v>> = Vec::new();
    for value in list.iter() {
        let value = value?;
        // What cannot be compared is not equal.
        if !unique.iter().any(|known| value.equals(known).unwrap_or(false)) {
            unique.push(value);
        }
    }
    Ok(Value::list(unique))
}

/// A list of so many elements, each of which costs so much.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as cel-go computes it")]
fn made(size: u64, factor: f64) -> Option<u64> {
    let cost = size as f64 * factor;
    // Go's conversion of a number below 0 wraps.
    let cost = if cost < 0.0 { (cost as i64).cast_unsigned() } else { cost as u64 };
    Some(cost.wrapping_add(MADE))
}

fn result_cost(_overload: &str, _args: &[Value<'_>], result: &Outcome<'_>) -> Option<u64> {
    made(result.as_ref().map_or(1, Value::size), 1.0)
}

#[expect(clippy::cast_precision_loss, reason = "as cel-go computes it")]
fn flatten_cost(_overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    let depth = match args.get(1) {
        Some(Value::Int(depth)) => *depth as f64,
        _ => 1.0,
    };
    made(costs::size(args, 0), depth)
}

fn sort_cost(_overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    compared_cost(args, 0)
}

fn sort_by_cost(_overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    compared_cost(args, 1)
}

fn compared_cost(args: &[Value<'_>], at: usize) -> Option<u64> {
    let list = list(args, at).ok()?;
    let size = list.len() as u64;
    let is_text = matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
    made(size.saturating_mul(size), if is_text { 2.0 + TEXT_FACTOR } else { 2.0 })
}

fn made_estimate(size: Range, factor: f64) -> Option<CallCost> {
    Some(CallCost::with_result(size.scaled(factor).plus(Range::fixed(MADE)), size))
}

/// The number that an argument is; another where it is no literal of one.
fn literal(node: &Node<'_>, other: u64) -> u64 {
    match node.literal {
        Some(Literal::Int(value)) => u64::try_from(*value).unwrap_or(0),
        _ => other,
    }
}

fn slice_estimate(call: &Call<'_>) -> Option<CallCost> {
    let size = call.size(call.target?);
    let [start, end] = call.args else { return None };
    made_estimate(Range::fixed(literal(end, size.max).wrapping_sub(literal(start, 0))), 1.0)
}

fn range_estimate(call: &Call<'_>) -> Option<CallCost> {
    let ([end], None) = (call.args, call.target) else { return None };
    made_estimate(Range::fixed(literal(end, u64::MAX)), 1.0)
}

fn reverse_estimate(call: &Call<'_>) -> Option<CallCost> {
    made_estimate(call.size(call.target?), 1.0)
}

#[expect(clippy::cast_precision_loss, reason = "as cel-go computes it")]
fn flatten_estimate(call: &Call<'_>) -> Option<CallCost> {
    let depth = call.args.first().map_or(1, |depth| literal(depth, u64::MAX));
    made_estimate(call.size(call.target?), depth as f64)
}

fn distinct_estimate(call: &Call<'_>) -> Option<CallCost> {
    let size = call.size(call.target?);
    made_estimate(size.times(size), 2.0)
}

fn sort_estimate(call: &Call<'_>) -> Option<CallCost> {
    compared_estimate(call, call.target?)
}

fn sort_by_estimate(call: &Call<'_>) -> Option<CallCost> {
    compared_estimate(call, call.args.first()?)
}

/// What an overload is for shows in its id.
fn compared_estimate(call: &Call<'_>, keys: &Node<'_>) -> Option<CallCost> {
    let size = call.size(keys);
    let is_text = call.overload.starts_with("list_string_") || call.overload.starts_with("list_bytes_");
    made_estimate(size.times(size), if is_text { 2.0 + TEXT_FACTOR } else { 2.0 })
}
