//! The URL of a server, as client-go understands it.

use std::borrow::Cow;

use go::url;
use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What Go writes as it is in the path of a URL.
const PATH: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// `http(s)://host[:port][/path]`, without a slash at its end.
    pub(super) url: String,
    pub(super) is_https: bool,
    /// The name and the password in the URL.
    pub(super) user: Option<(String, String)>,
}

impl Server {
    /// Reads what stands there. Without a scheme it is `http`, and has no path: client-go looks at authorities and certificates
    /// only when the URL says `https`.
    pub(super) fn read(text: &str) -> Result<Server, String> {
        let is_whole = url::parse(text).is_ok_and(|url| !url.scheme.is_empty() && !url.host.is_empty());
        let whole = if is_whole { Cow::Borrowed(text) } else { Cow::Owned(format!("http://{text}")) };
        let url = url::parse(&whole)?;
        if !matches!(url.scheme.as_str(), "http" | "https") {
            return Err("the scheme must be http or https".to_owned());
        }
        if url.host.is_empty() || url.host.starts_with(':') {
            return Err("it has no host".to_owned());
        }
        let path = if has_path(text) { path(&whole, &['?']) } else { path(&whole, &['?', '#']) };
        if !is_whole && !matches!(path, "" | "/") {
            return Err("host must be a URL or a host:port pair".to_owned());
        }
        let path = percent_decode_str(path).decode_utf8().map_err(|error| error.to_string())?;
        let path = clean(&path);
        let path = utf8_percent_encode(if path == "/" { "" } else { &path }, &PATH);
        let server = format!("{}://{}{path}", url.scheme, url.host);
        let uri: Uri = server.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        if uri.host().is_none() {
            return Err("it has no host".to_owned());
        }
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = url.user.map(|user| user.split_once(':').unwrap_or((user, ""))).map(|(name, word)| (decoded(name), decoded(word)));
        Ok(Server { url: server, is_https: url.scheme == "https", user })
    }
}

/// Whether client-go reads it as the URL of a request, in whose path a `#` is nothing special.
fn has_path(server: &str) -> bool {
    url::parse_request(server).is_ok() && path(server, &['?']).len() > 1
}

/// The URL as a credential plugin is told it: without query, where it has a path.
pub(super) fn without_query(server: &str) -> String {
    let end = server.find('?').filter(|_| has_path(server)).unwrap_or(server.len());
    if has_path(server) { server[..end].replace('#', "%23") } else { server.to_owned() }
}

/// The path of a URL with a scheme, as it stands there before one of these.
fn path<'t>(whole: &'t str, ends: &[char]) -> &'t str {
    let end = whole.find(ends).unwrap_or(whole.len());
    let rest = whole[..end].split_once("://").map_or("", |(_, rest)| rest);
    rest.find('/').map_or("", |slash| &rest[slash..])
}

/// Go's `path.Clean` of a rooted path.
fn clean(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_read_as_client_go_reads_it() {
        let url = |text: &str| Server::read(text).map(|server| server.url);
        for (text, wanted) in [
            ("https://h:6443", "https://h:6443"),
            ("HTTPS://h/", "https://h"),
            ("https://h/a/b/", "https://h/a/b"),
            ("https://h//a/../b?x=1#y", "https://h/b"),
            ("https://h/a#b", "https://h/a%23b"),
            ("https://h#b", "https://h"),
            ("https://h/a%2Fb%20c", "https://h/a/b%20c"),
            ("localhost:8443", "http://localhost:8443"),
            ("10.0.0.1:6443", "http://10.0.0.1:6443"),
            ("h", "http://h"),
            ("[::1]:6443/", "http://[::1]:6443"),
            ("https://u:p%20w@h:1", "https://h:1"),
        ] {
            assert_eq!(url(text).as_deref(), Ok(wanted), "{text}");
        }
        assert_eq!(Server::read("https://u:p%20w@h:1").expect("good").user, Some(("u".to_owned(), "p w".to_owned())));
        for wrong in ["", "ftp://h", "https://", "https:///x", "h/x", "https://h:x", "https://h:1:2", "/x", "https://a b", "https://:6443"]
        {
            assert!(url(wrong).is_err(), "{wrong}: {:?}", url(wrong));
        }
    }

    #[test]
    fn a_plugin_is_told_the_server_without_its_query() {
        assert_eq!(without_query("https://h/a#b?c#d"), "https://h/a%23b");
        assert_eq!(without_query("https://h?b"), "https://h?b");
        assert_eq!(without_query("h:1"), "h:1");
    }
}
