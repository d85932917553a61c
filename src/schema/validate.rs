//! What is wrong with a value, in kube-openapi's order and words: type, junctors, text, format, number, list, `enum`, map. Properties are gone through by name,
//! where it takes them in any order.

use std::fmt::Write as _;

use model::invalid::{FieldError, TOLD_BYTES_MAX};
use serde_json::{Map, Value};

use go::quote::quoted;

use crate::{
    correlate::{self, Items},
    node::{Additional, Junctors, Kind, Node, Sizes, Texts},
    numbers::{self, Numeric},
    pattern::Match,
    problem::{Problem, Wrong, told},
};

/// Visits of nodes that an object may take; ours: schemas of the same value, each with many properties, take as many visits as both have parts. A visit takes
/// some ten nanoseconds.
const VISITS_MAX: u64 = 1 << 25;

/// Tells what is wrong with a value at a path. `old`: what it replaces; of what did not change nothing is told.
pub(crate) fn wrong(node: &Node, value: &Value, old: Option<&Value>, base: &str) -> Vec<FieldError> {
    wrong_within(VISITS_MAX, node, value, old, base)
}

fn wrong_within(visits_max: u64, node: &Node, value: &Value, old: Option<&Value>, base: &str) -> Vec<FieldError> {
    let mut quick = Walk::<false>::new(visits_max);
    if !quick.node(node, value, None).failed {
        return Vec::new();
    }
    let mut walk = Walk::<true>::new(visits_max);
    let mut outcome = walk.ratcheted(node, value, old);
    if walk.has_too_many() {
        outcome.problems.push(Problem::of_whole("has too many parts to be compared with its schema".to_owned()));
    } else if outcome.failed && outcome.problems.is_empty() {
        outcome.problems.push(Problem::of_whole("has more wrong than is told".to_owned()));
    }
    told(outcome.problems, base)
}

/// What came of a value and a schema.
#[derive(Default)]
struct Outcome {
    failed: bool,
    problems: Vec<Problem>,
    /// Checks that it has passed, as kube-openapi counts them: which of several schemas is told of.
    matches: u32,
}

impl Outcome {
    fn merge(&mut self, other: Self) {
        self.failed |= other.failed;
        self.matches = self.matches.saturating_add(other.matches);
        if self.problems.is_empty() {
            self.problems = other.problems;
        } else {
            self.problems.extend(other.problems);
        }
    }
}

/// A walk through a value; one that tells knows its path.
struct Walk<const TELLS: bool> {
    path: String,
    visits: u64,
    visits_max: u64,
    told_bytes: usize,
}

impl<const TELLS: bool> Walk<TELLS> {
    fn new(visits_max: u64) -> Self {
        Self { path: String::new(), visits: 0, visits_max, told_bytes: 0 }
    }

    fn has_too_many(&self) -> bool {
        self.visits > self.visits_max
    }

    fn ratcheted(&mut self, node: &Node, value: &Value, old: Option<&Value>) -> Outcome {
        let mut outcome = self.node(node, value, old);
        if outcome.failed && old.is_some_and(|old| correlate::same(node, value, old)) {
            (outcome.failed, outcome.problems) = (false, Vec::new());
        }
        outcome
    }

    fn node(&mut self, node: &Node, value: &Value, old: Option<&Value>) -> Outcome {
        let mut outcome = Outcome::default();
        self.visits += 1;
        if self.has_too_many() {
            outcome.failed = true;
            return outcome;
        }
        if value.is_null() {
            self.null(node, &mut outcome);
            return outcome;
        }
        if node.kind != Kind::Any || node.format().is_some() {
            self.kind(node, value, &mut outcome);
            outcome.matches += 1;
        }
        if let Some(junctors) = &node.junctors {
            outcome.merge(self.junctors(junctors, value));
        }
        // Counts itself, and is counted.
        outcome.matches += 2;
        match value {
            Value::String(text) => self.text(node, value, text, &mut outcome),
            Value::Number(number) => {
                self.number(node, Numeric::of(number), &mut outcome);
                outcome.matches += 2;
            }
            Value::Array(items) => {
                self.items(node, items, old, &mut outcome);
                outcome.matches += 2;
            }
            _ => {}
        }
        self.choice(node, value, &mut outcome);
        outcome.matches += 1;
        if let Value::Object(members) = value {
            self.members(node, members, old.and_then(Value::as_object), &mut outcome);
            outcome.matches += 1;
        }
        outcome.matches += 1;
        outcome
    }

