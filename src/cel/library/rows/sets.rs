//! Functions of lists as sets.

use super::{
    args::{Rows, list},
    costs,
};
use crate::{
    functions::{Function, Work},
    sizes::{Call, CallCost, Range, scaled},
    types::Type,
    value::{Error, List, Outcome, Value},
};

/// Comparisons that one call may take: more cost more than any limit allows.
const COMPARISONS_MAX: usize = 10_000_000;

pub(super) fn functions() -> Rows {
    let lists = || [Type::list(Type::param("T")), Type::list(Type::param("T"))];
    vec![
        Function::new("sets.contains")
            .global("list_sets_contains_list", lists(), Type::Bool, |_, args| {
                let (one, other) = both(args)?;
                Ok(Value::Bool(contains(&one, &other)?))
            })
            .overload_costs(once, once_estimate),
        Function::new("sets.equivalent")
            .global("list_sets_equivalent_list", lists(), Type::Bool, |_, args| {
                let (one, other) = both(args)?;
                Ok(Value::Bool(contains(&one, &other)? && contains(&other, &one)?))
            })
            .overload_costs(twice, twice_estimate),
        Function::new("sets.intersects")
            .global("list_sets_intersects_list", lists(), Type::Bool, intersects)
            .overload_costs(once, once_estimate),
    ]
}

/// The elements of both lists.
fn both<'v>(args: &[Value<'v>]) -> Result<(Vec<Value<'v>>, Vec<Value<'v>>), Error> {
    let (one, other): (&List<'v>, &List<'v>) = (list(args, 0)?, list(args, 1)?);
    if one.len().saturating_mul(other.len()) > COMPARISONS_MAX {
        return Err(Error::CostExceeded);
    }
    Ok((one.values()?, other.values()?))
}

fn contains(all: &[Value<'_>], part: &[Value<'_>]) -> Result<bool, Error> {
    // What cannot be compared is not equal.
    Ok(part.iter().all(|sought| all.iter().any(|one| sought.equals(one).unwrap_or(false))))
}

fn intersects<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let (one, other) = both(args)?;
    Ok(Value::Bool(one.iter().any(|sought| other.iter().any(|value| sought.equals(value).unwrap_or(false)))))
}

fn once(_overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    Some(1 + pairs(args))
}

fn twice(_overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    Some(1 + scaled(pairs(args), 2.0))
}

fn pairs(args: &[Value<'_>]) -> u64 {
    costs::size(args, 0).saturating_mul(costs::size(args, 1))
}

fn once_estimate(call: &Call<'_>) -> Option<CallCost> {
    estimate(call, 1.0)
}

fn twice_estimate(call: &Call<'_>) -> Option<CallCost> {
    estimate(call, 2.0)
}

fn estimate(call: &Call<'_>, factor: f64) -> Option<CallCost> {
    let [one, other] = call.args else { return None };
    let pairs = call.size(one).times(call.size(other));
    Some(CallCost::of(pairs.scaled(factor).plus(Range::fixed(1))))
}
