//! Rules of Kubernetes' own tests, with what its validator said of them and what they cost (`tests/differential/cel/harvest.py` takes them).

use serde_json::Value;

use super::Validator;
use crate::{compile, scope::Scope};
use schema::Schema;

/// The cases that a variable names the file of, or those that are committed.
fn cases(variable: &str, committed: &str) -> Vec<Value> {
    let named = std::env::var(variable).ok().map(|path| std::fs::read_to_string(path).expect("the cases"));
    named.as_deref().unwrap_or(committed).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns a text without the random numbers that kube-apiserver puts into names of types.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split("selfType");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "selfType" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Returns a path below the one of the whole in those tests.
fn of_test(path: &str, is_whole: bool) -> String {
    match path.strip_prefix("<nil>") {
        Some(rest) => format!("root{rest}"),
        None if path.starts_with('[') && is_whole => format!("root{path}"),
        None => format!("root{}{path}", if path.starts_with('[') { "" } else { "." }),
    }
}

fn sorted(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.into_iter().collect();
    texts.sort();
    texts
}

fn texts(list: &Value) -> Vec<String> {
    let text = |part: &Value| part.as_str().unwrap_or_default().to_owned();
    let joined = |item: &Value| item.as_array().map_or_else(|| text(item), |parts| parts.iter().map(text).collect::<Vec<_>>().join(" "));
    sorted(list.as_array().into_iter().flatten().map(|item| without_numbers(&joined(item))))
}

/// Returns how our judgement of a case differs.
fn difference(case: &Value) -> Option<String> {
    let schema = Schema::of_tree(&case["schema"]).expect("a schema");
    let is_whole = case["root"] == true;
    let validator = Validator::compiled(&schema, is_whole)?;
    let old = Some(&case["old"]).filter(|old| !old.is_null());
    let budget = case["budget"].as_u64().unwrap_or_default();
    let (mut judged, left) = validator.judge_within(budget, &schema, &case["object"], old);
    let shown = |field: &str, message: &str| without_numbers(&format!("{}: {message}", of_test(field, is_whole)));
    let mut ours: Vec<String> =
        judged.errors.iter().map(|error| format!("{} {}", error.kind.cause(), shown(&error.field, &error.message))).collect();
    let warning = |warning: &String| {
        let (field, message) = warning.split_once(": ").unwrap_or_default();
        shown(field, message)
    };
    if case["ratchet"] != true {
        // Nothing is a warning where nothing is compared with what was there.
        ours.extend(judged.warnings.drain(..).map(|text| format!("FieldValueInvalid {}", warning(&text))));
    }
    let warnings = sorted(judged.warnings.iter().map(warning));
    let (ours, theirs) = (sorted(ours), texts(&case["errors"]));
    // Where the budget is gone, theirs is below 0.
    let is_left = case["left"].as_u64().is_none_or(|theirs| theirs == left);
    let is_same = ours == theirs && warnings == texts(&case["warnings"]) && is_left;
    (!is_same).then(|| format!("{case}\n  ours   {ours:?} {warnings:?} {left}\n  theirs {theirs:?}"))
}

#[test]
fn rules_are_judged_as_by_kubernetes() {
    let cases = cases("WATCHCACHE_CEL_RULES", include_str!("../../../tests/data/cel/rules.jsonl"));
    let different: Vec<String> = cases.iter().filter_map(difference).collect();
    assert!(different.is_empty() && cases.len() > 100, "{} of {}:\n{}", different.len(), cases.len(), different.join("\n"));
}

/// Returns the costs and errors of the rules of a schema, and how often one of them runs at most.
fn estimated(schema: &Schema, is_whole: bool) -> Option<(Vec<String>, String)> {
    let scope = Scope::of(schema, is_whole);
    let times = scope.unbounded_times()?;
    let rules = compile(&scope).ok()?.into_iter().map(|rule| {
        let errors = [rule.wrong(), rule.wrong_message()].map(|why| without_numbers(why.unwrap_or_default()));
        format!("{} {} {}", rule.cost_each(), rule.message_cost_max(), errors.join(" "))
    });
    Some((rules.collect(), times.to_string()))
}

#[test]
fn estimates_are_those_of_kubernetes() {
    let cases = cases("WATCHCACHE_CEL_ESTIMATES", include_str!("../../../tests/data/cel/estimates.jsonl"));
    let mut different = Vec::new();
    for case in &cases {
        let schema = Schema::of_tree(&case["schema"]).expect("a schema");
        let text = |part: &Value| without_numbers(part.as_str().unwrap_or_default());
        let rules = case["rules"].as_array().into_iter().flatten();
        let theirs = rules.map(|rule| rule.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(" "));
        let theirs = Some((theirs.collect::<Vec<_>>(), text(&case["cardinality"])));
        // The file does not say whether whole objects are meant.
        let ours = [false, true].map(|is_whole| estimated(&schema, is_whole));
        if !ours.contains(&theirs) {
            different.push(format!("{}\n  ours   {ours:?}\n  theirs {theirs:?}", case["schema"]));
        }
    }
    assert!(different.is_empty() && cases.len() > 50, "{} of {}:\n{}", different.len(), cases.len(), different.join("\n"));
}
