//! Go's regular expressions in the syntax of the crate `regex`, which has other classes, braces and escapes: Perl's classes are ASCII in Go, a brace that begins no
//! repetition stands for itself, and `\Q…\E` and octal escapes are there.

use std::fmt::Write as _;

use super::{Counts, escaped, named_class, posix_class, until, wrong};

/// Groups inside each other; Go refuses more than 1,000 and `regex` more than 250.
const DEPTH_MAX: usize = 200;
/// States that a class of Unicode takes, about.
const STATES_OF_UNICODE: usize = 200;

/// An expression for `regex`.
#[derive(Debug, PartialEq, Eq)]
pub struct Printed {
    /// The expression; it has no groups that capture.
    pub text: String,
    /// States that its automaton has, about.
    pub states: usize,
}

/// Prints an expression of Go.
///
/// # Errors
/// Go's, of what is no expression; ours, of one that is nested too deep.
pub fn to_rust(pattern: &str) -> Result<Printed, String> {
    if let Some(why) = wrong(pattern) {
        return Err(why);
    }
    let mut printer = Printer { text: String::with_capacity(pattern.len()), outer: Vec::new(), group: Group::default() };
    printer.print(pattern)?;
    let states = printer.group.states();
    Ok(Printed { text: printer.text, states })
}

/// Flags that are on.
#[derive(Clone, Copy, Default)]
struct Flags {
    folds_case: bool,
    has_lines: bool,
    dot_is_all: bool,
}

/// A group that is open.
#[derive(Clone, Copy, Default)]
struct Group {
    flags: Flags,
    /// States of all but the last part.
    before: usize,
    /// States of the last part, which may be repeated.
    last: usize,
}

impl Group {
    fn states(self) -> usize {
        self.before.saturating_add(self.last)
    }
}

struct Printer {
    text: String,
    outer: Vec<Group>,
    group: Group,
}

impl Printer {
    /// Of what is known to be an expression.
    fn print(&mut self, mut rest: &str) -> Result<(), String> {
        while let Some(next) = rest.chars().next() {
            let after = &rest[next.len_utf8()..];
            rest = match next {
                '(' if after.starts_with('?') => self.perl_group(after)?,
                '(' => self.open(after)?,
                ')' => self.close(after),
                '|' => {
                    self.text.push('|');
                    self.part(0);
                    after
                }
                '[' => self.class(rest),
                '*' | '+' | '?' => {
                    self.text.push(next);
                    after.strip_prefix('?').unwrap_or(after)
                }
                '{' if let Some((counts, after)) = Counts::read(rest) => {
                    self.repeat(counts);
                    after.strip_prefix('?').unwrap_or(after)
                }
                '.' => self.put(if self.group.flags.dot_is_all { "(?s:.)" } else { r"[^\n]" }, 1, after),
                '^' => self.put(if self.group.flags.has_lines { "(?m:^)" } else { r"(?:\A)" }, 1, after),
                '$' => self.put(if self.group.flags.has_lines { "(?m:$)" } else { r"(?:\z)" }, 1, after),
                '\\' => self.escape(rest),
                literal => {
                    self.literal(literal.into());
                    after
                }
            };
        }
        Ok(())
    }

    fn part(&mut self, states: usize) {
        self.group.before = self.group.states();
        self.group.last = states;
    }

