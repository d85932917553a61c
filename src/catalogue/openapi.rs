//! The OpenAPI documents of a catalogue, of v3 one for each group version and a few besides, of v2 one for all: what may be asked, and of which types the
//! answers are.
//!
//! As discovery does, they list what is answered and nothing else. They are made when somebody asks, of what kube-apiserver publishes of its own types
//! (`recorded`), of definitions, and of rules: which operations there are. What is kept of them is compressed (`kept`).

mod custom;
mod discovery;
mod kept;
mod paths;
mod protobuf;
mod recorded;
mod schemas;
mod swagger;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};
use sha2::{Digest, Sha512};

pub use kept::{Compressed, Form};
pub use recorded::{built_in_schema_name, built_in_schemas, built_in_schemas_of};

use super::{Catalogue, GroupVersion, Offer, served::api_version};
use paths::{paths_of, paths_of_unstored};
use schemas::{Every, Schemas, SpecVersion, text};
use swagger::Taken;

/// SHA-512 of a document's JSON in upper-case hex: the ETag of all its forms without the quotes, and the `hash` that its URL is told with.
pub type Hash = Arc<str>;

/// Hashes of documents without custom resources, which are the same in every catalogue, by offer and path.
type BuiltIns = HashMap<(Offer, String), Hash>;
static BUILT_INS: LazyLock<Mutex<BuiltIns>> = LazyLock::new(Mutex::default);

/// What a document of v3 tells of.
#[derive(Clone, Copy)]
enum Subject<'a> {
    /// One of `discovery::FIXED`.
    Fixed(&'a str),
    Group(&'a str),
    Version(&'a str, &'a GroupVersion),
}

impl Catalogue {
    /// `/openapi/v3`: where the documents are. Makes those whose hash is not known yet.
    #[must_use]
    pub fn openapi_index(&self) -> &Bytes {
        self.openapi_index.get_or_init(|| {
            // All of them are made of one file, which is read once.
            let _shared = recorded::Recorded::get();
            let place = |(path, subject): (String, Subject<'_>)| {
                let hash = self.hash(&path, subject);
                let url = json!({ "serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}") });
                (path, url)
            };
            bytes_of(&json!({ "paths": self.subjects().into_iter().map(place).collect::<Map<_, _>>() }))
        })
    }

    /// The hash of `/openapi/v3/PATH`: `api/v1`, `apis/G/V`; `api`, `apis`, `apis/G`, `version` besides.
    #[must_use]
    pub fn openapi_hash(&self, path: &str) -> Option<Hash> {
        Some(self.hash(path, self.subject(path)?))
    }

    /// `/openapi/v3/PATH`.
    #[must_use]
    pub fn openapi(&self, path: &str, form: Form) -> Option<Compressed> {
        let subject = self.subject(path)?;
        let hash = self.hash(path, subject);
        Some(kept::get(&hash, form).unwrap_or_else(|| kept::put(&hash, form, SpecVersion::V3, &self.made(subject))))
    }

    /// The hash of `/openapi/v2`, and when it was found, as the time since 1970: `now` of who asks first.
    pub fn openapi_v2_hash(&self, now: Duration) -> (Hash, Duration) {
        self.openapi_v2.get_or_init(|| (made_known(SpecVersion::V2, &self.swagger()), now)).clone()
    }

    /// `/openapi/v2`.
    pub fn openapi_v2(&self, form: Form, now: Duration) -> Compressed {
        let (hash, _) = self.openapi_v2_hash(now);
        kept::get(&hash, form).unwrap_or_else(|| kept::put(&hash, form, SpecVersion::V2, &self.swagger()))
    }

    fn subjects(&self) -> Vec<(String, Subject<'_>)> {
        let versions = self.told().map(|(group, version)| (path_of(group, &version.version), Subject::Version(group, version)));
        let groups = self.groups.keys().filter(|group| self.is_told_group(group));
        let groups = groups.map(|group| (format!("apis/{group}"), Subject::Group(group)));
        let fixed = discovery::FIXED.iter().filter(|_| self.has_built_ins).map(|&path| (path.to_owned(), Subject::Fixed(path)));
        versions.chain(groups).chain(fixed).collect()
    }

    fn subject<'a>(&'a self, path: &'a str) -> Option<Subject<'a>> {
        if self.has_built_ins && discovery::FIXED.contains(&path) {
            return Some(Subject::Fixed(path));
        }
        let (group, version) = match path.split_once('/')? {
            ("api", version) => ("", version),
            ("apis", rest) => match rest.split_once('/') {
                Some((group, version)) if !group.is_empty() => (group, version),
                None if self.is_told_group(rest) => return Some(Subject::Group(rest)),
                _ => return None,
            },
            _ => return None,
        };
        let found = self.version(group, version).filter(|version| version.is_listed())?;
        Some(Subject::Version(group, found))
    }

    /// Whether a group has a document of its own, as all of Kubernetes' own have.
    fn is_told_group(&self, group: &str) -> bool {
        !group.is_empty() && self.is_built_in_group(group)
    }

    /// Group versions that documents tell of.
    fn told(&self) -> impl Iterator<Item = (&str, &GroupVersion)> {
        let versions = self.groups.iter().flat_map(|(group, versions)| versions.iter().map(move |version| (group.as_str(), version)));
        versions.filter(|(_, version)| version.is_listed())
    }

    fn hash(&self, path: &str, subject: Subject<'_>) -> Hash {
        if let Subject::Version(_, version) = subject
            && !version.built_in
        {
            return Arc::clone(version.openapi.get_or_init(|| made_known(SpecVersion::V3, &self.made(subject))));
        }
        let key = (self.offer, path.to_owned());
        if let Some(hash) = BUILT_INS.lock().get(&key) {
            return Arc::clone(hash);
        }
        // Made without the lock: two that make it at once make the same.
        let hash = made_known(SpecVersion::V3, &self.made(subject));
        Arc::clone(BUILT_INS.lock().entry(key).or_insert(hash))
    }

    /// A document of v3 as JSON.
    fn made(&self, subject: Subject<'_>) -> Vec<u8> {
        let (every, is_custom) = match subject {
            Subject::Version(_, version) if !version.built_in => (Every::Custom, true),
            Subject::Version(group, version) => (Every::One(group, &version.version), false),
            _ => (Every::All, false),
        };
        let mut schemas = Schemas::new(SpecVersion::V3, every);
        let paths = match subject {
            Subject::Fixed(path) => Map::from_iter([discovery::fixed(path, &mut schemas)]),
            Subject::Group(group) => Map::from_iter([discovery::of_group(group, &mut schemas)]),
            Subject::Version(group, version) => self.paths_in(group, version, &mut schemas),
        };
        let components = Components { schemas: schemas.done(), security: (!is_custom).then(security_schemes) };
        json_of(&OpenApi { components, info: if is_custom { CUSTOM_INFO } else { INFO }, openapi: "3.0.0", paths })
    }

    fn swagger(&self) -> Vec<u8> {
        let mut schemas = Schemas::new(SpecVersion::V2, Every::All);
        let (mut paths, mut shared) = (BTreeMap::new(), swagger::Shared::default());
        // The operations of a document of v3 at a time are trees.
        for (_, subject) in self.subjects() {
            let (told, taken) = match subject {
                Subject::Fixed(path) => (Map::from_iter([discovery::fixed(path, &mut schemas)]), taken_by(path)),
                Subject::Group(group) => (Map::from_iter([discovery::of_group(group, &mut schemas)]), Taken::Answers),
                Subject::Version(group, version) => {
                    let taken = if version.built_in { Taken::Any } else { Taken::Custom };
                    (self.paths_in(group, version, &mut schemas), taken)
                }
            };
            for (path, of) in told {
                // That of discovery stands among those of its group version.
                let taken = if path.ends_with('/') && !matches!(taken, Taken::None) { Taken::Answers } else { taken };
                paths.insert(path, text(&swagger::path(of, taken, &mut shared)));
            }
        }
        json_of(&Swagger {
            definitions: schemas.done(),
            info: INFO,
            parameters: shared.done(),
            paths,
            security: json!([{ "BearerToken": [] }]),
            definitions_of_security: security_schemes(),
            swagger: "2.0",
        })
    }

    fn paths_in<'a>(&self, group: &str, version: &'a GroupVersion, schemas: &mut Schemas<'a>) -> Map<String, Value> {
        schemas.of(&version.schemas);
        let mut paths = Map::new();
        if version.built_in {
            paths.extend([discovery::of_version(group, &version.version, schemas)]);
        }
        for served in version.listed() {
            paths.extend(paths_of(served, self.offer, schemas));
        }
        paths.extend(version.unstored.iter().flat_map(|unstored| paths_of_unstored(unstored, self.offer, schemas)));
        paths
    }
}

