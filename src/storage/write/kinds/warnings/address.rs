//! Addresses and ranges that are accepted in an unusual form (`GetWarningsForIP`, `GetWarningsForCIDR` of apimachinery).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use go::quote::quoted;

/// What is unusual about an address.
pub(in crate::write::kinds) fn of_address(path: &str, text: &str) -> Option<String> {
    let address = sloppy(text)?;
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(strict)) if strict.to_ipv4_mapped().is_none() => {
            let normal = strict.to_string();
            (normal != text)
                .then(|| format!("{path}: IPv6 address {} should be in RFC 5952 canonical format ({})", quoted(text), quoted(&normal)))
        }
        Ok(IpAddr::V4(_)) => None,
        _ => Some(format!("{path}: non-standard IP address {} is invalid: use {}", quoted(text), quoted(&shown(address)))),
    }
}

/// What is unusual about a range.
pub(in crate::write::kinds) fn of_range(path: &str, text: &str) -> Vec<String> {
    let Some((address, length, bits)) = range(text) else { return Vec::new() };
    let masked = masked(address, length, bits);
    let (normal, sent) = (format!("{}/{length}", shown(masked)), quoted(text));
    let mut warnings = Vec::new();
    if masked != address {
        let single = quoted(&format!("{}/{bits}", shown(address)));
        warnings.push(format!("{path}: CIDR value {sent} is ambiguous in this context (should be {} or {single}?)", quoted(&normal)));
    }
    let strict = text.split_once('/').and_then(|(address, length)| Some((address.parse::<IpAddr>().ok()?, length)));
    let is_padded = |length: &str| length.len() > 1 && length.starts_with('0');
    match strict {
        Some((IpAddr::V6(strict), length)) if strict.to_ipv4_mapped().is_none() && !is_padded(length) => {
            let whole = format!("{strict}/{length}");
            if warnings.is_empty() && whole != text {
                warnings.push(format!("{path}: IPv6 CIDR value {sent} should be in RFC 5952 canonical format ({})", quoted(&whole)));
            }
        }
        Some((IpAddr::V4(_), length)) if !is_padded(length) => {}
        _ => warnings.push(format!("{path}: non-standard CIDR value {sent} is invalid: use {}", quoted(&normal))),
    }
    warnings
}

/// An address whose IPv4 parts may have leading zeros, as Go once read them.
pub(in crate::write) fn sloppy(text: &str) -> Option<IpAddr> {
    if !text.contains(':') {
        return sloppy_v4(text).map(IpAddr::V4);
    }
    let plain = match text.rsplit_once(':') {
        Some((before, last)) if last.contains('.') => format!("{before}:{}", sloppy_v4(last)?),
        _ => text.to_owned(),
    };
    plain.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn sloppy_v4(text: &str) -> Option<Ipv4Addr> {
    let part = |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<u8>().ok()).flatten();
    let parts: Vec<u8> = text.split('.').map(part).collect::<Option<_>>()?;
    <[u8; 4]>::try_from(parts).ok().map(Ipv4Addr::from)
}

/// Address, length of the prefix, bits of the address.
pub(in crate::write) fn range(text: &str) -> Option<(IpAddr, u32, u32)> {
    let (address, length) = text.split_once('/')?;
    let address = sloppy(address)?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let length = length.bytes().all(|b| b.is_ascii_digit()).then(|| length.parse().ok()).flatten()?;
    (length <= bits).then_some((address, length, bits))
}

pub(in crate::write) fn masked(address: IpAddr, length: u32, bits: u32) -> IpAddr {
    let free = bits - length;
    match address {
        IpAddr::V4(address) => {
            Ipv4Addr::from(u32::from(address).checked_shr(free).and_then(|kept| kept.checked_shl(free)).unwrap_or(0)).into()
        }
        IpAddr::V6(address) => {
            Ipv6Addr::from(u128::from(address).checked_shr(free).and_then(|kept| kept.checked_shl(free)).unwrap_or(0)).into()
        }
    }
}

/// As Go shows it: an IPv4 address inside of IPv6 is one of IPv4.
fn shown(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_when_they_are_unusual() {
        for fine in ["10.1.2.3", "fd00::1", "", "x", "1.2.3", "1.2.3.256", "fe80::1%eth0"] {
            assert_eq!(of_address("p", fine), None, "{fine}");
        }
        for (odd, want) in [
            ("010.001.2.3", "p: non-standard IP address \"010.001.2.3\" is invalid: use \"10.1.2.3\""),
            ("::ffff:1.2.3.4", "p: non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\""),
            ("2001:DB8::1", "p: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")"),
        ] {
            assert_eq!(of_address("p", odd).as_deref(), Some(want));
        }
    }

    #[test]
    fn ranges_are_told_when_they_are_unusual() {
        for fine in ["10.0.0.0/8", "fd00::/64", "x", "10.0.0.0/33", "0.0.0.0/0"] {
            assert!(of_range("p", fine).is_empty(), "{fine}");
        }
        assert_eq!(
            of_range("p", "10.1.2.3/8"),
            ["p: CIDR value \"10.1.2.3/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?)"]
        );
        assert_eq!(of_range("p", "010.0.0.0/8"), ["p: non-standard CIDR value \"010.0.0.0/8\" is invalid: use \"10.0.0.0/8\""]);
        assert_eq!(of_range("p", "FD00::/64"), ["p: IPv6 CIDR value \"FD00::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")"]);
    }
}
