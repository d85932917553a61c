//! Documents that were sent to a kube-apiserver, and what it read.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(text: &str) -> Value {
    parse(text.as_bytes()).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}")).value
}

fn refused(text: &str) -> String {
    match parse(text.as_bytes()) {
        Err(Wrong::Syntax(text) | Wrong::NoJson(text)) => text,
        Ok(read) => panic!("{text} is {}", read.value),
    }
}

fn told(text: &str) -> Vec<String> {
    parse(text.as_bytes()).expect("YAML").duplicates
}

#[test]
fn scalars_are_those_of_the_real_server() {
    let cases = json!({
        "true": ["yes", "on", "y", "Y", "Yes", "YES", "On", "ON", "true", "True", "TRUE", "!!bool yes"],
        "false": ["no", "off", "n", "N", "Off", "OFF", "false"],
        "null": ["null", "Null", "NULL", "~", "", "!!null \"\""],
        "\"tRue\"": ["tRue"],
        "1": ["1", "+1", "0x_1", "1.0", "1.", "!!float 1"],
        "-1": ["-1"],
        "31": ["0x1F"],
        "15": ["0o17", "017", "+017"],
        "-15": ["-017"],
        "5": ["0b101", "!!int \"5\""],
        "-3": ["-0b11"],
        "-16": ["-0x10"],
        "1000": ["1_000", "1e3", "1E3", "1e+3"],
        "8": ["08"],
        "10": ["1__0"],
        "0.5": [".5", "+.5"],
        "-0.5": ["-.5"],
        "0.001": ["1e-3"],
        "1500": ["1.5e3"],
        "10.5": ["1_0.5"],
        "685.23015": ["685.230_15"],
        "0": ["-0", "-0.0", "0_", "00"],
        "9223372036854775807": ["9223372036854775807"],
        "-9223372036854775808": ["-9223372036854775808"],
        "9223372036854775808.0": ["9223372036854775808"],
        "18446744073709551615.0": ["18446744073709551615", "18446744073709551616", "0xFFFFFFFFFFFFFFFF"],
        "1e+50": ["1e5_0"],
        "1e-7": ["0.0000001", "1e-7"],
        "\"1\"": ["\"1\"", "'1'", "!!str 1", "!x 1", "! 1"],
    });
    for (want, texts) in cases.as_object().expect("an object") {
        for text in texts.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text")) {
            assert_eq!(read(&format!("a: {text}\n"))["a"], serde_json::from_str::<Value>(want).expect("JSON"), "{text}");
        }
    }
    let themselves =
        "1e400 2001-01-01 2001-12-14t21:59:43.10-05:00 1:30 190:20:30 a.b << = ._ + . .. 1e 0x 0b2 0o8 _1 infinity Inf NaN nan 0x1p4";
    for text in themselves.split(' ') {
        assert_eq!(read(&format!("a: {text}\n"))["a"], text);
    }
    assert_eq!(read("a: !!binary aGVsbG8=")["a"], "hello");
    assert_eq!(read("a: !!timestamp 2001-01-01")["a"], "2001-01-01");
}