/// What the operation of a fixed document takes: those of tokens do not say.
fn taken_by(path: &str) -> Taken {
    if path.contains("openid") { Taken::None } else { Taken::Answers }
}

/// As a document is asked for, and as its resources' paths begin.
fn path_of(group: &str, version: &str) -> String {
    format!("{}/{}", if group.is_empty() { "api" } else { "apis" }, api_version(group, version))
}

/// The hash of a document, which is kept: who asks for one commonly asks for the other.
fn made_known(version: SpecVersion, json: &[u8]) -> Hash {
    let hash: Hash = Sha512::digest(json).iter().map(|byte| format!("{byte:02X}")).collect::<String>().into();
    kept::put(&hash, Form::Json, version, json);
    hash
}

/// A document in protobuf, made of its JSON: one of v2, or one of v3.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub fn protobuf_of(is_v2: bool, json: &[u8]) -> Vec<u8> {
    protobuf::encode(if is_v2 { SpecVersion::V2 } else { SpecVersion::V3 }, json)
}

fn json_of(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).expect("documents have string keys and no failing serializer")
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
    parameters: BTreeMap<String, Box<RawValue>>,
    paths: BTreeMap<String, Box<RawValue>>,
    security: Value,
    #[serde(rename = "securityDefinitions")]
    definitions_of_security: Value,
    swagger: &'static str,
}

#[derive(Serialize)]
struct Components {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    schemas: BTreeMap<String, Box<RawValue>>,
    #[serde(rename = "securitySchemes", skip_serializing_if = "Option::is_none")]
    security: Option<Value>,
}

#[derive(Serialize)]
struct Info {
    title: &'static str,
    version: &'static str,
}

const INFO: Info = Info { title: "Kubernetes", version: "1.36" };
const CUSTOM_INFO: Info = Info { title: "Kubernetes CRD Swagger", version: "v0.1.0" };

fn security_schemes() -> Value {
    json!({ "BearerToken": { "description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey" } })
}

fn bytes_of(document: &Value) -> Bytes {
    document.to_string().into()
}

#[cfg(test)]
mod tests;
