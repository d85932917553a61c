//! What is wrong with an expression, shown as cel-go shows it.

use std::fmt;

/// Issues that are shown; of the others there is only a count.
const SHOWN_MAX: usize = 100;
/// Bytes of a line above which it is not shown.
const SNIPPET_MAX: usize = 16_384;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Its line, from 1; -1 if it has no place.
    pub line: i64,
    /// Its column, from 0.
    pub column: i64,
    /// What is wrong.
    pub message: String,
}

/// All that is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues {
    source: Box<str>,
    issues: Vec<Issue>,
    count: usize,
}

impl Issues {
    pub(crate) fn new(source: &str) -> Self {
        Self { source: source.into(), issues: Vec::new(), count: 0 }
    }

    /// Adds one at an offset in characters.
    pub(crate) fn report(&mut self, at: u32, message: impl Into<String>) {
        // Of those that are not shown the place is not looked for.
        let (line, column) = if self.count < SHOWN_MAX { self.place(at) } else { (-1, -1) };
        self.report_at(line, column, message.into());
    }

    /// Adds one that has no place.
    pub(crate) fn report_nowhere(&mut self, message: impl Into<String>) {
        self.report_at(-1, -1, message.into());
    }

    pub(crate) fn report_at(&mut self, line: i64, column: i64, message: String) {
        self.count += 1;
        if self.count <= SHOWN_MAX {
            self.issues.push(Issue { line, column, message });
        }
    }

    /// Returns the line and the column of an offset in characters.
    fn place(&self, at: u32) -> (i64, i64) {
        let (mut line, mut column) = (1, 0);
        for c in self.source.chars().take(at as usize) {
            if c == '\n' {
                (line, column) = (line + 1, 0);
            } else {
                column += 1;
            }
        }
        (line, column)
    }

    /// Returns whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns those that are shown, in the order of their places.
    #[must_use]
    pub fn sorted(&self) -> Vec<&Issue> {
        let mut issues: Vec<_> = self.issues.iter().collect();
        issues.sort_by_key(|issue| (issue.line, issue.column));
        issues
    }

    fn write(&self, issue: &Issue, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR: <input>:{}:{}: {}", issue.line, issue.column + 1, issue.message)?;
        let index = usize::try_from(issue.line - 1).ok();
        let Some(line) = index.and_then(|index| self.source.split('\n').nth(index)).filter(|line| line.len() <= SNIPPET_MAX) else {
            return Ok(());
        };
        let line = line.replace('\t', " ");
        write!(f, "\n | {line}\n | ")?;
        let mut chars = line.chars();
        for c in chars.by_ref().take(usize::try_from(issue.column).unwrap_or(0)) {
            f.write_str(if c.len_utf8() > 1 { "\u{ff0e}" } else { "." })?;
        }
        f.write_str(if chars.next().is_some_and(|c| c.len_utf8() > 1) { "\u{ff3e}" } else { "^" })
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, issue) in self.sorted().into_iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "\n" })?;
            self.write(issue, f)?;
        }
        if self.count > SHOWN_MAX { write!(f, "\n{} more errors were truncated", self.count - SHOWN_MAX) } else { Ok(()) }
    }
}

impl std::error::Error for Issues {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are cel-go's of `common/errors_test.go`.
    #[test]
    fn places_are_shown_in_their_line() {
        let mut issues = Issues::new("a.b\n&&arg(missing, paren");
        issues.report_at(1, 1, "No such field".into());
        issues.report_at(2, 20, "Syntax error, missing paren".into());
        let shown = "ERROR: <input>:1:2: No such field\n | a.b\n | .^\nERROR: <input>:2:21: Syntax error, missing paren\n | &&arg(missing, paren\n | ....................^";
        assert_eq!(issues.to_string(), shown);
        let mut wide = Issues::new("你好吗");
        wide.report(2, "Unexpected character '吗'");
        assert_eq!(wide.to_string(), "ERROR: <input>:1:3: Unexpected character '吗'\n | 你好吗\n | ．．＾");
    }
}
