//! Who belongs to whom: objects by the uids of their owners. It shares the objects with the cache, and costs 32 bytes for each reference and the tree around
//! them.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use super::super::objects::OwnerReference;
use model::{Object, shard::hash};

/// The resource of an object, by number.
pub(super) type Slot = u32;

/// Objects by their owners.
#[derive(Default)]
pub(super) struct Index {
    entries: BTreeSet<Entry>,
}

/// An object and one of its owners.
struct Entry {
    /// Hash of the owner's uid: who asks looks at the references themselves.
    owner: u64,
    slot: Slot,
    /// None comes before all.
    object: Option<Arc<Object>>,
}

impl Entry {
    fn order(&self) -> (u64, Slot, Option<&[u8]>) {
        (self.owner, self.slot, self.object.as_ref().map(|object| object.key()))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Entry {}

impl Index {
    /// Notes an object under an owner, in place of an older version of it.
    pub(super) fn insert(&mut self, owner_uid: &str, slot: Slot, object: &Arc<Object>) {
        self.entries.replace(Entry { owner: hash(owner_uid), slot, object: Some(object.clone()) });
    }

    /// Forgets an object under an owner.
    pub(super) fn remove(&mut self, owner_uid: &str, slot: Slot, object: &Arc<Object>) {
        self.entries.remove(&Entry { owner: hash(owner_uid), slot, object: Some(object.clone()) });
    }

    /// Forgets all objects of a resource.
    pub(super) fn remove_all(&mut self, slot: Slot) {
        self.entries.retain(|entry| entry.slot != slot);
    }

    /// Returns all dependents, each once however many owners it has.
    pub(super) fn objects(&self) -> Vec<(Slot, Arc<Object>)> {
        let mut seen = HashSet::new();
        let objects = self.entries.iter().filter_map(|entry| Some((entry.slot, entry.object.as_ref()?)));
        objects.filter(|(slot, object)| seen.insert((*slot, object.key()))).map(|(slot, object)| (slot, object.clone())).collect()
    }

    /// The dependents of the owner whose uid has this hash, and perhaps those of others.
    pub(super) fn dependents(&self, owner: u64) -> impl Iterator<Item = (Slot, &Arc<Object>)> {
        let from = Entry { owner, slot: 0, object: None };
        self.entries
            .range(from..)
            .take_while(move |entry| entry.owner == owner)
            .filter_map(|entry| Some((entry.slot, entry.object.as_ref()?)))
    }
}

/// Owners that are known not to be there, so that etcd is asked once for all of their dependents. Bounded by [`ABSENT_MAX`].
#[derive(Default)]
pub(super) struct Absent {
    /// They were deleted: kind, name and uid, and the namespace where they were.
    gone: HashSet<(OwnerReference, String)>,
    /// By what a reference says, and the namespace where that was looked for: nobody is there.
    missed: HashSet<(OwnerReference, String)>,
}

/// How many owners of each kind are remembered; then all are forgotten, and asked for again.
const ABSENT_MAX: usize = 10_000;

impl Absent {
    /// Notes that an object was deleted.
    pub(super) fn deleted(&mut self, kind: &str, name: &str, uid: String, namespace: &str) {
        if self.gone.len() >= ABSENT_MAX {
            self.gone.clear();
        }
        let object = OwnerReference { kind: kind.to_owned(), name: name.to_owned(), uid, ..OwnerReference::default() };
        self.gone.insert((object, namespace.to_owned()));
    }

    /// Notes that etcd does not have it there.
    pub(super) fn missed(&mut self, reference: &OwnerReference, namespace: &str) {
        if self.missed.len() >= ABSENT_MAX {
            self.missed.clear();
        }
        self.missed.insert((coordinates(reference), namespace.to_owned()));
    }

    /// Whether an owner is known not to be there, for a dependent in this namespace: an owner is in the same one, or in none.
    pub(super) fn has(&self, reference: &OwnerReference, namespace: &str) -> bool {
        let of_any_version = || OwnerReference { api_version: String::new(), ..coordinates(reference) };
        let in_these = |set: &HashSet<(OwnerReference, String)>, key: OwnerReference| {
            ["", namespace].into_iter().any(|namespace| set.contains(&(key.clone(), namespace.to_owned())))
        };
        in_these(&self.gone, of_any_version()) || in_these(&self.missed, coordinates(reference))
    }

    /// Forgets all: the etcd is another one, or was restored.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What a reference says about which object it is.
fn coordinates(reference: &OwnerReference) -> OwnerReference {
    OwnerReference { block_owner_deletion: None, ..reference.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::test_object;

    fn names(index: &Index, owner: &str) -> Vec<(Slot, String)> {
        index.dependents(hash(owner)).map(|(slot, object)| (slot, object.name().to_owned())).collect()
    }

    #[test]
    fn dependents_are_found_by_owner_and_replaced_by_newer_ones() {
        let mut index = Index::default();
        let [a, b] = ["a", "b"].map(|name| Arc::new(test_object(name, 1)));
        index.insert("x", 1, &b);
        index.insert("x", 1, &a);
        index.insert("y", 1, &a);
        index.insert("x", 2, &a);
        assert_eq!(names(&index, "x"), [(1, "a".to_owned()), (1, "b".to_owned()), (2, "a".to_owned())]);
        let all: Vec<(Slot, String)> = index.objects().iter().map(|(slot, object)| (*slot, object.name().to_owned())).collect();
        assert_eq!(all.len(), 3, "each once, of whatever owners: {all:?}");
        index.insert("x", 1, &Arc::new(test_object("a", 7)));
        assert_eq!(index.dependents(hash("x")).next().map(|(_, object)| object.revision.0), Some(7));
        index.remove("x", 1, &a);
        index.remove_all(2);
        assert_eq!(
            (names(&index, "x"), names(&index, "y"), names(&index, "z")),
            (vec![(1, "b".to_owned())], vec![(1, "a".to_owned())], vec![])
        );
    }

    #[test]
    fn absent_owners_are_remembered_within_bounds() {
        let reference = |uid: &str, name: &str| OwnerReference { uid: uid.to_owned(), name: name.to_owned(), ..OwnerReference::default() };
        let mut absent = Absent::default();
        absent.missed(&OwnerReference { block_owner_deletion: Some(true), ..reference("u", "a") }, "ns");
        assert!(absent.has(&reference("u", "a"), "ns"));
        assert!(!absent.has(&reference("u", "a"), "other") && !absent.has(&reference("u", "b"), "ns"), "it may be there");
        absent.deleted("ConfigMap", "b", "u".to_owned(), "ns");
        let deleted = OwnerReference { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned(), ..reference("u", "b") };
        assert!(absent.has(&deleted, "ns") && !absent.has(&deleted, "other"));
        assert!(!absent.has(&deleted, ""), "what is in no namespace has no owner in one");
        assert!(!absent.has(&reference("u", "b"), "ns"), "of another kind");
        for n in 0..ABSENT_MAX {
            absent.deleted("ConfigMap", "b", n.to_string(), "ns");
        }
        assert!(!absent.has(&deleted, "ns") && absent.gone.len() <= ABSENT_MAX);
    }
}
