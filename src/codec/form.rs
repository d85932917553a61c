//! How one served resource is written: GET bodies, list items and envelopes, watch frames. Constants are made once; objects are copied.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::{
    blocks::Salt,
    encode,
    media::{Media, Unencodable},
    partial::{Cut, MetaVersion},
    stored::shown,
    table::{Clock, Include, Rows, Table},
    versions::{Version, type_head},
    wire::{self, Wire},
};
use model::{Kind, Object, Revision, Storage};

mod list;

pub use list::ListMeta;

/// The annotation of the bookmark that ends the initial events (spec list-watch §4.5).
const INITIAL_EVENTS_END: &str = r#""k8s.io/initial-events-end":"true""#;

/// How one served resource is written. A stored object under several versions has one form each.
#[derive(Clone, Debug)]
pub struct Form {
    style: Style,
    /// `{"kind":K,"apiVersion":V,` or, custom, `{"apiVersion":V,`.
    head: Vec<u8>,
    /// The kind of the list, quoted.
    list_kind: Vec<u8>,
    /// Built-in: what a bookmark has after `metadata`. Custom: the `"kind":K,` before it.
    bookmark: Vec<u8>,
    /// Built-in: members that the annotations of every bookmark have besides the one that ends the initial events; sorted before it.
    annotations: Vec<u8>,
    /// Set when lists and watch frames are protobuf; what is written one object at a time is JSON all the same, see [`Media::encode`].
    wire: Option<Wire>,
    /// What blocks of lists are known by that are written so.
    salt: Salt,
}

#[derive(Clone, Debug)]
enum Style {
    /// The order of Go structs; list items without a head.
    BuiltIn,
    /// Sorted; list items are whole objects.
    Custom,
    /// Built-in, from another version than it is stored in.
    Converted(&'static Version),
    /// The metadata alone, of whatever resource; list items are whole objects.
    Partial(Cut),
    /// Cells, of whatever resource; list items are rows.
    Table(Box<Rows>),
}

/// What a Table has in place of its columns from the second event of a stream on.
const NO_COLUMNS: &[u8] = br#""columnDefinitions":null,"#;

impl Form {
    /// A built-in resource. One that is stored in another version (`versions`) is read and rewritten each time it is shown. `bookmark_zero`: what a bookmark of it has after `metadata`, the members of the Go type that are printed though
    /// empty (spec list-watch §4.5): `,"spec":{"containers":null},"status":{}` for a Pod, nothing for a ConfigMap.
    #[must_use]
    pub fn built_in(api_version: &str, kind: &str, list_kind: &str, bookmark_zero: &str) -> Self {
        Self {
            style: Version::of(api_version, kind).map_or(Style::BuiltIn, Style::Converted),
            head: type_head(api_version, kind),
            list_kind: quoted(list_kind),
            bookmark: bookmark_zero.as_bytes().to_vec(),
            annotations: Vec::new(),
            wire: None,
            salt: Salt::default(),
        }
    }

    /// With annotation members that every bookmark carries: `"deprecated.daemonset.template.generation":"0"` of a DaemonSet.
    #[must_use]
    pub fn with_bookmark_annotations(self, members: &str) -> Self {
        Self { annotations: members.as_bytes().to_vec(), ..self }
    }

    /// A version of a custom resource.
    #[must_use]
    pub fn custom(api_version: &str, kind: &str, list_kind: &str) -> Self {
        let mut head = b"{\"apiVersion\":".to_vec();
        encode::string_into(api_version, &mut head);
        head.push(b',');
        let mut bookmark = b"\"kind\":".to_vec();
        encode::string_into(kind, &mut bookmark);
        bookmark.push(b',');
        Self {
            style: Style::Custom,
            head,
            list_kind: quoted(list_kind),
            bookmark,
            annotations: Vec::new(),
            wire: None,
            salt: Salt::default(),
        }
    }

    /// `PartialObjectMetadata` of a stored resource: the same bytes for each version in which it is served, also for those that show other annotations
    /// than the stored ones (measured).
    #[must_use]
    pub fn metadata_only(version: MetaVersion, storage: &Storage) -> Self {
        let whole = Self::built_in(version.api_version(), "PartialObjectMetadata", "PartialObjectMetadataList", "");
        Self { style: Style::Partial(Cut::of(storage)), ..whole }
    }

    /// The same in protobuf, as this kind; `None` when protobuf does not know it. `kept`: it is the form of the objects as they are stored, so that their
    /// messages may be kept with them.
    #[must_use]
    pub fn in_protobuf(&self, api_version: &str, kind: &str, list_kind: &str, kept: bool) -> Option<Self> {
        let wire = Wire::of(api_version, kind, list_kind, kept)?;
        Some(Self { wire: Some(wire), salt: Salt::default(), ..self.clone() })
    }

