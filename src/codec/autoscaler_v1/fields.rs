//! The types that an autoscaling/v1 annotation has as JSON, field by field, and where autoscaling/v2 has each: one table for reading and for writing.
//!
//! It reads as Go's `encoding/json` does: names in any case, numbers that are integers, `null` for nothing.

use serde_json::{Map, Value, value::RawValue};

use crate::members::{Members, Writer};
use go::{quantity, time};

/// A field of a struct.
pub(super) struct Field {
    /// As the annotation has it.
    name: &'static str,
    /// Where it is in v2: `metric.name`.
    newer: &'static str,
    of: Of,
}

/// The Go type of a field.
enum Of {
    /// `string`; `Some…` has `omitempty` or is a pointer.
    Text,
    SomeText,
    /// `int32`.
    Number,
    SomeNumber,
    Quantity,
    SomeQuantity,
    /// `metav1.Time`.
    Time,
    Texts,
    /// `map[string]string`.
    Labels,
    One(&'static [Field]),
    Some(&'static [Field]),
    Many(&'static [Field]),
}

/// A value that its type does not hold. Go then ignores the whole annotation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch;

const fn field(name: &'static str, newer: &'static str, of: Of) -> Field {
    Field { name, newer, of }
}

const fn same(name: &'static str, of: Of) -> Field {
    Field { name, newer: name, of }
}

const REFERENCE: &[Field] = &[same("kind", Of::Text), same("name", Of::Text), same("apiVersion", Of::SomeText)];
const EXPRESSION: &[Field] = &[same("key", Of::Text), same("operator", Of::Text), same("values", Of::Texts)];
const SELECTOR: &[Field] = &[same("matchLabels", Of::Labels), same("matchExpressions", Of::Many(EXPRESSION))];

/// A source of metrics: its name, what is wanted of it, and what it was.
pub(super) struct Source {
    pub(super) name: &'static str,
    pub(super) spec: &'static [Field],
    pub(super) status: &'static [Field],
}

/// In the order in which Go prints them.
pub(super) const SOURCES: [Source; 5] = [
    Source {
        name: "object",
        spec: &[
            field("target", "describedObject", Of::One(REFERENCE)),
            field("metricName", "metric.name", Of::Text),
            field("targetValue", "target.value", Of::Quantity),
            field("selector", "metric.selector", Of::Some(SELECTOR)),
            field("averageValue", "target.averageValue", Of::SomeQuantity),
        ],
        status: &[
            field("target", "describedObject", Of::One(REFERENCE)),
            field("metricName", "metric.name", Of::Text),
            field("currentValue", "current.value", Of::Quantity),
            field("selector", "metric.selector", Of::Some(SELECTOR)),
            field("averageValue", "current.averageValue", Of::SomeQuantity),
        ],
    },
    Source {
        name: "pods",
        spec: &[
            field("metricName", "metric.name", Of::Text),
            field("targetAverageValue", "target.averageValue", Of::Quantity),
            field("selector", "metric.selector", Of::Some(SELECTOR)),
        ],
        status: &[
            field("metricName", "metric.name", Of::Text),
            field("currentAverageValue", "current.averageValue", Of::Quantity),
            field("selector", "metric.selector", Of::Some(SELECTOR)),
        ],
    },
    Source {
        name: "resource",
        spec: &[
            same("name", Of::Text),
            field("targetAverageUtilization", "target.averageUtilization", Of::SomeNumber),
            field("targetAverageValue", "target.averageValue", Of::SomeQuantity),
        ],
        status: &[
            same("name", Of::Text),
            field("currentAverageUtilization", "current.averageUtilization", Of::SomeNumber),
            field("currentAverageValue", "current.averageValue", Of::Quantity),
        ],
    },
    Source {
        name: "containerResource",
        spec: &[
            same("name", Of::Text),
            field("targetAverageUtilization", "target.averageUtilization", Of::SomeNumber),
            field("targetAverageValue", "target.averageValue", Of::SomeQuantity),
            same("container", Of::Text),
        ],
        status: &[
            same("name", Of::Text),
            field("currentAverageUtilization", "current.averageUtilization", Of::SomeNumber),
            field("currentAverageValue", "current.averageValue", Of::Quantity),
            same("container", Of::Text),
        ],
    },
    Source {
        name: "external",
        spec: &[
            field("metricName", "metric.name", Of::Text),
            field("metricSelector", "metric.selector", Of::Some(SELECTOR)),
            field("targetValue", "target.value", Of::SomeQuantity),
            field("targetAverageValue", "target.averageValue", Of::SomeQuantity),
        ],
        status: &[
            field("metricName", "metric.name", Of::Text),
            field("metricSelector", "metric.selector", Of::Some(SELECTOR)),
            field("currentValue", "current.value", Of::Quantity),
            field("currentAverageValue", "current.averageValue", Of::SomeQuantity),
        ],
    },
];

macro_rules! metric {
    ($part:ident) => {
        &[
            same("type", Of::Text),
            same(SOURCES[0].name, Of::Some(SOURCES[0].$part)),
            same(SOURCES[1].name, Of::Some(SOURCES[1].$part)),
            same(SOURCES[2].name, Of::Some(SOURCES[2].$part)),
            same(SOURCES[3].name, Of::Some(SOURCES[3].$part)),
            same(SOURCES[4].name, Of::Some(SOURCES[4].$part)),
        ]
    };
}

/// `MetricSpec`.
pub(super) const METRIC: &[Field] = metric!(spec);
/// `MetricStatus`.
pub(super) const METRIC_STATUS: &[Field] = metric!(status);

/// `HorizontalPodAutoscalerCondition`.
pub(super) const CONDITION: &[Field] = &[
    same("type", Of::Text),
    same("status", Of::Text),
    same("lastTransitionTime", Of::Time),
    same("reason", Of::SomeText),
    same("message", Of::SomeText),
];

/// The internal `HorizontalPodAutoscalerBehavior`: its fields have no tags, so Go prints their own names, and nothing is left out.
pub(super) const BEHAVIOR: &[Field] = &[field("ScaleUp", "scaleUp", Of::Some(RULES)), field("ScaleDown", "scaleDown", Of::Some(RULES))];
const RULES: &[Field] = &[
    field("StabilizationWindowSeconds", "stabilizationWindowSeconds", Of::SomeNumber),
    field("SelectPolicy", "selectPolicy", Of::SomeText),
    field("Policies", "policies", Of::Many(POLICY)),
    field("Tolerance", "tolerance", Of::SomeQuantity),
];
const POLICY: &[Field] =
    &[field("Type", "type", Of::Text), field("Value", "value", Of::Number), field("PeriodSeconds", "periodSeconds", Of::Number)];

/// Reads a struct of the annotation into the members that v2 has for it.
pub(super) fn read(fields: &[Field], text: &str) -> Result<Map<String, Value>, Mismatch> {
    let members = Members::read(text).map_err(|_| Mismatch)?;
    let mut out = Map::new();
    for field in fields {
        if let Some(zero) = field.of.zero() {
            put(&mut out, field.newer, zero);
        }
    }
    for (name, value) in members.iter().filter(|(_, value)| *value != "null") {
        if let Some(field) = fields.iter().find(|field| is_name(field.name, name)) {
            put(&mut out, field.newer, field.of.read(value)?);
        }
    }
    Ok(out)
}

/// Reads an array of structs.
pub(super) fn read_many(fields: &[Field], text: &str) -> Result<Vec<Map<String, Value>>, Mismatch> {
    elements(text)?.into_iter().map(|element| read(fields, element.get())).collect()
}

/// Appends the struct of the annotation that v2 has these members for. `nulls`: nothing is left out.
pub(super) fn write(fields: &[Field], newer: &str, nulls: bool, out: &mut Vec<u8>) {
    let members = Members::read(newer).unwrap_or_default();
    let mut writer = Writer::open(out);
    for Field { name, newer, of } in fields {
        match (at(&members, newer), of) {
            (Some(value), Of::One(fields) | Of::Some(fields)) => write(fields, value, nulls, writer.name(name)),
            (Some(value), Of::Many(fields)) => write_many(fields, value, nulls, writer.name(name)),
            (Some(value), _) => writer.raw(name, value),
            (None, Of::Text) => writer.raw(name, "\"\""),
            (None, Of::Quantity) => writer.raw(name, "\"0\""),
            (None, Of::Number) => writer.raw(name, "0"),
            (None, Of::Time) => writer.raw(name, "null"),
            (None, Of::One(fields)) => write(fields, "null", nulls, writer.name(name)),
            (None, _) if nulls => writer.raw(name, "null"),
            (None, _) => {}
        }
    }
    writer.close();
}

/// Appends an array of structs.
pub(super) fn write_many(fields: &[Field], newer: &str, nulls: bool, out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, element) in elements(newer).unwrap_or_default().into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(fields, element.get(), nulls, out);
    }
    out.push(b']');
}

/// What stands at a path of v2; not `null`.
pub(super) fn at<'a>(members: &Members<'a>, path: &str) -> Option<&'a str> {
    match path.split_once('.') {
        None => members.raw(path),
        Some((name, rest)) => at(&members.object(name).ok()?, rest),
    }
}

