//! JSONPath of printer columns, parsed as client-go's `util/jsonpath` does.

use std::borrow::Cow;

use super::node::Node;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// `.name`.
    Field(String),
    /// `.*`.
    Wildcard,
    /// `[1]`, `[-1:]`, `[*]`.
    Slice(Slice),
    /// `[?(@.a == "b")]`.
    Filter(Vec<Self>, String, Vec<Self>),
    /// `..`.
    Recursive,
    /// `[0,'a']`.
    Union(Vec<Vec<Self>>),
    /// A string, a number or a boolean.
    Literal(Node<'static>),
    /// `range`, `end`: nothing that a column could show.
    Word,
}

/// Start, end and step of a slice; `None` where nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// First index.
    pub(super) start: Option<i64>,
    /// Index after the last.
    pub(super) end: Option<i64>,
    /// The end was not written: the start stands for one element.
    pub(super) single: bool,
    /// Distance.
    pub(super) step: Option<i64>,
}

/// Filters inside each other that a column's path may have. Ours: each costs stack, and a column needs one or two.
const FILTER_DEPTH_MAX: usize = 16;

/// The steps of a path as a definition writes it: `.spec.replicas`.
///
/// # Errors
/// It is none; apiextensions then leaves out this column and those after it.
pub(super) fn parse(path: &str) -> Result<Vec<Step>, Invalid> {
    Parser { rest: path, steps: Vec::new(), depth: 0 }.run()
}

/// What is no path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid;

struct Parser<'t> {
    rest: &'t str,
    steps: Vec<Step>,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn nested(&self, text: &str) -> Result<Vec<Step>, Invalid> {
        if self.depth == FILTER_DEPTH_MAX {
            return Err(Invalid);
        }
        Parser { rest: text, steps: Vec::new(), depth: self.depth + 1 }.run()
    }

    fn run(mut self) -> Result<Vec<Step>, Invalid> {
        loop {
            if let Some(rest) = self.rest.strip_prefix("[?(") {
                self.rest = rest;
                self.filter()?;
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix("..") {
                self.rest = rest;
                self.recursive()?;
                continue;
            }
            // The action of the template ends with the text, or at a brace; what follows that is no part of the first result.
            let Some(first) = self.rest.chars().next().filter(|c| *c != '}') else { return Ok(self.steps) };
            let after = &self.rest[first.len_utf8()..];
            match first {
                '\r' | '\n' => return Err(Invalid),
                ' ' | '@' | '$' => self.rest = after,
                '[' => self.array(after)?,
                '"' | '\'' => self.quoted(first, after)?,
                '.' => {
                    self.rest = after;
                    self.field();
                }
                '+' | '-' => self.number()?,
                digit if digit.is_numeric() => self.number()?,
                letter if letter == '_' || letter.is_alphabetic() => self.word(),
                _ => return Err(Invalid),
            }
        }
    }

    fn recursive(&mut self) -> Result<(), Invalid> {
        if self.steps.last() == Some(&Step::Recursive) {
            return Err(Invalid);
        }
        self.steps.push(Step::Recursive);
        if self.rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
            self.field();
        }
        Ok(())
    }

    /// A name up to something that ends one; a backslash takes the next character along.
    fn field(&mut self) {
        let mut end = self.rest.len();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            if character == '\\' {
                characters.next();
            } else if ends_name(character) {
                end = at;
                break;
            }
        }
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.steps.push(if name == "*" { Step::Wildcard } else { Step::Field(name.replace('\\', "")) });
    }

    fn word(&mut self) {
        let (word, rest) = self.rest.split_at(self.rest.find(ends_name).unwrap_or(self.rest.len()));
        self.rest = rest;
        self.steps.push(match word {
            "true" | "false" => Step::Literal(Node::Bool(word == "true")),
            _ => Step::Word,
        });
    }

    fn number(&mut self) -> Result<(), Invalid> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let end = self.rest[sign..].find(|c: char| c != '.' && !c.is_numeric()).map_or(self.rest.len(), |at| at + sign);
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let number = text.parse().map(Node::Int).or_else(|_| text.parse().map(Node::Float));
        self.steps.push(Step::Literal(number.map_err(|_| Invalid)?));
        Ok(())
    }

    fn quoted(&mut self, quote: char, after: &'t str) -> Result<(), Invalid> {
        let closing = |(at, c): (usize, char)| c == '\n' || c == quote && !after[..at].ends_with('\\');
        let end = after.char_indices().find(|found| closing(*found)).map(|(at, _)| at).ok_or(Invalid)?;
        let rest = after[end..].strip_prefix(quote).ok_or(Invalid)?;
        self.steps.push(Step::Literal(Node::Text(Cow::Owned(unquoted(&after[..end], quote)?))));
        self.rest = rest;
        Ok(())
    }

    fn array(&mut self, after: &'t str) -> Result<(), Invalid> {
        let end = after.find([']', '\n']).ok_or(Invalid)?;
        let text = &after[..end];
        self.rest = after[end..].strip_prefix(']').ok_or(Invalid)?;
        if text.contains(',') {
            let parts = text.split(',').map(|part| self.nested(&format!("[{}]", part.trim_matches(' '))));
            let parts = parts.collect::<Result<_, _>>()?;
            self.steps.push(Step::Union(parts));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).filter(|key| !key.contains('\''));
        match key {
            // A key is read as what follows a dot: with its dots unescaped it is several.
            Some(key) => {
                let steps = self.nested(&format!(".{key}"))?;
                self.steps.extend(steps);
            }
            None => self.steps.push(Step::Slice(slice(if text == "*" { ":" } else { text })?)),
        }
        Ok(())
    }

    fn filter(&mut self) -> Result<(), Invalid> {
        let end = filter_end(self.rest).ok_or(Invalid)?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(")]").ok_or(Invalid)?;
        const OPERATOR: [char; 4] = ['!', '<', '>', '='];
        let left = text.find(OPERATOR).unwrap_or(text.len());
        let right = text[left..].find(|c| !OPERATOR.contains(&c)).map(|at| at + left);
        let step = match right {
            Some(right) if left > 0 => {
                Step::Filter(self.nested(&text[..left])?, text[left..right].to_owned(), self.nested(&text[right..])?)
            }
            _ => Step::Filter(self.nested(text)?, "exists".to_owned(), Vec::new()),
        };
        self.steps.push(step);
        Ok(())
    }
}

