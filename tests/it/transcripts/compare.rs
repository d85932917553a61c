//! What differs between two plays of a scenario, told for a person. Knows no server.

use serde_json::{Map, Value, json};

use super::{
    script::{Scenario, Step},
    symbols,
};

/// Characters of a value that are shown.
const SHOWN: usize = 300;
/// The word under which a difference is called unfinished work.
pub(super) const OPEN: &str = "open";

/// What a comparison says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Each difference in a line or two.
    pub(super) differences: Vec<String>,
    /// Words whose marks hold.
    pub(super) marked: Vec<String>,
}

/// Compares answers and the order of revisions of `ours` with what was recorded. A mark that is not needed is a difference too.
pub(super) fn compare(scenario: &Scenario, ours: &[Value], our_order: &[String], recorded: &Value) -> Verdict {
    let mut verdict = Verdict::default();
    let theirs: Vec<Value> = recorded["steps"].as_array().into_iter().flatten().map(|step| step["answer"].clone()).collect();
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for ((step, ours), theirs) in scenario.steps.iter().zip(ours).zip(&theirs) {
        let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
        for pointer in &step.ignored {
            // That there is something must be so on both sides.
            if let (Some(ours), Some(theirs)) = (ours.pointer_mut(pointer), theirs.pointer_mut(pointer)) {
                (*ours, *theirs) = (Value::Null, Value::Null);
            }
        }
        verdict.take_marked(step, &mut ours, &mut theirs);
        left.push(ours);
        right.push(theirs);
    }
    verdict.take_marked_everywhere(scenario, &mut left, &mut right);
    let their_order: Vec<&str> = recorded["order"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let our_order: Vec<&str> = our_order.iter().map(String::as_str).collect();
    let (left, right) = (numbered(&left, &our_order), numbered(&right, &their_order));
    for ((step, ours), theirs) in scenario.steps.iter().zip(steps(&left)).zip(steps(&right)) {
        let mut lines = Vec::new();
        differing("", ours, theirs, &mut lines);
        verdict.differences.extend(lines.into_iter().map(|line| format!("{}\n      {line}", step.shown)));
    }
    if left["order"] != right["order"] && verdict.differences.is_empty() {
        verdict.differences.push(format!("the order of revisions: ours {}, theirs {}", left["order"], right["order"]));
    }
    verdict
}

impl Verdict {
    fn take_marked_everywhere(&mut self, scenario: &Scenario, ours: &mut [Value], theirs: &mut [Value]) {
        for (word, pointers) in &scenario.marks {
            for pointer in pointers {
                let taken =
                    |answers: &mut [Value]| answers.iter_mut().map(|answer| removed_from_objects(answer, pointer)).collect::<Vec<_>>();
                if taken(ours) == taken(theirs) && word != OPEN {
                    self.differences.push(format!("{word}: {pointer} does not differ any more"));
                }
            }
            self.marked.push(word.clone());
        }
    }

    fn take_marked(&mut self, step: &Step, ours: &mut Value, theirs: &mut Value) {
        for (word, pointers) in &step.marks {
            let all = [String::new()];
            let pointers = if pointers.is_empty() { &all[..] } else { pointers };
            for pointer in pointers {
                let (ours, theirs) = (remove(ours, pointer), remove(theirs, pointer));
                if ours == theirs && word != OPEN {
                    self.differences.push(format!("{}\n      {word}: {pointer} does not differ any more", step.shown));
                }
            }
            self.marked.push(word.clone());
        }
    }
}

fn numbered(answers: &[Value], order: &[&str]) -> Value {
    let text = json!(answers).to_string();
    let named = symbols::named(&text);
    let order: Vec<&&str> = order.iter().filter(|symbol| named.contains(&symbol[1..])).collect();
    let text = json!([answers, order]).to_string();
    let value: Value = serde_json::from_str(&symbols::renumbered(&text)).unwrap_or_default();
    json!({"answers": value[0], "order": value[1]})
}

fn steps(numbered: &Value) -> impl Iterator<Item = &Value> {
    numbered["answers"].as_array().into_iter().flatten()
}

/// Takes a value out and returns it; "" is the whole.
fn remove(value: &mut Value, pointer: &str) -> Option<Value> {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return Some(value.take()) };
    match value.pointer_mut(parent)? {
        Value::Object(map) => map.remove(&last.replace("~1", "/").replace("~0", "~")),
        Value::Array(items) => items.get_mut(last.parse::<usize>().ok()?).map(Value::take),
        _ => None,
    }
}

