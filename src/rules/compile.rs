//! Rules as they are compiled: typed against the values of their schema, with what they may cost at most.

use cel::{Program, Refused};
use schema::Rule;

use crate::{engine::Engine, scope::Scope};

/// A rule that was compiled.
#[derive(Debug)]
pub struct Compiled {
    /// The expression; none of an empty one.
    pub(crate) program: Option<Result<Program, String>>,
    /// The expression that makes the message.
    pub(crate) message: Option<Result<Program, String>>,
    uses_old: bool,
    cost_each: u64,
    times: u64,
    message_cost_max: u64,
}

impl Compiled {
    /// Returns why the rule is none.
    #[must_use]
    pub fn wrong(&self) -> Option<&str> {
        self.program.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// Returns why its `messageExpression` is none.
    #[must_use]
    pub fn wrong_message(&self) -> Option<&str> {
        self.message.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// Returns whether it has a `messageExpression` that is one.
    #[must_use]
    pub fn has_message(&self) -> bool {
        matches!(self.message, Some(Ok(_)))
    }

    /// Returns whether it looks at what the value replaces.
    #[must_use]
    pub fn uses_old(&self) -> bool {
        self.uses_old
    }

    /// Returns what all its evaluations for one object cost at most.
    #[must_use]
    pub fn cost_max(&self) -> u64 {
        self.cost_each.saturating_mul(self.times)
    }

    /// Returns what one evaluation costs at most.
    #[cfg(test)]
    pub(crate) fn cost_each(&self) -> u64 {
        self.cost_each
    }

    /// Returns what its message costs at most.
    #[must_use]
    pub fn message_cost_max(&self) -> u64 {
        self.message_cost_max
    }
}

/// Compiles the rules of a schema, in their order.
///
/// # Errors
/// Expressions do not see values of this schema.
pub fn compile(scope: &Scope<'_>) -> Result<Vec<Compiled>, String> {
    let rules = scope.view.rules();
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let decl = scope.decl().ok_or("unable to convert structural schema to CEL declarations")?;
    let times = scope.times(decl);
    let engine = Engine::new(decl);
    Ok(rules.iter().map(|rule| compile_rule(&engine, rule, times)).collect())
}

fn compile_rule(engine: &Engine<'_>, rule: &Rule, times: u64) -> Compiled {
    let mut compiled = Compiled { program: None, message: None, uses_old: false, cost_each: 0, times, message_cost_max: 0 };
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    let optional = rule.optional_old_self == Some(true);
    let program = match engine.compile(&rule.rule, optional) {
        Err(Refused::Compilation(why)) => Err(format!("compilation failed: {why}")),
        Err(Refused::Instantiation(why)) => Err(format!("program instantiation failed: {why}")),
        Ok(program) if *program.result_type() != cel::Type::Bool => Err("cel expression must evaluate to a bool".to_owned()),
        Ok(program) => Ok(program),
    };
    if let Ok(program) = &program {
        compiled.uses_old = program.variables().any(|name| name == crate::OLD);
        compiled.cost_each = engine.cost_max(program);
        if let Some(text) = rule.message_expression.as_deref().filter(|text| !text.is_empty()) {
            let message = match engine.compile(text, optional) {
                Err(Refused::Compilation(why)) => Err(format!("messageExpression compilation failed: {why}")),
                Err(Refused::Instantiation(why)) => Err(format!("messageExpression instantiation failed: {why}")),
                Ok(message) if *message.result_type() != cel::Type::String => Err("messageExpression must evaluate to a string".to_owned()),
                Ok(message) => Ok(message),
            };
            compiled.message_cost_max = message.as_ref().map_or(0, |message| engine.cost_max(message));
            compiled.message = Some(message);
        }
    }
    compiled.program = Some(program);
    compiled
}
