//! Whether a reference to an image moves with the tag `latest`: the grammar of references, as far as that needs it (github.com/distribution/reference).

/// Characters of a tag.
const TAG_MAX: usize = 128;
/// Characters of a name, with its domain.
const NAME_MAX: usize = 255;

/// Whether the image has the tag `latest`, or neither tag nor digest. A reference that is none has no tag.
pub(super) fn is_latest(reference: &str) -> bool {
    let (named, digest) = reference.split_once('@').map_or((reference, None), |(named, digest)| (named, Some(digest)));
    let (name, tag) = match named.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (named, None),
    };
    if !is_name(name) || !tag.is_none_or(is_tag) || !digest.is_none_or(is_digest) {
        return false;
    }
    // An id is no name.
    let is_id = tag.is_none() && digest.is_none() && name.len() == 64 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    !is_id && tag.map_or(digest.is_none(), |tag| tag == "latest")
}

/// `domain/path/path`; the first part is a domain when it looks like one.
fn is_name(name: &str) -> bool {
    let (domain, path) = match name.split_once('/') {
        Some((first, path)) if first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|b| b.is_ascii_uppercase()) => {
            (Some(first), path)
        }
        _ => (None, name),
    };
    name.len() <= NAME_MAX && domain.is_none_or(is_domain) && path.split('/').all(is_part)
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let is_label = |label: &str| {
        let inside = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        !label.is_empty() && inside && !label.starts_with('-') && !label.ends_with('-')
    };
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let fine = address.map_or_else(|| host.split('.').all(is_label), |inner| inner.bytes().all(|b| b.is_ascii_hexdigit() || b == b':'));
    fine && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

/// Small letters and digits, with `.`, `_`, `__` or any number of `-` between them.
fn is_part(part: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let separators = part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).filter(|between| !between.is_empty());
    let ends = part.bytes().next().is_some_and(is_word) && part.bytes().next_back().is_some_and(is_word);
    ends && separators.into_iter().all(|between| matches!(between, "." | "_" | "__") || between.bytes().all(|b| b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= TAG_MAX && tag.bytes().next().is_some_and(is_word) && tag.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => hex.len() == 64,
        "sha384" => hex.len() == 96,
        "sha512" => hex.len() == 128,
        _ => return false,
    };
    length && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_is_said_or_meant() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for moves in [
            "a",
            "a:latest",
            "registry.io:5000/a/b",
            "localhost/a",
            "Reg/a",
            "[::1]:5000/a",
            "a__b",
            "a--b/c.d",
            &format!("a:latest@{digest}"),
        ] {
            assert!(is_latest(moves), "{moves}");
        }
        for stays in [
            "",
            "a:1",
            "r:5000/a:v1",
            "A",
            "a/B",
            "a..b",
            "a_",
            "a:",
            "a:-x",
            "a@sha256:12",
            " a",
            &format!("a@{digest}"),
            &"ab".repeat(32),
        ] {
            assert!(!is_latest(stays), "{stays}");
        }
    }
}
