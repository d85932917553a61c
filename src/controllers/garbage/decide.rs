//! What the garbage collector does with an object: a decision about what is known of it, its owners and its dependents.

use std::collections::HashSet;

use super::super::objects::{Metadata, OwnerReference};
use storage::write::options::Propagation;

/// The finalizer of an object whose dependents are to stay.
pub(super) const ORPHAN: &str = "orphan";
/// The finalizer of an object that waits until its dependents are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// What an object is waiting for, as far as the garbage collector is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is being deleted, and its dependents are to lose it as their owner first.
    Orphaning,
    /// It is being deleted, and its dependents are to go first.
    DeletingDependents,
    /// It is being deleted, and somebody else holds it.
    Leaving,
    /// It has owners.
    Owned,
    /// It has none.
    Free,
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is there.
    Solid,
    /// It is not there, or another one of its name is.
    Dangling,
    /// It is there, and waits for its dependents to go.
    Waiting,
}

/// What is known of the dependents of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dependents {
    /// There are some.
    pub(super) any: bool,
    /// One of them waits for its own, or has waited: perhaps for this object, in a circle.
    pub(super) one_waits: bool,
}

/// What is done with an object that has owners.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    Keep,
    /// It no longer names these owners, by uid.
    Forget(Vec<String>),
    /// It goes, its dependents before it. `unblocks`: before that it is to block none of its owners any more, for it may be one of a circle.
    DeleteInForeground { unblocks: bool },
    /// It goes.
    Delete(Propagation),
}

/// Returns what an object is waiting for.
pub(super) fn stage(metadata: &Metadata) -> Stage {
    match () {
        () if metadata.waits_for(ORPHAN) => Stage::Orphaning,
        () if metadata.waits_for(FOREGROUND) => Stage::DeletingDependents,
        () if metadata.is_being_deleted() => Stage::Leaving,
        () if metadata.owner_references.is_empty() => Stage::Free,
        () => Stage::Owned,
    }
}

/// Decides about an object; `owners` are in the order of its references, and `dependents` is asked only if it matters.
pub(super) fn action(metadata: &Metadata, owners: &[Owner], dependents: impl FnOnce() -> Dependents) -> Action {
    let has = |wanted: Owner| owners.contains(&wanted);
    if has(Owner::Solid) {
        let lost = metadata.owner_references.iter().zip(owners).filter(|(_, owner)| **owner != Owner::Solid);
        let lost: Vec<String> = lost.map(|(reference, _)| reference.uid.clone()).collect();
        return if lost.is_empty() { Action::Keep } else { Action::Forget(lost) };
    }
    if has(Owner::Waiting) {
        let dependents = dependents();
        if dependents.any {
            return Action::DeleteInForeground { unblocks: dependents.one_waits };
        }
    }
    let has_finalizer = |name: &str| metadata.finalizers.iter().any(|finalizer| finalizer == name);
    Action::Delete(match () {
        () if has_finalizer(ORPHAN) => Propagation::Orphan,
        () if has_finalizer(FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    })
}

/// Whether a dependent keeps this owner from going.
pub(super) fn blocks(dependent: &Metadata, owner_uid: &str) -> bool {
    dependent.owner_references.iter().any(|reference| reference.uid == owner_uid && reference.block_owner_deletion == Some(true))
}

/// Whether a dependent names this owner.
pub(super) fn names(dependent: &Metadata, owner_uid: &str) -> bool {
    dependent.owner_references.iter().any(|reference| reference.uid == owner_uid)
}

/// The owners that an object no longer blocks, because it names them no more or differently.
pub(super) fn unblocked<'m>(before: &'m Metadata, after: &'m Metadata) -> impl Iterator<Item = &'m OwnerReference> {
    let is_blocking = |reference: &&OwnerReference| reference.block_owner_deletion == Some(true);
    let blocked: HashSet<&str> = after.owner_references.iter().filter(is_blocking).map(|reference| &*reference.uid).collect();
    before.owner_references.iter().filter(is_blocking).filter(move |reference| !blocked.contains(&*reference.uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(uid: &str, blocks: Option<bool>) -> OwnerReference {
        OwnerReference { uid: uid.to_owned(), block_owner_deletion: blocks, ..OwnerReference::default() }
    }

    fn owned(by: &[&str], finalizers: &[&str]) -> Metadata {
        Metadata {
            owner_references: by.iter().map(|uid| reference(uid, None)).collect(),
            finalizers: finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect(),
            ..Metadata::default()
        }
    }

    fn deleted(metadata: Metadata) -> Metadata {
        Metadata { deletion_timestamp: Some("t".to_owned()), ..metadata }
    }

    #[test]
    fn a_stage_is_what_the_finalizers_say_once_it_is_deleted() {
        let both = owned(&["a"], &[FOREGROUND, ORPHAN]);
        assert_eq!(stage(&both), Stage::Owned, "nobody has deleted it");
        assert_eq!(stage(&deleted(both)), Stage::Orphaning);
        assert_eq!(stage(&deleted(owned(&[], &["x", FOREGROUND]))), Stage::DeletingDependents);
        assert_eq!(stage(&deleted(owned(&["a"], &["x"]))), Stage::Leaving);
        assert_eq!(stage(&owned(&[], &[ORPHAN])), Stage::Free);
    }

    #[test]
    fn one_solid_owner_keeps_it_and_the_others_are_forgotten() {
        use Owner::{Dangling, Solid, Waiting};
        let item = owned(&["a", "b", "c"], &[]);
        let never = || unreachable!("its dependents do not matter");
        assert_eq!(action(&item, &[Solid, Solid, Solid], never), Action::Keep);
        assert_eq!(action(&item, &[Dangling, Solid, Waiting], never), Action::Forget(vec!["a".to_owned(), "c".to_owned()]));
        assert_eq!(action(&item, &[Dangling; 3], never), Action::Delete(Propagation::Background));
    }

    #[test]
    fn what_waits_for_it_has_its_dependents_go_first() {
        use Owner::{Dangling, Waiting};
        let item = owned(&["a", "b"], &[]);
        let with = |any, one_waits| action(&item, &[Waiting, Dangling], || Dependents { any, one_waits });
        assert_eq!(with(false, false), Action::Delete(Propagation::Background));
        assert_eq!(with(true, false), Action::DeleteInForeground { unblocks: false });
        assert_eq!(with(true, true), Action::DeleteInForeground { unblocks: true });
    }

    #[test]
    fn what_its_finalizers_ask_for_is_done() {
        let gone = |finalizers: &[&str]| action(&owned(&["a"], finalizers), &[Owner::Dangling], Dependents::default);
        assert_eq!(gone(&[FOREGROUND, ORPHAN]), Action::Delete(Propagation::Orphan));
        assert_eq!(gone(&["x", FOREGROUND]), Action::Delete(Propagation::Foreground));
        assert_eq!(gone(&["x"]), Action::Delete(Propagation::Background));
    }

    #[test]
    fn an_owner_is_unblocked_by_who_leaves_it_or_says_so() {
        let with = |references: &[(&str, Option<bool>)]| Metadata {
            owner_references: references.iter().map(|(uid, blocks)| reference(uid, *blocks)).collect(),
            ..Metadata::default()
        };
        let before = with(&[("a", Some(true)), ("b", Some(true)), ("c", Some(true)), ("d", None)]);
        let after = with(&[("b", Some(false)), ("c", Some(true))]);
        assert_eq!(unblocked(&before, &after).map(|reference| &*reference.uid).collect::<Vec<_>>(), ["a", "b"]);
    }
}
