//! `fieldsV1` of managed fields in the order in which Go writes it: by what the names of its members say, not by their text. Custom resources have it sorted
//! by text.

use merge::{PathElement, fields_v1};
use serde_json::{Map, Value};

use super::encode::{string_into, value_into};

/// The member of an entry.
const FIELDS: &str = "fieldsV1";

/// Appends `metadata.managedFields` of a built-in.
pub(super) fn entries_into(entries: &Value, out: &mut Vec<u8>) {
    let Value::Array(entries) = entries else { return value_into(entries, out) };
    out.push(b'[');
    for (at, entry) in entries.iter().enumerate() {
        comma(at, out);
        let Value::Object(members) = entry else {
            value_into(entry, out);
            continue;
        };
        out.push(b'{');
        for (at, (name, value)) in members.iter().enumerate() {
            comma(at, out);
            string_into(name, out);
            out.push(b':');
            if name == FIELDS { fields_into(value, out) } else { value_into(value, out) }
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// Appends a set of fields.
pub(super) fn fields_into(fields: &Value, out: &mut Vec<u8>) {
    let Value::Object(members) = fields else { return value_into(fields, out) };
    out.push(b'{');
    // Names of fields are sorted already.
    if members.keys().all(|name| name.starts_with("f:") || name == ".") {
        members_into(members.iter(), out);
    } else {
        members_into(sorted(members).into_iter(), out);
    }
    out.push(b'}');
}

fn sorted(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    // What is no element of a path stays where its text is.
    let element = |name: &str| fields_v1::element(name).ok().flatten();
    let mut sorted: Vec<(Option<PathElement>, (&String, &Value))> = members.iter().map(|member| (element(member.0), member)).collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    sorted.into_iter().map(|(_, member)| member).collect()
}

fn members_into<'m>(members: impl Iterator<Item = (&'m String, &'m Value)>, out: &mut Vec<u8>) {
    for (at, (name, value)) in members.enumerate() {
        comma(at, out);
        string_into(name, out);
        out.push(b':');
        fields_into(value, out);
    }
}

fn comma(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.push(b',');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_sorted_by_what_they_are() {
        let fields = json!({"f:ports": {".": {}, "k:{\"port\":8080,\"protocol\":\"TCP\"}": {}, "k:{\"port\":443,\"protocol\":\"TCP\"}": {}, "k:{\"port\":80,\"protocol\":\"UDP\"}": {}},
            "f:finalizers": {"v:\"a b\"": {}, "v:\"a\"": {}}});
        let mut out = Vec::new();
        entries_into(&json!([{"manager": "m", "fieldsV1": fields}]), &mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            concat!(
                r#"[{"fieldsV1":{"f:finalizers":{"v:\"a\"":{},"v:\"a b\"":{}},"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"UDP\"}":{},"#,
                r#""k:{\"port\":443,\"protocol\":\"TCP\"}":{},"k:{\"port\":8080,\"protocol\":\"TCP\"}":{}}},"manager":"m"}]"#
            )
        );
    }
}
