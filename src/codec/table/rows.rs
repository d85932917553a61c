//! What is written of a resource as a Table: its columns, and rows of cells for objects, bookmarks and what was just written.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::{
    Cells, Clock, Include, Table,
    age::Moment,
    cell::Row,
    node::Node,
    work::{OfAnswer, Work},
};
use crate::{
    partial::MetaVersion,
    representation::{Heads, ListMeta, Metadata, Render, Representation, revision_into},
    stored::{only_metadata, render},
};
use model::{Object, Revision};

/// What a Table has in place of its columns from the second event of a stream on.
const NO_COLUMNS: &[u8] = br#""columnDefinitions":null,"#;

/// How a resource is written as a Table: its columns, and what its rows have.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    heads: Heads,
    table: Arc<Table>,
    include: Include,
    /// The whole object, for the rows that include it and for the paths of a custom resource's columns.
    base: Arc<Representation>,
    version: MetaVersion,
    metadata: Metadata,
    now: Clock,
    /// What the rows of one answer may cost together, if they are of one.
    of_answer: Option<OfAnswer>,
}

impl Rows {
    pub(crate) fn new(version: MetaVersion, table: Arc<Table>, include: Include, base: Arc<Representation>, now: Clock) -> Self {
        let (heads, metadata) = (Heads::new(version.api_version(), "Table", "Table"), Metadata::new(version, &table.storage));
        Self { heads, table, include, base, version, metadata, now, of_answer: None }
    }

    /// The same for the rows of one answer.
    pub(crate) fn for_answer(&self) -> Self {
        Self { of_answer: Some(OfAnswer::default()), ..self.clone() }
    }

