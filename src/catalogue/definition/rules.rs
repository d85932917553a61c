//! The rules in CEL of a definition: whether they can be compiled, what they cost at most, and whether that is too much.

use serde_json::Value;

use super::{
    shown,
    tree::{at, child, text},
};
use ::rules::{Compiled, Scope, compile};
use model::invalid::FieldError;

/// What one rule may cost at most, for one object.
const RULE_COST_MAX: u64 = 10_000_000;
/// What all rules of a version may cost at most, for one object.
const ALL_COST_MAX: u64 = 100_000_000;
/// The most expensive rules that are named when all are too expensive.
const NAMED_MAX: usize = 4;

/// The checks of all rules of a schema.
pub(super) struct RuleChecks {
    /// The schema was accepted before, so a single rule may cost what it cost then.
    is_unchanged: bool,
    errors: Vec<FieldError>,
    cost: u64,
    /// Those that cost at least a hundredth of what all may cost, the most expensive first.
    expensive: Vec<(String, u64)>,
}

impl RuleChecks {
    pub(super) fn new(is_unchanged: bool) -> Self {
        Self { is_unchanged, errors: Vec::new(), cost: 0, expensive: Vec::new() }
    }

    /// Checks the rules of one schema, which stand at `path`. `uncorrelated`: the schema around it whose values cannot be correlated with what they replace.
    pub(super) fn check(&mut self, rules: &[Value], scope: &Scope<'_>, path: &str, uncorrelated: Option<&str>) {
        if rules.is_empty() {
            return;
        }
        match compile(scope) {
            Err(why) => {
                let why = format!("internal error: failed to construct type information for x-kubernetes-validations rules: {why}");
                self.errors.push(FieldError::internal(path, &why));
            }
            Ok(compiled) => {
                for (i, (rule, compiled)) in rules.iter().zip(&compiled).enumerate() {
                    self.one(rule, compiled, &at(path, i), uncorrelated);
                }
            }
        }
    }

    fn one(&mut self, rule: &Value, compiled: &Compiled, path: &str, uncorrelated: Option<&str>) {
        let (at_rule, at_message) = (child(path, "rule"), child(path, "messageExpression"));
        self.count("estimated rule cost", &at_rule, compiled.cost_max());
        let shown = || shown::rule(rule);
        if let Some(why) = compiled.wrong() {
            self.errors.push(shown::invalid_shown(&*at_rule, &shown(), why));
        }
        match compiled.wrong_message() {
            Some(why) => self.errors.push(shown::invalid_shown(at_message, &shown(), why)),
            None if compiled.has_message() => self.count("estimated messageExpression cost", &at_message, compiled.message_cost_max()),
            None => {}
        }
        if compiled.uses_old() {
            if let Some(around) = uncorrelated {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {around}");
                self.errors.push(FieldError::invalid(at_rule, &Value::from(text(rule, "rule")), &why));
            }
        } else if let Some(optional) = rule.get("optionalOldSelf").filter(|optional| optional.is_boolean()) {
            let why = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(child(path, "optionalOldSelf"), optional, why));
        }
    }

    /// Counts what an expression costs.
    fn count(&mut self, what: &str, path: &str, cost: u64) {
        if !self.is_unchanged && cost > RULE_COST_MAX {
            self.errors.push(FieldError::forbidden(path, &too_expensive(what, cost, RULE_COST_MAX)));
        }
        self.cost = self.cost.saturating_add(cost);
        if cost >= ALL_COST_MAX / 100 {
            let at = self.expensive.partition_point(|(_, other)| *other >= cost);
            self.expensive.insert(at, (path.to_owned(), cost));
            self.expensive.truncate(NAMED_MAX);
        }
    }

    /// Returns what is wrong with all of them, in a schema at `path`.
    pub(super) fn finish(&mut self, path: &str) -> Vec<FieldError> {
        let mut errors = std::mem::take(&mut self.errors);
        if self.cost > ALL_COST_MAX {
            const WHY: &str = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.extend(self.expensive.iter().map(|(path, _)| FieldError::forbidden(path, WHY)));
            let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(path, &too_expensive(what, self.cost, ALL_COST_MAX)));
        }
        errors
    }
}

/// Says by how much something costs more than it may.
#[expect(clippy::cast_precision_loss, reason = "a factor of which few digits are shown")]
fn too_expensive(what: &str, cost: u64, max: u64) -> String {
    let factor = cost as f64 / max as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::schema::{Strictness, wrong_schema};
    use schema::Schema;

    /// Returns a text without the random numbers that kube-apiserver puts into names of types.
    fn without_numbers(text: &str) -> String {
        let mut parts = text.split("selfType");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + "selfType" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
    }

    /// Definitions of Kubernetes' own tests, with what its validation says of their rules, and the fields in which something else is wrong with the schema.
    #[test]
    fn rules_of_definitions_are_checked_as_by_kubernetes() {
        let mut count = 0;
        for line in include_str!("../../../tests/data/cel/definitions.jsonl").lines() {
            let case: Value = serde_json::from_str(line).expect("JSON");
            let compiled = Schema::of_tree(&case["schema"]).expect("a schema");
            let errors = wrong_schema(&case["schema"], text(&case, "path"), Strictness::FULL, Some(&compiled), false);
            // What is wrong with the schema is judged elsewhere.
            let others = wrong_schema(&case["schema"], text(&case, "path"), Strictness::FULL, None, false);
            let shown = |error: &FieldError| without_numbers(&format!("{} {}: {}", error.kind.cause(), error.field, error.message));
            let mut ours: Vec<String> = errors.iter().filter(|error| !others.contains(error)).map(shown).collect();
            let both = |pair: &Value| without_numbers(&format!("{} {}", pair[0].as_str().unwrap_or(""), pair[1].as_str().unwrap_or("")));
            let mut theirs: Vec<String> = case["errors"].as_array().into_iter().flatten().map(both).collect();
            ours.sort();
            theirs.sort();
            assert_eq!(ours, theirs, "{}", case["schema"]);
            count += 1;
        }
        assert!(count > 10, "{count} cases");
    }

    #[test]
    fn what_costs_too_much_is_told_by_how_much() {
        let said = |cost| too_expensive("x", cost, 100).split(" (").next().unwrap_or_default().to_owned();
        assert_eq!(said(149), "x exceeds budget by factor of 1.490000x");
        assert_eq!(said(150), "x exceeds budget by factor of 1.5x");
        assert_eq!(said(10_001), "x exceeds budget by factor of more than 100x");
    }

    #[test]
    fn the_most_expensive_are_named() {
        let mut checks = RuleChecks::new(true);
        for (path, cost) in [("a", 30_000_000), ("b", 50_000_000), ("c", 999_999), ("d", 30_000_000), ("e", 1_000_000), ("f", 2_000_000)] {
            checks.count("x", path, cost);
        }
        let errors = checks.finish("schema");
        let named: Vec<&str> = errors.iter().map(|error| &*error.field).collect();
        assert_eq!(named, ["b", "a", "d", "f", "schema"]);
        assert!(RuleChecks::new(false).finish("schema").is_empty());
    }
}
