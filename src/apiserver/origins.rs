//! `--cors-allowed-origins`: which pages of other origins may use the API.

use regex::{Regex, RegexBuilder};

/// Bytes that one compiled expression may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Expressions of which one must fit a part of an origin.
#[derive(Clone, Debug)]
pub struct Origins(Vec<Regex>);

impl Origins {
    /// Reads the expressions; none when there is none.
    ///
    /// # Errors
    /// One is empty, does not hold on to both ends of the host, or cannot be read: in kube-apiserver's words.
    pub fn read(expressions: &[String]) -> Result<Option<Origins>, String> {
        let all: Vec<Regex> = expressions.iter().map(|expression| read(expression)).collect::<Result<_, _>>()?;
        Ok((!all.is_empty()).then_some(Origins(all)))
    }

    /// Whether pages of this origin are allowed.
    #[must_use]
    pub fn allow(&self, origin: &[u8]) -> bool {
        std::str::from_utf8(origin).is_ok_and(|origin| !origin.is_empty() && self.0.iter().any(|expression| expression.is_match(origin)))
    }
}

fn read(expression: &str) -> Result<Regex, String> {
    if expression.is_empty() {
        return Err("empty value in --cors-allowed-origins".to_owned());
    }
    let wrong = |why: &str| format!("--cors-allowed-origins has an invalid regular expression: {why}");
    if let Some(why) = go::regexp::wrong(expression) {
        return Err(wrong(&why));
    }
    let begins = expression.contains('^') || expression.contains("//");
    let ends = expression.contains('$') || expression.contains(':');
    if !begins || !ends {
        return Err(wrong("regular expression does not pin to start/end of host in the origin header"));
    }
    let compiled = RegexBuilder::new(expression).size_limit(COMPILED_BYTES_MAX).build();
    compiled.map_err(|error| wrong(error.to_string().lines().last().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(expressions: &[&str]) -> Result<Option<Origins>, String> {
        Origins::read(&expressions.iter().map(|&expression| expression.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_part_of_the_origin_must_fit() {
        let origins = origins(&["//page.example(:|$)", "^http://localhost:3000$"]).expect("good").expect("some");
        for allowed in ["https://page.example", "http://page.example:8080", "http://localhost:3000"] {
            assert!(origins.allow(allowed.as_bytes()), "{allowed}");
        }
        for other in ["https://page.example.evil", "https://evil-page.example", "http://localhost:30001", "null", ""] {
            assert!(!origins.allow(other.as_bytes()), "{other}");
        }
        assert!(!origins.allow(b"https://page.example:\xff"));
    }

    #[test]
    fn expressions_must_hold_on_to_the_host() {
        assert!(origins(&[]).expect("nothing to read").is_none());
        for (expression, why) in [
            ("", "empty value in --cors-allowed-origins"),
            ("example.com", "does not pin to start/end of host in the origin header"),
            ("//example.com", "does not pin to start/end of host in the origin header"),
            ("example.com$", "does not pin to start/end of host in the origin header"),
            ("^(a$", "error parsing regexp: missing closing ): `^(a$`"),
        ] {
            let told = origins(&[expression]).expect_err(expression);
            assert!(told.ends_with(why), "{told}");
        }
    }
}
