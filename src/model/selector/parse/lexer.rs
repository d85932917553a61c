//! Cuts a label selector into tokens (spec list-watch §7.1).

/// What a piece of a label selector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Word,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

/// A piece of the text and what it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
}

/// The end of the input, which messages print as nothing.
pub(super) const END: Token<'static> = Token { kind: Kind::End, text: "" };

/// Every token before the end.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { text, at: 0 };
    std::iter::from_fn(|| lexer.next()).collect()
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// The next token. A NUL where a token would start is the end.
    fn next(&mut self) -> Option<Token<'a>> {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
        match self.peek() {
            None | Some(0) => None,
            Some(byte) if is_special(byte) => Some(self.special()),
            Some(_) => Some(self.word()),
        }
    }

    /// The longest operator that starts here.
    fn special(&mut self) -> Token<'a> {
        let rest = &self.text[self.at..];
        let (kind, length) = match rest.as_bytes() {
            [b'=', b'=', ..] => (Kind::DoubleEquals, 2),
            [b'!', b'=', ..] => (Kind::NotEquals, 2),
            [b'=', ..] => (Kind::Equals, 1),
            [b'!', ..] => (Kind::Not, 1),
            [b'(', ..] => (Kind::Open, 1),
            [b')', ..] => (Kind::Close, 1),
            [b',', ..] => (Kind::Comma, 1),
            [b'>', ..] => (Kind::Greater, 1),
            _ => (Kind::Less, 1),
        };
        self.at += length;
        self.swallow_nul();
        Token { kind, text: &rest[..length] }
    }

    fn word(&mut self) -> Token<'a> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().position(|b| b == 0 || is_space(b) || is_special(b)).unwrap_or(rest.len());
        self.at += length;
        self.swallow_nul();
        let text = &rest[..length];
        let kind = match text {
            "in" => Kind::In,
            "notin" => Kind::NotIn,
            _ => Kind::Word,
        };
        Token { kind, text }
    }

    /// The original reads NUL as "no more bytes" while it looks for the end of a token, and then goes on behind it: `a\0b` is two words.
    fn swallow_nul(&mut self) {
        if self.peek() == Some(0) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn cuts() {
        let cases: [(&str, &[&str]); 7] = [
            ("a in (b,c)", &["a", "in", "(", "b", ",", "c", ")"]),
            ("a===b", &["a", "==", "=", "b"]),
            ("!!=!", &["!", "!=", "!"]),
            (" \t\r\na ", &["a"]),
            ("a\0b", &["a", "b"]),
            ("a \0b", &["a"]),
            ("=\0b", &["=", "b"]),
        ];
        for (text, want) in cases {
            assert_eq!(tokens(text).iter().map(|t| t.text).collect::<Vec<_>>(), want, "{text:?}");
        }
    }
}