/// The elements of an array; none of `null`.
pub(super) fn elements(text: &str) -> Result<Vec<&RawValue>, Mismatch> {
    serde_json::from_str::<Option<Vec<&RawValue>>>(text).map(Option::unwrap_or_default).map_err(|_| Mismatch)
}

impl Of {
    /// What Go's zero value is in v2, where that is not nothing.
    fn zero(&self) -> Option<Value> {
        match self {
            Self::Quantity => Some("0".into()),
            Self::One(fields) => read(fields, "null").ok().map(Value::Object),
            _ => None,
        }
    }

    /// `text` is not `null`.
    fn read(&self, text: &str) -> Result<Value, Mismatch> {
        Ok(match self {
            Self::Text | Self::SomeText => string(text)?.into(),
            Self::Number | Self::SomeNumber => text.parse::<i32>().map_err(|_| Mismatch)?.into(),
            // Go takes the quotes away and looks at no escape.
            Self::Quantity | Self::SomeQuantity => {
                let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
                quantity::canonical(bare.trim()).map_err(|_| Mismatch)?.into()
            }
            Self::Time => time::seconds(&string(text)?).map_err(|_| Mismatch)?.map_or(Value::Null, Value::String),
            Self::Texts => {
                elements(text)?.into_iter().map(|element| text_or_nothing(element.get()).map(Value::String)).collect::<Result<_, _>>()?
            }
            Self::Labels => {
                let members = Members::read(text).map_err(|_| Mismatch)?;
                let labels = members.iter().map(|(name, value)| Ok((name.to_owned(), text_or_nothing(value)?.into())));
                Value::Object(labels.collect::<Result<_, _>>()?)
            }
            Self::One(fields) | Self::Some(fields) => Value::Object(read(fields, text)?),
            Self::Many(fields) => Value::Array(read_many(fields, text)?.into_iter().map(Value::Object).collect()),
        })
    }
}

