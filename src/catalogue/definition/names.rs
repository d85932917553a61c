//! Names of a definition: DNS labels, distinct kinds (spec api-surface §11.1).

use serde_json::Value;

use super::tree::{at, child, list, text};
use model::{invalid::FieldError, legal::is_label};

/// Bytes of a DNS label (RFC 1035).
const LABEL_BYTES_MAX: usize = 63;
const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// What is wrong with `spec.names` or `status.acceptedNames`; empty names pass, the spec requires some of them elsewhere.
pub(super) fn wrong_names(names: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut labelled = |path: String, name: &str, value: &str, prefix: &str| {
        let wrong = not_a_label(value);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(path, &Value::from(name), &format!("{prefix}{}", wrong.join(","))));
        }
    };
    for name in ["plural", "singular"] {
        let value = text(names, name);
        if !value.is_empty() {
            labelled(child(path, name), value, value, "");
        }
    }
    for name in ["kind", "listKind"] {
        let value = text(names, name);
        if !value.is_empty() {
            labelled(child(path, name), value, &value.to_lowercase(), "may have mixed case, but should otherwise match: ");
        }
    }
    for (i, name) in list(names, "shortNames").iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        labelled(at(&child(path, "shortNames"), i), name, name, "");
    }
    let kind = text(names, "kind");
    if !kind.is_empty() && kind == text(names, "listKind") {
        errors.push(FieldError::invalid(child(path, "listKind"), &Value::from(kind), "kind and listKind may not be the same"));
    }
    for (i, name) in list(names, "categories").iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        let wrong = not_a_label(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(at(&child(path, "categories"), i), &Value::from(name), &wrong.join(",")));
        }
    }
    errors
}

/// Why a text is no DNS-1035 label; empty when it is one.
pub(super) fn not_a_label(value: &str) -> Vec<String> {
    let mut why = Vec::new();
    if value.len() > LABEL_BYTES_MAX {
        why.push(format!("must be no more than {LABEL_BYTES_MAX} characters"));
    }
    if !value.starts_with(|c: char| c.is_ascii_lowercase()) || !is_label(value) {
        why.push(LABEL.to_owned());
    }
    why
}
