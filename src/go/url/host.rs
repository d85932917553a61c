//! The host of a URL.

use super::escape::wrong_escape;
use crate::{netip, quote::quoted};

/// Characters that a host may have as they are, beside letters and digits.
const PLAIN: &str = "-_.~!$&'()*+,;=:[]<>\"";

/// Returns a host and its port without escapes. Bytes that are not UTF-8 become U+FFFD.
///
/// # Errors
/// Go's text, of what is no host.
pub fn decoded_host(host: &str, scheme: &str) -> Result<String, String> {
    // Only those of the web have one colon at most.
    let is_strict = matches!(scheme, "http" | "https");
    match host.rfind('[') {
        Some(0) => literal(host),
        Some(_) => Err("invalid IP-literal".to_owned()),
        None => {
            let colon = if is_strict { host.find(':') } else { host.rfind(':') };
            checked_port(colon.map_or("", |colon| &host[colon..]))?;
            decoded(host, false)
        }
    }
}

/// An address of IPv6 in brackets.
fn literal(host: &str) -> Result<String, String> {
    let end = host.rfind(']').ok_or("missing ']' in host")?;
    let port = &host[end + 1..];
    checked_port(port)?;
    let port = decoded(port, false)?;
    let inside = &host[1..end];
    let name = match inside.find("%25") {
        Some(zone) => decoded(&inside[..zone], false)? + &decoded(&inside[zone..], true)?,
        None => decoded(inside, false)?,
    };
    let (address, _) = netip::address(&name).map_err(|why| format!("invalid host: {why}"))?;
    if address.is_ipv4() { Err("invalid IP-literal".to_owned()) } else { Ok(format!("[{name}]{port}")) }
}

fn checked_port(port: &str) -> Result<(), String> {
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if is_port { Ok(()) } else { Err(format!("invalid port {} after host", quoted(port))) }
}

/// Escapes may only stand for other bytes than ASCII, and in a zone also for what may be there as it is.
fn decoded(text: &str, is_zone: bool) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        if *byte == b'%' {
            let value = text.get(at + 1..at + 3).and_then(value).ok_or_else(|| wrong_escape(&text.as_bytes()[at..]))?;
            let is_allowed = value == b'%' || if is_zone { value == b' ' || is_plain(value) } else { value >= 0x80 };
            if !is_allowed {
                return Err(wrong_escape(&text.as_bytes()[at..]));
            }
            out.push(value);
            at += 3;
            continue;
        }
        if byte.is_ascii() && !is_plain(*byte) {
            return Err(format!("invalid character {} in host name", quoted(&char::from(*byte).to_string())));
        }
        out.push(*byte);
        at += 1;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn value(digits: &str) -> Option<u8> {
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok())?
}

pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte.is_ascii() && PLAIN.contains(char::from(byte))
}
