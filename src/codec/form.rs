//! How one served resource is written: what of it, and in which encoding. Constants are made once; objects are copied.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::{
    blocks::Salt,
    content::{BuiltIn, Content, Custom, ListMeta, Metadata, Parts},
    encoding::{Around, Encoding, kept},
    media::Media,
    partial::MetaVersion,
    run::RunName,
    table::{Clock, Include, Rows, Table},
    unencodable::Unencodable,
    wire::Wire,
};
use model::{Epoch, Filter, Kind, Object, Revision, Storage};

/// How one served resource is written. A stored object under several versions has one form each.
#[derive(Clone, Debug)]
pub struct Form {
    content: Arc<Content>,
    encoding: Encoding,
    /// What blocks of lists are known by that are written so.
    salt: Salt,
}

/// Which form.
impl Form {
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
        Self::json(Content::BuiltIn(BuiltIn::new(api_version, kind, list_kind, bookmark_zero, bookmark_annotations)))
    }

    /// A version of a custom resource, in JSON.
    #[must_use]
    pub fn custom(api_version: &str, kind: &str, list_kind: &str) -> Self {
        Self::json(Content::Custom(Custom::new(api_version, kind, list_kind)))
    }

    /// `PartialObjectMetadata` of a stored resource, in JSON.
    #[must_use]
    pub fn metadata_only(version: MetaVersion, storage: &Storage) -> Self {
        Self::json(Content::Metadata(Metadata::new(version, storage)))
    }

    /// A resource as a `Table` (spec api-surface §4), in JSON. `base` is how the whole object is written, for the rows that include it and for the
    /// paths of a custom resource's columns.
    #[must_use]
    pub fn table(version: MetaVersion, table: Arc<Table>, include: Include, base: &Self, now: Clock) -> Self {
        Self::json(Content::Table(Rows::new(version, table, include, base.content.clone(), now)))
    }

    fn json(content: Content) -> Self {
        Self { content: Arc::new(content), encoding: Encoding::Json, salt: Salt::default() }
    }

    /// The same in protobuf, as this kind; `None` when protobuf does not know it. `kept`: it is the form of the objects as they are stored, so that their
    /// messages may be kept with them.
    #[must_use]
    pub fn in_protobuf(&self, api_version: &str, kind: &str, list_kind: &str, kept: bool) -> Option<Self> {
        let wire = Wire::of(api_version, kind, list_kind, kept)?;
        Some(Self { content: self.content.clone(), encoding: Encoding::Protobuf(wire), salt: Salt::default() })
    }
}

/// In its encoding.
impl Form {
    /// How it is encoded.
    #[must_use]
    pub fn media(&self) -> Media {
        self.encoding.media()
    }

    /// The body of a GET. JSON is compact, and ends with a newline.
    ///
    /// # Errors
    /// The object is not as its message wants it.
    pub fn body(&self, object: &Object) -> Result<Vec<u8>, Unencodable> {
        self.encoding.body(&self.content, object)
    }

    /// Whether a list tells its length first, so that all of its items are looked at before; that takes a while.
    #[must_use]
    pub fn tells_length(&self) -> bool {
        self.encoding.tells_length()
    }

    /// What stands around these items of a list.
    pub(super) fn around(&self, meta: &ListMeta, objects: &[Arc<Object>]) -> Result<Around, Unencodable> {
        self.encoding.around(&self.content, meta, objects)
    }

    /// The same of some items that are so many bytes.
    pub(super) fn around_bytes(&self, meta: &ListMeta, items_len: usize) -> Around {
        self.encoding.around_bytes(&self.content, meta, items_len)
    }

    /// What stands between two items.
    pub(super) fn separator(&self) -> &'static [u8] {
        self.encoding.separator()
    }

    /// Appends an object as an encoded item of a list; `message`: if there is one already.
    pub(super) fn encoded_item_into(&self, object: &Object, message: Option<Bytes>, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.encoding.item_into(&self.content, object, message, out)
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

    /// Appends the same.
    ///
    /// # Errors
    /// The object is not as its message wants it; then nothing is appended.
    pub fn event_into(&self, kind: Kind, object: &Object, revision: Revision, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.encoding.event_into(&self.content, kind, object, revision, out)
    }

    /// A bookmark frame (spec list-watch §4.5); `annotated`: the one that ends the initial events.
    ///
    /// # Errors
    /// The bookmark is not as its message wants it, which no kind's is.
    pub fn bookmark(&self, revision: Revision, annotated: bool) -> Result<Bytes, Unencodable> {
        self.encoding.bookmark(&self.content, revision, annotated)
    }

    /// An ERROR frame around a Status (spec list-watch §4.7).
    ///
    /// # Errors
    /// It is no Status.
    pub fn error(&self, status_json: &[u8]) -> Result<Bytes, Unencodable> {
        self.encoding.error(status_json)
    }

    /// The frame that a stream starts with: a Table tells its columns in the first event only (spec api-surface §4.3). Of several events in one
    /// frame that is the first one.
    #[must_use]
    pub fn first_event(&self, frame: &Bytes) -> Bytes {
        self.content.first_event(frame)
    }
}

