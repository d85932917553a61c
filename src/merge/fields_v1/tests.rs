//! The bytes of `FieldsV1`.

use serde_json::json;

use super::*;
use crate::{DEPTH_MAX, path::PathElement, set::Set};

#[test]
fn members_stand_in_the_order_of_their_elements() {
    let text = concat!(
        r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}},"#,
        r#""k:{\"port\":443,\"protocol\":\"TCP\"}":{}},"f:set":{"v:2":{},"v:10":{},"v:\"a\"":{},"v:true":{}},"f:list":{"i:2":{},"i:10":{}}}}"#
    );
    let sorted = text.replace(r#""f:ports""#, "P").replace(r#""f:list":{"i:2":{},"i:10":{}}"#, "L");
    let sorted = sorted.replace(",L", "").replace("P:", r#""f:list":{"i:2":{},"i:10":{}},"f:ports":"#);
    assert_eq!(write(&read(text.as_bytes()).unwrap()), sorted);
    assert_eq!(write(&read(b" { \"f:a\" : { } , \"f:b\" : null } ").unwrap()), r#"{"f:a":{},"f:b":{}}"#);
}

#[test]
fn names_are_escaped_as_jsoniter_does() {
    let mut set = Set::new();
    set.insert(&[PathElement::field("a\"\\\n\u{1}\u{8}<\u{2028}é")]);
    set.insert(&[PathElement::value(json!("<&>\u{2028}\n"))]);
    set.insert(&[PathElement::key([("<", json!("\""))])]);
    let text = write(&set);
    assert_eq!(
        text,
        "{\"f:a\\\"\\\\\\n\\u0001\\u0008<\u{2028}é\":{},\"k:{\\\"<\\\":\\\"\\\\\\\"\\\"}\":{},\"v:\\\"\\\\u003c\\\\u0026\\\\u003e\\\\u2028\\\\n\\\"\":{}}"
    );
    assert_eq!(read(text.as_bytes()).unwrap(), set);
}

#[test]
fn numbers_are_read_as_floats() {
    let text = r#"{"v:1":{},"v:1.5":{},"v:1000000":{},"v:9007199254740993":{},"v:1e+21":{},"v:0.0000001":{}}"#;
    let set = read(text.as_bytes()).unwrap();
    assert_eq!(write(&set), r#"{"v:1e-07":{},"v:1":{},"v:1.5":{},"v:1000000":{},"v:9007199254740992":{},"v:1e+21":{}}"#);
    assert_eq!(set.to_string(), "[=1e-07]\n[=1]\n[=1.5]\n[=1e+06]\n[=9.007199254740992e+15]\n[=1e+21]");
    let mut ints = Set::new();
    ints.insert(&[PathElement::value(json!(1_000_000))]);
    assert_eq!((write(&ints), ints.to_string()), (r#"{"v:1000000":{}}"#.to_owned(), "[=1000000]".to_owned()));
    assert_eq!(ints.intersection(&set).size(), 1);
}

#[test]
fn elements_are_the_same_however_they_are_written() {
    let same = [
        [r#"k:{"a":"x","b":1}"#, r#"k: { "b" : 1.0e0 , "a" : "\u0078" } and more"#],
        [r#"k:{"a":true}"#, r#"k:{ "a":true}"#],
        [r#"k:{"a":123456789}"#, r#"k:{"a":123456789.0}"#],
        [r#"v:"x""#, r#"v:"\u0078""#],
        ["v:0", "v:-0"],
        ["v:12", "v:12.0"],
        ["v:1234567890", "v:1234567890.0"],
        ["v:false", "v: false"],
    ];
    for [plain, other] in same {
        let [plain, other] = [plain, other].map(|name| element(name).unwrap().unwrap());
        assert_eq!(plain, other);
        assert_eq!(
            (element_text(&plain), plain.to_string()),
            (element_text(&other).replace("-0", "0"), other.to_string().replace("-0", "0"))
        );
    }
    assert!(["v:01", "v:tru", "v:\"a", "k:{\"a\":\"b\"", "k:{\"a\":01}"].into_iter().all(|name| element(name).is_err()));
}

#[test]
fn what_is_not_understood_is_left_out() {
    let text = r#"{"x:later":{"f:a":{}},"f:a":{"y:also":{}},".":{"f:ignored":{}},"f:b":{"f:c":{},"z:":null}}"#;
    assert_eq!(write(&read(text.as_bytes()).unwrap()), r#"{"f:a":{},"f:b":{"f:c":{}}}"#);
}

#[test]
fn of_names_that_come_twice_the_last_counts() {
    let text = r#"{"f:b":{"f:x":{}},"f:a":{},"f:b":{".":{},"f:y":{}},"f:a":{"f:z":{}}}"#;
    assert_eq!(write(&read(text.as_bytes()).unwrap()), r#"{"f:a":{".":{},"f:z":{}},"f:b":{".":{},"f:y":{}}}"#);
}

#[test]
fn what_is_malformed_is_refused() {
    let bad = [
        "",
        "{",
        "[]",
        "1",
        "\"f:a\"",
        "{\"f:a\"}",
        "{\"f:a\":1}",
        "{\"f:a\":[]}",
        "{\"f:a\":{}",
        "{\"f:a\":{},}",
        "{\"f\":{}}",
        "{\"\":{}}",
        "{\"fa\":{}}",
        "{\"v:\":{}}",
        "{\"v:nope\":{}}",
        "{\"k:1\":{}}",
        "{\"k:{\":{}}",
        "{\"i:\":{}}",
        "{\"i:a\":{}}",
        "{\"i:1.5\":{}}",
        "{f:a:{}}",
        "{\"f:a\\\":{}}",
        "{\"f:a\\",
        "{\"f:\u{1}\":{}}",
        "nul",
        "{\"f:a\":nul}",
        "{\".\":}",
    ];
    for text in bad {
        let read = read(text.as_bytes());
        assert!(read.is_err(), "{text}: {read:?}");
        if let Ok(value) = serde_json::from_str(text) {
            assert!(from_value(&value).is_err(), "{text}");
        }
    }
    assert!(read(b"null").unwrap().is_empty() && read(b"{}").unwrap().is_empty());
    assert!(read(b"{\"f:\xff\":{}}").is_err());
}

#[test]
fn depth_and_size_have_limits() {
    let nested = |depth: usize| format!("{}{}", "{\"f:a\":".repeat(depth), "{}") + &"}".repeat(depth);
    let deepest = read(nested(DEPTH_MAX).as_bytes()).unwrap();
    assert_eq!(write(&deepest), nested(DEPTH_MAX));
    assert_eq!(read(nested(DEPTH_MAX + 1).as_bytes()), Err(FieldsError::TooDeep));
    assert_eq!(read(nested(300_000).as_bytes()), Err(FieldsError::TooDeep));
    assert_eq!(read(&vec![b' '; FIELDS_V1_BYTES_MAX + 1]), Err(FieldsError::TooLong(FIELDS_V1_BYTES_MAX + 1)));
    // A megabyte in the worst order, and of one name.
    let backwards: Vec<String> = (0..100_000).rev().map(|at| format!("\"f:{at:06}\":{{}}")).collect();
    assert_eq!(read(format!("{{{}}}", backwards.join(",")).as_bytes()).unwrap().size(), 100_000);
    let same = vec!["\"f:a\":{}"; 100_000].join(",");
    assert_eq!(read(format!("{{{same}}}").as_bytes()).unwrap().size(), 1);
}
