//! Laws of typed values, on random ones.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Schema, fields_v1, openapi, value::equals};

/// Every kind of list and map, within each other.
pub(crate) static TYPE: LazyLock<ParseableType> = LazyLock::new(|| {
    let document = json!({
        "Item": {"type": "object", "properties": {
            "name": {"type": "string"}, "protocol": {"type": "string", "default": "TCP"}, "count": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "items": {"type": "array", "items": {"$ref": "#/Item"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "protocol"]},
        }},
        "Root": {"type": "object", "properties": {
            "one": {"$ref": "#/Item"},
            "whole": {"allOf": [{"$ref": "#/Item"}], "x-kubernetes-map-type": "atomic"},
            "items": {"type": "array", "items": {"$ref": "#/Item"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "protocol"]},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "args": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
    });
    let schemas = document.as_object().unwrap().iter().map(|(name, schema)| (name.as_str(), schema));
    let schema = Arc::new(Schema::new(openapi::types(schemas, false).unwrap()));
    ParseableType::of(&schema, "Root").unwrap()
});

fn object(members: Vec<(&'static str, Option<Value>)>) -> Value {
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<serde_json::Map<_, _>>().into()
}

fn texts() -> impl Strategy<Value = Value> {
    prop::collection::btree_set("[a-e]", 1..4).prop_shuffle_values()
}

/// Items in random order.
trait Shuffled {
    fn prop_shuffle_values(self) -> BoxedStrategy<Value>;
}

impl<S: Strategy<Value = std::collections::BTreeSet<String>> + 'static> Shuffled for S {
    fn prop_shuffle_values(self) -> BoxedStrategy<Value> {
        self.prop_map(|set| set.into_iter().collect::<Vec<String>>()).prop_shuffle().prop_map(|texts| json!(texts)).boxed()
    }
}

fn maybe(strategy: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    prop::option::of(strategy).boxed()
}

fn an_item(depth: u32) -> BoxedStrategy<Value> {
    let below = if depth == 0 { Just(None).boxed() } else { maybe(some_items(depth - 1)) };
    let members = ("[a-c]", maybe("TCP|UDP".prop_map(Value::from)), maybe((0..3).prop_map(Value::from)), maybe(texts()), below);
    members
        .prop_map(|(name, protocol, count, tags, items)| {
            object(vec![("name", Some(json!(name))), ("protocol", protocol), ("count", count), ("tags", tags), ("items", items)])
        })
        .boxed()
}

fn some_items(depth: u32) -> BoxedStrategy<Value> {
    let items = prop::collection::vec(an_item(depth), 1..4);
    items
        .prop_map(|mut items| {
            let mut seen = std::collections::BTreeSet::new();
            items.retain(|item| seen.insert((item["name"].to_string(), item["protocol"].as_str().unwrap_or("TCP").to_owned())));
            Value::Array(items)
        })
        .boxed()
}

fn free() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![Just(json!(true)), (0..3).prop_map(Value::from), "[a-b]".prop_map(Value::from), Just(json!([1, {"a": 2}]))];
    let level = |below: BoxedStrategy<Value>| prop::collection::btree_map("[a-c]", below, 1..3).prop_map(|map| json!(map)).boxed();
    level(prop_oneof![leaf.clone(), level(leaf.boxed())].boxed())
}

/// A valid object without anything empty.
pub(crate) fn an_object() -> impl Strategy<Value = Value> {
    let labels = prop::collection::btree_map("[a-d]", "[x-z]", 1..4).prop_map(|map| json!(map));
    (maybe(an_item(1)), maybe(an_item(0)), maybe(some_items(1)), maybe(texts()), maybe(texts()), maybe(labels), maybe(free())).prop_map(
        |(one, whole, items, tags, args, labels, free)| {
            let members =
                vec![("one", one), ("whole", whole), ("items", items), ("tags", tags), ("args", args), ("labels", labels), ("free", free)];
            object(members)
        },
    )
}

fn of(value: &Value) -> TypedValue<'_> {
    TypedValue::borrowed(value, &TYPE)
}

fn merged(lhs: &Value, rhs: &Value) -> Value {
    of(lhs).merge(&of(rhs)).unwrap().unwrap_or_else(|| lhs.clone())
}

