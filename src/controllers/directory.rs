//! The definitions of a server that extends a cluster: files in a directory, which are written to the store as a client would write them, so that they pass the
//! same validation (docs/decisions/0024). What is wrong is named, and the rest is served. Nothing is ever deleted: a definition that is in no file any more is
//! not served, and its objects stay.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::{Controllers, Extension};
use cache::state::snapshot::Known;
use go::yaml::reader;
use model::Object;
use registry::Resource;
use storage::write::{Syntax, WriteRequest, failure::WriteError, object_ref::ObjectRef};

/// Between two looks at the directory.
const POLL_EVERY: Duration = Duration::from_secs(5);
/// Files that are read, and bytes of each: twice what the API takes of one object.
const FILES_MAX: usize = 1_000;
const FILE_BYTES_MAX: u64 = 6 << 20;
/// What names of such files end with.
const ENDINGS: [&str; 3] = [".yaml", ".yml", ".json"];
/// How often a definition is computed again because somebody else has written it.
const TRIES: usize = 5;
const RETRY: Duration = Duration::from_millis(200);

/// Texts of files, by name; an error where one cannot be read.
type Files = BTreeMap<String, Result<String, String>>;

/// What the files want.
#[derive(Debug, Default, PartialEq)]
struct Desired {
    /// By name: the definition, and the file that it is in.
    definitions: BTreeMap<String, (Value, String)>,
    /// What is wrong with files, one line each.
    wrong: Vec<String>,
    /// Something could not be read, so it is not known what the files do not have.
    is_partial: bool,
}

/// Follows the directory for ever.
pub(super) async fn run(controllers: &Controllers, extension: &Extension) {
    let Some(directory) = &extension.definitions else { return };
    let Some(resource) = controllers.resources.load().definitions().cloned() else { return };
    let (mut done, mut told) = (None, None);
    loop {
        let path = directory.clone();
        let outcome = match spawn_blocking(move || read(&path)).await {
            Ok(Ok(files)) => {
                let digest = digest(&files);
                if done == Some(digest) {
                    sleep(POLL_EVERY).await;
                    continue;
                }
                let outcome = follow(controllers, &resource, desired(&files)).await;
                done = outcome.is_ok().then_some(digest);
                outcome.map_err(|error| error.to_string())
            }
            Ok(Err(why)) => Err(why),
            // The process is stopping.
            Err(_) => return,
        };
        let wrong = outcome.unwrap_or_else(|why| vec![format!("{}: {why}", directory.display())]);
        let wrong = Some(wrong.join("; ")).filter(|line| !line.is_empty());
        if wrong != told {
            match &wrong {
                Some(why) => tracing::warn!(%why, "not all of --definitions is served; what was served before goes on"),
                None => tracing::info!("all of --definitions is served"),
            }
        }
        extension.wrong.store(wrong.clone().map(Arc::new));
        told = wrong;
        sleep(POLL_EVERY).await;
    }
}

fn read(directory: &Path) -> Result<Files, String> {
    let mut files = Files::new();
    for entry in fs::read_dir(directory).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // Mounted ConfigMaps have hidden directories.
        if name.starts_with('.') || !ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        if files.len() == FILES_MAX {
            return Err(format!("more than {FILES_MAX} files"));
        }
        files.insert(name, text(&entry.path()));
    }
    Ok(files)
}

fn text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > FILE_BYTES_MAX { Err(format!("more than {FILE_BYTES_MAX} bytes")) } else { Ok(text) }
}

/// The texts of the files in a directory, by name.
///
/// # Errors
/// The directory, or a file in it, cannot be read.
pub fn texts(directory: &Path) -> Result<BTreeMap<String, String>, String> {
    let whole = |(file, text): (String, Result<String, String>)| text.map_err(|why| format!("{file}: {why}")).map(|text| (file, text));
    read(directory)?.into_iter().map(whole).collect()
}

/// All definitions that these files have.
///
/// # Errors
/// What is wrong with them, one line each.
pub fn all_of(texts: &BTreeMap<String, String>) -> Result<Vec<Value>, Vec<String>> {
    let files = texts.iter().map(|(file, text)| (file.clone(), Ok(text.clone()))).collect();
    let Desired { definitions, mut wrong, .. } = desired(&files);
    if definitions.is_empty() && wrong.is_empty() {
        wrong.push("there is no definition".to_owned());
    }
    if wrong.is_empty() { Ok(definitions.into_values().map(|(definition, _)| definition).collect()) } else { Err(wrong) }
}

fn digest(files: &Files) -> u64 {
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    hasher.finish()
}

