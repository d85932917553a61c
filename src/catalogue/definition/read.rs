//! What we need of one CustomResourceDefinition, and the resources it makes served. Knows neither etcd nor the cache.

mod raw;

use std::{cell::OnceCell, cmp::Ordering, ops::Range, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::{
    builtins::{field_index, members},
    converted::{ConversionWebhook, DefinedConversion},
    order::preferred_first,
    rules,
    served::{Conversion, Custom, DefinedVersion, Labels, Origin, ScalePaths, Served, Subresource, UnknownLabel, api_version},
};
use go::quote::quoted;
use model::{FieldPath, Object, PrinterColumn, Shape, Storage, Structural};
use raw::{Names, Raw};

/// Verbs of a custom resource, in the order that discovery has (spec api-surface §2.1).
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Verbs while the definition is being deleted.
const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// The member that tells of which version a stored value is.
const API_VERSION: &str = "apiVersion";

/// The versions of a definition by their `apiVersion`, with their schemas.
type Schemas = Vec<(String, Option<Arc<Structural>>)>;

/// What is kept of one CustomResourceDefinition. Two equal ones make the same resources with the same schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    group: String,
    /// The resources it makes served, one for each served version.
    served: Vec<Arc<Served>>,
    /// By version, of those that are served.
    schemas: Vec<(String, DefinedSchema)>,
}

/// What a definition says of the objects of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedSchema {
    /// `openAPIV3Schema`: JSON, a slice of the stored object's bytes. As a tree it would take twenty times the memory.
    pub json: Bytes,
    /// `spec.preserveUnknownFields`, which only definitions have that v1beta1 has made: objects are judged, and nothing is taken away from them.
    pub preserves: bool,
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
            let schema = version.schema.as_ref()?;
            Some((served.version.clone(), DefinedSchema { json: slice(place(schema.text)), preserves: schema.preserves }))
        };
        let served = draft.served();
        let schemas = served.iter().filter_map(schema).collect();
        Ok(Self { group: draft.group, served, schemas })
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

    /// The schema of a version, if it has one.
    pub fn schema(&self, version: &str) -> Option<&DefinedSchema> {
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
    /// Of the strategy Webhook.
    webhook: Option<ConversionWebhook>,
    /// See [`Self::is_mixed`].
    mixed: OnceCell<bool>,
    names_accepted: bool,
    established: bool,
    terminating: bool,
}

