//! Objects as rows of a `Table` of meta.k8s.io (`as=Table`, spec api-surface §4): columns and cells, for built-in and custom resources.
//! Knows no request and no clock.
//!
//! ```text
//! Object → Node (the parts that the cells need) → printer → cells      once per row, each time it is shown: ages depend on now
//! ```

mod age;
mod cell;
mod columns;
mod custom;
mod node;
mod path;
mod printers;
mod walk;

#[cfg(test)]
mod golden;

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use self::{
    age::Moment,
    cell::Row,
    custom::Columns,
    node::{Node, Want},
    printers::Printer,
};
use super::{
    form::Form,
    partial::MetaVersion,
    stored::{only_metadata, shown},
};
use model::{Object, PrinterColumn, Revision, Shape, Storage};

/// The time since 1970-01-01 UTC, to the nanosecond: ages are truncated, so seconds alone would tell some of them wrong.
pub type Clock = fn() -> Duration;

/// How much of the object a row has besides its cells (query `includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Include {
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing; but bookmarks that end the initial events have their metadata.
    None,
}

impl Include {
    /// What a query asks for; `None` for a word that is not one (spec api-surface §4.1 has the text of the error).
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            "None" => Some(Self::None),
            _ => None,
        }
    }
}

/// The columns of one served resource, and how its cells are made.
#[derive(Debug)]
pub struct Table {
    /// The JSON array of column definitions.
    columns: Box<str>,
    want: Want,
    cells: Cells,
    /// How metadata is cut out of its stored objects.
    storage: Storage,
}

#[derive(Debug)]
enum Cells {
    BuiltIn {
        printer: Printer,
        /// Whether it is not apiserver's default.
        own: bool,
    },
    Custom(Columns),
}

impl Table {
    /// That of a served resource. Its objects' storage names a built-in; a custom resource has the columns that its definition gives this
    /// version, or `Age` when there are none (spec api-surface §4.2). Never fails: a path that is none ends the columns before it, as in
    /// apiextensions.
    #[must_use]
    pub fn of(storage: &Storage, custom: &[PrinterColumn]) -> Self {
        let storage = storage.clone();
        if !matches!(storage.shape, Shape::Custom { .. }) {
            let (group, resource) = (&*storage.group, &*storage.resource);
            let own = printers::of(group, resource);
            let printer = own.unwrap_or(printers::CREATED_AT);
            let want = if printer.paths.is_empty() { Want::unmanaged() } else { Want::paths(printer.paths) };
            return Self {
                columns: columns::of(group, resource).into(),
                want,
                cells: Cells::BuiltIn { printer, own: own.is_some() },
                storage,
            };
        }
        let age = [PrinterColumn { kind: "date".to_owned(), path: ".metadata.creationTimestamp".to_owned(), ..PrinterColumn::default() }];
        let cells = Columns::parse(if custom.is_empty() { &age } else { custom });
        let named: Vec<String> = custom.iter().take(cells.len()).map(custom::definition).collect();
        Self { columns: columns::custom(&named).into(), want: cells.want(), cells: Cells::Custom(cells), storage }
    }

    /// That of a Scale, which is no stored object: for [`Form::written`] alone. Those of built-ins have a printer, those of custom resources
    /// columns that apiextensions makes up (`getScaleColumnsForVersion`).
    #[must_use]
    pub fn of_scale(custom: bool) -> Self {
        let (group, resource) = ("autoscaling".to_owned(), "scales".to_owned());
        let kind = "Scale".to_owned();
        let shape = if custom {
            Shape::Custom { kind, api_versions: Vec::new() }
        } else {
            Shape::BuiltIn { kind, api_version: "autoscaling/v1".to_owned() }
        };
        let storage = Storage { id: "scales".into(), group, resource, namespaced: true, shape, fields: Vec::new() };
        let column = |name: &str, kind: &str, description: &str, path: &str| {
            let [name, kind, description, path] = [name, kind, description, path].map(str::to_owned);
            PrinterColumn { name, kind, description, path, ..PrinterColumn::default() }
        };
        let columns = [
            column("Desired", "integer", "Number of desired replicas", ".spec.replicas"),
            column("Available", "integer", "Number of actual replicas", ".status.replicas"),
            column("Age", "date", &columns::age_description(), ".metadata.creationTimestamp"),
        ];
        Self::of(&storage, &columns)
    }

