//! The rules of a whole schema, and what they find wrong with an object, in kube-apiserver's words (apiextensions `schema/cel/validation.go`).

use std::ops::ControlFlow;

use cel::{Error, Program, Shape, Value as CelValue};
use serde_json::Value;

use crate::{
    Compiled, Judged,
    compile::compile,
    engine::Activation,
    field_path,
    scope::Scope,
    shape::{self, Step},
};
use model::invalid::{FieldError, FieldErrorKind};
use schema::{Rule, Ruled, Schema};

/// What the evaluation of one expression may cost (kube-apiserver's `PerCallLimit`).
const CALL_COST_MAX: u64 = 1_000_000;
/// What all rules of one object may cost (kube-apiserver's `RuntimeCELCostBudget`).
pub(crate) const OBJECT_COST_MAX: u64 = 10_000_000;
/// Bytes of a message that an expression makes.
const MESSAGE_BYTES_MAX: usize = 5 << 10;

/// The rules of a schema.
#[derive(Debug)]
pub struct Validator {
    /// As what whole objects are read.
    root: Shape,
    /// Those of each node that has some, by its number.
    sets: Vec<RuleSet>,
}

/// The rules of one node.
#[derive(Debug)]
struct RuleSet {
    /// `type` of its schema, which errors show instead of the value.
    kind: Box<str>,
    /// The way to it from the root.
    steps: Box<[Step]>,
    rules: Result<Vec<One>, String>,
}

/// One rule.
#[derive(Debug)]
struct One {
    rule: Rule,
    compiled: Compiled,
    /// `fieldPath`, as errors have it; empty if there is none.
    field: Box<str>,
}

impl Validator {
    /// Compiles all rules of a schema; none if it has none.
    #[must_use]
    pub fn of(schema: &Schema) -> Option<Self> {
        Self::compiled(schema, true)
    }

    /// `is_whole`: it is the schema of whole objects, of which rules see the head.
    fn compiled(schema: &Schema, is_whole: bool) -> Option<Self> {
        if !schema.has_rules() {
            return None;
        }
        let mut sets: Vec<Option<RuleSet>> = std::iter::repeat_with(|| None).take(schema.rule_sets()).collect();
        collect(&Scope::of(schema, is_whole), &mut Vec::new(), &mut sets);
        // Each number is that of a node.
        let sets = sets.into_iter().map(|set| set.unwrap_or_else(RuleSet::none)).collect();
        Some(Self { root: shape::shape(schema.view(), is_whole), sets })
    }

    /// Returns how many rules cannot be evaluated here.
    #[must_use]
    pub fn broken(&self) -> usize {
        let broken = |one: &&One| one.compiled.wrong().is_some();
        self.sets.iter().map(|set| set.rules.as_ref().map_or(1, |rules| rules.iter().filter(broken).count())).sum()
    }

    /// Judges an object of this schema; `old` is what it replaces.
    #[must_use]
    pub fn judge(&self, schema: &Schema, object: &Value, old: Option<&Value>) -> Judged {
        self.judge_within(OBJECT_COST_MAX, schema, object, old).0
    }

    /// Returns what the rules of a schema find wrong with a default of its values, at a path: as one that replaces the same, and, where that is right, as a new
    /// one. Takes what that costs from the budget of all defaults.
    #[must_use]
    pub fn judge_default(schema: &Schema, is_whole: bool, default: &Value, path: &str, budget: &mut u64) -> Vec<FieldError> {
        let Some(validator) = Self::compiled(schema, is_whole) else { return Vec::new() };
        let (judged, left) = validator.judge_within(*budget, schema, default, Some(default));
        let (mut errors, mut left_least) = (judged.errors, left);
        // Nothing is forgiven: there is nothing that was so before.
        errors.extend(judged.warnings.iter().map(|text| warned(text)));
        if errors.is_empty() {
            let (judged, left) = validator.judge_within(*budget, schema, default, None);
            errors = judged.errors;
            left_least = left_least.min(left);
        }
        *budget = left_least;
        let below = |field: &str| match field {
            "<nil>" => path.to_owned(),
            field if field.starts_with('[') => format!("{path}{field}"),
            field => format!("{path}.{field}"),
        };
        errors.into_iter().map(|error| FieldError { field: below(&error.field), ..error }).collect()
    }

    /// Returns what is left of the budget, too.
    fn judge_within(&self, budget: u64, schema: &Schema, object: &Value, old: Option<&Value>) -> (Judged, u64) {
        let mut judging = Judging { budget, judged: Judged::default() };
        schema.each_ruled(object, old, &mut |ruled| match self.sets.get(ruled.at) {
            Some(set) => judging.value(set, &self.root, &ruled),
            None => ControlFlow::Continue(()),
        });
        (judging.judged, judging.budget)
    }
}