impl Draft<'_> {
    fn served(&self) -> Vec<Arc<Served>> {
        if !self.names_accepted && !self.established {
            return Vec::new();
        }
        let (storage, schemas) = (Arc::new(self.storage()), OnceCell::new());
        let defined =
            |version: &Version<'_>| DefinedVersion { api_version: api_version(&self.group, &version.name), scale: version.scale.clone() };
        let versions = self.versions.iter().map(defined).collect();
        let served = self.versions.iter().filter(|version| version.served);
        served.map(|version| Arc::new(self.served_version(version, &storage, &schemas, &versions))).collect()
    }

    fn served_version(
        &self,
        version: &Version<'_>,
        storage: &Arc<Storage>,
        schemas: &OnceCell<Schemas>,
        versions: &Arc<[DefinedVersion]>,
    ) -> Served {
        let conversion = self.conversion(version, storage, schemas);
        let webhook = self.webhook.as_ref().map(|_| match &conversion {
            Conversion::Defined(defined) => defined.clone(),
            _ => self.defined(version, storage, schemas),
        });
        let shown = if let Conversion::Defined(defined) = &conversion { &defined.shown } else { storage };
        let labels = self.labels(version, shown);
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
            conversion,
            origin: Origin::Custom(Custom {
                scale: version.scale.clone(),
                printer_columns: version.columns.clone(),
                established: self.established,
                versions: versions.clone(),
                webhook,
            }),
            warning: self.warning(version),
            stored_as: api_version(&self.group, &self.versions[self.storage].name),
            storage_version_hash: self.hash(),
            rules: rules::CUSTOM,
            verbs: owned(if self.terminating { TERMINATING_VERBS } else { VERBS }),
            subresources: self.subresources(version),
            labels,
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
        let is_mixed = self.is_mixed();
        fields.extend(is_mixed.then(|| scalar(API_VERSION)));
        // The one that new values are stored under comes first.
        let is_readable = |version: &&Version<'_>| is_mixed || self.readable().any(|readable| readable.name == version.name);
        let mut readable: Vec<&str> = self.versions.iter().filter(is_readable).map(|version| version.name.as_str()).collect();
        readable.sort_by_key(|name| *name != self.versions[self.storage].name);
        let api_versions = readable.into_iter().map(|name| api_version(&self.group, name)).collect();
        let schema = if is_mixed { None } else { self.versions[self.storage].structural() };
        self.stored(api_versions, schema, fields)
    }

    /// Objects of these versions, pruned and defaulted by this schema.
    fn stored(&self, api_versions: Vec<String>, schema: Option<Arc<Structural>>, fields: Vec<FieldPath>) -> Storage {
        Storage {
            id: format!("{}/{}", self.group, self.names.plural).into(),
            group: self.group.clone(),
            resource: self.names.plural.clone(),
            namespaced: self.namespaced,
            shape: Shape::Custom { kind: self.names.kind.clone(), api_versions, schema },
            fields,
        }
    }

    /// The versions whose stored values need only another `apiVersion` to be what the storage version shows.
    fn readable(&self) -> impl Iterator<Item = &Version<'_>> {
        let storage = &self.versions[self.storage];
        self.versions.iter().filter(move |version| version.name == storage.name || self.webhook.is_none() && version.kept_by(storage))
    }

    /// Whether a value may be stored under this version.
    fn may_be_stored(&self, version: &Version<'_>) -> bool {
        version.name == self.versions[self.storage].name || self.stored.contains(&version.name)
    }

    /// Whether values may be stored that are not as the storage version shows them: they are kept as they are, and no version is shown without a look at which
    /// one they are of.
    fn is_mixed(&self) -> bool {
        *self.mixed.get_or_init(|| {
            let mut may_be_stored = self.versions.iter().filter(|version| self.may_be_stored(version));
            may_be_stored.any(|version| !self.readable().any(|readable| readable.name == version.name))
        })
    }

    /// A version is made of the stored bytes when those of every value that may be stored are its own but for `apiVersion`.
    fn conversion(&self, version: &Version<'_>, storage: &Arc<Storage>, schemas: &OnceCell<Schemas>) -> Conversion {
        let is_mixed = self.is_mixed();
        if version.name == self.versions[self.storage].name && !is_mixed {
            return Conversion::None;
        }
        let is_kept = || self.readable().filter(|writer| self.may_be_stored(writer)).all(|writer| writer.kept_by(version));
        if self.webhook.is_none() && !is_mixed && is_kept() {
            return Conversion::ApiVersionOnly;
        }
        Conversion::Defined(self.defined(version, storage, schemas))
    }

    /// What converts to a version, and between all of them.
    fn defined(&self, version: &Version<'_>, storage: &Arc<Storage>, schemas: &OnceCell<Schemas>) -> Arc<DefinedConversion> {
        let mut fields: Vec<FieldPath> = Vec::new();
        for field in version.selectable.iter().map(|path| scalar(path)) {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        let all = || self.versions.iter().map(|version| (api_version(&self.group, &version.name), version.structural())).collect();
        Arc::new(DefinedConversion {
            definition: format!("{}.{}", self.names.plural, self.group),
            webhook: self.webhook.clone(),
            shown: Arc::new(self.stored(vec![api_version(&self.group, &version.name)], None, fields)),
            versions: schemas.get_or_init(all).clone(),
            version_field: if self.is_mixed() { field_index(storage, &scalar(API_VERSION)).map(usize::from) } else { None },
        })
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
    /// Nothing is pruned or defaulted by it.
    preserves: bool,
    structural: OnceCell<Option<Arc<Structural>>>,
}

impl Schema<'_> {
    /// None when it is nested too deep.
    fn structural(&self) -> Option<&Arc<Structural>> {
        self.structural.get_or_init(|| Structural::of_root(self.text).ok().map(Arc::new)).as_ref()
    }
}

impl Version<'_> {
    /// The schema, if values are pruned and defaulted by it.
    fn pruning(&self) -> Option<&Schema<'_>> {
        self.schema.as_ref().filter(|schema| !schema.preserves)
    }

    /// What its values are pruned and defaulted by.
    fn structural(&self) -> Option<Arc<Structural>> {
        self.pruning()?.structural().cloned()
    }

    fn kept_by(&self, reader: &Self) -> bool {
        let Some(reads) = reader.pruning() else { return true };
        let kept = |writes: &Structural| reads.structural().is_some_and(|reads| reads.keeps(writes));
        match self.pruning() {
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
