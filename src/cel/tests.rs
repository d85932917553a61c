//! Expressions beside what cel-go 0.26 made of them (`tests/data/cel/answers.jsonl`): cases of cel-spec, of the tests of cel-go and Kubernetes, and random
//! ones. `tests/differential/cel.sh` has all of them.

use proptest::prelude::*;
use serde_json::Value as Json;

use crate::{NoSizes, Type, Value, cases::differences, environment, evaluate::Bindings};

#[test]
fn expressions_are_what_they_are_in_cel_go() {
    let mut wrong = Vec::new();
    for line in include_str!("../../tests/data/cel/answers.jsonl").lines() {
        let case: Json = serde_json::from_str(line).expect("JSON");
        let source = case["e"].as_str().expect("an expression");
        for (what, expected, found) in differences(&case, source) {
            wrong.push(format!("{what} of {source}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Parts of expressions, which stand in any order.
const PARTS: [&str; 58] = [
    "x",
    "y",
    ".",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    "?",
    ":",
    "1",
    "-",
    "0x",
    "1.5",
    "2u",
    "'a'",
    "b'\\377'",
    "\"",
    "'''",
    "r'\\'",
    "`a`",
    "true",
    "null",
    "in",
    "&&",
    "||",
    "!",
    "==",
    "<",
    "+",
    "*",
    "/",
    "%",
    ".all(",
    ".map(",
    "has(",
    ".exists_one(",
    ".?",
    "[?",
    ".size()",
    ".matches('a+')",
    "duration('1s')",
    "timestamp(0)",
    "dyn(",
    "type(",
    "optional.of(",
    ".optMap(",
    "if",
    ".transformMap(",
    "9223372036854775808",
    "\n",
    "// c\n",
    "é",
    "\u{7}",
    ".format([",
    "quantity('1')",
];

/// What is made of a text: nothing here may panic.
fn tried(source: &str) {
    let env = environment().variable("x", Type::Dyn).variable("y", Type::list(Type::String));
    let json = serde_json::json!({"a": [1, "b", null, {"c": 1.5}], "b": "text"});
    let names = serde_json::json!(["a", "é"]);
    if let Ok(program) = env.compile(source) {
        let estimate = program.estimate(&env, &NoSizes);
        let bindings = Bindings::default().with("x", Value::of_json(&json)).with("y", Value::of_json(&names));
        let evaluated = program.evaluate(&bindings, 10_000);
        assert!(estimate.min <= estimate.max || evaluated.result.is_err(), "{source}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_text_panics(text in "\\PC{0,24}", parts in proptest::collection::vec(proptest::sample::select(&PARTS[..]), 0..14)) {
        tried(&text);
        tried(&parts.concat());
        tried(&parts.join(" "));
    }
}
