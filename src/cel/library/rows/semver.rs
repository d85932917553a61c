//! Functions of semantic versions.

use super::{
    args::{Rows, boolean, opaque, text},
    costs,
};
use crate::{
    functions::{Function, Work},
    library::semver::Semver,
    types::Type,
    value::{Error, Opaque, Outcome, Value},
};

const NAME: &str = "kubernetes.Semver";

impl Opaque for Semver {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.get::<Self>().is_some_and(|other| self == other)
    }
}

pub(super) fn functions() -> Rows {
    let semver = || Type::object(NAME);
    let both = || [semver(), semver()];
    let one = |function: Function| function.costs(costs::one, costs::one_estimate);
    let read = |function: Function| function.costs(costs::followed, costs::followed_estimate);
    vec![
        read(Function::new("semver").global("string_to_semver", [Type::String], semver(), parse).global(
            "string_bool_to_semver",
            [Type::String, Type::Bool],
            semver(),
            parse,
        )),
        read(Function::new("isSemver").global("is_semver_string", [Type::String], Type::Bool, is).global(
            "is_semver_string_bool",
            [Type::String, Type::Bool],
            Type::Bool,
            is,
        )),
        one(Function::new("isGreaterThan")
            .member("semver_is_greater_than", both(), Type::Bool, |_, args| Ok(Value::Bool(of(args, 0)? > of(args, 1)?)))),
        one(Function::new("isLessThan")
            .member("semver_is_less_than", both(), Type::Bool, |_, args| Ok(Value::Bool(of(args, 0)? < of(args, 1)?)))),
        one(Function::new("compareTo")
            .member("semver_compare_to", both(), Type::Int, |_, args| Ok(Value::Int(of(args, 0)?.cmp(of(args, 1)?) as i64)))),
        one(Function::new("major").member("semver_major", [semver()], Type::Int, |_, args| Ok(Value::Int(of(args, 0)?.major())))),
        one(Function::new("minor").member("semver_minor", [semver()], Type::Int, |_, args| Ok(Value::Int(of(args, 0)?.minor())))),
        one(Function::new("patch").member("semver_patch", [semver()], Type::Int, |_, args| Ok(Value::Int(of(args, 0)?.patch())))),
    ]
}

fn of<'a>(args: &'a [Value<'_>], at: usize) -> Result<&'a Semver, Error> {
    opaque(args, at)
}

fn read(args: &[Value<'_>]) -> Result<Result<Semver, String>, Error> {
    let normalizes = args.len() > 1 && boolean(args, 1)?;
    Ok(Semver::parse(text(args, 0)?, normalizes))
}

fn parse<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    read(args)?.map(Value::opaque).map_err(Error::new)
}

fn is<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    Ok(Value::Bool(read(args)?.is_ok()))
}