fn string(text: &str) -> Result<String, Mismatch> {
    serde_json::from_str(text).map_err(|_| Mismatch)
}

/// A string of a list or a map, where `null` is the empty one.
fn text_or_nothing(text: &str) -> Result<String, Mismatch> {
    if text == "null" { Ok(String::new()) } else { string(text) }
}

/// Whether Go's decoder takes `found` for a field: in any case, with the two letters of Unicode that fold to ASCII.
fn is_name(name: &str, found: &str) -> bool {
    let folded = |c: char| match c {
        'ſ' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(folded).eq(found.chars().map(folded))
}

fn put(out: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(out.insert(path.to_owned(), value)),
        Some((name, rest)) => {
            if let Value::Object(inner) = out.entry(name).or_insert_with(|| Value::Object(Map::new())) {
                put(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        let found =
            read(METRIC, "{\"TYPE\":\"Pods\",\"pod\u{17f}\":{\"METRICNAME\":\"m\",\"targetaveragevalue\":1000}}").expect("of its type");
        assert_eq!(
            found,
            *json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"averageValue": "1k"}}}).as_object().expect("an object")
        );
    }

    #[test]
    fn what_is_not_of_its_type_is_nothing() {
        for text in [
            r#"{"type":1}"#,
            r#"{"resource":{"targetAverageUtilization":1.0}}"#,
            r#"{"resource":{"targetAverageUtilization":"1"}}"#,
            r#"{"resource":{"targetAverageUtilization":4294967296}}"#,
            r#"{"pods":{"targetAverageValue":"a lot"}}"#,
            r#"{"pods":{"selector":{"matchLabels":[]}}}"#,
            r#"{"pods":[]}"#,
            "[]",
            "{",
        ] {
            assert_eq!(read(METRIC, text), Err(Mismatch), "{text}");
        }
        assert_eq!(read(CONDITION, r#"{"lastTransitionTime":"yesterday"}"#), Err(Mismatch));
        assert!(read(METRIC, r#"{"type":null,"object":null,"unknown":{"a":1}}"#).expect("of its type").is_empty());
    }

    #[test]
    fn each_goes_there_and_back() {
        let check = |fields: &[Field], nulls: bool, text: &str| {
            let newer = Value::Object(read(fields, text).expect("of its type")).to_string();
            let mut out = Vec::new();
            write(fields, &newer, nulls, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), text);
        };
        let selector = r#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["x","y"]}]}"#;
        let reference = r#"{"kind":"Service","name":"s","apiVersion":"v1"}"#;
        for source in [
            format!(r#""object":{{"target":{reference},"metricName":"m","targetValue":"0","selector":{selector},"averageValue":"1"}}"#),
            format!(r#""pods":{{"metricName":"m","targetAverageValue":"5","selector":{selector}}}"#),
            r#""resource":{"name":"cpu","targetAverageUtilization":5,"targetAverageValue":"1k"}"#.to_owned(),
            r#""containerResource":{"name":"cpu","targetAverageValue":"1Gi","container":"c"}"#.to_owned(),
            format!(r#""external":{{"metricName":"m","metricSelector":{selector},"targetValue":"3","targetAverageValue":"1"}}"#),
        ] {
            check(METRIC, false, &format!(r#"{{"type":"T",{source}}}"#));
        }
        check(CONDITION, false, r#"{"type":"T","status":"True","lastTransitionTime":null,"message":"m"}"#);
        let rules = r#"{"StabilizationWindowSeconds":0,"SelectPolicy":null,"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":0}],"Tolerance":"100m"}"#;
        check(BEHAVIOR, true, &format!(r#"{{"ScaleUp":{rules},"ScaleDown":null}}"#));
    }
}
