//! Objects that are wrong somewhere: a field of a right one removed, emptied, doubled, renamed, or given a value that is wrong, at an edge or of another field.

use rand::{Rng, seq::IndexedRandom};
use serde_json::{Map, Value, json};

use crate::{make::Maker, place::Path, types::Shape};

/// Depth from which a made struct has few members.
const DEPTH: usize = 2;

const TEXTS: [&str; 36] = [
    "",
    " ",
    "a b",
    "-a",
    "a-",
    "A",
    "Bad_Value!",
    "a..b",
    ".a",
    "a.",
    "a/b/c",
    "a/",
    "/a",
    "/",
    "../a",
    "a/../b",
    "..",
    ".",
    "*",
    "a.*",
    "0",
    "-1",
    "1.2.3.4",
    "256.1.1.1",
    "10.0.0.0/8",
    "10.0.0.1/8",
    "fd00::1",
    "::",
    "100%",
    "101%",
    "http://a.b",
    "https://a.b/c?d",
    "kubernetes.io/x",
    "k8s.io/a",
    "ä",
    "a\n",
];
/// How often the letter stands in texts that are too long for something.
const LENGTHS: [usize; 8] = [16, 64, 129, 254, 257, 1025, 2050, 33_000];
const INTEGERS: [i64; 24] = [
    0,
    1,
    -1,
    2,
    -2,
    10,
    15,
    16,
    99,
    100,
    101,
    255,
    256,
    257,
    1000,
    1001,
    3601,
    65_535,
    65_536,
    100_001,
    600,
    40_000,
    i32::MAX as i64,
    i32::MIN as i64,
];
const KEYS: [&str; 12] = ["", "A_b", "-a", "a/b/c", "/a", "a/", "Ex.io/a", "kubernetes.io/x", "cpu", "a b", "..", "a.b.c"];
const QUANTITIES: [&str; 8] = ["0", "-1", "1m", "1500m", "0.5", "1Ei", "100", "1n"];
/// Items of a list that has too many.
const MANY: [usize; 4] = [17, 33, 65, 129];

