//! Tables recorded from a live kube-apiserver 1.36.3 (`tests/data/table/record.py`), told from the same stored objects.

use std::{fs, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::{Include, Table};
use crate::{Encoder, ListMeta, MetaVersion, ingest, versions::Version};
use model::{Kind, Object, PrinterColumn, Revision, Shape, Storage};

/// What a case says of its resource.
#[derive(Deserialize)]
struct Resource {
    group: String,
    version: String,
    resource: String,
    kind: String,
    list_kind: String,
    namespaced: bool,
    prefix: String,
    stored_as: Option<String>,
    bookmark_zero: Option<String>,
    bookmark_annotations: Option<String>,
    conversion: Option<String>,
    custom: Option<Vec<PrinterColumn>>,
}

impl Resource {
    fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    fn storage(&self) -> Storage {
        let events = self.resource == "events";
        let shape = match (&self.custom, self.conversion.as_deref()) {
            (Some(_), _) => Shape::Custom { kind: self.kind.clone(), api_versions: vec![self.api_version()], schema: None },
            (None, Some("definition")) => Shape::Definition,
            _ => Shape::BuiltIn { kind: self.kind.clone(), api_version: self.stored_as.clone().expect("a built-in has it") },
        };
        let group = if events { String::new() } else { self.group.clone() };
        Storage {
            id: self.prefix.as_str().into(),
            group,
            resource: self.resource.clone(),
            namespaced: self.namespaced,
            shape,
            fields: Vec::new(),
        }
    }

    fn encoder(&self) -> Encoder {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        match (&self.custom, self.conversion.as_deref()) {
            (Some(_), _) => Encoder::custom(&self.api_version(), &self.kind, &self.list_kind),
            _ => {
                let (zero, annotations) = (text(&self.bookmark_zero), text(&self.bookmark_annotations));
                Encoder::built_in_annotated(&self.api_version(), &self.kind, &self.list_kind, &zero, &annotations)
            }
        }
    }
}

/// What a line is, and the rest of it: `get None v1` has three words.
fn words(line: &str) -> (String, String) {
    let length = if line.starts_with("get ") || line.starts_with("watch ") { 3 } else { 1 };
    let end = line.match_indices(' ').nth(length - 1).map_or(line.len(), |(at, _)| at);
    (line[..end].to_owned(), line[end..].trim_start().to_owned())
}

/// A case: its lines, and the objects that it had stored.
struct Case {
    name: String,
    lines: Vec<(String, String)>,
    resource: Resource,
    objects: Vec<Arc<Object>>,
    table: Arc<Table>,
}

thread_local! {
    /// The server's time when the case was recorded; a clock is a plain function.
    static NOW: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn now() -> Duration {
    Duration::from_secs(NOW.get())
}

impl Case {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a case");
        let lines: Vec<(String, String)> = text.lines().map(words).collect();
        let resource: Resource = serde_json::from_str(&lines[0].1).expect("the first line tells the resource");
        let storage = resource.storage();
        let stored = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let (key, revision, value) = (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
            let revision = Revision(revision.parse().expect("digits"));
            let prefix = "/registry/".len() + storage.id.len() + 1;
            Arc::new(ingest(&storage, prefix, Bytes::from(key.to_owned()), value.as_bytes(), revision).expect("an object"))
        };
        let mut objects: Vec<Arc<Object>> = lines.iter().filter(|(what, _)| what == "stored").map(|(_, line)| stored(line)).collect();
        objects.sort_by(|a, b| a.key().cmp(b.key()));
        let table = Arc::new(Table::of(&storage, resource.custom.as_deref().unwrap_or_default()));
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let case = Self { name, lines, resource, objects, table };
        NOW.set(case.one("now").expect("a time").parse().expect("seconds"));
        case
    }

    fn all<'c>(&'c self, what: &str) -> impl Iterator<Item = &'c str> {
        self.lines.iter().filter(move |(known, _)| known == what).map(|(_, rest)| &**rest)
    }

    fn one(&self, what: &str) -> Option<&str> {
        self.lines.iter().find(|(known, _)| known == what).map(|(_, rest)| &**rest)
    }

    /// The object that was recorded alone.
    fn first(&self) -> &Object {
        let key = self.one("stored").and_then(|line| line.split(' ').next()).expect("a key");
        self.objects.iter().find(|object| object.key() == key.as_bytes()).expect("it is stored")
    }

    fn encoder(&self, include: Include, version: MetaVersion) -> Encoder {
        Encoder::table(version, Arc::clone(&self.table), include, &self.resource.encoder(), now)
    }

    /// Compares, with what the case writes short written long.
    fn check(&self, what: &str, version: MetaVersion, ours: &[u8], recorded: &str) {
        let ours = std::str::from_utf8(ours).expect("UTF-8").trim_end();
        let partial = self.one("partial").expect("metadata").replace("meta.k8s.io/v1", version.api_version());
        let recorded = recorded.replace("\"columnDefinitions\":@columns", &format!("\"columnDefinitions\":{}", self.table.columns));
        let recorded = recorded.replace("\"object\":@object}", &format!("\"object\":{}}}", self.one("object").expect("an object")));
        let recorded = recorded.replace("\"object\":@partial}", &format!("\"object\":{partial}}}"));
        if ours != recorded {
            let at = ours.bytes().zip(recorded.bytes()).take_while(|(a, b)| a == b).count();
            let near =
                |text: &str| String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(60)..(at + 160).min(text.len())]).into_owned();
            panic!("{} {what}, byte {at}:\nours     {}\nrecorded {}", self.name, near(ours), near(&recorded));
        }
    }

    fn list(&self, what: &str, objects: &[Arc<Object>]) {
        let Some(recorded) = self.one(what) else { return };
        let meta: Value = serde_json::from_str(&recorded.replace("@columns", "null")).expect("JSON");
        let meta = &meta["metadata"];
        let meta = ListMeta {
            revision: Revision(meta["resourceVersion"].as_str().expect("a revision").parse().expect("digits")),
            continue_token: meta["continue"].as_str().map(str::to_owned),
            remaining: meta["remainingItemCount"].as_u64(),
            shard: None,
        };
        let encoder = self.encoder(Include::None, MetaVersion::V1);
        let mut page = objects.to_vec();
        encoder.sort(&mut page);
        let mut out = Vec::new();
        if page.is_empty() {
            encoder.empty_list_into(&meta, &mut out);
        } else {
            encoder.list_prologue_into(&meta, &mut out);
            for (i, object) in page.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                encoder.item_into(object, &mut out);
            }
            encoder.list_epilogue_into(&meta, &mut out);
        }
        self.check(what, MetaVersion::V1, &out, recorded);
    }
}

