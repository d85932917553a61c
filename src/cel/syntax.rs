//! The texts of cel-go's parser for what is no expression. This file alone knows the crate `cel`, which has the same grammar and generated parser.

use cel_parser::parser::{ParseError, Parser};

use crate::{
    issue::Issues,
    token::{TokenKind, scan},
};

/// Parentheses, brackets and braces that may be open at once: the generated parser takes much of the stack for each.
const OPEN_MAX: usize = 24;
/// Characters of an expression whose errors are looked for.
const CHARS_MAX: usize = 20_000;

/// Returns what is wrong with an expression that the grammar refuses.
pub(crate) fn issues(source: &str) -> Issues {
    let mut issues = Issues::new(source);
    if is_small(source) {
        let parser = Parser::new().enable_optional_syntax(true);
        if let Err(found) = parser.parse(source) {
            report(source, found.errors, &mut issues);
        }
    }
    if issues.is_empty() {
        issues.report_nowhere("Syntax error: the expression cannot be parsed");
    }
    issues
}

/// Reports the errors of the parser in cel-go's words.
fn report(source: &str, errors: Vec<ParseError>, issues: &mut Issues) {
    let (mut is_lost, mut names) = (false, Vec::new());
    let (kinds, errors): (Vec<_>, Vec<_>) = errors.into_iter().filter(|error| !is_own(&error.msg)).partition(|error| error.msg == NO_NAME);
    for error in errors {
        // The crate shows the dot before a name in back quotes.
        let shift = if error.msg.starts_with("unsupported syntax: '`'") { 0 } else { 1 };
        let place = (error.pos.0 as i64, error.pos.1 as i64 - shift);
        let message = reworded(source, error.pos, error.msg, is_lost);
        if message.ends_with(" expecting {IDENTIFIER, ESC_IDENTIFIER}") {
            names.push(place);
        }
        // Behind an expression that does not end the parser has left all brackets.
        is_lost |= message.contains("mismatched input") && !message.ends_with('}');
        issues.report_at(place.0, place.1, message);
    }
    for error in kinds {
        let dot = (error.pos.0 as i64, error.pos.1 as i64 - 1);
        let place = names.iter().copied().find(|place| *place >= dot).unwrap_or(dot);
        issues.report_at(place.0, place.1, error.msg);
    }
}

/// What stands where a name must be is none.
const NO_NAME: &str = "unsupported ident kind";

fn is_small(source: &str) -> bool {
    let (mut open, mut deepest, mut chars) = (0_usize, 0, 0);
    for c in source.chars() {
        chars += 1;
        match c {
            '(' | '[' | '{' | '?' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest <= OPEN_MAX && chars <= CHARS_MAX
}

/// Whether an error is one that the crate adds to those of the parser.
fn is_own(message: &str) -> bool {
    message.starts_with("Incomplete `") || message.starts_with("No `")
}

/// Returns the text that cel-go has. Its parser expects one token where the crate's shows all that may follow an expression; and a reserved word in the
/// place of a name has a text of its own.
fn reworded(source: &str, place: (isize, isize), message: String, is_lost: bool) -> String {
    if let Some((before, expected)) = message.split_once(" expecting {")
        && expected.contains("'=='")
    {
        let expected = if is_lost { "<EOF>" } else { closing(source, place) };
        return format!("{before} expecting {expected}");
    }
    if let Some(name) = message.strip_prefix("reserved identifier: .") {
        return format!("reserved identifier: {name}");
    }
    let message = message.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
    for word in ["true", "false", "null"] {
        let suffix = format!("{word}'");
        if let Some((before, rest)) = message.split_once("no viable alternative at input '")
            && rest.ends_with(&suffix)
            && rest.chars().count() == suffix.chars().count() + 1
        {
            return format!("{before}mismatched input '{word}' expecting IDENTIFIER");
        }
    }
    message
}

/// Returns what must come after the expression that ends before a place (its line and column, from 1).
fn closing(source: &str, (line, column): (isize, isize)) -> &'static str {
    let chars: Vec<char> = source.chars().collect();
    let before: usize = source.split('\n').take(usize::try_from(line - 1).unwrap_or(0)).map(|line| line.chars().count() + 1).sum();
    let end = before + usize::try_from(column - 1).unwrap_or(0);
    let mut open = Vec::new();
    for token in scan(&chars).0.iter().take_while(|token| token.at < end) {
        match (token.kind, open.last()) {
            (TokenKind::Op(bracket @ ("(" | "[" | "{" | "?")), _) => open.push(bracket),
            (TokenKind::Op(")" | "]"), _) => {
                open.pop();
            }
            (TokenKind::Op("}"), _) => {
                open.retain(|bracket| *bracket != "}");
                open.pop();
            }
            (TokenKind::Op(":"), Some(&"?")) => {
                open.pop();
            }
            // A map: a value follows, and after the next comma a key.
            (TokenKind::Op(":"), Some(&"{")) => open.push("}"),
            (TokenKind::Op(","), Some(&"}")) => {
                open.pop();
            }
            _ => {}
        }
    }
    match open.last() {
        None => "<EOF>",
        Some(&"(") => "')'",
        Some(&"[") => "']'",
        Some(&"}") => "'}'",
        Some(_) => "':'",
    }
}
