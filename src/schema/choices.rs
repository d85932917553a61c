//! `enum`: the values that there are.

use std::collections::HashSet;

use go::json::value_into;
use serde_json::{Number, Value};

/// From this number on texts are looked up.
const MANY: usize = 16;

/// The values of an `enum`.
#[derive(Debug)]
pub(crate) struct Choices {
    values: Box<[Value]>,
    /// Of many values only.
    many: Option<Many>,
}

/// What many values are looked up in.
#[derive(Debug)]
struct Many {
    texts: HashSet<Box<str>>,
    /// Which of all a number may be.
    numbers: Box<[usize]>,
}

impl Choices {
    pub(crate) fn new(values: Box<[Value]>) -> Self {
        let texts = || values.iter().filter_map(Value::as_str).map(Box::from).collect();
        let may_be_number = |value: &Value| value.is_number() || value.as_str().is_some_and(|text| text.chars().nth(1).is_none());
        let numbers = || values.iter().enumerate().filter(|(_, value)| may_be_number(value)).map(|(at, _)| at).collect();
        Self { many: (values.len() >= MANY).then(|| Many { texts: texts(), numbers: numbers() }), values }
    }

    /// Returns the bytes of the longest text.
    pub(crate) fn longest_text(&self) -> usize {
        self.values.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or_default()
    }

    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }

    /// Whether a value is one of them. As in Go a number is converted to the type of each of them: an integer to the text of the character that it numbers,
    /// too.
    pub(crate) fn have(&self, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::String(text) => match &self.many {
                Some(many) => many.texts.contains(&**text),
                None => self.values.contains(value),
            },
            Value::Number(number) => match &self.many {
                Some(many) => many.numbers.iter().any(|at| is_converted(number, &self.values[*at])),
                None => self.values.iter().any(|choice| is_converted(number, choice)),
            },
            _ => self.values.contains(value),
        }
    }

    /// What it may take to look for a value, in visits of nodes.
    pub(crate) fn work(&self, value: &Value) -> u64 {
        let compared = match (value, &self.many) {
            (Value::String(_), Some(_)) => 1,
            (Value::Number(_), Some(many)) => many.numbers.len(),
            _ => self.values.len(),
        };
        compared as u64
    }

    /// All of them, as they are told.
    pub(crate) fn told(&self) -> Vec<String> {
        let told = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => {
                let mut json = Vec::new();
                value_into(other, &mut json);
                String::from_utf8_lossy(&json).into_owned()
            }
        };
        self.values.iter().map(told).collect()
    }
}

/// Whether a number is a choice once it is converted to its type.
fn is_converted(number: &Number, choice: &Value) -> bool {
    match choice {
        Value::Number(choice) => match (number.as_i64(), choice.as_i64()) {
            (Some(number), Some(choice)) => number == choice,
            (None, Some(choice)) => number.as_f64().is_some_and(|number| crate::numbers::truncated(number) == choice),
            _ => number.as_f64() == choice.as_f64(),
        },
        Value::String(text) => number.as_i64().is_some_and(|number| {
            let c = u32::try_from(number).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            let mut chars = text.chars();
            chars.next() == Some(c) && chars.next().is_none()
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_converted_as_in_go() {
        let choices = |values: Value| Choices::new(serde_json::from_value(values).expect("a list"));
        for (values, value, want) in [
            (json!(["a", 1]), json!("a"), true),
            (json!(["a", 1]), json!(1), true),
            (json!(["a", 1]), json!(1.5), true),
            (json!(["a", 1.5]), json!(1), false),
            (json!([2.0]), json!(2), true),
            (json!(["A"]), json!(65), true),
            (json!(["AB"]), json!(65), false),
            (json!([null]), json!(null), false),
            (json!([{"a": 1}, [1]]), json!([1]), true),
            (json!([{"a": 1}]), json!({"a": 2}), false),
            (json!([true]), json!(true), true),
        ] {
            assert_eq!(choices(values.clone()).have(&value), want, "{values} {value}");
        }
        let many: Value = (0..100).map(|i| format!("v{i}")).collect();
        let many = choices(many);
        assert!(many.have(&json!("v99")) && !many.have(&json!("v100")) && many.work(&json!("v1")) == 1);
        assert_eq!(choices(json!(["a", 1, {"b": "<"}])).told(), ["a", "1", r#"{"b":"\u003c"}"#]);
    }
}
