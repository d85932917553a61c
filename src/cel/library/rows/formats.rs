//! Functions of named formats.

use super::{
    args::{Rows, opaque, text},
    costs,
};
use crate::{
    functions::{Code, Function, Work},
    library::formats::{NamedFormat, REGEX_SIZE_MAX},
    sizes::{Call, CallCost, REGEX_FACTOR, TEXT_FACTOR},
    types::Type,
    value::{Error, Opaque, Outcome, Value},
};

const NAME: &str = "kubernetes.NamedFormat";

impl Opaque for NamedFormat {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.get::<Self>().is_some_and(|other| self == other)
    }
}

pub(super) fn functions() -> Rows {
    let format = || Type::object(NAME);
    let problems = Type::optional(Type::list(Type::String));
    let mut rows = vec![
        Function::new("format.named")
            .global("format-named", [Type::String], Type::optional(format()), named)
            .costs(costs::one, costs::one_estimate),
        Function::new("validate").member("format-validate", [format(), Type::String], problems, validate).costs(spent, estimate),
    ];
    rows.extend(CONSTANTS.into_iter().zip(NamedFormat::all()).map(|(code, of)| {
        let name = of.function();
        Function::new(name).global(name, [], format(), code)
    }));
    rows
}

/// Functions of no arguments, one for each format in order.
const CONSTANTS: [Code; 13] = [
    constant::<0>,
    constant::<1>,
    constant::<2>,
    constant::<3>,
    constant::<4>,
    constant::<5>,
    constant::<6>,
    constant::<7>,
    constant::<8>,
    constant::<9>,
    constant::<10>,
    constant::<11>,
    constant::<12>,
];

fn constant<'v, const AT: usize>(_work: &mut Work, _args: &[Value<'v>]) -> Outcome<'v> {
    NamedFormat::all().nth(AT).map(Value::opaque).ok_or_else(Error::no_such_overload)
}

fn named<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    Ok(NamedFormat::named(text(args, 0)?).map_or(Value::Optional(None), |format| Value::some(Value::opaque(format))))
}

fn validate<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let problems = opaque::<NamedFormat>(args, 0)?.problems(text(args, 1)?);
    if problems.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(problems.into_iter().map(Value::string).collect())))
}

fn spent(_overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    let format: Result<&NamedFormat, Error> = opaque(args, 0);
    format.ok().map(|format| costs::expression_cost(costs::size(args, 1), format.regex_size()))
}

#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn estimate(call: &Call<'_>) -> Option<CallCost> {
    let size = call.size(call.args.first()?);
    Some(CallCost::of(size.scaled(TEXT_FACTOR).scaled(REGEX_SIZE_MAX as f64 * REGEX_FACTOR)))
}
