//! The manager that made a change, as `metadata.managedFields` of the object before and after it show it.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The entry in which the API server keeps the fields of old updates; it never makes a change.
const ANCIENT: &str = "ancient-changes";

/// An entry of `metadata.managedFields`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Manager {
    pub(super) manager: String,
    pub(super) operation: String,
    pub(super) subresource: String,
    pub(super) time: String,
    api_version: String,
    #[serde(rename = "fieldsV1")]
    fields: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Managed {
    metadata: ManagedMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ManagedMeta {
    managed_fields: Vec<Manager>,
}

fn managers(object: &[u8]) -> Vec<Manager> {
    serde_json::from_slice::<Managed>(object).unwrap_or_default().metadata.managed_fields
}

impl Manager {
    /// Returns whether both are entries of one manager: whether the server would merge them.
    fn is(&self, other: &Manager) -> bool {
        let identity = |of: &Manager| [&of.manager, &of.operation, &of.subresource, &of.api_version].map(String::clone);
        identity(self) == identity(other)
    }
}

/// Returns the only element.
fn only<'m>(mut entries: impl Iterator<Item = &'m Manager>) -> Option<&'m Manager> {
    entries.next().filter(|_| entries.next().is_none())
}

/// Returns the manager that wrote an object of which nothing older is known: the newest entry, if one is the newest.
pub(super) fn made_by(object: &[u8]) -> Option<Manager> {
    let all = managers(object);
    let newest = all.iter().map(|entry| &entry.time).max()?;
    only(all.iter().filter(|entry| entry.time == *newest)).cloned()
}

/// Returns the manager that made `new` of `old`: the one that gained fields, or whose time changed, or that owns the changed fields. Times are whole seconds,
/// so two changes within one second differ in nothing but the values. `None` when several or none can have made it: a removed field belongs to nobody.
pub(super) fn changed_by(old: &[u8], new: &[u8]) -> Option<Manager> {
    let (before, mut after) = (managers(old), managers(new));
    after.retain(|entry| entry.manager != ANCIENT && !entry.fields.is_empty());
    let was = |entry: &Manager| before.iter().find(|other| other.is(entry));
    let (mut gained, mut touched) = (Vec::new(), Vec::new());
    for entry in &after {
        let was = was(entry);
        if was.is_none_or(|was| gains(&was.fields, &entry.fields)) {
            gained.push(entry);
        }
        if was.is_none_or(|was| was.time != entry.time) {
            touched.push(entry);
        }
    }
    let both = || only(gained.iter().copied().filter(|entry| touched.iter().any(|other| other.is(entry))));
    let found = only(gained.iter().copied()).or_else(both);
    if let Some(found) = found.or_else(|| only(touched.iter().copied()).filter(|_| gained.is_empty())) {
        return Some(found.clone());
    }
    let [old, new] = [old, new].map(|text| serde_json::from_slice::<Value>(text).ok());
    let (old, new) = (old?, new?);
    let owns = |entry: &&Manager, is_inside| owns_change(&entry.fields, Some(&old), Some(&new), is_inside);
    // Of the owner of a map and the owner of its member that has changed, it is the latter.
    only(after.iter().filter(|entry| owns(entry, false))).or_else(|| only(after.iter().filter(|entry| owns(entry, true)))).cloned()
}

/// Returns whether a set of fields has one that it had not.
fn gains(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let is_whole = |fields: &Map<String, Value>| fields.is_empty() || fields.contains_key(".");
    let below = |(name, fields): (&String, &Value)| match (old.get(name), fields) {
        (Some(Value::Object(old)), Value::Object(fields)) => gains(old, fields),
        (was, _) => was.is_none() && name != ".",
    };
    is_whole(new) && !is_whole(old) || new.iter().any(below)
}

/// Returns whether a set of fields has one that was added, or whose value changed; with `is_inside`, also one in whose map or list something changed: it may be
/// owned as a whole, or its members by others.
fn owns_change(fields: &Map<String, Value>, old: Option<&Value>, new: Option<&Value>, is_inside: bool) -> bool {
    if old == new || new.is_none() {
        return false;
    }
    if fields.is_empty() {
        let is_same_kind =
            matches!((old, new), (Some(Value::Object(_)), Some(Value::Object(_))) | (Some(Value::Array(_)), Some(Value::Array(_))));
        return is_inside || !is_same_kind;
    }
    fields.iter().any(|(step, fields)| match (step.split_once(':'), fields) {
        (None, _) => step == "." && old.is_none(),
        (Some(step), Value::Object(fields)) => {
            owns_change(fields, old.and_then(|old| at(old, step)), new.and_then(|new| at(new, step)), is_inside)
        }
        _ => false,
    })
}

