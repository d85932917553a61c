//! The table of functions: what each takes and returns, what it costs, and the code that it is.

use std::{collections::HashMap, fmt, sync::Arc};

use go::regexp;

use crate::{
    sizes::{Call as EstimatedCall, CallCost},
    types::Type,
    value::{Error, Outcome, Value},
};

/// Regular expressions that are kept during an evaluation.
const COMPILED_MAX: usize = 64;

/// What the calls of an evaluation share: regular expressions, and a limit of the work that a cost does not show.
#[derive(Debug)]
pub struct Work {
    /// Steps that regular expressions may still take.
    pub steps: u64,
    compiled: HashMap<Box<str>, Arc<regexp::Program>>,
    /// The one that is a constant of the call.
    pub(crate) constant: Option<Arc<regexp::Program>>,
}

impl Work {
    pub(crate) fn new(steps: u64) -> Self {
        Self { steps, compiled: HashMap::new(), constant: None }
    }

    /// Returns a regular expression, compiled once for an evaluation.
    ///
    /// # Errors
    /// Go's text.
    pub fn regex(&mut self, pattern: &str) -> Result<Arc<regexp::Program>, Error> {
        if let Some(constant) = &self.constant {
            return Ok(constant.clone());
        }
        if let Some(known) = self.compiled.get(pattern) {
            return Ok(known.clone());
        }
        let mut bytes = regexp::COMPILED_BYTES_MAX;
        let program = Arc::new(regexp::Program::compile(pattern, &mut bytes).map_err(Error::new)?);
        if self.compiled.len() < COMPILED_MAX {
            self.compiled.insert(pattern.into(), program.clone());
        }
        Ok(program)
    }

    pub(crate) fn matches(&mut self, regex: &regexp::Program, text: &str) -> Result<bool, Error> {
        regex.matches(text, &mut self.steps).map_err(|_| Error::new("the regular expression takes too many steps"))
    }
}

/// The code of a function. A member's target is its first argument.
pub type Code = for<'v> fn(&mut Work, &[Value<'v>]) -> Outcome<'v>;
/// What a call cost: by its overload (empty if several fit), its arguments and its result. None: what is usual.
pub type Spent = for<'v> fn(&str, &[Value<'v>], &Outcome<'v>) -> Option<u64>;
/// What a call costs as far as can be said before. None: what is usual.
pub type Estimate = fn(&EstimatedCall<'_>) -> Option<CallCost>;

/// A function and its overloads.
#[derive(Clone)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The ways in which it can be called, in the order in which they are tried.
    pub overloads: Vec<Overload>,
    /// One code for all overloads, which looks at the values itself.
    pub code: Option<Code>,
    /// What a call cost, whatever the overload.
    pub spent: Option<Spent>,
    /// What a call costs, whatever the overload.
    pub estimate: Option<Estimate>,
    /// Whether the code of one overload looks at the types of values itself.
    pub unguarded: bool,
}

/// One way to call a function.
#[derive(Clone)]
pub struct Overload {
    /// Its id.
    pub id: &'static str,
    /// Whether it is called on its first argument.
    pub member: bool,
    /// The types of its arguments.
    pub args: Vec<Type>,
    /// The type of its result.
    pub result: Type,
    /// Its code.
    pub code: Option<Code>,
    /// What a call cost; stands before what the function says.
    pub spent: Option<Spent>,
    /// What a call costs; stands before what the function says.
    pub estimate: Option<Estimate>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("name", &self.name).field("overloads", &self.overloads).finish_non_exhaustive()
    }
}

