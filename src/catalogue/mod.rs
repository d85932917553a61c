//! Which resources exist, built-in and custom, and the documents that tell clients so. Knows neither etcd nor HTTP nor the cache.
//!
//! A `Catalogue` never changes: when a CustomResourceDefinition does, a new one is made and swapped in whole.

mod builtins;
mod definition;
pub mod discovery;
mod documents;
pub mod openapi;
mod order;
mod rules;
mod schema;
mod served;
pub mod types;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

pub use definition::Definition;
pub use rules::{NameRule, Rules};
pub use served::{Conversion, Offer, ScalePaths, Served, Subresource};

use crate::model::{ResourceId, Storage};
use builtins::BUILT_INS;

/// Priorities that the aggregator gives to the groups and versions of custom resources (spec api-surface §2.3).
const CUSTOM_GROUP_PRIORITY: u32 = 1000;
const CUSTOM_VERSION_PRIORITY: u32 = 100;

/// Every resource that is served now.
#[derive(Debug)]
pub struct Catalogue {
    groups: BTreeMap<String, Group>,
    storages: Vec<Arc<Storage>>,
    offer: Offer,
    aggregated_core: OnceLock<discovery::Aggregated>,
    aggregated_groups: OnceLock<discovery::Aggregated>,
    openapi: OnceLock<openapi::Documents>,
}

/// The versions of one group, preferred one first.
type Group = Vec<GroupVersion>;

#[derive(Debug)]
struct GroupVersion {
    version: String,
    group_priority: u32,
    version_priority: u32,
    built_in: bool,
    /// By plural name: the order of discovery.
    resources: BTreeMap<String, Arc<Served>>,
    /// What definitions say that their objects are, by plural name. Not a part of `Served`: another description makes no other resource.
    schemas: BTreeMap<String, Arc<Value>>,
}

impl Catalogue {
    /// The built-ins and what these definitions make served, to read.
    #[must_use]
    pub fn new(definitions: &[Definition]) -> Self {
        Self::offering(definitions, Offer::Reads)
    }

    /// As `new`, with documents that offer this.
    #[must_use]
    pub fn offering(definitions: &[Definition], offer: Offer) -> Self {
        let mut groups = built_in_groups();
        let mut storages: BTreeMap<ResourceId, Arc<Storage>> = BUILT_INS.storages.iter().map(|s| (s.id.clone(), Arc::clone(s))).collect();
        let served = definitions.iter().flat_map(|definition| definition.served().into_iter().map(move |served| (definition, served)));
        for (definition, served) in served {
            let version = group_version(groups.entry(served.group.clone()).or_default(), &served.version);
            // A built-in group version is never that of a custom resource: its APIService exists already.
            if !version.built_in {
                storages.entry(served.storage.id.clone()).or_insert_with(|| Arc::clone(&served.storage));
                let schema = definition.schema(&served.version);
                version.schemas.extend(schema.map(|schema| (served.resource.clone(), Arc::clone(schema))));
                version.resources.insert(served.resource.clone(), Arc::new(served));
            }
        }
        for group in groups.values_mut() {
            group.sort_by(|a, b| b.version_priority.cmp(&a.version_priority).then_with(|| order::preferred_first(&a.version, &b.version)));
        }
        let storages = storages.into_values().collect();
        Self { groups, storages, offer, aggregated_core: OnceLock::new(), aggregated_groups: OnceLock::new(), openapi: OnceLock::new() }
    }

