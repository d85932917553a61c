//! JSON merge patch, RFC 7386, as the real server applies it: nulls also vanish from objects inside lists.

use serde_json::{Map, Value};

use super::PatchError;
use crate::write::{
    body::{Duplicate, parse_patch},
    options::FieldValidation,
};

/// Applies a patch.
///
/// # Errors
/// `BadRequest` when it is no JSON object; without validation of fields a list replaces the whole, as it does in the real server.
pub(crate) fn apply(target: &Value, patch: &[u8], validation: FieldValidation) -> Result<(Value, Vec<Duplicate>), PatchError> {
    let lenient = validation == FieldValidation::Ignore;
    let refused = |cause: String| {
        PatchError::BadRequest(if lenient { "Invalid JSON Patch".to_owned() } else { format!("error decoding patch: {cause}") })
    };
    let (value, duplicates) = parse_patch(patch, "value").map_err(refused)?;
    match value {
        Value::Object(members) => {
            let mut merged = target.clone();
            merge(&mut merged, members);
            Ok((merged, duplicates))
        }
        Value::Array(_) if lenient => Ok((pruned(value), duplicates)),
        Value::Null => Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
        other => Err(refused(format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", go::json::kind(&other)))),
    }
}

fn merge(target: &mut Value, patch: Map<String, Value>) {
    let Value::Object(members) = target else {
        *target = pruned(Value::Object(patch));
        return;
    };
    for (key, value) in patch {
        match (value, members.get_mut(&key)) {
            (Value::Null, _) => {
                members.remove(&key);
            }
            (Value::Object(patch), Some(old)) => merge(old, patch),
            (value, _) => {
                members.insert(key, pruned(value));
            }
        }
    }
}

/// What is new, without the nulls of its objects.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            Value::Object(members.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key, pruned(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(pruned).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(target: &Value, patch: &str) -> Result<Value, PatchError> {
        apply(target, patch.as_bytes(), FieldValidation::Warn).map(|(value, _)| value)
    }

    /// Each was sent to a kube-apiserver.
    #[test]
    fn patches_give_what_the_real_server_gives() {
        let target = json!({"list": [1, 2], "n": null, "m": {"a": 1}, "s": "x", "e": {}});
        let cases = [
            ("{}", json!({"list": [1, 2], "n": null, "m": {"a": 1}, "s": "x", "e": {}})),
            (r#"{"m":null,"zz":null}"#, json!({"list": [1, 2], "n": null, "s": "x", "e": {}})),
            (r#"{"m":{"a":null,"b":{"c":null,"d":1}}}"#, json!({"list": [1, 2], "n": null, "m": {"b": {"d": 1}}, "s": "x", "e": {}})),
            (r#"{"list":[null,{"a":null}]}"#, json!({"list": [null, {}], "n": null, "m": {"a": 1}, "s": "x", "e": {}})),
            (r#"{"s":{"a":null},"new":{"a":null}}"#, json!({"list": [1, 2], "n": null, "m": {"a": 1}, "s": {}, "e": {}, "new": {}})),
            (r#"{"m":5,"e":{"q":null}}"#, json!({"list": [1, 2], "n": null, "m": 5, "s": "x", "e": {}})),
        ];
        for (patch, want) in cases {
            assert_eq!(patched(&target, patch), Ok(want), "{patch}");
        }
    }

    #[test]
    fn what_is_no_patch_is_refused_with_the_texts_of_the_real_server() {
        let cases = [
            ("", "error decoding patch: unexpected end of JSON input"),
            ("{} x", "error decoding patch: invalid character 'x' after top-level value"),
            ("[]", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
            ("5", "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}"),
            (r#"{"x":1e400}"#, "error decoding patch: json: cannot unmarshal number 1e400 into Go value of type float64"),
            ("null", "Invalid JSON Patch"),
        ];
        for (patch, want) in cases {
            assert_eq!(patched(&json!({}), patch), Err(PatchError::BadRequest(want.to_owned())), "{patch}");
        }
        let lenient = |patch: &str| apply(&json!({}), patch.as_bytes(), FieldValidation::Ignore).map(|(value, _)| value);
        assert_eq!(lenient("{"), Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())));
        assert_eq!(lenient("[]"), Ok(json!([])));
    }

    #[test]
    fn duplicates_are_told() {
        let (_, told) = apply(&json!({}), br#"{"spec":{"a":1,"a":2}}"#, FieldValidation::Warn).expect("a patch");
        assert_eq!(told, [Duplicate::Field("spec.a".to_owned())]);
    }
}
