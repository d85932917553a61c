//! The laws of the parsers: what must be true of each parser of requests and stored values, whatever it reads. `corpus` runs them.

mod reads;
mod stored;

use std::fs;

/// Every folder of the corpus belongs to a parser that a test runs.
#[test]
fn no_folder_is_left_out() {
    let tested = [
        "accept",
        "authorizers",
        "bodies-json",
        "bodies-yaml",
        "carriers",
        "continue-tokens",
        "credentials",
        "definitions",
        "durations",
        "field-selectors",
        "json-paths",
        "label-selectors",
        "names",
        "patches-json",
        "patches-merge",
        "patches-strategic",
        "paths",
        "quantities",
        "queries",
        "shard-selectors",
        "stored",
        "times",
        "tokens",
        "webhook-answers",
    ];
    let entries = fs::read_dir(corpus::root().join("tests/corpus")).expect("the corpus");
    let mut found: Vec<String> = entries
        .map(|entry| entry.expect("an entry of a folder that is there"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    assert_eq!(found, tested);
}
