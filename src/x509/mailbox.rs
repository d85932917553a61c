//! Mail addresses in certificates, after RFC 2821 as Go reads it.

use std::fmt;

use crate::alternative::is_domain;

/// A mail address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mailbox {
    local: String,
    pub(crate) domain: String,
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.local, self.domain)
    }
}

impl Mailbox {
    /// Reads an address (`parseRFC2821Mailbox`).
    pub(crate) fn read(text: &str) -> Option<Mailbox> {
        let (local, rest) = match text.strip_prefix('"') {
            Some(rest) => quoted_part(rest)?,
            None => atoms(text)?,
        };
        let domain = rest.strip_prefix('@')?;
        // Unlike a domain elsewhere it has no label that is empty.
        let is_one = is_domain(domain, false) && !domain.starts_with('.');
        is_one.then(|| Mailbox { local, domain: domain.to_owned() })
    }

    /// The address with its domain in lower case, in which domains are compared.
    pub(crate) fn lower(self) -> Mailbox {
        Mailbox { domain: self.domain.to_lowercase(), ..self }
    }
}

/// What stands in quotes, which have been opened, and what follows them.
fn quoted_part(text: &str) -> Option<(String, &str)> {
    let mut local = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            '"' => return Some((local, rest.as_str())),
            '\\' => local.push(rest.next().filter(|c| matches!(c, '\x01'..='\x09' | '\x0b' | '\x0c' | '\x0e'..='\x7f'))?),
            c @ ('\x01'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='!' | '#'..='[' | ']'..='\x7f') => local.push(c),
            _ => return None,
        }
    }
}

/// Atoms with dots between them, and what follows them. A backslash may stand before any character.
fn atoms(text: &str) -> Option<(String, &str)> {
    let mut local = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (c, length) = match c {
            '\\' => (rest[1..].chars().next()?, 2),
            c if c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c) => (c, 1),
            _ => break,
        };
        local.push(c);
        rest = rest.get(length..)?;
    }
    let is_one = !local.is_empty() && !local.starts_with('.') && !local.ends_with('.') && !local.contains("..");
    is_one.then_some((local, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_go_reads() {
        let read = |text: &str| Mailbox::read(text).map(|mailbox| (mailbox.local, mailbox.domain));
        let some = |local: &str, domain: &str| Some((local.to_owned(), domain.to_owned()));
        assert_eq!(read("foo@Example.com"), some("foo", "Example.com"));
        assert_eq!(read("\"a b\\\"\"@example.com"), some("a b\"", "example.com"));
        assert_eq!(read("a\\@b@example.com"), some("a@b", "example.com"));
        assert_eq!(read("a@"), some("a", ""));
        for wrong in [
            "",
            "@example.com",
            ".a@example.com",
            "a..b@example.com",
            "a.@example.com",
            "a@example..com",
            "a@.com",
            "a@com.",
            "a",
            "a b@c",
            "\"a@b",
            "\\",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