    /// The resource that a path names, if it is served.
    #[must_use]
    pub fn served(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Served>> {
        self.version(group, version)?.resources.get(resource)
    }

    /// Whether any resource of the group is served.
    #[must_use]
    pub fn knows_group(&self, group: &str) -> bool {
        self.groups.get(group).is_some_and(|versions| versions.iter().any(|version| !version.resources.is_empty()))
    }

    /// Whether any resource of the group version is served.
    #[must_use]
    pub fn knows_group_version(&self, group: &str, version: &str) -> bool {
        self.version(group, version).is_some_and(|version| !version.resources.is_empty())
    }

    /// Whether the group is one of Kubernetes' own. The real server answers 404 below `/apis/G` with a Status for these (for any version), and
    /// with plain text for all others (spec api-surface §1.1).
    #[must_use]
    pub fn is_built_in_group(&self, group: &str) -> bool {
        self.groups.get(group).is_some_and(|versions| versions.iter().any(|version| version.built_in))
    }

    /// Whether the group version is one of Kubernetes' own.
    #[must_use]
    pub fn is_built_in_group_version(&self, group: &str, version: &str) -> bool {
        self.version(group, version).is_some_and(|version| version.built_in)
    }

    /// What must be kept to serve all of this: one storage for each key prefix, in order of the prefix.
    #[must_use]
    pub fn storages(&self) -> &[Arc<Storage>] {
        &self.storages
    }

    /// Every served resource, by group name, preferred version and plural name.
    pub fn all_served(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.groups.values().flatten().flat_map(|version| version.resources.values())
    }

    fn version(&self, group: &str, version: &str) -> Option<&GroupVersion> {
        self.groups.get(group)?.iter().find(|known| known.version == version)
    }
}

/// Whether Kubernetes itself has this kind of object or list, or one of the few that are neither.
#[must_use]
pub fn is_built_in_kind(group: &str, version: &str, kind: &str) -> bool {
    let of_a_resource =
        |served: &Arc<Served>| (&*served.group, &*served.version) == (group, version) && (served.kind == kind || served.list_kind == kind);
    let of_none = group.is_empty() && version == "v1" && matches!(kind, "List" | "Status");
    of_none || BUILT_INS.served.iter().any(of_a_resource)
}

fn built_in_groups() -> BTreeMap<String, Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for known in &BUILT_INS.group_versions {
        let resources = BUILT_INS.served.iter().filter(|served| served.group == known.group && served.version == known.version);
        groups.entry(known.group.clone()).or_default().push(GroupVersion {
            version: known.version.clone(),
            group_priority: known.group_priority,
            version_priority: known.version_priority,
            built_in: true,
            resources: resources.map(|served| (served.resource.clone(), Arc::clone(served))).collect(),
            schemas: BTreeMap::new(),
        });
    }
    groups
}

/// The entry of this version, made as a custom one if it is not there.
fn group_version<'a>(group: &'a mut Group, version: &str) -> &'a mut GroupVersion {
    let index = group.iter().position(|known| known.version == version).unwrap_or_else(|| {
        group.push(GroupVersion {
            version: version.to_owned(),
            group_priority: CUSTOM_GROUP_PRIORITY,
            version_priority: CUSTOM_VERSION_PRIORITY,
            built_in: false,
            resources: BTreeMap::new(),
            schemas: BTreeMap::new(),
        });
        group.len() - 1
    });
    &mut group[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widgets(group: &str, version: &str) -> Definition {
        let names = r#"{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"}"#;
        let spec = format!(r#"{{"group":"{group}","scope":"Cluster","versions":[{{"name":"{version}","served":true,"storage":true}}]}}"#);
        let status = format!(r#"{{"acceptedNames":{names},"conditions":[{{"type":"Established","status":"True"}}]}}"#);
        let object = format!(r#"{{"metadata":{{"name":"widgets.{group}"}},"spec":{spec},"status":{status}}}"#);
        Definition::parse(object.as_bytes()).expect("a definition")
    }

    #[test]
    fn definitions_add_to_the_built_ins() {
        let (without, with) = (Catalogue::new(&[]), Catalogue::new(&[widgets("ex.io", "v1")]));
        assert_eq!(with.storages().len(), without.storages().len() + 1);
        assert_eq!(with.all_served().count(), without.all_served().count() + 1);
        assert!(with.served("ex.io", "v1", "widgets").is_some() && without.served("ex.io", "v1", "widgets").is_none());
        assert!(with.knows_group("ex.io") && !with.is_built_in_group("ex.io") && !with.is_built_in_group_version("ex.io", "v1"));
        assert!(!without.knows_group("ex.io"));
    }

    #[test]
    fn a_built_in_group_version_stays_whole() {
        let catalogue = Catalogue::new(&[widgets("apps", "v1"), widgets("apps", "v9")]);
        assert!(catalogue.served("apps", "v1", "widgets").is_none());
        assert!(catalogue.served("apps", "v9", "widgets").is_some());
        assert!(catalogue.is_built_in_group("apps") && !catalogue.is_built_in_group_version("apps", "v9"));
    }

    #[test]
    fn review_groups_are_built_in_but_serve_nothing() {
        let catalogue = Catalogue::new(&[]);
        assert!(catalogue.is_built_in_group("authentication.k8s.io") && !catalogue.knows_group("authentication.k8s.io"));
        assert!(!catalogue.knows_group_version("authentication.k8s.io", "v1"));
    }

    #[test]
    fn storages_are_one_for_each_prefix() {
        let storages = Catalogue::new(&[widgets("ex.io", "v1")]).storages().to_vec();
        assert!(storages.is_sorted_by(|a, b| a.id < b.id));
        assert!(storages.iter().any(|storage| &*storage.id == "ex.io/widgets"));
    }
}
