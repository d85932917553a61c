//! Objects as rows of a `Table` of meta.k8s.io (`as=Table`, spec api-surface §4): columns and cells, for built-in and custom resources.
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
mod rows;
mod walk;
mod work;

#[cfg(test)]
mod golden;

use std::{sync::Arc, time::Duration};

use self::{
    custom::Columns,
    node::{Node, Want},
    printers::Printer,
};
use model::{Object, PrinterColumn, Shape, Storage};

pub(super) use self::rows::Rows;

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

    /// That of a Scale, which is no stored object: for [`crate::Encoder::render`] alone. Those of built-ins have a printer, those of custom resources
    /// columns that apiextensions makes up (`getScaleColumnsForVersion`).
    #[must_use]
    pub fn of_scale(custom: bool) -> Self {
        let (group, resource) = ("autoscaling".to_owned(), "scales".to_owned());
        let kind = "Scale".to_owned();
        let shape = if custom {
            Shape::Custom { kind, api_versions: Vec::new(), schema: None }
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
    pub(super) fn sort(&self, page: &mut [Arc<Object>]) {
        if self.storage.resource == "flowschemas" && self.storage.group == "flowcontrol.apiserver.k8s.io" {
            page.sort_by_cached_key(|object| {
                let node = Node::of_object(object, &self.want).unwrap_or_default();
                (node.path("spec.matchingPrecedence").int(), object.name().to_owned())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::{Encoder, MetaVersion};
    use model::Revision;

    fn encoder(include: Include) -> Encoder {
        let shape = Shape::BuiltIn { kind: "ConfigMap".to_owned(), api_version: "v1".to_owned() };
        let (group, resource) = (String::new(), "configmaps".to_owned());
        let storage = Storage { id: "configmaps".into(), group, resource, namespaced: true, shape, fields: Vec::new() };
        let base = Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "");
        Encoder::table(MetaVersion::V1, Arc::new(Table::of(&storage, &[])), include, &base, || Duration::from_secs(1 << 30))
    }

    #[test]
    fn only_the_first_event_of_a_frame_tells_the_columns() {
        let encoder = encoder(Include::None);
        let one = encoder.bookmark(Revision(7), true).expect("JSON");
        let first = encoder.first_event(&one);
        assert!(first.len() > one.len() + 900 && first.ends_with(&one[one.len() - 90..]));
        let frame = Bytes::from([&one[..], &one[..]].concat());
        assert_eq!(encoder.first_event(&frame), [&first[..], &one[..]].concat());
        let failed = Bytes::from([&encoder.error(b"{}").expect("JSON")[..], &one[..]].concat());
        assert_eq!(encoder.first_event(&failed), failed, "a Status has no columns");
        let plain = Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "");
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
            let base = Encoder::built_in("autoscaling/v1", "Scale", "ScaleList", "");
            let encoder = Encoder::table(MetaVersion::V1, table, Include::Object, &base, || Duration::ZERO);
            let text = String::from_utf8(encoder.render(false, &scale)).expect("UTF-8");
            assert!(text.contains(row), "{text}");
        };
        let age = r#"{"name":"Age","type":"date","format":"","description":"CreationTimestamp is"#;
        check(true, age, r#""rows":[{"cells":["b",null,2,null],"object":{"kind":"Scale","#);
        let desired = r#"{"name":"Desired","type":"integer","format":"","description":"replicas is"#;
        check(false, desired, r#""rows":[{"cells":["b",0,2,"\u003cunknown\u003e"],"object":{"kind":"Scale","#);
    }
}
