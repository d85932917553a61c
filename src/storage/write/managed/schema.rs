//! The types by which fields are merged: of built-in kinds from what kube-apiserver publishes of them, of custom resources from their definitions.

use std::sync::{Arc, LazyLock, OnceLock};

use dashmap::DashMap;
use merge::{ParseableType, Schema, definition::TypeDef, openapi};
use serde_json::{Map, Value};

use crate::write::{object_ref::stored_tree, tree};
use catalogue::{Served, openapi::built_in_schemas_of};
use model::Revision;
use registry::ServedResources;

/// The type of `metadata`.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// A kind whose schema refers to that of `metadata`, and to little else.
const CONFIG_MAP: (&str, &str, &str) = ("", "v1", "ConfigMap");
/// The name of the type of a custom resource.
const CUSTOM: &str = "object";

/// Types that were made of schemas: one for each kind that was written, and of a custom resource the last one.
#[derive(Default)]
pub(in crate::write) struct FieldTypes {
    by_kind: DashMap<(String, String, String), FieldType>,
    scale: OnceLock<ParseableType>,
}

struct FieldType {
    /// The revision of the definition that it was made of.
    made_of: Revision,
    parseable: ParseableType,
}

impl FieldTypes {
    /// Returns the type of a kind in a version; everything is deduced of one whose schema cannot be read.
    pub(super) fn of(&self, resources: &ServedResources, (served, version): (&Served, &str), prefix: &str) -> ParseableType {
        let definition = || {
            let definitions = resources.definitions()?;
            let name = format!("{}.{}", served.resource, served.group);
            let key = [definitions.served.storage.key_prefix(prefix).as_bytes(), name.as_bytes()].concat();
            let known = definitions.handle.published.known();
            Some((definitions, known.snapshot.store.find(&key)?.clone()))
        };
        let definition = if served.is_custom() { definition() } else { None };
        let made_of = definition.as_ref().map_or(Revision::ZERO, |(_, object)| object.revision);
        let kind = (served.group.clone(), version.to_owned(), served.kind.clone());
        if let Some(known) = self.by_kind.get(&kind).filter(|known| known.made_of == made_of) {
            return known.parseable.clone();
        }
        let made = match definition {
            Some((definitions, object)) => {
                let stored = stored_tree(definitions, &object).ok();
                stored.and_then(|stored| custom(&definitions.encoders.whole().encoder.tree(&stored), version))
            }
            None => built_in(&served.group, version, &served.kind),
        };
        let parseable = made.unwrap_or_else(ParseableType::deduced);
        if served.is_custom() {
            self.forget_undefined(resources);
        }
        self.by_kind.insert(kind, FieldType { made_of, parseable: parseable.clone() });
        parseable
    }

    /// Returns the type of a built-in kind, also of one that is no resource.
    pub(super) fn of_built_in(&self, group: &str, version: &str, kind: &str) -> ParseableType {
        let key = (group.to_owned(), version.to_owned(), kind.to_owned());
        if let Some(known) = self.by_kind.get(&key).filter(|known| known.made_of == Revision::ZERO) {
            return known.parseable.clone();
        }
        let parseable = built_in(group, version, kind).unwrap_or_else(ParseableType::deduced);
        self.by_kind.insert(key, FieldType { made_of: Revision::ZERO, parseable: parseable.clone() });
        parseable
    }

    /// Returns the type of a scale.
    pub(super) fn of_scale(&self) -> ParseableType {
        let scale = self.scale.get_or_init(|| built_in("autoscaling", "v1", "Scale").unwrap_or_else(ParseableType::deduced));
        scale.clone()
    }

    /// Forgets the types of versions that no definition has any more.
    fn forget_undefined(&self, resources: &ServedResources) {
        self.by_kind.retain(|(group, version, kind), known| {
            let of_kind = |served: &&Arc<Served>| served.kind == *kind;
            let has =
                |served: &Arc<Served>| served.defined_versions().iter().any(|defined| defined.api_version == format!("{group}/{version}"));
            known.made_of == Revision::ZERO || resources.catalogue.served_in(group).filter(of_kind).any(has)
        });
    }
}

fn built_in(group: &str, version: &str, kind: &str) -> Option<ParseableType> {
    let (name, schemas) = built_in_schemas_of(group, version, kind)?;
    let schema = Arc::new(Schema::new(openapi::types(named(&schemas), false).ok()?));
    ParseableType::of(&schema, name)
}

fn custom(definition: &Value, version: &str) -> Option<ParseableType> {
    static METADATA: LazyLock<Vec<TypeDef>> = LazyLock::new(|| {
        let (group, version, kind) = CONFIG_MAP;
        let (name, mut schemas) = built_in_schemas_of(group, version, kind).expect("it is recorded");
        schemas.remove(name);
        openapi::types(named(&schemas), false).expect("they were recorded from an API server that reads them")
    });
    let versions = tree::at(definition, &["spec", "versions"])?.as_array()?;
    let version = versions.iter().find(|found| tree::text(found, &["name"]) == version)?;
    let schema = tree::at(version, &["schema", "openAPIV3Schema"]);
    let preserves = tree::at(definition, &["spec", "preserveUnknownFields"]).and_then(Value::as_bool).unwrap_or(false);
    let mut types = METADATA.clone();
    types.push(openapi::custom_resource(CUSTOM, schema, OBJECT_META, preserves).ok()?);
    ParseableType::of(&Arc::new(Schema::new(types)), CUSTOM)
}

fn named(schemas: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    schemas.iter().map(|(name, schema)| (&**name, schema))
}
