//! Reads and changes an object's tree, without a panic on whatever a client sent.

use std::sync::LazyLock;

pub(super) use go::tree::{as_object as object, object_mut as member};
use serde_json::{Map, Value};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};

/// The member at a path of objects; `None` when it is missing, `null`, or something on the way is no object.
pub(super) fn at<'a>(tree: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(tree, |value, member| value.get(member)).filter(|value| !value.is_null())
}

/// The string at a path; empty when there is none.
pub(super) fn text<'a>(tree: &'a Value, path: &[&str]) -> &'a str {
    at(tree, path).and_then(Value::as_str).unwrap_or("")
}

/// The integer at a path.
pub(super) fn integer(tree: &Value, path: &[&str]) -> Option<i64> {
    at(tree, path).and_then(Value::as_i64)
}

/// The strings of the array at a path; elements that are no strings are left out.
pub(super) fn texts<'a>(tree: &'a Value, path: &[&str]) -> Vec<&'a str> {
    at(tree, path).and_then(Value::as_array).map(|items| items.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Sets the value at a path of objects, which are made where they are missing.
pub(super) fn set(tree: &mut Value, path: &[&str], value: Value) {
    match path {
        [] => *tree = value,
        [name, rest @ ..] => set(object(tree).entry(*name).or_insert(Value::Null), rest, value),
    }
}

/// Gives `into` the member of `from`, or takes it away where `from` has none.
pub(super) fn take_over(into: &mut Map<String, Value>, from: &Map<String, Value>, name: &str) {
    match from.get(name) {
        Some(value) => into.insert(name.to_owned(), value.clone()),
        None => into.remove(name),
    };
}

/// Whether a value has about so many bytes as JSON, or fewer; looks no further than it must.
pub(super) fn fits(value: &Value, bytes: usize) -> bool {
    takes(value, &mut { bytes })
}

/// Takes about the bytes that a value has as JSON from `room`, if there is that much.
fn takes(value: &Value, room: &mut usize) -> bool {
    const PUNCTUATION: usize = "{},".len();
    let bytes = PUNCTUATION + value.as_str().map_or(0, str::len);
    let Some(left) = room.checked_sub(bytes) else { return false };
    *room = left;
    match value {
        Value::Array(items) => items.iter().all(|item| takes(item, room)),
        Value::Object(members) => members.iter().all(|(name, member)| {
            let left = room.checked_sub(name.len() + PUNCTUATION);
            left.is_some_and(|left| {
                *room = left;
                takes(member, room)
            })
        }),
        _ => true,
    }
}

/// An object without members.
pub(super) static NO_MEMBERS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// The members of `metadata`; none when it is no object.
pub(super) fn metadata(tree: &Value) -> &Map<String, Value> {
    tree.get("metadata").and_then(Value::as_object).unwrap_or(&NO_MEMBERS)
}

/// Now, in whole seconds.
pub(super) fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc().replace_nanosecond(0).expect("zero is a nanosecond")
}

/// A time as the API writes it: RFC 3339, UTC, seconds.
pub(super) fn rfc3339(time: OffsetDateTime) -> String {
    let form = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    time.format(form).expect("every member of the form is a part of the time")
}

/// The same with microseconds.
pub(super) fn rfc3339_micros(time: OffsetDateTime) -> String {
    let form = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    time.format(form).expect("every member of the form is a part of the time")
}

/// `now` and so many seconds, as the API writes it; a number that leaves the calendar counts as none.
pub(super) fn after(now: OffsetDateTime, seconds: i64) -> String {
    rfc3339(now.checked_add(Duration::seconds(seconds)).unwrap_or(now))
}

/// A time that the API wrote.
pub(super) fn parsed(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok()
}

/// Puts a condition into `status.conditions`, in the place of the one of its type. Its transition is now, unless that one has the same status.
pub(super) fn set_condition(object: &mut Value, mut condition: Value, now: OffsetDateTime) {
    let mut conditions = at(object, &["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let known = conditions.iter().position(|known| text(known, &["type"]) == text(&condition, &["type"]));
    let since = known
        .map(|known| &conditions[known])
        .filter(|known| text(known, &["status"]) == text(&condition, &["status"]))
        .and_then(|known| at(known, &["lastTransitionTime"]).cloned());
    set(&mut condition, &["lastTransitionTime"], since.unwrap_or_else(|| rfc3339(now).into()));
    match known {
        Some(known) => conditions[known] = condition,
        None => conditions.push(condition),
    }
    set(object, &["status", "conditions"], conditions.into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_end_where_there_is_nothing() {
        let tree = json!({"a": {"b": "x", "n": null, "l": ["y", 1]}});
        assert_eq!((text(&tree, &["a", "b"]), text(&tree, &["a", "c"]), text(&tree, &["a", "b", "c"])), ("x", "", ""));
        assert_eq!((at(&tree, &["a", "n"]), texts(&tree, &["a", "l"])), (None, vec!["y"]));
        assert!(metadata(&json!({"metadata": []})).is_empty());
    }

    #[test]
    fn set_makes_its_way() {
        let mut tree = json!({"a": 1});
        set(&mut tree, &["a", "b", "c"], json!(2));
        set(&mut tree, &["d"], json!(3));
        assert_eq!(tree, json!({"a": {"b": {"c": 2}}, "d": 3}));
        member(&mut tree, "metadata").insert("name".into(), json!("n"));
        assert_eq!(metadata(&tree).get("name"), Some(&json!("n")));
    }

    #[test]
    fn a_condition_keeps_its_place_and_its_time() {
        let (first, then) = (OffsetDateTime::UNIX_EPOCH, OffsetDateTime::UNIX_EPOCH + Duration::hours(1));
        let mut object = json!({"status": {"conditions": [{"type": "Other", "status": "True"}]}});
        let set_to = |object: &mut Value, status: &str, now| set_condition(object, json!({"type": "Ready", "status": status}), now);
        let times = |object: &Value| {
            let all = object["status"]["conditions"].as_array().expect("a list").iter();
            all.map(|one| (text(one, &["type"]).to_owned(), text(one, &["lastTransitionTime"]).to_owned())).collect::<Vec<_>>()
        };
        let other = ("Other".to_owned(), String::new());
        let ready = |time| ("Ready".to_owned(), rfc3339(time));
        set_to(&mut object, "True", first);
        object["status"]["conditions"].as_array_mut().expect("a list").reverse();
        set_to(&mut object, "True", then);
        assert_eq!(times(&object), [ready(first), other.clone()], "nothing has changed");
        set_to(&mut object, "False", then);
        assert_eq!(times(&object), [ready(then), other]);
        let mut empty = json!({});
        set_to(&mut empty, "True", first);
        assert_eq!(times(&empty), [ready(first)]);
    }

    #[test]
    fn what_fits_is_told_from_what_does_not() {
        let (text, many, few) = ("x".repeat(1_000), vec![json!({}); 334], vec![json!({"a": 1}); 90]);
        assert_eq!(
            [json!(text), json!({ &*text: 1 }), json!(many), json!(few)].map(|value| fits(&value, 1_000)),
            [false, false, false, true]
        );
    }

    #[test]
    fn times_have_seconds() {
        let time = parsed("2026-02-03T04:05:06Z").expect("a time");
        assert_eq!(
            (rfc3339(time), after(time, 61), after(time, i64::MAX)),
            ("2026-02-03T04:05:06Z".into(), "2026-02-03T04:06:07Z".into(), rfc3339(time))
        );
    }
}
