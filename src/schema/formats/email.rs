//! Addresses of electronic mail, as Go's `net/mail` reads one of them: an address alone, in angle brackets behind a name, or the only one of a group.

use super::address;

/// Whether a text is one address.
pub(super) fn is_email(text: &str) -> bool {
    let mut parser = Parser { rest: text };
    let found = parser.address(true);
    found == Some(1) && parser.skip_comments().is_some() && parser.rest.is_empty()
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    /// How many addresses there were.
    fn address(&mut self, may_be_group: bool) -> Option<usize> {
        self.skip_space();
        if self.rest.is_empty() {
            return None;
        }
        if self.plain().is_some() {
            self.skip_space();
            if self.rest.starts_with('(') {
                self.comment()?;
            }
            return Some(1);
        }
        if !self.rest.starts_with('<') {
            self.phrase()?;
        }
        self.skip_space();
        if may_be_group && self.take(':') {
            return self.group();
        }
        (self.take('<') && self.plain().is_some() && self.take('>')).then_some(1)
    }

    fn group(&mut self) -> Option<usize> {
        self.skip_space();
        let mut addresses = 0;
        if self.take(';') {
            self.skip_comments()?;
            return Some(0);
        }
        loop {
            self.skip_space();
            addresses += self.address(false)?;
            self.skip_comments()?;
            if self.take(';') {
                self.skip_comments()?;
                return Some(addresses);
            }
            if !self.take(',') {
                return None;
            }
        }
    }

    /// `local@domain`; nothing is taken of what is none.
    fn plain(&mut self) -> Option<()> {
        let before = self.rest;
        let found = self.local_and_domain();
        if found.is_none() {
            self.rest = before;
        }
        found
    }

    fn local_and_domain(&mut self) -> Option<()> {
        self.skip_space();
        if self.rest.starts_with('"') {
            self.quoted().filter(|length| *length > 0)?;
        } else {
            self.strict_atom()?;
        }
        if !self.take('@') {
            return None;
        }
        self.skip_space();
        if self.rest.starts_with('[') { self.literal() } else { self.strict_atom() }
    }

    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            if words > 0 {
                self.skip_comments()?;
            }
            self.skip_space();
            if self.rest.is_empty() {
                return Some(());
            }
            let word = if self.rest.starts_with('"') { self.quoted().map(|_| ()) } else { self.atom().map(|_| ()) };
            match word {
                Some(()) => words += 1,
                None if words == 0 => return None,
                None => return Some(()),
            }
        }
    }

    /// The characters of a text in quotes.
    fn quoted(&mut self) -> Option<usize> {
        let (mut length, mut is_escaped) = (0, false);
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if is_escaped => {
                    if !is_visible(c) && !is_space(c) {
                        return None;
                    }
                    is_escaped = false;
                    length += 1;
                }
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(length);
                }
                '\\' => is_escaped = true,
                _ if is_visible(c) || is_space(c) => length += 1,
                _ => return None,
            }
        }
        None
    }

    fn atom(&mut self) -> Option<&'t str> {
        let is_part = |c: char| is_visible(c) && !"()<>[]:;@\\,\"".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        if !atom.is_empty() {
            self.rest = rest;
        }
        Some(atom).filter(|atom| !atom.is_empty())
    }

    fn strict_atom(&mut self) -> Option<()> {
        let atom = self.atom()?;
        (!atom.starts_with('.') && !atom.ends_with('.') && !atom.contains("..")).then_some(())
    }

    /// `[192.0.2.1]`.
    fn literal(&mut self) -> Option<()> {
        let (address, rest) = self.rest[1..].split_once(']')?;
        let is_text = address.chars().all(|c| is_visible(c) && !"[\\".contains(c));
        self.rest = rest;
        (is_text && address::is_address(address)).then_some(())
    }

    fn take(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn skip_comments(&mut self) -> Option<()> {
        self.skip_space();
        while self.rest.starts_with('(') {
            self.comment()?;
            self.skip_space();
        }
        Some(())
    }

    /// What stands in brackets, which may stand in each other.
    fn comment(&mut self) -> Option<()> {
        let (mut depth, mut is_escaped) = (0_usize, false);
        for (at, c) in self.rest.char_indices() {
            match c {
                _ if is_escaped => is_escaped = false,
                // The last character escapes nothing.
                '\\' if at + 1 < self.rest.len() => is_escaped = true,
                '(' => depth += 1,
                ')' => {
                    depth -= 1;
                    if depth == 0 {
                        self.rest = &self.rest[at + 1..];
                        return Some(());
                    }
                }
                _ => {}
            }
        }
        None
    }
}

fn is_visible(c: char) -> bool {
    matches!(c, '!'..='~') || !c.is_ascii()
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t')
}
