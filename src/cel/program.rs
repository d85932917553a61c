//! Expressions that are compiled: parsed, checked and planned.

use std::fmt;

use crate::{
    checker::{self, Checked},
    env::Env,
    estimate,
    evaluate::{self, Bindings, Evaluated},
    issue::Issues,
    parse,
    plan::{self, Plan},
    sizes::{Range, Sizes},
    types::Type,
};

/// Why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no expression, or its types are wrong.
    Compilation(Issues),
    /// A constant of it cannot be computed.
    Instantiation(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compilation(issues) => issues.fmt(f),
            Self::Instantiation(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refused {}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    result: Type,
    /// What estimates look at.
    checked: Option<Box<Checked>>,
    plan: Plan,
}

impl Env {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What cel-go says is wrong with it.
    pub fn compile(&self, source: &str) -> Result<Program, Refused> {
        let parsed = parse::parse(source).map_err(Refused::Compilation)?;
        let checked = checker::check(self, parsed, source).map_err(Refused::Compilation)?;
        let plan = plan::plan(&self.functions, &checked).map_err(Refused::Instantiation)?;
        let result = checked.types[checked.expr.id as usize].clone();
        Ok(Program { result, checked: Some(Box::new(checked)), plan })
    }
}

impl Program {
    /// Returns the type of its result.
    #[must_use]
    pub const fn result_type(&self) -> &Type {
        &self.result
    }

    /// Returns the variables that it refers to.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.plan.variables.iter().map(|name| &**name)
    }

    /// Returns what an evaluation costs at least and at most.
    #[must_use]
    pub fn estimate(&self, env: &Env, sizes: &dyn Sizes) -> Range {
        self.checked.as_ref().map_or(Range::UNKNOWN, |checked| estimate::estimate(&env.functions, checked, sizes))
    }

    /// Returns it without what only estimates need, which is most of what it takes: its cost is unknown then.
    #[must_use]
    pub fn without_estimate(self) -> Self {
        Self { checked: None, ..self }
    }

    /// Evaluates it; an evaluation that costs more than `limit` ends.
    pub fn evaluate<'v>(&'v self, bindings: &Bindings<'v>, limit: u64) -> Evaluated<'v> {
        evaluate::evaluate(&self.plan, bindings, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sizes::NoSizes, standard, value::Value};

    fn env() -> Env {
        Env::new(standard::shared()).strict().variable("x", Type::Dyn)
    }

    /// What comes of it, or why nothing does.
    fn shown(source: &str, limit: u64) -> String {
        let env = env();
        let program = match env.compile(source) {
            Ok(program) => program,
            Err(refused) => return refused.to_string(),
        };
        let _ = program.estimate(&env, &NoSizes);
        let evaluated = program.evaluate(&Bindings::default().with("x", Value::Int(1)), limit);
        evaluated.result.map_or_else(|error| error.to_string(), |value| value.to_string())
    }

    /// Without optimization a level takes three times as much of the stack as it does in the server, whose threads have 2 MiB.
    #[test]
    fn what_is_deep_is_refused_or_evaluated() {
        let run = std::thread::Builder::new().stack_size(6 << 20).spawn(deep).map(std::thread::JoinHandle::join);
        assert!(matches!(run, Ok(Ok(()))));
    }

    fn deep() {
        let nested = |open: &str, inside: &str, close: &str, depth: usize| open.repeat(depth) + inside + &close.repeat(depth);
        let refused = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
        assert_eq!(shown(&nested("(", "1", ")", 249), u64::MAX), "1");
        assert_eq!(shown(&nested("(", "1", ")", 250), u64::MAX), refused);
        assert_eq!(shown(&nested("[", "1", "]", 250), u64::MAX), refused);
        assert_eq!(shown(&nested("size([", "x", "])", 100), u64::MAX), "1");
        assert_eq!(shown(&nested("[1].map(y, ", "x", ")[0]", 120), u64::MAX), "1");
        assert_eq!(shown(&nested("optional.of(", "x", ").optMap(y, y).value()", 8), u64::MAX), "1");
        assert_eq!(shown(&nested("[1].map(y, ", "x", ")", 245), u64::MAX).len(), 245 * 2 + 1);
        assert_eq!(shown(&nested("x == 1 ? (", "x", ") : 2", 240), u64::MAX), "1");
        assert_eq!(shown(&nested("[1].exists(y, ", "true", ")", 245), u64::MAX), "true");
        assert_eq!(shown(&nested("{1: ", "true", "}[1]", 245), u64::MAX), "true");
        let refused = "ERROR: <input>:-1:0: max recursion depth exceeded";
        assert_eq!(shown(&nested("", "1", " + 1", 250), u64::MAX), "251");
        assert_eq!(shown(&nested("", "1", " + 1", 251), u64::MAX), refused);
        assert_eq!(
            shown(&nested("", "x", ".a", 100_000), u64::MAX),
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 200001, limit 100000"
        );
        assert_eq!(shown(&nested("", "x", ".a", 40_000), u64::MAX), refused);
        assert_eq!(shown(&nested("", "true", " && true", 10_000), u64::MAX), "true");
        assert_eq!(shown(&nested("!", "true", "", 90_001), u64::MAX), "false");
    }

    #[test]
    fn what_would_grow_without_end_is_refused() {
        let copies = format!("optional.of(1){}", ".optMap(y, y)".repeat(200));
        assert_eq!(shown(&copies, u64::MAX), "ERROR: <input>:-1:0: expression is too large with its macros expanded");
        let doubled = format!("[1]{}", ".map(y, {y: y})".repeat(60));
        assert!(shown(&doubled, u64::MAX).starts_with("ERROR: <input>:1:"), "{}", shown(&doubled, u64::MAX));
    }

    #[test]
    fn what_costs_too_much_ends() {
        let range = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
        let nested = format!("{range}.all(a, {range}.all(b, {range}.all(c, {range}.all(d, {range}.all(e, {range}.all(f, true))))))");
        assert_eq!(shown(&nested, 1_000_000), "operation cancelled: actual cost limit exceeded");
        assert_eq!(shown("true || [1].all(a, x == a)", 0), "true");
        assert_eq!(shown("[1].all(a, x == a) || true", 3), "operation cancelled: actual cost limit exceeded");
    }
}
