//! Conditions in CEL under which a webhook is asked (`matchConditions`).

use std::sync::{Arc, LazyLock};

use cel::{Authorizer, Bindings, Env, Program, Refused, ResourceCheck, Type, Value as CelValue};
use serde_json::Value;

use crate::tree;

/// What one evaluation may cost, and all conditions of a webhook together (`pkg/apis/cel` of apiserver).
const COST_MAX: u64 = 1_000_000;
const COST_OF_ALL_MAX: u64 = 2_500_000;

static ENVIRONMENT: LazyLock<Env> =
    LazyLock::new(|| cel::admission_environment(cel::Admission { authorizer: true, ..cel::Admission::default() }));

/// The conditions of one webhook.
#[derive(Debug)]
pub struct Conditions {
    all: Vec<Condition>,
    ignores_failure: bool,
}

#[derive(Debug)]
struct Condition {
    expression: String,
    /// What it is, or what is wrong with it.
    program: Result<Program, String>,
}

/// What conditions look at.
pub struct Conditional<'v> {
    /// The request.
    pub request: &'v Value,
    /// The object; none of a deletion.
    pub object: Option<&'v Value>,
    /// The object that is there, if any.
    pub old: Option<&'v Value>,
    /// Knows what users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// The resource of the request, as it is asked about.
    pub check: ResourceCheck,
}

impl<'v> Conditional<'v> {
    fn bindings(&self) -> Bindings<'v> {
        let object = |object: Option<&'v Value>| object.map_or(CelValue::Null, CelValue::of_json);
        Bindings::default()
            .with("object", object(self.object))
            .with("oldObject", object(self.old))
            .with("namespaceObject", CelValue::Null)
            .with("request", CelValue::of_json(self.request))
            .with("authorizer", cel::authorizer_value(self.authorizer.clone()))
            .with("authorizer.requestResource", cel::resource_check_value(self.authorizer.clone(), self.check.clone()))
    }
}

/// Whether a webhook is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// It is.
    Asked,
    /// It is not.
    Skipped,
    /// Nobody knows, so the write is refused.
    Failed(String),
}

impl Conditions {
    pub(super) fn compile(conditions: &Value, ignores_failure: bool) -> Self {
        let all = conditions.as_array().into_iter().flatten();
        let all = all.map(|condition| Condition::compile(tree::text(condition, &["expression"]))).collect();
        Self { all, ignores_failure }
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Judges the conditions.
    #[must_use]
    pub fn judge(&self, about: &Conditional<'_>) -> Match {
        self.judge_with(&about.bindings())
    }

    fn judge_with<'v>(&'v self, bindings: &Bindings<'v>) -> Match {
        let (mut errors, mut left) = (Vec::new(), COST_OF_ALL_MAX);
        for condition in &self.all {
            match condition.holds(bindings, &mut left) {
                Ok(true) => {}
                Ok(false) => return Match::Skipped,
                // The same is said once.
                Err(Unknown::Here(why)) if errors.contains(&why) => {}
                Err(Unknown::Here(why)) => errors.push(why),
                Err(Unknown::Altogether(why)) => {
                    errors = vec![why];
                    break;
                }
            }
        }
        match errors.as_slice() {
            [] => Match::Asked,
            _ if self.ignores_failure => Match::Skipped,
            [one] => Match::Failed(one.clone()),
            many => Match::Failed(format!("[{}]", many.join(", "))),
        }
    }
}

/// Why nobody knows whether a condition holds.
enum Unknown {
    /// Others may say it.
    Here(String),
    /// No other is looked at.
    Altogether(String),
}

impl Condition {
    fn compile(expression: &str) -> Self {
        let program = match ENVIRONMENT.compile(expression) {
            Ok(program) if *program.result_type() == Type::Bool => Ok(program.without_estimate()),
            Ok(program) => Err(format!("must evaluate to bool but got {}", program.result_type())),
            Err(Refused::Compilation(issues)) => Err(format!("compilation failed: {issues}")),
            Err(Refused::Instantiation(why)) => Err(format!("program instantiation failed: {why}")),
        };
        Self { expression: expression.to_owned(), program }
    }

    fn holds<'v>(&'v self, bindings: &Bindings<'v>, left: &mut u64) -> Result<bool, Unknown> {
        let program = self.program.as_ref().map_err(|why| Unknown::Here(format!("compilation error: {why}")))?;
        let evaluated = program.evaluate(bindings, COST_MAX);
        *left = left.checked_sub(evaluated.cost).ok_or_else(|| {
            Unknown::Altogether("validation failed due to running out of cost budget, no further validation rules will be run".to_owned())
        })?;
        match evaluated.result {
            Ok(value) => Ok(matches!(value, CelValue::Bool(true))),
            Err(error) => Err(Unknown::Here(format!("expression '{}' resulted in error: {error}", self.expression))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(expressions: &[&str], ignores_failure: bool) -> Match {
        let conditions: Vec<Value> = expressions.iter().map(|expression| json!({"name": "c", "expression": expression})).collect();
        let conditions = Conditions::compile(&conditions.into(), ignores_failure);
        let object = json!({"a": 1});
        conditions.judge_with(&Bindings::default().with("object", CelValue::of_json(&object)).with("oldObject", CelValue::Null))
    }

    #[test]
    fn all_must_hold_and_one_that_does_not_ends_it() {
        assert_eq!(judged(&["object.a == 1", "oldObject == null"], false), Match::Asked);
        assert_eq!(judged(&["object.b", "object.a == 2"], false), Match::Skipped, "one that does not hold counts more than an error");
        let why = "expression 'object.b' resulted in error: no such key: b";
        assert_eq!(judged(&["object.b"], false), Match::Failed("compilation error: must evaluate to bool but got dyn".to_owned()));
        assert_eq!(judged(&["object.b == 1", "object.a == 1"], false), Match::Failed(why.replace("object.b'", "object.b == 1'")));
        assert_eq!(judged(&["object.b == 1"], true), Match::Skipped);
    }

    #[test]
    fn cost_is_bounded() {
        let costly = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, \
                      [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a + b + c + d + e + f > 0))))))";
        assert!(matches!(judged(&[costly], false), Match::Failed(why) if why.contains("cost limit exceeded")));
        assert!(matches!(judged(&[costly, costly, costly], false), Match::Failed(why) if why.contains("running out of cost budget")));
    }
}