/// The revision that a recorded frame, or its Table, tells first.
fn revision(recorded: &str) -> Revision {
    let digits = recorded.split("\"resourceVersion\":\"").nth(1).and_then(|rest| rest.split('"').next());
    Revision(digits.and_then(|digits| digits.parse().ok()).expect("a revision"))
}

fn watch(case: &Case, what: &str, include: Include, version: MetaVersion) {
    let encoder = case.encoder(include, version);
    for recorded in case.all(what) {
        let ours = if recorded.starts_with(r#"{"type":"BOOKMARK""#) {
            encoder.bookmark(revision(recorded), what != "plain")
        } else if recorded.starts_with(r#"{"type":"DELETED""#) {
            encoder.event(Kind::Deleted, case.first(), revision(recorded))
        } else if what == "second" {
            encoder.event(Kind::Added, &case.objects[1], case.objects[1].revision)
        } else {
            encoder.event(Kind::Added, case.first(), case.first().revision)
        };
        let ours = ours.expect("JSON");
        let ours = if recorded.contains("\"columnDefinitions\":@columns") { encoder.first_event(&ours) } else { ours };
        case.check(what, version, &ours, recorded);
    }
}

/// What a write answers: the same up to the object, whose inner members a tree has in another order.
fn written(case: &Case, what: &str, include: Include) {
    let (Some(line), Some(whole)) = (case.one(what), case.one(&format!("{what}-whole"))) else { return };
    let (seconds, recorded) = line.split_once(' ').expect("a time");
    NOW.set(seconds.parse().expect("seconds"));
    let whole: Value = serde_json::from_str(whole).expect("JSON");
    let version = Version::of(&case.resource.api_version(), &case.resource.kind);
    let whole = match (version, &whole) {
        (Some(version), Value::Object(sent)) => version.stored(sent, usize::MAX).expect("no limit"),
        _ => whole,
    };
    let ours = case.encoder(include, MetaVersion::V1).render(case.resource.custom.is_some(), &whole);
    let ours = String::from_utf8(ours).expect("UTF-8");
    let (before, object) = ours.split_once("\"object\":").expect("a row");
    let (told, shown) = recorded.split_once("\"object\":").expect("a row");
    case.check(what, MetaVersion::V1, before.as_bytes(), told);
    let value = |text: &str| serde_json::from_str::<Value>(text.strip_suffix("}]}").expect("one row")).expect("JSON");
    assert_eq!(value(object), value(shown), "{} {what}", case.name);
}

#[test]
fn tables_are_those_of_kube_apiserver() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/table");
    let files = fs::read_dir(cases).expect("cases").map(|entry| entry.expect("a file").path());
    let (mut seen, mut writes) = (0, 0);
    for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "case")) {
        let case = Case::read(&path);
        seen += 1;
        if let Some(columns) = case.one("columns") {
            assert_eq!(&*case.table.columns, columns, "{}", case.name);
        }
        case.list("list", &case.objects);
        case.list("page", &case.objects[..case.objects.len().min(2)]);
        case.list("empty", &[]);
        for (word, include) in [("Metadata", Include::Metadata), ("Object", Include::Object), ("None", Include::None)] {
            for version in [MetaVersion::V1, MetaVersion::V1Beta1] {
                let asked = format!("{word} {}", version.api_version().trim_start_matches("meta.k8s.io/"));
                for recorded in case.all(&format!("get {asked}")) {
                    let mut out = Vec::new();
                    case.encoder(include, version).object_into(case.first(), &mut out);
                    case.check(&asked, version, &out, recorded);
                }
                watch(&case, &format!("watch {asked}"), include, version);
            }
        }
        watch(&case, "second", Include::None, MetaVersion::V1);
        watch(&case, "plain", Include::None, MetaVersion::V1);
        watch(&case, "deleted", Include::Metadata, MetaVersion::V1);
        for (what, include) in [("posted", Include::Metadata), ("posted-object", Include::Object), ("dry", Include::Metadata)] {
            written(&case, what, include);
            writes += usize::from(case.one(what).is_some());
        }
    }
    assert!(seen >= 62 && writes >= 12, "every resource has a case, some were written");
}
