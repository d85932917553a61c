//! What calls cost, as cel-go's cost tracker counts it.

use crate::{
    plan::CallNode,
    sizes::{REGEX_FACTOR, TEXT_FACTOR, scaled},
    value::{Outcome, Value},
};

/// What it costs to make a list, a map and an object.
pub(crate) const LIST: u64 = 10;
pub(super) const MAP: u64 = 30;
pub(super) const STRUCT: u64 = 40;

/// Returns what a comparison of two values of these sizes costs.
pub(super) fn compared(one: u64, other: u64) -> u64 {
    scaled(one.min(other), TEXT_FACTOR)
}

/// Returns what a call costs. Without its outcome: what is known before; none if the function says it itself.
pub(super) fn spent<'v>(call: &CallNode, args: &[Value<'v>], outcome: Option<&Outcome<'v>>) -> Option<u64> {
    let overload = call.overload.map_or("", |at| call.function.overloads[at].id);
    if call.spent.iter().any(Option::is_some) {
        let outcome = outcome?;
        if let Some(cost) = call.spent.iter().flatten().find_map(|spent| spent(overload, args, outcome)) {
            return Some(cost);
        }
    }
    Some(usual(overload, args))
}

fn usual(overload: &str, args: &[Value<'_>]) -> u64 {
    let size = |at: usize| args.get(at).map_or(1, Value::size);
    match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => {
            scaled(size(0), TEXT_FACTOR)
        }
        "in_list" => size(1),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes" => compared(size(0), size(1)),
        "add_string" | "add_bytes" => scaled(size(0).saturating_add(size(1)), TEXT_FACTOR),
        "matches_string" => {
            let text = scaled(size(0).saturating_add(1), TEXT_FACTOR);
            text.saturating_mul(scaled(size(1), REGEX_FACTOR))
        }
        "contains_string" => scaled(size(0), TEXT_FACTOR).saturating_mul(scaled(size(1), TEXT_FACTOR)),
        _ => 1,
    }
}