    /// How lists and watch frames are encoded.
    #[must_use]
    pub fn media(&self) -> Media {
        if self.wire.is_some() { Media::Protobuf } else { Media::Json }
    }

    /// Whether an object is written the same way whenever that is: a Table tells ages.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        !matches!(self.style, Style::Table(_))
    }

    /// About how many bytes the object is written with.
    pub(super) fn weight(&self, object: &Object) -> usize {
        match self.style {
            // Metadata is as long as its annotations; few objects have more of them.
            Style::Partial(_) => object.tail.len().min(1 << 10),
            _ => object.tail.len(),
        }
    }

    pub(super) fn salt(&self) -> &Salt {
        &self.salt
    }

    /// The message of an object.
    ///
    /// # Errors
    /// The object is not as its message wants it; this form is not protobuf.
    pub(super) fn message(&self, object: &Object) -> Result<Bytes, Unencodable> {
        let wire = self.wire.as_ref().ok_or_else(Unencodable::no_message)?;
        wire.message(object, |out| self.object_into(object, out)).map_err(|error| Unencodable::of(object, &error))
    }

    /// Whether an object keeps its message of this form.
    pub(super) fn keeps_messages(&self) -> bool {
        self.wire.as_ref().is_some_and(Wire::is_kept)
    }

    /// What stands before the items of a list in protobuf, which are so many bytes.
    pub(super) fn wire_list_head(&self, meta: &ListMeta, items_len: usize) -> Result<Vec<u8>, Unencodable> {
        Ok(self.wire.as_ref().ok_or_else(Unencodable::no_message)?.list_head(meta, items_len))
    }

    /// A resource as a `Table` (spec api-surface §4). `base` is how the whole object is written, for the rows that include it and for the
    /// paths of a custom resource's columns.
    #[must_use]
    pub fn table(version: MetaVersion, table: Arc<Table>, include: Include, base: Arc<Self>, now: Clock) -> Self {
        let whole = Self::built_in(version.api_version(), "Table", "Table", "");
        Self { style: Style::Table(Box::new(Rows::new(version, table, include, base, now))), ..whole }
    }

    /// The body of a GET in protobuf.
    ///
    /// # Errors
    /// The object is not as its message wants it; this form is not protobuf.
    pub fn wire_object(&self, object: &Object) -> Result<Vec<u8>, Unencodable> {
        let wire = self.wire.as_ref().ok_or_else(Unencodable::no_message)?;
        Ok(wire.document(&self.message(object)?))
    }

    /// Appends the body of a GET: compact, without a newline (kube-apiserver ends it with one).
    pub fn object_into(&self, object: &Object, out: &mut Vec<u8>) {
        if let Style::Table(rows) = &self.style {
            return self.rows_into(Some(object.revision), Some(rows.columns()), out, |out| rows.row_into(object, object.revision, out));
        }
        self.body_into(object, object.revision, out);
    }

