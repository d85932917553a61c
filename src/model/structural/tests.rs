//! What schemas do to values, by their text and by their trees.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn check(schema: &Value, stored: &Value, shown: &Value) {
    let schema = Structural::of_root(&schema.to_string()).expect("a schema");
    let mut applied = stored.clone();
    schema.apply(&mut applied);
    assert_eq!(&applied, shown, "{stored}");
    assert_eq!(schema.fits(&stored.to_string()), stored == shown, "{stored}");
}

fn root(schema: &Value) -> Structural {
    Structural::of_root(&schema.to_string()).expect("a schema")
}

fn keeps(reader: Value, writer: Value, expect: bool) {
    assert_eq!(root(&reader).keeps(&root(&writer)), expect, "reader {reader} writer {writer}");
}

#[test]
fn what_is_not_known_goes() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}, "l": {"type": "array", "items":
        {"type": "object", "properties": {"x": {}}}}, "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {}}}},
        "any": {"type": "object", "additionalProperties": true}}}}});
    let head = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "unknown": 1}});
    let with = |spec: Value| {
        let mut object = head.clone();
        object["spec"] = spec;
        object
    };
    check(&schema, &head, &head);
    check(&schema, &with(json!({"a": "x", "b": 1})), &with(json!({"a": "x"})));
    check(&schema, &with(json!({"l": [{"x": {"deep": 1}}, {"y": 2}, 3, null]})), &with(json!({"l": [{"x": {}}, {}, 3, null]})));
    check(&schema, &with(json!({"m": {"k": {"x": 1}}})), &with(json!({"m": {"k": {"x": 1}}})));
    check(&schema, &with(json!({"m": {"k": {"x": 1, "y": 2}}})), &with(json!({"m": {"k": {"x": 1}}})));
    check(&schema, &with(json!({"any": {"k": "v", "l": [1]}})), &with(json!({"any": {"k": "v", "l": [1]}})));
    check(&schema, &with(json!({"any": {"k": {"deep": 1}}})), &with(json!({"any": {"k": {}}})));
    let mut more = head.clone();
    more["other"] = json!(1);
    check(&schema, &more, &head);
}

#[test]
fn what_is_preserved_stays() {
    let schema = json!({"x-kubernetes-preserve-unknown-fields": true, "properties": {"spec": {"properties": {"a": {}}}, "l": {"x-kubernetes-preserve-unknown-fields": true,
        "items": {"properties": {"k": {"properties": {"z": {}}}}}}}});
    check(&schema, &json!({"any": {"deep": [{"x": 1}]}, "spec": {"a": 1}}), &json!({"any": {"deep": [{"x": 1}]}, "spec": {"a": 1}}));
    check(&schema, &json!({"spec": {"a": 1, "b": 2}}), &json!({"spec": {"a": 1}}));
    check(&schema, &json!({"l": [{"u": 1, "k": {"z": 1}}]}), &json!({"l": [{"u": 1, "k": {"z": 1}}]}));
    check(&schema, &json!({"l": [{"u": 1, "k": {"z": 1, "y": 2}}]}), &json!({"l": [{"u": 1, "k": {"z": 1}}]}));
    let embedded = json!({"properties": {"e": {"x-kubernetes-embedded-resource": true, "properties": {"spec": {}}}}});
    check(
        &embedded,
        &json!({"e": {"apiVersion": "v1", "kind": "K", "metadata": {"a": 1}, "x": 1}}),
        &json!({"e": {"apiVersion": "v1", "kind": "K", "metadata": {"a": 1}}}),
    );
}

#[test]
fn what_has_a_default_gets_it() {
    let schema = json!({"properties": {"spec": {"default": {}, "properties": {"size": {"type": "integer", "default": 3}, "name": {"type": "string"}, "null": {"nullable": true, "default": 1}}},
        "l": {"items": {"default": 7}}, "m": {"additionalProperties": {"default": "d"}}}});
    check(&schema, &json!({}), &json!({"spec": {"size": 3, "null": 1}}));
    let whole = json!({"spec": {"size": 4, "null": null}});
    check(&schema, &whole, &whole);
    check(&schema, &json!({"spec": {"size": null, "name": null, "null": null}}), &json!({"spec": {"size": 3, "null": null}}));
    check(
        &schema,
        &json!({"spec": null, "l": [1, null], "m": {"k": null}}),
        &json!({"spec": {"size": 3, "null": 1}, "l": [1, 7], "m": {"k": "d"}}),
    );
}

