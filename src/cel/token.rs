//! Tokens of an expression, after the grammar of cel-go 0.26.

/// A token and where it is, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) at: usize,
    pub(crate) end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Ident,
    /// A name in back quotes.
    Escaped,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    /// Of one or two characters, or a word that is no name.
    Op(&'static str),
    End,
}

/// Two characters stand before one that begins them.
const OPERATORS: [&str; 24] =
    ["==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*", "/", "%"];
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Returns the tokens of an expression; none if some part of it is no token.
pub(crate) fn tokens(source: &[char]) -> Option<Vec<Token>> {
    let (tokens, are_all) = scan(source);
    are_all.then_some(tokens)
}

/// Returns the tokens of an expression, and whether nothing of it was left out.
pub(crate) fn scan(source: &[char]) -> (Vec<Token>, bool) {
    let (mut tokens, mut are_all) = (Vec::new(), true);
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        let blank = blank(rest);
        if blank > 0 {
            at += blank;
            continue;
        }
        let Some((kind, length)) = token(rest) else {
            are_all = false;
            // A text that does not end is left out to the end of its line.
            at += if matches!(rest[0], '"' | '\'') { count(rest, |c| c != '\n') } else { 1 };
            continue;
        };
        tokens.push(Token { kind, at, end: at + length });
        at += length;
    }
    tokens.push(Token { kind: TokenKind::End, at, end: at });
    (tokens, are_all)
}

fn blank(rest: &[char]) -> usize {
    if rest.starts_with(&['/', '/']) {
        return count(rest, |c| c != '\n');
    }
    count(rest, |c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}'))
}

fn count(rest: &[char], is: impl Fn(char) -> bool) -> usize {
    rest.iter().take_while(|c| is(**c)).count()
}

fn token(rest: &[char]) -> Option<(TokenKind, usize)> {
    if let Some(length) = string(rest) {
        return Some((TokenKind::String, length));
    }
    if matches!(rest[0], 'b' | 'B')
        && let Some(length) = string(&rest[1..])
    {
        return Some((TokenKind::Bytes, length + 1));
    }
    if let Some(found) = number(rest) {
        return Some(found);
    }
    if rest[0] == '`' {
        let inside = count(&rest[1..], |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' '));
        return (inside > 0 && rest.get(inside + 1) == Some(&'`')).then_some((TokenKind::Escaped, inside + 2));
    }
    if rest[0].is_ascii_alphabetic() || rest[0] == '_' {
        let length = count(rest, |c| c.is_ascii_alphanumeric() || c == '_');
        let word = WORDS.iter().find(|word| is(&rest[..length], word) && word.len() == length);
        return Some((word.map_or(TokenKind::Ident, |word| TokenKind::Op(word)), length));
    }
    let operator = OPERATORS.iter().find(|operator| is(rest, operator))?;
    Some((TokenKind::Op(operator), operator.len()))
}

fn is(rest: &[char], text: &str) -> bool {
    rest.len() >= text.len() && text.chars().zip(rest).all(|(a, b)| a == *b)
}

fn number(rest: &[char]) -> Option<(TokenKind, usize)> {
    let digits = |rest: &[char]| count(rest, |c| c.is_ascii_digit());
    let whole = digits(rest);
    let hex = if is(rest, "0x") { count(&rest[2..], |c| c.is_ascii_hexdigit()) } else { 0 };
    if hex > 0 {
        return Some(integer(rest, hex + 2));
    }
    let fraction = if rest.get(whole) == Some(&'.') { digits(&rest[whole + 1..]) } else { 0 };
    let mantissa = if fraction > 0 { whole + 1 + fraction } else { whole };
    if mantissa == 0 {
        return None;
    }
    let exponent = exponent(&rest[mantissa..]);
    if fraction > 0 || exponent > 0 {
        return Some((TokenKind::Float, mantissa + exponent));
    }
    Some(integer(rest, whole))
}

fn integer(rest: &[char], length: usize) -> (TokenKind, usize) {
    if matches!(rest.get(length), Some('u' | 'U')) { (TokenKind::Uint, length + 1) } else { (TokenKind::Int, length) }
}

/// The length of `e+10`, if it is there.
fn exponent(rest: &[char]) -> usize {
    if !matches!(rest.first(), Some('e' | 'E')) {
        return 0;
    }
    let sign = usize::from(matches!(rest.get(1), Some('+' | '-')));
    match count(&rest[1 + sign..], |c| c.is_ascii_digit()) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

/// The length of a text in quotes, if there is one.
fn string(rest: &[char]) -> Option<usize> {
    let raw = usize::from(matches!(rest.first(), Some('r' | 'R')));
    let quote = *rest.get(raw).filter(|c| matches!(c, '"' | '\''))?;
    let body = &rest[raw..];
    if body.starts_with(&[quote; 3])
        && let Some(length) = closed(&body[3..], quote, 3, raw == 1)
    {
        return Some(raw + 3 + length);
    }
    closed(&body[1..], quote, 1, raw == 1).map(|length| raw + 1 + length)
}

/// The length up to the end of so many quotes.
fn closed(body: &[char], quote: char, quotes: usize, raw: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = body.get(at..).filter(|rest| !rest.is_empty())?;
        if count(rest, |c| c == quote).min(quotes) == quotes {
            return Some(at + quotes);
        }
        at += match rest[0] {
            '\\' if !raw => escape(rest)?,
            '\n' | '\r' if quotes == 1 => return None,
            _ => 1,
        };
    }
}