    fn fail(&mut self, outcome: &mut Outcome, problem: impl FnOnce(&str) -> Problem) {
        outcome.failed = true;
        if TELLS && self.told_bytes <= TOLD_BYTES_MAX {
            let problem = problem(&self.path);
            self.told_bytes += problem.bytes();
            outcome.problems.push(problem);
        }
    }

    fn null(&mut self, node: &Node, outcome: &mut Outcome) {
        if node.kind == Kind::Any || node.nullable {
            outcome.matches += 1;
        } else {
            self.fail(outcome, |path| mistyped(path, node.kind.name(), "null"));
        }
        self.choice(node, &Value::Null, outcome);
    }

    fn choice(&mut self, node: &Node, value: &Value, outcome: &mut Outcome) {
        let Some(choices) = &node.choices else { return };
        self.visits += choices.work(value) / 4;
        if !choices.have(value) {
            self.fail(outcome, |path| {
                let told = choices.told();
                let why = format!("{path} in body should be one of {told:?}");
                Problem { name: Some(path.to_owned()), wrong: Wrong::NotSupported(value.clone(), told), why }
            });
        }
    }

    /// Of a text with a format that is not of numbers the type is not asked, nor of a list.
    fn kind(&mut self, node: &Node, value: &Value, outcome: &mut Outcome) {
        let (kind, format) = type_of(value);
        let format_name = node.format().map_or("", |format| &*format.name);
        let is_of = |kind: &str| match &node.kind {
            Kind::IntOrString(_) => matches!(kind, "integer" | "string"),
            other => other.name() == kind,
        };
        let is_whole = kind == "number" && value.as_f64().is_some_and(numbers::is_integer) && is_of("integer");
        let is_numeric = is_whole || kind == "integer" && is_of("number");
        let has_text = matches!(value, Value::String(_) | Value::Array(_));
        if !(has_text || format_name.is_empty() || is_of(kind) || format == format_name || is_numeric) {
            return self.fail(outcome, |path| mistyped(path, format_name, format));
        }
        let is_of_numbers = is_of("number") || is_of("integer");
        let goes_unasked = !is_of_numbers && !format_name.is_empty() && has_text;
        if goes_unasked || is_of(kind) || is_numeric {
            outcome.matches += 1;
        } else {
            self.fail(outcome, |path| mistyped(path, node.kind.name(), kind));
        }
    }

    fn junctors(&mut self, junctors: &Junctors, value: &Value) -> Outcome {
        let mut outcome = Outcome::default();
        if !junctors.any_of.is_empty() {
            self.any_of(&junctors.any_of, value, &mut outcome);
        }
        if !junctors.one_of.is_empty() {
            self.one_of(&junctors.one_of, value, &mut outcome);
        }
        let mut valid = 0;
        for node in &junctors.all_of {
            let inner = self.node(node, value, None);
            valid += usize::from(!inner.failed);
            outcome.merge(inner);
        }
        if valid != junctors.all_of.len() {
            let more = if valid == 0 { ". None validated" } else { "" };
            self.fail(&mut outcome, |path| Problem::of_whole(format!("{} must validate all the schemas (allOf){more}", quoted(path))));
        }
        if let Some(not) = &junctors.not
            && !self.node(not, value, None).failed
        {
            self.fail(&mut outcome, |path| Problem::of_whole(format!("{} must not validate the schema (not)", quoted(path))));
        }
        outcome
    }

