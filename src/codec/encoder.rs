//! Encodes the objects of one served resource: a representation of them, in an encoding. Constants are made once; objects are copied.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::{
    chunk_cache::HashSeed,
    encoding::{Encoding, ListEnvelope, kept},
    list_manifest::ListKey,
    media::Media,
    partial::MetaVersion,
    protobuf_encoder::ProtobufEncoder,
    representation::{BuiltIn, Custom, ListMeta, Metadata, Render, Representation},
    table::{Clock, Include, Rows, Table},
    unencodable::Unencodable,
};
use model::{Epoch, Filter, Kind, Object, Revision, Storage};

/// Encodes one served resource. A stored object that is served under several versions has one encoder for each.
#[derive(Clone, Debug)]
pub struct Encoder {
    representation: Arc<Representation>,
    encoding: Encoding,
    /// Keys the chunks of lists that it writes.
    hash_seed: HashSeed,
}

/// Constructors.
impl Encoder {
    /// A built-in resource, in JSON. One that is stored in another version (`versions`) is read and rewritten each time it is shown. `bookmark_zero`: what a
    /// bookmark of it has after `metadata`, the members of the Go type that are printed though empty (spec list-watch §4.5):
    /// `,"spec":{"containers":null},"status":{}` for a Pod, nothing for a ConfigMap.
    #[must_use]
    pub fn built_in(api_version: &str, kind: &str, list_kind: &str, bookmark_zero: &str) -> Self {
        Self::built_in_annotated(api_version, kind, list_kind, bookmark_zero, "")
    }

    /// The same with annotation members that every bookmark carries: `"deprecated.daemonset.template.generation":"0"` of a DaemonSet.
    #[must_use]
    pub fn built_in_annotated(api_version: &str, kind: &str, list_kind: &str, bookmark_zero: &str, bookmark_annotations: &str) -> Self {
        Self::json(Representation::BuiltIn(BuiltIn::new(api_version, kind, list_kind, bookmark_zero, bookmark_annotations)))
    }

    /// A version of a custom resource, in JSON.
    #[must_use]
    pub fn custom(api_version: &str, kind: &str, list_kind: &str) -> Self {
        Self::json(Representation::Custom(Custom::new(api_version, kind, list_kind)))
    }

    /// `PartialObjectMetadata` of a stored resource, in JSON.
    #[must_use]
    pub fn metadata_only(version: MetaVersion, storage: &Storage) -> Self {
        Self::json(Representation::Metadata(Metadata::new(version, storage)))
    }

    /// A resource as a `Table` (spec api-surface §4), in JSON. `base` is how the whole object is written, for the rows that include it and for the
    /// paths of a custom resource's columns.
    #[must_use]
    pub fn table(version: MetaVersion, table: Arc<Table>, include: Include, base: &Self, now: Clock) -> Self {
        Self::json(Representation::Table(Rows::new(version, table, include, base.representation.clone(), now)))
    }

    fn json(representation: Representation) -> Self {
        Self { representation: Arc::new(representation), encoding: Encoding::Json, hash_seed: HashSeed::default() }
    }

    /// The same in protobuf, as this kind; `None` when protobuf does not know it. `kept`: it encodes the objects as they are stored, so that their
    /// messages may be kept with them.
    #[must_use]
    pub fn in_protobuf(&self, api_version: &str, kind: &str, list_kind: &str, kept: bool) -> Option<Self> {
        let protobuf = ProtobufEncoder::of(api_version, kind, list_kind, kept)?;
        Some(Self { representation: self.representation.clone(), encoding: Encoding::Protobuf(protobuf), hash_seed: HashSeed::default() })
    }
}

/// In its encoding: bodies, lists and watch frames.
impl Encoder {
    /// Returns the encoding.
    #[must_use]
    pub fn media(&self) -> Media {
        self.encoding.media()
    }

    /// The body of a GET. JSON is compact, and ends with a newline.
    ///
    /// # Errors
    /// The object is not as its message wants it.
    pub fn body(&self, object: &Object) -> Result<Vec<u8>, Unencodable> {
        self.encoding.body(&self.representation, object)
    }

