//! A definition before it is validated and stored: defaults, and what a write may not change (spec api-surface §11.1).

use serde_json::{Map, Value, json};

use super::tree::{flag, list, member, object_in, object_mut, text};
use codec::definition::normal;

/// Port of a webhook's service when none is named.
const WEBHOOK_PORT: u16 = 443;

/// Brings what a client sent to the form that GET shows: unknown and empty members dropped, defaults filled in. For create and update alike;
/// also for the result of a patch.
pub fn defaulted(object: &mut Value) {
    *object = normal(object);
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        default_names(object_in(spec, "names"));
        let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
        default_conversion(conversion);
    }
    store_first(object);
}

/// For create, after [`defaulted`]: the client's status is dropped, the storage version is the one stored version, generation 1.
pub fn prepare_create(object: &mut Value) {
    object["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null});
    object_mut(object, "metadata").insert("generation".to_owned(), Value::from(1));
    store_first(object);
}

/// For an update through the main path, after [`defaulted`]: the status stays, but that a new storage version is added to the stored ones; the
/// generation counts changes of the spec.
pub fn prepare_update(new: &mut Value, old: &Value) {
    let old = normal(old);
    new["status"] = old["status"].clone();
    let changed = new["spec"] != old["spec"];
    let generation = old["metadata"].get("generation").and_then(Value::as_i64).unwrap_or_default().wrapping_add(i64::from(changed));
    object_mut(new, "metadata").insert("generation".to_owned(), Value::from(generation));
    let storage = storage_version(&new["spec"]);
    let status = object_mut(new, "status");
    if status.get("storedVersions").is_none_or(|stored| !stored.is_array()) {
        status.insert("storedVersions".to_owned(), json!([]));
    }
    if let (Some(storage), Some(Value::Array(stored))) = (storage, status.get_mut("storedVersions"))
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
}

/// For an update through `/status`, after [`defaulted`]: the spec stays.
pub fn prepare_status_update(new: &mut Value, old: &Value) {
    new["spec"] = old["spec"].clone();
    if let Some(generation) = old["metadata"].get("generation") {
        object_mut(new, "metadata").insert("generation".to_owned(), generation.clone());
    }
}

fn default_names(names: &mut Map<String, Value>) {
    let empty = |value: Option<&Value>| value.and_then(Value::as_str).is_none_or(str::is_empty);
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind.is_empty() {
        return;
    }
    if empty(names.get("singular")) {
        names.insert("singular".to_owned(), Value::from(kind.to_lowercase()));
    }
    if empty(names.get("listKind")) {
        names.insert("listKind".to_owned(), Value::from(kind + "List"));
    }
}

/// A webhook without anything in it does not survive kube-apiserver's internal form.
fn default_conversion(conversion: &mut Value) {
    let Some(webhook) = member(conversion, "webhook") else { return };
    if member(webhook, "clientConfig").is_none() && list(webhook, "conversionReviewVersions").is_empty() {
        conversion.as_object_mut().into_iter().for_each(|conversion| drop(conversion.remove("webhook")));
    } else if let Some(Value::Object(service)) = conversion.pointer_mut("/webhook/clientConfig/service") {
        service.entry("port").or_insert(Value::from(WEBHOOK_PORT));
    }
}

/// The storage version is the stored one when none is named.
fn store_first(object: &mut Value) {
    let storage = storage_version(&object["spec"]);
    let status = object_mut(object, "status");
    if let Some(storage) = storage
        && status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty)
    {
        status.insert("storedVersions".to_owned(), Value::Array(vec![storage]));
    }
}

fn storage_version(spec: &Value) -> Option<Value> {
    let storage = list(spec, "versions").iter().find(|version| flag(version, "storage"))?;
    Some(Value::from(text(storage, "name")))
}
