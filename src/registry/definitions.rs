//! The parsed CustomResourceDefinitions: each is parsed once per write, not once per snapshot.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use prometheus::IntCounter;

use cache::state::store::Store;
use catalogue::Definition;
use model::Object;

/// What is known of the definitions of one snapshot.
pub(super) struct Definitions {
    known: BTreeMap<Bytes, KnownDefinition>,
    /// Those that make something served, by group and key.
    groups: BTreeMap<String, BTreeMap<Bytes, Definition>>,
    /// `watchcache_definitions_read_total`.
    reads: IntCounter,
}

/// A definition that was read.
struct KnownDefinition {
    /// The object as it was read; absent while it is only known from before there was a snapshot.
    object: Option<Arc<Object>>,
    /// Its group, when it makes something served.
    group: Option<String>,
}

impl Definitions {
    pub(super) fn new(reads: IntCounter) -> Self {
        Self { known: BTreeMap::new(), groups: BTreeMap::new(), reads }
    }

    /// Reads what etcd has before there is a snapshot, which has the same objects again.
    pub(super) fn learn(&mut self, objects: Vec<Arc<Object>>) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        for object in objects {
            let group = self.read(&object);
            changed.extend(group.clone());
            self.known.insert(Bytes::copy_from_slice(object.key()), KnownDefinition { object: None, group });
        }
        changed
    }

    /// Reads what is not as it was in the snapshot before, of these keys if it is known which were written; the groups in which a definition was written, came
    /// or went. Takes some milliseconds for each MB that was written. One that cannot be read is left out, and the log says so.
    pub(super) fn follow(&mut self, store: &Store, keys: Option<BTreeSet<Bytes>>) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        let all = || self.known.keys().cloned().chain(store.scan(b"", b"").map(|object| Bytes::copy_from_slice(object.key()))).collect();
        for key in keys.unwrap_or_else(all) {
            let (known, object) = (self.known.get(&key), store.find(&key));
            if known.and_then(|known| known.object.as_ref()).zip(object).is_some_and(|(known, object)| Arc::ptr_eq(known, object)) {
                continue;
            }
            self.forget(&key, &mut changed);
            if let Some(object) = object {
                let group = self.read(object);
                changed.extend(group.clone());
                self.known.insert(key, KnownDefinition { object: Some(object.clone()), group });
            }
        }
        changed
    }

    /// The definitions of a group that make something served.
    pub(super) fn of_group(&self, group: &str) -> impl Iterator<Item = &Definition> {
        self.groups.get(group).into_iter().flat_map(BTreeMap::values)
    }

    fn read(&mut self, object: &Arc<Object>) -> Option<String> {
        self.reads.inc();
        match Definition::of(object) {
            Ok(definition) if definition.is_served() => {
                let group = definition.group().to_owned();
                self.groups.entry(group.clone()).or_default().insert(Bytes::copy_from_slice(object.key()), definition);
                Some(group)
            }
            Ok(_) => None,
            Err(why) => {
                let definition = object.name();
                tracing::warn!(%why, definition, "a definition cannot be read; its resources are not served");
                None
            }
        }
    }

    fn forget(&mut self, key: &Bytes, changed: &mut BTreeSet<String>) {
        let Some(group) = self.known.remove(key).and_then(|known| known.group) else { return };
        if let Some(definitions) = self.groups.get_mut(&group) {
            definitions.remove(key);
            if definitions.is_empty() {
                self.groups.remove(&group);
            }
        }
        changed.insert(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::ingest::ingest;
    use model::{Revision, Shape, Storage};

    const PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

    fn definition(group: &str, revision: u64, note: &str) -> Arc<Object> {
        let names = r#"{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"}"#;
        let value = format!(
            r#"{{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{{"name":"things.{group}","annotations":{{"note":"{note}"}}}},"spec":{{"group":"{group}","names":{names},"scope":"Cluster","versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object"}}}}}}]}},"status":{{"acceptedNames":{names},"conditions":[{{"type":"NamesAccepted","status":"True"}}]}}}}"#
        );
        let storage = Storage {
            id: "apiextensions.k8s.io/customresourcedefinitions".into(),
            group: "apiextensions.k8s.io".into(),
            resource: "customresourcedefinitions".into(),
            namespaced: false,
            shape: Shape::Definition,
            fields: Vec::new(),
        };
        let key = format!("{PREFIX}things.{group}").into();
        Arc::new(ingest(&storage, PREFIX.len(), key, value.as_bytes(), Revision(revision)).expect("a definition"))
    }

    fn groups(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// All definitions were read anew, and all resources made anew, for every change of one.
    #[test]
    fn a_change_is_work_on_one_definition() {
        let reads = IntCounter::new("reads", "for the test").expect("a name");
        let mut definitions = Definitions::new(reads.clone());
        let all = |note: &str| ["a.io", "b.io", "c.io"].map(|group| definition(group, 5, note)).to_vec();
        let mut store = Store::from_objects(all("x"));
        assert_eq!((definitions.follow(&store, None), reads.get()), (groups(&["a.io", "b.io", "c.io"]), 3));
        assert_eq!((definitions.follow(&store, None), reads.get()), (groups(&[]), 3), "nothing was written");
        let written = definition("b.io", 9, "y");
        store.put(written.clone());
        assert_eq!((definitions.follow(&store, None), reads.get()), (groups(&["b.io"]), 4));
        store.remove(written.key());
        let keys = Some(BTreeSet::from([Bytes::copy_from_slice(written.key())]));
        assert_eq!((definitions.follow(&store, keys), reads.get()), (groups(&["b.io"]), 4));
        assert_eq!((definitions.of_group("b.io").count(), definitions.of_group("a.io").count()), (0, 1));
        // Loaded anew, perhaps from another etcd: a revision says nothing.
        assert_eq!((definitions.follow(&Store::from_objects(all("z")), None), reads.get()), (groups(&["a.io", "b.io", "c.io"]), 7));
    }

    #[test]
    fn what_was_learnt_before_there_is_a_picture_is_read_again() {
        let mut definitions = Definitions::new(IntCounter::new("reads", "for the test").expect("a name"));
        assert_eq!(definitions.learn(vec![definition("a.io", 5, "x"), definition("b.io", 5, "x")]), groups(&["a.io", "b.io"]));
        assert!(definitions.of_group("a.io").all(|definition| definition.is_served() && definition.schema("v1").is_some()));
        assert_eq!(definitions.follow(&Store::from_objects(vec![definition("a.io", 5, "x")]), None), groups(&["a.io", "b.io"]));
        assert!(definitions.of_group("a.io").all(|definition| definition.schema("v1").is_some()));
        assert_eq!(definitions.of_group("b.io").count(), 0, "it is gone since");
    }

    /// Schemas were trees of twenty times the size of their text.
    #[test]
    fn what_is_kept_of_a_schema_is_the_object_s_own_bytes() {
        let object = definition("a.io", 5, "x");
        let kept = Definition::of(&object).expect("a definition");
        let schema = kept.schema("v1").expect("it has one");
        assert_eq!(&schema.json[..], br#"{"type":"object"}"#);
        assert!(object.own_tail().as_ptr_range().contains(&schema.json.as_ptr()));
    }
}
