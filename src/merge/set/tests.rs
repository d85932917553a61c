//! Sets beside plain sets of paths.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fields_v1;

fn an_element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-c]{1,2}".prop_map(|name| PathElement::field(&name)),
        (0..3).prop_map(|port| PathElement::key([("port", json!(port))])),
        "[a-b]".prop_map(|name| PathElement::key([("name", json!(name)), ("port", json!(1))])),
        (0..3).prop_map(|value| PathElement::value(json!(value))),
        (0..3_i64).prop_map(PathElement::Index),
    ]
}

fn paths() -> impl Strategy<Value = BTreeSet<Path>> {
    let path = prop::collection::vec(an_element(), 1..4).prop_map(Path);
    prop::collection::btree_set(path, 0..12)
}

fn set(paths: &BTreeSet<Path>) -> Set {
    paths.iter().cloned().collect()
}

fn plain(set: &Set) -> BTreeSet<Path> {
    set.paths().into_iter().collect()
}

proptest! {
    #[test]
    fn what_two_sets_make(lhs in paths(), rhs in paths()) {
        let (left, right) = (set(&lhs), set(&rhs));
        prop_assert_eq!(plain(&left), lhs.clone());
        prop_assert_eq!(left.size(), lhs.len());
        prop_assert_eq!(left.is_empty(), lhs.is_empty());
        prop_assert_eq!(left == right, lhs == rhs);
        prop_assert_eq!(plain(&left.union(&right)), &lhs | &rhs);
        prop_assert_eq!(plain(&left.intersection(&right)), &lhs & &rhs);
        prop_assert_eq!(plain(&left.difference(&right)), &lhs - &rhs);
        let is_below = |path: &Path| rhs.iter().any(|prefix| path.0.starts_with(&prefix.0));
        let outside: BTreeSet<Path> = lhs.iter().filter(|path| !is_below(path)).cloned().collect();
        prop_assert_eq!(plain(&left.recursive_difference(&right)), outside);
        let has_below = |path: &Path| lhs.iter().any(|other| other != path && other.0.starts_with(&path.0));
        let leaves: BTreeSet<Path> = lhs.iter().filter(|path| !has_below(path)).cloned().collect();
        prop_assert_eq!(plain(&left.leaves()), leaves);
        prop_assert!(lhs.iter().all(|path| left.has(&path.0)));
        prop_assert!(rhs.iter().all(|path| left.has(&path.0) == lhs.contains(path)));
    }

    #[test]
    fn what_does_not_change_is_shared(lhs in paths(), rhs in paths()) {
        let (left, right) = (set(&lhs), set(&rhs));
        let both = left.union(&right);
        prop_assert!(both.union(&right).is_same(&both));
        prop_assert!(both.intersection(&both.union(&left)).is_same(&both));
        let rest = both.difference(&right);
        prop_assert!(rest.difference(&right).is_same(&rest));
        prop_assert!(rest.recursive_difference(&Set::new()).is_same(&rest));
    }

    #[test]
    fn fields_v1_reads_what_it_writes(paths in paths()) {
        let set = set(&paths);
        let text = fields_v1::write(&set);
        prop_assert_eq!(fields_v1::read(text.as_bytes()).unwrap(), set.clone());
        prop_assert_eq!(fields_v1::from_value(&serde_json::from_str(&text).unwrap()).unwrap(), set);
    }
}

#[test]
fn members_of_a_level_come_before_what_is_below_them() {
    let path = |names: &[&str]| Path::fields(names);
    let set: Set = [path(&["b"]), path(&["a", "x"]), path(&["a"]), path(&["c", "y", "z"])].into_iter().collect();
    assert_eq!(set.to_string(), ".a\n.b\n.a.x\n.c.y.z");
    assert!(!set.has(&[]) && !set.has(&path(&["c"]).0) && set.has(&path(&["c", "y", "z"]).0));
    let mut whole = Set::new();
    whole.insert(&[]);
    assert!(whole.is_empty());
}

#[test]
fn filters_leave_what_they_say() {
    let path = |names: &[&str]| Path::fields(names);
    let set: Set = [path(&["spec", "a", "b"]), path(&["spec", "c"]), path(&["status", "d"]), path(&["status"])].into_iter().collect();
    let exclude: Set = [path(&["status"])].into_iter().collect();
    assert_eq!(Filter::Exclude(exclude).filter(&set).to_string(), ".spec.c\n.spec.a.b");
    let named = |name: &str| PathElementMatcher::Is(PathElement::field(name));
    let patterns = [
        SetMatcher::prefix([named("spec"), PathElementMatcher::Any, named("b")]),
        SetMatcher::prefix([named("spec"), named("c")]),
        SetMatcher::prefix([named("status")]),
    ];
    assert_eq!(
        Filter::include(patterns).filter(&set).to_string(),
        ".status\n.spec.a.b\n.status.d".replace(".spec.a.b", ".spec.c\n.spec.a.b")
    );
    assert!(Filter::include([]).filter(&set).is_same(&set));
}