    /// Whether a list begins with its length, so that all of its items are encoded before anything is sent; that takes a while.
    #[must_use]
    pub fn needs_length(&self) -> bool {
        self.encoding.needs_length()
    }

    /// Returns what stands around these items of a list.
    pub(super) fn list_envelope(&self, meta: &ListMeta, objects: &[Arc<Object>]) -> Result<ListEnvelope, Unencodable> {
        self.encoding.list_envelope(&self.representation, meta, objects)
    }

    /// The same, around items of which only the number of bytes is known.
    pub(super) fn list_envelope_of(&self, meta: &ListMeta, items_len: usize) -> ListEnvelope {
        self.encoding.list_envelope_of(&self.representation, meta, items_len)
    }

    /// What stands between two items.
    pub(super) fn separator(&self) -> &'static [u8] {
        self.encoding.separator()
    }

    /// Appends an object as an encoded item of a list; `message`: if there is one already.
    pub(super) fn encode_item_into(&self, object: &Object, message: Option<Bytes>, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.encoding.item_into(&self.representation, object, message, out)
    }

    /// Whether an object's text is read when it is written; messages are kept beside it.
    pub(super) fn reads_text(&self) -> bool {
        self.media() == Media::Json
    }

    /// One watch frame; one of JSON ends with its newline. The body shows `revision`: the object's own, but for DELETED that of the deletion
    /// (spec list-watch §5.1).
    ///
    /// # Errors
    /// The object is not as its message wants it.
    pub fn event(&self, kind: Kind, object: &Object, revision: Revision) -> Result<Bytes, Unencodable> {
        let mut out = Vec::new();
        self.event_into(kind, object, revision, &mut out)?;
        Ok(kept(out))
    }

    /// Appends a watch frame.
    ///
    /// # Errors
    /// The object is not as its message wants it; then nothing is appended.
    pub fn event_into(&self, kind: Kind, object: &Object, revision: Revision, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.encoding.event_into(&self.representation, kind, object, revision, out)
    }

    /// A bookmark frame (spec list-watch §4.5); `annotated`: the one that ends the initial events.
    ///
    /// # Errors
    /// The bookmark is not as its message wants it, which no kind's is.
    pub fn bookmark(&self, revision: Revision, annotated: bool) -> Result<Bytes, Unencodable> {
        self.encoding.bookmark(&self.representation, revision, annotated)
    }

    /// An ERROR frame around a Status (spec list-watch §4.7).
    ///
    /// # Errors
    /// It is no Status.
    pub fn error(&self, status_json: &[u8]) -> Result<Bytes, Unencodable> {
        self.encoding.error(status_json)
    }

    /// The frame that a stream starts with: a Table has its columns in the first event only (spec api-surface §4.3). Of several events in one
    /// frame that is the first one.
    #[must_use]
    pub fn first_event(&self, frame: &Bytes) -> Bytes {
        self.representation.first_event(frame)
    }
}

/// As JSON, whatever the encoding.
impl Encoder {
    /// Appends the object as a GET shows it: compact, without a newline (kube-apiserver ends it with one).
    pub fn object_into(&self, object: &Object, out: &mut Vec<u8>) {
        self.representation.object_into(object, out);
    }

    /// Appends the whole object in the version in which it is stored.
    pub fn stored_into(&self, object: &Object, out: &mut Vec<u8>) {
        self.representation.stored_into(object, out);
    }

    /// Encodes the answer to a write from the tree in the version that is stored: in the order of its kind, or as the Table of it.
    #[must_use]
    pub fn render(&self, custom: bool, stored: &Value) -> Vec<u8> {
        self.representation.render(custom, stored)
    }

    /// Converts a stored object tree to the served version.
    #[must_use]
    pub fn tree<'v>(&self, stored: &'v Value) -> Cow<'v, Value> {
        self.representation.tree(stored)
    }

    /// Appends the object as an item of a list.
    pub fn item_into(&self, object: &Object, out: &mut Vec<u8>) {
        self.representation.item_into(object, out);
    }

    /// Appends what stands before the first item of a list. Items are joined by `,`.
    pub fn list_prologue_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        self.representation.list_prologue_into(meta, out);
    }

    /// Appends what stands after the last item of a list, without a newline (kube-apiserver ends it with one).
    pub fn list_epilogue_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        self.representation.list_epilogue_into(meta, out);
    }

    /// Appends a list without items. Of metadata alone, and in the default Table, they are `null`, as kube-apiserver makes them: its empty page is
    /// a nil slice.
    pub fn empty_list_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        self.representation.empty_list_into(meta, out);
    }
}

