//! Order, equality and texts of JSON values as structured-merge-diff has them: numbers are compared by their worth, whatever their type.

use std::{cmp::Ordering, fmt::Write as _};

use go::quote::quoted;
use serde_json::{Map, Number, Value};

/// A number as the library sees it: an integer of 64 bits, or a float.
#[derive(Clone, Copy)]
enum Numeric {
    Int(i64),
    Float(f64),
}

fn numeric(number: &Number) -> Numeric {
    number.as_i64().map_or_else(|| Numeric::Float(number.as_f64().unwrap_or(f64::INFINITY)), Numeric::Int)
}

#[expect(clippy::cast_precision_loss, reason = "Go converts an integer to a float to compare it with one")]
fn float(number: Numeric) -> f64 {
    match number {
        Numeric::Int(int) => int as f64,
        Numeric::Float(float) => float,
    }
}

/// Where a type stands among the others: numbers, strings, booleans, lists, maps, null.
const fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Compares two values: by type first, then by worth.
#[must_use]
pub fn compare(lhs: &Value, rhs: &Value) -> Ordering {
    match (lhs, rhs) {
        (Value::Number(lhs), Value::Number(rhs)) => compare_numbers(lhs, rhs),
        (Value::String(lhs), Value::String(rhs)) => lhs.cmp(rhs),
        (Value::Bool(lhs), Value::Bool(rhs)) => lhs.cmp(rhs),
        (Value::Array(lhs), Value::Array(rhs)) => compare_lists(lhs, rhs),
        (Value::Object(lhs), Value::Object(rhs)) => compare_maps(lhs, rhs),
        _ => rank(lhs).cmp(&rank(rhs)),
    }
}

fn compare_numbers(lhs: &Number, rhs: &Number) -> Ordering {
    match (numeric(lhs), numeric(rhs)) {
        (Numeric::Int(lhs), Numeric::Int(rhs)) => lhs.cmp(&rhs),
        (lhs, rhs) => float(lhs).partial_cmp(&float(rhs)).unwrap_or(Ordering::Equal),
    }
}

fn compare_lists(lhs: &[Value], rhs: &[Value]) -> Ordering {
    let first = lhs.iter().zip(rhs).map(|(lhs, rhs)| compare(lhs, rhs)).find(|order| order.is_ne());
    first.unwrap_or_else(|| lhs.len().cmp(&rhs.len()))
}

/// Goes through the names of both in order. The one that has fewer members is less as soon as as many names as it has members went by.
fn compare_maps(lhs: &Map<String, Value>, rhs: &Map<String, Value>) -> Ordering {
    let (mut left, mut right) = (lhs.iter().peekable(), rhs.iter().peekable());
    let mut passed = 0;
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return Ordering::Equal,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((lname, _)), Some((rname, _))) => lname.cmp(rname),
        };
        if passed == lhs.len() {
            return Ordering::Less;
        }
        if passed == rhs.len() {
            return Ordering::Greater;
        }
        match order {
            // A name that only one of them has.
            Ordering::Less => return Ordering::Less,
            Ordering::Greater => return Ordering::Greater,
            Ordering::Equal => {}
        }
        if let (Some((_, lvalue)), Some((_, rvalue))) = (left.next(), right.next()) {
            let order = compare(lvalue, rvalue);
            if order.is_ne() {
                return order;
            }
        }
        passed += 1;
    }
}

/// Whether two values are the same; `1` is `1.0`.
#[must_use]
pub fn equals(lhs: &Value, rhs: &Value) -> bool {
    match (lhs, rhs) {
        (Value::Null, Value::Null) => true,
        (Value::Number(lhs), Value::Number(rhs)) => compare_numbers(lhs, rhs).is_eq(),
        (Value::String(lhs), Value::String(rhs)) => lhs == rhs,
        (Value::Bool(lhs), Value::Bool(rhs)) => lhs == rhs,
        (Value::Array(lhs), Value::Array(rhs)) => lhs.len() == rhs.len() && lhs.iter().zip(rhs).all(|(lhs, rhs)| equals(lhs, rhs)),
        (Value::Object(lhs), Value::Object(rhs)) => {
            lhs.len() == rhs.len() && lhs.iter().zip(rhs).all(|((lname, lvalue), (rname, rvalue))| lname == rname && equals(lvalue, rvalue))
        }
        _ => false,
    }
}