/// The length of an escape.
fn escape(rest: &[char]) -> Option<usize> {
    let digits = |from: usize, count: usize, is: fn(&char) -> bool| {
        rest.get(from..from + count).is_some_and(|digits| digits.iter().all(is)).then_some(from + count)
    };
    match rest.get(1)? {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Some(2),
        '0'..='3' => digits(2, 2, |c| matches!(c, '0'..='7')),
        'x' | 'X' => digits(2, 2, char::is_ascii_hexdigit),
        'u' => digits(2, 4, char::is_ascii_hexdigit),
        'U' => digits(2, 8, char::is_ascii_hexdigit),
        _ => None,
    }
}

/// Why a text in quotes is none.
pub(crate) type Wrong = &'static str;

const UNABLE: Wrong = "unable to unescape string";
const NO_CODE_POINT: Wrong = "invalid unicode code point";

/// Returns what stands in quotes, which the token has shown to be well formed.
pub(crate) fn unescape(token: &[char], as_bytes: bool) -> Result<Vec<u8>, Wrong> {
    let raw = matches!(token.first(), Some('r' | 'R'));
    let body = if raw { &token[1..] } else { token };
    let quotes = if body.len() >= 6 && body[..3].iter().all(|c| *c == body[0]) { 3 } else { 1 };
    let body = body.get(quotes..body.len() - quotes).ok_or(UNABLE)?;
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    while let Some(next) = body.get(at) {
        match next {
            '\\' if !raw => at += unescaped(&body[at..], as_bytes, &mut out)?,
            '\r' => {
                at += if body.get(at + 1) == Some(&'\n') { 2 } else { 1 };
                out.push(b'\n');
            }
            other => {
                at += 1;
                push(*other, &mut out);
            }
        }
    }
    Ok(out)
}

fn push(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Appends what an escape stands for, and returns its length.
fn unescaped(rest: &[char], as_bytes: bool, out: &mut Vec<u8>) -> Result<usize, Wrong> {
    let length = escape(rest).ok_or(UNABLE)?;
    let plain = match rest[1] {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        'u' | 'U' if as_bytes => return Err(UNABLE),
        '0'..='3' => return coded(&rest[1..length], 8, as_bytes, out).map(|()| length),
        'x' | 'X' | 'u' | 'U' => return coded(&rest[2..length], 16, as_bytes, out).map(|()| length),
        other => u8::try_from(other).map_err(|_| UNABLE)?,
    };
    out.push(plain);
    Ok(length)
}

fn coded(digits: &[char], radix: u32, as_bytes: bool, out: &mut Vec<u8>) -> Result<(), Wrong> {
    let value = digits.iter().fold(0_u32, |value, digit| value.wrapping_mul(radix).wrapping_add(digit.to_digit(radix).unwrap_or(0)));
    if as_bytes {
        out.push(u8::try_from(value).map_err(|_| UNABLE)?);
        return Ok(());
    }
    push(char::from_u32(value).ok_or(NO_CODE_POINT)?, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Option<Vec<(TokenKind, String)>> {
        let source: Vec<char> = source.chars().collect();
        let tokens = tokens(&source)?;
        Some(tokens.iter().map(|token| (token.kind, source[token.at..token.end].iter().collect())).collect())
    }

    #[test]
    fn the_longest_token_is_taken() {
        for (source, expected) in [
            ("1.e", "1|.|e|"),
            ("1.5e-3u", "1.5e-3|u|"),
            ("0x", "0|x|"),
            ("0xFFu", "0xFFu|"),
            (".5+a.b", ".5|+|a|.|b|"),
            ("r'\\' b\"x\" rb", "r'\\'|b\"x\"|rb|"),
            ("'''a'b''' \"\"", "'''a'b'''|\"\"|"),
            ("a // b\n<= in", "a|<=|in|"),
        ] {
            let found: Vec<_> = kinds(source).expect(source).into_iter().map(|(_, text)| text).collect();
            assert_eq!(found.join("|"), expected, "{source}");
        }
        for wrong in ["'a", "\"\\z\"", "a # b", "'a\nb'", "\"\"\"a\"\"", "`", "&"] {
            assert_eq!(kinds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn escapes_stand_for_characters_or_bytes() {
        let read = |source: &str, as_bytes| unescape(&source.chars().collect::<Vec<_>>(), as_bytes);
        assert_eq!(read(r"'\xff\303\u00e9\n'", false), Ok("ÿÃé\n".as_bytes().to_vec()));
        assert_eq!(read(r"'\xff\303é'", true), Ok(vec![0xff, 0xc3, 0xc3, 0xa9]));
        assert_eq!(read("'''a\r\nb'''", false), Ok(b"a\nb".to_vec()));
        assert_eq!(read(r"r'\n'", false), Ok(br"\n".to_vec()));
        assert_eq!((read(r"'\ud800'", false), read(r"'\u0041'", true)), (Err(NO_CODE_POINT), Err(UNABLE)));
    }
}
