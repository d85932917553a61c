//! `metadata.managedFields` as a list of entries and as sets of fields by manager.

use std::collections::BTreeMap;

use merge::{Managers, Set, VersionedSet, fields_v1};
use serde_json::{Map, Value};

use super::identifier::Identifier;
use crate::write::tree;
use go::quote::quoted;

const FIELDS_TYPE: &str = "FieldsV1";

/// The managers of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Managed {
    /// Their fields, by the text of their identifier.
    pub(super) managers: Managers,
    /// When each has changed something last, as it was told; a manager may have none.
    pub(super) times: BTreeMap<String, String>,
}

impl Managed {
    /// Reads the entries of an object; none when it has no list.
    ///
    /// # Errors
    /// What is wrong with the first entry that cannot be read.
    pub(super) fn read(entries: Option<&Value>) -> Result<Self, String> {
        let mut managed = Self::default();
        let entries = entries.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (at, entry) in entries.iter().enumerate() {
            let text = |name: &str| tree::text(entry, &[name]);
            if !matches!(text("operation"), "Apply" | "Update") {
                return Err("operation must be `Apply` or `Update`".to_owned());
            }
            if text("apiVersion").is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                FIELDS_TYPE => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
                other => return Err(format!("invalid fieldsType {} in managed fields entry {at}", quoted(other))),
            }
            let set = match entry.get("fieldsV1").filter(|fields| !fields.is_null()) {
                Some(fields) => fields_v1::from_value(fields).map_err(|error| format!("error decoding set: {error}"))?,
                None => Set::new(),
            };
            let (identifier, applied) = (Identifier::of(entry).text(), text("operation") == "Apply");
            match tree::text(entry, &["time"]) {
                "" => drop(managed.times.remove(&identifier)),
                time => drop(managed.times.insert(identifier.clone(), time.to_owned())),
            }
            managed.managers.insert(identifier, VersionedSet { set, version: text("apiVersion").to_owned(), applied });
        }
        Ok(managed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.managers.is_empty()
    }

    /// Returns when a manager has changed something last, in seconds; 0 when that is not known.
    pub(super) fn seconds(&self, manager: &str) -> i64 {
        self.times.get(manager).and_then(|time| tree::parsed(time)).map_or(0, time::OffsetDateTime::unix_timestamp)
    }

    /// Writes the entries: those that applied first, then by time and name.
    pub(super) fn entries(&self) -> Vec<Value> {
        let mut sorted: Vec<_> = self.managers.iter().map(|(manager, fields)| (Identifier::parse(manager), manager, fields)).collect();
        sorted.sort_by_cached_key(|(identifier, manager, fields)| {
            let operation = operation(identifier, fields);
            let of = (identifier.manager.clone(), fields.version.clone(), identifier.subresource.clone());
            (operation.to_owned(), self.seconds(manager), of)
        });
        sorted.into_iter().map(|(identifier, manager, fields)| self.entry(&identifier, manager, fields)).collect()
    }

    fn entry(&self, identifier: &Identifier, manager: &str, fields: &VersionedSet) -> Value {
        let mut entry = Map::new();
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                entry.insert(name.to_owned(), value.into());
            }
        };
        put("manager", &identifier.manager);
        put("operation", operation(identifier, fields));
        put("apiVersion", &fields.version);
        put("time", self.times.get(manager).map_or("", String::as_str));
        put("fieldsType", FIELDS_TYPE);
        put("subresource", &identifier.subresource);
        entry.insert("fieldsV1".to_owned(), serde_json::from_str(&fields_v1::write(&fields.set)).expect("it was written as JSON"));
        Value::Object(entry)
    }
}

fn operation<'a>(identifier: &'a Identifier, fields: &VersionedSet) -> &'a str {
    if fields.applied { "Apply" } else { &identifier.operation }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, time: &str) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}})
    }

    #[test]
    fn entries_come_back_sorted() {
        let early = entry("b", "Update", "2026-01-01T00:00:00Z");
        let late = entry("a", "Update", "2026-01-02T00:00:00Z");
        let applied = entry("z", "Apply", "2026-01-03T00:00:00Z");
        let managed = Managed::read(Some(&json!([late, early, applied]))).expect("valid");
        assert_eq!(managed.entries(), [applied, early, late]);
    }

    #[test]
    fn what_is_wrong_is_told_as_there() {
        let wrong = |change: &dyn Fn(&mut Value)| {
            let mut it = entry("a", "Update", "2026-01-01T00:00:00Z");
            change(&mut it);
            Managed::read(Some(&json!([it]))).expect_err("wrong")
        };
        assert_eq!(wrong(&|it| it["operation"] = "Other".into()), "operation must be `Apply` or `Update`");
        assert_eq!(wrong(&|it| it["apiVersion"] = "".into()), "apiVersion must not be empty");
        assert_eq!(wrong(&|it| it["fieldsType"] = "".into()), "missing fieldsType in managed fields entry 0");
        assert_eq!(wrong(&|it| it["fieldsType"] = "X".into()), "invalid fieldsType \"X\" in managed fields entry 0");
        assert!(wrong(&|it| it["fieldsV1"] = json!({"x": {}})).starts_with("error decoding set: "));
    }
}
