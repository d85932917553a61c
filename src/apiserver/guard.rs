//! The plain listener's checks: it has no authentication, so no web page may reach it through somebody's browser.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::uri::{Authority, Uri};
use http::{HeaderMap, HeaderName};

use super::settings::Callers;
use super::status::Status;
use go::quote::quoted;

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Lets a request of the plain listener pass, or says why not. `is_socket`: it asks for a WebSocket.
///
/// # Errors
/// 403: `Host` is not this machine's loopback by name (DNS rebinding; `kubectl proxy` has the same rule) nor another name that was given, `Origin` is neither
/// the server itself nor allowed, a browser says that another site started it, or a WebSocket has no `Origin`.
pub fn check(callers: &Callers, uri: &Uri, headers: &HeaderMap, is_socket: bool) -> Result<(), Status> {
    let host = host(uri, headers)?;
    if !is_local(&host) && !is_given(callers, &host) {
        return Err(Status::forbidden(format!(
            "the Host header must be localhost, 127.0.0.1 or [::1] on this port, or a name of --insecure-hosts, not {}",
            quoted(host.as_str())
        )));
    }
    let mut origins = headers.get_all(ORIGIN).iter().peekable();
    if is_socket && origins.peek().is_none() {
        return Err(Status::forbidden(format!(
            "a WebSocket on this port needs the header Origin: http://{host}, or one that --cors-allowed-origins allows"
        )));
    }
    let mut is_allowed = false;
    for origin in origins {
        let origin = origin.as_bytes();
        is_allowed = callers.origins.as_ref().is_some_and(|origins| origins.allow(origin));
        if !is_allowed && !is_own_origin(origin, &host) {
            return Err(Status::forbidden(format!(
                "requests that a page of another origin makes are refused on this port: {} is neither http://{host} nor allowed by --cors-allowed-origins",
                quoted(&String::from_utf8_lossy(origin))
            )));
        }
    }
    if !is_allowed && headers.get_all(&SEC_FETCH_SITE).iter().any(|site| site.as_bytes().eq_ignore_ascii_case(b"cross-site")) {
        return Err(Status::forbidden("requests that another site makes are refused on this port"));
    }
    Ok(())
}

/// Whether the server may be called by this name, or by any address.
fn is_given(callers: &Callers, authority: &Authority) -> bool {
    let name = authority.host();
    let is_plain = !authority.as_str().contains('@');
    let is_address = || name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    is_plain && (callers.hosts.iter().any(|given| name.eq_ignore_ascii_case(given)) || callers.by_address && is_address())
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
    use crate::origins::Origins;

    fn asked(callers: &Callers, uri: &str, headers: &[(HeaderName, &str)], is_socket: bool) -> Result<(), Status> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).expect("a header value")));
        let mut map = HeaderMap::new();
        headers.for_each(|(name, value)| {
            map.append(name, value);
        });
        check(callers, &uri.parse().expect("a URI"), &map, is_socket)
    }

    fn request(uri: &str, headers: &[(HeaderName, &str)]) -> Result<(), Status> {
        asked(&Callers::default(), uri, headers, false)
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

    #[test]
    fn names_and_origins_that_are_given_pass() {
        let with = |callers: &Callers, headers: &[(HeaderName, &str)], is_socket| asked(callers, "/api", headers, is_socket);
        let named = &Callers { hosts: vec!["host.docker.internal".to_owned(), "other".to_owned()], ..Callers::default() };
        for host in ["host.docker.internal", "host.docker.internal:8001", "HOST.docker.internal", "other", "localhost"] {
            assert_eq!(with(named, &[(HOST, host)], false), Ok(()), "{host}");
        }
        for host in ["docker.internal", "evil.other", "u@other", "10.0.0.1", "[::2]"] {
            assert_eq!(with(named, &[(HOST, host)], false).expect_err(host).code, 403);
        }
        let beyond = &Callers { by_address: true, ..Callers::default() };
        assert!(with(beyond, &[(HOST, "10.0.0.1:8001")], false).is_ok() && with(beyond, &[(HOST, "[fd00::1]:8001")], false).is_ok());
        assert!(with(beyond, &[(HOST, "evil.example")], false).is_err(), "a name may have been given our address");
        let local = (HOST, "localhost:8001");
        let origin = |origin: &'static str| [local.clone(), (ORIGIN, origin), (SEC_FETCH_SITE.clone(), "cross-site")];
        let origins = Origins::read(&["//page.example(:|$)".to_owned()]).expect("an expression");
        let pages = &Callers { origins, ..Callers::default() };
        assert_eq!(with(pages, &origin("https://page.example"), true), Ok(()));
        assert!(
            with(pages, &origin("https://page.example.evil"), false).is_err()
                && with(&Callers::default(), &origin("https://page.example"), false).is_err()
        );
    }

    #[test]
    fn a_socket_names_its_origin() {
        let refused = asked(&Callers::default(), "/api", &[(HOST, "localhost:8001")], true).expect_err("no Origin");
        assert!(refused.code == 403 && refused.message.contains("Origin: http://localhost:8001"), "{}", refused.message);
        assert_eq!(asked(&Callers::default(), "/api", &[(HOST, "localhost:8001"), (ORIGIN, "http://localhost:8001")], true), Ok(()));
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
