//! What a webhook may change of an object's metadata: labels and annotations. Every text is kube-apiserver's.

use model::{
    invalid::{FieldError, joined},
    legal,
};
use serde_json::{Map, Value};

/// Bytes of all annotations together, keys and values.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

/// Judges whether a converted object is still the same one.
///
/// # Errors
/// What is told after `returned invalid object: `.
pub(crate) fn confirm_same(original: &Value, converted: &Value) -> Result<(), String> {
    let text = |object: &Value, path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    for (what, path) in [("kind", "/kind"), ("name", "/metadata/name"), ("namespace", "/metadata/namespace"), ("UID", "/metadata/uid")] {
        let (was, is) = (text(original, path), text(converted, path));
        if was != is {
            return Err(format!("must have the same {what}: {was} != {is}"));
        }
    }
    Ok(())
}

/// Gives a converted object the metadata of the original, but for the labels and annotations that it has.
///
/// # Errors
/// What is told after `returned invalid metadata: `.
pub(crate) fn restore(original: &Value, converted: &mut Value) -> Result<(), String> {
    let found = converted.get("metadata").ok_or("missing metadata in converted object")?;
    let Value::Object(given) = found else { return Err(format!("invalid metadata of type {} in converted object", go_type(found))) };
    let mut metadata = match original.get("metadata") {
        None => Map::new(),
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(other) => return Err(format!("invalid metadata of type {} in input object", go_type(other))),
    };
    for member in ["labels", "annotations"] {
        let texts = match given.get(member) {
            None | Some(Value::Null) => {
                metadata.remove(member);
                continue;
            }
            Some(Value::Object(texts)) => texts,
            Some(other) => return Err(format!("invalid metadata.{member} of type {} in converted object", go_type(other))),
        };
        let before = match metadata.get(member) {
            None | Some(Value::Null) => None,
            Some(Value::Object(before)) => Some(before),
            Some(other) => return Err(format!("invalid metadata.{member} of type {} in original object", go_type(other))),
        };
        if let Some((key, other)) = texts.iter().find(|(_, value)| !value.is_string()) {
            return Err(format!("metadata.{member}[{key}] must be a string, but is {} in converted object", go_type(other)));
        }
        if before != Some(texts) && !(before.is_none() && texts.is_empty()) {
            let wrong = if member == "labels" { wrong_labels(texts) } else { wrong_annotations(texts) };
            if !wrong.is_empty() {
                return Err(joined(&wrong));
            }
        }
        metadata.insert(member.to_owned(), Value::Object(texts.clone()));
    }
    converted["metadata"] = Value::Object(metadata);
    Ok(())
}

fn wrong_labels(labels: &Map<String, Value>) -> Vec<FieldError> {
    let of = |(key, value): (&String, &Value)| {
        let keys = legal::wrong_key(key).into_iter().map(|why| FieldError::invalid("metadata.labels", &key.as_str().into(), &why));
        let values = legal::wrong_value(value.as_str().unwrap_or_default()).into_iter();
        let values = values.map(|why| FieldError::invalid("metadata.labels", value, &why));
        keys.chain(values).collect::<Vec<_>>()
    };
    labels.iter().flat_map(of).collect()
}

/// The path is kube-apiserver's.
fn wrong_annotations(annotations: &Map<String, Value>) -> Vec<FieldError> {
    const PATH: &str = "metadata.annotation";
    let of = |key: &String| {
        let wrong = legal::wrong_key(&key.to_lowercase()).into_iter();
        wrong.map(|why| FieldError::invalid(PATH, &key.as_str().into(), &why)).collect::<Vec<_>>()
    };
    let mut wrong: Vec<FieldError> = annotations.keys().flat_map(of).collect();
    let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    wrong.extend((bytes > ANNOTATIONS_BYTES_MAX).then(|| FieldError::too_long(PATH, ANNOTATIONS_BYTES_MAX)));
    wrong
}

/// The type that Go's JSON has for a value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn restored(metadata: Value) -> Result<Value, String> {
        let original = json!({"kind": "T", "metadata": {"name": "a", "uid": "u", "labels": {"l": "1"}, "annotations": {"b c": "kept"}, "generation": 3}});
        let mut converted = json!({"kind": "T", "metadata": metadata, "spec": {}});
        restore(&original, &mut converted).map(|()| converted["metadata"].clone())
    }

    #[test]
    fn a_webhook_changes_labels_and_annotations_and_nothing_else() {
        let same = json!({"name": "a", "uid": "u", "generation": 3});
        assert_eq!(
            restored(json!({"name": "b", "finalizers": ["x"], "generation": 9})),
            Ok(same.clone()),
            "those that it left out are gone"
        );
        let mut told = same;
        told["labels"] = json!({"m": "2"});
        assert_eq!(restored(json!({"labels": {"m": "2"}, "annotations": null})), Ok(told.clone()));
        told["labels"] = json!({"l": "1"});
        told["annotations"] = json!({"b c": "kept"});
        assert_eq!(restored(json!({"labels": {"l": "1"}, "annotations": {"b c": "kept"}})), Ok(told), "what was there is not judged");
    }

    #[test]
    fn what_cannot_be_metadata_is_told_as_by_kube_apiserver() {
        let check = |metadata: Value, want: &str| {
            assert_eq!(restored(metadata).map_err(|why| why.chars().take(want.len()).collect::<String>()), Err(want.to_owned()))
        };
        check(json!("x"), "invalid metadata of type string in converted object");
        check(json!({"labels": [1]}), "invalid metadata.labels of type []interface {} in converted object");
        check(json!({"labels": {"a": 1.5}}), "metadata.labels[a] must be a string, but is float64 in converted object");
        check(json!({"annotations": {"a": null}}), "metadata.annotations[a] must be a string, but is <nil> in converted object");
        check(json!({"labels": {"a b": "c d"}}), "[metadata.labels: Invalid value: \"a b\": name part must consist of");
        check(json!({"annotations": {"A B": "c d"}}), "metadata.annotation: Invalid value: \"A B\": name part must consist of");
        let without = restore(&json!({}), &mut json!({"kind": "T"}));
        assert_eq!(without, Err("missing metadata in converted object".to_owned()));
    }

    #[test]
    fn another_object_is_none() {
        let of = |name: &str, uid: &str| json!({"kind": "T", "metadata": {"name": name, "uid": uid}});
        assert_eq!(confirm_same(&of("a", "u"), &of("a", "u")), Ok(()));
        assert_eq!(confirm_same(&of("a", "u"), &of("b", "u")), Err("must have the same name: a != b".to_owned()));
        assert_eq!(confirm_same(&of("a", "u"), &of("a", "")), Err("must have the same UID: u != ".to_owned()));
    }
}
