//! A stored autoscaling/v2 HorizontalPodAutoscaler shown as autoscaling/v1, and the way back: what v1 has no field for travels as JSON in annotations.
//!
//! From kubernetes' `pkg/apis/autoscaling/v1/conversion.go`. Defaults are filled in elsewhere, after the way back.

mod fields;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use self::fields::{BEHAVIOR, CONDITION, METRIC, METRIC_STATUS, Mismatch, SOURCES, at, elements};
use super::{
    encode,
    members::{Members, Writer},
    versions::{Stored, TooLong},
};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR_RULES: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Annotations that no version keeps: v1 makes them anew each time (`annotations.go` of `pkg/apis/autoscaling`, which names two that none makes).
const CARRIERS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR_RULES,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Bytes of all that is carried. kube-apiserver takes more; etcd takes 1.5 MiB, and what is stored for them is up to 17 times as long.
const CARRIED_BYTES_MAX: usize = 512 * 1024;

/// Members of `metadata` that come after `annotations`.
const AFTER_ANNOTATIONS: [&str; 3] = ["ownerReferences", "finalizers", "managedFields"];

/// A reference that says nothing.
const NOTHING: &str = r#"{"kind":"","name":""}"#;

/// Takes away the annotations that carry what v1 has no field for.
pub fn drop_carriers(autoscaler: &mut Map<String, Value>) {
    let Some(Value::Object(metadata)) = autoscaler.get_mut("metadata") else { return };
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|name, _| !CARRIERS.contains(&name.as_str()));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// Appends the members of the v1 form from `metadata` on, and the closing brace, for the text of a v2 object.
pub(super) fn tail_into(newer: &str, out: &mut Vec<u8>) {
    let newer = Members::read(newer).unwrap_or_default();
    let (spec, status) = (newer.object("spec").unwrap_or_default(), newer.object("status").unwrap_or_default());
    let mut writer = Writer::resume(out);
    metadata_into(newer.raw("metadata").unwrap_or("{}"), &carried(&spec, &status), writer.name("metadata"));
    let mut inner = Writer::open(writer.name("spec"));
    inner.raw("scaleTargetRef", spec.raw("scaleTargetRef").unwrap_or(NOTHING));
    inner.some("minReplicas", spec.raw("minReplicas"));
    inner.raw("maxReplicas", spec.raw("maxReplicas").unwrap_or("0"));
    inner.some("targetCPUUtilizationPercentage", list(&spec, "metrics").into_iter().find_map(|metric| processor(metric, "target")));
    inner.close();
    let mut inner = Writer::open(writer.name("status"));
    inner.some("observedGeneration", status.raw("observedGeneration"));
    inner.some("lastScaleTime", status.raw("lastScaleTime"));
    inner.raw("currentReplicas", status.raw("currentReplicas").unwrap_or("0"));
    inner.raw("desiredReplicas", status.raw("desiredReplicas").unwrap_or("0"));
    let mut current = list(&status, "currentMetrics").into_iter().filter_map(|metric| processor(metric, "current"));
    inner.some("currentCPUUtilizationPercentage", current.next_back());
    inner.close();
    writer.close();
}

/// The annotations that carry the rest.
fn carried(spec: &Members<'_>, status: &Members<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let mut carried = Vec::new();
    let others: Vec<&str> = list(spec, "metrics").into_iter().filter(|metric| processor(metric, "target").is_none()).collect();
    if !others.is_empty() {
        let mut text = Vec::new();
        fields::write_many(METRIC, &format!("[{}]", others.join(",")), false, &mut text);
        carried.push((METRICS, text));
    }
    for (annotation, name, of) in [(CURRENT_METRICS, "currentMetrics", METRIC_STATUS), (CONDITIONS, "conditions", CONDITION)] {
        if !list(status, name).is_empty() {
            let mut text = Vec::new();
            fields::write_many(of, status.raw(name).unwrap_or("[]"), false, &mut text);
            carried.push((annotation, text));
        }
    }
    if let Some(behavior) = spec.raw("behavior") {
        let mut text = Vec::new();
        fields::write(BEHAVIOR, behavior, true, &mut text);
        carried.push((BEHAVIOR_RULES, text));
    }
    carried
}

/// The elements of a list.
fn list<'a>(of: &Members<'a>, name: &str) -> Vec<&'a str> {
    elements(of.raw(name).unwrap_or("[]")).unwrap_or_default().into_iter().map(|element| element.get()).collect()
}

/// How busy processors should be, or are (`target`, `current`), if that is what the metric tells.
fn processor<'a>(metric: &'a str, what: &str) -> Option<&'a str> {
    let metric = Members::read(metric).ok()?;
    let is_it = metric.raw("type") == Some("\"Resource\"") && at(&metric, "resource.name") == Some("\"cpu\"");
    is_it.then(|| at(&metric, &format!("resource.{what}.averageUtilization"))).flatten()
}

