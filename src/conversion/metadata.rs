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
    for (what, path) in
        [("kind", "/kind"), ("name", "/metadata/name"), ("namespace", "/metadata/namespace"), ("UID", "/metadata/uid")]
    {
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
