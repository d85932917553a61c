//! Values as Go's `%v` prints them inside error messages.

use serde_json::{Number, Value};

/// `map[a:1 b:[x y]]`: no quotes, members by name.
pub(crate) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => printed_number(number),
        Value::String(text) => text.clone(),
        Value::Array(elements) => printed_list(elements),
        Value::Object(members) => {
            let members: Vec<_> = members.iter().map(|(name, member)| format!("{name}:{}", printed(member))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// `[a b]`.
pub(super) fn printed_list(elements: &[Value]) -> String {
    format!("[{}]", elements.iter().map(printed).collect::<Vec<_>>().join(" "))
}

/// As Go's `%s` prints a value that should have been a string.
pub(super) fn printed_as_string(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(value) => format!("%!s(bool={value})"),
        Value::Number(number) => format!("%!s({}={})", go_type(value), printed_number(number)),
        Value::String(text) => text.clone(),
        Value::Array(elements) => format!("[{}]", elements.iter().map(printed_as_string).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let members: Vec<_> = members.iter().map(|(name, member)| format!("{name}:{}", printed_as_string(member))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// The Go type of a decoded JSON value, as `reflect` names it.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go's shortest form; a float has an exponent below 10^-4 and from 10^6 on.
fn printed_number(number: &Number) -> String {
    let Some(value) = number.as_f64().filter(|_| !number.is_i64()) else { return number.to_string() };
    if value == 0.0 || (1e-4..1e6).contains(&value.abs()) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let value = json!({"b": ["x", null, true], "a": {"n": 1, "f": 1.5}, "c": 1e21, "d": 0.00001, "e": 100_000_000.0, "g": 123_456.7, "h": u64::MAX});
        assert_eq!(printed(&value), "map[a:map[f:1.5 n:1] b:[x <nil> true] c:1e+21 d:1e-05 e:1e+08 g:123456.7 h:1.8446744073709552e+19]");
        assert_eq!(printed_as_string(&json!([1, null, "a", false])), "[%!s(int64=1) %!s(<nil>) a %!s(bool=false)]");
    }
}