fn desired(files: &Files) -> Desired {
    let mut desired = Desired::default();
    for (file, text) in files {
        let documents = text.as_ref().map_err(String::clone).and_then(|text| documents(text));
        let documents = match documents {
            Ok(documents) => documents,
            Err(why) => {
                desired.is_partial = true;
                desired.wrong.push(format!("{file}: {why}"));
                continue;
            }
        };
        for document in documents {
            match named(&document) {
                Ok(name) => match desired.definitions.get(&name) {
                    Some((_, other)) => desired.wrong.push(format!("{file}: {name} is in {other} too, which counts")),
                    None => {
                        desired.definitions.insert(name, (document, file.clone()));
                    }
                },
                Err(why) => desired.wrong.push(format!("{file}: {why}")),
            }
        }
    }
    desired
}

/// The documents of a file, in YAML or JSON; those of a list each for itself.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line == "---" || line.starts_with("--- ") {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    let mut found = Vec::new();
    for document in documents {
        match reader::parse(document.as_bytes()).map_err(|error| error.to_string())?.value {
            Value::Null => {}
            mut list if list["kind"] == "List" || list["kind"] == "CustomResourceDefinitionList" => {
                found.extend(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default());
            }
            document => found.push(document),
        }
    }
    Ok(found)
}

/// Its name, if it is a definition that we may serve.
fn named(document: &Value) -> Result<String, String> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if (text("/apiVersion"), text("/kind")) != ("apiextensions.k8s.io/v1", "CustomResourceDefinition") {
        return Err(format!("{} {} is no CustomResourceDefinition of apiextensions.k8s.io/v1", text("/apiVersion"), text("/kind")));
    }
    let (name, group) = (text("/metadata/name"), text("/spec/group"));
    if name.is_empty() {
        return Err("a definition without a name".to_owned());
    }
    if catalogue::is_built_in_place(group) {
        return Err(format!("{name}: {group} is a group of Kubernetes, which the host cluster serves"));
    }
    Ok(name.to_owned())
}

/// Reconciles the stored definitions with the directory; returns the errors.
async fn follow(controllers: &Controllers, resource: &Arc<Resource>, desired: Desired) -> Result<Vec<String>, WriteError> {
    if resource.handle.published.wait_until(Known::is_ready, POLL_EVERY).await.is_err() {
        return Err(WriteError::NotYet("the stored definitions are not loaded yet".to_owned()));
    }
    let (mut wrong, mut written) = (desired.wrong, 0);
    for (name, (definition, file)) in &desired.definitions {
        match change(controllers, resource, name, |stored| Some(merged(definition, stored))).await {
            Ok(is_written) => written += usize::from(is_written),
            Err(error) if is_final(&error) => wrong.push(format!("{file}: {name}: {}", told(&error))),
            Err(error) => return Err(error),
        }
    }
    let mut withdrawn = 0;
    if !desired.is_partial {
        let known = resource.handle.published.known();
        let stored: BTreeSet<String> = known.snapshot.store.scan(b"", b"").map(|object| object.name().to_owned()).collect();
        for name in stored.iter().filter(|name| !desired.definitions.contains_key(*name)) {
            withdrawn += usize::from(change(controllers, resource, name, |stored| stored.and_then(withdrawn_from)).await?);
        }
    }
    if written + withdrawn > 0 {
        tracing::info!(written, withdrawn, "definitions are as --definitions says");
    }
    Ok(wrong)
}

/// What is in the file, in the place of what is stored: its spec, and labels and annotations besides those that are there.
fn merged(definition: &Value, stored: Option<Value>) -> Value {
    let Some(mut merged) = stored else {
        let kept = |member: &str| definition["metadata"].get(member).cloned().unwrap_or_else(|| json!({}));
        let metadata = json!({ "name": definition["metadata"]["name"], "labels": kept("labels"), "annotations": kept("annotations") });
        return json!({ "apiVersion": definition["apiVersion"], "kind": definition["kind"], "metadata": metadata, "spec": definition["spec"] });
    };
    merged["spec"] = definition["spec"].clone();
    for member in ["labels", "annotations"] {
        for (key, value) in definition["metadata"][member].as_object().into_iter().flatten() {
            merged["metadata"][member][key] = value.clone();
        }
    }
    merged
}

/// This definition with nothing served; none when nothing is.
fn withdrawn_from(mut stored: Value) -> Option<Value> {
    let versions = stored.pointer_mut("/spec/versions").and_then(Value::as_array_mut)?;
    let served = versions.iter_mut().filter(|version| version["served"] == true);
    let count = served.map(|version| version["served"] = false.into()).count();
    (count > 0).then_some(stored)
}

