//! The expressions of a policy on one write: conditions, validations, messages and annotations, each within its cost (`policy/validating/validator.go` of
//! apiserver).

use std::{collections::HashMap, sync::Arc};

use cel::{Authorizer, Bindings, Error, Outcome, ResourceCheck, Value as CelValue};
use serde_json::Value;

use super::{Expression, Policy, VARIABLES, Validation};

/// What one evaluation may cost; all conditions together; all validations and messages together.
const COST_MAX: u64 = 1_000_000;
const COST_OF_CONDITIONS_MAX: u64 = 2_500_000;
const COST_OF_ALL_MAX: u64 = 10_000_000;
/// Bytes of a message that an expression makes.
const MESSAGE_BYTES_MAX: usize = 5 << 10;
/// The reason of a refusal that names none.
const INVALID: &str = "Invalid";

/// What expressions see.
pub struct Inputs<'v> {
    /// The request.
    pub request: &'v Value,
    /// The object; none of a deletion.
    pub object: Option<&'v Value>,
    /// The object that is there, if any.
    pub old: Option<&'v Value>,
    /// The parameters, if the policy has any.
    pub params: Option<&'v Value>,
    /// The namespace, of an object that is in one.
    pub namespace: Option<&'v Value>,
    /// Knows what users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// The resource of the request, as it is asked about.
    pub check: ResourceCheck,
}

/// What a policy says of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evaluated {
    /// The validations that fail, each with its place.
    pub denied: Vec<(usize, Decision)>,
    /// Annotations for the audit log: a key, and a value or why there is none, which refuses the write.
    pub annotations: Vec<(String, Result<String, String>)>,
}

/// A validation that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is wrong.
    pub message: String,
    /// The reason of the refusal; empty after an error.
    pub reason: String,
}

impl Decision {
    fn error(message: String) -> Self {
        Self { message, reason: String::new() }
    }
}

/// Why an expression has no value.
enum Failure {
    /// It fails.
    Here(String),
    /// No other is evaluated any more.
    Altogether(String),
}

/// The evaluations of one policy.
pub(super) struct Run<'v> {
    policy: &'v Policy,
    bindings: Bindings<'v>,
    /// Variables that were evaluated.
    known: HashMap<&'v str, Outcome<'v>>,
}

impl Policy {
    /// Evaluates the policy.
    #[must_use]
    pub fn evaluate(&self, inputs: &Inputs<'_>) -> Evaluated {
        let mut run = Run::new(self, inputs);
        let failed = |why: String| {
            let denied = if self.ignores_failure { Vec::new() } else { vec![(0, Decision::error(why))] };
            Evaluated { denied, annotations: Vec::new() }
        };
        match run.conditions() {
            Ok(true) => {}
            Ok(false) => return Evaluated::default(),
            Err(why) => return failed(why),
        }
        let mut left = COST_OF_ALL_MAX;
        let mut denied = Vec::new();
        for (at, validation) in self.validations.iter().enumerate() {
            let decided = match run.value(&validation.expression, &mut left) {
                Ok(CelValue::Bool(true)) => continue,
                Ok(_) => run.denial(validation, &mut left),
                Err(Failure::Here(why)) => Decision::error(why),
                Err(Failure::Altogether(why)) => return failed(why),
            };
            if !(self.ignores_failure && decided.reason.is_empty()) {
                denied.push((at, decided));
            }
        }
        let mut left = COST_OF_ALL_MAX;
        let mut annotations = Vec::new();
        for (key, expression) in &self.annotations {
            match run.value(expression, &mut left) {
                Ok(CelValue::String(text)) if !text.trim().is_empty() => annotations.push((key.clone(), Ok(text.trim().to_owned()))),
                Ok(_) => {}
                Err(Failure::Here(why)) if !self.ignores_failure => annotations.push((key.clone(), Err(why))),
                Err(Failure::Here(_)) => {}
                Err(Failure::Altogether(why)) => return failed(why),
            }
        }
        Evaluated { denied, annotations }
    }
}

