//! Cases that kube-apiserver's own packages have judged (`tests/data/schemas/oracle.go`), and laws of random schemas and values.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Schema;
use go::json::value_into;
use model::invalid::FieldError;

/// A case, and what kube-apiserver's packages made of it.
#[derive(Deserialize)]
struct Case {
    schema: Value,
    object: Value,
    #[serde(default)]
    old: Value,
    made: Value,
    unknown: Vec<String>,
    wrong: Vec<[String; 2]>,
    #[serde(default)]
    update: Vec<[String; 2]>,
    lists: Vec<[String; 2]>,
}

fn made(schema: &Schema, object: &Value, unknown: &mut Vec<String>) -> Value {
    let mut object = object.clone();
    schema.prune(&mut object, Some(unknown));
    schema.drop_nulls(&mut object);
    schema.set_defaults(&mut object).expect("few defaults");
    object
}

fn told(errors: &[FieldError]) -> Vec<[String; 2]> {
    let mut all: Vec<[String; 2]> =
        errors.iter().map(|error| [error.kind.cause().to_owned(), format!("{}: {}", error.field, error.message)]).collect();
    all.sort_by(|[kind, one], [other_kind, other]| one.cmp(other).then(kind.cmp(other_kind)));
    all
}

fn json(value: &Value) -> String {
    let mut out = Vec::new();
    value_into(value, &mut out);
    String::from_utf8(out).expect("JSON is text")
}

/// Of the file that the variable names, or of those that are committed.
#[test]
fn cases_are_judged_as_kube_apiserver_judges_them() {
    let named = std::env::var("WATCHCACHE_SCHEMA_CASES").ok().map(|path| std::fs::read_to_string(path).expect("the cases"));
    let text = named.as_deref().unwrap_or(include_str!("../../tests/data/schemas/cases.jsonl"));
    let mut different = 0;
    for (number, line) in text.lines().enumerate() {
        let case: Case = serde_json::from_str(line).expect("a case");
        let schema = Schema::of_tree(&case.schema).expect("a schema");
        let mut unknown = Vec::new();
        let object = made(&schema, &case.object, &mut unknown);
        let old = (!case.old.is_null()).then(|| made(&schema, &case.old, &mut Vec::new()));
        let update = old.map(|old| schema.wrong_update(&object, &old)).unwrap_or_default();
        let found = (json(&object), unknown, told(&schema.wrong(&object)), told(&update), told(&schema.wrong_lists(&object)));
        let wanted = (json(&case.made), case.unknown, case.wrong, case.update, case.lists);
        if found != wanted {
            different += 1;
            assert!(different < 1, "line {} and others: {line}\nfound  {found:#?}\nwanted {wanted:#?}", number + 1);
        }
    }
    assert_eq!(different, 0);
}

/// JSON with the few names that schemas have, so that much of it says something.
fn json_of(names: &'static [&'static str], depth: u32) -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec!["string", "object", "array", "integer", "set", "map", "a", "k", "date", "^a$", "(", ""]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..9).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    leaf.prop_recursive(depth, 40, 4, move |inner| {
        let name = prop::sample::select(names.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

const OF_SCHEMAS: &[&str] = &[
    "type",
    "properties",
    "additionalProperties",
    "items",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "enum",
    "pattern",
    "format",
    "maximum",
    "minLength",
    "multipleOf",
    "required",
    "default",
    "nullable",
    "a",
    "k",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-validations",
];

const OF_VALUES: &[&str] = &["a", "k", "type", "metadata", "kind", "status"];

/// A schema of which each part says something.
fn schema() -> impl Strategy<Value = Value> {
    let texts = |of: &'static [&'static str]| prop::option::of(prop::sample::select(of.to_vec()));
    let leaf = (texts(&["string", "integer", "object", "array", "boolean"]), prop::option::of(json_of(OF_VALUES, 1)), any::<bool>())
        .prop_map(|(kind, default, nullable)| {
            let mut schema = json!({"nullable": nullable});
            schema.as_object_mut().expect("members").extend(kind.map(|kind| ("type".to_owned(), kind.into())));
            schema.as_object_mut().expect("members").extend(default.map(|default| ("default".to_owned(), default)));
            schema
        });
    leaf.prop_recursive(4, 24, 3, |inner| {
        let properties = prop::collection::btree_map(prop::sample::select(OF_VALUES.to_vec()), inner.clone(), 0..3);
        let junctor = prop::option::of((prop::sample::select(vec!["allOf", "anyOf", "oneOf"]), prop::collection::vec(inner.clone(), 1..3)));
        let flags = any::<[bool; 3]>();
        (properties, prop::option::of(inner.clone()), prop::option::of(inner), junctor, flags).prop_map(
            |(properties, additional, items, junctor, [preserves, embedded, is_map])| {
                let mut schema = json!({"properties": properties, "x-kubernetes-preserve-unknown-fields": preserves});
                schema["x-kubernetes-embedded-resource"] = embedded.into();
                if let Some(additional) = additional {
                    schema["additionalProperties"] = additional;
                }
                if let Some(items) = items {
                    schema["type"] = "array".into();
                    schema["items"] = items;
                    schema["x-kubernetes-list-type"] = if is_map { "map" } else { "set" }.into();
                    schema["x-kubernetes-list-map-keys"] = json!(["k"]);
                }
                if let Some((junctor, schemas)) = junctor {
                    schema[junctor] = schemas.into();
                }
                schema
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Whatever is given as a schema is compiled or refused, and what is compiled judges whatever it is given.
    #[test]
    fn nothing_panics(tree in json_of(OF_SCHEMAS, 5), object in json_of(OF_VALUES, 4), old in json_of(OF_VALUES, 4)) {
        if let Ok(schema) = Schema::compile(tree.to_string().as_bytes()) {
            let mut object = made(&schema, &object, &mut Vec::new());
            let judged: Result<(), ()> = schema.each_embedded_mut(&mut object, &mut |_| Ok(()));
            prop_assert!(judged.is_ok());
            let _ = (schema.wrong(&object), schema.wrong_update(&object, &old), schema.wrong_status(&object, &old), schema.wrong_lists(&object));
        }
    }

    /// What has been pruned has nothing more to lose, and is not told of.
    #[test]
    fn what_is_made_stays(tree in schema(), object in json_of(OF_VALUES, 4)) {
        let schema = Schema::of_tree(&tree).expect("a schema");
        let mut object = object;
        let mut told = Vec::new();
        schema.prune(&mut object, Some(&mut told));
        let pruned = object.clone();
        told.clear();
        schema.prune(&mut object, Some(&mut told));
        prop_assert_eq!((&object, &told), (&pruned, &Vec::new()));
        schema.drop_nulls(&mut object);
        let once = object.clone();
        schema.drop_nulls(&mut object);
        prop_assert_eq!(&object, &once);
        // An error is about a part that is there, or has its place in one.
        for error in schema.wrong(&object) {
            prop_assert!(!error.field.is_empty() && !error.message.is_empty());
        }
    }

    /// An update never has more wrong than the new object alone.
    #[test]
    fn ratcheting_only_forgives(tree in schema(), new in json_of(OF_VALUES, 4), old in json_of(OF_VALUES, 4)) {
        let schema = Schema::of_tree(&tree).expect("a schema");
        let alone = schema.wrong(&new);
        for old in [&old, &new] {
            let update = schema.wrong_update(&new, old);
            if alone.is_empty() {
                prop_assert_eq!(&update, &Vec::new());
            }
        }
    }
}