/// Returns what a step of a path leads to: a member, or an element of a list by its keys, its value or its index.
fn at<'v>(value: &'v Value, (kind, step): (&str, &str)) -> Option<&'v Value> {
    match (kind, value) {
        ("f", Value::Object(members)) => members.get(step),
        ("i", Value::Array(items)) => items.get(step.parse::<usize>().ok()?),
        ("v", Value::Array(items)) => {
            let value: Value = serde_json::from_str(step).ok()?;
            items.iter().find(|item| **item == value)
        }
        ("k", Value::Array(items)) => {
            let keys: Map<String, Value> = serde_json::from_str(step).ok()?;
            items.iter().find(|item| keys.iter().all(|(key, value)| item.get(key) == Some(value)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An object with data and a list, and the entries of its managers: name, second, fields.
    fn object(data: &Value, ports: &Value, managers: &[(&str, u32, Value)]) -> Vec<u8> {
        let entry = |(name, second, fields): &(&str, u32, Value)| json!({"manager": name, "operation": "Update", "apiVersion": "v1", "time": format!("2026-01-01T00:00:{second:02}Z"), "fieldsType": "FieldsV1", "fieldsV1": fields});
        let entries: Vec<Value> = managers.iter().map(entry).collect();
        json!({"metadata": {"name": "c", "managedFields": entries}, "data": data, "ports": ports}).to_string().into_bytes()
    }

    fn data(names: &[&str]) -> Value {
        let names: Map<String, Value> = names.iter().map(|name| (format!("f:{name}"), json!({}))).collect();
        json!({"f:data": names})
    }

    fn by(old: &[u8], new: &[u8]) -> Option<String> {
        changed_by(old, new).map(|by| by.manager)
    }

    #[test]
    fn a_change_is_by_the_owner_of_what_changed() {
        let none = json!([]);
        let owners = [("controller", 1, data(&["c"])), ("person", 1, data(&["p"]))];
        let first = object(&json!({"c": "1", "p": "1"}), &none, &owners);
        let second = object(&json!({"c": "2", "p": "1"}), &none, &owners);
        assert_eq!(by(&first, &second).as_deref(), Some("controller"), "within one second, before the newest entry");
        let third = object(&json!({"c": "2", "p": "2"}), &none, &owners);
        assert_eq!(by(&second, &third).as_deref(), Some("person"));
        // One takes the field of another, and one adds a field.
        let taken = object(&json!({"c": "3", "p": "2"}), &none, &[("controller", 1, json!({})), ("person", 1, data(&["c", "p"]))]);
        assert_eq!(by(&third, &taken).as_deref(), Some("person"));
        let more = object(&json!({"c": "2", "p": "2", "n": "1"}), &none, &[("controller", 1, data(&["c", "n"])), owners[1].clone()]);
        assert_eq!(by(&third, &more).as_deref(), Some("controller"));
        // The same values again, a second later.
        let later = object(&json!({"c": "2", "p": "2"}), &none, &[("controller", 3, data(&["c"])), ("person", 1, data(&["p"]))]);
        assert_eq!(by(&third, &later).as_deref(), Some("controller"));
        // One owns the map and one the member that has changed: `{}` is what is left of who made the map.
        let map = ("maker", 1, json!({"f:data": {}}));
        let [first, second] = ["1", "2"].map(|c| object(&json!({"c": c}), &none, &[map.clone(), owners[0].clone()]));
        assert_eq!(by(&first, &second).as_deref(), Some("controller"));
        let [first, second] = ["1", "2"].map(|c| object(&json!({"c": c}), &none, std::slice::from_ref(&map)));
        assert_eq!(by(&first, &second).as_deref(), Some("maker"));
        // Of a removal nobody is known.
        let removed = object(&json!({"c": "2"}), &none, &[owners[0].clone()]);
        assert_eq!(by(&third, &removed), None);
        assert_eq!(by(&third, &third), None);
    }

    #[test]
    fn elements_of_lists_have_owners_too() {
        let port = |port: u32, name: &str| json!({"port": port, "name": name});
        let key = |port: u32| json!({"f:ports": {format!("k:{{\"port\":{port}}}"): {".": {}, "f:name": {}, "f:port": {}}}});
        let owners = [("a", 1, key(80)), ("b", 1, key(443)), ("c", 1, json!({"f:data": {"f:list": {"v:\"x\"": {}}}}))];
        let of = |ports: Value, list: Value| object(&json!({"list": list}), &ports, &owners);
        let first = of(json!([port(80, "x"), port(443, "y")]), json!(["w"]));
        assert_eq!(by(&first, &of(json!([port(443, "y"), port(80, "z")]), json!(["w"]))).as_deref(), Some("a"), "wherever it is");
        assert_eq!(by(&first, &of(json!([port(80, "x"), port(443, "z")]), json!(["w"]))).as_deref(), Some("b"));
        assert_eq!(by(&first, &of(json!([port(80, "x"), port(443, "y")]), json!(["w", "x"]))).as_deref(), Some("c"));
        assert_eq!(by(&first, &of(json!([port(80, "z"), port(443, "z")]), json!(["w"]))), None, "either can have made it");
    }

    #[test]
    fn of_a_first_state_the_newest_entry_counts_if_there_is_one() {
        let of = |seconds: [u32; 2]| object(&json!({}), &json!([]), &[("a", seconds[0], data(&["x"])), ("b", seconds[1], data(&["y"]))]);
        let made = |seconds| made_by(&of(seconds)).map(|by| by.manager);
        assert_eq!([[1, 2], [2, 1], [1, 1]].map(made), [Some("b".to_owned()), Some("a".to_owned()), None]);
        assert_eq!(made_by(b"{}"), None);
    }

    #[test]
    fn old_updates_that_are_merged_are_nobodys_change() {
        let old = object(&json!({"x": "1", "y": "1"}), &json!([]), &[("a", 1, data(&["x"])), ("b", 2, data(&["y"]))]);
        let new = object(&json!({"x": "1", "y": "2"}), &json!([]), &[(ANCIENT, 1, data(&["x"])), ("n", 3, data(&["y"]))]);
        assert_eq!(by(&old, &new).as_deref(), Some("n"));
    }
}
