//! Values as Go's `%#v` prints them in messages.

use serde_json::Value;

use crate::{quote::quoted, strconv::format_float};

/// What a value of a document is in a message.
pub(super) fn of(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        other => inside(other),
    }
}

fn inside(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => format_float(float),
            _ => number.to_string(),
        },
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[]interface {{}}{{{}}}", items.iter().map(inside).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            let members: Vec<_> = members.into_iter().map(|(name, value)| format!("{}:{}", quoted(name), inside(value))).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", members.join(", "))
        }
    }
}