    fn put<'p>(&mut self, text: &str, states: usize, after: &'p str) -> &'p str {
        self.text.push_str(text);
        self.part(states);
        after
    }

    fn open<'p>(&mut self, after: &'p str) -> Result<&'p str, String> {
        if self.outer.len() == DEPTH_MAX {
            return Err("expression nests too deeply".to_owned());
        }
        self.text.push_str("(?:");
        self.outer.push(self.group);
        self.group = Group { flags: self.group.flags, before: 0, last: 0 };
        Ok(after)
    }

    fn close<'p>(&mut self, after: &'p str) -> &'p str {
        self.text.push(')');
        let states = self.group.states();
        if let Some(outer) = self.outer.pop() {
            self.group = outer;
        }
        self.part(states);
        after
    }

    fn repeat(&mut self, counts: Counts) {
        let Counts { least, most } = counts;
        let _ = match most {
            Some(most) => write!(self.text, "{{{least},{most}}}"),
            None => write!(self.text, "{{{least},}}"),
        };
        let times = most.unwrap_or(least).max(1);
        self.group.last = self.group.last.saturating_mul(times as usize);
    }

    /// What begins with `(?`, behind the bracket: a group without a number, or flags for what follows in the group.
    fn perl_group<'p>(&mut self, after: &'p str) -> Result<&'p str, String> {
        if after.starts_with("?P<") || after.starts_with("?<") {
            let end = after.find('>').map_or(after.len(), |end| end + 1);
            return self.open(&after[end..]);
        }
        let mut flags = self.group.flags;
        let mut is_on = true;
        let mut rest = after[1..].chars();
        while let Some(next) = rest.next() {
            match next {
                'i' => flags.folds_case = is_on,
                'm' => flags.has_lines = is_on,
                's' => flags.dot_is_all = is_on,
                '-' => is_on = false,
                ':' => {
                    let after = self.open(rest.as_str())?;
                    self.group.flags = flags;
                    return Ok(after);
                }
                ')' => break,
                // Which match is preferred is nobody's concern who asks whether there is one.
                _ => {}
            }
        }
        self.group.flags = flags;
        Ok(rest.as_str())
    }

    fn escape<'p>(&mut self, whole: &'p str) -> &'p str {
        match whole.as_bytes().get(1) {
            Some(b'A') => return self.put(r"(?:\A)", 1, &whole[2..]),
            Some(b'z') => return self.put(r"(?:\z)", 1, &whole[2..]),
            Some(b'b') => return self.put(r"(?-u:\b)", 1, &whole[2..]),
            Some(b'B') => return self.put(r"(?-u:\B)", 1, &whole[2..]),
            Some(b'Q') => {
                let (literal, rest) = whole[2..].split_once("\\E").unwrap_or((&whole[2..], ""));
                literal.chars().for_each(|c| self.literal(c.into()));
                return rest;
            }
            _ => {}
        }
        if let Ok(Some(rest)) = named_class(whole) {
            let mut class = String::new();
            print_class(until(whole, rest), &mut class);
            self.folded(&format!("[{class}]"), if whole[1..].starts_with(['p', 'P']) { STATES_OF_UNICODE } else { 1 });
            return rest;
        }
        let Ok((value, rest)) = escaped(whole) else { return "" };
        self.literal(value);
        rest
    }

    fn literal(&mut self, value: u32) {
        let mut text = String::new();
        match char::from_u32(value) {
            Some(c) if c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii() => text.push(c),
            Some(_) => print_char(value, &mut text),
            // Half of a pair is in no text.
            None => text.push_str(r"[^\x{0}-\x{10FFFF}]"),
        }
        self.folded(&text, 1);
    }

    fn folded(&mut self, text: &str, states: usize) {
        let folds = self.group.flags.folds_case;
        let _ = if folds { write!(self.text, "(?i:{text})") } else { write!(self.text, "{text}") };
        self.part(states);
    }

    /// A class in brackets; what follows it.
    fn class<'p>(&mut self, whole: &'p str) -> &'p str {
        let inside = &whole[1..];
        let mut rest = inside.strip_prefix('^').unwrap_or(inside);
        let mut text = String::from(if rest.len() < inside.len() { "[^" } else { "[" });
        let (mut states, mut is_first) = (1, true);
        while is_first || !rest.starts_with(']') {
            is_first = false;
            if let Ok(Some(after)) = posix_class(rest) {
                text.push_str(until(rest, after));
                rest = after;
                continue;
            }
            if let Ok(Some(after)) = named_class(rest) {
                states += if rest[1..].starts_with(['p', 'P']) { STATES_OF_UNICODE } else { 0 };
                print_class(until(rest, after), &mut text);
                rest = after;
                continue;
            }
            let Some((low, after)) = class_char(rest) else { return "" };
            let range = after.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']'));
            let (high, after) = range.and_then(class_char).unwrap_or((low, after));
            states += usize::from(high > 0x7f);
            print_range(low, high, &mut text);
            rest = after;
        }
        text.push(']');
        self.folded(&text, states);
        &rest[1..]
    }
}

/// One character of a class in brackets, and the rest.
fn class_char(text: &str) -> Option<(u32, &str)> {
    super::class_char(text, text).ok()
}

fn print_char(value: u32, text: &mut String) {
    let _ = write!(text, "\\x{{{value:X}}}");
}

/// A range of characters, of which halves of pairs are left out.
fn print_range(low: u32, high: u32, text: &mut String) {
    const PAIRS: (u32, u32) = (0xd800, 0xdfff);
    let parts = [(low, high.min(PAIRS.0 - 1)), (low.max(PAIRS.1 + 1), high)];
    let mut is_empty = true;
    for (low, high) in parts.into_iter().filter(|(low, high)| low <= high) {
        print_char(low, text);
        text.push('-');
        print_char(high, text);
        is_empty = false;
    }
    if is_empty {
        text.push_str(r"[^\x{0}-\x{10FFFF}]");
    }
}

