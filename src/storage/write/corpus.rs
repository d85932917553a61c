//! The laws of the parsers of writes: bodies, patches, names, quantities, times, paths of definitions (`corpus`).

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    body::{self, Expected, Syntax},
    decode::DecodedBody,
    metadata::wrong_name,
    names,
    options::{DeleteOptions, FieldValidation, MalformedDeletion, WriteOptions},
    patch_request::{PatchKind, PatchRequest},
    typed,
};
use catalogue::{Definition, NameRule, definition, types::TypeRef};
use codec::{Encoder, definition::to_stored, ingest};
use corpus::Subject;
use go::url::Query;
use model::{Revision, Shape, Storage};

const POD: Expected<'_> = Expected { group: "", version: "v1", kind: "Pod", custom: false, schema: None };
const DEFINITION: Expected<'_> =
    Expected { group: "apiextensions.k8s.io", version: "v1", kind: "CustomResourceDefinition", custom: false, schema: None };
const WIDGET: Expected<'_> = Expected { group: "ex.io", version: "v1", kind: "Widget", custom: true, schema: None };

/// Values that a document may stand for: aliases may make 99 of 100 once there are a thousand.
const VALUES_A_BYTE: usize = 100;
const VALUES_AT_LEAST: usize = 1_000;

const WORDS: &[&str] = &[
    r#"{"kind":"Pod","apiVersion":"v1","metadata":{"#,
    r#"{"kind":"Widget","apiVersion":"ex.io/v1","metadata":{"#,
    r#""metadata":{"name":"a"}"#,
    r#""creationTimestamp":null"#,
    r#""labels":{"a":null}"#,
    r#""ownerReferences":[{}]"#,
    r#""managedFields":[{}]"#,
    r#""spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"0.5"}}}]}"#,
    r#""spec":{"a":1.0}"#,
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "true",
    "1e2",
];

#[test]
fn bodies_json() {
    Subject {
        name: "bodies-json",
        law: |input| read(Syntax::Json, input),
        words: WORDS,
        long: &[
            ["", "[", ""],
            ["", r#"{"a":"#, ""],
            ["{", r#""a":1,"#, r#""a":2}"#],
            [r#"{"a":""#, r"\ud800", r#""}"#],
            ["{\"a\":", "9", "}"],
            ["{", r#""a":{"b":1},"#, r#""a":{}}"#],
            [r#"{"a":["#, "{},", "{}]}"],
            ["", " ", "{}"],
        ],
    }
    .check();
}

#[test]
fn bodies_yaml() {
    Subject {
        name: "bodies-yaml",
        law: |input| read(Syntax::Yaml, input),
        words: &[
            "kind: Pod\napiVersion: v1\n",
            "metadata:\n  name: a\n",
            "&a ",
            "*a",
            "<<: *a\n",
            "<<: [*a, *a]\n",
            "- ",
            ": ",
            "? ",
            "|\n  ",
            ">-\n  ",
            "---\n",
            "...\n",
            "# ",
            "!!str ",
            "!!binary ",
            "!!int ",
            "!x ",
            "%YAML 1.1\n",
            "~",
            ".nan",
            ".inf",
            "0x1f",
            "0o7",
            "1_000",
            "yes",
            "2001-01-01",
            "{",
            "}",
            "[",
            "]",
            "'",
            "\\x41",
        ],
        long: &[
            ["", "[", ""],
            ["", "{a: ", ""],
            ["- &a x\n", "- *a\n", ""],
            ["a: &a {b: c}\nd: [", "*a, ", "*a]\n"],
            ["a: &a {b: c}\n", "<<: *a\n", ""],
            ["", "a: 1\n", ""],
            ["", "- ", "a\n"],
            ["", "? ", "a\n"],
            ["a: |\n", "  é\n", ""],
            ["a: \"", "\\x41", "\"\n"],
            ["", "#", "\n"],
            ["", "\n", "a: 1\n"],
            ["", "---\n", ""],
            ["a: ", "&a", " 1\n"],
            ["a: ", "!!str ", "1\n"],
        ],
    }
    .check();
}

/// A body that can be read is printed and read again as the same tree, and what the types made of it they leave alone.
fn read(syntax: Syntax, input: &[u8]) -> bool {
    let _ = DeleteOptions::parse(MalformedDeletion::On, &Query::default(), syntax, input);
    let mut any = false;
    for expected in [POD, WIDGET] {
        let Ok(body::Tree { value, .. }) = body::parse(syntax, input, &expected) else { continue };
        any = true;
        assert!(values(&value) <= VALUES_AT_LEAST + VALUES_A_BYTE * input.len(), "{} bytes became {} values", input.len(), values(&value));
        comes_back(&value, &expected);
        let mut typed = value;
        if typed::conform(&mut typed, expected.group, expected.version, expected.kind).is_ok() {
            let mut again = typed.clone();
            assert_eq!(typed::conform(&mut again, expected.group, expected.version, expected.kind), Ok(Vec::new()), "{typed}");
            assert_eq!(again, typed);
        }
        let sent = |validation| {
            DecodedBody::read_as(&expected, &WriteOptions { dry_run: false, validation, ..WriteOptions::default() }, syntax, input)
                .map(|sent| sent.tree)
        };
        let (strict, warned, ignored) = (sent(FieldValidation::Strict), sent(FieldValidation::Warn), sent(FieldValidation::Ignore));
        assert_eq!(warned.as_ref().ok(), ignored.as_ref().ok(), "what is told changes nothing");
        assert!(strict.is_err() || strict.as_ref().ok() == warned.as_ref().ok());
    }
    any
}

fn comes_back(value: &Value, expected: &Expected<'_>) {
    let printed = serde_json::to_vec(value).expect("a tree of values");
    let read = body::parse(Syntax::Json, &printed, expected).expect("what is printed is a body");
    assert_eq!((&read.value, &*read.duplicates), (value, [].as_slice()));
    assert_eq!(serde_json::from_slice::<Value>(&printed).ok().as_ref(), Some(value), "what is stored can be read");
}

fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(members) => members.values().map(values).sum(),
        _ => 0,
    }
}

/// What patches are applied to.
fn pod() -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "a", "namespace": "ns", "labels": {"app": "a", "a/b": "c~d"}, "finalizers": ["x.io/y", "x.io/z"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]},
        "spec": {"containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}], "env": [{"name": "A", "value": "1"}]},
                {"name": "d", "image": "j", "command": ["x", "y"]}],
            "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "k", "operator": "Exists"}], "nodeSelector": {"a": "b"}},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}
    })
}

