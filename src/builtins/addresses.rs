//! IP addresses and networks (`util/validation/ip.go` of apimachinery, whose parser takes what Go once took: zeros in front).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{at::At, causes::Causes};
use go::quote::quoted;

const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NO_NETWORK: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
/// Groups of an address of version 6.
const GROUPS: usize = 8;

/// An address of a field that is older than its rules (`IsValidIPForLegacyField`); returns it if it can be read.
pub(crate) fn legacy_address(at: &At<'_, '_>, causes: &mut Causes) -> Option<IpAddr> {
    let text = at.text();
    let Some(address) = parse(text) else {
        causes.invalid_text(at, NO_ADDRESS);
        return None;
    };
    if text.parse::<IpAddr>().is_err() {
        causes.invalid_text(at, "must not have leading 0s");
    } else if is_mapped(text) {
        causes.invalid_text(at, "must not be an IPv4-mapped IPv6 address");
    }
    Some(address)
}

/// An address in its canonical form (`IsValidIP`).
pub(crate) fn address(at: &At<'_, '_>, causes: &mut Causes) {
    let before = causes.len();
    let canonical = legacy_address(at, causes).map(|address| address.to_string());
    if let Some(canonical) = canonical.filter(|canonical| causes.len() == before && canonical != at.text()) {
        causes.invalid_text(at, &format!("must be in canonical form ({})", quoted(&canonical)));
    }
}

/// A network of a field that is older than its rules (`IsValidCIDRForLegacyField`); returns its first address and the length of its prefix.
pub(crate) fn legacy_network(at: &At<'_, '_>, causes: &mut Causes) -> Option<(IpAddr, u32)> {
    let text = at.text();
    let Some((address, length)) = parse_network(text) else {
        causes.invalid_text(at, NO_NETWORK);
        return None;
    };
    let first = masked(address, length);
    let (address_text, length_text) = text.split_once('/').unwrap_or((text, ""));
    if address_text.parse::<IpAddr>().is_err() || length_text.len() > 1 && length_text.starts_with('0') {
        causes.invalid_text(at, "must not have leading 0s in IP or prefix length");
    } else if is_mapped(address_text) {
        causes.invalid_text(at, "must not have an IPv4-mapped IPv6 address");
    } else if address != first {
        causes.invalid_text(at, "must not have bits set beyond the prefix length");
    }
    Some((first, length))
}

/// A network in its canonical form (`IsValidCIDR`).
pub(crate) fn network(at: &At<'_, '_>, causes: &mut Causes) {
    let before = causes.len();
    let canonical = legacy_network(at, causes).map(|(first, length)| format!("{first}/{length}"));
    if let Some(canonical) = canonical.filter(|canonical| causes.len() == before && canonical != at.text()) {
        causes.invalid_text(at, &format!("must be in canonical form ({})", quoted(&canonical)));
    }
}

/// Reads an address as Go's old parser does. One of version 4 in version 6 is one of version 4.
pub(crate) fn parse(text: &str) -> Option<IpAddr> {
    match text.find(['.', ':']).map(|at| text.as_bytes()[at]) {
        Some(b'.') => parse_4(text).map(IpAddr::V4),
        Some(_) => parse_6(text).map(|address| address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)),
        None => None,
    }
}

/// Reads a network as Go's old parser does.
pub(crate) fn parse_network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let length = Some(length).filter(|length| !length.is_empty() && length.bytes().all(|digit| digit.is_ascii_digit()))?;
    let length = number(length, 10)?;
    let is_4 = address.find(['.', ':']).is_some_and(|at| address.as_bytes()[at] == b'.');
    let address = parse(address)?;
    match (is_4, address) {
        (true, _) => (length <= 32).then_some((address, length)),
        (false, IpAddr::V6(_)) => (length <= 128).then_some((address, length)),
        // Go masks all 16 bytes of a mapped address, and shows the last four of the prefix.
        (false, IpAddr::V4(_)) => (length <= 128).then_some((address, length.saturating_sub(96))),
    }
}

/// Returns the first address of a network.
pub(crate) fn masked(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

fn is_mapped(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok_and(|address| address.to_ipv4_mapped().is_some())
}

/// Four numbers, which may have zeros in front.
fn parse_4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = number(parts.next()?, 10).and_then(|number| u8::try_from(number).ok())?;
    }
    parts.next().is_none().then(|| octets.into())
}

