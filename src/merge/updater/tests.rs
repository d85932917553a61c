//! Laws of writes, on random ones, and their limits.

use std::cell::RefCell;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    fields_v1,
    path::Path,
    typed::{
        Duplicates,
        tests::{TYPE, an_object},
    },
};

/// Versions that are the same, and there or not.
struct Versions(RefCell<Vec<&'static str>>);

impl Converter for Versions {
    fn convert<'a>(&self, object: &'a TypedValue<'_>, version: &str) -> Result<TypedValue<'a>, ConvertError> {
        let is_there = self.0.borrow().contains(&version);
        if is_there { Ok(object.borrow()) } else { Err(ConvertError::MissingVersion(format!("no {version}"))) }
    }
}

fn versions() -> Versions {
    Versions(RefCell::new(vec!["v1", "v2"]))
}

fn of(value: &Value) -> TypedValue<'_> {
    TypedValue::borrowed(value, &TYPE)
}

/// Who writes what, in which version, and whether it is applied.
fn a_write() -> impl Strategy<Value = (&'static str, &'static str, bool, Value)> {
    let manager = prop_oneof![Just("anna"), Just("bert"), Just("carl")];
    (manager, prop_oneof![4 => Just("v1"), 1 => Just("v2")], any::<bool>(), an_object())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn histories_keep_the_laws(writes in prop::collection::vec(a_write(), 1..8)) {
        let versions = versions();
        let updater = Updater::new(&versions);
        let (mut live, mut managers) = (Value::Null, Managers::new());
        let mut has_applied = false;
        for (manager, version, is_applied, object) in writes {
            has_applied |= is_applied;
            if is_applied {
                let last = managers.get(manager).cloned();
                let applied = updater.apply(&of(&live), &of(&object), version, managers.clone(), manager, true).unwrap();
                let config = of(&object).to_field_set().unwrap();
                prop_assert_eq!(applied.managers.get(manager).map_or_else(Set::new, |managed| managed.set.clone()), config);
                // Going the long way makes no difference.
                let merged = of(&live).merge(&of(&object)).unwrap().unwrap_or_else(|| live.clone());
                let mut now = managers.clone();
                let set = of(&object).to_field_set().unwrap();
                now.insert(manager.to_owned(), VersionedSet { set, version: version.to_owned(), applied: true });
                let after = match last.filter(|last| !last.set.is_empty()) {
                    Some(last) => updater.prune_last(&of(&merged), &now, manager, &last).unwrap().unwrap_or(merged),
                    None => merged,
                };
                live = applied.object.unwrap_or(live);
                prop_assert!(equals(&live, &after), "{live} {after}");
                managers = applied.managers;
                // Again, nothing happens, unless nothing is left at all: then it becomes an empty object.
                if live.is_null() {
                    continue;
                }
                let again = updater.apply(&of(&live), &of(&object), version, managers.clone(), manager, false).unwrap();
                prop_assert!(again.object.is_none());
                prop_assert!(again.managers.iter().all(|(name, managed)| managed.set.is_same(&managers[name].set)));
                prop_assert_eq!(&again.managers, &managers);
            } else {
                managers = updater.update(&of(&live), &of(&object), version, managers, manager).unwrap();
                live = object;
                let again = updater.update(&of(&live), &of(&live.clone()), version, managers.clone(), "someone else").unwrap();
                prop_assert_eq!(&again, &managers);
                // Only what is applied is shared.
                let all: Vec<&VersionedSet> = managers.values().collect();
                for (at, one) in all.iter().enumerate().filter(|_| !has_applied) {
                    prop_assert!(all[at + 1..].iter().all(|other| one.set.intersection(&other.set).is_empty()));
                }
            }
            prop_assert!(managers.values().all(|managed| !managed.set.is_empty()));
        }
    }

    #[test]
    fn conflicts_are_what_others_have_otherwise(theirs in an_object(), ours in an_object()) {
        let versions = versions();
        let updater = Updater::new(&versions);
        let managers = updater.update(&of(&Value::Null), &of(&theirs), "v1", Managers::new(), "them").unwrap();
        let merged = of(&theirs).merge(&of(&ours)).unwrap().unwrap_or_else(|| theirs.clone());
        let changed = of(&theirs).compare(&of(&merged)).unwrap();
        let expected = managers.get("them").map_or_else(Set::new, |them| them.set.intersection(&changed.modified.union(&changed.added)));
        match updater.apply(&of(&theirs), &of(&ours), "v1", managers, "us", false) {
            Ok(_) => prop_assert!(expected.is_empty(), "{expected}"),
            Err(UpdateError::Conflicts(conflicts)) => {
                let fields: Set = conflicts.0.iter().map(|conflict| conflict.path.clone()).collect();
                prop_assert_eq!(fields, expected);
                prop_assert!(conflicts.0.iter().all(|conflict| conflict.manager == "them"));
            }
            Err(e) => prop_assert!(false, "{e}"),
        }
    }
}

