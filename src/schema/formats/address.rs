//! Addresses of networks and of devices.

/// An address with a dot in it, in which numbers may begin with zeros.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && (is_v4(text, Zeros::Any) || is_v6(text, Zeros::Any))
}

/// An address with a colon in it.
pub(super) fn is_ipv6(text: &str) -> bool {
    is_v6(text, Zeros::Few)
}

/// Whether a text is any address, without zeros too many.
pub(super) fn is_address(text: &str) -> bool {
    is_v6(text, Zeros::Few) || is_v4(text, Zeros::Few)
}

/// An address and a number of bits.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let is_number = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    let bits = match bits.trim_start_matches('0') {
        "" => 0,
        digits => digits.parse::<u32>().unwrap_or(u32::MAX),
    };
    is_number && (bits <= 32 && is_v4(address, Zeros::Any) || bits <= 128 && is_v6(address, Zeros::Any))
}

/// Zeros that a number may begin with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zeros {
    /// None, or of a group of version 6 up to four digits.
    Few,
    Any,
}

/// Four numbers up to 255.
fn is_v4(text: &str, zeros: Zeros) -> bool {
    let is_byte = |part: &str| {
        let digits = part.trim_start_matches('0');
        let has_zeros = digits.len() < part.len() && part.len() > 1;
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (digits.is_empty() || digits.parse::<u8>().is_ok())
            && (zeros == Zeros::Any || !has_zeros)
    };
    text.split('.').count() == 4 && text.split('.').all(is_byte)
}

/// Eight groups, of which `::` may stand for some that are zero, and the last two may be an address of version 4.
fn is_v6(text: &str, zeros: Zeros) -> bool {
    match text.split_once("::") {
        None => groups(text, zeros, true) == Some(8),
        Some((before, after)) => {
            let before = if before.is_empty() { Some(0) } else { groups(before, zeros, false) };
            let after = if after.is_empty() { Some(0) } else { groups(after, zeros, true) };
            before.zip(after).is_some_and(|(before, after)| before + after < 8)
        }
    }
}

/// How many groups there are.
fn groups(text: &str, zeros: Zeros, may_end_in_v4: bool) -> Option<usize> {
    let is_group = |group: &str| {
        let digits = if zeros == Zeros::Any { group.trim_start_matches('0') } else { group };
        !group.is_empty() && digits.len() <= 4 && group.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let (groups, last) = text.rsplit_once(':').map_or((None, text), |(groups, last)| (Some(groups), last));
    let of_last = if last.contains('.') { (may_end_in_v4 && is_v4(last, zeros)).then_some(2) } else { is_group(last).then_some(1) };
    match groups {
        None => of_last,
        Some(groups) => of_last.filter(|_| groups.split(':').all(is_group)).map(|last| last + groups.split(':').count()),
    }
}

/// Six, eight or twenty bytes, with a colon or a dash between them, or a dot between two and two, or nothing.
pub(super) fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (separator, digits) = match (bytes.get(2), bytes.get(4)) {
        (Some(separator @ (b':' | b'-')), _) => (char::from(*separator), 2),
        (_, Some(b'.')) => ('.', 4),
        _ => return matches!(bytes.len(), 12 | 16 | 40) && bytes.iter().all(u8::is_ascii_hexdigit),
    };
    let are_groups = text.split(separator).all(|group| group.len() == digits && group.bytes().all(|b| b.is_ascii_hexdigit()));
    are_groups && matches!(text.split(separator).count() * digits / 2, 6 | 8 | 20)
}
