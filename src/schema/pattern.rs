//! A `pattern`, written in Go's syntax, compiled when the first text is matched.

use std::{fmt, sync::OnceLock};

use regex::{Regex, RegexBuilder};

/// Bytes that a compiled pattern may have.
const COMPILED_BYTES_MAX: usize = 10 << 20;
/// Bytes that a thread may remember of a pattern to match faster.
const CACHE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a pattern.
const PATTERN_BYTES_MAX: usize = 64 << 10;

/// A pattern of texts.
pub(crate) struct Pattern {
    text: Box<str>,
    compiled: OnceLock<Result<Compiled, String>>,
}

struct Compiled {
    regex: Regex,
    states: usize,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.into(), compiled: OnceLock::new() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches a part of a text.
    ///
    /// # Errors
    /// Why it matches nothing: Go's error, or ours of what is too large.
    pub(crate) fn matches(&self, text: &str) -> Result<bool, &str> {
        self.compiled().map(|compiled| compiled.regex.is_match(text))
    }

    /// What it may take to match a text, at worst, in visits of nodes.
    pub(crate) fn work(&self, text: &str) -> u64 {
        const STATES_OF_A_VISIT: usize = 32;
        let states = self.compiled().map_or(0, |compiled| compiled.states);
        (text.len() as u64).saturating_mul((states / STATES_OF_A_VISIT).max(1) as u64) / 8
    }

    fn compiled(&self) -> Result<&Compiled, &str> {
        let compiled = self.compiled.get_or_init(|| {
            if self.text.len() > PATTERN_BYTES_MAX {
                return Err(format!("it is longer than {PATTERN_BYTES_MAX} bytes"));
            }
            let printed = go::regexp::to_rust(&self.text)?;
            let mut builder = RegexBuilder::new(&printed.text);
            let built = builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(CACHE_BYTES_MAX).build();
            let regex = built.map_err(|_| "expression is too large".to_owned())?;
            Ok(Compiled { regex, states: printed.states })
        });
        compiled.as_ref().map_err(String::as_str)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_parts_of_texts_and_have_a_size() {
        assert_eq!(Pattern::new("b").matches("abc"), Ok(true));
        assert_eq!(Pattern::new("^b").matches("abc"), Ok(false));
        assert_eq!(Pattern::new("(").matches("a"), Err("error parsing regexp: missing closing ): `(`"));
        assert_eq!(Pattern::new(r"(\pL{900}\pN{900}){1}").matches("a"), Err("expression is too large"));
        assert!(Pattern::new(&"a".repeat(PATTERN_BYTES_MAX + 1)).matches("a").is_err());
    }

    #[test]
    fn work_grows_with_text_and_pattern() {
        let text = "a".repeat(8_000);
        assert_eq!(Pattern::new("a").work(&text), 1_000);
        assert!(Pattern::new("(a?){500}a{500}").work(&text) > 30_000);
    }
}
