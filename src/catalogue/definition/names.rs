//! Names of a definition: DNS labels, distinct kinds (spec api-surface §11.1).

use serde_json::Value;

use super::tree::{at, child, list, text};
use model::invalid::FieldError;

pub(super) use model::legal::wrong_label_1035 as not_a_label;

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
