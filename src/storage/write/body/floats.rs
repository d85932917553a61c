//! Floats without a fraction: Go stores them as integers, and judges them as floats.

use serde_json::{Number, Value};

use go::yaml::reader::whole;

/// Bytes of the paths of such floats that are remembered of one body; ours. Those after that are told as integers.
const FLOATS_BYTES_MAX: usize = 1 << 20;

/// Where a body had floats without a fraction, as JSON pointers.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Floats(Vec<(String, f64)>);

/// Makes integers of the floats without a fraction, as Go does when it prints an untyped object: custom resources. Those beyond int64 stay floats. Tells where
/// they were.
pub(crate) fn whole_floats(value: &mut Value) -> Floats {
    let mut made = Made { path: String::new(), pointers: Vec::new(), bytes: 0 };
    if has_whole_float(value) {
        made.whole(value);
    }
    Floats(made.pointers)
}

impl Floats {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes floats again of the integers that stand where floats were.
    pub(crate) fn put_back(&self, value: &mut Value) {
        for (pointer, sent) in &self.0 {
            if let Some(place @ Value::Number(_)) = value.pointer_mut(pointer)
                && let Some(float) = place.as_i64().and_then(|_| place.as_f64())
            {
                // 0 was -0, too.
                let float = if float == 0.0 && *sent == 0.0 { *sent } else { float };
                *place = float.into();
            }
        }
    }
}

fn whole_of(value: &Value) -> Option<(i64, f64)> {
    let float = value.as_number().filter(|number| number.is_f64()).and_then(Number::as_f64)?;
    Some((whole(float)?, float))
}

fn has_whole_float(value: &Value) -> bool {
    match value {
        Value::Number(_) => whole_of(value).is_some(),
        Value::Array(items) => items.iter().any(has_whole_float),
        Value::Object(members) => members.values().any(has_whole_float),
        _ => false,
    }
}

struct Made {
    path: String,
    pointers: Vec<(String, f64)>,
    bytes: usize,
}

impl Made {
    fn whole(&mut self, value: &mut Value) {
        match value {
            Value::Number(_) => {
                let Some((whole, float)) = whole_of(value) else { return };
                *value = whole.into();
                self.bytes += self.path.len();
                if self.bytes <= FLOATS_BYTES_MAX {
                    self.pointers.push((self.path.clone(), float));
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    self.below(&at.to_string(), item);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    self.below(&name.replace('~', "~0").replace('/', "~1"), member);
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, name: &str, value: &mut Value) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(name);
        self.whole(value);
        self.path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_floats_become_integers_and_floats_again() {
        let sent = json!({"a": 2.0, "b": [1.5, -3.0, {"c/d~": 1e3}], "e": 1e300, "f": 7, "g": "2.0"});
        let mut value = sent.clone();
        let floats = whole_floats(&mut value);
        assert_eq!(value, json!({"a": 2, "b": [1.5, -3, {"c/d~": 1000}], "e": 1e300, "f": 7, "g": "2.0"}));
        let mut again = value.clone();
        floats.put_back(&mut again);
        assert_eq!(again, sent);
        let mut large = json!([-0.0, 1e21, 9_223_372_036_854_775_808_f64]);
        let signed = whole_floats(&mut large);
        assert_eq!(large.to_string(), "[0,1e+21,9.223372036854776e+18]");
        signed.put_back(&mut large);
        assert_eq!(large.to_string(), "[-0.0,1e+21,9.223372036854776e+18]");
        let mut other = json!({"a": "x", "b": [0]});
        floats.put_back(&mut other);
        assert_eq!(other, json!({"a": "x", "b": [0]}), "what is something else by now stays it");
        assert!(whole_floats(&mut value).is_empty());
    }
}
