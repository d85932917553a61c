//! New objects of every kind that we can create, as kube-apiserver answered them (`tests/data/defaults`), compared with what our decoder and strategies
//! make of them.

use std::{fs, path::Path};

use serde_json::{Map, Value, json};

use crate::write::{custom::Judge, kinds, object_ref::test_object_ref, strategy, tree, typed};
use catalogue::{defaults, types::TypeRef};
use codec::{normalize, versions::Version};

/// What kube-apiserver adds that is not a default: the kind, the pointer of what it added, and who adds it.
const NOT_OURS: &[(&str, &str, &str)] = &[
    ("Pod", "/spec/tolerations", "admission"),
    ("Pod", "/spec/priority", "admission"),
    ("Pod", "/spec/preemptionPolicy", "admission"),
    ("PersistentVolume", "/metadata/finalizers", "admission"),
    ("PersistentVolumeClaim", "/metadata/finalizers", "admission"),
    ("VolumeAttributesClass", "/metadata/finalizers", "admission"),
    ("Service", "/spec/clusterIP", "allocator"),
    ("Service", "/spec/clusterIPs", "allocator"),
    ("Service", "/spec/ipFamilies", "allocator"),
    ("Service", "/spec/ipFamilyPolicy", "allocator"),
    ("Service", "/spec/ports/0/nodePort", "allocator"),
];

struct Case {
    /// The collection.
    path: String,
    sent: Value,
    got: Value,
}

/// Recorded by `record.py` beside the file.
fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/defaults/created.jsonl");
    let text = fs::read_to_string(path).expect("the record is there");
    let case = |line: &str| {
        let mut line: Value = serde_json::from_str(line).expect("a line is JSON");
        Case { path: line["path"].as_str().expect("a path").to_owned(), sent: line["sent"].take(), got: line["got"].take() }
    };
    text.lines().map(case).collect()
}

/// What our own server would store: decoded, defaults filled in, prepared as its kind is.
fn created(case: &Case) -> Value {
    let (api_version, kind) = (tree::text(&case.sent, &["apiVersion"]), tree::text(&case.sent, &["kind"]));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    assert!(TypeRef::of(group, version, kind).is_some(), "{kind}");
    let mut object = case.sent.clone();
    typed::conform(&mut object, group, version, kind).expect("of its type");
    normalize(&mut object, usize::MAX).expect("no limit");
    defaults::fill(&mut object, api_version, kind);
    let converted = Version::of(api_version, kind);
    if let (Some(version), Value::Object(sent)) = (converted, &object) {
        object = version.stored(sent, usize::MAX).expect("no limit");
        let stored_as = tree::text(&object, &["apiVersion"]).to_owned();
        defaults::fill(&mut object, &stored_as, kind);
    }
    let namespace = case.path.contains("/namespaces/").then_some("default");
    let resource = case.path.rsplit('/').next().expect("a resource");
    let target = test_object_ref(group, resource, namespace, tree::text(&case.sent, &["metadata", "name"]));
    if target.served().kind == "Secret" {
        kinds::encode_string_data(&mut object);
    }
    if target.served().kind == "Node" {
        // The admission plugin TaintNodesByCondition was on.
        tree::set(&mut object, &["spec", "taints"], serde_json::json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]));
    }
    let mut object = strategy::create(&target, Judge::default(), object, None, &strategy::Birth::now(), &mut Vec::new()).expect("valid");
    normalize(&mut object, usize::MAX).expect("no limit");
    match (converted, &object) {
        (Some(version), Value::Object(stored)) => serde_json::from_slice(&version.shown(stored)).expect("JSON"),
        _ => object,
    }
}

/// One uid and one time are as good as another.
fn alike(mut object: Value) -> Value {
    let uid = tree::text(&object, &["metadata", "uid"]).to_owned();
    replace(&mut object, &|text| text == uid || tree::parsed(text).is_some());
    object
}

fn replace(value: &mut Value, is_symbol: &dyn Fn(&str) -> bool) {
    match value {
        Value::String(text) if is_symbol(text) => *text = "$".to_owned(),
        Value::Array(elements) => elements.iter_mut().for_each(|element| replace(element, is_symbol)),
        Value::Object(members) => members.values_mut().for_each(|member| replace(member, is_symbol)),
        _ => {}
    }
}

/// Takes out of both what is told above; whether that was a difference.
fn without(pointer: &str, ours: &mut Value, theirs: &mut Value) -> bool {
    let (holder, name) = pointer.rsplit_once('/').expect("a pointer");
    let take = |value: &mut Value| {
        value.pointer_mut(holder).and_then(Value::as_object_mut).and_then(|members: &mut Map<_, _>| members.remove(name))
    };
    take(ours) != take(theirs)
}

#[test]
fn what_is_left_out_is_filled_in_as_by_kube_apiserver() {
    let (mut needed, mut wrong) = (vec![false; NOT_OURS.len()], Vec::new());
    for case in cases() {
        let (mut ours, mut theirs) = (alike(created(&case)), alike(case.got.clone()));
        let kind = tree::text(&case.sent, &["kind"]);
        for (index, (_, pointer, _)) in NOT_OURS.iter().enumerate().filter(|(_, (of, ..))| *of == kind) {
            needed[index] |= without(pointer, &mut ours, &mut theirs);
        }
        if ours != theirs {
            wrong.push(format!("{}\nours   {ours}\ntheirs {theirs}", case.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let idle: Vec<_> = NOT_OURS.iter().zip(needed).filter(|(_, needed)| !needed).collect();
    assert!(idle.is_empty(), "{idle:?}");
}

#[test]
fn filling_in_twice_changes_nothing() {
    for Case { sent, .. } in cases() {
        let (api_version, kind) = (tree::text(&sent, &["apiVersion"]), tree::text(&sent, &["kind"]));
        let mut once = sent.clone();
        normalize(&mut once, usize::MAX).expect("no limit");
        defaults::fill(&mut once, api_version, kind);
        let mut twice = once.clone();
        defaults::fill(&mut twice, api_version, kind);
        assert_eq!(once, twice);
    }
    let mut odd = json!({"kind": "Pod", "spec": {"containers": {"a": 1}, "volumes": [3, null]}, "metadata": []});
    defaults::fill(&mut odd, "v1", "Pod");
    assert_eq!(odd["spec"]["containers"], json!({"a": 1}));
}
