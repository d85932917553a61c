//! Values as errors show them when Go has a type of its own for them: the JSON of kube-apiserver's internal types, whose fields have other names than the
//! API's and are there even when they are empty.

use std::sync::LazyLock;

use go::{json, quote::quoted};
use serde_json::Value;

use crate::{at::At, causes::Causes};
use model::invalid::{FieldError, FieldErrorKind};

/// The internal types and their fields, in the order of the types' names.
static TYPES: LazyLock<Vec<(&'static str, Vec<Field>)>> =
    LazyLock::new(|| read(concat!(include_str!("internal.txt"), include_str!("internal_devices.txt"))));

/// One field of an internal type.
#[derive(Debug)]
struct Field {
    /// What Go's JSON calls it; nothing when the fields of its type stand among those around it.
    name: Option<&'static str>,
    /// Whether it is left out when it is zero.
    is_optional: bool,
    /// What the API calls it.
    member: &'static str,
    kind: &'static str,
}

/// Returns the JSON of a value of an internal type, such as `apps.DeploymentStrategy` or `[]core.Taint`.
pub(crate) fn shown(kind: &str, value: &Value) -> String {
    let mut out = Vec::new();
    value_into(kind, value, &Value::Null, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

impl Causes {
    /// `Invalid value: V: why` of a value of an internal type; of one with a name of its own for texts: `string`.
    pub(crate) fn invalid_shown(&mut self, at: &At<'_, '_>, kind: &str, why: &str) {
        self.add_with(|| {
            let rest = if why.is_empty() { String::new() } else { format!(": {why}") };
            let message = format!("Invalid value: {}{rest}", shown(kind, at.value()));
            FieldError { field: at.to_string(), kind: FieldErrorKind::Invalid, message }
        });
    }

    /// `Invalid value: why`, of a value that is not shown.
    pub(crate) fn invalid_unshown(&mut self, at: &At<'_, '_>, why: &str) {
        self.add(FieldError { field: at.to_string(), kind: FieldErrorKind::Invalid, message: format!("Invalid value: {why}") });
    }

    /// `Unsupported value: V: supported values: …` of a value of an internal type.
    pub(crate) fn not_supported_shown(&mut self, at: &At<'_, '_>, kind: &str, supported: &[&str]) {
        self.add_with(|| {
            let values: Vec<String> = supported.iter().map(|value| quoted(value)).collect();
            let message = format!("Unsupported value: {}: supported values: {}", shown(kind, at.value()), values.join(", "));
            FieldError { field: at.to_string(), kind: FieldErrorKind::NotSupported, message }
        });
    }

    /// `Duplicate value: V` of a value of an internal type, with `why` after it when there is one.
    pub(crate) fn duplicate_shown(&mut self, at: &At<'_, '_>, kind: &str, why: &str) {
        self.add_with(|| {
            let message = format!("Duplicate value: {}{}{why}", shown(kind, at.value()), if why.is_empty() { "" } else { ": " });
            FieldError { field: at.to_string(), kind: FieldErrorKind::Duplicate, message }
        });
    }
}

/// Returns the fields of a type; none of what has no fields.
fn fields_of(kind: &str) -> Option<&'static [Field]> {
    let place = TYPES.binary_search_by_key(&kind, |(name, _)| name).ok()?;
    TYPES.get(place).map(|(_, fields)| fields.as_slice())
}

fn read(table: &'static str) -> Vec<(&'static str, Vec<Field>)> {
    let mut types: Vec<(&'static str, Vec<Field>)> = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let Some(field) = line.strip_prefix(' ') else {
            types.push((line, Vec::new()));
            continue;
        };
        let mut words = field.split(' ');
        let (name, member, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let field = Field { name: (name != "^").then(|| name.trim_end_matches('?')), is_optional: name.ends_with('?'), member, kind };
        if let Some((_, fields)) = types.last_mut() {
            fields.push(field);
        }
    }
    types.sort_unstable_by_key(|(name, _)| *name);
    types
}

/// Appends a value. The types end: none is inside of itself.
fn value_into(kind: &str, value: &Value, around: &Value, out: &mut Vec<u8>) {
    if let Some(kind) = kind.strip_prefix('*') {
        if value.is_null() { out.extend_from_slice(b"null") } else { value_into(kind, value, around, out) }
    } else if let Some(kind) = kind.strip_prefix("[]") {
        list_into(kind, value, out);
    } else if let Some(kind) = kind.strip_prefix("{}") {
        map_into(kind, value, out);
    } else if fields_of(kind).is_some() {
        out.push(b'{');
        let mut is_first = true;
        fields_into(kind, value, around, &mut is_first, out);
        out.push(b'}');
    } else if value.is_null() {
        out.extend_from_slice(zero(kind));
    } else {
        json::value_into(value, out);
    }
}

/// Returns what Go's zero value of a type without fields is.
fn zero(kind: &str) -> &'static [u8] {
    match kind {
        "string" => b"\"\"",
        "int" | "intorstring" => b"0",
        "bool" => b"false",
        "quantity" => b"\"0\"",
        _ => b"null",
    }
}

fn list_into(kind: &str, value: &Value, out: &mut Vec<u8>) {
    let Some(items) = value.as_array() else {
        out.extend_from_slice(b"null");
        return;
    };
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        value_into(kind, item, &Value::Null, out);
    }
    out.push(b']');
}

