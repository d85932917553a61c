//! The OpenAPI v3 documents of a catalogue: what may be asked of each group version, and of which types the answers are. Knows no HTTP.
//!
//! As with discovery, they list what is answered and nothing else. What people read, descriptions and defaults, is not there.

mod paths;
mod schemas;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};
use sha2::{Digest, Sha512};

use super::{Catalogue, GroupVersion, Offer, served::api_version};
use paths::{path_of_review, paths_of};
use schemas::Schemas;

/// One document.
#[derive(Debug)]
pub struct Document {
    /// Compact JSON.
    pub body: Bytes,
    /// SHA-512 of it in upper-case hex: its ETag without the quotes, and the `hash` that its URL is told with.
    pub hash: String,
}

/// Documents of built-in group versions, which are the same in every catalogue, by offer and path.
type BuiltIns = HashMap<(Offer, String), Arc<Document>>;
static BUILT_INS: LazyLock<Mutex<BuiltIns>> = LazyLock::new(Mutex::default);

impl Catalogue {
    /// `/openapi/v3`: where the documents are. Makes those that are not there yet, for the hash of each.
    #[must_use]
    pub fn openapi_index(&self) -> &Bytes {
        self.openapi_index.get_or_init(|| {
            let versions = self.groups.iter().flat_map(|(group, versions)| versions.iter().map(move |version| (group.as_str(), version)));
            let place = |(group, version): (&str, &GroupVersion)| {
                let (path, hash) = (path_of(group, &version.version), &self.document(group, version).hash);
                let url = json!({ "serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}") });
                (path, url)
            };
            bytes_of(&json!({ "paths": versions.filter(|(_, version)| version.is_listed()).map(place).collect::<Map<_, _>>() }))
        })
    }

    /// `/openapi/v3/PATH`: `api/v1` or `apis/G/V`.
    #[must_use]
    pub fn openapi(&self, path: &str) -> Option<&Document> {
        let (group, version) = match path.split_once('/')? {
            ("api", version) => ("", version),
            ("apis", rest) => rest.split_once('/').filter(|(group, _)| !group.is_empty())?,
            _ => return None,
        };
        let found = self.version(group, version).filter(|version| version.is_listed())?;
        Some(self.document(group, found))
    }

    fn document<'a>(&'a self, group: &str, version: &'a GroupVersion) -> &'a Document {
        version.openapi.get_or_init(|| document(group, version, self.offer))
    }
}

/// As a document is asked for, and as its resources' paths begin.
fn path_of(group: &str, version: &str) -> String {
    format!("{}/{}", if group.is_empty() { "api" } else { "apis" }, api_version(group, version))
}

fn document(group: &str, version: &GroupVersion, offer: Offer) -> Arc<Document> {
    if !version.built_in {
        return Arc::new(made(group, version, offer));
    }
    let key = (offer, path_of(group, &version.version));
    let known = || BUILT_INS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(document) = known().get(&key) {
        return Arc::clone(document);
    }
    // Made without the lock: two that make it at once make the same.
    let document = Arc::new(made(group, version, offer));
    Arc::clone(known().entry(key).or_insert(document))
}

fn made(group: &str, version: &GroupVersion, offer: Offer) -> Document {
    let mut schemas = Schemas::new(group, &version.version, &version.schemas);
    let mut paths = Map::new();
    for served in version.listed() {
        paths.extend(paths_of(served, offer, &mut schemas));
    }
    paths.extend(version.reviews.iter().map(|review| path_of_review(review, &mut schemas)));
    let body: Bytes = serde_json::to_vec(&OpenApi {
        components: Components { schemas: schemas.done() },
        info: Info { title: "Kubernetes", version: "1.36" },
        openapi: "3.0.0",
        paths,
    })
    .expect("documents have string keys and no failing serializer")
    .into();
    let hash = Sha512::digest(&body).iter().map(|byte| format!("{byte:02X}")).collect();
    Document { body, hash }
}

#[derive(Serialize)]
struct OpenApi {
    components: Components,
    info: Info,
    openapi: &'static str,
    paths: Map<String, Value>,
}

#[derive(Serialize)]
struct Components {
    schemas: BTreeMap<String, Box<RawValue>>,
}

#[derive(Serialize)]
struct Info {
    title: &'static str,
    version: &'static str,
}

fn bytes_of(document: &Value) -> Bytes {
    document.to_string().into()
}

#[cfg(test)]
mod tests;
