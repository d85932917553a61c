//! Tokens of the CEL text of a shard selector.

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    /// As it stands in the text; nothing at the end.
    pub(super) text: &'a str,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ident,
    Int,
    Uint,
    Float,
    Text,
    Bytes,
    /// An operator or a bracket.
    Sign,
    /// No token: from where one began to where it went wrong.
    Bad,
    End,
}

/// Cuts the first token off; what remains is the second part.
pub(super) fn next(text: &str) -> (Token<'_>, &str) {
    let text = without_blanks(text);
    let Some(first) = text.chars().next() else { return (Token { kind: Kind::End, text }, text) };
    let (kind, len) = match first {
        'A'..='Z' | 'a'..='z' | '_' => word_or_text(text),
        '0'..='9' => number(text),
        '.' if text[1..].starts_with(|c: char| c.is_ascii_digit()) => number(text),
        '"' | '\'' => string(text, 0),
        _ => sign(text, first),
    };
    let (token, rest) = text.split_at(len);
    (Token { kind, text: token }, rest)
}

fn without_blanks(text: &str) -> &str {
    let mut text = text;
    loop {
        text = text.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']);
        match text.strip_prefix("//") {
            Some(comment) => text = comment.find('\n').map_or("", |end| &comment[end..]),
            None => return text,
        }
    }
}

fn sign(text: &str, first: char) -> (Kind, usize) {
    if ["||", "&&", "==", "!=", "<=", ">="].iter().any(|sign| text.starts_with(sign)) {
        return (Kind::Sign, 2);
    }
    match first {
        '(' | ')' | '[' | ']' | '{' | '}' | ',' | '.' | ':' | '?' | '!' | '-' | '+' | '*' | '/' | '%' | '<' | '>' => (Kind::Sign, 1),
        // The first half of an operator: what stands instead of the second half is in the message.
        '|' | '&' | '=' => (Kind::Bad, text.chars().take(2).map(char::len_utf8).sum()),
        other => (Kind::Bad, other.len_utf8()),
    }
}

fn word_or_text(text: &str) -> (Kind, usize) {
    // A prefix has two letters at most.
    let quote = text.bytes().take(3).position(|byte| matches!(byte, b'"' | b'\'')).unwrap_or(text.len());
    match &text[..quote] {
        _ if quote == text.len() => {}
        "r" | "R" => return string(text, 1),
        "b" | "B" | "br" | "bR" | "Br" | "BR" => {
            let (kind, len) = string(text, quote);
            return (if kind == Kind::Text { Kind::Bytes } else { kind }, len);
        }
        _ => {}
    }
    (Kind::Ident, text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len()))
}

fn number(text: &str) -> (Kind, usize) {
    let digits = |at: usize| text[at..].bytes().take_while(u8::is_ascii_digit).count();
    let unsigned = |end: usize| if text[end..].starts_with(['u', 'U']) { (Kind::Uint, end + 1) } else { (Kind::Int, end) };
    let hex = text.strip_prefix("0x").map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_hexdigit).count());
    if hex > 0 {
        return unsigned(2 + hex);
    }
    let (mut end, mut float) = (digits(0), false);
    if text[end..].starts_with('.') && digits(end + 1) > 0 {
        (end, float) = (end + 1 + digits(end + 1), true);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            (end, float) = (end + 1 + sign + exponent, true);
        }
    }
    if float { (Kind::Float, end) } else { unsigned(end) }
}

/// A string whose quote stands at `at`, after its prefix.
fn string(text: &str, at: usize) -> (Kind, usize) {
    let raw = text[..at].contains(['r', 'R']);
    let quote = &text[at..=at];
    let triple = text[at..].starts_with(&quote.repeat(3));
    let fence = if triple { quote.repeat(3) } else { quote.to_owned() };
    let mut end = at + fence.len();
    loop {
        let rest = &text[end..];
        if rest.starts_with(&fence) {
            return (Kind::Text, end + fence.len());
        }
        let Some(c) = rest.chars().next() else { return (Kind::Bad, end) };
        if c == '\\' && !raw {
            match escape(&rest[1..]) {
                Ok((_, len)) => end += 1 + len,
                Err(len) => return (Kind::Bad, end + 1 + len),
            }
        } else if !triple && matches!(c, '\n' | '\r') {
            return (Kind::Bad, end + 1);
        } else {
            end += c.len_utf8();
        }
    }
}

/// What stands after a backslash: the character and its length in the text, or the length up to where it goes wrong.
fn escape(text: &str) -> Result<(char, usize), usize> {
    let Some(first) = text.chars().next() else { return Err(0) };
    let plain = match first {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '"' | '\'' | '\\' | '?' | '`' => first,
        'x' | 'X' => return coded(text, 1, 2, 16),
        'u' => return coded(text, 1, 4, 16),
        'U' => return coded(text, 1, 8, 16),
        '0'..='3' => return coded(text, 0, 3, 8),
        other => return Err(other.len_utf8()),
    };
    Ok((plain, 1))
}

fn coded(text: &str, at: usize, digits: usize, radix: u32) -> Result<(char, usize), usize> {
    let good = text[at..].chars().take(digits).take_while(|c| c.is_digit(radix)).count();
    let end = at + good;
    if good < digits {
        return Err(end + text[end..].chars().next().map_or(0, char::len_utf8));
    }
    // A surrogate or a number past the last character is no shard bound, whatever it is.
    let code = u32::from_str_radix(&text[at..end], radix).ok().and_then(char::from_u32);
    Ok((code.unwrap_or(char::REPLACEMENT_CHARACTER), end))
}

/// The value of a token of kind `Text`.
pub(super) fn value(token: &str) -> String {
    let raw = token.starts_with(['r', 'R']);
    let quoted = if raw { &token[1..] } else { token };
    let fence = if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) { 3 } else { 1 };
    let mut rest = &quoted[fence..quoted.len() - fence];
    let mut out = String::with_capacity(rest.len());
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match escape(rest) {
            Ok((meant, len)) if c == '\\' && !raw => {
                out.push(meant);
                rest = &rest[len..];
            }
            _ => out.push(c),
        }
    }
    out
}
