//! JSON as Go's `encoding/json` writes it: its escapes, its numbers, sorted keys. Knows values, not what they mean.

use serde_json::{Number, Value};

pub use crate::quote::json_into as string_into;

/// Appends `value` compactly, keys sorted by bytes: the form of a custom resource.
pub fn value_into(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => number_into(number, out),
        Value::String(text) => string_into(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                value_into(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (i, (name, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                string_into(name, out);
                out.push(b':');
                value_into(value, out);
            }
            out.push(b'}');
        }
    }
}

/// Integers as they are; a float by Go's rule: the shortest digits that read back, an exponent below 1e-6 and from 1e21 on, and `1` for `1.0`.
fn number_into(number: &Number, out: &mut Vec<u8>) {
    let text = match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(n), _, _) => n.to_string(),
        (_, Some(n), _) => n.to_string(),
        (_, _, Some(f)) => go_float(f),
        _ => number.to_string(),
    };
    out.extend_from_slice(text.as_bytes());
}

/// What `encoding/json` calls a value of this type where it tells that the type is wrong.
#[must_use]
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Appends a float by that rule.
pub fn float_into(f: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(go_float(f).as_bytes());
}

/// A float by Go's rule for JSON.
#[must_use]
pub fn go_float(f: f64) -> String {
    if f != 0.0 && !(1e-6..1e21).contains(&f.abs()) {
        let text = format!("{f:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
            _ => text,
        }
    } else {
        format!("{f}")
    }
}

/// Digits of a revision, as many bytes as [`revision_into`] appends.
#[must_use]
pub fn revision_len(revision: u64) -> usize {
    revision.checked_ilog10().map_or(1, |digits| digits as usize + 1)
}

/// Appends the decimal digits, without an allocation.
pub fn revision_into(revision: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let mut rest = revision;
    loop {
        out.push(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out[start..].reverse();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encoded(value: &Value) -> String {
        let mut out = Vec::new();
        value_into(value, &mut out);
        String::from_utf8(out).expect("the encoder writes UTF-8")
    }

    #[test]
    fn strings_are_those_of_go() {
        for line in include_str!("../../tests/data/codec/go.strings").lines() {
            let (plain, go) = line.split_once('\t').expect("two columns");
            let value: Value = serde_json::from_str(plain).expect("JSON");
            assert_eq!(encoded(&value), go);
        }
    }

    #[test]
    fn numbers_are_those_of_go() {
        for line in include_str!("../../tests/data/codec/go.numbers").lines() {
            let (bits, go) = line.split_once('\t').expect("two columns");
            let f = f64::from_bits(u64::from_str_radix(bits, 16).expect("hex"));
            assert_eq!(encoded(&json!(f)), go);
            assert_eq!(serde_json::from_str::<f64>(go).expect("a number").to_bits(), f.to_bits(), "reading back must not move a float");
        }
        assert_eq!(encoded(&json!([1.0, -0.0, u64::MAX, i64::MIN])), "[1,-0,18446744073709551615,-9223372036854775808]");
    }

    #[test]
    fn digits() {
        for n in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX] {
            let mut out = Vec::new();
            revision_into(n, &mut out);
            assert_eq!((out.len(), out), (revision_len(n), n.to_string().into_bytes()));
        }
    }
}
