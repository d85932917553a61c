//! Functions of quantities.

use super::{
    args::{Rows, int, opaque, text},
    costs,
};
use crate::{
    functions::{Function, Work},
    library::quantity::Quantity,
    types::Type,
    value::{Error, Opaque, Outcome, Value},
};

const NAME: &str = "kubernetes.Quantity";

impl Opaque for Quantity {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.get::<Self>().is_some_and(|other| self == other)
    }

    fn is_comparable(&self, other: &dyn Opaque) -> bool {
        other.get::<Self>().is_some()
    }
}

/// The sum or the difference of quantities. Kubernetes compares it with a quantity that was read, and nothing with it.
#[derive(Debug)]
struct Computed(Quantity);

impl Opaque for Computed {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        self.0.equals(other)
    }

    fn is_comparable(&self, other: &dyn Opaque) -> bool {
        self.0.is_comparable(other)
    }
}

pub(super) fn functions() -> Rows {
    let quantity = || Type::object(NAME);
    let both = || [quantity(), quantity()];
    let one = |function: Function| function.costs(costs::one, costs::one_estimate);
    let read = |function: Function| function.costs(costs::followed, costs::followed_estimate);
    vec![
        read(Function::new("quantity").global("string_to_quantity", [Type::String], quantity(), parse)),
        read(Function::new("isQuantity").global("is_quantity_string", [Type::String], Type::Bool, is)),
        one(Function::new("sign").global("quantity_sign", [quantity()], Type::Int, |_, args| Ok(Value::Int(of(args, 0)?.sign())))),
        one(Function::new("isGreaterThan")
            .member("quantity_is_greater_than", both(), Type::Bool, |_, args| Ok(Value::Bool(of(args, 0)? > of(args, 1)?)))),
        one(Function::new("isLessThan")
            .member("quantity_is_less_than", both(), Type::Bool, |_, args| Ok(Value::Bool(of(args, 0)? < of(args, 1)?)))),
        one(Function::new("compareTo")
            .member("quantity_compare_to", both(), Type::Int, |_, args| Ok(Value::Int(of(args, 0)?.cmp(of(args, 1)?) as i64)))),
        one(Function::new("asApproximateFloat")
            .member("quantity_get_float", [quantity()], Type::Double, |_, args| Ok(Value::Double(of(args, 0)?.approximate())))),
        one(Function::new("asInteger").member("quantity_get_int", [quantity()], Type::Int, |_, args| {
            of(args, 0)?.integer().map(Value::Int).ok_or_else(|| Error::new("cannot convert value to integer"))
        })),
        one(Function::new("isInteger")
            .member("quantity_is_integer", [quantity()], Type::Bool, |_, args| Ok(Value::Bool(of(args, 0)?.integer().is_some())))),
        one(Function::new("add").member("quantity_add", both(), quantity(), |_, args| computed(of(args, 0)?.plus(of(args, 1)?))).member(
            "quantity_add_int",
            [quantity(), Type::Int],
            quantity(),
            |_, args| computed(of(args, 0)?.plus(&whole(args)?)),
        )),
        one(Function::new("sub").member("quantity_sub", both(), quantity(), |_, args| computed(of(args, 0)?.minus(of(args, 1)?))).member(
            "quantity_sub_int",
            [quantity(), Type::Int],
            quantity(),
            |_, args| computed(of(args, 0)?.minus(&whole(args)?)),
        )),
    ]
}

fn of<'a>(args: &'a [Value<'_>], at: usize) -> Result<&'a Quantity, Error> {
    opaque::<Computed>(args, at).map(|computed| &computed.0).or_else(|_| opaque(args, at))
}

fn whole(args: &[Value<'_>]) -> Result<Quantity, Error> {
    int(args, 1).map(Quantity::of)
}

fn made<'v>(quantity: Result<Quantity, String>) -> Outcome<'v> {
    quantity.map(Value::opaque).map_err(Error::new)
}

fn computed<'v>(quantity: Result<Quantity, String>) -> Outcome<'v> {
    quantity.map(|quantity| Value::opaque(Computed(quantity))).map_err(Error::new)
}

fn parse<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    made(Quantity::parse(text(args, 0)?))
}

fn is<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    Ok(Value::Bool(Quantity::is(text(args, 0)?)))
}
