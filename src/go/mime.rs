//! Media types as Go's `mime` reads them.

use std::collections::HashMap;

/// `mime.ParseMediaType`, without what the parameters say: the media type in lower case; none when it or a parameter is none.
#[must_use]
pub fn media_type(header: &str) -> Option<String> {
    let (name, mut rest) = header.split_at(header.find(';').unwrap_or(header.len()));
    let name: String = name.chars().filter_map(|c| c.to_lowercase().next()).collect();
    let name = name.trim();
    let is_media = match name.split_once('/') {
        Some((kind, subkind)) => is_token(kind) && is_token(subkind),
        None => is_token(name),
    };
    if !is_media {
        return None;
    }
    let mut seen = HashMap::new();
    loop {
        rest = rest.trim_start();
        // A semicolon at the end is none too many.
        if rest.is_empty() || rest.trim_end() == ";" {
            return Some(name.to_owned());
        }
        let (key, value, after) = parameter(rest)?;
        if seen.insert(key, value.clone()).is_some_and(|earlier| earlier != value) {
            return None;
        }
        rest = after;
    }
}

/// The parameter that a text begins with, its name in lower case, and what follows it.
fn parameter(text: &str) -> Option<(String, String, &str)> {
    let (name, rest) = token(text.strip_prefix(';')?.trim_start())?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let (value, rest) = match rest.strip_prefix('"') {
        Some(rest) => until_quote(rest)?,
        None => token(rest).map(|(value, rest)| (value.to_owned(), rest))?,
    };
    Some((name.to_ascii_lowercase(), value, rest))
}

/// What stands before the next quote, and what after it. A backslash counts only before what may not stand in a token.
fn until_quote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\r' | '\n' => return None,
            '\\' => {
                let escaped = rest.next_if(|(_, next)| SPECIAL.contains(*next));
                value.push(escaped.map_or('\\', |(_, escaped)| escaped));
            }
            _ => value.push(c),
        }
    }
    None
}

/// RFC 1521's `tspecials`.
const SPECIAL: &str = "()<>@,;:\\\"/[]?=";

fn token(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !is_in_token(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_in_token)
}

fn is_in_token(c: char) -> bool {
    c.is_ascii_graphic() && !SPECIAL.contains(c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn types_and_parameters() {
        for (header, expected) in [
            ("application/json", Some("application/json")),
            (" Application/JSON ", Some("application/json")),
            ("json", Some("json")),
            ("", None),
            ("a/", None),
            ("/a", None),
            ("a/b/c", None),
            ("a / b", None),
            ("a/b;", Some("a/b")),
            ("a/b; ; ", None),
            ("a/b;;", None),
            ("a/b;c", None),
            ("a/b;c=", None),
            ("a/b; c=\"\"", Some("a/b")),
            ("a/b; c = d ; e=\"f;\\\"g\" ;", Some("a/b")),
            ("a/b; c=\"d", None),
            ("a/b; c=\"\\d\"; C=\"\\\\d\"", Some("a/b")),
            ("a/b;c=d;C=d", Some("a/b")),
            ("a/b;c=d;c=e", None),
            ("a/b;c=d e", None),
            ("a/b, c/d", None),
            ("\u{212a}/\u{130}", Some("k/i")),
            ("a/b;c=\u{e9}", None),
            ("a/b;c=\"\u{e9}\"", Some("a/b")),
        ] {
            assert_eq!(media_type(header).as_deref(), expected, "{header:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_read_again(header in "[a-zA-Z/;=\" \\\\é,*']{0,30}") {
            if let Some(found) = media_type(&header) {
                prop_assert_eq!(media_type(&found), Some(found.clone()));
            }
        }
    }
}
