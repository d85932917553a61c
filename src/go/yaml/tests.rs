//! What a live kube-apiserver 1.36.3 printed (`tests/data/yaml/record.py`), and what must hold of anything that is printed.

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::*;

#[test]
fn answers_are_printed_as_recorded() {
    let lines = include_str!("../../../tests/data/yaml/answers.jsonl").lines();
    let mut counts = (0, 0);
    for line in lines {
        let answer: Value = serde_json::from_str(line).expect("recorded as JSON");
        let text = |name: &str| answer[name].as_str();
        let name = text("name").expect("it has a name");
        match (yaml(text("json").expect("it has JSON").as_bytes()), text("yaml"), text("refused")) {
            (Ok(ours), Some(theirs), _) => {
                counts.0 += 1;
                let differs = ours.iter().zip(theirs.as_bytes()).take_while(|(a, b)| a == b).count();
                let around =
                    |text: &[u8]| String::from_utf8_lossy(&text[differs.saturating_sub(60)..text.len().min(differs + 60)]).into_owned();
                assert!(ours == theirs.as_bytes(), "{name}: ours {:?}, theirs {:?}", around(&ours), around(theirs.as_bytes()));
            }
            (Err(error), _, Some(status)) => {
                counts.1 += 1;
                let ours = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": error.to_string(), "code": 500});
                assert_eq!(yaml(ours.to_string().as_bytes()).as_deref(), Ok(status.as_bytes()), "{name}");
            }
            (ours, ..) => panic!("{name}: {:?}", ours.map(|_| "printed")),
        }
    }
    assert!(counts.0 > 20 && counts.1 > 5, "{counts:?} were recorded");
}

#[test]
fn what_is_deep_or_large_is_refused() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(yaml(nested(tree::YAML_DEPTH_MAX).as_bytes()).is_ok());
    assert_eq!(yaml(nested(tree::YAML_DEPTH_MAX + 1).as_bytes()), Err(NoYaml::Depth));
    let maps = |depth: usize| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
    assert_eq!(yaml(maps(tree::YAML_DEPTH_MAX).as_bytes()), Err(NoYaml::Size));
    assert!(yaml(maps(1_000).as_bytes()).is_ok());
}

proptest! {
    #[test]
    fn nothing_that_is_read_panics(text in "\\PC{0,40}", json in "[\\[\\]{},:\"\\\\a0-9.eE+-]{0,40}") {
        let _ = yaml(text.as_bytes());
        let printed = yaml(json.as_bytes());
        // Whatever is JSON: a `Value` would refuse numbers beyond a float, which are printed as they stand.
        prop_assert_eq!(printed.is_ok(), serde_json::from_str::<IgnoredAny>(&json).is_ok());
    }
}
