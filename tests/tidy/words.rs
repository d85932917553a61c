//! Words that this project does not use, because the field has another one (docs/decisions/0037-words.md).

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::none;

/// What stands nowhere in code, comments, docs and scripts, and what is said instead. Upper and lower case are the same.
const REFUSED: &[(&str, &str)] = &[
    ("hand on", "forward"),
    ("hands on", "forwards"),
    ("handed on", "forwarded"),
    ("handing on", "forwarding"),
    ("hand_on", "forward"),
    ("handed_on", "forwarded"),
    ("handedon", "forwarded"),
];

/// Files that may name them: this one, and the list of renames.
const EXEMPT: [&str; 2] = ["tests/tidy/words.rs", "docs/decisions/0037-words.md"];

#[test]
fn words_are_those_of_the_field() {
    let mut wrong = Vec::new();
    let of_ours = texts();
    assert!(of_ours.len() > 500, "{} files", of_ours.len());
    for (path, text) in of_ours.iter().filter(|(path, _)| !EXEMPT.contains(&path.as_str())) {
        // Also where a line ends within.
        let mut before = "";
        for (nth, line) in text.lines().enumerate() {
            let joined = format!("{} {}", before.trim_end(), line.trim_start().trim_start_matches(['/', '!', '#', '>', '*']).trim_start());
            wrong.extend(refused(&joined).map(|(word, instead)| format!("{path}:{}: {word:?}: say {instead:?}", nth + 1)));
            before = line;
        }
    }
    none(&wrong);
}

/// Where the project's own text is.
const PLACES: [&str; 7] = ["src", "tests", "docs", "deploy", "benches", ".ci", "README.md"];
/// What is recorded from others, or installed.
const OTHERS: [&str; 3] = ["/tests/data/", "/tests/transcripts/", "/node_modules/"];

/// Returns the files of text, by their paths from the root.
fn texts() -> Vec<(String, String)> {
    let is_other = |file: &Path| OTHERS.iter().any(|other| file.to_string_lossy().contains(other));
    let relative = |file: &Path| file.strip_prefix(super::root()).unwrap_or(file).to_string_lossy().into_owned();
    let read = |file: PathBuf| Some((relative(&file), fs::read_to_string(&file).ok()?));
    super::files(&PLACES).filter(|file| !is_other(file)).filter_map(read).collect()
}

fn refused(line: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let line = line.to_lowercase();
    REFUSED.iter().filter(move |(word, _)| {
        line.match_indices(word).any(|(at, _)| {
            let is_letter = |letter: char| letter.is_alphanumeric();
            let after = &line[at + word.len()..];
            // A script of the history is named as it was.
            !line[..at].ends_with(is_letter) && !after.starts_with(".py") && (word.contains('_') || !after.starts_with(is_letter))
        })
    })
}

#[test]
fn a_refused_word_is_found_where_it_stands_alone() {
    let found = |line: &str| refused(line).map(|(_, instead)| *instead).collect::<Vec<_>>();
    assert_eq!(found("It is Handed on."), ["forwarded"]);
    assert_eq!(found("watchcache_handed_on_requests_total"), ["forwarded"]);
    assert_eq!(found("a beforehand one; on hand only; `benches/hand_on.py`"), [""; 0]);
}
