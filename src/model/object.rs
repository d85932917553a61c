//! One object at one revision, kept as the bytes that clients get.

use std::{
    borrow::Cow,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::{LabelSet, Labels, Revision, Structural, Unread};
use crate::{
    managed_fields::{ManagedFields, Shared},
    string_table::{SPAN_BYTES, SpanWriter, StringTable},
};
use append::append;

/// An object as stored, made servable once. All its texts are in one allocation: key, tail, labels, values of fields.
///
/// The *tail* is the JSON after the type head, with `resourceVersion` spliced in: `"metadata":{…},…}`. The head (`{"kind":…,"apiVersion":…,` for
/// a built-in, `{"apiVersion":…,` for a custom resource) is a constant of the *served* resource, so that one stored object serves every
/// version that differs only in `apiVersion`, and a list item of a built-in is `{` + tail.
///
/// Its managed fields are not in that allocation when they are long ([`ManagedFields`]): the *own tail* has an empty list in their place, and is JSON too.
///
/// Of a custom resource whose defaults would make it much larger than what is stored, the own tail is what is stored, and its defaults are set each time that
/// its tail is asked for ([`Object::condense`]): memory holds what etcd holds, whatever the schema makes of it.
#[derive(Debug)]
pub struct Object {
    /// The key, the own tail, the own parts of the managed fields, texts that stand in none of them; then the spans of labels (key, value) and of the values
    /// of fields ([`crate::string_table`]).
    bytes: Box<[u8]>,
    /// What its managed fields have in common with those of others, if they were cut.
    managed_fields: Option<Shared>,
    /// What makes its tail of the own tail, if it is condensed.
    condensed: Option<Box<Condensed>>,
    /// Revision of the last change: the object's `resourceVersion`.
    pub revision: Revision,
    /// FNV-1a of `metadata.uid`: in which shard the object is (spec list-watch §11). Kept, because a shard asks every object for it.
    pub uid_hash: u64,
    message: Mutex<Option<Box<Bytes>>>,
    keeps_message: AtomicBool,
    /// Bytes of the tail that stand before the type head: members of a custom resource that sort before `apiVersion`. Mostly 0.
    pub head_at: u32,
    /// Where in the own tail the digits of `resourceVersion` stand, and how many there are.
    rv_at: u32,
    rv_len: u8,
    managed_end: u32,
    key_len: u32,
    tail_len: u32,
    labels: u32,
    fields: u16,
    /// Byte offset in the key where the namespace starts (namespaced resources) or the name (cluster-scoped).
    scope_at: u16,
    /// Byte offset in the key where the name starts.
    name_at: u16,
}

/// How a tail is made of what is stored.
#[derive(Debug)]
struct Condensed {
    /// Sets the defaults.
    schema: Arc<Structural>,
    /// What another version of it does not know goes then.
    pruned_by: Option<Arc<Structural>>,
    /// How many bytes the tail is longer.
    added: usize,
}

impl Condensed {
    /// Appends the tail of an object.
    fn tail_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>) -> Result<(), Unread> {
        let own = std::str::from_utf8(object.own_tail()).map_err(|_| Unread::Irregular)?;
        let mut copy = |span, out: &mut Vec<u8>| object.span_into(span, revision, out);
        let Some(pruned_by) = &self.pruned_by else { return self.schema.read_tail_into(own, &mut copy, out) };
        let mut defaulted = Vec::new();
        self.schema.read_tail_into(own, &mut copy, &mut defaulted)?;
        pruned_by.prune_tail_into(std::str::from_utf8(&defaulted).map_err(|_| Unread::Irregular)?, out)
    }
}

/// What an object is made of.
#[derive(Debug)]
pub struct Parts<'p> {
    /// The full storage key, `/registry/pods/ns/name`.
    pub key: &'p [u8],
    /// Byte offset in the key where the namespace starts (namespaced resources) or the name (cluster-scoped).
    pub scope_at: u16,
    /// Byte offset in the key where the name starts.
    pub name_at: u16,
    /// See [`Object::revision`].
    pub revision: Revision,
    /// Everything after the type head; starts with a member name, ends with `}`, no newline. Less than 4 GiB, as is the key. With an empty list for the managed
    /// fields that were cut.
    pub tail: &'p [u8],
    /// See [`Object::head_at`].
    pub head_at: u32,
    /// Where in the tail the digits of `resourceVersion` stand: start, end.
    pub rv_at: (u32, u32),
    /// Where in the tail the value of `metadata.managedFields` ends; 0 when that is not known.
    pub managed_end: u32,
    /// What that list has, if it was cut.
    pub managed_fields: Option<ManagedFields>,
    /// See [`Object::uid_hash`].
    pub uid_hash: u64,
    /// `metadata.labels`.
    pub labels: &'p LabelSet,
    /// Values of the storage's declared fields, in the order of `Storage::fields`; a missing field is `""`.
    pub fields: &'p [Cow<'p, str>],
}

