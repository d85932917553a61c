//! Recorded cases: objects, and what kube-apiserver said about them.

use serde_json::Value;

use crate::FieldError;

/// Judges each line of `recorded` (`op`, `object`, `old`, `errors`), and compares what is found. Go iterates over maps in any order, so the order of errors
/// counts only where `ordered`.
pub(crate) fn check(recorded: &str, judge: impl Fn(&str, &Value, &Value) -> Vec<FieldError>) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (number, line) in recorded.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let case: Value = serde_json::from_str(line).expect("a recorded line is JSON");
        let text = |error: FieldError| format!("{}|{}: {}", error.kind.cause(), error.field, error.message);
        let mut found: Vec<String> =
            judge(case["op"].as_str().unwrap_or_default(), &case["object"], &case["old"]).into_iter().map(text).collect();
        let mut wanted: Vec<String> =
            case["errors"].as_array().into_iter().flatten().map(|error| error.as_str().unwrap_or_default().to_owned()).collect();
        if case["ordered"] != Value::Bool(true) {
            found.sort();
            wanted.sort();
        }
        if found != wanted {
            let only = |these: &[String], others: &[String]| {
                these.iter().filter(|text| !others.contains(text)).cloned().collect::<Vec<_>>().join("\n      ")
            };
            wrong.push(format!(
                "line {} ({}):\n  ours: {}\n  Go's: {}",
                number + 1,
                case["note"],
                only(&found, &wanted),
                only(&wanted, &found)
            ));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Judges the lines of the file that an environment variable names, if it is set.
pub(crate) fn check_file(variable: &str, judge: impl Fn(&str, &Value, &Value) -> Vec<FieldError>) {
    if let Some(path) = std::env::var_os(variable) {
        check(&std::fs::read_to_string(path).expect("the file of the cases"), judge);
    }
}