/// A value as a path shows it.
pub(crate) fn text(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => number_text(number, out),
        Value::String(string) => out.push_str(&quoted(string)),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                text(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            for (name, member) in members {
                out.push_str(name);
                out.push('=');
                text(member, out);
            }
        }
    }
}

/// A number as Go's `%v` prints it: a float with the fewest digits that read back, in scientific form below 1e-4 and from 1e6 on.
fn number_text(number: &Number, out: &mut String) {
    match numeric(number) {
        Numeric::Int(int) => push(out, format_args!("{int}")),
        Numeric::Float(float) => {
            let scientific = format!("{float:e}");
            let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
            let exponent: i32 = exponent.parse().unwrap_or(0);
            if (-4..EXPONENT_MAX).contains(&exponent) {
                push(out, format_args!("{float}"));
            } else {
                push(out, format_args!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()));
            }
        }
    }
}

/// The exponent from which on Go's `%v` prints a float in scientific form.
const EXPONENT_MAX: i32 = 6;

/// What Go calls the type of a value that was decoded from JSON: `%T`.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if matches!(numeric(number), Numeric::Int(_)) => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as the library prints the pointer to it: `%v`.
pub(crate) fn go_value(value: &Value) -> String {
    let mut out = String::from("&{");
    plain(value, &mut out);
    out.push('}');
    out
}

fn plain(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(flag) => push(out, format_args!("{flag}")),
        Value::Number(number) => number_text(number, out),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { " " } else { "" });
                plain(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push_str("map[");
            for (at, (name, member)) in members.iter().enumerate() {
                out.push_str(if at > 0 { " " } else { "" });
                out.push_str(name);
                out.push(':');
                plain(member, out);
            }
            out.push(']');
        }
    }
}

/// A value as the library prints it with its type: `%#v`.
pub(crate) fn go_syntax(value: &Value) -> String {
    let mut out = String::from("&value.valueUnstructured{Value:");
    syntax(value, &mut out);
    out.push('}');
    out
}

fn syntax(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("interface {}(nil)"),
        Value::String(text) => out.push_str(&quoted(text)),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                syntax(item, out);
            }
            out.push('}');
        }
        Value::Object(members) => {
            out.push_str("map[string]interface {}{");
            for (at, (name, member)) in members.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(&quoted(name));
                out.push(':');
                syntax(member, out);
            }
            out.push('}');
        }
        Value::Bool(_) | Value::Number(_) => plain(value, out),
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_stand_in_their_order() {
        let ordered = [
            json!(-1),
            json!(0.5),
            json!(1),
            json!(2.5),
            json!(""),
            json!("b"),
            json!(false),
            json!(true),
            json!([]),
            json!([1]),
            json!([1, 2]),
            json!([2]),
            json!({}),
            json!({"a": 1}),
            json!({"a": 1, "b": 1}),
            json!({"a": 2}),
            json!({"b": 0}),
            Value::Null,
        ];
        for (i, lhs) in ordered.iter().enumerate() {
            for (j, rhs) in ordered.iter().enumerate() {
                assert_eq!(compare(lhs, rhs), i.cmp(&j), "{lhs} {rhs}");
                assert_eq!(equals(lhs, rhs), i == j, "{lhs} {rhs}");
            }
        }
        assert!(equals(&json!(1), &json!(1.0)) && compare(&json!(1), &json!(1.0)).is_eq());
    }

    #[test]
    fn texts_are_those_of_go() {
        let shown = |value: Value| {
            let mut out = String::new();
            text(&value, &mut out);
            out
        };
        let numbers = [(json!(8080.0), "8080"), (json!(1e6), "1e+06"), (json!(123_456.0), "123456"), (json!(0.00001), "1e-05")];
        for (number, expected) in numbers {
            assert_eq!(shown(number), expected);
        }
        assert_eq!(shown(json!("a\"b")), r#""a\"b""#);
        assert_eq!(shown(json!([1, {"a": null}])), "[1,a=null]");
        assert_eq!(go_value(&json!({"a": null, "b": [1, "x"]})), "&{map[a:<nil> b:[1 x]]}");
        let syntax = go_syntax(&json!({"a": null, "b": 1e6, "c": [], "d": ["e"]}));
        assert_eq!(
            syntax,
            r#"&value.valueUnstructured{Value:map[string]interface {}{"a":interface {}(nil), "b":1e+06, "c":[]interface {}{}, "d":[]interface {}{"e"}}}"#
        );
        assert_eq!(go_type(&json!({})), "map[string]interface {}");
    }
}