    /// Sorts one page of a list as its rows are sorted: flow schemas by precedence, everything else as it is (kubernetes' `printFlowSchemaList`).
    /// Their JSON is read for it, and they are few.
    pub(super) fn arrange(&self, page: &mut [Arc<Object>]) {
        if self.storage.resource == "flowschemas" && self.storage.group == "flowcontrol.apiserver.k8s.io" {
            page.sort_by_cached_key(|object| {
                let json = [b"{", &object.tail[..]].concat();
                let precedence = self.node(&json).path("spec.matchingPrecedence").int();
                (precedence, object.name().to_owned())
            });
        }
    }

    fn node<'j>(&self, json: &'j [u8]) -> Node<'j> {
        // `ingest` lets in only what is JSON.
        std::str::from_utf8(json).ok().and_then(|json| Node::read(json, &self.want).ok()).unwrap_or_default()
    }
}

/// How a resource is written as a Table: its columns, and what its rows have.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    table: Arc<Table>,
    include: Include,
    base: Arc<Form>,
    version: MetaVersion,
    partial: Form,
    now: Clock,
}

impl Rows {
    pub(super) fn new(version: MetaVersion, table: Arc<Table>, include: Include, base: Arc<Form>, now: Clock) -> Self {
        let partial = Form::metadata_only(version, &table.storage);
        Self { table, include, base, version, partial, now }
    }

    /// The definitions of the columns.
    pub(super) fn columns(&self) -> &str {
        &self.table.columns
    }

    /// What each event says of the columns: nothing but for API services, whose convertor (kube-aggregator's) does not know that they are told.
    pub(super) fn columns_of_events(&self) -> Option<&str> {
        (self.table.storage.group == "apiregistration.k8s.io").then(|| self.columns())
    }

    /// As [`Table::arrange`].
    pub(super) fn arrange(&self, page: &mut [Arc<Object>]) {
        self.table.arrange(page);
    }

    /// Whether a list without rows has `null` for them: apiserver's default convertor begins with a nil slice, the others do not.
    pub(super) fn are_nil_when_empty(&self) -> bool {
        matches!(self.table.cells, Cells::BuiltIn { own: false, .. })
    }