fn patch(kind: PatchKind, input: &[u8]) -> Option<Value> {
    let of = TypeRef::of("", "v1", "Pod").expect("a built-in kind");
    let apply = |validation| PatchRequest { kind, bytes: input, validation }.apply(&pod(), Some(of));
    let (patched, _) = apply(FieldValidation::Warn).ok()?;
    let (ignored, _) = apply(FieldValidation::Ignore).expect("what is right is right without being told");
    assert_eq!(ignored, patched);
    let printed = serde_json::to_vec(&patched).expect("a tree of values");
    assert_eq!(serde_json::from_slice::<Value>(&printed).ok().as_ref(), Some(&patched), "what is stored can be read");
    let options = WriteOptions { dry_run: false, validation: FieldValidation::Warn, ..WriteOptions::default() };
    let _ = DecodedBody::patched(&POD, &options, &PatchRequest { kind, bytes: input, validation: FieldValidation::Warn }, &pod());
    Some(patched)
}

#[test]
fn patches_json() {
    Subject {
        name: "patches-json",
        law: |input| patch(PatchKind::Json, input).is_some(),
        words: &[
            r#"{"op":"add","path":"/metadata/labels/x","value":1},"#,
            r#"{"op":"remove","path":"/spec/containers/0"},"#,
            r#"{"op":"copy","from":"/spec","path":"/spec/a"},"#,
            r#"{"op":"move","from":"/spec","path":"/metadata/spec"},"#,
            r#"{"op":"test","path":"","value":{}},"#,
            r#"{"op":"replace","path":"","value":[]},"#,
            "/spec/containers",
            "/-",
            "/-1",
            "/0",
            "~0",
            "~1",
            "~",
            "[",
            "]",
            "{",
            "}",
            ",",
        ],
        long: &[
            ["[", r#"{"op":"copy","from":"/spec","path":"/spec/a"},"#, r#"{"op":"test","path":""}]"#],
            ["[", r#"{"op":"add","path":"/spec/containers/0","value":{}},"#, r#"{"op":"remove","path":"/spec/containers/0"}]"#],
            [r#"[{"op":"add","path":""#, "/a", r#"","value":1}]"#],
            [r#"[{"op":"add","path":"/metadata/labels/"#, "~1", r#"","value":1}]"#],
            ["", "[", ""],
        ],
    }
    .check();
}

#[test]
fn patches_merge() {
    Subject {
        name: "patches-merge",
        law: |input| {
            let Some(patched) = patch(PatchKind::Merge, input) else { return false };
            let again = PatchRequest { kind: PatchKind::Merge, bytes: input, validation: FieldValidation::Warn }.apply(&patched, None);
            assert_eq!(again.expect("it was applied before").0, patched, "a merge patch says what there should be");
            true
        },
        words: WORDS,
        long: &[["", r#"{"a":"#, ""], ["{", r#""a":null,"#, r#""b":1}"#], [r#"{"a":["#, "null,", "{}]}"], ["", "[", ""]],
    }
    .check();
}

#[test]
fn patches_strategic() {
    Subject {
        name: "patches-strategic",
        law: |input| patch(PatchKind::Strategic, input).is_some_and(|patched| patched.is_object()),
        words: &[
            r#""$patch":"delete""#,
            r#""$patch":"replace""#,
            r#""$patch":"merge""#,
            r#""$retainKeys":["name"]"#,
            r#""$deleteFromPrimitiveList/finalizers":["x.io/y"]"#,
            r#""$setElementOrder/containers":[{"name":"d"},{"name":"c"}]"#,
            r#"{"spec":{"containers":[{"name":"c","image":"k"}]}}"#,
            r#""volumes":[{"name":"v","hostPath":{},"$retainKeys":["name","hostPath"]}]"#,
            r#""ports":[{"containerPort":80}]"#,
            "null",
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
        ],
        long: &[
            [r#"{"spec":{"containers":["#, r#"{"name":"c"},"#, r#"{"name":"d"}]}}"#],
            [r#"{"metadata":{"finalizers":["#, r#""a","#, r#""b"]}}"#],
            [r#"{"spec":{"$setElementOrder/containers":["#, r#"{"name":"c"},"#, r#"{"name":"d"}]}}"#],
            ["", r#"{"spec":"#, ""],
        ],
    }
    .check();
}

#[test]
fn resource_names() {
    Subject {
        name: "names",
        law: |input| {
            let name = String::from_utf8_lossy(input);
            let right = |rule| wrong_name(rule, &name, false).is_empty();
            assert!(!right(NameRule::Label) || right(NameRule::Subdomain), "a label is a subdomain");
            assert!(!right(NameRule::CronJob) || right(NameRule::Subdomain));
            assert!(!right(NameRule::Subdomain) || right(NameRule::PathSegment) && wrong_name(NameRule::Subdomain, &name, true).is_empty());
            assert!(!right(NameRule::IpAddress) || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_string() == name));
            let generated = names::generate(&name, &mut <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(1));
            assert!(generated.len() <= 63 && (name.len() > 58 || generated.starts_with(&*name)), "{generated}");
            right(NameRule::Subdomain)
        },
        words: &["-", ".", "_", ":", "::", "a", "A", "0", "system:", "10.0.0.1", "2001:db8::1", "%", "/"],
        long: &[["", "a", ""], ["", "a.", "a"], ["", "-", ""], ["", "0", ".0.0.1"], ["", ":", ""], ["", "é", ""]],
    }
    .check();
}

#[test]
fn definitions() {
    Subject {
        name: "definitions",
        law: |input| {
            let options = WriteOptions { dry_run: false, validation: FieldValidation::Warn, ..WriteOptions::default() };
            let Ok(sent) = DecodedBody::read_as(&DEFINITION, &options, Syntax::Json, input) else { return false };
            let mut definition = sent.tree;
            // The metadata is judged elsewhere.
            if definition.pointer("/metadata/name").and_then(Value::as_str).is_none_or(str::is_empty) {
                return false;
            }
            definition::defaulted(&mut definition);
            definition::prepare_create(&mut definition);
            let _ = definition::warnings(&definition, None);
            if !definition::validate_create(&definition, &super::embedded::Heads).is_empty() {
                return false;
            }
            let stored = to_stored(&definition);
            let storage = Storage {
                id: "apiextensions.k8s.io/customresourcedefinitions".into(),
                group: DEFINITION.group.to_owned(),
                resource: "customresourcedefinitions".to_owned(),
                namespaced: false,
                shape: Shape::Definition,
                fields: Vec::new(),
            };
            let key = Bytes::from_static(b"/registry/apiextensions.k8s.io/customresourcedefinitions/a.b");
            let read = ingest(&storage, "/registry/apiextensions.k8s.io/customresourcedefinitions/".len(), key, &stored, Revision(7));
            let mut shown = Vec::new();
            Encoder::built_in("apiextensions.k8s.io/v1", DEFINITION.kind, "", "").object_into(&read.expect("what is valid can be served"), &mut shown);
            Definition::parse(&shown).expect("what is valid is understood");
            true
        },
        words: &[
            r#""type":"object""#,
            r#""properties":{"a":"#,
            r#""items":"#,
            r#""additionalProperties":true"#,
            r#""anyOf":[{}]"#,
            r#""required":["a"]"#,
            r#""x-kubernetes-preserve-unknown-fields":true"#,
            r#""x-kubernetes-int-or-string":true"#,
            r#""x-kubernetes-list-type":"map""#,
            r#""x-kubernetes-validations":[{"rule":"true"}]"#,
            r#""default":null"#,
            r#""pattern":"("#,
            r#""selectableFields":[{"jsonPath":".spec.color"}]"#,
            r#""additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".a"}]"#,
            r#""conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"]}}"#,
            r#""deprecated":true"#,
            r#""served":false"#,
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
        ],
        long: &[[
            r#"{"metadata":{"name":"foos.ex.io"},"spec":{"group":"ex.io","scope":"Cluster","names":{"plural":"foos","kind":"Foo"},"versions":["#,
            r#"{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"type":"string"}}}}},"#,
            r#"{"name":"v2"}]}}"#,
        ]],
    }
    .check();
}
