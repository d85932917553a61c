//! Functions that find what matches an expression.

use std::sync::Arc;

use go::regexp::{Program, TooManySteps};

use super::{
    args::{Rows, int, part, parts, text},
    costs,
};
use crate::{
    functions::{Function, Work},
    types::Type,
    value::{Error, Outcome, Value},
};

pub(super) fn functions() -> Rows {
    let all = || Type::list(Type::String);
    vec![
        Function::new("find")
            .member("string_find_string", [Type::String, Type::String], Type::String, find)
            .costs(costs::matched, costs::matched_estimate),
        Function::new("findAll")
            .member("string_find_all_string", [Type::String, Type::String], all(), find_all)
            .member("string_find_all_string_int", [Type::String, Type::String, Type::Int], all(), find_all)
            .costs(costs::matched, costs::matched_estimate),
    ]
}

fn find<'v>(work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let program = program(work, args)?;
    let mut is_too_long = false;
    let found = part(text(args, 0)?, |searched| {
        let found = program.find(searched, &mut work.steps);
        is_too_long = found.is_err();
        Ok(found.unwrap_or_default().unwrap_or_default())
    })?;
    if is_too_long { Err(too_long(TooManySteps)) } else { Ok(found) }
}

fn find_all<'v>(work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let program = program(work, args)?;
    let most = if args.len() > 2 { int(args, 2)? } else { -1 };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    parts(text(args, 0)?, |searched| program.find_all(searched, most, &mut work.steps)).map_err(too_long)
}

fn program(work: &mut Work, args: &[Value<'_>]) -> Result<Arc<Program>, Error> {
    work.regex(text(args, 1)?).map_err(|why| Error::new(format!("Illegal regex: {why}")))
}

fn too_long(_why: TooManySteps) -> Error {
    Error::new("the regular expression takes too many steps")
}