    /// Appends the row of an object that is shown under a revision.
    pub(super) fn row_into(&self, object: &Object, revision: Revision, out: &mut Vec<u8>) {
        let mut json = Vec::with_capacity(object.tail.len() + 64);
        match self.table.cells {
            Cells::Custom(_) => self.base.body_into(object, revision, &mut json),
            Cells::BuiltIn { .. } => {
                json.push(b'{');
                json.extend_from_slice(&object.tail);
            }
        }
        self.open_into(&json, out);
        match self.include {
            Include::Metadata => self.partial.body_into(object, revision, out),
            Include::Object => self.base.body_into(object, revision, out),
            Include::None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }

    /// Appends the row of an object that was just written, of its tree in the version that is stored.
    pub(super) fn written_into(&self, custom: bool, object: &Value, out: &mut Vec<u8>) {
        self.open_into(&shown(custom, object), out);
        match self.include {
            Include::Metadata => out.extend_from_slice(&shown(false, &only_metadata(self.version, object))),
            Include::Object => out.extend_from_slice(&self.base.written(custom, object)),
            Include::None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }

    /// Appends the row of a bookmark: the cells of an object that has nothing.
    pub(super) fn bookmark_row_into(&self, revision: Revision, annotated: bool, out: &mut Vec<u8>) {
        let mut json = Vec::new();
        self.base.bookmark_object_into(revision, annotated, &mut json);
        self.open_into(&json, out);
        match self.include {
            Include::Object => out.extend_from_slice(&json),
            Include::None if !annotated => out.extend_from_slice(b"null"),
            Include::Metadata | Include::None => self.partial.bookmark_object_into(revision, annotated, out),
        }
        out.push(b'}');
    }

    /// Appends the cells and conditions of an object, up to its own place.
    fn open_into(&self, json: &[u8], out: &mut Vec<u8>) {
        let object = self.table.node(json);
        out.extend_from_slice(b"{\"cells\":");
        let mut row = Row::open(Moment::since_epoch((self.now)()), out);
        match &self.table.cells {
            Cells::BuiltIn { printer, .. } => (printer.print)(&object, &mut row),
            Cells::Custom(columns) => columns.print(&object, &mut row),
        }
        let conditions = row.close();
        if !conditions.is_empty() {
            out.extend_from_slice(b",\"conditions\":");
            out.extend_from_slice(conditions.as_bytes());
        }
        out.extend_from_slice(b",\"object\":");
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::form::error_event;

    fn form(include: Include) -> Form {
        let shape = Shape::BuiltIn { kind: "ConfigMap".to_owned(), api_version: "v1".to_owned() };
        let (group, resource) = (String::new(), "configmaps".to_owned());
        let storage = Storage { id: "configmaps".into(), group, resource, namespaced: true, shape, fields: Vec::new() };
        let base = Arc::new(Form::built_in("v1", "ConfigMap", "ConfigMapList", ""));
        Form::table(MetaVersion::V1, Arc::new(Table::of(&storage, &[])), include, base, || Duration::from_secs(1 << 30))
    }

    #[test]
    fn only_the_first_event_of_a_frame_tells_the_columns() {
        let form = form(Include::None);
        let one = form.bookmark(Revision(7), true);
        let first = form.first_event(&one);
        assert!(first.len() > one.len() + 900 && first.ends_with(&one[one.len() - 90..]));
        let frame = Bytes::from([&one[..], &one[..]].concat());
        assert_eq!(form.first_event(&frame), [&first[..], &one[..]].concat());
        let failed = Bytes::from([&error_event(b"{}")[..], &one[..]].concat());
        assert_eq!(form.first_event(&failed), failed, "a Status has no columns");
        let plain = Form::built_in("v1", "ConfigMap", "ConfigMapList", "");
        assert_eq!(plain.first_event(&one), one);
    }

    #[test]
    fn what_may_be_included() {
        let all = ["", "Metadata", "Object", "None", "none"].map(Include::parse);
        assert_eq!(all, [Some(Include::Metadata), Some(Include::Metadata), Some(Include::Object), Some(Include::None), None]);
    }

    /// Recorded from kube-apiserver 1.36.3: `/scale` of a custom resource and of a Deployment, both without `spec.replicas`.
    #[test]
    fn scales_of_custom_resources_have_columns_of_their_own() {
        let scale =
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "b"}, "spec": {}, "status": {"replicas": 2}});
        let check = |custom: bool, columns: &str, row: &str| {
            let table = Arc::new(Table::of_scale(custom));
            assert!(table.columns.contains(columns), "{}", table.columns);
            let base = Arc::new(Form::built_in("autoscaling/v1", "Scale", "ScaleList", ""));
            let form = Form::table(MetaVersion::V1, table, Include::Object, base, || Duration::ZERO);
            let text = String::from_utf8(form.written(false, &scale)).expect("UTF-8");
            assert!(text.contains(row), "{text}");
        };
        let age = r#"{"name":"Age","type":"date","format":"","description":"CreationTimestamp is"#;
        check(true, age, r#""rows":[{"cells":["b",null,2,null],"object":{"kind":"Scale","#);
        let desired = r#"{"name":"Desired","type":"integer","format":"","description":"replicas is"#;
        check(false, desired, r#""rows":[{"cells":["b",0,2,"\u003cunknown\u003e"],"object":{"kind":"Scale","#);
    }
}
