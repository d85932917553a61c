//! Cases recorded from kube-apiserver 1.36.3 (`tests/data/smp/record.py`), and properties of every patch.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{MERGED_MAX, PatchError, TypeRef, apply};
use crate::write::typed::conform;

#[derive(Deserialize)]
struct Recorded {
    group: String,
    version: String,
    kind: String,
    original: Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    patch: Value,
    result: Option<Value>,
    #[serde(default)]
    code: u16,
    #[serde(default)]
    message: String,
}

#[test]
fn recorded_cases_come_out_as_recorded() {
    let recorded: Vec<Recorded> = serde_json::from_str(include_str!("../../../../../tests/data/smp/cases.json")).expect("recorded JSON");
    assert!(recorded.iter().map(|it| it.cases.len()).sum::<usize>() >= 140);
    for it in &recorded {
        let of = TypeRef::of(&it.group, &it.version, &it.kind).expect("a built-in kind");
        for case in &it.cases {
            let found = apply(&it.original, &case.patch, of);
            match (&case.result, found) {
                (Some(expect), Ok(found)) => assert_eq!(settled(it, found), settled(it, expect.clone()), "{} {}", it.kind, case.patch),
                // The patch was applied, and what came out was refused.
                (None, Ok(_)) => {
                    assert!(case.code == 422 || case.message.starts_with("the name of the object"), "{} {}", it.kind, case.patch)
                }
                (None, Err(PatchError::BadRequest(message))) => assert_eq!((case.code, &*case.message), (400, &*message)),
                (None, Err(PatchError::Internal(message))) => assert_eq!((case.code, &*case.message), (500, &*message)),
                (_, Err(error)) => panic!("{} {}: {error:?}", it.kind, case.patch),
            }
        }
    }
}

/// An element that is named again and again has its own lists merged as often.
#[test]
fn what_lists_merge_has_a_limit() {
    let pod = |env: usize| {
        let env: Vec<Value> = (0..env).map(|i| json!({"name": i.to_string()})).collect();
        json!({"spec": {"containers": [{"name": "c", "env": env}]}})
    };
    let again = |times: usize, inner: Value| json!({"spec": {"containers": vec![inner; times]}});
    let of = TypeRef::of("", "v1", "Pod").expect("a built-in kind");
    for inner in [json!({"name": "c", "env": [{"name": "1"}]}), json!({"name": "c", "$setElementOrder/env": [{"name": "1"}]})] {
        assert!(apply(&pod(100), &again(1_000, inner.clone()), of).is_ok());
        let refused = apply(&pod(MERGED_MAX / 100), &again(101, inner.clone()), of);
        assert!(matches!(refused, Err(PatchError::TooLarge(why)) if why.contains("1000000 elements")), "{inner}");
    }
}

/// What the decoder makes of it, without what Go does not write or keep: empty members, and data that came with `stringData`.
fn settled(it: &Recorded, mut value: Value) -> Value {
    conform(&mut value, &it.group, &it.version, &it.kind).expect("of the right types");
    without_empty(value).unwrap_or_default()
}

fn without_empty(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) => {
            let members: Map<_, _> = members.into_iter().filter_map(|(name, member)| Some((name, without_empty(member)?))).collect();
            (!members.is_empty()).then_some(Value::Object(members))
        }
        Value::Array(elements) => {
            let elements: Vec<_> = elements.into_iter().map(|element| without_empty(element).unwrap_or(Value::Null)).collect();
            (!elements.is_empty()).then_some(Value::Array(elements))
        }
        scalar => Some(scalar),
    }
}

fn pod() -> TypeRef {
    TypeRef::of("", "v1", "Pod").expect("a built-in kind")
}

fn check(original: Value, patch: Value, expect: Result<Value, PatchError>) {
    assert_eq!(apply(&original, &patch, pod()), expect, "{patch}");
}

