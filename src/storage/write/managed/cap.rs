//! Keeps few entries of those who update: the oldest become one.

use std::collections::HashMap;

use merge::VersionedSet;

use super::{entries::Managed, identifier::Identifier};

/// Entries of managers that update.
const UPDATERS_MAX: usize = 10;
/// Manager of what was updated longest ago.
const ANCIENT: &str = "ancient-changes";

/// Puts the oldest entries of one version together until there are few enough.
pub(super) fn updaters(managed: &mut Managed) {
    let mut updaters: Vec<String> =
        managed.managers.iter().filter(|(_, fields)| !fields.applied).map(|(manager, _)| manager.clone()).collect();
    let mut left = updaters.len();
    if left <= UPDATERS_MAX {
        return;
    }
    updaters.sort_by_cached_key(|manager| (managed.seconds(manager), manager.clone()));
    let mut first_of: HashMap<String, String> = HashMap::new();
    for manager in updaters {
        if left <= UPDATERS_MAX {
            break;
        }
        let Some(version) = managed.managers.get(&manager).map(|fields| fields.version.clone()) else { continue };
        let Some(first) = first_of.get(&version) else {
            first_of.insert(version, manager);
            continue;
        };
        let bucket =
            Identifier { manager: ANCIENT.to_owned(), operation: "Update".to_owned(), api_version: version, subresource: String::new() }
                .text();
        if !managed.managers.contains_key(&bucket)
            && let Some(fields) = managed.managers.remove(first)
        {
            managed.managers.insert(bucket.clone(), fields);
        }
        let Some(fields) = managed.managers.remove(&manager) else { continue };
        let set = managed.managers.get(&bucket).map_or_else(|| fields.set.clone(), |before| fields.set.union(&before.set));
        managed.managers.insert(bucket.clone(), VersionedSet { set, ..fields });
        match managed.times.get(&manager).cloned() {
            Some(time) => managed.times.insert(bucket, time),
            None => managed.times.remove(&bucket),
        };
        left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_oldest_become_one() {
        let entry = |nth: usize| {
            json!({"manager": format!("m{nth:02}"), "operation": "Update", "apiVersion": "v1", "time": format!("2026-01-01T00:00:{nth:02}Z"),
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:k{nth}"): {}}}})
        };
        let mut managed = Managed::read(Some(&Value::Array((0..12).map(entry).collect()))).expect("valid");
        updaters(&mut managed);
        let entries = managed.entries();
        assert_eq!(entries.len(), UPDATERS_MAX);
        let ancient = json!({"manager": ANCIENT, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:02Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:k0": {}, "f:k1": {}, "f:k2": {}}}});
        assert_eq!(entries[0], ancient);
        assert_eq!(entries[1], entry(3));
    }
}
