//! Metadata that was sent to a kube-apiserver, and its answers.

use serde_json::json;

use super::*;
use model::{invalid::joined, legal::SUBDOMAIN};

const CONFIG_MAPS: Rules = Rules {
    generation: false,
    create_on_update: false,
    unconditional_update: true,
    delete_returns_object: false,
    any_finalizer: false,
    name: catalogue::NameRule::Subdomain,
};
const WIDGETS: Rules = Rules { any_finalizer: true, ..CONFIG_MAPS };

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(mut members) = value else { panic!("an object") };
    members.entry("name").or_insert_with(|| "m".into());
    members.entry("namespace").or_insert_with(|| "default".into());
    normalize(&mut members);
    members
}

fn created(metadata: Value, rules: &Rules) -> String {
    joined(&validate_create(&object(metadata), true, rules))
}

fn updated(new: Value, old: Value) -> String {
    joined(&validate_update(&object(new), &object(old), true, false, &WIDGETS))
}

const FINE: &str = "[]";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn owner(more: Value) -> Value {
    let mut owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    owner.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    owner
}

#[test]
fn every_mistake_is_told_in_order() {
    let metadata = json!({"name": "Bad_", "labels": {"a b": "c"}, "annotations": {"a b": "c"}, "ownerReferences": [{}], "finalizers": ["foo bar"], "generation": -1});
    let want = [
        format!(r#"metadata.name: Invalid value: "Bad_": {SUBDOMAIN}"#),
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0".to_owned(),
        format!(r#"metadata.labels: Invalid value: "a b": {NAME_PART}"#),
        format!(r#"metadata.annotations: Invalid value: "a b": {NAME_PART}"#),
        r#"metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty"#.to_owned(),
        r#"metadata.ownerReferences.kind: Invalid value: "": must not be empty"#.to_owned(),
        r#"metadata.ownerReferences.name: Invalid value: "": must not be empty"#.to_owned(),
        r#"metadata.ownerReferences.uid: Invalid value: "": must not be empty"#.to_owned(),
        format!(r#"metadata.finalizers: Invalid value: "foo bar": {NAME_PART}"#),
        r#"metadata.finalizers[0]: Invalid value: "foo bar": name is neither a standard finalizer name nor is it fully qualified"#
            .to_owned(),
    ];
    assert_eq!(created(metadata, &CONFIG_MAPS), format!("[{}]", want.join(", ")));
}

#[test]
fn names_and_namespaces() {
    assert_eq!(created(json!({"name": ""}), &CONFIG_MAPS), "metadata.name: Required value: name or generateName is required");
    let generated = created(json!({"name": "Bad_58t6c", "generateName": "Bad_"}), &CONFIG_MAPS);
    let bad = |field: &str, value: &str| format!(r#"metadata.{field}: Invalid value: "{value}": {SUBDOMAIN}"#);
    assert_eq!(generated, format!("[{}, {}]", bad("generateName", "Bad_"), bad("name", "Bad_58t6c")));
    assert_eq!(created(json!({"generateName": "ok-"}), &CONFIG_MAPS), FINE);
    let cluster = joined(&validate_create(&object(json!({})), false, &CONFIG_MAPS));
    assert_eq!(cluster, "metadata.namespace: Forbidden: not allowed on this type");
    assert_eq!(created(json!({"namespace": ""}), &CONFIG_MAPS), "metadata.namespace: Required value");
}

#[test]
fn annotations_have_a_size_together() {
    let fill = |bytes: usize| created(json!({"annotations": {"A.Com/a": "x".repeat(bytes)}}), &CONFIG_MAPS);
    assert_eq!(fill(262_144 - 7), FINE, "keys are read in lower case");
    assert_eq!(fill(262_144 - 6), "metadata.annotations: Too long: may not be more than 262144 bytes");
}

#[test]
fn owners() {
    let check = |owners: Value| created(json!({"ownerReferences": owners}), &WIDGETS);
    let shown = r#"[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true},{"apiVersion":"v1","kind":"Pod","name":"q","uid":"v","controller":true}]"#;
    assert_eq!(
        check(json!([owner(json!({"controller": true})), owner(json!({"name": "q", "uid": "v", "controller": true}))])),
        format!(
            r#"metadata.ownerReferences: Invalid value: {shown}: Only one reference can have Controller set to true. Found "true" in references for Pod/p and Pod/q"#
        )
    );
    assert_eq!(
        check(json!([owner(json!({"kind": "Event"}))])),
        r#"metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"p","uid":"u"}: /v1, Kind=Event is disallowed from being an owner"#
    );
    for (api_version, right) in [("events.k8s.io/v1", true), ("/v1", true), ("apps/", false), ("a/b/c", false)] {
        assert_eq!(check(json!([owner(json!({"apiVersion": api_version}))])) == FINE, right, "{api_version}");
    }
}

#[test]
fn owners_that_stand_twice_go() {
    let (own, other) = (owner(json!({})), owner(json!({"name": "z"})));
    let owners = json!([own, own, owner(json!({"uid": "v"})), other, own, owner(json!({"controller": false}))]);
    let sent = json!({"metadata": {"ownerReferences": owners}});
    let patched = dedup_owners(&mut sent.clone(), Found::Patched).expect("a warning");
    assert!(
        patched.starts_with(".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups")
    );
    let mut object = sent;
    let warning = dedup_owners(&mut object, Found::Sent).expect("a warning");
    assert!(
        warning.starts_with(".metadata.ownerReferences contains duplicate entries; API server dedups")
            && warning.ends_with("observed: u, u")
    );
    assert_eq!(object["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(4));
    assert_eq!(dedup_owners(&mut object, Found::Sent), None);
    assert_eq!(dedup_owners(&mut json!({}), Found::Sent), None);
    let mut empty = json!({"metadata": {"ownerReferences": [{"uid": "u"}, {"uid": "u", "name": ""}, null, {}]}});
    assert!(dedup_owners(&mut empty, Found::Sent).is_some_and(|warning| warning.ends_with("observed: u, ")), "what is left away is empty");
}

/// Names and subresources were sent to a kube-apiserver with an object, the empty operation with one inside of it; the type of fields was not.
#[test]
fn managers_have_names_that_can_be_printed() {
    let check = |member: &str, value: &str| {
        created(json!({"managedFields": [{"operation": "Apply"}, {"operation": "Update", member: value}]}), &CONFIG_MAPS)
    };
    let wrong = |member: &str, why: &str| format!("metadata.managedFields[1].{member}: {why}");
    assert_eq!(check("manager", &"m".repeat(128)), FINE);
    assert_eq!(check("manager", &"m".repeat(129)), wrong("manager", "Too long: may not be more than 128 bytes"));
    assert_eq!(check("manager", "é\u{200b}x"), wrong("manager", r#"Invalid value: "é\u200bx": invalid character U+200B (at position 2)"#));
    assert_eq!(check("subresource", &"s".repeat(257)), wrong("subresource", "Too long: may not be more than 256 bytes"));
    assert_eq!(check("operation", ""), wrong("operation", r#"Invalid value: "": must be `Apply` or `Update`"#));
    assert_eq!(check("fieldsType", "X"), wrong("fieldsType", r#"Invalid value: "X": must be `FieldsV1`"#));
}

#[test]
fn finalizers_are_qualified_or_standard() {
    let check = |names: Value, rules| created(json!({"finalizers": names}), rules);
    let bare = r#"metadata.finalizers[1]: Invalid value: "foo": name is neither a standard finalizer name nor is it fully qualified"#;
    assert_eq!(check(json!(["a/b", "foo", "kubernetes", "a/b"]), &CONFIG_MAPS), bare);
    assert_eq!(check(json!(["foo"]), &WIDGETS), FINE);
    assert_eq!(
        check(json!(["orphan", "foregroundDeletion"]), &WIDGETS),
        r#"metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#
    );
    let (new, old) = (object(json!({"finalizers": ["foo", "bar", "a/b", "orphan"]})), object(json!({"finalizers": ["foo"]})));
    assert_eq!(
        finalizer_warnings(&new, Some(&old)),
        [
            r#"metadata.finalizers: "bar": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"#
        ]
    );
    assert_eq!(finalizer_warnings(&new, None).len(), 2);
    assert_eq!(
        finalizer_warnings(&object(json!({"finalizers": ["x.io"]})), None),
        [
            r#"metadata.finalizers: "x.io": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"#
        ]
    );
}

#[test]
fn some_members_never_change() {
    let old = json!({"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 2});
    let with = |more: Value| {
        let mut new = old.clone();
        new.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        updated(new, old.clone())
    };
    assert_eq!(with(json!({})), FINE);
    assert_eq!(
        with(json!({"uid": "v", "deletionTimestamp": "2000-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5})),
        r#"[metadata.uid: Invalid value: "v": field is immutable, metadata.deletionTimestamp: Invalid value: "2000-01-01T00:00:00Z": field is immutable, metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable]"#
    );
    assert_eq!(with(json!({"generation": 1})), "metadata.generation: Invalid value: 1: must not be decremented");
    let (new, old) = (json!({"labels": {"a b": "c"}, "uid": "v", "finalizers": ["x y", "foo"]}), json!({"uid": "u"}));
    let all = validate_update(&object(new), &object(old), true, false, &CONFIG_MAPS);
    let fields: Vec<&str> = all.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["metadata.labels", "metadata.finalizers", "metadata.uid", "metadata.finalizers[0]", "metadata.finalizers[1]"]);
}

#[test]
fn an_object_being_deleted_gets_no_new_finalizer() {
    let old = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]});
    let with = |names: Value| updated(json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": names}), old.clone());
    assert_eq!(
        with(json!(["a.b/c", "foo", "d.e/f"])),
        r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"d.e/f", "foo"}"#
    );
    assert_eq!(with(json!([])), FINE);
}

#[test]
fn the_normal_form_is_what_go_prints() {
    let mut metadata = json!({
        "labels": {"a": null, "b": "c"}, "annotations": {}, "finalizers": [null], "ownerReferences": [null, owner(json!({"controller": null}))],
        "selfLink": "", "creationTimestamp": null, "generation": 0, "generateName": "", "managedFields": [], "unknown": {}, "name": "x",
    });
    normalize(metadata.as_object_mut().expect("an object"));
    let empty = json!({"apiVersion": "", "kind": "", "name": "", "uid": ""});
    let want = json!({"labels": {"a": "", "b": "c"}, "finalizers": [""], "ownerReferences": [empty, owner(json!({}))], "unknown": {}, "name": "x"});
    assert_eq!(metadata, want);
    let again = metadata.clone();
    normalize(metadata.as_object_mut().expect("an object"));
    assert_eq!(metadata, again);
}
