//! Loops over lists and maps.

use super::{Run, Slot};
use crate::{
    plan::{Fold, Node, go_type},
    value::{Error, Outcome, Value},
};

impl<'v> Run<'v> {
    pub(super) fn fold(&mut self, fold: &'v Fold) -> Outcome<'v> {
        let range = self.node(&fold.range)?;
        self.slots[fold.slot] = Slot::Later(&fold.init);
        match &range {
            Value::List(list) => {
                for (at, element) in list.iter().enumerate() {
                    let index = fold.two.then(|| Ok(Value::Int(i64::try_from(at).unwrap_or(i64::MAX))));
                    let vars = match index {
                        Some(index) => [Some(index), Some(element)],
                        None => [Some(element), None],
                    };
                    if !self.turn(fold, vars)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let value = if fold.two { map.find(&key) } else { None };
                    if !self.turn(fold, [Some(Ok(key)), value])? {
                        break;
                    }
                }
            }
            other if fold.two => return Err(Error::new(format!("unsupported comprehension range type: {}", go_type(other)))),
            other => return Err(Error::new(format!("got '{}', expected iterable type", go_type(other)))),
        }
        self.node(&fold.result)
    }

    /// One turn of a loop; returns whether there may be another.
    fn turn(&mut self, fold: &'v Fold, vars: [Option<Outcome<'v>>; 2]) -> Result<bool, Error> {
        for (at, var) in vars.into_iter().flatten().enumerate() {
            self.slots[fold.slot + 1 + at] = Slot::Is(var);
        }
        match self.node(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(Error::CostExceeded) => return Err(Error::CostExceeded),
            _ => {}
        }
        match self.node(&fold.step) {
            Err(Error::CostExceeded) => Err(Error::CostExceeded),
            outcome => {
                self.slots[fold.slot] = Slot::Is(outcome);
                Ok(true)
            }
        }
    }

    /// Takes what an accumulator is: nobody else has it then.
    fn taken(&mut self, slot: usize) -> Outcome<'v> {
        match std::mem::replace(&mut self.slots[slot], Slot::Is(Ok(Value::Null))) {
            Slot::Is(value) => value,
            Slot::Later(node) => self.node(node),
        }
    }

    pub(super) fn append(&mut self, slot: usize, element: &'v Node, cost: u64) -> Outcome<'v> {
        let accumulator = self.taken(slot);
        self.charge(1)?;
        let element = self.node(element);
        if matches!(element, Err(Error::CostExceeded)) {
            return element;
        }
        self.charge(cost + 1)?;
        match accumulator? {
            Value::List(made) => made.push(element?).map(Value::List),
            _ => Err(Error::no_such_overload()),
        }
    }

    pub(super) fn insert(&mut self, slot: usize, args: &'v [Node]) -> Outcome<'v> {
        let accumulator = self.taken(slot);
        self.charge(1)?;
        // A key and a value are evaluated up to the first error, an entry whatever the map is.
        let accumulator = if args.len() == 2 { Ok(accumulator?) } else { accumulator };
        let mut values = Vec::with_capacity(args.len());
        for (at, arg) in args.iter().enumerate() {
            match self.node(arg) {
                Ok(value) => values.push(value),
                Err(error) if at + 1 == args.len() && error != Error::CostExceeded => {
                    self.charge(1)?;
                    return Err(accumulator.err().unwrap_or(error));
                }
                Err(error) => return Err(error),
            }
        }
        self.charge(1)?;
        let Value::Map(map) = accumulator? else { return Err(Error::no_such_overload()) };
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (Some(key), Some(value)) => map.inserted(key, value),
            (Some(Value::Map(entries)), None) => {
                let mut made = Value::Map(map);
                for (key, value) in entries.entries() {
                    let Value::Map(map) = made else { return Err(Error::no_such_overload()) };
                    made = map.inserted(key, value?)?;
                }
                Ok(made)
            }
            _ => Err(Error::no_such_overload()),
        }
    }
}
