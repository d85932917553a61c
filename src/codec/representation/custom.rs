//! What is written of a custom resource: sorted members, list items that are whole objects.

use super::{ListMeta, Render, annotations, revision_into};
use crate::encode;
use model::{Object, Revision};

/// A version of a custom resource.
#[derive(Debug)]
pub(crate) struct Custom {
    /// `{"apiVersion":V,`, of objects and of lists.
    head: Vec<u8>,
    /// `"kind":K`, of objects.
    kind: Vec<u8>,
    /// The same of lists.
    list_kind: Vec<u8>,
}

impl Custom {
    pub(crate) fn new(api_version: &str, kind: &str, list_kind: &str) -> Self {
        let mut head = b"{\"apiVersion\":".to_vec();
        encode::string_into(api_version, &mut head);
        head.push(b',');
        let kind_member = |kind: &str| {
            let mut member = b"\"kind\":".to_vec();
            encode::string_into(kind, &mut member);
            member
        };
        Self { head, kind: kind_member(kind), list_kind: kind_member(list_kind) }
    }
}

impl Render for Custom {
    fn head(&self) -> &[u8] {
        &self.head
    }

    fn event_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.head);
        object.tail_into(revision, out);
        // Members that sort before `apiVersion` change places with the head, between its brace and them.
        let early = object.head_at as usize;
        if early > 0 {
            let head = self.head.len();
            out[start + 1..start + head + early].rotate_left(head - 1);
        }
    }

    fn bookmark_into(&self, revision: Revision, annotated: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(&self.kind);
        out.extend_from_slice(b",\"metadata\":{");
        // Sorts before `resourceVersion`.
        if let Some(annotations) = annotations(b"", annotated) {
            out.extend_from_slice(&annotations);
            out.push(b',');
        }
        revision_into(revision, out);
        out.extend_from_slice(b"}}");
    }

    fn list_prologue_into(&self, _: &ListMeta, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"\"items\":[");
    }

    fn list_epilogue_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        out.extend_from_slice(b"],");
        out.extend_from_slice(&self.list_kind);
        out.push(b',');
        meta.sorted_into(out);
        out.push(b'}');
    }
}