/// Writes what `to` makes of the definition that is stored, as a client would; whether there was anything to write.
async fn change(
    controllers: &Controllers,
    resource: &Arc<Resource>,
    name: &str,
    to: impl Fn(Option<Value>) -> Option<Value>,
) -> Result<bool, WriteError> {
    let mut tries = 0;
    loop {
        let place = ObjectRef { resource: resource.clone(), namespace: None, name: name.to_owned() };
        let known = resource.handle.published.known();
        let stored = known.snapshot.store.find(&place.key(&controllers.prefix)).cloned();
        let before = stored.as_ref().and_then(|object| tree(resource, object));
        let Some(object) = to(before.clone()) else { return Ok(false) };
        let is_new = before.is_none();
        let place = if is_new { ObjectRef { name: String::new(), ..place } } else { place };
        let ask = WriteRequest::by_server(place);
        let body = object.to_string();
        let outcome = if is_new {
            controllers.writer.create(&ask, Syntax::Json, body.as_bytes(), &mut Vec::new()).await
        } else {
            controllers.writer.replace(&ask, Syntax::Json, body.as_bytes(), &mut Vec::new()).await
        };
        match outcome {
            Ok(written) => return Ok(written.stored.is_some()),
            // The cache is behind, or somebody else has written it.
            Err(WriteError::AlreadyExists { .. } | WriteError::Conflict { .. }) if tries < TRIES => {
                tries += 1;
                sleep(RETRY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

fn tree(resource: &Resource, object: &Object) -> Option<Value> {
    let mut json = Vec::new();
    resource.encoders.whole().encoder.object_into(object, &mut json);
    serde_json::from_slice(&json).ok()
}

/// Whether it would come again with the same file.
fn is_final(error: &WriteError) -> bool {
    matches!(
        error,
        WriteError::BadRequest(_)
            | WriteError::Forbidden { .. }
            | WriteError::Invalid { .. }
            | WriteError::TooLarge(_)
            | WriteError::Undecodable(_)
    )
}

fn told(error: &WriteError) -> String {
    match error {
        WriteError::Invalid { errors, .. } => {
            errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, group: &str) -> String {
        format!("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {name}\nspec:\n  group: {group}\n")
    }

    #[test]
    fn files_are_read_as_kubectl_reads_them_and_what_is_wrong_is_named() {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [reader::parse(definition("c.ex.io", "ex.io").as_bytes()).expect("YAML").value]});
        let files = Files::from([
            ("a.yaml".to_owned(), Ok(format!("# first\n---\n{}---\n{}", definition("a.ex.io", "ex.io"), definition("b.ex.io", "ex.io")))),
            ("b.json".to_owned(), Ok(list.to_string())),
            ("c.yaml".to_owned(), Ok(format!("{}---\n{}", definition("a.ex.io", "ex.io"), definition("d.apps", "apps")))),
            ("d.yaml".to_owned(), Ok("kind: Pod\napiVersion: v1\n---\n".to_owned() + &definition("\"\"", "ex.io"))),
        ]);
        let found = desired(&files);
        assert_eq!(found.definitions.keys().collect::<Vec<_>>(), ["a.ex.io", "b.ex.io", "c.ex.io"]);
        let wrong = [
            "c.yaml: a.ex.io is in a.yaml too, which counts",
            "c.yaml: d.apps: apps is a group of Kubernetes, which the host cluster serves",
            "d.yaml: v1 Pod is no CustomResourceDefinition of apiextensions.k8s.io/v1",
            "d.yaml: a definition without a name",
        ];
        assert_eq!(found.wrong, wrong);
        assert!(!found.is_partial);
        let broken =
            desired(&Files::from([("a.yaml".to_owned(), Ok("a: [".to_owned())), ("b.yaml".to_owned(), Err("is away".to_owned()))]));
        assert!(broken.is_partial && broken.wrong.len() == 2 && broken.definitions.is_empty(), "{broken:?}");
    }

    #[test]
    fn a_file_changes_what_it_names_and_no_more() {
        let file = json!({"apiVersion": "x", "kind": "y", "metadata": {"name": "a", "labels": {"l": "2"}, "uid": "no"}, "spec": {"group": "new"}, "status": {"no": 1}});
        let new = merged(&file, None);
        assert_eq!(
            new,
            json!({"apiVersion": "x", "kind": "y", "metadata": {"name": "a", "labels": {"l": "2"}, "annotations": {}}, "spec": {"group": "new"}})
        );
        let stored = json!({"metadata": {"name": "a", "uid": "u", "finalizers": ["f"], "labels": {"k": "1", "l": "1"}}, "spec": {"group": "old"}, "status": {"s": 1}});
        let updated = merged(&file, Some(stored));
        assert_eq!(updated["metadata"], json!({"name": "a", "uid": "u", "finalizers": ["f"], "labels": {"k": "1", "l": "2"}}));
        assert_eq!((&updated["spec"], &updated["status"]), (&json!({"group": "new"}), &json!({"s": 1})));
    }

    #[test]
    fn what_no_file_has_is_not_served_and_stays() {
        let stored = json!({"spec": {"group": "g", "versions": [{"name": "v1", "served": true}, {"name": "v0", "served": false}]}});
        let withdrawn = withdrawn_from(stored).expect("something was served");
        assert_eq!(
            withdrawn,
            json!({"spec": {"group": "g", "versions": [{"name": "v1", "served": false}, {"name": "v0", "served": false}]}})
        );
        assert_eq!(withdrawn_from(withdrawn), None);
    }
}
