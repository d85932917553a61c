//! Patches that were sent to a kube-apiserver, and what became of them.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn target() -> Value {
    json!({"spec": {"list": [1, 2, 3], "n": null, "m": {"a": 1}, "s": "x", "e": {}}, "a~b": 1, "c/d": 2})
}

fn patched(patch: &str) -> Result<Value, PatchError> {
    apply(&target(), patch.as_bytes(), FieldValidation::Warn).map(|(value, _)| value)
}

/// Patches of one or more operations, written without brackets, and the change of `spec` that they make.
fn check(patch: &str, want: Option<Value>) {
    let want = want.map_or(Err(PatchError::Unapplicable), |changes| {
        let mut value = target();
        for (member, change) in changes.as_object().expect("changes") {
            if change == "gone" {
                value["spec"].as_object_mut().expect("an object").remove(member);
            } else {
                value["spec"][member] = change.clone();
            }
        }
        Ok(value)
    });
    assert_eq!(patched(&format!("[{patch}]")), want, "{patch}");
}

fn add(path: &str, want: Option<Value>) {
    check(&format!(r#"{{"op":"add","path":"{path}","value":4}}"#), want);
}

#[test]
fn add_into_lists_and_maps() {
    for path in ["/spec/list/-", "/spec/list/3", "/spec/list/-1"] {
        add(path, Some(json!({"list": [1, 2, 3, 4]})));
    }
    for path in ["/spec/list/01", "/spec/list/+1"] {
        add(path, Some(json!({"list": [1, 4, 2, 3]})));
    }
    for path in ["/spec/list/4", "/spec/list/x", "/spec/list/-5", "/nope/x", "/spec/s/x", "/spec/n/x", "", "x"] {
        add(path, None);
    }
    add("/spec/new", Some(json!({"new": 4})));
    check(r#"{"op":"add","path":"/spec/new"}"#, Some(json!({"new": null})));
    check(
        r#"{"op":"add","path":"/spec/list/0","value":{"z":[]}},{"op":"add","path":"/spec/list/0/z/-","value":1}"#,
        Some(json!({"list": [{"z": [1]}, 1, 2, 3]})),
    );
}

#[test]
fn paths_are_decoded_and_need_no_slash_in_front() {
    let at_root = |path: &str| patched(&format!(r#"[{{"op":"add","path":"{path}","value":5}}]"#)).expect("a patch");
    for (path, member) in [("/a~0b", "a~b"), ("/c~1d", "c/d"), ("/a~2b", "a~2b"), ("/", ""), ("spec/x", "x")] {
        assert_eq!(at_root(path)[member], 5, "{path}");
    }
}

#[test]
fn remove_and_replace() {
    let of = |op: &str, path: &str| format!(r#"{{"op":"{op}","path":"{path}","value":"y"}}"#);
    check(&of("remove", "/spec/list/-1"), Some(json!({"list": [1, 2]})));
    check(&of("remove", "/spec/n"), Some(json!({"n": "gone"})));
    for path in ["/spec/list/3", "/spec/list/-", "/spec/list/-4", "/spec/nope", "/nope/x", ""] {
        check(&of("remove", path), None);
    }
    check(&of("replace", "/spec/list/-1"), Some(json!({"list": [1, 2, "y"]})));
    check(&of("replace", "/spec/nope"), Some(json!({"nope": "y"})));
    check(r#"{"op":"replace","path":"/spec/s"}"#, Some(json!({"s": null})));
    for path in ["/spec/list/-", "/spec/list/3", "/nope/x", ""] {
        check(&of("replace", path), None);
    }
    assert_eq!(patched(r#"[{"op":"replace","path":"","value":{}}]"#), Ok(json!({})));
}

#[test]
fn test_takes_absent_for_null() {
    let passes = |path: &str, value: &str| patched(&format!(r#"[{{"op":"test","path":"{path}","value":{value}}}]"#)).is_ok();
    for (path, value) in [
        ("/spec/s", r#""x""#),
        ("/spec/nope", "null"),
        ("/spec/n", "null"),
        ("/spec/list", "[1,2,3]"),
        ("/spec/m", r#"{"a":1}"#),
        ("/spec/e", "{}"),
        ("/spec/list/-1", "3"),
    ] {
        assert!(passes(path, value), "{path} {value}");
    }
    for (path, value) in [
        ("/spec/s", r#""y""#),
        ("/spec/nope", "1"),
        ("/nope/x", "null"),
        ("/spec/list", "[1,2]"),
        ("/spec/list/0", "1.0"),
        ("/spec/list/5", "null"),
        ("/spec/m", r#"{"a":2}"#),
        ("/spec/e", "null"),
        ("", "{}"),
    ] {
        assert!(!passes(path, value), "{path} {value}");
    }
}

#[test]
fn move_and_copy() {
    let of = |op: &str, from: &str, path: &str| format!(r#"{{"op":"{op}","from":"{from}","path":"{path}"}}"#);
    check(&of("move", "/spec/s", "/spec/t"), Some(json!({"s": "gone", "t": "x"})));
    check(&of("move", "/spec/s", "/spec/s"), Some(json!({})));
    check(&of("move", "/spec/n", "/spec/t"), Some(json!({"n": "gone", "t": null})));
    check(&of("move", "/spec/list/0", "/spec/list/2"), Some(json!({"list": [2, 3, 1]})));
    check(&of("move", "/spec/nope", "/spec/t"), None);
    check(&of("move", "/spec/m", "/spec/m/x"), None);
    check(r#"{"op":"move","path":"/spec/t"}"#, None);
    check(&of("copy", "/spec/m", "/spec/m/x"), Some(json!({"m": {"a": 1, "x": {"a": 1}}})));
    check(&of("copy", "/spec/list", "/spec/list/-"), Some(json!({"list": [1, 2, 3, [1, 2, 3]]})));
    check(&of("copy", "/spec/nope", "/spec/t"), Some(json!({"t": null})));
}

#[test]
fn what_is_no_patch_is_refused_with_the_texts_of_the_real_server() {
    let cases = [
        ("", "unexpected end of JSON input"),
        ("{}", "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("[5]", "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (r#"[{"op":"add","path":5}]"#, "json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string"),
        (r#"[{"op":5,"path":"/x"}]"#, "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        (
            r#"[{"op":"add","path":"/x","value":1e400}]"#,
            "json: cannot unmarshal number 1e400 into Go struct field jsonPatchOp.value of type float64",
        ),
    ];
    for (patch, want) in cases {
        assert_eq!(patched(patch), Err(PatchError::BadRequest(format!("error decoding patch: {want}"))), "{patch}");
        assert_eq!(apply(&target(), patch.as_bytes(), FieldValidation::Ignore), Err(PatchError::BadRequest(want.to_owned())), "{patch}");
    }
    for unknown in [r#"{"op":"foo","path":"/spec/s"}"#, r#"{"op":"ADD","path":"/spec/s"}"#, "{}", "null", r#"{"op":"add"}"#] {
        check(unknown, None);
    }
    check("", Some(json!({})));
    assert_eq!(patched("null"), Ok(target()));
}

#[test]
fn strange_members_are_told() {
    let patch =
        r#"[{"op":"remove","op":"test","path":"/spec/s","value":"x","extra":1},{"op":"add","path":"/spec/z","value":{"a":1,"a":2}}]"#;
    let (_, warnings) = apply(&target(), patch.as_bytes(), FieldValidation::Warn).expect("a patch");
    let want = ["unknown field \"[0].extra\"", "duplicate field \"[0].op\"", "duplicate field \"[1].value.a\""];
    assert_eq!(warnings, want.map(|text| format!("json patch {text}")));
}

#[test]
fn operations_and_copies_have_limits() {
    let test = r#"{"op":"test","path":"/spec/s","value":"x"}"#;
    let many = |count: usize| patched(&format!("[{}]", vec![test; count].join(",")));
    assert!(many(OPERATIONS_MAX).is_ok());
    let why = "The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(many(OPERATIONS_MAX + 1), Err(PatchError::TooLarge(why.to_owned())));
    let copies = |count: usize| {
        let first = format!(r#"{{"op":"add","path":"/spec/b","value":"{}"}}"#, "x".repeat(100_000));
        let rest = (0..count).map(|n| format!(r#",{{"op":"copy","from":"/spec/b","path":"/spec/b{n}"}}"#));
        patched(&format!("[{first}{}]", rest.collect::<String>()))
    };
    assert!(copies(31).is_ok());
    assert_eq!(copies(32), Err(PatchError::Unapplicable));
}

#[test]
fn what_operations_move_has_a_limit() {
    let long = json!({"list": vec![0; TOUCHED_MAX / 1_000]});
    let patched = |op: &str, count: usize| apply(&long, format!("[{}]", vec![op; count].join(",")).as_bytes(), FieldValidation::Warn);
    for op in [r#"{"op":"add","path":"/list/0","value":1}"#, r#"{"op":"move","from":"/list/0","path":"/list/-"}"#] {
        assert!(patched(op, 900).is_ok());
        assert!(matches!(patched(op, 1_100), Err(PatchError::TooLarge(why)) if why.contains("200000000 items")), "{op}");
    }
    assert!(patched(r#"{"op":"replace","path":"/list/0","value":1}"#, 5_000).is_ok(), "nothing moves");
}

/// A short patch can nest without end: what holds the object moves into a new one, again and again.
#[test]
fn depth_has_a_limit() {
    let wrap = r#"{"op":"add","path":"/n","value":{}},{"op":"move","from":"/spec","path":"/n/m"},{"op":"move","from":"/n","path":"/spec"}"#;
    let wrapped = |times: usize| patched(&format!("[{}]", vec![wrap; times].join(",")));
    assert!(wrapped(100).is_ok());
    assert_eq!(wrapped(130), Err(PatchError::Unapplicable));
    assert_eq!(wrapped(3000), Err(PatchError::Unapplicable));
}

proptest! {
    #[test]
    fn agrees_with_the_rfc_where_it_must(path in "(/spec|/a)(/(list|m|s|x|0|1|-)){0,2}", from in "/spec(/(list|m|0)){1,2}", op in "add|remove|test|move|copy") {
        let patch = json!([{"op": op, "path": path, "from": from, "value": {"v": 1}}]);
        let mut want = target();
        let strict: json_patch::Patch = serde_json::from_value(patch.clone()).expect("a patch");
        if json_patch::patch(&mut want, &strict).is_ok() {
            prop_assert_eq!(patched(&patch.to_string()), Ok(want));
        }
    }

    #[test]
    fn never_panics(path in "[/a-z0-9~+-]{0,12}", from in "[/a-z0-9~-]{0,12}", op in "add|remove|replace|test|move|copy", bytes in prop::collection::vec(any::<u8>(), 0..32)) {
        let _ = patched(&json!([{"op": op, "path": path, "from": from}]).to_string());
        let _ = apply(&target(), &bytes, FieldValidation::Warn);
    }
}
