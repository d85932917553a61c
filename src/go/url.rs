//! URLs as Go's `net/url` takes them apart: as much of it as definitions and requests need, with its words for what is wrong.

mod query;

pub use query::Query;

use crate::quote::quoted;

/// The parts of a URL that are looked at, as they were written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Url<'t> {
    /// In lower case.
    pub scheme: String,
    /// What stands before the `@`.
    pub user: Option<&'t str>,
    /// With its port.
    pub host: &'t str,
    /// After the `?`.
    pub query: &'t str,
    /// After the `#`.
    pub fragment: &'t str,
}

/// `url.Parse`.
pub fn parse(text: &str) -> Result<Url<'_>, String> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let wrong = |why: String| format!("parse {}: {why}", quoted(rest));
    let url = without_fragment(rest, false).map_err(wrong)?;
    Ok(Url { fragment, ..url })
}

/// `url.ParseRequestURI`: an absolute URL or a rooted path, without a fragment.
pub fn parse_request(text: &str) -> Result<Url<'_>, String> {
    without_fragment(text, true)
}

fn without_fragment(text: &str, request: bool) -> Result<Url<'_>, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        return Ok(Url::default());
    }
    let (scheme, rest) = scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let url = Url { scheme: scheme.to_lowercase(), query, ..Url::default() };
    if !rest.starts_with('/') {
        return match (scheme.is_empty(), request) {
            (false, _) => Ok(url),
            (true, true) => Err("invalid URI for request".to_owned()),
            (true, false) if rest.split('/').next().is_some_and(|segment| segment.contains(':')) => {
                Err("first path segment in URL cannot contain colon".to_owned())
            }
            (true, false) => escapes(rest).map(|()| url),
        };
    }
    let authority = rest.strip_prefix("//").filter(|_| !scheme.is_empty() || (!request && !rest.starts_with("///")));
    let Some(authority) = authority else { return escapes(rest).map(|()| url) };
    let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    checked_host(host)?;
    let odd = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-._:~!$&'()*+,;=%@".contains(c);
    if user.is_some_and(|user| user.contains(odd)) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    escapes(user.unwrap_or_default())?;
    escapes(path)?;
    Ok(Url { user, host, ..url })
}

/// The scheme and what follows its colon.
fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..i], &text[i + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn checked_host(host: &str) -> Result<(), String> {
    let after = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        host.find(':').map_or("", |colon| &host[colon..])
    };
    if !after.is_empty() && !after.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(format!("invalid port {} after host", quoted(after)));
    }
    let odd = host.chars().find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(*c));
    if let Some(odd) = odd {
        return Err(format!("invalid character {} in host name", quoted(&odd.to_string())));
    }
    escapes(host)
}

/// Every `%` has two hexadecimal digits behind it.
fn escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let after = text.as_bytes().get(at + 1..at + 3);
        if !after.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let shown: String = text[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quoted(&shown)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Url, parse, parse_request};

    #[test]
    fn parts() {
        let url = |scheme: &str, user, host, query, fragment| Url { scheme: scheme.to_owned(), user, host, query, fragment };
        assert_eq!(parse("HTTPS://a.b:1/c?d=e#f"), Ok(url("https", None, "a.b:1", "d=e", "f")));
        assert_eq!(parse("http://u:p@/x"), Ok(url("http", Some("u:p"), "", "", "")));
        assert_eq!(parse("a:b"), Ok(url("a", None, "", "", "")));
        assert_eq!(parse("/x"), Ok(Url::default()));
        assert_eq!(parse_request("*"), Ok(Url::default()));
        assert_eq!(parse_request("yes"), Err("invalid URI for request".to_owned()));
    }

    /// Messages of Go 1.26's `net/url`.
    #[test]
    fn what_is_wrong() {
        for (text, why) in [
            ("https://a b", r#"parse "https://a b": invalid character " " in host name"#),
            ("https://a\u{7f}", r#"parse "https://a\x7f": net/url: invalid control character in URL"#),
            ("https://[::1", r#"parse "https://[::1": missing ']' in host"#),
            ("https://u b@h/", r#"parse "https://u b@h/": net/url: invalid userinfo"#),
            (":x", r#"parse ":x": missing protocol scheme"#),
            ("1:x", r#"parse "1:x": first path segment in URL cannot contain colon"#),
            ("https://a:b/", r#"parse "https://a:b/": invalid port ":b" after host"#),
            ("https://a/%zz", r#"parse "https://a/%zz": invalid URL escape "%zz""#),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()));
        }
    }
}