/// Appends metadata with these annotations and none of the same purpose that it has.
fn metadata_into(metadata: &str, carried: &[(&'static str, Vec<u8>)], out: &mut Vec<u8>) {
    let members = Members::read(metadata).unwrap_or_default();
    let own = members.object("annotations").unwrap_or_default();
    let own = own.iter().filter(|(name, _)| !CARRIERS.contains(name)).map(|(name, value)| (name, Cow::Borrowed(value.as_bytes())));
    let carried = carried.iter().map(|(name, text)| {
        let mut value = Vec::with_capacity(text.len() + text.len() / 4);
        encode::string_into(&String::from_utf8_lossy(text), &mut value);
        (*name, Cow::Owned(value))
    });
    let mut all: Vec<(&str, Cow<'_, [u8]>)> = own.chain(carried).collect();
    // As Go prints a map.
    all.sort_by_key(|(name, _)| *name);
    let mut writer = Writer::open(out);
    let mut left = (!all.is_empty()).then_some(all);
    for (name, value) in members.iter().filter(|(name, _)| *name != "annotations") {
        if let Some(all) = left.take_if(|_| AFTER_ANNOTATIONS.contains(&name)) {
            annotations_into(&all, writer.name("annotations"));
        }
        writer.raw(name, value);
    }
    if let Some(all) = left {
        annotations_into(&all, writer.name("annotations"));
    }
    writer.close();
}

fn annotations_into(all: &[(&str, Cow<'_, [u8]>)], out: &mut Vec<u8>) {
    let mut writer = Writer::open(out);
    for (name, value) in all {
        writer.name(name).extend_from_slice(value);
    }
    writer.close();
}

/// The v2 members of a v1 object; its `apiVersion` stays.
///
/// # Errors
/// Too much is carried to be read.
pub(super) fn stored_of(older: &Map<String, Value>) -> Stored {
    let carried = |name: &str| older.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(name)?.as_str());
    let bytes = CARRIERS.iter().filter_map(|name| carried(name)).map(str::len).sum();
    if bytes > CARRIED_BYTES_MAX {
        return Err(TooLong { bytes, limit: CARRIED_BYTES_MAX });
    }
    let mut out = older.clone();
    drop_carriers(&mut out);
    if let Some(Value::Object(spec)) = out.get_mut("spec") {
        let wanted = spec.remove("targetCPUUtilizationPercentage").filter(|percent| !percent.is_null());
        let wanted = wanted.map(|percent| json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}));
        let others = carried(METRICS).and_then(|text| metrics(text, true).ok()).unwrap_or_default();
        spec.insert("metrics".into(), others.into_iter().chain(wanted).collect());
        if let Some(behavior) =
            carried(BEHAVIOR_RULES).and_then(|text| fields::read(BEHAVIOR, text).ok()).filter(|behavior| !behavior.is_empty())
        {
            spec.insert("behavior".into(), behavior.into());
        }
    }
    if let Some(Value::Object(status)) = out.get_mut("status") {
        let current = status.remove("currentCPUUtilizationPercentage").filter(|percent| !percent.is_null());
        if let Some(percent) = current {
            let metric = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}});
            status.insert("currentMetrics".into(), json!([metric]));
        }
        if let Some(all) = carried(CURRENT_METRICS).and_then(|text| metrics(text, false).ok()) {
            status.insert("currentMetrics".into(), all.into());
        }
        if let Some(all) = carried(CONDITIONS).and_then(|text| fields::read_many(CONDITION, text).ok()) {
            status.insert("conditions".into(), all.into());
        }
    }
    Ok(out)
}

/// Metrics that are wanted, or were measured.
fn metrics(text: &str, wanted: bool) -> Result<Vec<Value>, Mismatch> {
    let mut all = fields::read_many(if wanted { METRIC } else { METRIC_STATUS }, text)?;
    if wanted {
        for metric in &mut all {
            for source in &SOURCES {
                if let Some(Value::Object(of)) = metric.get_mut(source.name) {
                    say_what_is_wanted(source.name, of);
                }
            }
        }
    }
    Ok(all.into_iter().map(Value::Object).collect())
}

/// v2 says which of its numbers counts; v1 has the reader find out.
fn say_what_is_wanted(source: &str, of: &mut Map<String, Value>) {
    let Value::Object(target) = of.entry("target").or_insert_with(|| json!({})) else { return };
    let kind = match source {
        "resource" | "containerResource" if target.contains_key("averageUtilization") => "Utilization",
        "object" if !target.contains_key("averageValue") => "Value",
        "external" if target.contains_key("value") => "Value",
        _ => "AverageValue",
    };
    // v1 cannot leave it out, v2 refuses it.
    if source == "object" && kind == "AverageValue" && target.get("value").is_some_and(|value| value == "0") {
        target.remove("value");
    }
    target.insert("type".into(), kind.into());
}

#[cfg(test)]
mod tests;
