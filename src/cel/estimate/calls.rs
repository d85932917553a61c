//! What calls may cost, by their overload.

use super::{Coster, Entries, ONE, is_logical};
use crate::{
    ast::{Call, Expr, operator},
    sizes::{Call as Estimated, CallCost, Node, REGEX_FACTOR, Range, TEXT_FACTOR},
};

impl Coster<'_> {
    /// Returns what a call costs with its arguments.
    pub(super) fn made(
        &mut self,
        expr: &Expr,
        call: &Call,
        overload: &str,
        target: Option<&Node<'_>>,
        args: &[Node<'_>],
        costs: &[Range],
    ) -> CallCost {
        let of_args = costs.iter().fold(Range::ZERO, |sum, cost| sum.plus(*cost));
        let with_args = |made: CallCost| CallCost { cost: made.cost.plus(of_args), ..made };
        if let Some(made) = self.declared(call, overload, target, args) {
            return with_args(made);
        }
        if is_logical(&call.function)
            && let [left, right, ..] = costs
        {
            return CallCost::of(Range { min: left.min, max: left.plus(*right).max });
        }
        if &*call.function == operator::CONDITIONAL
            && let ([condition, yes, no], [_, one, other]) = (costs, &call.args[..])
        {
            let size = size(&args[1]).union(size(&args[2]));
            let entries = Entries::union(self.entry_sizes(one), self.entry_sizes(other));
            self.note(expr, entries);
            return CallCost::with_result(condition.plus(yes.union(*no)), size);
        }
        if matches!(overload, "add_string" | "add_bytes" | "add_list")
            && let [one, other] = &call.args[..]
        {
            let entries = Entries::union(self.entry_sizes(one), self.entry_sizes(other));
            self.note(expr, entries);
            let size = size(&args[0]).plus(size(&args[1]));
            let cost = if overload == "add_list" { ONE } else { size.scaled(TEXT_FACTOR) };
            return with_args(CallCost::with_result(cost, size));
        }
        with_args(usual(overload, target, args))
    }

    fn note(&mut self, expr: &Expr, entries: Option<Entries>) {
        if let Some(entries) = entries {
            self.entries.insert(expr.id, entries);
        }
    }

    /// What the function itself says.
    fn declared(&self, call: &Call, overload: &str, target: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<CallCost> {
        let function = self.functions.get(&call.function)?;
        let of_overload = function.overloads.iter().find(|known| known.id == overload).and_then(|known| known.estimate);
        let estimated = Estimated { overload, target, args, sizes: self.sizes };
        of_overload.and_then(|estimate| estimate(&estimated)).or_else(|| function.estimate.and_then(|estimate| estimate(&estimated)))
    }
}

fn size(node: &Node<'_>) -> Range {
    node.size.unwrap_or(Range::UNKNOWN)
}

/// What the standard library's calls cost without their arguments.
fn usual(overload: &str, target: Option<&Node<'_>>, args: &[Node<'_>]) -> CallCost {
    let followed = |size: Range| size.scaled(TEXT_FACTOR);
    match (overload, target, args) {
        ("string_format", Some(target), _) => CallCost::of(followed(size(target))),
        ("string_to_bytes", _, [text]) => {
            let size = size(text);
            CallCost::with_result(followed(size), Range { min: size.min, max: size.max.wrapping_mul(4) })
        }
        ("bytes_to_string", _, [bytes]) => {
            let size = size(bytes);
            CallCost::with_result(followed(size), Range { min: size.min / 4, max: size.max })
        }
        ("strings_quote", _, [text]) => {
            let size = size(text);
            let quoted = Range { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
            CallCost::with_result(followed(size), quoted)
        }
        ("starts_with_string" | "ends_with_string", _, [part]) => CallCost::of(followed(size(part))),
        ("in_list", _, [_, list]) => CallCost::of(size(list).scaled(1.0)),
        ("matches_string", Some(target), [pattern]) => {
            // An empty text is followed too.
            let text = followed(size(target).plus(ONE));
            CallCost::of(text.times(size(pattern).scaled(REGEX_FACTOR)))
        }
        ("contains_string", Some(target), [part]) => CallCost::of(followed(size(target)).times(followed(size(part)))),
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            _,
            [one, other],
        ) => {
            let max = size(one).max.min(size(other).max);
            CallCost::of(followed(Range { min: u64::from(max > 0), max }))
        }
        _ => CallCost::of(ONE),
    }
}
