//! The evaluation of a plan, with its cost as cel-go counts it.

mod attribute;
mod cost;
mod fold;

pub(crate) use cost::LIST as LIST_COST;

use crate::{
    functions::Work,
    made,
    plan::{CallNode, Node, Plan, StructNode, go_type},
    value::{Error, Key, MapBuilder, Object, Outcome, Value},
};

/// Steps that all regular expressions of one evaluation may take.
const REGEX_STEPS_MAX: u64 = 1_000_000_000;

/// What came of an evaluation.
#[derive(Debug)]
pub struct Evaluated<'v> {
    /// The value, or why there is none.
    pub result: Outcome<'v>,
    /// What it cost.
    pub cost: u64,
}

/// The variables of an evaluation.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'v> {
    variables: Vec<(&'v str, Outcome<'v>)>,
}

impl<'v> Bindings<'v> {
    /// Returns these with one more.
    #[must_use]
    pub fn with(mut self, name: &'v str, value: Value<'v>) -> Self {
        self.variables.push((name, Ok(value)));
        self
    }

    /// Returns these with one more, which may be an error.
    #[must_use]
    pub fn with_outcome(mut self, name: &'v str, value: Outcome<'v>) -> Self {
        self.variables.push((name, value));
        self
    }

    fn get(&self, name: &str) -> Option<Outcome<'v>> {
        self.variables.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }
}

/// Evaluates a plan; what costs more than `limit` ends.
pub(crate) fn evaluate<'v>(plan: &'v Plan, bindings: &Bindings<'v>, limit: u64) -> Evaluated<'v> {
    let mut run = Run {
        variables: plan.variables.iter().map(|name| bindings.get(name)).collect(),
        names: plan,
        slots: Vec::new(),
        cost: 0,
        limit,
        work: Work::new(REGEX_STEPS_MAX),
    };
    run.slots.resize_with(plan.slots, || Slot::Is(Ok(Value::Null)));
    let result = run.node(&plan.root);
    Evaluated { result, cost: run.cost }
}

/// A variable of a loop.
enum Slot<'v> {
    /// It is computed when it is needed.
    Later(&'v Node),
    Is(Outcome<'v>),
}

struct Run<'v> {
    variables: Vec<Option<Outcome<'v>>>,
    names: &'v Plan,
    slots: Vec<Slot<'v>>,
    cost: u64,
    limit: u64,
    work: Work,
}

