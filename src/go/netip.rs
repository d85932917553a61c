//! IP addresses and prefixes as Go's `net/netip` reads them.

use std::net::IpAddr;

use crate::quote::quoted;

/// What is wrong with an address, and where.
type Wrong<'t> = (&'static str, &'t str);

/// `netip.ParsePrefix`: the address and how many of its bits count.
///
/// # Errors
/// Go's text.
pub fn prefix(text: &str) -> Result<(IpAddr, u8), String> {
    unnamed_prefix(text).map_err(|why| format!("netip.ParsePrefix({}): {why}", quoted(text)))
}

fn unnamed_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let (ip, length) = text.rsplit_once('/').ok_or("no '/'")?;
    let (address, zone) = address(ip)?;
    if !zone.is_empty() {
        return Err("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let bad = || format!("bad bits after slash: {}", quoted(length));
    if length.len() > 1 && !length.starts_with(|c: char| matches!(c, '1'..='9')) {
        return Err(bad());
    }
    let bits: i64 = length.parse().map_err(|_| bad())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = u8::try_from(bits).ok().filter(|bits| *bits <= most).ok_or("prefix length out of range")?;
    Ok((address, bits))
}

/// `netip.ParseAddr`: the address and its zone.
///
/// # Errors
/// Go's text.
pub fn address(text: &str) -> Result<(IpAddr, &str), String> {
    let read = match text.bytes().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => v4(text).map(|octets| (IpAddr::from(octets), "")),
        Some(b':') => v6(text).map(|(octets, zone)| (IpAddr::from(octets), zone)),
        Some(_) => Err(("missing IPv6 address", "")),
        None => Err(("unable to parse IP", "")),
    };
    read.map_err(|(why, at)| {
        let at = if at.is_empty() { String::new() } else { format!(" (at {})", quoted(at)) };
        format!("ParseAddr({}): {why}{at}", quoted(text))
    })
}

fn v4(text: &str) -> Result<[u8; 4], Wrong<'_>> {
    let (mut octets, mut position, mut value, mut digits) = ([0; 4], 0, 0_u32, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                octets[position] = u8::try_from(value).map_err(|_| ("IPv4 field has value >255", ""))?;
            }
            b'.' if digits == 0 || at + 1 == text.len() => return Err(("IPv4 field must have at least one digit", &text[at..])),
            b'.' if position == 3 => return Err(("IPv4 address too long", "")),
            b'.' => (position, value, digits) = (position + 1, 0, 0),
            _ => return Err(("unexpected character", text.get(at..).unwrap_or_default())),
        }
    }
    if position < 3 { Err(("IPv4 address too short", "")) } else { Ok(octets) }
}

fn v6(text: &str) -> Result<([u8; 16], &str), Wrong<'_>> {
    let (mut rest, zone) = text.split_once('%').unwrap_or((text, ""));
    if zone.is_empty() && rest.len() < text.len() {
        return Err(("zone must be a non-empty string", ""));
    }
    let mut ip = [0_u8; 16];
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix("::") {
        if after.is_empty() {
            return Ok((ip, zone));
        }
        (ellipsis, rest) = (Some(0), after);
    }
    let mut at = 0;
    while at < 16 {
        let group = group(rest)?;
        if rest[group.length..].starts_with('.') {
            if ellipsis.is_none() && at != 12 {
                return Err(("embedded IPv4 address must replace the final 2 fields of the address", rest));
            }
            if at > 12 {
                return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest));
            }
            ip[at..at + 4].copy_from_slice(&v4(rest)?);
            (at, rest) = (at + 4, "");
            break;
        }
        ip[at..at + 2].copy_from_slice(&group.value.to_be_bytes());
        at += 2;
        rest = &rest[group.length..];
        if rest.is_empty() {
            break;
        }
        let after = rest.strip_prefix(':').ok_or(("unexpected character, want colon", rest))?;
        if after.is_empty() {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(("multiple :: in address", rest));
            }
            (ellipsis, rest) = (Some(at), after);
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    expanded(ip, at, ellipsis).map(|ip| (ip, zone))
}

/// A group of hexadecimal digits.
struct Group {
    value: u16,
    length: usize,
}

fn group(text: &str) -> Result<Group, Wrong<'_>> {
    let length = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    match length {
        0 => Err(("each colon-separated field must have at least one digit", text)),
        1..=4 => Ok(Group { value: u16::from_str_radix(&text[..length], 16).unwrap_or(0), length }),
        _ => Err(("each group must have 4 or less digits", text)),
    }
}

/// Moves what stands behind the ellipsis to the end.
fn expanded<'t>(mut ip: [u8; 16], end: usize, ellipsis: Option<usize>) -> Result<[u8; 16], Wrong<'t>> {
    match ellipsis {
        None if end < 16 => Err(("address string too short", "")),
        None => Ok(ip),
        Some(_) if end == 16 => Err(("the :: must expand to at least one field of zeros", "")),
        Some(from) => {
            ip[from..].rotate_right(16 - end);
            Ok(ip)
        }
    }
}