/// `\d` or `\p{Greek}`, inside of a class in brackets.
fn print_class(class: &str, text: &mut String) {
    let (letter, name) = (class.as_bytes().get(1).copied(), class.get(2..).unwrap_or_default());
    match letter {
        Some(b'd') => text.push_str("0-9"),
        Some(b'D') => text.push_str("[^0-9]"),
        Some(b's') => text.push_str(r"\t\n\x{C}\r\x{20}"),
        Some(b'S') => text.push_str(r"[^\t\n\x{C}\r\x{20}]"),
        Some(b'w') => text.push_str("0-9A-Za-z_"),
        Some(b'W') => text.push_str("[^0-9A-Za-z_]"),
        _ => {
            let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
            let (name, is_negated) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
            let letter = if (letter == Some(b'P')) == is_negated { 'p' } else { 'P' };
            let _ = write!(text, "\\{letter}{{{name}}}");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        let printed = to_rust(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
        Regex::new(&printed.text).unwrap_or_else(|why| panic!("{pattern}: {why}")).is_match(text)
    }

    /// Each was given to Go's `regexp.MatchString`.
    #[test]
    fn what_matches_in_go_matches() {
        for (pattern, text, want) in [
            (r"^\d$", "٣", false),
            (r"^\d$", "3", true),
            (r"^\w+$", "é", false),
            (r"(?i)^\w$", "ſ", true),
            (r"^\s$", "\u{b}", false),
            (r"^\s$", "\u{a0}", false),
            (r"^\S$", "\u{a0}", true),
            ("^{[a-z]+}$", "{ab}", true),
            ("a{,5}", "a{,5}", true),
            ("a{,5}", "aa", false),
            ("a{", "a{", true),
            (r"^\Q.*\E$", ".*", true),
            (r"^\Q.*\E$", "ab", false),
            (r"^\Qab\E+$", "abbb", true),
            (r"^\123$", "S", true),
            (r"^a$", "a\n", false),
            (r"(?m)^a$", "b\na\n", true),
            (r"^.$", "\n", false),
            (r"(?s)^.$", "\n", true),
            (r"^[^a]$", "\n", true),
            (r"\bé", "é", false),
            (r"\Bé", "é", true),
            (r"é\b", "éa", true),
            (r"^(?i)K$", "\u{212a}", true),
            (r"a(?i)b|c", "C", true),
            (r"a(?i)*$", "", true),
            (r"^[a&&b]$", "&", true),
            (r"^[[a]$", "[", true),
            (r"^[+--]$", ",", true),
            (r"^[]a]$", "]", true),
            (r"^[\]a-]$", "-", true),
            (r"^[[:word:]]$", "_", true),
            (r"^[[:^alpha:]]$", "1", true),
            (r"^\p{^Greek}$", "a", true),
            (r"^\P{^Greek}$", "β", true),
            (r"^\pL$", "é", true),
            (r"^[\x{0}-\x{D900}]$", "a", true),
            (r"\x{D800}", "a", false),
            (r"^(?P<n>a)(?<m>b)$", "ab", true),
            (r"^(?:)*$", "", true),
            (r"^*a", "a", true),
            (r"a~#x", "a~#x", true),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text:?}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused_and_depth_has_a_limit() {
        assert_eq!(to_rust("a**"), Err("error parsing regexp: invalid nested repetition operator: `**`".to_owned()));
        let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert!(to_rust(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(to_rust(&nested(DEPTH_MAX + 1)), Err("expression nests too deeply".to_owned()));
    }

    #[test]
    fn states_grow_with_repetitions() {
        let states = |pattern: &str| to_rust(pattern).expect("a pattern").states;
        assert_eq!((states("abc"), states("(ab){10}c"), states("a{3,}b")), (3, 21, 4));
        assert!(states(r"\pL{100}") >= 20_000);
    }

    proptest! {
        /// What Go can read is printed, and read by `regex` unless it is too large.
        #[test]
        fn what_is_printed_can_be_read(pattern in r"[-a|()\[\]{}*+?^$.\\:&~<>PpLdQEis019,é]{0,24}") {
            if let Ok(printed) = to_rust(&pattern) {
                match Regex::new(&printed.text) {
                    Ok(_) | Err(regex::Error::CompiledTooBig(_)) => {}
                    Err(why) => prop_assert!(false, "{pattern} as {}: {why}", printed.text),
                }
            }
        }
    }
}
