//! What a client is warned of when it writes a definition: formats in its schemas that nobody checks.

use std::collections::BTreeSet;

use serde_json::Value;

use super::tree::{any, list, member, schema_in, text};
use go::quote::quoted;

/// Formats of strings that kube-apiserver 1.36 knows, without their dashes (apiextensions `apiserver/validation/formats.go`).
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Returns one text for each unknown format that a v1 definition has and its predecessor does not, sorted.
#[must_use]
pub fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(unknown_formats).unwrap_or_default();
    let formats = unknown_formats(new);
    formats.difference(&known).map(|format| format!("unrecognized format {}", quoted(format))).collect()
}

fn schemas(object: &Value) -> impl Iterator<Item = &Value> {
    let versions = object.get("spec").map_or(&[][..], |spec| list(spec, "versions"));
    versions.iter().filter_map(|version| schema_in(member(version, "schema")?))
}

fn unknown_formats(object: &Value) -> BTreeSet<String> {
    let found = std::cell::RefCell::new(BTreeSet::new());
    for schema in schemas(object) {
        any(schema, &|inner| {
            let format = text(inner, "format");
            if !format.is_empty() && !is_known(format, text(inner, "type")) {
                found.borrow_mut().insert(format.to_owned());
            }
            false
        });
    }
    found.into_inner()
}

fn is_known(format: &str, kind: &str) -> bool {
    match kind {
        "" | "string" => STRING_FORMATS.contains(&&*format.replace('-', "")),
        "integer" => ["int32", "int64"].contains(&format),
        "number" => ["float", "double"].contains(&format),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::warnings;

    fn definition(formats: &[(&str, &str)]) -> Value {
        let properties: serde_json::Map<String, Value> =
            formats.iter().enumerate().map(|(i, (kind, format))| (format!("p{i}"), json!({"type": kind, "format": format}))).collect();
        json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]}})
    }

    /// As kube-apiserver 1.36.3 warned.
    #[test]
    fn formats_that_nobody_checks() {
        let fine =
            [("string", "date-time"), ("string", "d-a-t-e"), ("string", "k8s-short-name"), ("integer", "int64"), ("number", "float")];
        assert_eq!(warnings(&definition(&fine), None), [""; 0]);
        let odd = [
            ("string", "foo"),
            ("string", "Date"),
            ("string", "int32"),
            ("integer", "double"),
            ("boolean", "date"),
            ("", "nope"),
            ("string", "foo"),
        ];
        let texts = ["Date", "date", "double", "foo", "int32", "nope"].map(|format| format!("unrecognized format \"{format}\""));
        assert_eq!(warnings(&definition(&odd), None), texts);
        assert_eq!(warnings(&definition(&odd), Some(&definition(&odd[1..]))), [""; 0], "foo was there before");
        assert_eq!(warnings(&definition(&odd), Some(&definition(&odd[1..6]))), ["unrecognized format \"foo\""]);
    }
}
