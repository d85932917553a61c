//! Renders a resource as JSON: an object, an item of a list, what stands around the items, a bookmark, a tree.
//!
//! Each kind of representation is a type of its own; [`Render`] has what most of them have in common. The calls are resolved when it is
//! compiled: objects and items are written often.

mod built_in;
mod custom;
mod list;
mod metadata;

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::{encode, stored::render, table::Rows, versions::type_head};
use model::{Object, Revision};

pub(super) use built_in::BuiltIn;
pub(super) use custom::Custom;
pub use list::ListMeta;
pub(super) use metadata::Metadata;

/// The annotation of the bookmark that ends the initial events (spec list-watch §4.5).
const INITIAL_EVENTS_END: &str = r#""k8s.io/initial-events-end":"true""#;

/// A representation of a served resource. A stored object that is served under several versions has one for each.
#[derive(Debug)]
pub(super) enum Representation {
    /// In the order of Go structs; list items without a head.
    BuiltIn(BuiltIn),
    /// Sorted; list items are whole objects.
    Custom(Custom),
    /// The metadata alone, of whatever resource; list items are whole objects.
    Metadata(Metadata),
    /// Cells, of whatever resource; list items are rows.
    Table(Rows),
}

/// Renders one kind of representation. Each method appends to `out`.
pub(super) trait Render {
    /// What an object begins with: a constant.
    fn head(&self) -> &[u8];

    /// The object as an event shows it, under a revision: its own, but for DELETED that of the deletion (spec list-watch §5.1).
    fn event_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>);

    /// The object as a GET shows it: compact, without a newline (kube-apiserver ends it with one).
    fn object_into(&self, object: &Object, out: &mut Vec<u8>) {
        self.event_into(object, object.revision, out);
    }

    /// What is shown of the object after its kind and apiVersion, if that is its tail as it is.
    fn tail<'o>(&self, _: &'o Object) -> Option<Cow<'o, [u8]>> {
        None
    }

    /// The object as an item of a list.
    fn item_into(&self, object: &Object, out: &mut Vec<u8>) {
        self.object_into(object, out);
    }

    /// The object of a bookmark (spec list-watch §4.5); `annotated`: of the one that ends the initial events.
    fn bookmark_into(&self, revision: Revision, annotated: bool, out: &mut Vec<u8>);

    /// What stands before the first item of a list. Items are joined by `,`.
    fn list_prologue_into(&self, meta: &ListMeta, out: &mut Vec<u8>);

    /// What stands after the last item, without a newline (kube-apiserver ends it with one).
    fn list_epilogue_into(&self, _: &ListMeta, out: &mut Vec<u8>) {
        out.extend_from_slice(b"]}");
    }

    /// Whether a list without items has `null` for them, as kube-apiserver writes a nil slice.
    fn is_nil_when_empty(&self) -> bool {
        false
    }

    /// The body that answers a write, of the tree in the version that is stored: in the order of its kind.
    fn render(&self, custom: bool, stored: &Value) -> Vec<u8> {
        render(custom, stored)
    }

    /// Converts a stored object tree to the served version.
    fn tree<'v>(&self, stored: &'v Value) -> Cow<'v, Value> {
        Cow::Borrowed(stored)
    }

    /// The whole object in the version in which it is stored.
    fn stored_into(&self, object: &Object, out: &mut Vec<u8>) {
        self.object_into(object, out);
    }

    /// Puts a page of objects into the order in which a list has them.
    fn sort(&self, _: &mut [Arc<Object>]) {}

    /// The frame that a stream starts with, for one that may stand anywhere in it. In JSON.
    fn first_event(&self, frame: &Bytes) -> Bytes {
        frame.clone()
    }

    /// Whether an object is written the same way whenever that is.
    fn is_deterministic(&self) -> bool {
        true
    }

    /// About how many bytes an item is written with.
    fn weight(&self, object: &Object) -> usize {
        object.tail_len()
    }
}

