//! The Common Expression Language as kube-apiserver 1.36 evaluates it (cel-go 0.26.0): types, costs, libraries and error texts.
//!
//! An expression is parsed and typed once (`Env::compile`), what it may cost is estimated, and it is evaluated on values that borrow from objects. Nothing
//! here waits or looks at a clock: what an evaluation may take is bounded by its cost.

mod admission;
mod ast;
mod checker;
mod env;
mod estimate;
mod evaluate;
mod functions;
mod issue;
mod library;
mod macros;
mod made;
mod parse;
mod plan;
mod program;
mod shape;
mod sizes;
pub mod standard;
mod syntax;
mod token;
mod types;
mod value;

pub use admission::{Admission, admission_environment};
pub use ast::Literal;
pub use env::Env;
pub use evaluate::{Bindings, Evaluated};
pub use functions::{Code, Estimate, Function, Functions, Overload, Spent, Work};
pub use issue::{Issue, Issues};
pub use library::{
    AUTHORIZER, Authorizer, Decision, Question, RESOURCE_CHECK, ResourceCheck, Target, authorizer_value, environment, resource_check_value,
};
pub use program::{Program, Refused};
pub use shape::{Fields, Shape, ShapeKind, escape, is_word, unescape};
pub use sizes::{Call, CallCost, NoSizes, Node, Path, REGEX_FACTOR, Range, Sizes, TEXT_FACTOR, scaled};
pub use types::{Opaque as OpaqueType, Type};
pub use value::{Error, Key, List, ListKind, Map, MapBuilder, Object, Opaque, Outcome, Text, Timestamp, Value};

/// The cases of `tests/differential/cel` use the crate by its name.
#[cfg(test)]
extern crate self as watchcache_cel;
#[cfg(test)]
#[path = "../../tests/differential/cel/cases.rs"]
mod cases;
#[cfg(test)]
mod tests;
