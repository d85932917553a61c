//! Which label keys and values are legal, and what is said of the others. Knows no selector.

/// Longest name part of a key, and longest value, in bytes (spec list-watch §7.1).
const NAME_BYTES_MAX: usize = 63;
/// Longest prefix of a key, in bytes (RFC 1123 subdomain).
const PREFIX_BYTES_MAX: usize = 253;

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
     (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const PREFIX_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
     alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// What is wrong with a label key, `; ` between several complaints; `None` when it is legal.
pub(super) fn wrong_key(key: &str) -> Option<String> {
    let mut wrong = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            wrong_prefix(prefix, &mut wrong);
            name
        }
        _ => {
            return Some(format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_BYTES_MAX {
        wrong.push(format!("name part must be no more than {NAME_BYTES_MAX} bytes"));
    }
    if !is_name(name) {
        wrong.push(format!("name part {NAME_RULE}"));
    }
    said(&wrong)
}

/// What is wrong with a label value; `None` when it is legal.
pub(super) fn wrong_value(value: &str) -> Option<String> {
    let mut wrong = Vec::new();
    if value.len() > NAME_BYTES_MAX {
        wrong.push(format!("must be no more than {NAME_BYTES_MAX} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        wrong.push(VALUE_RULE.to_owned());
    }
    said(&wrong)
}

fn wrong_prefix(prefix: &str, wrong: &mut Vec<String>) {
    if prefix.is_empty() {
        wrong.push("prefix part must be non-empty".to_owned());
        return;
    }
    if prefix.len() > PREFIX_BYTES_MAX {
        wrong.push(format!("prefix part must be no more than {PREFIX_BYTES_MAX} bytes"));
    }
    if !prefix.split('.').all(is_dns_part) {
        wrong.push(format!("prefix part {PREFIX_RULE}"));
    }
}

fn said(wrong: &[String]) -> Option<String> {
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_name(text: &str) -> bool {
    let inside = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    has_ends(text, u8::is_ascii_alphanumeric) && text.as_bytes().iter().all(inside)
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn is_dns_part(text: &str) -> bool {
    let end = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    has_ends(text, end) && text.as_bytes().iter().all(|b| end(b) || *b == b'-')
}

fn has_ends(text: &str, allowed: impl Fn(&u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(&allowed) && bytes.last().is_some_and(&allowed)
}

#[cfg(test)]
mod tests {
    use super::{NAME_RULE, PREFIX_RULE, VALUE_RULE, wrong_key, wrong_value};

    #[test]
    fn keys() {
        let long = "a".repeat(64);
        for key in ["a", "A.b_c-9", "example.com/a", "a-b.c/d", &long[1..]] {
            assert_eq!(wrong_key(key), None, "{key}");
        }
        let cases = [
            ("-a", format!("name part {NAME_RULE}")),
            ("", format!("name part must be non-empty; name part {NAME_RULE}")),
            ("a/", format!("name part must be non-empty; name part {NAME_RULE}")),
            ("/a", "prefix part must be non-empty".to_owned()),
            ("A/a", format!("prefix part {PREFIX_RULE}")),
            ("a..b/a", format!("prefix part {PREFIX_RULE}")),
            ("A/_", format!("prefix part {PREFIX_RULE}; name part {NAME_RULE}")),
            ("a/b/c", format!("a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")),
            (&long, "name part must be no more than 63 bytes".to_owned()),
        ];
        for (key, want) in cases {
            assert_eq!(wrong_key(key), Some(want), "{key}");
        }
        let long = format!("{}/a", "a".repeat(254));
        assert_eq!(wrong_key(&long).as_deref(), Some("prefix part must be no more than 253 bytes"));
    }

    #[test]
    fn values() {
        for value in ["", "a", "a.b_c-9"] {
            assert_eq!(wrong_value(value), None, "{value}");
        }
        assert_eq!(wrong_value("_x").as_deref(), Some(VALUE_RULE));
        let long = format!("{}-", "a".repeat(63));
        assert_eq!(wrong_value(&long), Some(format!("must be no more than 63 bytes; {VALUE_RULE}")));
    }
}