impl<'v> Run<'v> {
    fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Error::CostExceeded) } else { Ok(()) }
    }

    fn node(&mut self, node: &'v Node) -> Outcome<'v> {
        match node {
            Node::Const(value) => Ok(value.borrowed()),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::Test(attribute) => self.test(attribute),
            Node::And(terms) => self.logical(terms, false),
            Node::Or(terms) => self.logical(terms, true),
            Node::Equals(sides, wanted) => self.equals(sides, *wanted),
            Node::OneOf(value, set) => {
                let value = self.node(value)?;
                Ok(Value::Bool(Key::of(&value).is_some_and(|key| set.contains(&key))))
            }
            Node::OrElse(sides, unwrap) => self.or_else(sides, *unwrap),
            Node::Call(call) => self.call(call),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Struct(message) => self.message(message),
            Node::Fold(fold) => self.fold(fold),
            Node::Append(slot, element, cost) => self.append(*slot, element, *cost),
            Node::Insert(slot, args) => self.insert(*slot, args),
        }
    }

    /// The first term that is `decisive` decides; an error counts only if none does.
    fn logical(&mut self, terms: &'v [Node; 2], decisive: bool) -> Outcome<'v> {
        let mut error = None;
        for term in terms {
            match self.node(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Err(Error::CostExceeded) => return Err(Error::CostExceeded),
                Ok(_) => error = error.or(Some(Error::no_such_overload())),
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        error.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    /// Both sides of an operator, evaluated whatever comes of the first one.
    fn both(&mut self, sides: [&'v Node; 2]) -> Result<[Outcome<'v>; 2], Error> {
        let [one, other] = sides.map(|side| match self.node(side) {
            Err(Error::CostExceeded) => None,
            outcome => Some(outcome),
        });
        Ok([one.ok_or(Error::CostExceeded)?, other.ok_or(Error::CostExceeded)?])
    }

    fn equals(&mut self, sides: &'v [Node; 2], wanted: bool) -> Outcome<'v> {
        let [one, other] = self.both([&sides[0], &sides[1]])?;
        let size = |side: &Outcome<'v>| side.as_ref().map_or(1, Value::size);
        let is_opaque = wanted && matches!(one, Ok(Value::Opaque(_)));
        self.charge(if is_opaque { 1 } else { cost::compared(size(&one), size(&other)) })?;
        let (one, other) = (one?, other?);
        match one.equals(&other) {
            Ok(equal) => Ok(Value::Bool(equal == wanted)),
            // What cannot be compared is not equal; so it is unequal.
            Err(_) if !wanted => Ok(Value::Bool(true)),
            Err(error) => Err(error),
        }
    }

    fn or_else(&mut self, sides: &'v [Node; 2], unwrap: bool) -> Outcome<'v> {
        match self.node(&sides[0])? {
            Value::Optional(None) => self.node(&sides[1]),
            Value::Optional(Some(value)) if unwrap => Ok((*value).clone()),
            other => Ok(other),
        }
    }

    fn call(&mut self, call: &'v CallNode) -> Outcome<'v> {
        match &*call.args {
            [only] => {
                let value = self.node(only);
                self.finish(call, [value])
            }
            [one, other] if !call.stops => {
                let sides = self.both([one, other])?;
                self.finish(call, sides)
            }
            args => {
                let mut values = Vec::with_capacity(args.len());
                for (at, arg) in args.iter().enumerate() {
                    match self.node(arg) {
                        Ok(value) => values.push(value),
                        // The last argument is there for the cost, also as an error.
                        Err(error) if at + 1 == args.len() && error != Error::CostExceeded => {
                            values.push(Value::Null);
                            return self.failed(call, &values, error);
                        }
                        Err(error) => return Err(error),
                    }
                }
                self.applied(call, &values)
            }
        }
    }

    /// Calls a function unless an argument is an error; the call costs something all the same.
    fn finish<const N: usize>(&mut self, call: &'v CallNode, outcomes: [Outcome<'v>; N]) -> Outcome<'v> {
        if call.function.name == crate::ast::operator::NOT_STRICTLY_FALSE {
            return self.not_strictly_false(outcomes);
        }
        if outcomes.iter().any(|outcome| matches!(outcome, Err(Error::CostExceeded))) {
            return Err(Error::CostExceeded);
        }
        if let Some(error) = outcomes.iter().find_map(|outcome| outcome.as_ref().err()).cloned() {
            let values = outcomes.map(|outcome| outcome.unwrap_or(Value::Null));
            return self.failed(call, &values, error);
        }
        let values = outcomes.map(|outcome| outcome.unwrap_or(Value::Null));
        self.applied(call, &values)
    }

    /// A call that is not made, for an argument is an error.
    fn failed(&mut self, call: &'v CallNode, values: &[Value<'v>], error: Error) -> Outcome<'v> {
        let failed = Err(error);
        let cost = cost::spent(call, values, Some(&failed));
        self.charge(cost.unwrap_or(1))?;
        failed
    }

    fn not_strictly_false<const N: usize>(&mut self, outcomes: [Outcome<'v>; N]) -> Outcome<'v> {
        self.charge(1)?;
        match outcomes.into_iter().next() {
            Some(Ok(Value::Bool(value))) => Ok(Value::Bool(value)),
            Some(Err(Error::CostExceeded)) => Err(Error::CostExceeded),
            _ => Ok(Value::Bool(true)),
        }
    }

    fn applied(&mut self, call: &'v CallNode, values: &[Value<'v>]) -> Outcome<'v> {
        // What is known before is charged before: a call that costs too much is not made.
        let before = cost::spent(call, values, None);
        self.charge(before.unwrap_or(0))?;
        let outcome = self.coded(call, values);
        if before.is_none() {
            self.charge(cost::spent(call, values, Some(&outcome)).unwrap_or(1))?;
        }
        outcome
    }

    fn coded(&mut self, call: &'v CallNode, values: &[Value<'v>]) -> Outcome<'v> {
        if call.regex.is_some() && !matches!(values, [Value::String(_), ..]) {
            return Err(Error::no_such_overload());
        }
        self.work.constant.clone_from(&call.regex);
        let Some(code) = call.code else { return call.function.dispatch(&mut self.work, values) };
        let is_guarded = call.function.code.is_none() && !call.function.unguarded;
        if is_guarded
            && let Some(overload) = call.overload.map(|at| &call.function.overloads[at])
            && !overload.fits(values)
        {
            return Err(Error::no_overload_of(call.function.name, values));
        }
        code(&mut self.work, values)
    }

    fn list(&mut self, elements: &'v [(Node, bool)]) -> Outcome<'v> {
        let values = self.elements(elements);
        if !matches!(values, Err(Error::CostExceeded)) {
            self.charge(cost::LIST)?;
        }
        values.map(Value::list)
    }

    fn elements(&mut self, elements: &'v [(Node, bool)]) -> Result<Vec<Value<'v>>, Error> {
        let mut values = Vec::with_capacity(elements.len());
        for (node, optional) in elements {
            match (self.node(node)?, optional) {
                (value, false) => values.push(value),
                (Value::Optional(None), true) => {}
                (Value::Optional(Some(value)), true) => values.push((*value).clone()),
                (value, true) => {
                    return Err(Error::new(format!("cannot initialize optional list element from non-optional value {value}")));
                }
            }
        }
        Ok(values)
    }

    fn map(&mut self, entries: &'v [(Node, Node, bool)]) -> Outcome<'v> {
        let map = self.entries(entries);
        if !matches!(map, Err(Error::CostExceeded)) {
            self.charge(cost::MAP)?;
        }
        map
    }

    fn entries(&mut self, entries: &'v [(Node, Node, bool)]) -> Outcome<'v> {
        let mut builder = MapBuilder::default();
        for (key, value, optional) in entries {
            let key = self.node(key)?;
            match (self.node(value)?, optional) {
                (value, false) => builder.insert(key, value)?,
                (Value::Optional(None), true) => builder.remove(&key),
                (Value::Optional(Some(value)), true) => builder.insert(key, (*value).clone())?,
                (value, true) => {
                    return Err(Error::new(format!("cannot initialize optional entry '{key}' from non-optional value {value}")));
                }
            }
        }
        Ok(builder.build())
    }

    fn message(&mut self, message: &'v StructNode) -> Outcome<'v> {
        let mut fields = Vec::new();
        for (name, value, optional) in &message.fields {
            match (self.node(value)?, optional) {
                (value, false) => fields.push((name.clone(), value)),
                (Value::Optional(None), true) => {}
                (Value::Optional(Some(value)), true) => fields.push((name.clone(), (*value).clone())),
                (value, true) => {
                    return Err(Error::new(format!("cannot initialize optional entry '{name}' from non-optional value {value}")));
                }
            }
        }
        self.charge(cost::STRUCT)?;
        if let Some((field, value)) =
            fields.iter().find(|(field, value)| made::is_text(&message.name, field) && !matches!(value, Value::String(_)))
        {
            return Err(Error::new(format!("unexpected type {} for JSONPatchType '{field}' field", go_type(value))));
        }
        Object::made(&message.name, fields).map(Value::Object)
    }
}