fn ends_name(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Where the parenthesis closes: outside of the quotes, which appear once or not at all.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut closed = false;
    for (at, character) in text.char_indices() {
        match character {
            '\n' => return None,
            '"' | '\'' if quote.is_none() => quote = Some(character),
            '"' | '\'' => closed |= quote == Some(character) && !text[..at].ends_with('\\'),
            ')' if quote.is_some() == closed => return Some(at),
            _ => {}
        }
    }
    None
}

/// `1`, `1:2`, `::2`.
fn slice(text: &str) -> Result<Slice, Invalid> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |at: usize| -> Result<Option<i64>, Invalid> {
        match parts.get(at) {
            None | Some(&"") => Ok(None),
            Some(part) if part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit()) => {
                part.parse().map(Some).map_err(|_| Invalid)
            }
            Some(_) => Err(Invalid),
        }
    };
    if parts.len() > 3 {
        return Err(Invalid);
    }
    let start = number(0)?;
    let single = parts.len() == 1;
    let end = if single { Some(start.unwrap_or(0).saturating_add(1)) } else { number(1)? };
    Ok(Slice { start, end, single, step: number(2)? })
}

/// Go's escapes, of those the ones that a text can have.
fn unquoted(text: &str, quote: char) -> Result<String, Invalid> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        out.push(match characters.next().ok_or(Invalid)? {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' => '\\',
            escaped if escaped == quote => escaped,
            'u' => hex(characters.by_ref().take(4).collect())?,
            'U' => hex(characters.by_ref().take(8).collect())?,
            _ => return Err(Invalid),
        });
    }
    Ok(out)
}

fn hex(digits: String) -> Result<char, Invalid> {
    u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).ok_or(Invalid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field(name: &str) -> Step {
        Step::Field(name.to_owned())
    }

    #[test]
    fn steps_are_those_of_client_go() {
        let check = |path: &str, expect: &[Step]| assert_eq!(parse(path).as_deref(), Ok(expect), "{path}");
        check(".spec.replicas", &[field("spec"), field("replicas")]);
        check(".metadata.labels['a\\.b/c']", &[field("metadata"), field("labels"), field("a.b/c")]);
        check(".metadata.labels.a\\.b", &[field("metadata"), field("labels"), field("a.b")]);
        check(".a['b.c']", &[field("a"), field("b"), field("c")]);
        let one = |start| Step::Slice(Slice { start: Some(start), end: Some(start + 1), single: true, step: None });
        check(".a[-1]", &[field("a"), one(-1)]);
        check(".a[*]", &[field("a"), Step::Slice(Slice { start: None, end: None, single: false, step: None })]);
        check(".a[1:5:2]", &[field("a"), Step::Slice(Slice { start: Some(1), end: Some(5), single: false, step: Some(2) })]);
        check(".a[0,'b']", &[field("a"), Step::Union(vec![vec![one(0)], vec![field("b")]])]);
        check("..a.*", &[Step::Recursive, field("a"), Step::Wildcard]);
        let ready = Step::Literal(Node::Text("Rea)dy".into()));
        check(
            r#".c[?(@.type == "Rea)dy")].status"#,
            &[field("c"), Step::Filter(vec![field("type")], "==".to_owned(), vec![ready]), field("status")],
        );
        check(".c[?(@.a)]", &[field("c"), Step::Filter(vec![field("a")], "exists".to_owned(), vec![])]);
        check(".c[?(@.a>=1.5)]", &[field("c"), Step::Filter(vec![field("a")], ">=".to_owned(), vec![Step::Literal(Node::Float(1.5))])]);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [".a[", ".a[x]", ".a[?(@.b == 'c')", ".a....b", ".a[1:2:3:4]", ".a[-]", ".a#\n", ".a[?(@.b == \"c)]"] {
            assert_eq!(parse(path), Err(Invalid), "{path}");
        }
        let deep = format!(".a{}{}", "[?(@.b".repeat(99), ")]".repeat(99));
        assert_eq!(parse(&deep), Err(Invalid));
    }

    proptest! {
        #[test]
        fn nothing_panics(path in r#"[.\[\]?(@a1'"=\\,:* <é{}-]{0,24}"#) {
            let _ = parse(&path);
        }
    }
}