/// As JSON, whatever the encoding.
impl Form {
    /// Appends the object as a GET shows it: compact, without a newline (kube-apiserver ends it with one).
    pub fn object_into(&self, object: &Object, out: &mut Vec<u8>) {
        self.content.object_into(object, out);
    }

    /// Appends the whole object in the version in which it is stored.
    pub fn stored_into(&self, object: &Object, out: &mut Vec<u8>) {
        self.content.stored_into(object, out);
    }

    /// The body that answers a write, of the tree in the version that is stored: in the order of its kind, or the Table of it.
    #[must_use]
    pub fn written(&self, custom: bool, stored: &Value) -> Vec<u8> {
        self.content.written(custom, stored)
    }

    /// Converts a stored object tree to the served version.
    #[must_use]
    pub fn tree<'v>(&self, stored: &'v Value) -> Cow<'v, Value> {
        self.content.tree(stored)
    }

    /// Appends the object as an item of a list.
    pub fn item_into(&self, object: &Object, out: &mut Vec<u8>) {
        self.content.item_into(object, out);
    }

    /// Appends what stands before the first item of a list. Items are joined by `,`.
    pub fn list_open_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        self.content.list_open_into(meta, out);
    }

    /// Appends what stands after the last item of a list, without a newline (kube-apiserver ends it with one).
    pub fn list_close_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        self.content.list_close_into(meta, out);
    }

    /// Appends a list without items. Of metadata alone, and in the default Table, they are `null`, as kube-apiserver makes them: its empty page is
    /// a nil slice.
    pub fn empty_list_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        self.content.empty_list_into(meta, out);
    }
}

impl Form {
    /// A whole list, without a newline.
    #[must_use]
    pub fn list_json(&self, meta: &ListMeta, objects: &[Arc<Object>]) -> Vec<u8> {
        let mut out = Vec::new();
        if objects.is_empty() {
            self.empty_list_into(meta, &mut out);
            return out;
        }
        self.list_open_into(meta, &mut out);
        for (at, object) in objects.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            self.item_into(object, &mut out);
        }
        self.list_close_into(meta, &mut out);
        out
    }
}

/// What is asked of it before something is written.
impl Form {
    /// Puts a page of objects into the order in which a list of this form has them: that of the page, but for the Table of flow schemas.
    pub fn arrange(&self, page: &mut [Arc<Object>]) {
        self.content.arrange(page);
    }

    /// Whether an object is written the same way whenever that is: a Table tells ages.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.content.is_steady()
    }

    /// About how many bytes an item is written with.
    pub(super) fn weight(&self, object: &Object) -> usize {
        self.content.weight(object)
    }

    /// What the run of a list in this form is known by: of all objects of the cache, at this revision of this epoch, that have keys with this prefix and that the
    /// filter selects.
    #[must_use]
    pub fn run_name(&self, epoch: Epoch, revision: Revision, prefix: &[u8], filter: &Filter) -> RunName {
        self.salt.run(epoch, revision, prefix, filter)
    }

    pub(super) fn salt(&self) -> &Salt {
        &self.salt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_are_those_of_the_spec() {
        let text =
            |form: &Form, revision| String::from_utf8(form.bookmark(Revision(revision), false).expect("JSON").to_vec()).expect("UTF-8");
        let pod = Form::built_in("v1", "Pod", "PodList", r#","spec":{"containers":null},"status":{}"#);
        assert_eq!(
            text(&pod, 122),
            "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"122\"},\
             \"spec\":{\"containers\":null},\"status\":{}}}\n"
        );
        let widget = Form::custom("ex.io/v1", "Widget", "WidgetList");
        assert_eq!(
            text(&widget, 180),
            "{\"type\":\"BOOKMARK\",\"object\":{\"apiVersion\":\"ex.io/v1\",\"kind\":\"Widget\",\"metadata\":{\"resourceVersion\":\"180\"}}}\n"
        );
    }
}
