//! What is wrong with one field of an object or of options, in the words of the API (spec api-surface §9.3).

use std::collections::HashSet;

use serde_json::Value;

use go::{json::value_into, quote::quoted, strconv::format_float};

/// Bytes of errors after which no more are told of one object, of options or of a selector; ours: an error may repeat a list that is as long as the body.
pub const TOLD_BYTES_MAX: usize = 1 << 20;

/// Whether an error is told, asked of one after the other: none is after [`TOLD_BYTES_MAX`].
pub fn told() -> impl FnMut(&FieldError) -> bool {
    let mut bytes = 0;
    move |error| {
        let is_told = bytes <= TOLD_BYTES_MAX;
        bytes += error.bytes();
        is_told
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, `metadata.labels`, `spec.versions[0].name`; `<nil>` when the whole is meant.
    pub field: String,
    /// What kind of wrong.
    pub kind: FieldErrorKind,
    /// What people read, with the prefix of its kind: `Invalid value: "x": why`.
    pub message: String,
}

/// Kinds of wrong fields; clients may match on [`FieldErrorKind::cause`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the wire strings without their prefix, explained in spec api-surface §9.3")]
pub enum FieldErrorKind {
    Required,
    Invalid,
    /// Told as `Invalid` is; of another type than its schema says.
    TypeInvalid,
    NotSupported,
    Forbidden,
    Duplicate,
    TooLong,
    TooMany,
    TooFew,
    TooShort,
    NotFound,
    Internal,
}

impl FieldErrorKind {
    /// `reason` of the cause in `details`.
    #[must_use]
    pub fn cause(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TooShort => "FieldValueTooShort",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }
}

impl FieldError {
    /// Bytes of what it tells.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.field.len() + self.message.len()
    }

    fn new(field: impl Into<String>, kind: FieldErrorKind, message: String) -> Self {
        Self { field: field.into(), kind, message }
    }

    /// `Required value`, with `why` after it when there is one.
    #[must_use]
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        Self::new(field, FieldErrorKind::Required, with("Required value", why))
    }

    /// `Invalid value: V: why`, the value as JSON, or as Go quotes it when it is a text.
    #[must_use]
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self::new(field, FieldErrorKind::Invalid, with(&format!("Invalid value: {}", shown(value)), why))
    }

    /// The same of a text of a type of its own in Go, which is shown as JSON.
    #[must_use]
    pub fn invalid_json(field: impl Into<String>, text: &str, why: &str) -> Self {
        Self::new(field, FieldErrorKind::Invalid, with(&format!("Invalid value: {}", shown_as_json(&text.into())), why))
    }

    /// The same of a value of another type than it must have.
    #[must_use]
    pub fn type_invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self { kind: FieldErrorKind::TypeInvalid, ..Self::invalid(field, value, why) }
    }

    /// `Unsupported value: V: supported values: "a", "b"`, in the order given. The value is of a type of its own in Go, so even a text is shown as JSON.
    #[must_use]
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        Self::unsupported(field, &shown_as_json(value), supported)
    }

    /// The same of a plain string, which Go quotes.
    #[must_use]
    pub fn not_supported_text(field: impl Into<String>, text: &str, supported: &[&str]) -> Self {
        Self::unsupported(field, &quoted(text), supported)
    }

    /// The same of a value of no type of its own, which is shown as in [`Self::invalid`].
    #[must_use]
    pub fn not_supported_value(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        Self::unsupported(field, &shown(value), supported)
    }

    fn unsupported(field: impl Into<String>, shown: &str, supported: &[&str]) -> Self {
        let values: Vec<String> = supported.iter().map(|v| quoted(v)).collect();
        let message = format!("Unsupported value: {shown}: supported values: {}", values.join(", "));
        Self::new(field, FieldErrorKind::NotSupported, message)
    }

    /// `Forbidden: why`.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new(field, FieldErrorKind::Forbidden, with("Forbidden", why))
    }

    /// `Duplicate value: V`.
    #[must_use]
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, FieldErrorKind::Duplicate, format!("Duplicate value: {}", shown(value)))
    }

    /// The same of a text of a type of its own, which Go shows as JSON.
    #[must_use]
    pub fn duplicate_json(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, FieldErrorKind::Duplicate, format!("Duplicate value: {}", shown_as_json(value)))
    }

    /// `Too long: may not be more than N bytes`.
    #[must_use]
    pub fn too_long(field: impl Into<String>, bytes_max: usize) -> Self {
        let bytes = if bytes_max == 1 { "byte" } else { "bytes" };
        Self::new(field, FieldErrorKind::TooLong, format!("Too long: may not be more than {bytes_max} {bytes}"))
    }

    /// `Not found: V`.
    #[must_use]
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, FieldErrorKind::NotFound, format!("Not found: {}", shown(value)))
    }

    /// `Internal error: why`.
    #[must_use]
    pub fn internal(field: impl Into<String>, why: &str) -> Self {
        Self::new(field, FieldErrorKind::Internal, with("Internal error", why))
    }

    /// `Too long: may not be more than N characters`.
    #[must_use]
    pub fn too_long_characters(field: impl Into<String>, max: usize) -> Self {
        let characters = if max == 1 { "character" } else { "characters" };
        Self::new(field, FieldErrorKind::TooLong, format!("Too long: may not be more than {max} {characters}"))
    }

    /// `Too long: value is too long`, of a limit below 0.
    #[must_use]
    pub fn too_long_at_all(field: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::TooLong, "Too long: value is too long".to_owned())
    }

    /// `Too many: N: must have at most M items`.
    #[must_use]
    pub fn too_many(field: impl Into<String>, count: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        Self::new(field, FieldErrorKind::TooMany, format!("Too many: {count}: must have at most {max} {items}"))
    }

    /// `Too many: N: has too many items`, of a limit below 0.
    #[must_use]
    pub fn too_many_at_all(field: impl Into<String>, count: usize) -> Self {
        Self::new(field, FieldErrorKind::TooMany, format!("Too many: {count}: has too many items"))
    }
}

