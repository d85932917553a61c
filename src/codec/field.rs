//! Declared fields: which paths a storage asks for, and how what stands there is written for a selector (spec list-watch §7.3).

use std::borrow::Cow;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::members::Members;
use model::{FieldPath, Text};

/// From so many bytes on the digest of a value is kept.
const VALUE_BYTES_MAX: usize = 1 << 10;

/// Every path the fields read, in the order in which [`rendered`] takes what was found there.
pub(crate) fn paths(fields: &[FieldPath]) -> Vec<&[String]> {
    let mut paths = Vec::with_capacity(fields.len());
    fields.iter().for_each(|field| add(field, &mut paths));
    paths
}

fn add<'s>(field: &'s FieldPath, paths: &mut Vec<&'s [String]>) {
    match field {
        FieldPath::Scalar(path) | FieldPath::Bool(path) | FieldPath::Int(path) | FieldPath::FirstElement(path, _) => paths.push(path),
        FieldPath::FirstOf(fields) => fields.iter().for_each(|field| add(field, paths)),
        FieldPath::AlwaysEmpty => {}
    }
}

/// The values of the fields; `found` has one JSON text for each path of [`paths`].
pub(crate) fn rendered<'a>(fields: &[FieldPath], found: &[Option<&'a str>]) -> Vec<Cow<'a, str>> {
    let mut found = found.iter().copied();
    fields.iter().map(|field| compared(one(field, &mut found))).collect()
}

/// A value of a field as it is kept and compared: a long one as its digest, for a selector asks only whether two are equal. A default of a megabyte would be
/// kept with every object.
#[must_use]
pub fn compared(value: Cow<'_, str>) -> Cow<'_, str> {
    if value.len() <= VALUE_BYTES_MAX {
        return value;
    }
    let digest = Sha256::digest(value.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    // No text of a selector has it, and no sane one of an object.
    Cow::Owned(format!("\0{hex}"))
}

fn one<'a>(field: &FieldPath, found: &mut impl Iterator<Item = Option<&'a str>>) -> Cow<'a, str> {
    match field {
        FieldPath::AlwaysEmpty => Cow::Borrowed(""),
        FieldPath::FirstOf(fields) => {
            fields.iter().map(|field| one(field, found)).reduce(|a, b| if a.is_empty() { b } else { a }).unwrap_or_default()
        }
        FieldPath::Scalar(_) => found.next().flatten().map_or(Cow::Borrowed(""), scalar),
        FieldPath::Bool(_) => Cow::Borrowed(if found.next().flatten() == Some("true") { "true" } else { "false" }),
        FieldPath::Int(_) => match found.next().flatten().map_or(Cow::Borrowed(""), scalar) {
            text if text.is_empty() => Cow::Borrowed("0"),
            text => text,
        },
        FieldPath::FirstElement(_, member) => found.next().flatten().and_then(|array| first_element(array, member)).unwrap_or_default(),
    }
}

/// A string without its quotes, a number or boolean as Go's `%v` prints it; null, objects and arrays as nothing.
fn scalar(text: &str) -> Cow<'_, str> {
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<Text<'_>>(text).map_or(Cow::Borrowed(""), |text| text.0),
        Some(b'{' | b'[' | b'n') | None => Cow::Borrowed(""),
        Some(b't' | b'f') => Cow::Borrowed(text),
        Some(_) if text.parse::<i64>().is_ok() => Cow::Borrowed(text),
        Some(_) => text.parse::<f64>().map_or(Cow::Borrowed(text), |f| Cow::Owned(float(f))),
    }
}

/// Go's `%v` of a float64: the shortest digits, an exponent of two digits at least below 1e-4 and from 1e21 on.
fn float(f: f64) -> String {
    if f == 0.0 || (1e-4..1e21).contains(&f.abs()) {
        return f.to_string();
    }
    let text = format!("{f:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

fn first_element<'a>(array: &'a str, member: &str) -> Option<Cow<'a, str>> {
    let items: Vec<&'a RawValue> = serde_json::from_str(array).ok()?;
    Members::read(items.first()?.get()).ok()?.raw(member).map(scalar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_written_as_go_does() {
        for (json, text) in [
            (r#""a""#, "a"),
            (r#""\u00e9\n""#, "é\n"),
            ("5", "5"),
            ("5.0", "5"),
            ("1.5", "1.5"),
            ("1e21", "1e+21"),
            ("1e20", "100000000000000000000"),
            ("0.00001", "1e-05"),
            ("true", "true"),
            ("false", "false"),
            ("null", ""),
            ("{}", ""),
            ("[1]", ""),
        ] {
            assert_eq!(scalar(json), text, "{json}");
        }
    }

    #[test]
    fn fields_take_their_paths_in_order() {
        let path = |name: &str| vec![name.to_owned()];
        let fields = [
            FieldPath::FirstOf(vec![FieldPath::Scalar(path("a")), FieldPath::Scalar(path("b"))]),
            FieldPath::AlwaysEmpty,
            FieldPath::FirstElement(path("c"), "ip".to_owned()),
            FieldPath::Bool(path("d")),
            FieldPath::Int(path("e")),
        ];
        assert_eq!(paths(&fields).len(), 5);
        let some = rendered(&fields, &[Some("\"\""), Some("\"b\""), Some(r#"[{"ip":"10.0.0.1"},{"ip":"::1"}]"#), Some("true"), Some("3")]);
        assert_eq!(some.iter().map(|v| &**v).collect::<Vec<_>>(), ["b", "", "10.0.0.1", "true", "3"]);
        let none = rendered(&fields, &[None; 5]);
        assert_eq!(none.iter().map(|v| &**v).collect::<Vec<_>>(), ["", "", "", "false", "0"]);
    }
}