fn map_into(kind: &str, value: &Value, out: &mut Vec<u8>) {
    let Some(entries) = value.as_object() else {
        out.extend_from_slice(b"null");
        return;
    };
    out.push(b'{');
    for (i, (key, entry)) in entries.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::string_into(key, out);
        out.push(b':');
        value_into(kind, entry, &Value::Null, out);
    }
    out.push(b'}');
}

fn fields_into(kind: &str, value: &Value, around: &Value, is_first: &mut bool, out: &mut Vec<u8>) {
    static ABSENT: Value = Value::Null;
    for field in fields_of(kind).unwrap_or_default() {
        let found = match (field.member, field.member.strip_prefix('^')) {
            (".", _) => value,
            (_, Some(member)) => around.get(member).unwrap_or(&ABSENT),
            (member, None) => value.get(member).unwrap_or(&ABSENT),
        };
        let Some(name) = field.name else {
            fields_into(field.kind, found, value, is_first, out);
            continue;
        };
        let is_left_out = if field.kind.starts_with('*') { found.is_null() } else { is_zero(found) };
        if field.is_optional && is_left_out {
            continue;
        }
        if !std::mem::take(is_first) {
            out.push(b',');
        }
        json::string_into(name, out);
        out.push(b':');
        value_into(field.kind, found, value, out);
    }
}

/// Whether Go's `omitempty` leaves a value out.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_type_is_there_or_has_a_zero_value() {
        const WITHOUT_FIELDS: [&str; 8] = ["string", "int", "bool", "quantity", "intorstring", "time", "raw", "bytes"];
        for (name, fields) in &*TYPES {
            for field in fields {
                let kind = field.kind.trim_start_matches(['*', '[', ']', '{', '}']);
                assert!(fields_of(kind).is_some() || WITHOUT_FIELDS.contains(&kind), "{name}: {field:?}");
            }
        }
    }

    #[test]
    fn values_are_shown_as_the_internal_type_has_them() {
        let cases = [
            ("apps.DeploymentStrategy", json!({"type": "x"}), r#"{"Type":"x","RollingUpdate":null}"#),
            (
                "apps.DeploymentStrategy",
                json!({"rollingUpdate": {"maxSurge": "5%"}}),
                r#"{"Type":"","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":"5%"}}"#,
            ),
            ("[]core.NodeAddress", json!([{"type": "<"}]), r#"[{"Type":"\u003c","Address":""}]"#),
            ("*core.ObjectReference", Value::Null, "null"),
            ("{}quantity", json!({"cpu": "1"}), r#"{"cpu":"1"}"#),
            ("v1.LabelSelector", json!({"matchLabels": {}}), "{}"),
        ];
        for (kind, value, wanted) in cases {
            assert_eq!(shown(kind, &value), wanted);
        }
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"hostNetwork": true, "securityContext": {}}});
        let shown = shown("core.PodTemplateSpec", &template);
        assert!(shown.starts_with(r#"{"labels":{"a":"b"},"Spec":{"Volumes":null,"InitContainers":null"#), "{shown}");
        assert!(shown.contains(r#""SecurityContext":{"HostNetwork":true,"HostPID":false,"#), "{shown}");
    }
}
