//! URLs as Go's `net/url` takes them apart: as much of it as definitions and requests need, with its words for what is wrong.

mod escape;
mod host;
mod query;

pub use escape::{escaped_fragment, escaped_host, escaped_path, escaped_user};
pub use host::decoded_host;
pub use query::Query;

use crate::quote::quoted;
use escape::checked;

/// The parts of a URL that are looked at, as they were written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Url<'t> {
    /// In lower case.
    pub scheme: String,
    /// What stands before the `@`.
    pub user: Option<&'t str>,
    /// With its port.
    pub host: &'t str,
    /// What follows a scheme without a `/`.
    pub opaque: &'t str,
    /// Escapes included.
    pub path: &'t str,
    /// After the `?`.
    pub query: &'t str,
    /// Whether there is a `?` without a query.
    pub asks_nothing: bool,
    /// Whether there is a `//` before the host, which may be empty.
    pub has_authority: bool,
    /// After the `#`.
    pub fragment: &'t str,
}

/// `url.Parse`.
pub fn parse(text: &str) -> Result<Url<'_>, String> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let wrong = |why: String| format!("parse {}: {why}", quoted(rest));
    let url = without_fragment(rest, false).map_err(wrong)?;
    checked(fragment).map_err(|why| format!("parse {}: {why}", quoted(text)))?;
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
        return Ok(Url { path: text, ..Url::default() });
    }
    let (scheme, rest) = scheme(text)?;
    let asks_nothing = rest.find('?').is_some_and(|at| at + 1 == rest.len());
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let url = Url { scheme: scheme.to_lowercase(), path: rest, query, asks_nothing, ..Url::default() };
    if !rest.starts_with('/') {
        return match (scheme.is_empty(), request) {
            (false, _) => Ok(Url { opaque: rest, path: "", ..url }),
            (true, true) => Err("invalid URI for request".to_owned()),
            (true, false) if rest.split('/').next().is_some_and(|segment| segment.contains(':')) => {
                Err("first path segment in URL cannot contain colon".to_owned())
            }
            (true, false) => checked(rest).map(|()| url),
        };
    }
    let authority = rest.strip_prefix("//").filter(|_| !scheme.is_empty() || (!request && !rest.starts_with("///")));
    let Some(authority) = authority else { return checked(rest).map(|()| url) };
    let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    decoded_host(host, &url.scheme)?;
    let odd = |c: char| !c.is_ascii_alphanumeric() && !"-._:~!$&'()*+,;=%@".contains(c);
    if user.is_some_and(|user| user.contains(odd)) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    checked(user.unwrap_or_default())?;
    checked(path)?;
    Ok(Url { user, host, path, has_authority: true, ..url })
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

#[cfg(test)]
mod tests {
    use super::{Url, parse, parse_request};

    #[test]
    fn parts() {
        let url = |scheme: &str, host, path| Url { scheme: scheme.to_owned(), host, path, has_authority: true, ..Url::default() };
        assert_eq!(parse("HTTPS://a.b:1/c?d=e#f"), Ok(Url { query: "d=e", fragment: "f", ..url("https", "a.b:1", "/c") }));
        assert_eq!(parse("http://u:p@/x?"), Ok(Url { user: Some("u:p"), asks_nothing: true, ..url("http", "", "/x") }));
        assert_eq!(parse("a:b"), Ok(Url { scheme: "a".to_owned(), opaque: "b", ..Url::default() }));
        assert_eq!(parse("/x"), Ok(Url { path: "/x", ..Url::default() }));
        assert_eq!(parse_request("*"), Ok(Url { path: "*", ..Url::default() }));
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
            ("https://a%41/", r#"parse "https://a%41/": invalid URL escape "%41""#),
            ("https://a[::1]", r#"parse "https://a[::1]": invalid IP-literal"#),
            ("https://[1.2.3.4]", r#"parse "https://[1.2.3.4]": invalid IP-literal"#),
            (
                "https://[::x]",
                r#"parse "https://[::x]": invalid host: ParseAddr("::x"): each colon-separated field must have at least one digit (at "x")"#,
            ),
            ("https://\u{e9}@h", "parse \"https://\u{e9}@h\": net/url: invalid userinfo"),
            ("/a#%z", r#"parse "/a#%z": invalid URL escape "%z""#),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()));
        }
    }
}