/// Takes the value out of the object, the items or the events' objects of an answer.
fn removed_from_objects(answer: &mut Value, pointer: &str) -> Vec<Option<Value>> {
    let is_list = |value: &Value, member: &str| value.get(member).is_some_and(Value::is_array);
    let body = if answer.get("body").is_some() { &mut answer["body"] } else { answer };
    let member = ["events", "items"].into_iter().find(|member| is_list(body, member));
    let Some(objects) = member.and_then(|member| body[member].as_array_mut()) else { return vec![remove(body, pointer)] };
    let inner = |value: &mut Value| {
        if value.get("object").is_some() { remove(&mut value["object"], pointer) } else { remove(value, pointer) }
    };
    objects.iter_mut().map(inner).collect()
}

fn differing(path: &str, ours: &Value, theirs: &Value, lines: &mut Vec<String>) {
    match (ours, theirs) {
        // An object and a Status have little to compare.
        (Value::Object(a), Value::Object(b)) if a.get("kind") == b.get("kind") => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(json!("(absent)"));
                differing(&format!("{path}/{}", key.replace('/', "~1")), &of(a), &of(b), lines);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                differing(&format!("{path}/{at}"), a, b, lines);
            }
        }
        _ if ours != theirs => lines.push(format!("{path}\n        ours   {}\n        theirs {}", cut(ours), cut(theirs))),
        _ => {}
    }
}

fn cut(value: &Value) -> String {
    let text = match value["message"].as_str().filter(|_| value["kind"] == "Status") {
        Some(message) => format!("{} {message}", value["code"]),
        None => value.to_string(),
    };
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(marks: &[(&str, &[&str])]) -> Scenario {
        let marks = marks.iter().map(|(word, at)| ((*word).into(), at.iter().map(|p| (*p).into()).collect())).collect();
        Scenario { name: "one".into(), marks: Vec::new(), steps: vec![Step { shown: "GET /".into(), marks, ..Step::default() }] }
    }

    #[test]
    fn differences_are_found_and_marks_must_be_needed() {
        let recorded = json!({"steps": [{"answer": {"status": 200, "body": {"rv": "$rv1", "x": 1}}}], "order": ["$rv1"]});
        let same = [json!({"status": 200, "body": {"rv": "$rv1", "x": 1}})];
        let other = [json!({"status": 200, "body": {"rv": "$rv1", "x": 2}})];
        let order = ["$rv1".to_owned()];
        assert_eq!(compare(&scenario(&[]), &same, &order, &recorded), Verdict::default());
        assert_eq!(compare(&scenario(&[]), &other, &order, &recorded).differences.len(), 1);
        let marked = scenario(&[("why", &["/body/x"])]);
        assert_eq!(compare(&marked, &other, &order, &recorded), Verdict { differences: vec![], marked: vec!["why".into()] });
        assert!(compare(&marked, &same, &order, &recorded).differences[0].contains("does not differ"));
    }

    #[test]
    fn a_mark_of_a_scenario_is_for_every_object() {
        let mut marked = scenario(&[]);
        marked.marks = vec![("why".into(), vec!["/status/x".into()])];
        let with = |x: u8| json!({"body": {"events": [{"object": {"status": {"x": x, "y": 1}}}]}});
        let recorded = json!({"steps": [{"answer": with(1)}], "order": []});
        assert_eq!(compare(&marked, &[with(2)], &[], &recorded).differences, Vec::<String>::new());
        assert_eq!(compare(&marked, &[with(1)], &[], &recorded).differences.len(), 1);
    }

    #[test]
    fn the_order_of_revisions_counts() {
        let answers = [json!({"a": "$rv1", "b": "$rv2"})];
        let recorded = json!({"steps": [{"answer": answers[0]}], "order": ["$rv1", "$rv2"]});
        let turned = ["$rv2".to_owned(), "$rv1".to_owned()];
        assert!(compare(&scenario(&[]), &answers, &turned, &recorded).differences[0].starts_with("the order"));
    }
}
