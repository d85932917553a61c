//! Which keys and values of labels are legal, which texts are DNS names, and what is said of the others (spec api-surface §5.4, list-watch §7.1).

/// Bytes of a name part, of a label's value and of a DNS label.
const NAME_BYTES_MAX: usize = 63;
/// Bytes of a DNS subdomain (RFC 1123).
const SUBDOMAIN_BYTES_MAX: usize = 253;

const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
/// What a text that is no subdomain is told.
pub const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Why a text is no qualified name (`name` or `prefix/name`), as keys of labels and annotations are; nothing when it is one.
pub fn wrong_key(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            return vec![format!("a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > SUBDOMAIN_BYTES_MAX {
                    wrong.push(format!("prefix part must be no more than {SUBDOMAIN_BYTES_MAX} bytes"));
                }
                if !is_subdomain(prefix) {
                    wrong.push(format!("prefix part {SUBDOMAIN}"));
                }
            }
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_BYTES_MAX {
        wrong.push(format!("name part must be no more than {NAME_BYTES_MAX} bytes"));
    }
    if !is_name(name) {
        wrong.push(format!("name part {NAME}"));
    }
    wrong
}

/// Why a text is no value of a label; nothing when it is one.
pub fn wrong_value(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > NAME_BYTES_MAX {
        wrong.push(format!("must be no more than {NAME_BYTES_MAX} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        wrong.push(VALUE.to_owned());
    }
    wrong
}

/// Why a text is no DNS subdomain (RFC 1123); nothing when it is one.
pub fn wrong_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > SUBDOMAIN_BYTES_MAX {
        wrong.push(format!("must be no more than {SUBDOMAIN_BYTES_MAX} characters"));
    }
    if !is_subdomain(text) {
        wrong.push(SUBDOMAIN.to_owned());
    }
    wrong
}

/// Why a text is no DNS label (RFC 1035); nothing when it is one.
pub fn wrong_label_1035(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > NAME_BYTES_MAX {
        wrong.push(format!("must be no more than {NAME_BYTES_MAX} characters"));
    }
    if !text.starts_with(|c: char| c.is_ascii_lowercase()) || !is_label(text) {
        wrong.push(LABEL_1035.to_owned());
    }
    wrong
}

/// DNS labels with dots between, of whatever length.
pub fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
pub fn is_label(text: &str) -> bool {
    let letters = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    letters && !text.is_empty() && !text.starts_with('-') && !text.ends_with('-')
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().is_some_and(u8::is_ascii_alphanumeric) && bytes.last().is_some_and(u8::is_ascii_alphanumeric);
    ends && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each was sent to a kube-apiserver as the key of a label.
    #[test]
    fn keys() {
        let name = format!("name part {NAME}");
        let many = format!("a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
        let prefix = format!("prefix part {SUBDOMAIN}");
        let (long_name, long_prefix) = ("x".repeat(64), format!("{}/x", "p".repeat(254)));
        let cases: &[(&str, &[&str])] = &[
            ("a", &[]),
            ("A.b_c-9", &[]),
            ("a-b.c/d", &[]),
            ("ex.io/My_Name.1", &[]),
            (&long_name[1..], &[]),
            ("", &["name part must be non-empty", &name]),
            ("-a", &[&name]),
            ("a/", &["name part must be non-empty", &name]),
            ("a b", &[&name]),
            ("é", &[&name]),
            ("/x", &["prefix part must be non-empty"]),
            ("A.com/x", &[&prefix]),
            ("a..b/a", &[&prefix]),
            ("A/_", &[&prefix, &name]),
            ("a/b/c", &[&many]),
            (&long_name, &["name part must be no more than 63 bytes"]),
            (&long_prefix, &["prefix part must be no more than 253 bytes"]),
        ];
        for (key, want) in cases {
            assert_eq!(wrong_key(key), *want, "{key}");
        }
    }

    #[test]
    fn values() {
        for value in ["", "a", "a.b_c-9", "My_Value.1"] {
            assert_eq!(wrong_value(value), Vec::<String>::new(), "{value}");
        }
        for value in ["-x", "_x"] {
            assert_eq!(wrong_value(value), [VALUE]);
        }
        assert_eq!(wrong_value(&"y".repeat(64)), ["must be no more than 63 bytes"]);
        assert_eq!(wrong_value(&format!("{}-", "a".repeat(63))), ["must be no more than 63 bytes", VALUE]);
    }
}