    /// Whether its cells are what a definition says.
    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.table.cells, Cells::Custom(_))
    }

    /// The definitions of the columns.
    fn columns(&self) -> Option<&str> {
        Some(&self.table.columns)
    }

    /// What each event says of the columns: nothing but for API services, whose convertor (kube-aggregator's) does not know that they are told.
    fn columns_of_events(&self) -> Option<&str> {
        self.columns().filter(|_| self.table.storage.group == "apiregistration.k8s.io")
    }

    /// Appends a Table without more about its list than the revision: what a GET and an event have.
    fn table_into(&self, revision: Option<Revision>, columns: Option<&str>, out: &mut Vec<u8>, row: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(&self.heads.object);
        out.extend_from_slice(b"\"metadata\":{");
        if let Some(revision) = revision {
            revision_into(revision, out);
        }
        out.extend_from_slice(b"},");
        columns_into(columns, out);
        out.extend_from_slice(b"\"rows\":[");
        row(out);
        out.extend_from_slice(b"]}");
    }

    /// Appends the row of an object that is shown under a revision.
    fn row_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>) {
        match self.table.cells {
            // Its columns are of the version that is shown.
            Cells::Custom(_) => {
                let mut json = Vec::with_capacity(object.tail_len() + 64);
                self.base.event_into(object, revision, &mut json);
                self.cells_into(Node::read(&json, &self.table.want), out);
            }
            Cells::BuiltIn { .. } => self.cells_into(Node::of_object(object, &self.table.want), out),
        }
        match self.include {
            Include::Metadata => self.metadata.event_into(object, revision, out),
            Include::Object => self.base.event_into(object, revision, out),
            Include::None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }

    /// Appends the row of an object that was just written, of its tree in the version that is stored.
    fn written_into(&self, custom: bool, stored: &Value, out: &mut Vec<u8>) {
        self.cells_into(Node::read(&render(custom, stored), &self.table.want), out);
        match self.include {
            Include::Metadata => out.extend_from_slice(&render(false, &only_metadata(self.version, stored))),
            Include::Object => out.extend_from_slice(&self.base.render(custom, stored)),
            Include::None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }

    /// Appends the row of a bookmark: the cells of an object that has nothing.
    fn bookmark_row_into(&self, revision: Revision, annotated: bool, out: &mut Vec<u8>) {
        let mut json = Vec::new();
        self.base.bookmark_into(revision, annotated, &mut json);
        self.cells_into(Node::read(&json, &self.table.want), out);
        match self.include {
            Include::Object => out.extend_from_slice(&json),
            Include::None if !annotated => out.extend_from_slice(b"null"),
            Include::Metadata | Include::None => self.metadata.bookmark_into(revision, annotated, out),
        }
        out.push(b'}');
    }

    /// Appends the cells and conditions of an object, up to its own place. Cells of one that [`Node::read`] does not take are empty.
    fn cells_into(&self, object: Option<Node<'_>>, out: &mut Vec<u8>) {
        let object = object.unwrap_or_default();
        out.extend_from_slice(b"{\"cells\":");
        let mut row = Row::open(Moment::since_epoch((self.now)()), out);
        match &self.table.cells {
            Cells::BuiltIn { printer, .. } => (printer.print)(&object, &mut row),
            Cells::Custom(columns) => columns.print(&object, &mut row, &mut Work::new(self.of_answer.as_ref())),
        }
        let conditions = row.close();
        if !conditions.is_empty() {
            out.extend_from_slice(b",\"conditions\":");
            out.extend_from_slice(conditions.as_bytes());
        }
        out.extend_from_slice(b",\"object\":");
    }
}

impl Render for Rows {
    fn head(&self) -> &[u8] {
        &self.heads.object
    }

    fn event_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>) {
        self.table_into(Some(revision), self.columns_of_events(), out, |out| self.row_into(object, revision, out));
    }

    fn object_into(&self, object: &Object, out: &mut Vec<u8>) {
        self.table_into(Some(object.revision), self.columns(), out, |out| self.row_into(object, object.revision, out));
    }

    fn item_into(&self, object: &Object, out: &mut Vec<u8>) {
        self.row_into(object, object.revision, out);
    }

    fn bookmark_into(&self, revision: Revision, annotated: bool, out: &mut Vec<u8>) {
        self.table_into(Some(revision), self.columns_of_events(), out, |out| self.bookmark_row_into(revision, annotated, out));
    }

    fn list_prologue_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        self.heads.list_into(meta, None, out);
        columns_into(self.columns(), out);
        out.extend_from_slice(b"\"rows\":[");
    }

    /// apiserver's default convertor begins with a nil slice, the others do not.
    fn is_nil_when_empty(&self) -> bool {
        matches!(self.table.cells, Cells::BuiltIn { own: false, .. })
    }

    fn render(&self, custom: bool, stored: &Value) -> Vec<u8> {
        // What a dry run has created has no revision.
        let revision = stored.pointer("/metadata/resourceVersion").and_then(Value::as_str).and_then(|digits| digits.parse().ok());
        let mut out = Vec::new();
        self.table_into(revision.map(Revision), self.columns(), &mut out, |out| self.written_into(custom, stored, out));
        out
    }

    /// That of the page, but for flow schemas.
    fn sort(&self, page: &mut [Arc<Object>]) {
        self.table.sort(page);
    }

    /// A Table tells its columns in the first event of a stream only (spec api-surface §4.3). Of several events in one frame that is the first one.
    fn first_event(&self, frame: &Bytes) -> Bytes {
        // The columns come before anything that an object could have written.
        let event = &frame[..frame.iter().position(|byte| *byte == b'\n').unwrap_or(frame.len())];
        let Some(at) = memchr::memmem::find(event, NO_COLUMNS) else { return frame.clone() };
        let mut out = Vec::with_capacity(frame.len() + self.table.columns.len());
        out.extend_from_slice(&frame[..at]);
        columns_into(self.columns(), &mut out);
        out.extend_from_slice(&frame[at + NO_COLUMNS.len()..]);
        Bytes::from(out)
    }

    /// Rows tell ages.
    fn is_deterministic(&self) -> bool {
        false
    }
}

/// Appends the column definitions of a Table, or `null`.
fn columns_into(columns: Option<&str>, out: &mut Vec<u8>) {
    let Some(columns) = columns else { return out.extend_from_slice(NO_COLUMNS) };
    out.extend_from_slice(b"\"columnDefinitions\":");
    out.extend_from_slice(columns.as_bytes());
    out.push(b',');
}