/// Implements [`Render`] by dispatch over the kinds.
macro_rules! render_each {
    ($(fn $part:ident $(<$life:lifetime>)? (&self $(, $name:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        impl Render for Representation {
            $(fn $part $(<$life>)? (&self $(, $name: $type)*) $(-> $result)? {
                match self {
                    Representation::BuiltIn(representation) => representation.$part($($name),*),
                    Representation::Custom(representation) => representation.$part($($name),*),
                    Representation::Metadata(representation) => representation.$part($($name),*),
                    Representation::Table(representation) => representation.$part($($name),*),
                }
            })*
        }
    };
}

render_each! {
    fn head(&self) -> &[u8];
    fn event_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>);
    fn object_into(&self, object: &Object, out: &mut Vec<u8>);
    fn tail<'o>(&self, object: &'o Object) -> Option<Cow<'o, [u8]>>;
    fn item_into(&self, object: &Object, out: &mut Vec<u8>);
    fn bookmark_into(&self, revision: Revision, annotated: bool, out: &mut Vec<u8>);
    fn list_prologue_into(&self, meta: &ListMeta, out: &mut Vec<u8>);
    fn list_epilogue_into(&self, meta: &ListMeta, out: &mut Vec<u8>);
    fn is_nil_when_empty(&self) -> bool;
    fn render(&self, custom: bool, stored: &Value) -> Vec<u8>;
    fn tree<'v>(&self, stored: &'v Value) -> Cow<'v, Value>;
    fn stored_into(&self, object: &Object, out: &mut Vec<u8>);
    fn sort(&self, page: &mut [Arc<Object>]);
    fn first_event(&self, frame: &Bytes) -> Bytes;
    fn is_deterministic(&self) -> bool;
    fn weight(&self, object: &Object) -> usize;
}

impl Representation {
    /// Appends a list without items.
    pub(super) fn empty_list_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        self.list_prologue_into(meta, out);
        if self.is_nil_when_empty() {
            // Only lists that end so have `null`.
            out.truncate(out.len() - "[".len());
            return out.extend_from_slice(b"null}");
        }
        self.list_epilogue_into(meta, out);
    }
}

/// What objects and lists of a type begin with, in the order of Go's structs: `{"kind":K,"apiVersion":V,`.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    pub(super) object: Vec<u8>,
    list: Vec<u8>,
}

impl Heads {
    pub(super) fn new(api_version: &str, kind: &str, list_kind: &str) -> Self {
        Self { object: type_head(api_version, kind), list: type_head(api_version, list_kind) }
    }

    /// Appends what stands before the member that has a list's items. `shard`: what the list says of the shard that it is.
    pub(super) fn list_into(&self, meta: &ListMeta, shard: Option<&str>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.list);
        meta.struct_order_into(shard, out);
        out.push(b',');
    }

    /// Appends the object of a bookmark, with its member of annotations. `zero`: what it has after `metadata`.
    fn bookmark_into(&self, revision: Revision, annotations: Option<&[u8]>, zero: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.object);
        out.extend_from_slice(b"\"metadata\":{");
        revision_into(revision, out);
        if let Some(annotations) = annotations {
            out.push(b',');
            out.extend_from_slice(annotations);
        }
        out.push(b'}');
        out.extend_from_slice(zero);
        out.push(b'}');
    }
}

/// The annotations member of a bookmark, if it has one: these members, and the one that ends the initial events.
fn annotations(members: &[u8], annotated: bool) -> Option<Vec<u8>> {
    let end = if annotated { INITIAL_EVENTS_END.as_bytes() } else { b"" };
    let members: Vec<&[u8]> = [members, end].into_iter().filter(|m| !m.is_empty()).collect();
    (!members.is_empty()).then(|| [b"\"annotations\":{", &members.join(&b',')[..], b"}"].concat())
}

/// Appends the member `resourceVersion`.
pub(super) fn revision_into(revision: Revision, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"resourceVersion\":\"");
    encode::revision_into(revision.0, out);
    out.push(b'"');
}