/// The text after `K "name" is invalid: `: one error alone, several in brackets, the same text once (spec api-surface §9.3).
#[must_use]
pub fn joined(errors: &[FieldError]) -> String {
    let mut told = HashSet::new();
    let once = errors.iter().filter(|error| told.insert((&error.field, &error.message)));
    let texts: Vec<String> = once.map(|error| format!("{}: {}", error.field, error.message)).collect();
    if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) }
}

fn shown_as_json(value: &Value) -> String {
    let mut json = Vec::new();
    value_into(value, &mut json);
    String::from_utf8_lossy(&json).into_owned()
}

/// A value inside a message: texts as `strconv.Quote` has them, floats as `fmt` prints them, all else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) if number.is_f64() => number.as_f64().map(format_float).unwrap_or_default(),
        other => shown_as_json(other),
    }
}

fn with(prefix: &str, why: &str) -> String {
    if why.is_empty() { prefix.to_owned() } else { format!("{prefix}: {why}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_text_is_told_once() {
        let error = |field: &str| FieldError::required(field, "");
        assert_eq!(joined(&[error("a")]), "a: Required value");
        assert_eq!(joined(&[error("a"), error("b"), error("a")]), "[a: Required value, b: Required value]");
    }

    #[test]
    fn texts_are_those_of_the_api() {
        let texts = [
            FieldError::required("metadata.name", "name or generateName is required"),
            FieldError::required("spec", ""),
            FieldError::invalid("metadata.name", &json!("Bad_Name\u{1}<"), "no"),
            FieldError::not_supported("fieldValidation", &json!("X<"), &["", "Ignore"]),
            FieldError::not_supported_text("roleRef.kind", "X<", &["Role"]),
            FieldError::invalid("rules[0].nonResourceURLs", &json!(["/<"]), "no"),
            FieldError::duplicate("spec.l[1]", &json!({"k": "1"})),
            FieldError::type_invalid("spec.a", &json!(2_000_000.5), "no"),
            FieldError::not_supported_value("spec.a", &json!("<"), &["1"]),
            FieldError::too_long("metadata.annotations", 262_144),
            FieldError::too_long("a", 1),
            FieldError::too_many("a", 2, 1),
            FieldError::too_many("a", 5, 3),
            FieldError::not_found("a", &json!("b")),
            FieldError::internal("a", "no"),
            FieldError::too_long_characters("a", 2),
        ]
        .map(|e| format!("{}: {}", e.field, e.message));
        assert_eq!(
            texts,
            [
                "metadata.name: Required value: name or generateName is required",
                "spec: Required value",
                r#"metadata.name: Invalid value: "Bad_Name\x01<": no"#,
                r#"fieldValidation: Unsupported value: "X\u003c": supported values: "", "Ignore""#,
                r#"roleRef.kind: Unsupported value: "X<": supported values: "Role""#,
                r#"rules[0].nonResourceURLs: Invalid value: ["/\u003c"]: no"#,
                r#"spec.l[1]: Duplicate value: {"k":"1"}"#,
                "spec.a: Invalid value: 2.0000005e+06: no",
                r#"spec.a: Unsupported value: "<": supported values: "1""#,
                "metadata.annotations: Too long: may not be more than 262144 bytes",
                "a: Too long: may not be more than 1 byte",
                "a: Too many: 2: must have at most 1 item",
                "a: Too many: 5: must have at most 3 items",
                r#"a: Not found: "b""#,
                "a: Internal error: no",
                "a: Too long: may not be more than 2 characters",
            ]
        );
    }

    #[test]
    fn the_same_error_is_told_once() {
        let one = FieldError::forbidden("a", "no");
        assert_eq!(joined(&[one.clone(), one.clone()]), "a: Forbidden: no");
        assert_eq!(joined(&[one.clone(), FieldError::required("b", ""), one]), "[a: Forbidden: no, b: Required value]");
    }
}
