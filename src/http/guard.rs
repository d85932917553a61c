//! The plain listener's checks: it has no authentication, so no web page may reach it through somebody's browser (design §3 "Safety of the listeners").

use http::header::{HOST, ORIGIN};
use http::uri::{Authority, Uri};
use http::{HeaderMap, HeaderName};

use super::status::Status;
use go::quote::quoted;

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Lets a request of the plain listener pass, or says why not.
///
/// # Errors
/// 403: `Host` is not this machine's loopback by name (DNS rebinding; `kubectl proxy` has the same rule), `Origin` is not the server itself, or a browser says
/// that another site started it.
pub fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), Status> {
    let host = host(uri, headers)?;
    if !is_local(&host) {
        return Err(Status::forbidden(format!(
            "the Host header must be localhost, 127.0.0.1 or [::1] on this port, not {}",
            quoted(host.as_str())
        )));
    }
    for origin in headers.get_all(ORIGIN) {
        if !is_own_origin(origin.as_bytes(), &host) {
            return Err(Status::forbidden("requests that a page of another origin makes are refused on this port"));
        }
    }
    if headers.get_all(&SEC_FETCH_SITE).iter().any(|site| site.as_bytes().eq_ignore_ascii_case(b"cross-site")) {
        return Err(Status::forbidden("requests that another site makes are refused on this port"));
    }
    Ok(())
}

/// The one host that the request names: `:authority` or an absolute URI, `Host`, and both the same if there are both.
fn host(uri: &Uri, headers: &HeaderMap) -> Result<Authority, Status> {
    let mut named = headers.get_all(HOST).iter().map(|value| Authority::try_from(value.as_bytes()).ok());
    let header = match (named.next(), named.next()) {
        (None, _) => None,
        (Some(Some(host)), None) => Some(host),
        _ => return Err(Status::forbidden("the Host header cannot be read")),
    };
    match (uri.authority(), header) {
        (Some(a), Some(b)) if *a != b => Err(Status::forbidden("the Host header and the request's URI name different hosts")),
        (Some(host), _) => Ok(host.clone()),
        (None, Some(host)) => Ok(host),
        (None, None) => Err(Status::forbidden("the Host header is missing")),
    }
}

fn is_local(authority: &Authority) -> bool {
    let text = authority.as_str();
    let (host, port) = match text.rfind(':') {
        Some(colon) if !text.ends_with(']') => (&text[..colon], Some(&text[colon + 1..])),
        _ => (text, None),
    };
    let port_fits = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    port_fits && (host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]")
}

/// `http://` and the very host and port of the request.
fn is_own_origin(origin: &[u8], host: &Authority) -> bool {
    origin.strip_prefix(b"http://").is_some_and(|rest| rest.eq_ignore_ascii_case(host.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn request(uri: &str, headers: &[(HeaderName, &str)]) -> Result<(), Status> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).expect("a header value")));
        let mut map = HeaderMap::new();
        headers.for_each(|(name, value)| {
            map.append(name, value);
        });
        check(&uri.parse().expect("a URI"), &map)
    }

    #[test]
    fn loopback_names_pass() {
        for host in ["localhost", "LocalHost:8001", "127.0.0.1", "127.0.0.1:8001", "[::1]", "[::1]:8001"] {
            assert_eq!(request("/api", &[(HOST, host)]), Ok(()), "{host}");
            assert_eq!(request(&format!("http://{host}/api"), &[]), Ok(()), "{host}");
        }
    }

    #[test]
    fn other_names_and_none_are_refused() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "127.0.0.2",
            "localhost:",
            "localhost:80a",
            "u@localhost",
            "[::2]",
            "::1",
            "",
            "a b",
        ] {
            assert_eq!(request("/api", &[(HOST, host)]).expect_err(host).code, 403);
        }
        assert!(request("/api", &[]).is_err());
        assert!(request("/api", &[(HOST, "localhost"), (HOST, "localhost")]).is_err());
        assert!(request("http://evil.example/", &[(HOST, "localhost")]).is_err());
        assert!(request("http://localhost/", &[(HOST, "evil.example")]).is_err());
    }

    #[test]
    fn pages_of_others_are_refused() {
        let with = |name: HeaderName, value: &str| request("/api", &[(HOST, "localhost:8001"), (name, value)]);
        assert_eq!(with(ORIGIN, "http://localhost:8001"), Ok(()));
        for origin in
            ["http://evil.example", "null", "http://localhost:3000", "https://localhost:8001", "", "http://localhost:8001.evil.example"]
        {
            assert!(with(ORIGIN, origin).is_err(), "{origin}");
        }
        let fetch = HeaderName::from_static("sec-fetch-site");
        assert!(with(fetch.clone(), "cross-site").is_err());
        for fine in ["none", "same-origin"] {
            assert_eq!(with(fetch.clone(), fine), Ok(()));
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_only_loopback_passes(host in "[a-z0-9.:\\[\\]@%-]{0,20}|localhost[:0-9a-z.]{0,8}") {
            if request("/api", &[(HOST, &host)]).is_ok() {
                let lower = host.to_ascii_lowercase();
                let local = |name: &&str| {
                    let rest = lower.strip_prefix(*name);
                    rest.is_some_and(|rest| rest.strip_prefix(':').unwrap_or(rest).bytes().all(|b| b.is_ascii_digit()))
                };
                prop_assert!(["localhost", "127.0.0.1", "[::1]"].iter().any(local), "{host} passed");
            }
        }
    }
}
