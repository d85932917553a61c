//! Qualified names, keys of labels and annotations, and values of labels (spec api-surface §5.4).

use super::name::{SUBDOMAIN, SUBDOMAIN_MAX, is_subdomain};

/// Bytes of the part after the `/`, and of the value of a label.
const NAME_MAX: usize = 63;

const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The tails of the errors for a qualified name: `name` or `prefix/name`.
pub(super) fn wrong(key: &str) -> Vec<String> {
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
                if prefix.len() > SUBDOMAIN_MAX {
                    wrong.push(format!("prefix part must be no more than {SUBDOMAIN_MAX} bytes"));
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
    } else if name.len() > NAME_MAX {
        wrong.push(format!("name part must be no more than {NAME_MAX} bytes"));
    }
    if !is_name(name) {
        wrong.push(format!("name part {NAME}"));
    }
    wrong
}

/// The tails of the errors for the value of a label.
pub(super) fn wrong_label(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > NAME_MAX {
        wrong.push(format!("must be no more than {NAME_MAX} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        wrong.push(LABEL.to_owned());
    }
    wrong
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
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
            ("ex.io/My_Name.1", &[]),
            ("", &["name part must be non-empty", &name]),
            ("a/", &["name part must be non-empty", &name]),
            ("a b", &[&name]),
            ("é", &[&name]),
            ("/x", &["prefix part must be non-empty"]),
            ("A.com/x", &[&prefix]),
            ("a/b/c", &[&many]),
            (&long_name, &["name part must be no more than 63 bytes"]),
            (&long_prefix, &["prefix part must be no more than 253 bytes"]),
        ];
        for (key, want) in cases {
            assert_eq!(wrong(key), *want, "{key}");
        }
    }

    #[test]
    fn values() {
        assert!(wrong_label("").is_empty() && wrong_label("My_Value.1").is_empty());
        assert_eq!(wrong_label("-x"), [LABEL]);
        assert_eq!(wrong_label(&"y".repeat(64)), ["must be no more than 63 bytes"]);
    }
}
