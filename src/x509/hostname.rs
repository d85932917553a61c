//! Whether a certificate is good for a server's name (`VerifyHostname`).

use core::net::IpAddr;

use crate::alternative::AlternativeNames;

/// Whether these names have this one: a domain, or an IP address, which may stand in brackets.
pub(crate) fn matches(names: &AlternativeNames, host: &str) -> bool {
    if let Some(ip) = ip(host) {
        return names.ips.iter().any(|bytes| address(bytes).is_some_and(|known| known.to_canonical() == ip.to_canonical()));
    }
    let wanted = host.to_ascii_lowercase();
    let is_valid = is_host(wanted.strip_suffix('.').unwrap_or(&wanted), false);
    names.dns.iter().any(|name| {
        if is_valid && is_host(name, true) {
            fits_pattern(&name.to_ascii_lowercase(), wanted.strip_suffix('.').unwrap_or(&wanted))
        } else {
            // Names that are none of DNS are the same or not.
            !["", "."].contains(&&**name) && !["", "."].contains(&&*wanted) && name.eq_ignore_ascii_case(&wanted)
        }
    })
}

/// Whether a host is an IP address.
pub(crate) fn is_address(host: &str) -> bool {
    ip(host).is_some()
}

/// The text of an IP address.
pub(crate) fn shown(bytes: &[u8]) -> String {
    address(bytes).map_or(String::new(), |ip| ip.to_canonical().to_string())
}

fn ip(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).parse().ok()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let short = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    short.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// Whether a text is the name of a host; of a certificate its first label may be `*`.
fn is_host(text: &str, is_pattern: bool) -> bool {
    let is_label = |(at, label): (usize, &str)| {
        (is_pattern && at == 0 && label == "*")
            || (!label.is_empty()
                && label.bytes().enumerate().all(|(at, byte)| byte.is_ascii_alphanumeric() || byte == b'_' || (byte == b'-' && at != 0)))
    };
    text != "*" && text.split('.').enumerate().all(is_label)
}

fn fits_pattern(pattern: &str, host: &str) -> bool {
    let (pattern, host) = (pattern.split('.'), host.split('.'));
    pattern.clone().count() == host.clone().count() && pattern.zip(host).enumerate().all(|(at, (a, b))| a == b || (at == 0 && a == "*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_as_in_go() {
        let names = |dns: &[&str], ips: &[&[u8]]| AlternativeNames {
            dns: dns.iter().map(|name| (*name).to_owned()).collect(),
            ips: ips.iter().map(|ip| ip.to_vec()).collect(),
            ..AlternativeNames::default()
        };
        for (pattern, host, wanted) in [
            ("example.com", "Example.COM", true),
            ("example.com", "example.com.", true),
            ("example.com.", "example.com.", true),
            ("example.com.", "example.com", false),
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "a.b.example.com", false),
            ("*.example.com", "example.com", false),
            ("a.*.com", "a.b.com", false),
            ("a*.example.com", "ab.example.com", false),
            ("*", "example", false),
            ("*", "*", true),
            ("-a.com", "-a.com", true),
            ("a_b.com", "a_b.com", true),
            ("", "", false),
            ("10.0.0.1", "10.0.0.1", false),
        ] {
            assert_eq!(matches(&names(&[pattern], &[]), host), wanted, "{pattern} {host}");
        }
        let ips = names(&[], &[&[10, 0, 0, 1], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2], &[0; 16]]);
        for (host, wanted) in [("10.0.0.1", true), ("[10.0.0.1]", true), ("10.0.0.2", true), ("::", true), ("[::]", true), ("::1", false)] {
            assert_eq!(matches(&ips, host), wanted, "{host}");
        }
    }
}