/// How the labels stand in the JSON of an object.
const LABELS: &[u8] = b"\"labels\":{";

impl Object {
    /// An object of these parts.
    #[must_use]
    pub fn new(parts: Parts<'_>) -> Self {
        let Parts { key, scope_at, name_at, revision, tail, head_at, rv_at, managed_end, managed_fields, uid_hash, labels, fields } = parts;
        let (managed_fields, own) = managed_fields.map_or((None, Vec::new()), |cut| (Some(cut.template), cut.own));
        let (len, mut spans) = (key.len() + tail.len() + own.len(), SpanWriter::default());
        // What is stored has them in this order, and no text of a valid label is escaped.
        let mut at = memchr::memmem::find(tail, LABELS).filter(|_| labels.len() > 0).map_or(tail.len(), |at| at + LABELS.len());
        for text in labels.words() {
            if tail.get(at + 1..).is_some_and(|rest| rest.starts_with(text.as_bytes())) {
                spans.at(key.len() + at + 1, text);
                // The quotes, and a colon or comma.
                at += text.len() + 3;
            } else {
                spans.add(len, text);
            }
        }
        let name = key.get(usize::from(name_at)..).unwrap_or_default();
        let namespace = key.get(usize::from(scope_at)..usize::from(name_at).saturating_sub(1)).unwrap_or_default();
        for text in fields {
            match text.as_bytes() {
                [] => spans.at(0, ""),
                text_bytes if text_bytes == name => spans.at(usize::from(name_at), text),
                text_bytes if text_bytes == namespace => spans.at(usize::from(scope_at), text),
                _ => spans.add(len, text),
            }
        }
        let mut bytes = Vec::with_capacity(len + spans.len());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(tail);
        bytes.extend_from_slice(&own);
        spans.into(&mut bytes);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            bytes: bytes.into(),
            managed_fields,
            condensed: None,
            revision,
            uid_hash,
            message: Mutex::default(),
            keeps_message: AtomicBool::new(true),
            head_at,
            rv_at: rv_at.0,
            // A revision has 20 digits at most.
            rv_len: u8::try_from(rv_at.1.saturating_sub(rv_at.0)).unwrap_or(u8::MAX),
            managed_end,
            key_len: number(key.len()),
            tail_len: number(tail.len()),
            labels: number(labels.len()),
            fields: u16::try_from(fields.len()).unwrap_or(u16::MAX),
            scope_at,
            name_at,
        }
    }

    /// The same object, whose tail is made of its own one by a schema each time that it is asked for, and then pruned by another one if there is. It is made
    /// once here: `None` if that is not possible.
    #[must_use]
    pub fn condense(self, schema: Arc<Structural>, pruned_by: Option<Arc<Structural>>) -> Option<Self> {
        let mut condensed = Condensed { schema, pruned_by, added: 0 };
        let mut tail = Vec::new();
        condensed.tail_into(&self, self.revision, &mut tail).ok()?;
        condensed.added = tail.len().checked_sub(self.stored_len())?;
        Some(Self { condensed: Some(Box::new(condensed)), ..self })
    }

    /// The full storage key, `/registry/pods/ns/name`.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len as usize]
    }

    /// Everything after the type head; starts with a member name, ends with `}`, no newline.
    #[must_use]
    pub fn tail(&self) -> Cow<'_, [u8]> {
        if self.managed_fields.is_none() && self.condensed.is_none() {
            return Cow::Borrowed(self.own_tail());
        }
        let mut tail = Vec::with_capacity(self.tail_len());
        self.tail_into(self.revision, &mut tail);
        Cow::Owned(tail)
    }

    /// How many bytes that is.
    #[must_use]
    pub fn tail_len(&self) -> usize {
        self.stored_len() + self.condensed.as_ref().map_or(0, |condensed| condensed.added)
    }

    /// How many bytes the own tail is with all managed fields.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        self.tail_len as usize + self.managed_fields.as_ref().map_or(0, |shared| shared.whole_len(self.own_managed_fields()))
    }

    /// The tail with an empty list in the place of managed fields that are kept apart, and without the defaults of one that is condensed. For readers of the
    /// metadata, and of built-in kinds.
    #[must_use]
    pub fn own_tail(&self) -> &[u8] {
        &self.bytes[self.key_len as usize..][..self.tail_len as usize]
    }

    /// Appends the tail, under a revision.
    pub fn tail_into(&self, revision: Revision, out: &mut Vec<u8>) {
        if let Some(condensed) = &self.condensed {
            let made = condensed.tail_into(self, revision, out);
            debug_assert_eq!(made, Ok(()), "it could be made when it came in");
            if made.is_ok() {
                return;
            }
        }
        self.stored_tail_into(revision, out);
    }

    /// Appends the own tail with all managed fields, under a revision: what is stored, without the defaults of one that is condensed.
    pub fn stored_tail_into(&self, revision: Revision, out: &mut Vec<u8>) {
        self.span_into(0..self.tail_len as usize, revision, out);
    }

    /// Appends what stands in a part of the own tail, under a revision, with all managed fields.
    pub fn span_into(&self, span: Range<usize>, revision: Revision, out: &mut Vec<u8>) {
        let digits = self.revision_at();
        if revision == self.revision || !(span.start <= digits.start && digits.end <= span.end) {
            return self.stored_into(span, out);
        }
        self.stored_into(span.start..digits.start, out);
        out.extend_from_slice(revision.0.to_string().as_bytes());
        self.stored_into(digits.end..span.end, out);
    }

    fn stored_into(&self, span: Range<usize>, out: &mut Vec<u8>) {
        let (tail, end_of_list) = (self.own_tail(), (self.managed_end as usize).saturating_sub(1));
        match &self.managed_fields {
            Some(shared) if span.contains(&end_of_list) => {
                append(&tail[span.start..end_of_list], out);
                shared.whole_into(self.own_managed_fields(), out);
                append(&tail[end_of_list..span.end], out);
            }
            _ => append(&tail[span], out),
        }
    }

    /// The own parts of its managed fields, and what follows them.
    fn own_managed_fields(&self) -> &[u8] {
        &self.bytes[self.key_len as usize + self.tail_len as usize..]
    }

    /// The object's name, the last part of its key.
    #[must_use]
    pub fn name(&self) -> &str {
        std::str::from_utf8(self.name_bytes()).unwrap_or("")
    }

    /// The same, as a filter compares it.
    pub(crate) fn name_bytes(&self) -> &[u8] {
        &self.key()[usize::from(self.name_at)..]
    }

    /// The object's namespace; empty for cluster-scoped resources.
    #[must_use]
    pub fn namespace(&self) -> &str {
        std::str::from_utf8(self.namespace_bytes()).unwrap_or("")
    }

    /// The same, as a filter compares it.
    pub(crate) fn namespace_bytes(&self) -> &[u8] {
        let end = usize::from(self.name_at).saturating_sub(1).max(usize::from(self.scope_at));
        &self.key()[usize::from(self.scope_at)..end]
    }

    /// `metadata.labels`.
    #[must_use]
    pub fn labels(&self) -> Labels<'_> {
        let spans = self.spans();
        Labels::new(StringTable::new(&self.bytes, &spans[..2 * SPAN_BYTES * self.labels as usize]))
    }

    /// The value of a declared field; `""` when the object has none (spec list-watch §7.2).
    #[must_use]
    pub fn field(&self, index: usize) -> &str {
        let spans = self.spans();
        StringTable::new(&self.bytes, &spans[2 * SPAN_BYTES * self.labels as usize..]).text(index)
    }

    fn spans(&self) -> &[u8] {
        let len = SPAN_BYTES * (2 * self.labels as usize + usize::from(self.fields));
        &self.bytes[self.bytes.len() - len..]
    }

    /// Its protobuf message in the version in which it is stored, if one is kept. Not in [`Object::weight`].
    #[must_use]
    pub fn message(&self) -> Option<Bytes> {
        self.kept_message().as_deref().cloned()
    }

    /// Keeps its message as long as the object, unless messages are given up.
    pub fn keep_message(&self, message: &Bytes) {
        let mut kept = self.kept_message();
        if self.keeps_message.load(Relaxed) {
            kept.get_or_insert_with(|| Box::new(message.clone()));
        }
    }

    /// Whether it may keep its message from now on. If not, the message that it has goes.
    pub fn may_keep_message(&self, may: bool) {
        let mut kept = self.kept_message();
        // Read and written under the lock.
        self.keeps_message.store(may, Relaxed);
        if !may {
            *kept = None;
        }
    }

    fn kept_message(&self) -> MutexGuard<'_, Option<Box<Bytes>>> {
        self.message.lock()
    }

    /// What a filter may look at: the object and each of its labels. The measure of the work of a scan.
    #[must_use]
    pub fn looks(&self) -> usize {
        1 + self.labels as usize
    }

    /// Where in the own tail the digits of `resourceVersion` stand.
    #[must_use]
    pub fn revision_at(&self) -> Range<usize> {
        let start = self.rv_at as usize;
        start..start + usize::from(self.rv_len)
    }

    /// Where in the own tail the value of `metadata.managedFields` ends, which is in few answers that are made of parts of an object: so it can be passed over
    /// without a look. `None` when that is not known.
    #[must_use]
    pub fn managed_end(&self) -> Option<usize> {
        (self.managed_end > 0).then_some(self.managed_end as usize)
    }

    /// Bytes this object holds, for budgets: the fixed part and its texts. What others hold too counts for each of them: the last one pays for it.
    #[must_use]
    pub fn weight(&self) -> usize {
        let condensed = self.condensed.as_ref().map_or(0, |_| size_of::<Condensed>());
        size_of::<Self>() + self.bytes.len() + self.stored_len() - self.tail_len as usize + condensed
    }
}

