//! Small changes to JSON that is kept as text: made compact as Go does it, without `managedFields`, or the members of a Status. Pure.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use go::quote::json_into;

/// The same JSON as Go's encoder embeds it: without white space, `<`, `>`, `&`, U+2028 and U+2029 escaped. None when it is no JSON.
pub(crate) fn compact(bytes: &[u8]) -> Option<Vec<u8>> {
    serde_json::from_slice::<IgnoredAny>(bytes).ok()?;
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let (mut is_string, mut is_escaped) = (false, false);
    for c in text.chars() {
        match c {
            ' ' | '\t' | '\r' | '\n' if !is_string => continue,
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                is_escaped = false;
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
                continue;
            }
            '"' if !is_escaped => is_string = !is_string,
            _ => {}
        }
        is_escaped = is_string && c == '\\' && !is_escaped;
        out.push(c);
    }
    Some(out.into_bytes())
}

/// An object, or the objects of a list or a Table, without `metadata.managedFields`. What is none of these stays as it is.
pub(crate) fn without_managed_fields(json: Vec<u8>) -> Vec<u8> {
    let changed = std::str::from_utf8(&json).ok().filter(|text| text.contains("\"managedFields\"")).and_then(of_answer);
    changed.map_or(json, String::into_bytes)
}

fn of_answer(json: &str) -> Option<String> {
    changed(json, |name, value| match name {
        "metadata" => of_metadata(value),
        "items" => each(value, of_object),
        "rows" => each(value, |row| changed(row, |name, value| if name == "object" { of_object(value) } else { Some(value.to_owned()) })),
        _ => Some(value.to_owned()),
    })
}

fn of_object(json: &str) -> Option<String> {
    changed(json, |name, value| if name == "metadata" { of_metadata(value) } else { Some(value.to_owned()) })
}

fn of_metadata(json: &str) -> Option<String> {
    changed(json, |name, value| (name != "managedFields").then(|| value.to_owned()))
}

/// The elements of a list, each changed.
fn each(json: &str, change: impl Fn(&str) -> Option<String>) -> Option<String> {
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(json) else { return Some(json.to_owned()) };
    let items: Vec<String> = items.iter().map(|item| change(item.get()).unwrap_or_else(|| item.get().to_owned())).collect();
    Some(format!("[{}]", items.join(",")))
}

/// The members of an object, each changed, or left out where `change` has none. What is no object stays as it is.
fn changed(json: &str, change: impl Fn(&str, &str) -> Option<String>) -> Option<String> {
    let Ok(Members(members)) = serde_json::from_str::<Members<'_>>(json) else { return Some(json.to_owned()) };
    let mut out = Vec::with_capacity(json.len());
    for (name, value) in members {
        if let Some(value) = change(&name, value.get()) {
            out.push(if out.is_empty() { b'{' } else { b',' });
            json_into(&name, &mut out);
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
    }
    if out.is_empty() {
        out.push(b'{');
    }
    out.push(b'}');
    String::from_utf8(out).ok()
}

/// The members of a `Status` that an event's `responseStatus` has beside its code, each with a comma before it. None when it is no Status.
pub(crate) fn status_members(json: &[u8]) -> Option<String> {
    if !json.starts_with(br#"{"kind":"Status","apiVersion":"v1","#) {
        return None;
    }
    let Members(members) = serde_json::from_slice(json).ok()?;
    let told = members.iter().filter(|(name, _)| ["status", "message", "reason", "details"].contains(&name.as_str()));
    Some(told.map(|(name, value)| format!(",\"{name}\":{}", value.get())).collect())
}

/// The members of an object in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_embedded_as_go_does_it() {
        let told = |text: &str| compact(text.as_bytes()).map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        assert_eq!(told("{ \"a\" :\n[1, \" x \\\" <\" ] }"), Some(r#"{"a":[1," x \" \u003c"]}"#.to_owned()));
        assert_eq!(told(r#"{"a":"\\", "b":1}"#), Some(r#"{"a":"\\","b":1}"#.to_owned()));
        assert_eq!((told("{nojson"), told("")), (None, None));
    }

    #[test]
    fn managed_fields_go_wherever_an_object_is() {
        let told = |text: &str| String::from_utf8(without_managed_fields(text.as_bytes().to_vec())).expect("UTF-8");
        let object = r#"{"kind":"A","metadata":{"name":"a","managedFields":[{"x":1}],"uid":"u"},"spec":{"managedFields":[1]}}"#;
        let bare = r#"{"kind":"A","metadata":{"name":"a","uid":"u"},"spec":{"managedFields":[1]}}"#;
        assert_eq!(told(object), bare);
        assert_eq!(
            told(&format!(r#"{{"metadata":{{}},"items":[{object},{object}]}}"#)),
            format!(r#"{{"metadata":{{}},"items":[{bare},{bare}]}}"#)
        );
        assert_eq!(
            told(&format!(r#"{{"rows":[{{"cells":["<"],"object":{object}}}]}}"#)),
            format!(r#"{{"rows":[{{"cells":["<"],"object":{bare}}}]}}"#)
        );
        assert_eq!(told(r#"{"metadata":{"managedFields":[]}}"#), r#"{"metadata":{}}"#);
        assert_eq!(told(r#"["managedFields""#), r#"["managedFields""#);
    }

    #[test]
    fn a_status_is_told_without_what_it_is() {
        let status =
            br#"{"kind":"Status","apiVersion":"v1","metadata":{"continue":"x"},"status":"Failure","message":"m","details":{},"code":410}"#;
        assert_eq!(status_members(status).as_deref(), Some(r#","status":"Failure","message":"m","details":{}"#));
        assert_eq!(status_members(br#"{"kind":"Pod","apiVersion":"v1","status":{}}"#), None);
    }
}
