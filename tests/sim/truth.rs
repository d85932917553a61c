//! What really happened in the scripted etcd: every revision, every change, with the object before and after it.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::{KeyChange, Revision};

/// One version of an object, as far as the histories care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// The revision that wrote it.
    pub(crate) revision: u64,
    /// Its label `app`, if any.
    pub(crate) app: Option<char>,
}

/// One change of one key.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: String,
    pub(crate) old: Option<Version>,
    pub(crate) new: Option<Version>,
}

/// A line of history. A restored backup starts another line that shares the beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// Tells lines apart.
    pub(crate) id: u32,
    /// Changes by revision; a revision that changed nothing of ours is there, empty.
    pub(crate) log: BTreeMap<u64, Vec<Change>>,
    pub(crate) now: BTreeMap<String, Version>,
    pub(crate) revision: u64,
}

impl Line {
    /// The objects at a revision.
    pub(crate) fn at(&self, revision: u64) -> BTreeMap<String, Version> {
        let mut state = BTreeMap::new();
        for change in self.log.range(..=revision).flat_map(|(_, changes)| changes) {
            match change.new {
                Some(version) => state.insert(change.key.clone(), version),
                None => state.remove(&change.key),
            };
        }
        state
    }

    /// Writes one revision.
    pub(crate) fn commit(&mut self, writes: Vec<(String, Option<Option<char>>)>) {
        self.revision += 1;
        let mut changes = Vec::new();
        for (key, write) in writes {
            let new = write.map(|app| Version { revision: self.revision, app });
            let old = match new {
                Some(version) => self.now.insert(key.clone(), version),
                None => self.now.remove(&key),
            };
            if old.is_some() || new.is_some() {
                changes.push(Change { key, old, new });
            }
        }
        self.log.insert(self.revision, changes);
    }

    /// Goes back to an earlier revision, as a restored backup does.
    pub(crate) fn restored(&self, revision: u64) -> Self {
        let log = self.log.range(..=revision).map(|(r, c)| (*r, c.clone())).collect();
        Self { id: self.id + 1, log, now: self.at(revision), revision }
    }
}

impl Change {
    /// As etcd's watch shows it.
    pub(crate) fn event(&self, revision: u64) -> KeyChange {
        KeyChange {
            key: Bytes::from(self.key.clone()),
            value: self.new.map(|version| Bytes::from(value(&self.key, version))),
            revision: Revision(revision),
        }
    }
}

/// The stored JSON of a ConfigMap; `seq` tells versions apart.
pub(crate) fn value(key: &str, version: Version) -> String {
    let mut parts = key.rsplit('/');
    let (name, namespace) = (parts.next().expect("a name"), parts.next().expect("a namespace"));
    let labels = version.app.map_or(String::new(), |app| format!(r#","labels":{{"app":"{app}"}}"#));
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u"{labels}}},"data":{{"seq":"{}"}}}}"#,
        version.revision
    ) + "\n"
}
