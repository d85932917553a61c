//! One object at one revision, kept as the bytes that clients get.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::{Labels, Revision};

/// An object as stored, made servable once.
///
/// `tail` is the JSON after the type head, with `resourceVersion` spliced in: `"metadata":{…},…}`. The head (`{"kind":…,"apiVersion":…,` for
/// a built-in, `{"apiVersion":…,` for a custom resource) is a constant of the *served* resource, so that one stored object serves every
/// version that differs only in `apiVersion`, and a list item of a built-in is `{` + tail.
#[derive(Debug, PartialEq, Eq)]
pub struct Object {
    /// The full storage key, `/registry/pods/ns/name`.
    pub key: Bytes,
    /// Revision of the last change: the object's `resourceVersion`.
    pub revision: Revision,
    /// Everything after the type head; starts with a member name, ends with `}`, no newline.
    pub tail: Bytes,
    /// Bytes of `tail` that stand before the type head: members of a custom resource that sort before `apiVersion`. Mostly 0.
    pub head_at: u32,
    /// Where in `tail` the digits of `resourceVersion` stand (start, end), so that a DELETED event can show another one.
    pub rv_at: (u32, u32),
    /// FNV-1a of `metadata.uid`: in which shard the object is (spec list-watch §11). Kept, because a shard asks every object for it.
    pub uid_hash: u64,
    /// Byte offset in `key` where the namespace starts (namespaced resources) or the name (cluster-scoped).
    pub scope_at: u16,
    /// Byte offset in `key` where the name starts.
    pub name_at: u16,
    /// `metadata.labels`.
    pub labels: Labels,
    /// Values of the storage's declared fields, in the order of `Storage::fields`; a missing field is `""`.
    pub fields: Box<[Box<str>]>,
    /// Its protobuf message in the version in which it is kept, once somebody has asked for it; goes with the object. Not in [`Object::weight`].
    pub message: OnceLock<Bytes>,
}

impl Object {
    /// The object's name, the last part of its key.
    #[must_use]
    pub fn name(&self) -> &str {
        std::str::from_utf8(&self.key[usize::from(self.name_at)..]).unwrap_or("")
    }

    /// The object's namespace; empty for cluster-scoped resources.
    #[must_use]
    pub fn namespace(&self) -> &str {
        let end = usize::from(self.name_at).saturating_sub(1).max(usize::from(self.scope_at));
        std::str::from_utf8(&self.key[usize::from(self.scope_at)..end]).unwrap_or("")
    }

    /// The value of a declared field; `""` when the object has none (spec list-watch §7.2).
    #[must_use]
    pub fn field(&self, index: usize) -> &str {
        self.fields.get(index).map_or("", |v| v)
    }

    /// What a filter may look at: the object and each of its labels. The measure of the work of a scan.
    #[must_use]
    pub fn looks(&self) -> usize {
        1 + self.labels.len()
    }

    /// `tail` before, and after, the digits of `resourceVersion`: for a body that must show another revision.
    #[must_use]
    pub fn around_revision(&self) -> (&[u8], &[u8]) {
        (&self.tail[..self.rv_at.0 as usize], &self.tail[self.rv_at.1 as usize..])
    }

    /// Bytes this object holds, for budgets: key, body and the fixed part. Labels and fields are counted by length.
    #[must_use]
    pub fn weight(&self) -> usize {
        let words: usize = self.labels.iter().map(|(k, v)| k.len() + v.len() + 32).sum();
        let fields: usize = self.fields.iter().map(|v| v.len() + 16).sum();
        size_of::<Self>() + self.key.len() + self.tail.len() + words + fields
    }
}

/// A stored value that we cannot serve, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its storage key.
    pub key: Bytes,
    /// The revision that wrote it.
    pub revision: Revision,
    /// What was found, for the operator: "a protobuf value (k8s\0)".
    pub why: String,
}

/// One change of one key, with the object before and after it.
#[derive(Debug)]
pub struct Event {
    /// Revision of the change.
    pub revision: Revision,
    /// The object before; absent for a creation.
    pub old: Option<Arc<Object>>,
    /// The object after; absent for a deletion.
    pub new: Option<Arc<Object>>,
    /// When the cacher applied it, milliseconds of the process clock: decides what the ring may drop.
    pub at_ms: u64,
}

impl Event {
    /// The key that changed.
    #[must_use]
    pub fn key(&self) -> &Bytes {
        match (&self.new, &self.old) {
            (Some(object), _) | (None, Some(object)) => &object.key,
            (None, None) => unreachable!("an event has an object before or after"),
        }
    }

    /// What a filter may look at.
    #[must_use]
    pub fn looks(&self) -> usize {
        [&self.old, &self.new].into_iter().flatten().map(|object| object.looks()).sum()
    }

    /// Bytes that only this event keeps alive, for the ring's budget: the object it replaced.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.old.as_ref().map_or(0, |o| o.weight()) + self.new.as_ref().map_or(0, |o| o.weight())
    }
}

/// An object for tests: a ConfigMap `ns/name` at a revision.
#[cfg(any(test, feature = "testing"))]
pub fn test_object(name: &str, revision: u64) -> Object {
    test_object_with(name, revision, &[], &[])
}

/// The same with labels and declared fields.
#[cfg(any(test, feature = "testing"))]
pub fn test_object_with(name: &str, revision: u64, labels: &[(&str, &str)], fields: &[&str]) -> Object {
    let key = format!("/registry/configmaps/ns/{name}");
    let tail = format!("\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"ns\",\"resourceVersion\":\"{revision}\"}}}}");
    let digits = revision.to_string().len();
    let at = tail.len() - 3 - digits;
    Object {
        key: Bytes::from(key),
        revision: Revision(revision),
        head_at: 0,
        rv_at: (at as u32, (at + digits) as u32),
        uid_hash: 0,
        message: std::sync::OnceLock::new(),
        tail: Bytes::from(tail),
        scope_at: "/registry/configmaps/".len() as u16,
        name_at: "/registry/configmaps/ns/".len() as u16,
        labels: labels.into(),
        fields: fields.iter().map(|f| (*f).into()).collect(),
    }
}
