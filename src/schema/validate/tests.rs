//! Limits of validation: what it takes and what it tells.

use std::{fs, time::Duration};

use serde_json::{Map, Value, json};

use super::*;

fn node(schema: Value) -> Node {
    serde_json::from_value(schema).expect("a schema")
}

/// Returns the CPU time of this thread, whatever else the machine does.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    Duration::from_nanos(stat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).expect("a number"))
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
}

/// Schemas of one value inside each other multiply nothing: each is asked once a value.
#[test]
fn junctors_inside_each_other_take_what_they_are_long() {
    let mut schema = json!({"minimum": 5});
    for _ in 0..50 {
        schema = json!({"anyOf": [schema, {"maximum": -1}]});
    }
    // What multiplies would take years.
    assert!(!wrong(&node(schema), &json!(1), None, "").is_empty());
}

/// A list whose items are compared with many schemas is given up at the same place on every machine.
#[test]
fn what_takes_too_many_visits_is_refused() {
    let many: Vec<Value> = (0..2_000).map(|i| json!({"properties": {format!("p{i}"): {"type": "integer"}}, "required": ["no"]})).collect();
    let schema = node(json!({"items": {"anyOf": many}}));
    let items: Vec<Value> = (0..40_000).map(|_| json!({})).collect();
    let errors = texts(&wrong_within(1 << 16, &schema, &items.into(), None, ""));
    assert_eq!(errors.last().map(String::as_str), Some("<nil>: Invalid value: \"\": has too many parts to be compared with its schema"));
}

/// Each error would show the whole text.
#[test]
fn no_more_is_told_than_anybody_reads() {
    let items: Map<String, Value> = (0..200).map(|i| (format!("k{i}"), "x".repeat(64 << 10).into())).collect();
    let schema = node(json!({"additionalProperties": {"pattern": "^y$", "minLength": 1}}));
    let errors = wrong(&schema, &items.into(), None, "");
    let bytes: usize = errors.iter().map(FieldError::bytes).sum();
    assert!((5..50).contains(&errors.len()) && bytes < 4 << 20, "{} errors, {bytes} bytes", errors.len());
}

/// A hundred thousand choices, and as many texts.
#[test]
fn many_choices_are_looked_up() {
    let choices: Vec<String> = (0..100_000).map(|i| format!("choice-{i}")).collect();
    let schema = node(json!({"items": {"type": "string", "enum": choices}}));
    // What compares each with each takes many minutes of CPU, on a machine that does nothing else too.
    let began = cpu();
    assert_eq!(wrong(&schema, &choices.into(), None, ""), []);
    let numbers: Vec<usize> = (0..100_000).collect();
    assert!(!wrong(&schema, &numbers.into(), None, "").is_empty());
    let took = cpu() - began;
    assert!(took < Duration::from_secs(60), "{took:?}");
}

/// Patterns that a backtracking engine would take years for.
#[test]
fn no_pattern_is_catastrophic() {
    for pattern in ["^(a+)+$", "^(a|aa)+$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a?){900}a{900}"] {
        let schema = node(json!({"type": "string", "pattern": pattern}));
        assert!(!wrong(&schema, &format!("{}!", "a".repeat(4_000)).into(), None, "").is_empty() || pattern.ends_with("{900}"));
    }
}