impl Encoder {
    /// A whole list, without a newline.
    #[must_use]
    pub fn list_json(&self, meta: &ListMeta, objects: &[Arc<Object>]) -> Vec<u8> {
        let mut out = Vec::new();
        if objects.is_empty() {
            self.empty_list_into(meta, &mut out);
            return out;
        }
        self.list_prologue_into(meta, &mut out);
        for (at, object) in objects.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            self.item_into(object, &mut out);
        }
        self.list_epilogue_into(meta, &mut out);
        out
    }
}

/// What is asked before something is written.
impl Encoder {
    /// Sorts a page of objects as a list has them: their order stays, but for the Table of flow schemas.
    pub fn sort(&self, page: &mut [Arc<Object>]) {
        self.representation.sort(page);
    }

    /// Whether an object is always encoded to the same bytes; a Table has ages.
    #[must_use]
    pub fn is_deterministic(&self) -> bool {
        self.representation.is_deterministic()
    }

    /// Whether to write this object may take long: rows of a Table are made by columns that a definition says, and what is not copied is made of all of a large
    /// object.
    #[must_use]
    pub fn is_slow(&self, object: &Object) -> bool {
        /// Bytes that are read and written in some 50 microseconds.
        const SOME_BYTES: usize = 16 << 10;
        match &*self.representation {
            Representation::Table(_) => true,
            _ => object.tail_len() >= SOME_BYTES && (self.needs_length() || !self.copies(object)),
        }
    }

    /// Whether the rows that it writes may take long whatever the objects are.
    #[must_use]
    pub fn is_defined(&self) -> bool {
        matches!(&*self.representation, Representation::Table(rows) if rows.is_custom())
    }

    /// The same for the objects of one answer, which have a budget together where definitions say what is made of them.
    #[must_use]
    pub fn for_answer(self: &Arc<Self>) -> Arc<Self> {
        match &*self.representation {
            Representation::Table(rows) if rows.is_custom() => {
                Arc::new(Self { representation: Arc::new(Representation::Table(rows.for_answer())), ..(**self).clone() })
            }
            _ => self.clone(),
        }
    }

    /// Whether it writes an object by copying its text.
    fn copies(&self, object: &Object) -> bool {
        matches!(self.representation.tail(object), Some(Cow::Borrowed(_)))
    }

    /// About how many bytes an item is written with.
    pub(super) fn weight(&self, object: &Object) -> usize {
        self.representation.weight(object)
    }

    /// Returns the key of a whole list's manifest: of all objects of the cache, at this revision of this epoch, that have keys with this prefix and that the
    /// filter selects.
    #[must_use]
    pub fn list_key(&self, epoch: Epoch, revision: Revision, prefix: &[u8], filter: &Filter) -> ListKey {
        self.hash_seed.list_key(epoch, revision, prefix, filter)
    }

    pub(super) fn hash_seed(&self) -> &HashSeed {
        &self.hash_seed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_are_those_of_the_spec() {
        let text = |encoder: &Encoder, revision| {
            String::from_utf8(encoder.bookmark(Revision(revision), false).expect("JSON").to_vec()).expect("UTF-8")
        };
        let pod = Encoder::built_in("v1", "Pod", "PodList", r#","spec":{"containers":null},"status":{}"#);
        assert_eq!(
            text(&pod, 122),
            "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"122\"},\
             \"spec\":{\"containers\":null},\"status\":{}}}\n"
        );
        let widget = Encoder::custom("ex.io/v1", "Widget", "WidgetList");
        assert_eq!(
            text(&widget, 180),
            "{\"type\":\"BOOKMARK\",\"object\":{\"apiVersion\":\"ex.io/v1\",\"kind\":\"Widget\",\"metadata\":{\"resourceVersion\":\"180\"}}}\n"
        );
    }
}
