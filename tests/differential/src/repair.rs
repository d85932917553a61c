//! What to do about an object that was refused: the fields that the causes name are dropped, or get a value that is supported.

use rand::Rng;
use serde_json::Value;

use crate::{
    make::Maker,
    place::{Path, Step},
};

/// Repairs an object by the causes of a Status; `base` is one that was accepted, `attempt` counts from 0: later ones go further up. False when nothing is
/// named.
pub(crate) fn repair(maker: &mut Maker<'_>, object: &mut Value, base: &Value, kind: &str, status: &str, attempt: usize) -> bool {
    let status: Value = serde_json::from_str(status).unwrap_or(Value::Null);
    let Some(Value::Array(causes)) = status.pointer("/details/causes").cloned() else { return false };
    for cause in &causes {
        let text = |name: &str| cause.get(name).and_then(Value::as_str).unwrap_or("");
        let mut path = Path::parse(text("field"));
        let supported = supported(text("message"));
        if attempt < 2 && !supported.is_empty() && path.get(object).is_some() {
            if let Some((holder, field)) = path.field(maker.types, kind) {
                maker.learn(&holder, &field, supported.clone());
            }
            let value = maker.pick(&supported);
            path.set(object, value.into());
            continue;
        }
        if attempt < 3 && text("reason") == "FieldValueRequired" && maker.rng.random() && complete(maker, object, kind, &path) {
            continue;
        }
        path.0.truncate(path.0.len().saturating_sub(attempt / 2).max(1));
        reset(object, base, &path);
    }
    !causes.is_empty()
}

/// Gives a field that is required a value.
fn complete(maker: &mut Maker<'_>, object: &mut Value, kind: &str, path: &Path) -> bool {
    let Some((holder, field)) = path.field(maker.types, kind) else { return false };
    let Some(shape) = maker.types.field(&holder, &field).map(|field| field.shape.clone()) else { return false };
    let value = maker.value(&shape, &holder, &field, 2);
    path.set(object, value);
    true
}

/// Makes a place what it is in the base, and what the base does not have disappear.
fn reset(object: &mut Value, base: &Value, path: &Path) {
    let mut path = path.clone();
    while path.0.len() > 1 && path.get(object).is_none() {
        path.0.pop();
    }
    match path.get(base) {
        Some(value) => path.set(object, value.clone()),
        None if path.0.first() == Some(&Step::Member("metadata".to_owned())) && path.0.len() == 1 => {}
        None => path.remove(object),
    }
}

/// The values after `supported values:`.
fn supported(message: &str) -> Vec<String> {
    let Some((_, list)) = message.split_once("supported values: ") else { return Vec::new() };
    list.split(", ").map(|value| value.trim_matches('"').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::types::Types;

    #[test]
    fn what_is_named_is_repaired() {
        let types = Types::parse("a.B v1/B\n c string\n d a.C\na.C\n e string\n f [string]\n");
        let mut maker = Maker::new(&types, 1);
        let mut object = json!({"c": "x", "d": {"e": "y", "f": ["a", "b"]}});
        let status = json!({"details": {"causes": [
            {"field": "c", "message": "Unsupported value: \"x\": supported values: \"u\""}, {"field": "d.f[1]", "message": "m"}, {"field": "d.e", "message": "m"}]}});
        assert!(repair(&mut maker, &mut object, &json!({"d": {"e": "z"}}), "a.B", &status.to_string(), 0));
        assert_eq!(object, json!({"c": "u", "d": {"e": "z", "f": ["a"]}}));
        assert!(!repair(&mut maker, &mut object, &json!({}), "a.B", "no JSON", 0));
    }
}
