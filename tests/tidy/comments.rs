//! Checks on comments: a line of one has at most [`COLUMNS_MAX`] columns. Rows of tables are exempt, for they cannot be broken.

use super::{GENERATED, files, none, read, root};

/// Columns that a line of a comment may have, with its indentation.
const COLUMNS_MAX: usize = 160;

#[test]
fn lines_of_comments_fit() {
    let ours = files(&["src", "tests", "benches", "proto"]).filter(|file| file.extension().is_some_and(|end| end == "rs"));
    let mut wrong = Vec::new();
    for file in ours.filter(|file| !file.starts_with(root().join(GENERATED))) {
        wrong.extend(too_long(&read(&file)).map(|number| format!("{}:{number}: more than {COLUMNS_MAX} columns", file.display())));
    }
    none(&wrong);
}

/// Returns the numbers of the comments' lines that are too long.
fn too_long(text: &str) -> impl Iterator<Item = usize> {
    let is_comment = |line: &str| {
        let text = line.trim_start();
        text.starts_with("//") && !text.trim_start_matches(['/', '!']).trim_start().starts_with('|')
    };
    text.lines().zip(1..).filter(move |(line, _)| is_comment(line) && line.chars().count() > COLUMNS_MAX).map(|(_, number)| number)
}

/// The check sees what it looks for.
#[test]
fn a_long_line_is_seen() {
    let (fits, long) = ("a".repeat(COLUMNS_MAX - 3), "é".repeat(COLUMNS_MAX));
    let text = format!("// {fits}\n    //! {fits}\n//! | {long} |\nlet a = \"{long}\"; // code\n/// {long}\n");
    assert_eq!(too_long(&text).collect::<Vec<_>>(), [2, 5]);
}
