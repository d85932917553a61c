//! Parses a field selector into clauses (spec list-watch §7.2).

/// One term of a field selector as the client wrote it, the value unescaped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldClause {
    /// The field label, spaces and all.
    pub label: String,
    /// `=` and `==` when true, `!=` when false.
    pub equal: bool,
    /// The value asked for; may be empty.
    pub value: String,
}

/// Parses a field selector; the clauses come in the order of their terms' text, which is the order in which errors are found.
///
/// # Errors
/// The message of the 400 (spec list-watch §7.2), byte for byte.
pub fn fields(text: &str) -> Result<Vec<FieldClause>, String> {
    let mut terms = terms(text);
    terms.sort_unstable();
    let clause = |term: &str| -> Result<FieldClause, String> {
        let (label, equal, value) = split(term).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
        Ok(FieldClause { label: label.to_owned(), equal, value: unescaped(value)? })
    };
    let clauses = terms.into_iter().filter(|term| !term.is_empty()).map(clause);
    // An operator with nothing on either side asks for nothing.
    let clauses = clauses.filter(|clause| !matches!(clause, Ok(c) if c.label.is_empty() && c.value.is_empty()));
    let mut clauses: Vec<_> = clauses.collect::<Result<_, _>>()?;
    // A watch keeps them, and has one as a rule; they were collected into room for four.
    clauses.shrink_to_fit();
    Ok(clauses)
}

/// The text between commas; a backslash takes the next character with it.
fn terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Label, whether equality is asked, and the raw value: split at the first operator.
fn split(term: &str) -> Option<(&str, bool, &str)> {
    let not = term.find("!=").unwrap_or(term.len());
    let (label, rest) = term.split_at(term.find('=')?.min(not));
    match rest.strip_prefix("!=") {
        Some(value) => Some((label, false, value)),
        None => Some((label, true, rest.strip_prefix("==").unwrap_or(&rest[1..]))),
    }
}

fn unescaped(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => return Err(format!("invalid field selector: unescaped character in value: {}", u32::from(c))),
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, want: &[(&str, bool, &str)]) {
        let got = fields(text).expect(text);
        let got: Vec<_> = got.iter().map(|c| (c.label.as_str(), c.equal, c.value.as_str())).collect();
        assert_eq!(got, want, "{text:?}");
    }

    #[test]
    fn accepts() {
        check("", &[]);
        check(",,", &[]);
        check("b=1,a!=2", &[("a", false, "2"), ("b", true, "1")]);
        check("a==x", &[("a", true, "x")]);
        check("metadata.name=", &[("metadata.name", true, "")]);
        check(" a = b ", &[(" a ", true, " b ")]);
        check("=x", &[("", true, "x")]);
        check("=,==,!=", &[]);
        check(r"a=\\\,\=", &[("a", true, r"\,=")]);
        check(r"a=x\,y,b=z", &[("a", true, "x,y"), ("b", true, "z")]);
        check("a!b=c", &[("a!b", true, "c")]);
    }

    #[test]
    fn refuses() {
        let cases = [
            ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
            ("metadata.name in (a)", "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'"),
            ("z,a=1,b", "invalid selector: 'z,a=1,b'; can't understand 'b'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            ("a!==", "invalid field selector: unescaped character in value: 61"),
            ("a===b", "invalid field selector: unescaped character in value: 61"),
            (r"a=a\b", r"invalid field selector: invalid escape sequence: \b"),
            (r"a=a\", r"invalid field selector: invalid escape sequence: \"),
        ];
        for (text, want) in cases {
            assert_eq!(fields(text).expect_err(text), want, "{text:?}");
        }
    }

    fn escaped(value: &str) -> String {
        value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = fields(&text);
        }

        #[test]
        fn never_panics_on_likely_text(text in r"[ab=!,\\é]{0,16}") {
            let _ = fields(&text);
        }

        #[test]
        fn reads_what_it_escapes(label in "[a-z.]{1,8}", equal: bool, value in any::<String>()) {
            let text = format!("{label}{}{}", if equal { "=" } else { "!=" }, escaped(&value));
            prop_assert_eq!(fields(&text).expect("an escaped value parses"), vec![FieldClause { label, equal, value }]);
        }
    }
}
