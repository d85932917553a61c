//! Compares expressions with what cel-go made of them: lines of JSON on standard input, as `main.go` writes them. Prints what differs, and how many do.
//! Expressions that contain one of the arguments are left out.

mod cases;

use std::{collections::BTreeMap, io::BufRead};

use serde_json::Value as Json;

#[expect(clippy::print_stdout, reason = "a program that prints what it finds")]
fn main() {
    let skipped: Vec<String> = std::env::args().skip(1).collect();
    let (mut all, mut different) = (0, BTreeMap::<&str, usize>::new());
    for line in std::io::stdin().lock().lines() {
        let case: Json = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let source = case["e"].as_str().expect("an expression");
        if skipped.iter().any(|part| source.contains(part)) {
            continue;
        }
        all += 1;
        for (what, expected, found) in cases::differences(&case, source) {
            *different.entry(what).or_default() += 1;
            println!("{what}: {source}\n  expected {expected}\n  found    {found}");
        }
    }
    println!("{all} cases, different: {different:?}");
}
