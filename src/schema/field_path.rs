//! Paths of fields as definitions have them: `.spec.a`, `.m['key']`.

/// Returns a key without its quotes and escapes.
#[must_use]
pub fn unquoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let mut key = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(next) = rest.next() {
        key.push(match next {
            '\\' => match rest.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                same @ ('\'' | '\\') => same,
                _ => return None,
            },
            other => other,
        });
    }
    Some(key)
}

/// Returns the tokens of a path: `.`, `[`, `]`, quoted texts, and what stands between.
#[must_use]
pub fn tokens(path: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => closing_quote(rest).map_or(rest.len(), |at| at + 1),
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        found.push(&rest[..end]);
        rest = &rest[end..];
    }
    found
}

/// Returns where the next quote is without a backslash before it.
fn closing_quote(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (1..bytes.len()).find(|&at| bytes[at] == b'\'' && bytes[at - 1] != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_tokens() {
        assert_eq!(tokens(".a['b.c'].d"), [".", "a", "[", "'b.c'", "]", ".", "d"]);
        assert_eq!(tokens(r"['it\'s'"), ["[", r"'it\'s'"], "a quote behind a backslash does not close");
    }

    #[test]
    fn a_key_is_unquoted() {
        assert_eq!(unquoted(r"'it\'s\n\\'").as_deref(), Some("it's\n\\"));
        assert_eq!((unquoted(r"'\x'"), unquoted("a"), unquoted("'")), (None, None, None));
    }
}
