//! Labels, annotations and selectors of labels (`ValidateLabels`, `ValidateAnnotations`, `ValidateLabelSelector` of apimachinery).

use crate::{at::At, causes::Causes, names};
use model::legal;

/// Bytes of all annotations together, keys and values.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

/// What an update lets stand because it was there before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SelectorOptions {
    /// Values that are no values of labels are taken.
    pub(crate) any_value: bool,
    /// Operators that are not known are taken.
    pub(crate) any_operator: bool,
}

/// Labels: all errors have the path of the map.
pub(crate) fn labels(at: &At<'_, '_>, causes: &mut Causes) {
    for (key, value) in at.entries() {
        label_key(&at.with(&key.into()), causes);
        causes.each_invalid(&at.with(value.value()), names::label_value(value.text()));
    }
}

/// The key of a label (`ValidateLabelName`).
pub(crate) fn label_key(at: &At<'_, '_>, causes: &mut Causes) {
    names::qualified(at.text()).iter().for_each(|why| causes.invalid_text(at, why));
}

/// Annotations: all errors have the path of the map. Keys may have capital letters in their prefix.
pub(crate) fn annotations(at: &At<'_, '_>, causes: &mut Causes) {
    let mut bytes = 0;
    for (key, value) in at.entries() {
        bytes += key.len() + value.text().len();
        causes.each_invalid(&at.with(&key.into()), names::qualified(&key.to_lowercase()));
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        causes.too_long(at, ANNOTATIONS_BYTES_MAX);
    }
}

/// A `LabelSelector`, which may be absent.
pub(crate) fn selector(at: &At<'_, '_>, options: SelectorOptions, causes: &mut Causes) {
    labels(&at.member("matchLabels"), causes);
    at.member("matchExpressions").items().for_each(|expression| requirement(&expression, options, causes));
}

fn requirement(at: &At<'_, '_>, options: SelectorOptions, causes: &mut Causes) {
    let (operator, values) = (at.member("operator"), at.member("values"));
    match operator.text() {
        "In" | "NotIn" if values.len() == 0 => causes.required(&values, "must be specified when `operator` is 'In' or 'NotIn'"),
        "Exists" | "DoesNotExist" if values.len() > 0 => {
            causes.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        // Operators are of a type of their own, which Go shows as JSON.
        _ if !options.any_operator => causes.invalid_json(&operator, "not a valid selector operator"),
        _ => {}
    }
    label_key(&at.member("key"), causes);
    if !options.any_value {
        values.items().for_each(|value| causes.each_invalid(&value, names::label_value(value.text())));
    }
}

/// Whether a selector has a value that is no value of a label, which an update may keep (`LabelSelectorHasInvalidLabelValue`).
pub(crate) fn has_wrong_value(at: &At<'_, '_>) -> bool {
    let expressions = at.member("matchExpressions");
    expressions.items().any(|expression| expression.member("values").items().any(|value| !legal::wrong_value(value.text()).is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn texts(object: &Value, judge: impl FnOnce(&At<'_, '_>, &mut Causes)) -> Vec<String> {
        let errors = Causes::of(|causes| judge(&At::named("x", object), causes));
        errors.into_iter().map(|error| format!("{}: {}", error.field, error.message.chars().take(60).collect::<String>())).collect()
    }

    #[test]
    fn keys_and_values() {
        assert_eq!(texts(&json!({"a/b": "c", "D": ""}), labels), [""; 0]);
        assert_eq!(
            texts(&json!({"a/": "-"}), labels),
            [
                "x: Invalid value: \"a/\": name part must be non-empty",
                "x: Invalid value: \"a/\": name part must consist of alphanumeric ",
                "x: Invalid value: \"-\": a valid label must be an empty string or",
            ]
        );
        assert_eq!(texts(&json!({"A.B/c": "anything ?"}), annotations), [""; 0]);
        assert_eq!(texts(&json!({"a": "b".repeat(256 << 10)}), annotations), ["x: Too long: may not be more than 262144 bytes"]);
    }

    #[test]
    fn selectors() {
        let judge = |at: &At<'_, '_>, causes: &mut Causes| selector(at, SelectorOptions::default(), causes);
        let expression =
            |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        assert_eq!(texts(&expression("In", json!(["b"])), judge), [""; 0]);
        assert_eq!(texts(&Value::Null, judge), [""; 0]);
        let cases = [
            (expression("In", Value::Null), "x.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or"),
            (
                expression("Exists", json!(["b"])),
                "x.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' ",
            ),
            (expression("<", Value::Null), r#"x.matchExpressions[0].operator: Invalid value: "\u003c": not a valid selector operator"#),
            (
                expression("In", json!(["-"])),
                "x.matchExpressions[0].values[0]: Invalid value: \"-\": a valid label must be an empty string or",
            ),
        ];
        for (object, want) in cases {
            assert_eq!(texts(&object, judge), [want]);
        }
        let lax = |at: &At<'_, '_>, causes: &mut Causes| selector(at, SelectorOptions { any_value: true, any_operator: true }, causes);
        assert_eq!(texts(&expression("<", json!(["-"])), lax), [""; 0]);
        assert!(
            has_wrong_value(&At::root(&expression("In", json!(["-"])))) && !has_wrong_value(&At::root(&expression("In", json!(["a"]))))
        );
    }
}