fn bindings<'v>(inputs: &Inputs<'v>) -> Bindings<'v> {
    let object = |object: Option<&'v Value>| object.map_or(CelValue::Null, CelValue::of_json);
    Bindings::default()
        .with("object", object(inputs.object))
        .with("oldObject", object(inputs.old))
        .with("params", object(inputs.params))
        .with("namespaceObject", object(inputs.namespace))
        .with("request", CelValue::of_json(inputs.request))
        .with("authorizer", cel::authorizer_value(inputs.authorizer.clone()))
        .with("authorizer.requestResource", cel::resource_check_value(inputs.authorizer.clone(), inputs.check.clone()))
}

impl<'v> Run<'v> {
    pub(super) fn new(policy: &'v Policy, inputs: &Inputs<'v>) -> Self {
        Self { policy, bindings: bindings(inputs), known: HashMap::new() }
    }

    /// Returns the value of an expression that has the whole budget.
    pub(super) fn whole(&mut self, expression: &'v Expression) -> Result<CelValue<'v>, String> {
        self.value(expression, &mut { COST_OF_ALL_MAX }).map_err(|(Failure::Here(why) | Failure::Altogether(why))| why)
    }

    /// Whether all conditions hold.
    pub(super) fn conditions(&mut self) -> Result<bool, String> {
        let (mut errors, mut left) = (Vec::new(), COST_OF_CONDITIONS_MAX);
        for condition in &self.policy.conditions {
            match self.value(condition, &mut left) {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(Failure::Here(why)) if errors.contains(&why) => {}
                Err(Failure::Here(why)) => errors.push(why),
                Err(Failure::Altogether(why)) => {
                    errors = vec![why];
                    break;
                }
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            _ if self.policy.ignores_failure => Ok(false),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    /// The words of a validation that does not hold.
    fn denial(&mut self, validation: &'v Validation, left: &mut u64) -> Decision {
        let mut message = String::new();
        if let Some(expression) = &validation.message_expression {
            match self.value(expression, left) {
                Ok(CelValue::String(text)) => text.trim().clone_into(&mut message),
                Ok(_) | Err(Failure::Here(_)) => {}
                Err(Failure::Altogether(why)) => return Decision::error(format!("failed messageExpression: {why}")),
            }
        }
        if message.len() > MESSAGE_BYTES_MAX || message.contains('\n') {
            message.clear();
        }
        let own = || {
            if validation.message.is_empty() {
                format!("failed expression: {}", validation.expression.source.trim())
            } else {
                validation.message.clone()
            }
        };
        let reason = if validation.reason.is_empty() { INVALID } else { &validation.reason };
        Decision { message: if message.is_empty() { own() } else { message }, reason: reason.to_owned() }
    }

    fn value(&mut self, expression: &'v Expression, left: &mut u64) -> Result<CelValue<'v>, Failure> {
        let program = expression.program.as_ref().map_err(|why| Failure::Here(format!("compilation error: {why}")))?;
        let out_of_budget = || {
            Failure::Altogether("validation failed due to running out of cost budget, no further validation rules will be run".to_owned())
        };
        for name in program.variables().filter(|name| name.starts_with(VARIABLES)) {
            *left = left.checked_sub(self.declare(name)).ok_or_else(out_of_budget)?;
        }
        let evaluated = program.evaluate(&self.bindings, COST_MAX);
        *left = left.checked_sub(evaluated.cost).ok_or_else(out_of_budget)?;
        evaluated.result.map_err(|error| Failure::Here(format!("expression '{}' resulted in error: {error}", expression.source)))
    }

    /// Evaluates a variable and those that it refers to, if that was not done; returns what that cost.
    fn declare(&mut self, name: &str) -> u64 {
        let Some((name, expression)) = self.policy.variables.iter().find(|(known, _)| known == name) else { return 0 };
        if self.known.contains_key(name.as_str()) {
            return 0;
        }
        let (outcome, cost) = match &expression.program {
            Err(why) => (Err(Error::new(format!("composited variable {} fails to compile: {why}", shown(name)))), 0),
            Ok(program) => {
                // They stand before it, so this ends.
                let before: u64 = program
                    .variables()
                    .filter(|other| other.starts_with(VARIABLES) && *other != name)
                    .map(|other| self.declare(other))
                    .sum();
                let evaluated = program.evaluate(&self.bindings, COST_MAX);
                let failed = |error: Error| Error::new(format!("composited variable {} fails to evaluate: {error}", shown(name)));
                (evaluated.result.map_err(failed), before + evaluated.cost)
            }
        };
        self.known.insert(name, outcome.clone());
        self.bindings = std::mem::take(&mut self.bindings).with_outcome(name, outcome);
        cost
    }
}

/// The name of a variable in an error.
fn shown(name: &str) -> String {
    go::quote::quoted(name.trim_start_matches(VARIABLES).trim_start_matches('.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use cel::{Decision as Right, Question};

    #[derive(Debug)]
    struct Nobody;

    impl Authorizer for Nobody {
        fn decide(&self, _: &Question) -> Right {
            Right::default()
        }
    }

    fn evaluated(spec: Value, object: &Value, params: Option<&Value>) -> Evaluated {
        let policy = Policy::read(&json!({"metadata": {"name": "p"}, "spec": spec}));
        let request = json!({"operation": "CREATE"});
        let inputs = Inputs {
            request: &request,
            object: Some(object),
            old: None,
            params,
            namespace: None,
            authorizer: Arc::new(Nobody),
            check: ResourceCheck::default(),
        };
        policy.evaluate(&inputs)
    }

    fn denied(spec: Value, object: &Value) -> Vec<String> {
        evaluated(spec, object, None)
            .denied
            .into_iter()
            .map(|(at, decision)| format!("{at} {} {}", decision.reason, decision.message))
            .collect()
    }

    #[test]
    fn messages_come_from_expressions_texts_or_the_rule() {
        let spec = json!({"validations": [
            {"expression": "object.a < 3"},
            {"expression": " object.a < 2 ", "message": " too much ", "reason": "Forbidden"},
            {"expression": "object.a < 1", "messageExpression": "'it is ' + string(object.a)"},
            {"expression": "object.a < 1", "messageExpression": "'a\\nb'", "message": "m"},
        ]});
        let want = ["1 Forbidden too much", "2 Invalid it is 2", "3 Invalid m"];
        assert_eq!(denied(spec.clone(), &json!({"a": 2})), want);
        assert_eq!(denied(spec, &json!({"a": 3}))[0], "0 Invalid failed expression: object.a < 3");
    }

    #[test]
    fn errors_follow_the_failure_policy() {
        let mut spec =
            json!({"validations": [{"expression": "object.b == 1"}], "auditAnnotations": [{"key": "k", "valueExpression": "object.b"}]});
        assert_eq!(denied(spec.clone(), &json!({})), ["0  expression 'object.b == 1' resulted in error: no such key: b"]);
        spec["failurePolicy"] = "Ignore".into();
        assert_eq!(evaluated(spec, &json!({}), None), Evaluated::default());
    }

    #[test]
    fn variables_are_evaluated_when_they_are_wanted() {
        let spec = json!({"variables": [{"name": "one", "expression": "object.a"}, {"name": "two", "expression": "variables.one + 1"},
            {"name": "broken", "expression": "object.missing"}],
            "validations": [{"expression": "variables.two == 3"}, {"expression": "variables.two == 3 || variables.broken == 1"}, {"expression": "variables.broken == 1"}]});
        let want = r#"2  expression 'variables.broken == 1' resulted in error: composited variable "broken" fails to evaluate: no such key: missing"#;
        assert_eq!(denied(spec, &json!({"a": 2})), [want]);
    }

    #[test]
    fn conditions_and_parameters_count() {
        let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "matchConditions": [{"name": "c", "expression": "object.a > 1"}],
            "validations": [{"expression": "string(object.a) == params.data.a"}],
            "auditAnnotations": [{"key": "k", "valueExpression": "'a is ' + string(object.a)"}, {"key": "n", "valueExpression": "null"}]});
        let params = json!({"data": {"a": "2"}});
        let fine = evaluated(spec.clone(), &json!({"a": 2}), Some(&params));
        assert_eq!((fine.denied.len(), fine.annotations), (0, vec![("k".to_owned(), Ok("a is 2".to_owned()))]));
        assert_eq!(evaluated(spec.clone(), &json!({"a": 3}), Some(&params)).denied.len(), 1);
        assert_eq!(evaluated(spec, &json!({"a": 1}), Some(&params)), Evaluated::default());
    }
}