proptest! {
    #[test]
    fn what_is_merged_is_there(live in an_object(), config in an_object()) {
        prop_assert!(of(&live).validate(Duplicates::Refused).is_ok(), "{live}");
        let once = merged(&live, &config);
        prop_assert!(of(&once).validate(Duplicates::Refused).is_ok(), "{once}");
        prop_assert_eq!(of(&once).merge(&of(&config)).unwrap(), None);
        let [live_set, config_set, set] = [&live, &config, &once].map(|value| of(value).to_field_set().unwrap());
        prop_assert_eq!(&set, &set.union(&config_set));
        prop_assert!(live_set.difference(&set).iterate_is_empty_but_free());
        // What the configuration has is as it says.
        let difference = of(&config).compare(&of(&once)).unwrap();
        prop_assert!(difference.removed.is_empty() && difference.modified.is_empty(), "{difference}");
    }

    #[test]
    fn differences_go_both_ways(lhs in an_object(), rhs in an_object()) {
        let there = of(&lhs).compare(&of(&rhs)).unwrap();
        let back = of(&rhs).compare(&of(&lhs)).unwrap();
        prop_assert_eq!((&there.removed, &there.modified, &there.added), (&back.added, &back.modified, &back.removed));
        let same = of(&lhs).compare(&of(&lhs.clone())).unwrap();
        prop_assert!(same.is_same());
        // Order of associative lists is no difference.
        prop_assert_eq!(there.is_same(), equals(&sorted(&lhs), &sorted(&rhs)));
    }

    #[test]
    fn what_is_removed_is_gone_and_what_is_extracted_is_there(value in an_object(), other in an_object()) {
        let (set, items) = (of(&value).to_field_set().unwrap(), of(&other).to_field_set().unwrap());
        match of(&value).remove_items(&items) {
            None => prop_assert!(set.intersection(&items).is_empty(), "{value} {items}"),
            Some(rest) => {
                let rest = of(&rest).to_field_set().unwrap();
                let again = rest.intersection(&items);
                // A map of which nothing is left is null.
                prop_assert!(again.is_empty(), "{again}");
            }
        }
        let extracted = of(&value).extract_items(&set.leaves());
        prop_assert!(equals(&extracted, &value), "{extracted} {value}");
        let some = of(&value).extract_items_with_keys(&items.leaves());
        prop_assert!(some.is_null() || of(&some).validate(Duplicates::Refused).is_ok(), "{some}");
    }

    #[test]
    fn sets_are_those_of_the_schema(value in an_object()) {
        let set = of(&value).to_field_set().unwrap();
        prop_assert_eq!(reconcile_field_set_with_schema(&set, &TYPE).unwrap(), None);
        let read = fields_v1::read(fields_v1::write(&set).as_bytes()).unwrap();
        prop_assert_eq!(&read, &set);
        // What a schema without atomics has seen becomes one field.
        let mut deep = set.clone();
        deep.insert(&Path::fields(&["whole", "name"]).0);
        let reconciled = reconcile_field_set_with_schema(&deep, &TYPE).unwrap().expect("a part of an atomic map is no field");
        let mut whole = set;
        whole.insert(&Path::fields(&["whole"]).0);
        prop_assert_eq!(reconciled, whole);
    }
}

impl Set {
    /// Whether only fields are left that became something else where anything may be.
    fn iterate_is_empty_but_free(&self) -> bool {
        self.paths().iter().all(|path| path.0[0] == PathElement::field("free"))
    }
}

/// A value with the items of its associative lists sorted.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let sort = |(name, member): (&String, &Value)| {
                let mut member = sorted(member);
                if let (Value::Array(items), "items" | "tags") = (&mut member, name.as_str()) {
                    items.sort_by(crate::value::compare);
                }
                (name.clone(), member)
            };
            Value::Object(members.iter().map(sort).collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        _ => value.clone(),
    }
}

fn nested(depth: usize, leaf: Value) -> Value {
    (0..depth).fold(leaf, |below, _| object(vec![("name", Some(json!("a"))), ("items", Some(Value::Array(vec![below])))]))
}

#[test]
fn depth_has_a_limit() {
    // Two levels of values each, and one more for the name.
    let deepest = json!({"one": nested(DEPTH_MAX / 2 - 1, json!({"name": "a", "count": 1}))});
    let other = json!({"one": nested(DEPTH_MAX / 2 - 1, json!({"name": "a", "count": 2}))});
    of(&deepest).validate(Duplicates::Refused).unwrap();
    let set = of(&deepest).to_field_set().unwrap();
    assert_eq!(of(&deepest).compare(&of(&other)).unwrap().modified.size(), 1);
    assert!(equals(&merged(&deepest, &other), &other));
    assert!(equals(&of(&deepest).extract_items(&set.leaves()), &deepest));
    assert_eq!(reconcile_field_set_with_schema(&set, &TYPE).unwrap(), None);
    let deeper = json!({"one": nested(DEPTH_MAX, json!({"name": "b"}))});
    let refused = [
        of(&deeper).validate(Duplicates::Allowed).unwrap_err(),
        of(&deeper).to_field_set().unwrap_err(),
        of(&deeper).compare(&of(&json!({}))).unwrap_err(),
    ];
    for error in refused {
        assert!(error.to_string().ends_with(": nested deeper than 512") || error.to_string() == "nested deeper than 512", "{error}");
    }
}

#[test]
fn errors_have_a_limit() {
    let wrong: Value = (0..50_000).map(|at| json!({"name": format!("n{at}"), "count": "many"})).collect();
    let object = json!({"one": nested(90, json!({"name": "a", "items": wrong})), "args": 1});
    let errors = of(&object).validate(Duplicates::Refused).unwrap_err();
    assert_eq!(errors.0.len(), ERRORS_MAX);
    assert_eq!(errors.0[0].to_string(), ".args: expected list, got &{1}");
}

#[test]
fn large_lists_take_linear_time() {
    let items =
        |from: usize| -> Value { (from..from + 30_000).map(|at| json!({"name": format!("n{}", at * 7 % 30_011), "count": at})).collect() };
    let (lhs, rhs) =
        (json!({"items": items(0), "tags": (0..20_000).map(|at| at.to_string()).collect::<Vec<_>>()}), json!({"items": items(10)}));
    of(&lhs).validate(Duplicates::Refused).unwrap();
    let difference = of(&lhs).compare(&of(&rhs)).unwrap();
    assert!(!difference.added.is_empty() && !difference.removed.is_empty());
    let once = merged(&lhs, &rhs);
    assert!(once["items"].as_array().unwrap().len() >= 30_000);
    let set = of(&once).to_field_set().unwrap();
    assert!(fields_v1::read(fields_v1::write(&set).as_bytes()).is_ok_and(|read| read == set));
    // Lists of which nothing is left are null.
    assert_eq!(of(&once).remove_items(&set), Some(json!({"items": null, "tags": null})));
}