    fn any_of(&mut self, nodes: &[Node], value: &Value, outcome: &mut Outcome) {
        let mut best: Option<Outcome> = None;
        for node in nodes {
            let inner = self.node(node, value, None);
            if !inner.failed {
                return outcome.merge(inner);
            }
            if best.as_ref().is_none_or(|best| inner.matches > best.matches) {
                best = Some(inner);
            }
        }
        self.fail(outcome, |path| Problem::of_whole(format!("{} must validate at least one schema (anyOf)", quoted(path))));
        outcome.merge(best.unwrap_or_default());
    }

    fn one_of(&mut self, nodes: &[Node], value: &Value, outcome: &mut Outcome) {
        let (mut best, mut first, mut valid) = (None::<Outcome>, None, 0);
        for node in nodes {
            let inner = self.node(node, value, None);
            if !inner.failed {
                valid += 1;
                first.get_or_insert(inner);
            } else if best.as_ref().is_none_or(|best| inner.matches > best.matches) {
                best = Some(inner);
            }
        }
        match (valid, first) {
            (1, Some(first)) => outcome.merge(first),
            (0, _) => {
                self.fail(outcome, |path| {
                    Problem::of_whole(format!("{} must validate one and only one schema (oneOf). Found none valid", quoted(path)))
                });
                outcome.merge(best.unwrap_or_default());
            }
            _ => self.fail(outcome, |path| {
                Problem::of_whole(format!(
                    "{} must validate one and only one schema (oneOf). Found {valid} valid alternatives",
                    quoted(path)
                ))
            }),
        }
    }

    fn text(&mut self, node: &Node, value: &Value, text: &str, outcome: &mut Outcome) {
        if let Some(texts) = &node.texts {
            self.limited(texts, value, text, outcome);
        }
        outcome.matches += 1;
        if let Some(format) = node.format().and_then(|format| format.of_texts.map(|of| (of, format))) {
            let (of_texts, format) = format;
            self.visits += text.len() as u64 / 8;
            if !of_texts.fits(text) {
                self.fail(outcome, |path| mistyped_as(path, &format.name, value.clone(), text));
            }
            outcome.matches += 1;
        }
    }

    /// The first that is wrong is told.
    fn limited(&mut self, texts: &Texts, value: &Value, text: &str, outcome: &mut Outcome) {
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = texts.length_max.filter(|max| length() > *max) {
            return self.fail(outcome, |path| Problem::of(path, Wrong::TooLong(max), &format!("should be at most {max} chars long")));
        }
        if let Some(min) = texts.length_min.filter(|min| length() < *min) {
            return self
                .fail(outcome, |path| Problem::of(path, Wrong::Invalid(value.clone()), &format!("should be at least {min} chars long")));
        }
        let Some(pattern) = &texts.pattern else { return };
        let mut left = self.visits_max.saturating_sub(self.visits);
        let matched = pattern.matches(text, &mut left);
        self.visits = self.visits_max - left;
        let shown = match matched {
            Match::Found => return,
            Match::NotFound => pattern.text().to_owned(),
            Match::Refused(why) => format!("{}, but pattern is invalid: {why}", pattern.text()),
            Match::TooMuch => {
                self.visits = self.visits_max + 1;
                outcome.failed = true;
                return;
            }
        };
        self.fail(outcome, |path| Problem::of(path, Wrong::Invalid(value.clone()), &format!("should match '{shown}'")));
    }

    fn number(&mut self, node: &Node, number: Numeric, outcome: &mut Outcome) {
        let path = std::mem::take(&mut self.path);
        numbers::judge(node, number, &path, &mut |problem| self.fail(outcome, |_| problem()));
        self.path = path;
    }