#[test]
fn conflicts_are_told_by_manager() {
    let versions = versions();
    let updater = Updater::new(&versions);
    let live = json!({"labels": {"a": "1", "b": "2"}, "items": [{"name": "x", "count": 1}], "args": ["c"]});
    let managed = |names: &[&[&str]]| {
        let set = names.iter().map(|names| Path::fields(names)).collect();
        VersionedSet { set, version: "v1".to_owned(), applied: true }
    };
    let mut managers =
        Managers::from([("zoe".to_owned(), managed(&[&["labels", "b"], &["labels", "a"]])), ("a\"b".to_owned(), managed(&[&["args"]]))]);
    let config = json!({"labels": {"a": "2", "b": "1"}, "args": ["d"]});
    let refused = updater.apply(&of(&live), &of(&config), "v1", managers.clone(), "me", false).unwrap_err();
    assert_eq!(refused.to_string(), "conflicts with \"a\\\"b\":\n- .args\nconflicts with \"zoe\":\n- .labels.a\n- .labels.b");
    managers.remove("zoe");
    let refused = updater.apply(&of(&live), &of(&config), "v1", managers.clone(), "me", false).unwrap_err();
    assert_eq!(refused.to_string(), "conflict with \"a\\\"b\": .args");
    let forced = updater.apply(&of(&live), &of(&config), "v1", managers, "me", true).unwrap();
    assert_eq!(forced.managers.keys().collect::<Vec<_>>(), ["me"]);
}

#[test]
fn managers_of_versions_that_are_gone_are_dropped() {
    let versions = versions();
    let updater = Updater::new(&versions);
    let (one, two) = (json!({"labels": {"a": "1"}}), json!({"labels": {"a": "1", "b": "2"}}));
    let managers = updater.update(&of(&Value::Null), &of(&one), "v1", Managers::new(), "first").unwrap();
    let managers = updater.update(&of(&one), &of(&two), "v2", managers, "second").unwrap();
    assert_eq!(managers.len(), 2);
    *versions.0.borrow_mut() = vec!["v2"];
    let managers = updater.update(&of(&two), &of(&two), "v2", managers, "second").unwrap();
    assert_eq!(managers.keys().collect::<Vec<_>>(), ["second"]);
}

#[test]
fn reset_fields_belong_to_nobody() {
    let versions = versions();
    let filters = BTreeMap::from([("v1".to_owned(), Filter::Exclude([Path::fields(&["labels"])].into_iter().collect()))]);
    let updater = Updater::with_filters(&versions, &filters);
    let object = json!({"labels": {"a": "1"}, "args": ["b"]});
    let managers = updater.update(&of(&Value::Null), &of(&object), "v1", Managers::new(), "one").unwrap();
    assert_eq!(fields_v1::write(&managers["one"].set), r#"{"f:args":{}}"#);
    let applied = updater.apply(&of(&object), &of(&object), "v1", managers, "two", false).unwrap();
    assert_eq!(fields_v1::write(&applied.managers["two"].set), r#"{"f:args":{}}"#);
}

#[test]
fn a_manager_that_gives_up_loses_what_nobody_wants() {
    let versions = versions();
    let updater = Updater::new(&versions);
    let both = json!({"labels": {"a": "1", "b": "2"}, "tags": ["x", "y"], "items": [{"name": "n", "count": 1}]});
    let applied = updater.apply(&of(&Value::Null), &of(&both), "v1", Managers::new(), "one", false).unwrap();
    let live = applied.object.unwrap();
    let shared = json!({"labels": {"a": "1"}, "tags": ["x"]});
    let applied = updater.apply(&of(&live), &of(&shared), "v1", applied.managers, "two", false).unwrap();
    assert!(applied.object.is_none());
    let applied = updater.apply(&of(&live), &of(&json!({})), "v1", applied.managers, "one", false).unwrap();
    assert_eq!(applied.object, Some(json!({"labels": {"a": "1"}, "tags": ["x"]})));
    assert_eq!(applied.managers.keys().collect::<Vec<_>>(), ["two"]);
}

#[test]
fn a_thousand_managers_and_fifty_thousand_fields() {
    let versions = versions();
    let updater = Updater::new(&versions);
    let labels = |count: usize, value: &str| json!({"labels": (0..count).map(|at| (format!("l{at:05}"), json!(value))).collect::<serde_json::Map<_, _>>()});
    let live = labels(50_000, "1");
    let managed = |at: usize| VersionedSet {
        set: (0..20).map(|step| Path::fields(&["labels", &format!("l{:05}", (at * 50 + step) % 50_000)])).collect(),
        version: "v1".to_owned(),
        applied: true,
    };
    let managers: Managers = (0..1_000).map(|at| (format!("m{at}"), managed(at))).collect();
    let new = labels(50_000, "2");
    let after = updater.update(&of(&live), &of(&new), "v1", managers.clone(), "me").unwrap();
    assert_eq!((after.len(), after["me"].set.size()), (1, 50_000));
    let Err(UpdateError::Conflicts(conflicts)) = updater.apply(&of(&live), &of(&new), "v1", managers, "me", false) else {
        panic!("all differ")
    };
    assert_eq!(conflicts.0.len(), 20_000);
    of(&new).validate(Duplicates::Refused).unwrap();
}
