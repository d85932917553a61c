//! Names that Kubernetes accepts for namespaces, accounts, nodes and extra keys.

use go::quote::quoted;

/// Bytes of a DNS label.
const LABEL_BYTES_MAX: usize = 63;
/// Bytes of a DNS subdomain.
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// A DNS label (RFC 1123): the name of a namespace.
pub(crate) fn is_label(text: &str) -> bool {
    text.len() <= LABEL_BYTES_MAX && is_labelled(text)
}

/// DNS labels with dots between them: the name of a service account or a node.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_BYTES_MAX && text.split('.').all(is_labelled)
}

/// However long.
fn is_labelled(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(|byte| *byte == b'-' || is_end(Some(byte)))
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/// Why a text is no DNS subdomain; nothing when it is one.
pub(crate) fn wrong_subdomain(text: &str) -> Vec<String> {
    let is_long = text.len() > SUBDOMAIN_BYTES_MAX;
    let long = is_long.then(|| format!("must be no more than {SUBDOMAIN_BYTES_MAX} bytes"));
    let other = (!text.split('.').all(is_labelled)).then(|| SUBDOMAIN.to_owned());
    long.into_iter().chain(other).collect()
}

/// Why a text is no path with a domain before it (`example.org/scopes`); nothing when it is one.
pub(crate) fn wrong_path(field: &str, text: &str) -> Vec<String> {
    let invalid = |value: &str, why: &str| format!("{field}: Invalid value: {}: {why}", quoted(value));
    if text.is_empty() {
        return vec![format!("{field}: Required value")];
    }
    let Some((host, path)) = text.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty()) else {
        return vec![invalid(text, "must be a domain-prefixed path (such as \"acme.io/foo\")")];
    };
    let mut wrong: Vec<String> = wrong_subdomain(host).iter().map(|why| invalid(host, why)).collect();
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        wrong.push(invalid(path, PATH));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["a", "0", "a-b", &"a".repeat(63)] {
            assert!(is_label(name) && is_subdomain(name), "{name}");
        }
        for name in ["a.b", "a-b.c-d.0", &"a".repeat(253)] {
            assert!(!is_label(name) && is_subdomain(name), "{name}");
        }
        for name in ["", "A", "-a", "a-", "a..b", ".a", "a.", "a_b", "ä", &"a".repeat(254)] {
            assert!(!is_label(name) && !is_subdomain(name), "{name}");
        }
    }

    #[test]
    fn paths_have_a_domain() {
        for path in ["a/b", "example.org/a/b%c:d", "a/'"] {
            assert_eq!(wrong_path("k", path), Vec::<String>::new(), "{path}");
        }
        let domain = |value: &str| format!("k: Invalid value: \"{value}\": must be a domain-prefixed path (such as \"acme.io/foo\")");
        assert_eq!(wrong_path("k", ""), ["k: Required value"]);
        for path in ["a", "/a", "a/"] {
            assert_eq!(wrong_path("k", path), [domain(path)], "{path}");
        }
        assert_eq!(
            wrong_path("k", "A/b c"),
            [format!("k: Invalid value: \"A\": {SUBDOMAIN}"), format!("k: Invalid value: \"b c\": {PATH}")]
        );
    }
}
