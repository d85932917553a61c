//! The table of defaults, read once, and a walk along its paths. What the lines mean is told at the head of `table.txt`.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::rules;

static TABLE: LazyLock<HashMap<&'static str, Vec<Line>>> = LazyLock::new(|| read(include_str!("table.txt")));

/// One default.
struct Line {
    /// To the value that `what` is done to.
    way: Vec<Step>,
    what: What,
}

pub(super) enum Step {
    Member(&'static str),
    /// Each element of an array.
    Elements,
    /// Each value of a map.
    Values,
    /// Only an object whose member has this text; none when it is empty.
    Where(&'static str, &'static str),
}

enum What {
    /// Gives the object this member when it has none, or when it is zero and `zero` says so.
    Set {
        member: &'static str,
        zero: bool,
        value: From,
    },
    Part(&'static str),
    Rule(rules::Rule),
}

/// Where a default comes from.
enum From {
    Table(Value),
    /// A member of the same object.
    Member(&'static str),
}

/// Does what the section says to the value; one that is not there says nothing.
pub(super) fn apply(section: &str, value: &mut Value) {
    for line in TABLE.get(section).into_iter().flatten() {
        walk(value, &line.way, &line.what);
    }
}

fn walk(value: &mut Value, way: &[Step], what: &What) {
    let Some((step, rest)) = way.split_first() else { return act(value, what) };
    match (step, value) {
        (Step::Member(name), Value::Object(members)) => {
            if let Some(member) = members.get_mut(*name) {
                walk(member, rest, what);
            }
        }
        (Step::Elements, Value::Array(elements)) => elements.iter_mut().for_each(|element| walk(element, rest, what)),
        (Step::Values, Value::Object(members)) => members.values_mut().for_each(|member| walk(member, rest, what)),
        (Step::Where(name, text), value) if is_at(value, name, text) => walk(value, rest, what),
        _ => {}
    }
}

fn is_at(value: &Value, name: &str, text: &str) -> bool {
    match value.get(name) {
        None | Some(Value::Null) => text.is_empty(),
        Some(Value::String(found)) => found == text,
        Some(Value::Bool(flag)) => text == if *flag { "true" } else { "false" },
        Some(_) => false,
    }
}

fn act(value: &mut Value, what: &What) {
    match (what, value) {
        (What::Part(name), value) => apply(name, value),
        (What::Rule(rule), Value::Object(members)) => rule(members),
        (What::Set { member, zero, value }, Value::Object(members)) => set(members, member, *zero, value),
        _ => {}
    }
}

fn set(members: &mut Map<String, Value>, member: &str, zero: bool, from: &From) {
    if members.get(member).is_some_and(|found| !(found.is_null() || zero && is_zero(found))) {
        return;
    }
    let value = match from {
        From::Table(value) => Some(value.clone()),
        From::Member(name) => members.get(*name).cloned(),
    };
    if let Some(value) = value {
        members.insert(member.to_owned(), value);
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        number => number.as_i64() == Some(0),
    }
}

fn read(text: &'static str) -> HashMap<&'static str, Vec<Line>> {
    let (mut sections, mut name) = (HashMap::<_, Vec<Line>>::new(), "");
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(section) => name = section.trim_start_matches('+'),
            None => sections.entry(name).or_default().push(Line::read(line).expect("a test reads every line")),
        }
    }
    sections
}

impl Line {
    fn read(line: &'static str) -> Option<Self> {
        let (path, line) = line.split_once(' ')?;
        let (sign, target) = line.split_once(' ')?;
        let mut way = steps(path);
        let what = match sign {
            "+" => What::Part(target),
            "!" => What::Rule(rules::named(target)?),
            _ => {
                let Some(Step::Member(member)) = way.pop() else { return None };
                let (zero, sign) = sign.strip_prefix('0').map_or((false, sign), |sign| (true, sign));
                let value = match sign {
                    "=" => From::Table(serde_json::from_str(target).ok()?),
                    ">" => From::Member(target),
                    _ => return None,
                };
                What::Set { member, zero, value }
            }
        };
        Some(Self { way, what })
    }
}

/// `ports[](type=x).name`, taken apart; `.` alone is the value itself.
pub(super) fn steps(path: &'static str) -> Vec<Step> {
    let mut steps = Vec::new();
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let (mut name, mut conditions) = segment.split_once('(').unwrap_or((segment, ""));
        let kind = if name.ends_with("[]") { Some(Step::Elements) } else { name.ends_with("{}").then_some(Step::Values) };
        name = name.trim_end_matches(['[', ']', '{', '}']);
        steps.extend((!name.is_empty()).then_some(Step::Member(name)));
        steps.extend(kind);
        while let Some((condition, rest)) = conditions.split_once(')') {
            steps.extend(condition.split_once('=').map(|(member, text)| Step::Where(member, text)));
            conditions = rest.trim_start_matches('(');
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::types::TypeRef;

    #[test]
    fn every_section_is_of_a_kind_or_used() {
        let used = |part: &str| TABLE.values().flatten().any(|line| matches!(line.what, What::Part(name) if name == part));
        for section in TABLE.keys() {
            let kind =
                section.rsplit_once('/').map(|(api_version, kind)| (api_version.rsplit_once('/').unwrap_or(("", api_version)), kind));
            let found = kind.is_some_and(|((group, version), kind)| TypeRef::of(group, version, kind).is_some());
            assert!(found || used(section), "{section}");
        }
        for line in TABLE.values().flatten() {
            assert!(!matches!(line.what, What::Part(name) if !TABLE.contains_key(name)));
        }
    }

    #[test]
    fn paths_lead_to_what_is_there() {
        let mut value = json!({"a": [{"k": "x", "p": 1}, {"k": "y", "q": 0}, 3], "m": {"s": {}, "t": {"z": 1}}, "f": true});
        for line in [
            "a[](k=x).q = 7",
            "a[](k=y).q 0> k",
            "a[](p=).r = []",
            "(f=true).e = 5",
            "m{}.z = 2",
            "b.c = 1",
            "(b=)(m=).d = 1",
            "(b=).d = true",
        ] {
            let line = Line::read(line).expect("a line");
            walk(&mut value, &line.way, &line.what);
        }
        let want = json!({"a": [{"k": "x", "p": 1, "q": 7}, {"k": "y", "q": "y", "r": []}, 3], "m": {"s": {"z": 2}, "t": {"z": 1}}, "d": true, "f": true, "e": 5});
        assert_eq!(value, want);
    }
}
