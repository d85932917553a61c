//! What is written of a resource's metadata alone (`PartialObjectMetadata`): list items are whole objects.

use super::{Heads, ListMeta, Render, annotations};
use crate::partial::{Cut, MetaVersion};
use model::{Object, Revision, Storage};

/// About how many bytes of an object are metadata, at most: it is as long as its annotations, and few objects have more of them.
const USUAL_BYTES: usize = 1 << 10;

/// The metadata of a stored resource: the same bytes for each version in which it is served, also for those that show other annotations than the stored
/// ones (measured).
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    heads: Heads,
    cut: Cut,
}

impl Metadata {
    pub(crate) fn new(version: MetaVersion, storage: &Storage) -> Self {
        Self { heads: Heads::new(version.api_version(), "PartialObjectMetadata", "PartialObjectMetadataList"), cut: Cut::of(storage) }
    }
}

impl Render for Metadata {
    fn head(&self) -> &[u8] {
        &self.heads.object
    }

    fn event_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.heads.object);
        out.extend_from_slice(b"\"metadata\":");
        self.cut.write(object, revision, out);
        out.push(b'}');
    }

    fn bookmark_into(&self, revision: Revision, annotated: bool, out: &mut Vec<u8>) {
        self.heads.bookmark_into(revision, annotations(b"", annotated).as_deref(), b"", out);
    }

    fn list_prologue_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        self.heads.list_into(meta, None, out);
        out.extend_from_slice(b"\"items\":[");
    }

    fn is_nil_when_empty(&self) -> bool {
        true
    }

    fn weight(&self, object: &Object) -> usize {
        object.tail_len().min(USUAL_BYTES)
    }
}
