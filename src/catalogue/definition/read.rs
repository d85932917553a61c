//! What we need of one CustomResourceDefinition, and the resources it makes served. Knows neither etcd nor the cache.

mod raw;

use std::{cell::OnceCell, cmp::Ordering, ops::Range, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::{
    builtins::{field_index, members},
    order::preferred_first,
    rules,
    served::{Conversion, Custom, Labels, Origin, ScalePaths, Served, Subresource, UnknownLabel, api_version},
};
use go::quote::quoted;
use model::{FieldPath, Object, PrinterColumn, Shape, Storage, Structural};
use raw::{Names, Raw};

/// Verbs of a custom resource, in the order that discovery has (spec api-surface §2.1).
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Verbs while the definition is being deleted.
const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// What is kept of one CustomResourceDefinition. Two equal ones make the same resources with the same schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    group: String,
    /// The resources it makes served, one for each served version.
    served: Vec<Arc<Served>>,
    /// `openAPIV3Schema` by version, for those that are served and prune: JSON, slices of the stored object's bytes. As trees they would take
    /// twenty times the memory.
    schemas: Vec<(String, Bytes)>,
}

/// The bytes of an object, which slices of them keep alive.
struct Tail(Arc<Object>);

impl AsRef<[u8]> for Tail {
    fn as_ref(&self) -> &[u8] {
        self.0.own_tail()
    }
}

impl Definition {
    /// Reads a definition as it is kept. Takes some milliseconds for each MB.
    ///
    /// # Errors
    /// A sentence for the operator when it is not of that shape or has not exactly one storage version.
    pub fn of(object: &Arc<Object>) -> Result<Self, String> {
        // Without the type head, which says nothing that is not known.
        let json = [b"{", object.own_tail()].concat();
        let tail = Bytes::from_owner(Tail(object.clone()));
        Self::read(&json, |at| tail.slice(at.start - 1..at.end - 1))
    }

    /// Reads a definition in its v1 form or in the stored v1beta1 form; `apiVersion` and `kind` may be missing.
    #[cfg(any(test, feature = "testing"))]
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        Self::read(json, |at| Bytes::copy_from_slice(&json[at]))
    }

    fn read(json: &[u8], slice: impl Fn(Range<usize>) -> Bytes) -> Result<Self, String> {
        let raw: Raw<'_> = serde_json::from_slice(json).map_err(|error| format!("not a CustomResourceDefinition: {error}"))?;
        let name = raw.metadata.name.clone();
        let draft = raw.checked().map_err(|why| format!("CustomResourceDefinition {name}: {why}"))?;
        let place = |schema: &str| {
            let start = schema.as_ptr().addr() - json.as_ptr().addr();
            start..start + schema.len()
        };
        let schema = |served: &Arc<Served>| {
            let version = draft.versions.iter().find(|version| version.name == served.version)?;
            Some((served.version.clone(), slice(place(version.schema.as_ref()?.text))))
        };
        let served = draft.served();
        let schemas = served.iter().filter_map(schema).collect();
        Ok(Self { group: draft.group, served, schemas })
    }

    /// The same without its schemas, and so without the stored object's bytes.
    #[must_use]
    pub fn without_schemas(self) -> Self {
        Self { schemas: Vec::new(), ..self }
    }

    /// The group of its resources.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Whether it makes any resource served: names accepted, or once established (spec api-surface §11.2).
    #[must_use]
    pub fn is_served(&self) -> bool {
        !self.served.is_empty()
    }

    /// The resources, one for each served version.
    pub(crate) fn served(&self) -> &[Arc<Served>] {
        &self.served
    }

    /// `openAPIV3Schema` of a version, when it has one that prunes.
    pub fn schema(&self, version: &str) -> Option<&Bytes> {
        self.schemas.iter().find(|(known, _)| known == version).map(|(_, schema)| schema)
    }
}

