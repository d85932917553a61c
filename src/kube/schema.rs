//! Whether a value that one version's schema let in is shown unchanged by another's: what pruning and defaulting would do, without doing it.
//!
//! kube-apiserver prunes and defaults every custom resource that it reads with the schema of the requested version (spec api-surface §11.3).
//! We show stored bytes, so we may show a version only when neither step changes anything.

use serde_json::{Map, Value};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Whether every value that `writer` can leave in etcd survives `reader`'s pruning and defaulting. Both are OpenAPI v3 schemas of one
/// definition; a writer without one prunes nothing.
pub(super) fn keeps(reader: &Value, writer: Option<&Value>) -> bool {
    match writer {
        Some(writer) => node_keeps(reader, writer, true),
        None => node_keeps(reader, &serde_json::json!({ PRESERVE: true }), true),
    }
}

/// `object`: this is a whole object, whose apiVersion, kind and metadata are kept whatever the properties say.
fn node_keeps(reader: &Value, writer: &Value, object: bool) -> bool {
    reader == writer
        || is(reader, "nullable") == is(writer, "nullable")
            && is(reader, EMBEDDED) == is(writer, EMBEDDED)
            && properties_keep(reader, writer, object || is(reader, EMBEDDED))
            && additional_keep(reader, writer)
            && items_keep(reader, writer)
            && (preserves(reader) || !preserves(writer))
}

/// Every property that may be there is known to the reader; every default that the reader sets was set at the write.
fn properties_keep(reader: &Value, writer: &Value, object: bool) -> bool {
    let (none, open) = (Map::new(), writer.get("additionalProperties").is_some() || preserves(writer));
    let known = reader["properties"].as_object().unwrap_or(&none);
    let written = writer["properties"].as_object().unwrap_or(&none);
    let survives = |(name, schema): (&String, &Value)| match known.get(name) {
        Some(reader) => node_keeps(reader, schema, false),
        None if object && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") => true,
        None => reader.get("additionalProperties").map_or(preserves(reader), |reader| node_keeps(reader, schema, false)),
    };
    // A reader's property that the writer let in as an unknown one, unpruned, would be pruned and defaulted now.
    let expected = |(name, schema): (&String, &Value)| match written.get(name) {
        Some(writer) => schema.get("default") == writer.get("default"),
        None => schema.get("default").is_none() && !open,
    };
    written.iter().all(survives) && known.iter().all(expected)
}

fn additional_keep(reader: &Value, writer: &Value) -> bool {
    match (reader.get("additionalProperties"), writer.get("additionalProperties")) {
        (_, None) => true,
        (Some(reader), Some(writer)) => node_keeps(reader, writer, false),
        (None, Some(_)) => preserves(reader),
    }
}

fn items_keep(reader: &Value, writer: &Value) -> bool {
    match (reader.get("items"), writer.get("items")) {
        (_, None) => true,
        (Some(reader), Some(writer)) => node_keeps(reader, writer, false),
        (None, Some(_)) => preserves(reader),
    }
}

fn preserves(schema: &Value) -> bool {
    is(schema, PRESERVE) || *schema == Value::Bool(true)
}

fn is(schema: &Value, key: &str) -> bool {
    schema[key] == true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(reader: Value, writer: Value, expect: bool) {
        assert_eq!(keeps(&reader, Some(&writer)), expect, "reader {reader} writer {writer}");
    }

    #[test]
    fn a_reader_must_know_what_was_written() {
        let (a, b) =
            (json!({"type": "object", "properties": {"a": {"type": "string"}}}), json!({"type": "object", "properties": {"b": {}}}));
        let both = json!({"properties": {"a": {"type": "integer"}, "b": {}}});
        check(a.clone(), a.clone(), true);
        check(both.clone(), a.clone(), true);
        check(a.clone(), both, false);
        check(a.clone(), b, false);
        check(json!({"properties": {"s": {}}}), json!({"properties": {"s": a}}), false);
    }

    #[test]
    fn the_head_of_an_object_is_always_kept() {
        let head = json!({"properties": {"apiVersion": {}, "kind": {}, "metadata": {"type": "object"}}});
        check(json!({}), head.clone(), true);
        check(json!({"properties": {"s": {}}}), json!({"properties": {"s": head.clone()}}), false);
        let embedded = |mut schema: Value| {
            schema[EMBEDDED] = true.into();
            json!({"properties": {"s": schema}})
        };
        check(embedded(json!({})), embedded(head), true);
    }

    #[test]
    fn descriptions_and_validations_do_not_matter() {
        check(json!({"properties": {"a": {"description": "x", "maxLength": 3}}}), json!({"properties": {"a": {"type": "string"}}}), true);
    }

    #[test]
    fn a_default_must_have_been_there_at_the_write() {
        let (plain, one, two) = (json!({}), json!({"default": 1}), json!({"default": 2}));
        let with = |a: &Value| json!({"properties": {"a": a}});
        check(with(&one), with(&one), true);
        check(with(&one), with(&plain), false);
        check(with(&plain), with(&one), false);
        check(with(&one), with(&two), false);
        check(with(&one), json!({}), false);
    }

    #[test]
    fn unknown_fields_need_a_reader_that_keeps_them() {
        let open = json!({PRESERVE: true});
        check(open.clone(), json!({"properties": {"a": {}}}), true);
        check(json!({"properties": {"a": {}}}), open.clone(), false);
        check(json!({PRESERVE: true, "properties": {"a": {}}}), open.clone(), false);
        assert!(keeps(&open, None));
        assert!(!keeps(&json!({}), None));
    }

    #[test]
    fn maps_and_lists_are_followed() {
        let (a, ab) = (json!({"properties": {"a": {}}}), json!({"properties": {"a": {}, "b": {}}}));
        for key in ["items", "additionalProperties"] {
            check(json!({key: ab}), json!({key: a}), true);
            check(json!({key: a}), json!({key: ab}), false);
            check(json!({}), json!({key: a}), false);
            check(json!({key: a}), json!({}), true);
        }
        check(json!({"additionalProperties": ab}), json!({"properties": {"x": a}}), true);
        check(json!({"additionalProperties": a}), json!({"properties": {"x": ab}}), false);
    }
}