    fn items(&mut self, node: &Node, items: &[Value], old: Option<&Value>, outcome: &mut Outcome) {
        if let Some(of_items) = &node.items {
            let old = old.and_then(Value::as_array).and_then(|old| Items::of(node, old));
            for (at, item) in items.iter().enumerate() {
                let length = self.step_to(at);
                outcome.merge(self.ratcheted(of_items, item, old.as_ref().and_then(|old| old.like(item))));
                self.path.truncate(length);
            }
        }
        let Some(sizes) = &node.sizes else { return };
        let Sizes { items_min, items_max, unique, .. } = **sizes;
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = items_min.filter(|min| size < *min) {
            self.fail(outcome, |path| Problem::of(path, Wrong::Invalid(size.into()), &format!("should have at least {min} items")));
        }
        if let Some(max) = items_max.filter(|max| size > *max) {
            self.fail(outcome, |path| Problem::of(path, Wrong::TooMany(items.len(), max), &format!("should have at most {max} items")));
        }
        if unique && crate::lists::repeated(items.iter().map(Some)).next().is_some() {
            self.fail(outcome, |path| Problem::of(path, Wrong::Invalid("".into()), "shouldn't contain duplicates"));
        }
    }

    fn members(&mut self, node: &Node, members: &Map<String, Value>, old: Option<&Map<String, Value>>, outcome: &mut Outcome) {
        if let Some(sizes) = &node.sizes {
            self.counted(sizes, members.len(), outcome);
        }
        match &node.additional {
            Some(Additional::Like(additional)) => {
                for (name, value) in members.iter().filter(|(name, _)| node.property(name).is_none()) {
                    let length = self.step(name, true);
                    outcome.merge(self.ratcheted(additional, value, old.and_then(|old| old.get(name))));
                    self.path.truncate(length);
                }
            }
            Some(Additional::None) => {
                for name in members.keys().filter(|name| node.property(name).is_none()) {
                    self.fail(outcome, |path| Problem {
                        name: Some(path.to_owned()),
                        wrong: Wrong::Invalid(name.as_str().into()),
                        why: format!("{path}.{name} in body is a forbidden property"),
                    });
                }
            }
            _ => {}
        }
        let is_root = TELLS && self.path.is_empty();
        for (name, value) in members {
            let Some(property) = node.property(name) else { continue };
            // Of the head of an object nobody sees whether it has changed.
            let old = old.filter(|_| !(is_root && matches!(&**name, "kind" | "apiVersion"))).and_then(|old| old.get(name));
            let length = self.step(name, false);
            outcome.merge(self.ratcheted(property, value, old));
            self.path.truncate(length);
        }
        for name in node.required.iter().filter(|name| !members.contains_key(&***name)) {
            self.fail(outcome, |path| {
                let name = format!("{path}.{name}");
                Problem { why: format!("{name} in body is required"), name: Some(name), wrong: Wrong::Required }
            });
        }
    }

    fn counted(&mut self, sizes: &Sizes, members: usize, outcome: &mut Outcome) {
        let count = i64::try_from(members).unwrap_or(i64::MAX);
        if let Some(min) = sizes.properties_min.filter(|min| count < *min) {
            self.fail(outcome, |path| Problem::of(path, Wrong::Invalid(count.into()), &format!("should have at least {min} properties")));
        }
        if let Some(max) = sizes.properties_max.filter(|max| count > *max) {
            self.fail(outcome, |path| Problem::of(path, Wrong::TooMany(members, max), &format!("should have at most {max} properties")));
        }
    }

    /// Goes one name further and tells where it was. A member that is no property is told behind a dot, even of the root.
    fn step(&mut self, name: &str, always_dotted: bool) -> usize {
        let length = self.path.len();
        if TELLS {
            if length > 0 || always_dotted {
                self.path.push('.');
            }
            self.path.push_str(name);
        }
        length
    }

    fn step_to(&mut self, index: usize) -> usize {
        let length = self.path.len();
        if TELLS {
            let _ = write!(self.path, "[{index}]");
        }
        length
    }
}

/// What Go makes of a value: its type in a schema, and the format of that.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn mistyped(path: &str, wanted: &str, found: &str) -> Problem {
    mistyped_as(path, wanted, found.into(), found)
}

fn mistyped_as(path: &str, wanted: &str, value: Value, found: &str) -> Problem {
    Problem::of(path, Wrong::Type(value), &format!("must be of type {wanted}: {}", quoted(found)))
}

#[cfg(test)]
mod tests;