    /// The body that answers a write, of the tree in the version that is stored: in the order of its kind, or the Table of it.
    #[must_use]
    pub fn written(&self, custom: bool, object: &Value) -> Vec<u8> {
        let rows = match (&self.style, object) {
            (Style::Converted(version), Value::Object(stored)) => return version.shown(stored),
            (Style::Table(rows), _) => rows,
            _ => return shown(custom, object),
        };
        // What a dry run has created has no revision.
        let revision = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).and_then(|digits| digits.parse().ok());
        let mut out = Vec::new();
        self.rows_into(revision.map(Revision), Some(rows.columns()), &mut out, |out| rows.written_into(custom, object, out));
        out
    }

    /// The tree of what is shown, for that of what is stored.
    #[must_use]
    pub fn tree<'v>(&self, stored: &'v Value) -> Cow<'v, Value> {
        match (&self.style, stored) {
            // What we have printed is JSON.
            (Style::Converted(version), Value::Object(members)) => {
                Cow::Owned(serde_json::from_slice(&version.shown(members)).unwrap_or_default())
            }
            _ => Cow::Borrowed(stored),
        }
    }

    /// Appends the object as an item of a list.
    pub fn item_into(&self, object: &Object, out: &mut Vec<u8>) {
        match &self.style {
            Style::Table(rows) => rows.row_into(object, object.revision, out),
            Style::Custom | Style::Partial(_) => self.object_into(object, out),
            Style::BuiltIn | Style::Converted(_) => {
                out.push(b'{');
                self.tail_into(object, object.revision, out);
            }
        }
    }

    /// A page of objects in the order in which a list of this form has them: that of the page, but for the Table of flow schemas.
    pub fn arrange(&self, page: &mut [Arc<Object>]) {
        if let Style::Table(rows) = &self.style {
            rows.arrange(page);
        }
    }

    /// The frame that a stream starts with: a Table tells its columns in the first event only (spec api-surface §4.3). Of several events in one
    /// frame that is the first one.
    #[must_use]
    pub fn first_event(&self, frame: &Bytes) -> Bytes {
        let Style::Table(rows) = &self.style else { return frame.clone() };
        // The columns come before anything that an object could have written.
        let event = &frame[..frame.iter().position(|byte| *byte == b'\n').unwrap_or(frame.len())];
        let Some(at) = memchr::memmem::find(event, NO_COLUMNS) else { return frame.clone() };
        let mut out = Vec::with_capacity(frame.len() + rows.columns().len());
        out.extend_from_slice(&frame[..at]);
        columns_into(Some(rows.columns()), &mut out);
        out.extend_from_slice(&frame[at + NO_COLUMNS.len()..]);
        Bytes::from(out)
    }

    /// One watch frame with its newline. The body shows `revision`: the object's own, but for DELETED that of the deletion (spec list-watch §5.1).
    /// Empty when the object cannot be shown in protobuf.
    #[must_use]
    pub fn event(&self, kind: Kind, object: &Object, revision: Revision) -> Bytes {
        if let Some(wire) = &self.wire {
            let frame = if revision == object.revision {
                wire.message(object, |out| self.object_into(object, out)).map(|message| wire.frame(kind, &message))
            } else {
                wire.event(kind, |out| self.body_into(object, revision, out))
            };
            return frame.unwrap_or_default();
        }
        const AROUND: usize = r#"{"type":"MODIFIED","object":}"#.len() + 1;
        let digits = encode::revision_len(revision.0);
        let mut out = Vec::with_capacity(AROUND + self.head.len() + object.tail.len() + digits);
        frame_into(kind, &mut out);
        self.body_into(object, revision, &mut out);
        out.extend_from_slice(b"}\n");
        if let Style::Partial(_) | Style::Table(_) = self.style {
            // Logs keep frames for a while: not with the room that the whole object would have taken.
            out.shrink_to_fit();
        }
        Bytes::from(out)
    }

    /// A bookmark frame with its newline (spec list-watch §4.5); `annotated`: the one that ends the initial events.
    #[must_use]
    pub fn bookmark(&self, revision: Revision, annotated: bool) -> Bytes {
        let mut out = Vec::with_capacity(160 + self.head.len() + self.bookmark.len());
        if let Some(wire) = &self.wire {
            return wire.event(Kind::Bookmark, |out| self.bookmark_object_into(revision, annotated, out)).unwrap_or_default();
        }
        frame_into(Kind::Bookmark, &mut out);
        if let Style::Table(rows) = &self.style {
            self.rows_into(Some(revision), rows.columns_of_events(), &mut out, |out| rows.bookmark_row_into(revision, annotated, out));
        } else {
            self.bookmark_object_into(revision, annotated, &mut out);
        }
        out.extend_from_slice(b"}\n");
        Bytes::from(out)
    }

    /// Appends the object of a bookmark.
    pub(super) fn bookmark_object_into(&self, revision: Revision, annotated: bool, out: &mut Vec<u8>) {
        let custom = matches!(self.style, Style::Custom);
        out.extend_from_slice(&self.head);
        if custom {
            out.extend_from_slice(&self.bookmark);
        }
        out.extend_from_slice(b"\"metadata\":{");
        // `annotations` sorts before `resourceVersion`, and follows it in the order of the Go struct.
        let annotations = self.annotations(annotated);
        if let (Some(annotations), true) = (&annotations, custom) {
            out.extend_from_slice(annotations);
            out.push(b',');
        }
        revision_member_into(revision, out);
        if let (Some(annotations), false) = (&annotations, custom) {
            out.push(b',');
            out.extend_from_slice(annotations);
        }
        out.push(b'}');
        if !custom {
            out.extend_from_slice(&self.bookmark);
        }
        out.push(b'}');
    }

    /// An ERROR frame around a Status (spec list-watch §4.7): of this form's encoding.
    #[must_use]
    pub fn error(&self, status_json: &[u8]) -> Bytes {
        match self.media() {
            Media::Json | Media::Yaml => error_event(status_json),
            // A Status is always one.
            Media::Protobuf => {
                wire::frame(Kind::Error, &Media::Protobuf.encode(status_json.trim_ascii_end().to_vec(), false).unwrap_or_default())
            }
        }
    }

    /// The annotations member of a bookmark, if it has one.
    fn annotations(&self, annotated: bool) -> Option<Vec<u8>> {
        let end = if annotated { INITIAL_EVENTS_END.as_bytes() } else { b"" };
        let members: Vec<&[u8]> = [&self.annotations[..], end].into_iter().filter(|m| !m.is_empty()).collect();
        (!members.is_empty()).then(|| [b"\"annotations\":{", &members.join(&b',')[..], b"}"].concat())
    }

    /// A Table without more about its list than the revision: what a GET and an event have.
    fn rows_into(&self, revision: Option<Revision>, columns: Option<&str>, out: &mut Vec<u8>, row: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"\"metadata\":{");
        if let Some(revision) = revision {
            revision_member_into(revision, out);
        }
        out.extend_from_slice(b"},");
        columns_into(columns, out);
        out.extend_from_slice(b"\"rows\":[");
        row(out);
        out.extend_from_slice(b"]}");
    }

    /// Appends the whole object in the version in which it is stored.
    pub fn stored_into(&self, object: &Object, out: &mut Vec<u8>) {
        match self.style {
            Style::Converted(version) => out.extend_from_slice(&stored_text(version, object, object.revision)),
            _ => self.object_into(object, out),
        }
    }

    /// The whole object under a revision; an event's Table.
    pub(super) fn body_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>) {
        if let Style::Table(rows) = &self.style {
            return self.rows_into(Some(revision), rows.columns_of_events(), out, |out| rows.row_into(object, revision, out));
        }
        let start = out.len();
        out.extend_from_slice(&self.head);
        if let Style::Partial(cut) = self.style {
            out.extend_from_slice(b"\"metadata\":");
            cut.write(object, revision, out);
            return out.push(b'}');
        }
        self.tail_into(object, revision, out);
        // Members that sort before `apiVersion` change places with the head, between its brace and them.
        let early = object.head_at as usize;
        if early > 0 && matches!(self.style, Style::Custom) {
            let head = self.head.len();
            out[start + 1..start + head + early].rotate_left(head - 1);
        }
    }

    fn tail_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>) {
        match self.style {
            Style::Converted(version) => version.tail(&stored_text(version, object, revision), out),
            _ => stored_tail_into(object, revision, out),
        }
    }
}