impl RuleSet {
    fn none() -> Self {
        Self { kind: "".into(), steps: Box::default(), rules: Ok(Vec::new()) }
    }
}

fn collect(scope: &Scope<'_>, steps: &mut Vec<Step>, sets: &mut [Option<RuleSet>]) {
    let view = scope.view;
    if !view.has_rules() {
        return;
    }
    if !view.rules().is_empty()
        && let Some(set) = sets.get_mut(view.rules_at())
    {
        let with_field = |(rule, compiled): (&Rule, Compiled)| {
            let path = rule.field_path.as_deref().filter(|path| !path.is_empty());
            let field = path.and_then(|path| field_path::normalized(path, view)).unwrap_or_default();
            One { rule: rule.clone(), compiled, field: field.into() }
        };
        let rules = compile(scope).map(|compiled| view.rules().iter().zip(compiled).map(with_field).collect());
        *set = Some(RuleSet { kind: view.kind().into(), steps: steps.clone().into(), rules });
    }
    let mut below = |scope: Option<Scope<'_>>, step: Step| {
        // What expressions do not see is not judged.
        if let Some(scope) = scope.filter(|scope| scope.decl().is_some()) {
            steps.push(step);
            collect(&scope, steps, sets);
            steps.pop();
        }
    };
    for (name, property) in view.properties().filter(|(_, property)| property.has_rules()) {
        debug_assert!(property.has_rules());
        below(scope.property(name), Step::Member(name.into()));
    }
    if view.additional().is_some_and(|values| values.has_rules()) {
        below(scope.additional(), Step::Each);
    }
    if view.items().is_some_and(|items| items.has_rules()) {
        below(scope.items(), Step::Items);
    }
}

/// The judgement of one object.
struct Judging {
    /// What may still be spent.
    budget: u64,
    judged: Judged,
}

/// The rest is not judged.
const END: ControlFlow<()> = ControlFlow::Break(());
const NEXT: ControlFlow<()> = ControlFlow::Continue(());

impl Judging {
    fn value(&mut self, set: &RuleSet, root: &Shape, ruled: &Ruled<'_>) -> ControlFlow<()> {
        let rules = match &set.rules {
            Ok(rules) if rules.is_empty() => return NEXT,
            Ok(rules) => rules,
            Err(why) => {
                self.invalid(set, ruled, format!("rule compiler initialization error: {why}"));
                return NEXT;
            }
        };
        if self.budget == 0 {
            self.invalid(set, ruled, OUT_OF_BUDGET.to_owned());
            return END;
        }
        let shape = shape::follow(root, &set.steps);
        for one in rules {
            self.rule(one, set, shape, ruled)?;
        }
        NEXT
    }

    fn rule(&mut self, one: &One, set: &RuleSet, shape: &Shape, ruled: &Ruled<'_>) -> ControlFlow<()> {
        let program = match &one.compiled.program {
            None => return NEXT,
            Some(Err(why)) => {
                self.invalid(set, ruled, format!("rule compile error: {why}"));
                return NEXT;
            }
            Some(Ok(program)) => program,
        };
        let optional = one.rule.optional_old_self == Some(true);
        if one.compiled.uses_old() && ruled.old.is_none() && !optional {
            return NEXT;
        }
        let activation = Activation { value: ruled.value, old: ruled.old, shape, optional };
        let done = activation.evaluate(program, CALL_COST_MAX);
        let Some(left) = self.budget.checked_sub(done.cost) else {
            self.invalid(set, ruled, OUT_OF_BUDGET.to_owned());
            return END;
        };
        self.budget = left;
        let said = said(&one.rule);
        match done.result {
            Ok(CelValue::Bool(true)) => NEXT,
            Ok(_) => self.broken(one, set, &activation, ruled),
            Err(Error::CostExceeded) => {
                self.invalid(
                    set,
                    ruled,
                    format!("'{COST_EXCEEDED}': no further validation rules will be run due to call cost exceeds limit for rule: {said}"),
                );
                END
            }
            Err(Error::Failed(why)) if why.starts_with("no such overload") => {
                self.invalid(
                    set,
                    ruled,
                    format!("'{why}': call arguments did not match a supported operator, function or macro signature for rule: {said}"),
                );
                NEXT
            }
            Err(Error::Failed(why)) => {
                self.invalid(set, ruled, format!("{why} evaluating rule: {said}"));
                NEXT
            }
        }
    }

