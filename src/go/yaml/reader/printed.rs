//! What the codec prints as YAML is read back as the same value.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::parse;
use crate::yaml::yaml;

/// Texts of what YAML gives a meaning to, without breaks of Unicode: the printer folds them, as the real server's does.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-zA-Z0-9]{1,8}",
        2 => prop::sample::select(vec![" ", "  ", "\n", "\t", ":", "#", "-", "'", "\"", "\\", "? ", "- ", ": ", " #", "{}", "[]", "&", "*", "!", "|", ">", "%", "@", "`", ",", "\r", "\0", "\u{1b}"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["true", "No", "null", "~", "1", "0x1F", "1e3", ".5", "190:20:30", "2001-01-01", ".inf", "---", "...", "=", "é", "日本", "😀", "\u{a0}", "\u{feff}"]).prop_map(str::to_owned),
        1 => "(word ){20}",
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => text().prop_map(Value::String),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_filter("whole floats come back as integers", |float| float.fract() != 0.0).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            // A key `<<` is printed without quotes, and read as another thing.
            prop::collection::vec((text().prop_filter("a merge", |key| key != "<<"), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(value in value()) {
        let printed = yaml(value.to_string().as_bytes()).expect("nothing in it is refused");
        let read = parse(&printed).map_err(|wrong| TestCaseError::fail(format!("{wrong:?}\n{}", String::from_utf8_lossy(&printed))))?;
        prop_assert_eq!(read.value, value, "{}", String::from_utf8_lossy(&printed));
    }
}