/// The stored object of a version that is shown otherwise, whole.
fn stored_text(version: &Version, object: &Object, revision: Revision) -> Vec<u8> {
    let mut text = version.stored_head();
    text.reserve(object.tail.len() + encode::revision_len(revision.0));
    stored_tail_into(object, revision, &mut text);
    text
}

/// An ERROR frame with its newline around a Status.
#[must_use]
pub fn error_event(status_json: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(status_json.len() + 32);
    frame_into(Kind::Error, &mut out);
    out.extend_from_slice(status_json.trim_ascii_end());
    out.extend_from_slice(b"}\n");
    Bytes::from(out)
}

fn stored_tail_into(object: &Object, revision: Revision, out: &mut Vec<u8>) {
    if revision == object.revision {
        out.extend_from_slice(&object.tail);
    } else {
        let (before, after) = object.around_revision();
        out.extend_from_slice(before);
        encode::revision_into(revision.0, out);
        out.extend_from_slice(after);
    }
}

fn frame_into(kind: Kind, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_str().as_bytes());
    out.extend_from_slice(b"\",\"object\":");
}

/// Appends the column definitions of a Table, or `null`.
fn columns_into(columns: Option<&str>, out: &mut Vec<u8>) {
    let Some(columns) = columns else { return out.extend_from_slice(NO_COLUMNS) };
    out.extend_from_slice(b"\"columnDefinitions\":");
    out.extend_from_slice(columns.as_bytes());
    out.push(b',');
}

fn revision_member_into(revision: Revision, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"resourceVersion\":\"");
    encode::revision_into(revision.0, out);
    out.push(b'"');
}

fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    encode::string_into(text, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_frame_is_one_line() {
        assert_eq!(&error_event(b"{\"kind\":\"Status\"}\n")[..], b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\"}}\n");
    }

    #[test]
    fn bookmarks_are_those_of_the_spec() {
        let text = |frame: Bytes| String::from_utf8(frame.to_vec()).expect("UTF-8");
        let pod = Form::built_in("v1", "Pod", "PodList", r#","spec":{"containers":null},"status":{}"#);
        assert_eq!(
            text(pod.bookmark(Revision(122), false)),
            "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"122\"},\
             \"spec\":{\"containers\":null},\"status\":{}}}\n"
        );
        let widget = Form::custom("ex.io/v1", "Widget", "WidgetList");
        assert_eq!(
            text(widget.bookmark(Revision(180), false)),
            "{\"type\":\"BOOKMARK\",\"object\":{\"apiVersion\":\"ex.io/v1\",\"kind\":\"Widget\",\"metadata\":{\"resourceVersion\":\"180\"}}}\n"
        );
    }
}