impl fmt::Debug for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overload").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Function {
    /// Returns a function without overloads.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, overloads: Vec::new(), code: None, spent: None, estimate: None, unguarded: false }
    }

    /// Adds an overload that is called by the function's name.
    #[must_use]
    pub fn global(self, id: &'static str, args: impl Into<Vec<Type>>, result: Type, code: Code) -> Self {
        self.overload(Overload { id, member: false, args: args.into(), result, code: Some(code), spent: None, estimate: None })
    }

    /// Adds an overload that is called on its first argument.
    #[must_use]
    pub fn member(self, id: &'static str, args: impl Into<Vec<Type>>, result: Type, code: Code) -> Self {
        self.overload(Overload { id, member: true, args: args.into(), result, code: Some(code), spent: None, estimate: None })
    }

    /// Adds an overload whose code is the function's.
    #[must_use]
    pub fn declared(self, id: &'static str, args: impl Into<Vec<Type>>, result: Type) -> Self {
        self.overload(Overload { id, member: false, args: args.into(), result, code: None, spent: None, estimate: None })
    }

    /// Adds an overload.
    #[must_use]
    pub fn overload(mut self, overload: Overload) -> Self {
        self.overloads.push(overload);
        self
    }

    /// Sets the code for all overloads.
    #[must_use]
    pub fn code(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets what calls cost.
    #[must_use]
    pub fn costs(mut self, spent: Spent, estimate: Estimate) -> Self {
        (self.spent, self.estimate) = (Some(spent), Some(estimate));
        self
    }

    /// Sets what calls of the last overload cost; it stands before what the function says.
    #[must_use]
    pub fn overload_costs(mut self, spent: Spent, estimate: Estimate) -> Self {
        if let Some(last) = self.overloads.last_mut() {
            (last.spent, last.estimate) = (Some(spent), Some(estimate));
        }
        self
    }

    /// Lets the code look at the types of values itself.
    #[must_use]
    pub const fn unguarded(mut self) -> Self {
        self.unguarded = true;
        self
    }

    /// Calls the function when several overloads may fit: the first whose types are those of the arguments.
    pub(crate) fn dispatch<'v>(&self, work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
        let found = self.overloads.iter().filter(|overload| overload.code.is_some() || self.code.is_none());
        let found = found.clone().find(|overload| overload.fits(args)).and_then(|overload| overload.code);
        found.or(self.code).map_or_else(|| Err(Error::no_overload_of(self.name, args)), |code| code(work, args))
    }
}

impl Overload {
    /// Returns whether values are of the types of its arguments, as far as can be seen at a glance.
    #[must_use]
    pub fn fits(&self, args: &[Value<'_>]) -> bool {
        self.args.len() == args.len() && self.args.iter().zip(args).all(|(kind, value)| is_of(kind, value))
    }
}

/// Returns whether a value is of a type; of lists and maps, the first element is looked at.
fn is_of(kind: &Type, value: &Value<'_>) -> bool {
    match (kind, value) {
        (Type::Dyn | Type::Param(_), _) => true,
        (Type::List(items), Value::List(list)) => list.get(0).is_none_or(|first| match first {
            Ok(first) => is_of(items, &first),
            Err(_) => matches!(**items, Type::Dyn | Type::Param(_)),
        }),
        (Type::Map(of), Value::Map(map)) => {
            let is_any = |kind: &Type| matches!(kind, Type::Dyn | Type::Param(_));
            is_any(&of.0) && is_any(&of.1)
                || map.first().is_none_or(|(key, value)| is_of(&of.0, &key) && value.is_ok_and(|value| is_of(&of.1, &value)))
        }
        (kind, value) => kind.name() == value.type_name(),
    }
}

/// The functions of an environment.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    by_name: HashMap<&'static str, Arc<Function>>,
}

impl Functions {
    /// Adds functions; the overloads of one that is there already follow those that it has.
    #[must_use]
    pub fn with(mut self, functions: impl IntoIterator<Item = Function>) -> Self {
        for function in functions {
            match self.by_name.get_mut(function.name) {
                Some(known) => {
                    let known = Arc::make_mut(known);
                    known.overloads.extend(function.overloads);
                    known.code = known.code.or(function.code);
                    known.spent = known.spent.or(function.spent);
                    known.estimate = known.estimate.or(function.estimate);
                }
                None => {
                    self.by_name.insert(function.name, Arc::new(function));
                }
            }
        }
        self
    }

    /// Returns the function of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Function> {
        self.by_name.get(name).map(|function| &**function)
    }

    pub(crate) fn shared(&self, name: &str) -> Option<Arc<Function>> {
        self.by_name.get(name).cloned()
    }
}
