//! What is written of a built-in resource: the order of Go's structs, list items without a head.

use std::borrow::Cow;

use serde_json::Value;

use super::{Heads, ListMeta, Render, annotations};
use crate::{encode, stored::render, versions::Version};
use model::{Object, Revision};

/// A built-in resource in one version.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    heads: Heads,
    /// What a bookmark has after `metadata`.
    zero: Vec<u8>,
    /// Members that the annotations of every bookmark have.
    annotations: Vec<u8>,
    /// Set when it is stored in a version with other members: it is read and rewritten each time it is shown.
    version: Option<&'static Version>,
}

impl BuiltIn {
    pub(crate) fn new(api_version: &str, kind: &str, list_kind: &str, bookmark_zero: &str, bookmark_annotations: &str) -> Self {
        Self {
            heads: Heads::new(api_version, kind, list_kind),
            zero: bookmark_zero.into(),
            annotations: bookmark_annotations.into(),
            version: Version::of(api_version, kind),
        }
    }

    fn tail_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>) {
        match self.version {
            None => object.tail_into(revision, out),
            Some(version) => version.tail(&stored_text(version, object, revision), out),
        }
    }
}

impl Render for BuiltIn {
    fn head(&self) -> &[u8] {
        &self.heads.object
    }

    fn event_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.heads.object);
        self.tail_into(object, revision, out);
    }

    fn tail<'o>(&self, object: &'o Object) -> Option<Cow<'o, [u8]>> {
        self.version.is_none().then(|| object.tail())
    }

    fn item_into(&self, object: &Object, out: &mut Vec<u8>) {
        out.push(b'{');
        self.tail_into(object, object.revision, out);
    }

    fn bookmark_into(&self, revision: Revision, annotated: bool, out: &mut Vec<u8>) {
        self.heads.bookmark_into(revision, annotations(&self.annotations, annotated).as_deref(), &self.zero, out);
    }

    fn list_prologue_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        self.heads.list_into(meta, meta.shard.as_deref(), out);
        out.extend_from_slice(b"\"items\":[");
    }

    fn render(&self, custom: bool, stored: &Value) -> Vec<u8> {
        match (self.version, stored) {
            (Some(version), Value::Object(members)) => version.shown(members),
            _ => render(custom, stored),
        }
    }

    fn tree<'v>(&self, stored: &'v Value) -> Cow<'v, Value> {
        match (self.version, stored) {
            // What we have printed is JSON.
            (Some(version), Value::Object(members)) => Cow::Owned(serde_json::from_slice(&version.shown(members)).unwrap_or_default()),
            _ => Cow::Borrowed(stored),
        }
    }

    fn stored_into(&self, object: &Object, out: &mut Vec<u8>) {
        match self.version {
            None => self.object_into(object, out),
            Some(version) => out.extend_from_slice(&stored_text(version, object, object.revision)),
        }
    }
}

/// The stored object of a version that is shown otherwise, whole.
fn stored_text(version: &Version, object: &Object, revision: Revision) -> Vec<u8> {
    let mut text = version.stored_head();
    text.reserve(object.tail_len() + encode::revision_len(revision.0));
    object.tail_into(revision, &mut text);
    text
}