/// Groups with zeros in front, at most one `::`, and perhaps an address of version 4 at the end.
fn parse_6(text: &str) -> Option<Ipv6Addr> {
    let Some((head, tail)) = text.split_once("::") else {
        let groups = groups(text)?;
        return <[u16; GROUPS]>::try_from(groups).ok().map(Ipv6Addr::from);
    };
    let read = |part: &str| if part.is_empty() { Some(Vec::new()) } else { groups(part) };
    if head.contains('.') {
        return None;
    }
    let (head, tail) = (read(head)?, read(tail)?);
    let missing = GROUPS.checked_sub(head.len() + tail.len()).filter(|missing| *missing > 0)?;
    let all: Vec<u16> = head.into_iter().chain(std::iter::repeat_n(0, missing)).chain(tail).collect();
    <[u16; GROUPS]>::try_from(all).ok().map(Ipv6Addr::from)
}

/// Groups with colons between.
fn groups(text: &str) -> Option<Vec<u16>> {
    let mut found = Vec::with_capacity(GROUPS);
    let mut parts = text.split(':').peekable();
    while let Some(part) = parts.next() {
        if found.len() >= GROUPS {
            return None;
        }
        if part.contains('.') && parts.peek().is_none() {
            let bits = parse_4(part)?.to_bits();
            found.extend([bits >> 16, bits & 0xffff].map(|half| u16::try_from(half).unwrap_or_default()));
        } else {
            found.push(number(part, 16).and_then(|number| u16::try_from(number).ok())?);
        }
    }
    Some(found)
}

/// A number below Go's limit of `0xFFFFFF`, with zeros in front.
fn number(digits: &str, radix: u32) -> Option<u32> {
    let digits = Some(digits).filter(|digits| !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix)))?;
    match digits.trim_start_matches('0') {
        "" => Some(0),
        digits => u32::from_str_radix(digits, radix).ok().filter(|number| *number < 0x00ff_ffff),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(text: &str, judge: impl FnOnce(&At<'_, '_>, &mut Causes)) -> Vec<String> {
        let object = json!(text);
        let prefix = format!("Invalid value: {}: ", quoted(text));
        let errors = Causes::of(|causes| judge(&At::named("x", &object), causes));
        errors.into_iter().map(|error| error.message.trim_start_matches(&prefix).to_owned()).collect()
    }

    #[test]
    fn addresses() {
        let cases: &[(&str, &[&str])] = &[
            ("10.0.0.1", &[]),
            ("fe80::1", &[]),
            ("::", &[]),
            ("1:2:3:4:5:6:7::", &["must be in canonical form (\"1:2:3:4:5:6:7:0\")"]),
            ("FE80::1", &["must be in canonical form (\"fe80::1\")"]),
            ("010.0.0.1", &["must not have leading 0s"]),
            ("fe80::00001", &["must not have leading 0s"]),
            ("::ffff:1.2.3.4", &["must not be an IPv4-mapped IPv6 address"]),
            ("::ffff:01.2.3.4", &["must not have leading 0s"]),
            ("", &[NO_ADDRESS]),
            ("1.2.3", &[NO_ADDRESS]),
            ("1.2.3.256", &[NO_ADDRESS]),
            ("1::2::3", &[NO_ADDRESS]),
            ("1:2:3:4:5:6:7:8::", &[NO_ADDRESS]),
            ("fe80::1%eth0", &[NO_ADDRESS]),
            (":1", &[NO_ADDRESS]),
            ("1:2:3:4:5:6:7:8:9", &[NO_ADDRESS]),
            ("1.2.3.4::", &[NO_ADDRESS]),
        ];
        for (text, want) in cases {
            assert_eq!(texts(text, address), *want, "{text}");
        }
        let legacy = |at: &At<'_, '_>, causes: &mut Causes| assert!(legacy_address(at, causes).is_some());
        assert_eq!(texts("FE80::1", legacy), [""; 0]);
    }

    #[test]
    fn networks() {
        let cases: &[(&str, &[&str])] = &[
            ("10.0.0.0/8", &[]),
            ("::/0", &[]),
            ("2001:DB8::/32", &["must be in canonical form (\"2001:db8::/32\")"]),
            ("010.0.0.0/8", &["must not have leading 0s in IP or prefix length"]),
            ("10.0.0.0/08", &["must not have leading 0s in IP or prefix length"]),
            ("::ffff:10.0.0.0/104", &["must not have an IPv4-mapped IPv6 address"]),
            ("10.0.0.1/8", &["must not have bits set beyond the prefix length"]),
            ("10.0.0.0/33", &[NO_NETWORK]),
            ("10.0.0.0", &[NO_NETWORK]),
            ("::/129", &[NO_NETWORK]),
            ("10.0.0.0/+8", &[NO_NETWORK]),
        ];
        for (text, want) in cases {
            assert_eq!(texts(text, network), *want, "{text}");
        }
    }
}
