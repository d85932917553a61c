//! Whether an `Origin` is one: kube-apiserver asks Go's `url.ParseRequestURI`, whose rules these are. Does not judge whose origin it is.

use std::net::Ipv6Addr;

/// An absolute URI, an absolute path, or `*`. `null`, which a sandboxed page sends, is none of them.
pub(super) fn is_uri(text: &[u8]) -> bool {
    if text.is_empty() || text.iter().any(u8::is_ascii_control) {
        return false;
    }
    let Some((scheme, rest)) = scheme(text) else { return false };
    let rest = rest.split(|byte| *byte == b'?').next().unwrap_or_default();
    match rest {
        _ if text == b"*" => true,
        // After a scheme, what does not begin with a slash is opaque.
        [] | [_, ..] if !rest.starts_with(b"/") => !scheme.is_empty(),
        [b'/', b'/', authority @ ..] if !scheme.is_empty() => {
            let end = authority.iter().position(|byte| *byte == b'/').unwrap_or(authority.len());
            let is_web = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
            is_authority(&authority[..end], is_web) && escapes(&authority[end..], |_| true)
        }
        _ => escapes(rest, |_| true),
    }
}

/// Scheme and rest; the scheme is empty when there is none, and nothing is a URI whose scheme is there and empty.
fn scheme(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_part = |(at, byte): (usize, &u8)| byte.is_ascii_alphabetic() || (at > 0 && matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.'));
    let end = text.iter().enumerate().position(|part| !is_part(part));
    match end {
        Some(0) if text[0] == b':' => None,
        Some(end) if text[end] == b':' => Some((&text[..end], &text[end + 1..])),
        _ => Some((b"", text)),
    }
}

fn is_authority(authority: &[u8], is_web: bool) -> bool {
    match authority.iter().rposition(|byte| *byte == b'@') {
        Some(at) => is_host(&authority[at + 1..], is_web) && is_user(&authority[..at]),
        None => is_host(authority, is_web),
    }
}

fn is_user(user: &[u8]) -> bool {
    user.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte)) && escapes(user, |_| true)
}

/// Host and port. A name of the web has one colon at most, another may have more.
fn is_host(host: &[u8], is_web: bool) -> bool {
    match host.iter().rposition(|byte| *byte == b'[') {
        Some(0) => {
            let Some(end) = host.iter().rposition(|byte| *byte == b']') else { return false };
            is_port(&host[end + 1..]) && is_address(&host[1..end])
        }
        Some(_) => false,
        None => {
            let is_colon = |byte: &u8| *byte == b':';
            let colon = if is_web { host.iter().position(is_colon) } else { host.iter().rposition(is_colon) };
            colon.is_none_or(|at| is_port(&host[at..])) && is_name(host)
        }
    }
}

fn is_port(port: &[u8]) -> bool {
    port.is_empty() || (port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit))
}

/// An IPv6 address, perhaps with a zone after `%25`.
fn is_address(address: &[u8]) -> bool {
    let zone = address.windows(3).position(|three| three == b"%25");
    let (address, zone) = address.split_at(zone.unwrap_or(address.len()));
    let is_ipv6 = std::str::from_utf8(address).is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok());
    let is_zone = |zone: &[u8]| {
        zone.iter().all(|byte| is_in_host(*byte) || *byte == b'%') && escapes(zone, |byte| byte == b'%' || byte == b' ' || is_in_host(byte))
    };
    is_ipv6 && (zone.is_empty() || (zone.len() > 3 && is_zone(zone)))
}

/// In a name only what is not ASCII may be escaped, and the percent sign.
fn is_name(name: &[u8]) -> bool {
    name.iter().all(|byte| is_in_host(*byte) || *byte == b'%') && escapes(name, |byte| byte >= 0x80 || byte == b'%')
}

fn is_in_host(byte: u8) -> bool {
    !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

/// Whether each percent sign begins an escape, of a byte that may be escaped.
fn escapes(text: &[u8], may_be: impl Fn(u8) -> bool) -> bool {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    text.iter().enumerate().filter(|(_, byte)| **byte == b'%').all(|(at, _)| {
        let (Some(high), Some(low)) = (digit(text.get(at + 1)), digit(text.get(at + 2))) else { return false };
        may_be(u8::try_from(high * 16 + low).expect("two digits of 16 are a byte"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What Go 1.26 said of them.
    const READ: &[&str] = &[
        "http://localhost:8001",
        "https://example.com",
        "http://",
        "http://[::1]:8080",
        "http://[fe80::1%25en0]:80",
        "http://[::ffff:1.2.3.4]",
        "http://a_b.c:",
        "http://u:p@h@h/a%20b?%zz",
        "http:",
        "http:x",
        "mailto:a b",
        "file:///x",
        "chrome-extension://abc",
        "x://a:b:1",
        "/",
        "//",
        "///a b",
        "*",
        "/?%",
        "http://%C3%A9",
        "a:%",
    ];
    const NOT_READ: &[&str] = &[
        "",
        "null",
        "localhost",
        "localhost/a",
        ":http",
        "1http://a",
        "http://a b",
        "http://a:b",
        "http://a:1:2",
        "http://::1",
        "http://[::1",
        "http://a[::1]",
        "http://[::1]x",
        "http://[1.2.3.4]",
        "http://[fe80::1%25]",
        "http://[fe80::1%en0]",
        "http://%41",
        "http://a/%zz",
        "http://u^@a",
        "/%",
        "a\tb:",
        "?a",
        "*a",
        "*:",
    ];

    #[test]
    fn as_go_reads_them() {
        for text in READ {
            assert!(is_uri(text.as_bytes()), "{text}");
        }
        for text in NOT_READ {
            assert!(!is_uri(text.as_bytes()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "(http|[a-z]{0,3})?:?/{0,3}[a-z%0-9:@\\[\\]?. é]{0,20}") {
            let _ = is_uri(text.as_bytes());
        }
    }
}