/// A stored value that we cannot serve, and why.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Its storage key.
    pub key: Bytes,
    /// The revision that wrote it.
    pub revision: Revision,
    /// What was found, for the operator: "a protobuf value (k8s\0)".
    pub why: String,
    /// The object without the parts that are not known. Nobody is shown it who does not want that; authorizers judge by it.
    pub known_part: Option<Arc<Object>>,
}

impl Broken {
    /// The part that is known, if it may be shown.
    ///
    /// # Errors
    /// Itself.
    pub fn or_known_part(self, may_show: bool) -> Result<Arc<Object>, Self> {
        match &self.known_part {
            Some(object) if may_show => Ok(object.clone()),
            _ => Err(self),
        }
    }
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
    pub fn key(&self) -> &[u8] {
        match (&self.new, &self.old) {
            (Some(object), _) | (None, Some(object)) => object.key(),
            (None, None) => unreachable!("an event has an object before or after"),
        }
    }

    /// What a filter may look at.
    #[must_use]
    pub fn looks(&self) -> usize {
        [&self.old, &self.new].into_iter().flatten().map(|object| object.looks()).sum()
    }

    /// Returns the bytes that only history keeps alive because of this event: the object that it replaced or deleted. The object after it is counted
    /// elsewhere: with the current objects, or as what a later event replaced.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.old.as_ref().map_or(0, |old| old.weight())
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
    test_object_of(&format!("/registry/configmaps/ns/{name}"), revision, labels, fields)
}