/// Small schemas and values with the same few names.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![
        json!({}),
        json!({"default": 1}),
        json!({"nullable": true}),
        json!({"default": {"a": null}}),
        json!({"x-kubernetes-preserve-unknown-fields": true}),
    ]);
    leaf.prop_recursive(4, 20, 3, |inner| {
        let names = prop::sample::select(vec!["a", "b", "metadata"]);
        (
            prop::collection::btree_map(names, inner.clone(), 0..3),
            prop::option::of(prop_oneof![inner.clone(), Just(json!(true))]),
            prop::option::of(inner),
            any::<[bool; 3]>(),
        )
            .prop_map(|(properties, additional, items, [preserves, embedded, nullable])| {
                let mut schema = json!({"properties": properties, "nullable": nullable});
                if let Some(additional) = additional {
                    schema["additionalProperties"] = additional;
                }
                if let Some(items) = items {
                    schema["items"] = items;
                }
                schema["x-kubernetes-preserve-unknown-fields"] = preserves.into();
                schema["x-kubernetes-embedded-resource"] = embedded.into();
                schema
            })
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![json!(null), json!(1), json!("x"), json!({}), json!([])]);
    leaf.prop_recursive(4, 20, 3, |inner| {
        let names = prop::sample::select(vec!["a", "b", "metadata"]).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..3).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    /// The look at the text and the work on the tree agree.
    #[test]
    fn what_fits_is_left_as_it_is(schema in schema(), value in value()) {
        let schema = Structural::of_root(&schema.to_string()).expect("a schema");
        let mut applied = value.clone();
        schema.apply(&mut applied);
        prop_assert_eq!(schema.fits(&value.to_string()), applied == value);
    }
}

#[test]
fn a_reader_must_know_what_was_written() {
    let (a, b) = (json!({"type": "object", "properties": {"a": {"type": "string"}}}), json!({"type": "object", "properties": {"b": {}}}));
    let both = json!({"properties": {"a": {"type": "integer"}, "b": {}}});
    keeps(a.clone(), a.clone(), true);
    keeps(both.clone(), a.clone(), true);
    keeps(a.clone(), both, false);
    keeps(a.clone(), b, false);
    keeps(json!({"properties": {"s": {}}}), json!({"properties": {"s": a}}), false);
}

#[test]
fn the_head_of_an_object_is_always_kept() {
    let head = json!({"properties": {"apiVersion": {}, "kind": {}, "metadata": {"type": "object"}}});
    keeps(json!({}), head.clone(), true);
    keeps(json!({"properties": {"s": {}}}), json!({"properties": {"s": head.clone()}}), false);
    let embedded = |mut schema: Value| {
        schema["x-kubernetes-embedded-resource"] = true.into();
        json!({"properties": {"s": schema}})
    };
    keeps(embedded(json!({})), embedded(head), true);
}

#[test]
fn descriptions_and_validations_do_not_matter() {
    keeps(json!({"properties": {"a": {"description": "x", "maxLength": 3}}}), json!({"properties": {"a": {"type": "string"}}}), true);
}

#[test]
fn a_default_must_have_been_there_at_the_write() {
    let (plain, one, two) = (json!({}), json!({"default": 1}), json!({"default": 2}));
    let with = |a: &Value| json!({"properties": {"a": a}});
    keeps(with(&one), with(&one), true);
    keeps(with(&one), with(&plain), false);
    keeps(with(&plain), with(&one), false);
    keeps(with(&one), with(&two), false);
    keeps(with(&one), json!({}), false);
}

#[test]
fn unknown_fields_need_a_reader_that_keeps_them() {
    let open = json!({"x-kubernetes-preserve-unknown-fields": true});
    keeps(open.clone(), json!({"properties": {"a": {}}}), true);
    keeps(json!({"properties": {"a": {}}}), open.clone(), false);
    keeps(json!({"x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}}), open.clone(), false);
    let anything = Structural::of_anything();
    assert!(root(&open).keeps(&anything) && !root(&json!({})).keeps(&anything));
}

#[test]
fn maps_and_lists_are_followed() {
    let (a, ab) = (json!({"properties": {"a": {}}}), json!({"properties": {"a": {}, "b": {}}}));
    for key in ["items", "additionalProperties"] {
        keeps(json!({key: ab}), json!({key: a}), true);
        keeps(json!({key: a}), json!({key: ab}), false);
        keeps(json!({}), json!({key: a}), false);
        keeps(json!({key: a}), json!({}), true);
    }
    keeps(json!({"additionalProperties": ab}), json!({"properties": {"x": a}}), true);
    keeps(json!({"additionalProperties": a}), json!({"properties": {"x": ab}}), false);
}

/// Under `additionalProperties: true` members of objects are pruned (spec api-surface §11.3).
#[test]
fn any_value_is_not_one_of_a_schema() {
    let (any, like) = (json!({"additionalProperties": true}), json!({"additionalProperties": {"properties": {"a": {}}}}));
    keeps(any.clone(), any.clone(), true);
    keeps(any.clone(), like.clone(), false);
    keeps(like, any.clone(), false);
    keeps(any.clone(), json!({"properties": {"x": {"properties": {"a": {}}}}}), false);
    keeps(json!({"type": "object"}), any, false);
}

/// What a schema makes of a text, if it does.
fn read(schema: &Structural, text: &str) -> Result<String, Unread> {
    let mut out = Vec::new();
    schema.read_into(text, &mut out)?;
    Ok(String::from_utf8(out).expect("UTF-8"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    /// The text that is made of a text is that of the tree.
    #[test]
    fn what_is_read_is_what_the_tree_becomes(schema in schema(), value in value()) {
        let schema = Structural::of_root(&schema.to_string()).expect("a schema");
        let mut applied = value.clone();
        schema.apply(&mut applied);
        let read = read(&schema, &value.to_string());
        if value.is_object() {
            prop_assert_eq!(read, Ok(applied.to_string()));
        } else {
            prop_assert_eq!(read, Err(Unread::Irregular));
        }
    }

    #[test]
    fn what_is_pruned_is_what_the_tree_becomes(schema in schema(), value in value().prop_filter("an object", Value::is_object)) {
        let schema = Structural::of_root(&schema.to_string()).expect("a schema");
        let mut pruned = value.clone();
        schema.prune(&mut pruned);
        let mut out = b"{".to_vec();
        prop_assert_eq!(schema.prune_tail_into(&value.to_string()[1..], &mut out), Ok(()));
        prop_assert_eq!(String::from_utf8(out).expect("UTF-8"), pruned.to_string());
    }

    /// Nothing that is not JSON makes it panic, or write half of something.
    #[test]
    fn any_text_may_be_read(schema in schema(), text in r#"\{["{}\[\],:\\a1n ]{0,12}\}?"#) {
        let schema = Structural::of_root(&schema.to_string()).expect("a schema");
        let mut out = b"before".to_vec();
        if schema.read_into(&text, &mut out).is_err() {
            prop_assert_eq!(out, b"before");
        }
    }
}

#[test]
fn only_sorted_texts_are_read() {
    let schema = root(&json!({"properties": {"Z": {"default": 1}, "spec": {"properties": {"a": {}, "b": {"default": "<"}}}}}));
    let shown = r#"{"apiVersion":"g/v1","Z":1,"kind":"K","metadata":{ "z":1,"a":[]},"spec":{"a":1.50,"b":"\u003c"}}"#;
    assert_eq!(
        read(&schema, r#"{"apiVersion":"g/v1","kind":"K","metadata":{ "z":1,"a":[]},"spec":{"a":1.50,"c":1}}"#).as_deref(),
        Ok(shown)
    );
    for text in
        [r#"{"spec":{"b":1,"a":1}}"#, r#"{"spec":{"a":1,"a":1}}"#, r#"{"spec": {}}"#, r#"{"spec":{}}x"#, r#"{"spec":{"a":}}"#, "{", "[]"]
    {
        assert_eq!(read(&schema, text), Err(Unread::Irregular), "{text}");
    }
    assert_eq!(read(&schema, r#"{"spec":{"\u0061":1}}"#).as_deref(), Ok(r#"{"Z":1,"spec":{"\u0061":1,"b":"\u003c"}}"#));
}

/// 3 bytes for each item of 5 KB; and defaults whose items have defaults, whose items have defaults.
#[test]
fn what_defaults_multiply_is_not_made() {
    let item = |default: Value| json!({"type": "object", "properties": {"d": {"default": default}}});
    let schema = root(&json!({"properties": {"spec": {"properties": {"l": {"items": item(json!("x".repeat(5_000)))}}}}}));
    let object = |count: usize| format!(r#"{{"spec":{{"l":[{}]}}}}"#, vec!["{}"; count].join(","));
    assert_eq!(read(&schema, &object(1_000)).map(|text| text.len()), Ok(object(1_000).len() + 1_000 * 5_006));
    assert_eq!(read(&schema, &object(40_000)), Err(Unread::TooLarge));
    let lists = |inner: Value| json!({"type": "array", "items": {"properties": {"l": inner}}});
    let mut inner = item(json!("x"));
    for _ in 0..5 {
        let mut list = lists(inner);
        list["default"] = Value::from(vec![json!({}); 200]);
        inner = list;
    }
    assert_eq!(read(&root(&json!({"properties": {"l": inner}})), "{}"), Err(Unread::TooLarge));
}