/// A definition while it is read.
struct Draft<'a> {
    group: String,
    namespaced: bool,
    /// `status.acceptedNames`: what is published (spec api-surface §11.4).
    names: Names,
    versions: Vec<Version<'a>>,
    /// Index of the version that new values are stored under.
    storage: usize,
    /// `status.storedVersions`: values may be stored under any of these.
    stored: Vec<String>,
    webhook: bool,
    names_accepted: bool,
    established: bool,
    terminating: bool,
}

impl Draft<'_> {
    fn served(&self) -> Vec<Arc<Served>> {
        if !self.names_accepted && !self.established {
            return Vec::new();
        }
        let storage = Arc::new(self.storage());
        let served = self.versions.iter().filter(|version| version.served);
        served.map(|version| Arc::new(self.served_version(version, &storage))).collect()
    }

    fn served_version(&self, version: &Version<'_>, storage: &Arc<Storage>) -> Served {
        Served {
            group: self.group.clone(),
            version: version.name.clone(),
            resource: self.names.plural.clone(),
            singular: self.names.singular.clone(),
            kind: self.names.kind.clone(),
            list_kind: self.names.list_kind.clone(),
            namespaced: self.namespaced,
            short_names: self.names.short_names.clone(),
            categories: self.names.categories.clone(),
            storage: Arc::clone(storage),
            conversion: self.conversion(version),
            origin: Origin::Custom(Custom {
                scale: version.scale.clone(),
                printer_columns: version.columns.clone(),
                established: self.established,
            }),
            warning: self.warning(version),
            stored_as: api_version(&self.group, &self.versions[self.storage].name),
            storage_version_hash: self.hash(),
            rules: rules::CUSTOM,
            verbs: owned(if self.terminating { TERMINATING_VERBS } else { VERBS }),
            subresources: self.subresources(version),
            labels: self.labels(version, storage),
        }
    }

    /// What a `Warning` header says of a deprecated version: its own text, or the default one with the version to use instead, if a preferred one
    /// is served that is not deprecated too (spec api-surface §3.7).
    fn warning(&self, version: &Version<'_>) -> String {
        let Some(own) = &version.deprecation else { return String::new() };
        let (group, kind, this) = (&self.group, &self.names.kind, &version.name);
        let text = own.clone().unwrap_or_else(|| {
            let better = |v: &&Version<'_>| v.served && v.deprecation.is_none() && preferred_first(&v.name, this) == Ordering::Less;
            let best = self.versions.iter().filter(better).min_by(|a, b| preferred_first(&a.name, &b.name));
            let instead = best.map(|v| format!("; use {group}/{} {kind}", v.name)).unwrap_or_default();
            format!("{group}/{this} {kind} is deprecated{instead}")
        });
        format!("299 - {}", quoted(&text))
    }

    fn storage(&self) -> Storage {
        let mut fields = Vec::new();
        for field in self.versions.iter().filter(|version| version.served).flat_map(|version| &version.selectable).map(|path| scalar(path))
        {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        // The one that new values are stored under comes first.
        let mut readable: Vec<&str> = self.readable().map(|version| version.name.as_str()).collect();
        readable.sort_by_key(|name| *name != self.versions[self.storage].name);
        let api_versions = readable.into_iter().map(|name| api_version(&self.group, name)).collect();
        Storage {
            id: format!("{}/{}", self.group, self.names.plural).into(),
            group: self.group.clone(),
            resource: self.names.plural.clone(),
            namespaced: self.namespaced,
            shape: Shape::Custom { kind: self.names.kind.clone(), api_versions, schema: self.structural() },
            fields,
        }
    }

    /// What each value is pruned and defaulted by when it is read. The schemas of the other versions that are shown change nothing more.
    fn structural(&self) -> Option<Arc<Structural>> {
        self.versions[self.storage].schema.as_ref()?.structural().cloned()
    }

    /// The versions whose stored values need only another `apiVersion` to be what the storage version shows.
    fn readable(&self) -> impl Iterator<Item = &Version<'_>> {
        let storage = &self.versions[self.storage];
        self.versions.iter().filter(move |version| version.name == storage.name || !self.webhook && version.kept_by(storage))
    }

    /// A version is shown when the bytes of every readable value that may be stored are its own but for `apiVersion`.
    fn conversion(&self, version: &Version<'_>) -> Conversion {
        let storage = &self.versions[self.storage];
        if version.name == storage.name {
            return Conversion::None;
        }
        let (kind, this, that) = (&self.names.kind, &version.name, &storage.name);
        if self.webhook {
            return Conversion::Refused(format!(
                "{kind} is stored as {that} and only the conversion webhook of its definition can make {this} of it: use {that}"
            ));
        }
        let may_be_stored = |writer: &&Version<'_>| writer.name == storage.name || self.stored.contains(&writer.name);
        if self.readable().filter(may_be_stored).all(|writer| writer.kept_by(version)) {
            return Conversion::ApiVersionOnly;
        }
        Conversion::Refused(format!(
            "{kind} is stored as {that}, and the schema of {this} would prune or default fields of it, which is not supported: use {that}"
        ))
    }

    fn subresources(&self, version: &Version<'_>) -> Vec<Subresource> {
        let (kind, verbs) = (self.names.kind.clone(), owned(SUBRESOURCE_VERBS));
        let status = Subresource { name: "status".to_owned(), group: None, version: None, kind, verbs: verbs.clone() };
        let scale = Subresource {
            name: "scale".to_owned(),
            group: Some("autoscaling".to_owned()),
            version: Some("v1".to_owned()),
            kind: "Scale".to_owned(),
            verbs,
        };
        version.status.then_some(status).into_iter().chain(version.scale.is_some().then_some(scale)).collect()
    }

    fn labels(&self, version: &Version<'_>, storage: &Storage) -> Labels {
        let declared = version.selectable.iter().filter_map(|path| Some((path.clone(), field_index(storage, &scalar(path))?)));
        Labels { declared: declared.collect(), namespace: self.namespaced, unknown: UnknownLabel::Plain }
    }

    /// The real server looks for the storage version among the served ones only, and shows no hash when it is not there.
    fn hash(&self) -> String {
        let storage = &self.versions[self.storage];
        if storage.served { storage_version_hash(&self.group, &storage.name, &self.names.kind) } else { String::new() }
    }
}