#[test]
fn what_is_refused_has_the_texts_of_the_real_server() {
    let cases = [
        ("a: b: c", "mapping values are not allowed in this context"),
        ("a: 1\n b: 2\n", "line 2: mapping values are not allowed in this context"),
        ("&a [*a]", "anchor 'a' value contains itself"),
        ("a: *b", "unknown anchor 'b' referenced"),
        ("a: .inf", "json: unsupported value: +Inf"),
        ("a: -.inf", "json: unsupported value: -Inf"),
        ("a: !!int x", "cannot decode !!str `x` as a !!int"),
        ("a: !!int 1.5", "cannot decode !!float `1.5` as a !!int"),
        ("a: !!null x", "cannot decode !!str `x` as a !!null"),
        ("null: d", r#"unsupported map key of type: %!s(<nil>), key: <nil>, value: "d""#),
        ("a:\n  <<: [1]\n", "map merge requires map or sequence of maps as the value"),
        ("{a: b}: c", r#"invalid map key: map[interface {}]interface {}{"a":"b"}"#),
        ("18446744073709551615: a", r#"unsupported map key of type: uint64, key: 0xffffffffffffffff, value: "a""#),
        ("- a\nb: c\n", "line 1: did not find expected '-' indicator"),
        ("a: 1\nb: [\n", "line 2: did not find expected node content"),
        ("a: 1\nb: \"\n", "line 3: found unexpected end of stream"),
        ("a: !!timestamp 2001-2-29", "cannot decode !!str `2001-2-29` as a !!timestamp"),
        ("a: !!int 2001-2-28", "cannot decode !!str `2001-2-28` as a !!int"),
    ];
    for (text, want) in cases {
        assert_eq!(refused(text), want, "{text}");
    }
    assert_eq!(parse(b"a: \"\xff\"").err(), Some(Wrong::Syntax("invalid leading UTF-8 octet".to_owned())));
    for text in ["a: [", "{", "a: @x", "a: `x", "- a\nb: c\n", "a: \"x\n", "? [a]\n: b\n", "a: \u{1}"] {
        refused(text);
    }
}

#[test]
fn only_the_first_document_is_read() {
    let want = json!({"kind": "ConfigMap"});
    for text in ["kind: ConfigMap\n---\nkind: Secret\n", "--- \nkind: ConfigMap\n...\ngarbage: [", "\u{feff}kind: ConfigMap\n"] {
        assert_eq!(read(text), want);
    }
    assert_eq!(read("a: b\n--- foo: [\n"), json!({"a": "b"}));
}

#[test]
fn maps_merge_and_keys_are_texts() {
    assert_eq!(read("<<: {x: 1, z: 2}\nx: 5\n"), json!({"x": 5, "z": 2}));
    assert_eq!(told("<<: {x: 1, z: 2}\nx: 5\n"), [r#"line 2: key "x" already set in map"#]);
    assert_eq!(read("<<: [{x: 1}, {x: 2, z: 3}]\n"), json!({"x": 1, "z": 3}));
    assert_eq!(read("a: &a {x: 1}\nb: {<<: *a, c: *a}\n"), json!({"a": {"x": 1}, "b": {"x": 1, "c": {"x": 1}}}));
    assert_eq!(read(r#"{"<<": {a: 1}}"#), json!({"<<": {"a": 1}}));
    assert_eq!(read("{1: a, 1.5: b, yes: c, 0x10: d}"), json!({"1": "a", "1.5": "b", "true": "c", "16": "d"}));
    assert_eq!(read("{a: {b, c: }, ? d}"), json!({"a": {"b": null, "c": null}, "d": null}));
    assert_eq!(read("!!set {a}"), json!({"a": null}));
    assert_eq!(read("[a: b, {c: d}]"), json!([{"a": "b"}, {"c": "d"}]));
}

#[test]
fn a_duplicate_is_told_with_the_line_of_its_value() {
    assert_eq!(told("{yes: a, true: b}"), ["line 1: key true already set in map"]);
    assert_eq!(told("{0x10: a, 16: b}"), ["line 1: key 16 already set in map"]);
    assert_eq!(told("{1: a, \"1\": b}"), Vec::<String>::new());
    assert_eq!(told("a: 1\na:\n  b: 1\n"), [r#"line 3: key "a" already set in map"#]);
}

#[test]
fn blocks_and_quotes() {
    let text = "k: |\n  line\n  two\nf: >-\n  a\n  b\nq: \"a\\\n   b\\x41\\u0042\\n\"\ns: 'it''s'\np: a\n  b\n";
    assert_eq!(refused(r#"a: "\/""#), "found unknown escape character", "YAML 1.2 reads it");
    assert_eq!(read(text), json!({"k": "line\ntwo\n", "f": "a b", "q": "abAB\n", "s": "it's", "p": "a b"}));
}

/// What YAML 1.1 calls a break ends a line wherever it stands. `tests/differential/yaml.sh` compares thousands of documents with Go.
#[test]
fn breaks_are_those_of_yaml_1_1() {
    for (name, at) in [("LF", "\n"), ("CR", "\r"), ("NEL", "\u{85}"), ("LS", "\u{2028}"), ("PS", "\u{2029}")] {
        let is_kept = matches!(name, "LS" | "PS");
        let folded = if is_kept { format!("x{at}y") } else { "x y".to_owned() };
        for text in [format!("a: \"x{at}y\""), format!("a: 'x{at}y'"), format!("a: x{at}  y"), format!("a: >-{at}  x{at}  y")] {
            assert_eq!(read(&text)["a"], folded, "{name}");
        }
        let line = if is_kept { at } else { "\n" };
        assert_eq!(read(&format!("a: |{at}  x{at}  y{at}"))["a"], format!("x{line}y{line}"), "{name}");
        assert_eq!(read(&format!("# c{at}a: b{at}...{at}"))["a"], "b", "{name}");
        assert_eq!(read(&format!("a: b{at}---{at}c: d")), json!({"a": "b"}), "{name}");
        assert_eq!(told(&format!("a: b{at}a: c")), [r#"line 2: key "a" already set in map"#], "{name}");
        for text in [format!("s:\n  a: x{at}y\n"), format!("s:\n  # c{at}x\n  a: b\n"), format!("s:\n  a: |\n    x{at}y\n")] {
            assert!(refused(&text).contains("could not find expected ':'"), "{name}");
        }
    }
}

#[test]
fn bodies_may_be_utf_16() {
    let units = |text: &str, unit: fn(u16) -> [u8; 2]| format!("\u{feff}{text}").encode_utf16().flat_map(unit).collect::<Vec<_>>();
    for bytes in [units("a: é", u16::to_le_bytes), units("a: é", u16::to_be_bytes)] {
        assert_eq!(parse(&bytes).expect("UTF-16").value["a"], "é");
    }
}

#[test]
fn bombs_are_refused() {
    let mut bomb = "a0: &a0 [1, 2]\n".to_owned();
    for level in 1..8 {
        let alias = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 10].join(","));
    }
    assert_eq!(refused(&bomb), "document contains excessive aliasing");
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), ["*a"; 9].join(","));
    assert_eq!(refused(&long), "document contains excessive aliasing");
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(deep(DEPTH_MAX).as_bytes()).is_ok());
    assert_eq!(refused(&deep(DEPTH_MAX + 1)), "exceeded max depth of 127");
    refused(&deep(100_000));
}

fn tree() -> impl Strategy<Value = Value> {
    // Text of JSON that YAML reads alike: no control characters, which it refuses bare.
    let text = "[a-zA-Z0-9 :#&*!|>'\"%@`{}\\[\\],?~.\\-\\\\éß漢😀]{0,8}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        (-1e6..1e6).prop_map(|float: f64| Value::from(float + 0.1)),
        text.prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(text, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn json_is_yaml(value in tree()) {
        let text = value.to_string();
        let read = parse(text.as_bytes()).map_err(|wrong| TestCaseError::fail(format!("{text}: {wrong:?}")))?;
        prop_assert_eq!(read.value, value);
    }

    #[test]
    fn never_panics(text in "[\\[\\]{}:,\"'&*!|>?~%@a-c0-9 \n\t#.<\\-]{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse(text.as_bytes());
        let _ = parse(&bytes);
    }
}