/// The same with a key of its own: prefix, resource, perhaps a namespace, name. Its uid is the key.
#[cfg(any(test, feature = "testing"))]
pub fn test_object_of(key: &str, revision: u64, labels: &[(&str, &str)], fields: &[&str]) -> Object {
    let (before, name) = key.rsplit_once('/').expect("a key");
    let scope_at = key.match_indices('/').nth(2).map_or(key.len(), |(at, _)| at + 1).min(before.len() + 1);
    let namespace = key.get(scope_at..before.len()).unwrap_or_default();
    let tail = format!("\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"{namespace}\",\"resourceVersion\":\"{revision}\"}}}}");
    let digits = revision.to_string().len();
    let at = tail.len() - 3 - digits;
    Object::new(Parts {
        key: key.as_bytes(),
        scope_at: scope_at as u16,
        name_at: (before.len() + 1) as u16,
        revision: Revision(revision),
        tail: tail.as_bytes(),
        head_at: 0,
        rv_at: (at as u32, (at + digits) as u32),
        managed_end: 0,
        managed_fields: None,
        uid_hash: crate::shard::hash(key),
        labels: &labels.into(),
        fields: &fields.iter().map(|field| Cow::Borrowed(*field)).collect::<Vec<_>>(),
    })
}

/// The same object with another tail, in which only a text of the same length stands before the revision.
#[cfg(any(test, feature = "testing"))]
pub fn test_object_with_tail(object: &Object, tail: &str) -> Object {
    let labels: Vec<(Box<str>, Box<str>)> = object.labels().iter().map(|(key, value)| (key.into(), value.into())).collect();
    Object::new(Parts {
        key: object.key(),
        scope_at: object.scope_at,
        name_at: object.name_at,
        revision: object.revision,
        tail: tail.as_bytes(),
        head_at: object.head_at,
        rv_at: (object.rv_at, object.rv_at + u32::from(object.rv_len)),
        managed_end: 0,
        managed_fields: None,
        uid_hash: object.uid_hash,
        labels: &labels.into(),
        fields: &(0..usize::from(object.fields)).map(|index| Cow::Borrowed(object.field(index))).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever of its labels and fields stands in its JSON, in which order, escaped or not.
        #[test]
        fn every_text_is_found_again(
            labels in prop::collection::btree_map("[a-c\"\\\\]{0,3}", "[a-c\"é]{0,3}", 0..6),
            in_json in prop::option::of(prop::collection::vec(("[a-c]{0,3}", "[a-c]{0,3}"), 0..6)),
            fields in prop::collection::vec("[a-c]{0,2}", 0..4),
        ) {
            let json = |labels: &[(String, String)]| {
                let members: Vec<String> = labels.iter().map(|(key, value)| format!("{key:?}:{value:?}")).collect();
                format!("\"metadata\":{{\"labels\":{{{}}},\"name\":\"a\"}}}}", members.join(","))
            };
            let own: Vec<(String, String)> = labels.clone().into_iter().collect();
            let tail = json(in_json.as_deref().unwrap_or(&own));
            let set: Vec<(Box<str>, Box<str>)> = own.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
            let parts = Parts {
                key: b"/registry/things/ab/a",
                scope_at: 17,
                name_at: 20,
                revision: Revision(3),
                tail: tail.as_bytes(),
                head_at: 0,
                rv_at: (0, 0),
                managed_end: 0,
                managed_fields: None,
                uid_hash: 0,
                labels: &set.into(),
                fields: &fields.iter().map(|field| Cow::Borrowed(field.as_str())).collect::<Vec<_>>(),
            };
            let object = Object::new(parts);
            prop_assert_eq!((object.key(), &*object.tail()), (&b"/registry/things/ab/a"[..], tail.as_bytes()));
            prop_assert_eq!((object.namespace(), object.name()), ("ab", "a"));
            prop_assert_eq!(object.labels().iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>(), own);
            for (key, value) in &labels {
                prop_assert_eq!(object.labels().get(key), Some(value.as_str()));
            }
            prop_assert_eq!(object.labels().get("z"), None);
            prop_assert_eq!((0..fields.len()).map(|index| object.field(index)).collect::<Vec<_>>(), fields.clone());
            prop_assert_eq!(object.field(fields.len()), "");
        }
    }

    /// What is stored has its labels in its JSON, and most objects are asked for by name and namespace: these cost their places only.
    #[test]
    fn texts_are_not_kept_twice() {
        let tail = r#""metadata":{"name":"a","namespace":"ab","labels":{"app":"web","tier":"front"}}}"#;
        let labels = [("app", "web"), ("tier", "front")];
        let key = b"/registry/things/ab/a";
        let parts = Parts {
            key,
            scope_at: 17,
            name_at: 20,
            revision: Revision(3),
            tail: tail.as_bytes(),
            head_at: 0,
            rv_at: (0, 0),
            managed_end: 0,
            managed_fields: None,
            uid_hash: 0,
            labels: &labels[..].into(),
            fields: &["a".into(), "ab".into(), "".into()],
        };
        let object = Object::new(parts);
        assert_eq!(object.weight(), size_of::<Object>() + key.len() + tail.len() + 7 * SPAN_BYTES);
        // With the counts of an `Arc` before it, 112 bytes are what is allocated.
        assert!(size_of::<Object>() <= 96, "{}", size_of::<Object>());
    }
}