    /// A rule does not hold. Its message may be made by another expression.
    fn broken<'a>(&mut self, one: &'a One, set: &RuleSet, activation: &Activation<'a>, ruled: &Ruled<'_>) -> ControlFlow<()> {
        let path = match (ruled.path, &*one.field) {
            (path, "") => path.to_owned(),
            ("", field) => field.to_owned(),
            (path, field) => format!("{path}.{field}"),
        };
        let made = match &one.compiled.message {
            Some(Ok(message)) => match self.message(message, &one.rule, activation) {
                Ok(made) => made,
                Err(why) => {
                    let error = FieldError::invalid(named(&path), &Value::from(&*set.kind), &why);
                    self.add(error, one, ruled);
                    return END;
                }
            },
            _ => None,
        };
        let detail = made.unwrap_or_else(|| match one.rule.message.as_deref().filter(|message| !message.is_empty()) {
            Some(message) => message.trim().to_owned(),
            None => format!("failed rule: {}", said(&one.rule)),
        });
        let shown = Some(ruled.value).filter(|_| !matches!(&*set.kind, "object" | "array"));
        let error = by_reason(named(&path), shown, &detail, one.rule.reason.as_deref());
        self.add(error, one, ruled);
        NEXT
    }

    /// Returns the message that an expression makes, if it makes one that may be shown.
    ///
    /// # Errors
    /// Nothing more may be spent.
    fn message<'a>(&mut self, program: &'a Program, rule: &Rule, activation: &Activation<'a>) -> Result<Option<String>, String> {
        let text = rule.message_expression.as_deref().unwrap_or_default();
        let done = activation.evaluate(program, CALL_COST_MAX);
        let Some(left) = self.budget.checked_sub(done.cost) else {
            return Err(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned()
            );
        };
        match done.result {
            Err(Error::CostExceeded) => {
                let quoted = go::quote::quoted(text);
                Err(format!("no further validation rules will be run due to call cost exceeds limit for messageExpression: {quoted}"))
            }
            outcome => {
                self.budget = left;
                let Ok(CelValue::String(made)) = outcome else { return Ok(None) };
                let made = made.trim();
                let is_shown = made.len() <= MESSAGE_BYTES_MAX && !made.contains('\n') && !made.is_empty();
                Ok(is_shown.then(|| made.to_owned()))
            }
        }
    }

    fn invalid(&mut self, set: &RuleSet, ruled: &Ruled<'_>, why: String) {
        self.judged.errors.push(FieldError::invalid(named(ruled.path), &Value::from(&*set.kind), &why));
    }

    /// Adds an error, or a warning where nothing changed.
    fn add(&mut self, error: FieldError, one: &One, ruled: &Ruled<'_>) {
        if !one.compiled.uses_old() && ruled.is_unchanged() {
            self.judged.warnings.push(format!("{}: {}", error.field, error.message));
        } else {
            self.judged.errors.push(error);
        }
    }
}

/// Returns a warning as the error that it would have been.
fn warned(text: &str) -> FieldError {
    let (field, message) = text.split_once(": ").unwrap_or_default();
    let kind = match message.split(':').next() {
        Some("Forbidden") => FieldErrorKind::Forbidden,
        Some("Required value") => FieldErrorKind::Required,
        Some(text) if text.starts_with("Duplicate value") => FieldErrorKind::Duplicate,
        _ => FieldErrorKind::Invalid,
    };
    FieldError { field: field.to_owned(), kind, message: message.to_owned() }
}

const OUT_OF_BUDGET: &str = "validation failed due to running out of cost budget, no further validation rules will be run";
const COST_EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

fn named(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}

/// What errors call a rule.
fn said(rule: &Rule) -> &str {
    rule.message.as_deref().filter(|message| !message.is_empty()).unwrap_or(&rule.rule).trim()
}

/// Returns the error of a broken rule. Lists and maps are not shown.
fn by_reason(field: &str, shown: Option<&Value>, detail: &str, reason: Option<&str>) -> FieldError {
    match (reason, shown) {
        (Some("FieldValueForbidden"), _) => FieldError::forbidden(field, detail),
        (Some("FieldValueRequired"), _) => FieldError::required(field, detail),
        (Some("FieldValueDuplicate"), Some(value)) => FieldError::duplicate(field, value),
        (Some("FieldValueDuplicate"), None) => {
            FieldError { field: field.to_owned(), kind: FieldErrorKind::Duplicate, message: "Duplicate value".to_owned() }
        }
        (_, Some(value)) => FieldError::invalid(field, value, detail),
        (_, None) => {
            let message = if detail.is_empty() { "Invalid value".to_owned() } else { format!("Invalid value: {detail}") };
            FieldError { field: field.to_owned(), kind: FieldErrorKind::Invalid, message }
        }
    }
}

#[cfg(test)]
mod tests;