/// Base64 of the first 8 bytes of SHA-256 of `group/version/Kind` (spec api-surface §2.1).
pub(crate) fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    BASE64_STANDARD.encode(&Sha256::digest(format!("{group}/{version}/{kind}"))[..8])
}

struct Version<'a> {
    name: String,
    served: bool,
    schema: Option<Schema<'a>>,
    /// Of a deprecated version: the definition's own `deprecationWarning`, if it has one.
    deprecation: Option<Option<String>>,
    /// Paths of `selectableFields` without the leading dot: the labels.
    selectable: Vec<String>,
    status: bool,
    scale: Option<ScalePaths>,
    /// `additionalPrinterColumns`.
    columns: Vec<PrinterColumn>,
}

/// A schema, read once that is needed: of the version that is stored, or when versions have different ones.
struct Schema<'a> {
    text: &'a str,
    structural: OnceCell<Option<Arc<Structural>>>,
}

impl Schema<'_> {
    /// None when it is nested too deep.
    fn structural(&self) -> Option<&Arc<Structural>> {
        self.structural.get_or_init(|| Structural::of_root(self.text).ok().map(Arc::new)).as_ref()
    }
}

impl Version<'_> {
    fn kept_by(&self, reader: &Self) -> bool {
        let Some(reads) = &reader.schema else { return true };
        let kept = |writes: &Structural| reads.structural().is_some_and(|reads| reads.keeps(writes));
        match &self.schema {
            Some(writes) if writes.text == reads.text => true,
            Some(writes) => writes.structural().is_some_and(|writes| kept(writes)),
            None => kept(&Structural::of_anything()),
        }
    }
}

fn scalar(path: &str) -> FieldPath {
    FieldPath::Scalar(members(path))
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests;
