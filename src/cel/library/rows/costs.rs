//! What Kubernetes counts for calls of its libraries: after the call, and estimated before.

use crate::{
    ast::Literal,
    sizes::{Call, CallCost, REGEX_FACTOR, Range, TEXT_FACTOR, scaled},
    types::Type,
    value::{Outcome, Value},
};

/// One unit.
pub(super) fn one(_overload: &str, _args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    Some(1)
}

/// One unit.
pub(super) fn one_estimate(_call: &Call<'_>) -> Option<CallCost> {
    Some(CallCost::of(Range::fixed(1)))
}

/// The size of an argument; 1 where there is none.
pub(super) fn size(args: &[Value<'_>], at: usize) -> u64 {
    args.get(at).map_or(1, Value::size)
}

/// Following the first argument once.
pub(super) fn followed(_overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    args.first().map(|text| scaled(text.size(), TEXT_FACTOR))
}

/// Following the first argument once, which is no target.
pub(super) fn followed_estimate(call: &Call<'_>) -> Option<CallCost> {
    call.args.first().map(|text| CallCost::of(call.size(text).scaled(TEXT_FACTOR)))
}

/// Following the only argument once, of which the result is as large.
pub(super) fn same_size_estimate(call: &Call<'_>) -> Option<CallCost> {
    let [text] = call.args else { return None };
    let size = call.size(text);
    Some(CallCost::with_result(size.scaled(TEXT_FACTOR), size))
}

/// Following the target once, of which the result is as large.
pub(super) fn target_estimate(call: &Call<'_>) -> Option<CallCost> {
    let size = call.size(call.target?);
    Some(CallCost::with_result(size.scaled(TEXT_FACTOR), size))
}

/// Following the first argument twice.
pub(super) fn followed_twice(_overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    args.first().map(|text| scaled(text.size(), 2.0 * TEXT_FACTOR))
}

/// Following the first argument twice, which is no target.
pub(super) fn followed_twice_estimate(call: &Call<'_>) -> Option<CallCost> {
    call.args.first().map(|text| CallCost::of(call.size(text).scaled(2.0 * TEXT_FACTOR)))
}

/// Following every part of the first argument once.
pub(super) fn traversed(_overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    Some(args.first().map_or(0, traversal))
}

/// Following every element of a list once, or a text.
pub(super) fn traversed_estimate(call: &Call<'_>) -> Option<CallCost> {
    let target = call.target?;
    let size = call.size(target);
    let Some(items) = call.items(target) else { return Some(CallCost::of(size.scaled(TEXT_FACTOR))) };
    let text = match items.kind {
        Type::String | Type::Bytes => call.size(&items).scaled(TEXT_FACTOR),
        _ => Range::ZERO,
    };
    Some(CallCost::of(size.times(Range::fixed(1).plus(text))))
}

/// Bytes count a tenth, rounded down; what is no text counts 1.
fn traversal(value: &Value<'_>) -> u64 {
    let bytes = |bytes: usize| {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "as Kubernetes computes it"
        )]
        let tenth = (bytes as f64 * TEXT_FACTOR) as u64;
        tenth
    };
    match value {
        Value::String(text) => bytes(text.len()),
        Value::Bytes(text) => bytes(text.len()),
        Value::List(list) => list.iter().map(|element| element.map_or(1, |element| traversal(&element))).sum(),
        Value::Map(map) => {
            let entries = map.entries().into_iter();
            entries.map(|(key, value)| traversal(&key) + value.map_or(1, |value| traversal(&value))).sum()
        }
        _ => 1,
    }
}

/// A text and an expression.
pub(super) fn matched(_overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    Some(expression_cost(size(args, 0), size(args, 1)))
}

pub(super) fn expression_cost(text: u64, pattern: u64) -> u64 {
    scaled(text + 1, TEXT_FACTOR).saturating_mul(scaled(pattern, REGEX_FACTOR))
}

/// A text and an expression.
pub(super) fn matched_estimate(call: &Call<'_>) -> Option<CallCost> {
    let size = call.size(call.target?);
    let text = size.plus(Range::fixed(1)).scaled(TEXT_FACTOR);
    let pattern = call.size(call.args.first()?).scaled(REGEX_FACTOR);
    Some(CallCost::with_result(text.times(pattern), Range { min: 0, max: size.max }))
}

/// The text that is searched, twice; the most parts that the second argument allows.
pub(super) fn split_estimate(call: &Call<'_>) -> Option<CallCost> {
    let size = call.size(call.target?);
    let max = match call.args.get(1).and_then(|most| most.literal) {
        Some(Literal::Int(most)) => most.cast_unsigned(),
        _ => size.max,
    };
    Some(CallCost::with_result(size.scaled(2.0 * TEXT_FACTOR), Range { min: 0, max }))
}

/// The text that is made, twice.
pub(super) fn joined(_overload: &str, _args: &[Value<'_>], result: &Outcome<'_>) -> Option<u64> {
    Some(scaled(result.as_ref().map_or(1, Value::size), 2.0 * TEXT_FACTOR))
}

/// The text that is made, once.
pub(super) fn joined_estimate(call: &Call<'_>) -> Option<CallCost> {
    let target = call.target?;
    let list = call.size(target);
    let mut size = call.items(target).map_or(Range::ZERO, |items| list.times(call.size(&items)));
    if let Some(separator) = call.args.first() {
        let separators = Range { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
        size = size.plus(call.size(separator).times(separators));
    }
    Some(CallCost::with_result(size.scaled(TEXT_FACTOR), size))
}

/// The text that is searched, twice; how large the result is depends on how often something may be replaced.
pub(super) fn replaced_estimate(call: &Call<'_>) -> Option<CallCost> {
    let size = call.size(call.target?);
    let [part, with, ..] = call.args else { return None };
    let (part, with) = (call.size(part), call.size(with));
    let (mut count, mut kept) = (Range::ZERO, Range::ZERO);
    if part.min == 0 {
        (count.max, kept.max) = (size.max.saturating_add(1), size.max);
    } else if with.max <= part.min {
        kept.max = size.max;
    } else {
        count.max = quotient(size.max, part.min);
    }
    if part.max == 0 {
        (count.min, kept.min) = (size.min.saturating_add(1), size.min);
    } else if part.max <= with.min {
        kept.min = size.min;
    } else {
        count.min = quotient(size.min, part.max);
    }
    Some(CallCost::with_result(size.scaled(2.0 * TEXT_FACTOR), count.times(with).plus(kept)))
}

/// Rounded up, as Kubernetes divides floats.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as Kubernetes computes it")]
fn quotient(size: u64, part: u64) -> u64 {
    let quotient = (size as f64 / part as f64).ceil();
    // Go's conversion of what is too large gives 2^63.
    if quotient >= 18_446_744_073_709_551_616.0 { 1 << 63 } else { quotient as u64 }
}
