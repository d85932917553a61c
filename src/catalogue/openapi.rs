//! The OpenAPI documents of a catalogue, of v3 one for each group version, of v2 one for all: what may be asked, and of which types the answers are.
//!
//! As with discovery, they list what is answered and nothing else. What people read, descriptions and defaults, is not there.

mod paths;
mod recorded;
mod schemas;
mod swagger;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};
use sha2::{Digest, Sha512};

use super::{Catalogue, GroupVersion, Offer, served::api_version};
pub use recorded::{built_in_schema_name, built_in_schemas, built_in_schemas_of};

use paths::{path_of_review, paths_of};
use schemas::{Schemas, SpecVersion, text};

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
            let place = |(group, version): (&str, &GroupVersion)| {
                let (path, hash) = (path_of(group, &version.version), &self.document(group, version).hash);
                let url = json!({ "serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}") });
                (path, url)
            };
            bytes_of(&json!({ "paths": self.told().map(place).collect::<Map<_, _>>() }))
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

    /// `/openapi/v2`, and when it was made, as the time since 1970: `now` of who asks first.
    pub fn openapi_v2(&self, now: Duration) -> (&Document, Duration) {
        let (document, made) = self.openapi_v2.get_or_init(|| (self.swagger(), now));
        (document, *made)
    }

    fn swagger(&self) -> Document {
        let places = self.told().map(|(group, version)| (group, &*version.version)).collect();
        let mut schemas = Schemas::new(SpecVersion::V2, places);
        let mut paths = BTreeMap::new();
        // The operations of a group version at a time are trees.
        for (_, version) in self.told() {
            let told = paths_in(version, self.offer, &mut schemas).into_iter();
            paths.extend(told.map(|(path, of)| (path, text(&swagger::path(of, version.built_in)))));
        }
        document_of(&Swagger { definitions: schemas.done(), info: INFO, paths, swagger: "2.0" })
    }

    /// The group versions that documents tell of.
    fn told(&self) -> impl Iterator<Item = (&str, &GroupVersion)> {
        let versions = self.groups.iter().flat_map(|(group, versions)| versions.iter().map(move |version| (group.as_str(), version)));
        versions.filter(|(_, version)| version.is_listed())
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
    let known = || BUILT_INS.lock();
    if let Some(document) = known().get(&key) {
        return Arc::clone(document);
    }
    // Made without the lock: two that make it at once make the same.
    let document = Arc::new(made(group, version, offer));
    Arc::clone(known().entry(key).or_insert(document))
}

fn made(group: &str, version: &GroupVersion, offer: Offer) -> Document {
    let mut schemas = Schemas::new(SpecVersion::V3, BTreeSet::from([(group, &*version.version)]));
    let paths = paths_in(version, offer, &mut schemas);
    document_of(&OpenApi { components: Components { schemas: schemas.done() }, info: INFO, openapi: "3.0.0", paths })
}

fn paths_in<'a>(version: &'a GroupVersion, offer: Offer, schemas: &mut Schemas<'a>) -> Map<String, Value> {
    schemas.of(&version.schemas);
    let mut paths = Map::new();
    for served in version.listed() {
        paths.extend(paths_of(served, offer, schemas));
    }
    paths.extend(version.reviews.iter().map(|review| path_of_review(review, schemas)));
    paths
}

fn document_of(document: &impl Serialize) -> Document {
    let body: Bytes = serde_json::to_vec(document).expect("documents have string keys and no failing serializer").into();
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

/// The same of Swagger 2.0.
#[derive(Serialize)]
struct Swagger {
    definitions: BTreeMap<String, Box<RawValue>>,
    info: Info,
    paths: BTreeMap<String, Box<RawValue>>,
    swagger: &'static str,
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

const INFO: Info = Info { title: "Kubernetes", version: "1.36" };

fn bytes_of(document: &Value) -> Bytes {
    document.to_string().into()
}

#[cfg(test)]
mod tests;