impl Maker<'_> {
    /// Makes one field somewhere below one of these members wrong; the place that was changed.
    pub(crate) fn spoil(&mut self, object: &mut Value, kind: &str, members: &[&str]) -> Option<Path> {
        let (path, field, holder) = self.candidate(object, kind, members, true)?;
        let present = path.get(object).filter(|value| !value.is_null()).cloned();
        match present {
            Some(_) if self.rng.random_ratio(1, 6) => path.remove(object),
            Some(_) if self.rng.random_ratio(1, 8) => path.set(object, empty(&field.shape)),
            _ if self.rng.random_ratio(1, 60) => {
                let value = self.pick(&[json!(null), json!(1), json!("x"), json!([]), json!({}), json!(true), json!([1]), json!(1.5)]);
                path.set(object, value);
            }
            Some(value) => {
                let wrong = self.wrong(&value, &field.shape, &holder, &field.name);
                path.set(object, wrong);
            }
            None => {
                let made = self.value(&field.shape, &holder, &field.name, DEPTH);
                let value = if self.rng.random_ratio(1, 3) { self.wrong(&made, &field.shape, &holder, &field.name) } else { made };
                path.set(object, value);
            }
        }
        Some(path)
    }

    /// A value that may be wrong in place of this one.
    fn wrong(&mut self, value: &Value, shape: &Shape, holder: &str, name: &str) -> Value {
        match (shape, value) {
            (Shape::String, Value::String(text)) => self.wrong_text(text, holder, name).into(),
            (Shape::Int32 | Shape::Int64, _) => self.wrong_integer(value.as_i64().unwrap_or(0)).into(),
            (Shape::IntOrString, _) if self.rng.random() => self.pick(&INTEGERS).into(),
            (Shape::IntOrString, _) => self.pick(&TEXTS).into(),
            (Shape::Quantity, _) => self.pick(&QUANTITIES).into(),
            (Shape::Boolean, Value::Bool(is)) => (!is).into(),
            (Shape::Array(of), Value::Array(items)) => self.wrong_items(items, of, holder, name),
            (Shape::Map(of), Value::Object(entries)) => self.wrong_entries(entries, of, holder, name),
            (Shape::Struct(_), Value::Object(_)) if self.rng.random_ratio(1, 3) => json!({}),
            _ => self.value(shape, holder, name, DEPTH),
        }
    }

    fn wrong_text(&mut self, text: &str, holder: &str, name: &str) -> String {
        match self.rng.random_range(0..10) {
            0 => format!("{text}{}", self.pick(&["!", " ", "/", ".", "-", "x", "A", "\u{e9}", ",", ":1"])),
            1 => format!("{}{text}", self.pick(&["-", "/", ".", "x", "X", "*.", " ", "a/"])),
            2 => text.to_uppercase(),
            3 => "a".repeat(self.pick(&LENGTHS)),
            4 => self.text(holder, name),
            _ => self.pick(&TEXTS).to_owned(),
        }
    }

    fn wrong_integer(&mut self, value: i64) -> i64 {
        match self.rng.random_range(0..8) {
            0 => value.saturating_add(1),
            1 => value.saturating_neg(),
            _ => self.pick(&INTEGERS),
        }
    }

    fn wrong_items(&mut self, items: &[Value], of: &Shape, holder: &str, name: &str) -> Value {
        let mut items = items.to_vec();
        let at = if items.is_empty() { None } else { Some(self.rng.random_range(0..items.len())) };
        match (self.rng.random_range(0..8), at) {
            (0..=1, Some(at)) => items.push(items[at].clone()),
            (2..=4, Some(at)) => items[at] = self.wrong(&items[at].clone(), of, holder, name),
            (5, Some(at)) => drop(items.remove(at)),
            (6, Some(at)) => {
                let count = self.pick(&MANY);
                items = vec![items[at].clone(); count];
            }
            (7, Some(at)) => items[at] = empty(of),
            _ => items.push(self.value(of, holder, name, DEPTH)),
        }
        items.into()
    }

    fn wrong_entries(&mut self, entries: &Map<String, Value>, of: &Shape, holder: &str, name: &str) -> Value {
        let mut entries = entries.clone();
        let keys: Vec<String> = entries.keys().cloned().collect();
        let key = keys.choose(&mut self.rng).cloned();
        match (self.rng.random_range(0..5), key) {
            (0..=1, Some(key)) => {
                let value = self.wrong(&entries[&key].clone(), of, holder, name);
                entries.insert(key, value);
            }
            (2, Some(key)) => {
                let value = entries.remove(&key).unwrap_or(Value::Null);
                let renamed = self.wrong_text(&key, holder, name);
                entries.insert(renamed, value);
            }
            (3, Some(key)) => drop(entries.remove(&key)),
            _ => {
                let (key, value) = (self.pick(&KEYS).to_owned(), self.value(of, holder, name, DEPTH));
                entries.insert(key, value);
            }
        }
        Value::Object(entries)
    }
}

/// The empty value of a shape.
fn empty(shape: &Shape) -> Value {
    match shape {
        Shape::Int32 | Shape::Int64 | Shape::Number | Shape::IntOrString => json!(0),
        Shape::Boolean => json!(false),
        Shape::Array(_) => json!([]),
        Shape::Map(_) | Shape::Struct(_) | Shape::Any => json!({}),
        Shape::Quantity => json!("0"),
        Shape::Time | Shape::MicroTime => Value::Null,
        Shape::String | Shape::Bytes => json!(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Types;

    #[test]
    fn only_the_members_that_were_asked_for_are_spoilt() {
        let types = Types::parse("a.B v1/B\n c string\n d a.C\na.C\n e string\n f [string]\n g {string}\n h int32\n i a.C\n");
        let mut maker = Maker::new(&types, 1);
        let right = json!({"c": "x", "d": {"e": "y", "f": ["a", "b"], "g": {"k": "v"}, "h": 3}});
        let (mut changed, mut shorter) = (0, 0);
        for _ in 0..400 {
            let mut object = right.clone();
            let path = maker.spoil(&mut object, "a.B", &["d"]).expect("a place");
            assert_eq!((object["c"].as_str(), path.pointer().starts_with("/d")), (Some("x"), true));
            changed += usize::from(object != right);
            shorter += usize::from(object.to_string().len() < right.to_string().len());
        }
        assert!(changed > 300 && shorter > 40, "{changed} {shorter}");
    }
}