/// Where kube-apiserver's handler dies (a merge key that is an object, a null among scalars) there is an answer.
#[test]
fn odd_patches_are_answered() {
    let internal = |text: &str| Err(PatchError::Internal(text.to_owned()));
    let ordered = json!({"spec": {"$setElementOrder/tolerations": [{"key": "k"}]}});
    check(json!({"spec": {"tolerations": [{"key": "k"}]}}), ordered, Ok(json!({"spec": {"tolerations": [{"key": "k"}]}})));
    let nulls = json!({"metadata": {"finalizers": [null]}});
    check(json!({"metadata": {"finalizers": ["a"]}}), nulls, internal("list element types are not identical: [[a] [<nil>]]"));
    check(
        json!({"spec": {"containers": [{"name": {}}]}}),
        json!({"spec": {"containers": [{"name": {}, "image": "i"}]}}),
        Ok(json!({"spec": {"containers": [{"name": {}, "image": "i"}]}})),
    );
    check(json!({"metadata": {"finalizers": [["a"]]}}), json!({"metadata": {"finalizers": ["b"]}}), Err(PatchError::Unapplicable));
    let into = json!({"metadata": {"managedFields": []}, "spec": {"nodeSelector": {"a": {}}}});
    check(
        into,
        json!({"spec": {"nodeSelector": {"a": {}}}}),
        internal("merging an object in json but data type is not struct, instead is: map"),
    );
    check(json!(null), json!({}), internal("expected a map[string]interface {}, but received a %!s(<nil>)"));
    check(json!({"a": 1}), json!(null), Ok(json!({"a": 1})));
}

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned)
}

/// A list of objects with this key, each once.
fn keyed(key: &'static str) -> impl Strategy<Value = Value> {
    prop::collection::btree_map(names(), names(), 0..4)
        .prop_map(move |elements| elements.into_iter().map(|(name, image)| json!({key: name, "image": image})).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(Value::Array)
}

fn object() -> impl Strategy<Value = Value> {
    let labels = prop::collection::btree_map(names(), names(), 1..3);
    let finalizers = prop::sample::subsequence(vec!["a", "b", "c"], 0..=3).prop_shuffle();
    (labels, finalizers, keyed("name"), keyed("uid"), names()).prop_map(|(labels, finalizers, containers, owners, node)| {
        json!({"metadata": {"labels": labels, "finalizers": finalizers, "ownerReferences": owners}, "spec": {"containers": containers, "nodeName": node}})
    })
}

/// An object whose lists also say their order, and that has directives here and there.
fn patch() -> impl Strategy<Value = Value> {
    (object(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(mut patch, order, replace, delete)| {
        // As kube-apiserver, we refuse to order nothing.
        if order && patch["spec"]["containers"][0].is_object() {
            let order: Value = patch["spec"]["containers"].as_array().into_iter().flatten().map(|c| json!({"name": c["name"]})).collect();
            patch["spec"]["$setElementOrder/containers"] = order;
        }
        if replace {
            patch["metadata"]["labels"]["$patch"] = json!("replace");
        }
        if delete && let Some(containers) = patch["spec"]["containers"].as_array_mut() {
            containers.push(json!({"name": "zz", "$patch": "delete"}));
            patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!(["b"]);
        }
        patch
    })
}

fn directives(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.iter().map(|(name, member)| usize::from(name.starts_with('$')) + directives(member)).sum(),
        Value::Array(elements) => elements.iter().map(directives).sum(),
        _ => 0,
    }
}

proptest! {
    #[test]
    fn an_empty_patch_changes_nothing(object in object()) {
        prop_assert_eq!(apply(&object, &json!({}), pod()), Ok(object));
    }

    #[test]
    fn an_object_merged_with_itself_is_itself(object in object()) {
        prop_assert_eq!(apply(&object, &object, pod()), Ok(object));
    }

    #[test]
    fn no_directive_survives(object in object(), patch in patch()) {
        let merged = apply(&object, &patch, pod()).expect("a patch that can be applied");
        prop_assert_eq!(directives(&merged), 0, "{}", merged);
    }

    /// Everything that a plain patch says is so afterwards, in its order when it asks for one.
    #[test]
    fn a_patch_has_its_way(object in object(), patch in object()) {
        let merged = apply(&object, &patch, pod()).expect("a patch that can be applied");
        prop_assert_eq!(apply(&merged, &patch, pod()), Ok(merged.clone()));
        let of = |value: &Value, name: &Value| value["spec"]["containers"].as_array().into_iter().flatten().find(|c| c["name"] == *name).cloned();
        for container in patch["spec"]["containers"].as_array().into_iter().flatten() {
            prop_assert_eq!(of(&merged, &container["name"]), Some(container.clone()));
        }
        for container in object["spec"]["containers"].as_array().into_iter().flatten() {
            prop_assert!(of(&merged, &container["name"]).is_some());
        }
    }
}
