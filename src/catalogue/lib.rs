//! Which resources exist, built-in and custom, and the documents that tell clients so. Knows neither etcd nor HTTP nor the cache.
//!
//! A `Catalogue` never changes: when a CustomResourceDefinition does, a new one is made, which shares all groups but that one's, and swapped in whole.

mod builtins;
mod converted;
pub mod defaults;
pub mod definition;
pub mod discovery;
mod documents;
pub mod openapi;
mod order;
pub mod releases;
mod rules;
mod served;
pub mod types;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use imbl::OrdMap;

pub use builtins::Unstored;
pub use converted::{ConversionWebhook, DefinedConversion};
pub use definition::{DefinedSchema, Definition};
pub use discovery::MINOR;
pub use rules::{NameRule, Rules};
pub use served::{BuiltIn, Conversion, Custom, DefinedVersion, Offer, Origin, ScalePaths, Served, Subresource};

use builtins::BUILT_INS;
use model::{Shape, Storage};

/// Priorities that the aggregator gives to the groups and versions of custom resources (spec api-surface §2.3).
const CUSTOM_GROUP_PRIORITY: u32 = 1000;
const CUSTOM_VERSION_PRIORITY: u32 = 100;

/// Every resource that is served now.
#[derive(Debug)]
pub struct Catalogue {
    groups: OrdMap<String, Arc<Group>>,
    offer: Offer,
    /// Kubernetes' own groups are served too; else they are a host cluster's.
    has_built_ins: bool,
    aggregated_core: OnceLock<discovery::Aggregated>,
    aggregated_groups: OnceLock<discovery::Aggregated>,
    openapi_index: OnceLock<Bytes>,
    openapi_v2: OnceLock<(openapi::Hash, Duration)>,
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
    /// By plural name as well.
    unstored: Vec<&'static Unstored>,
    /// What definitions say that their objects are, by plural name: JSON. Not a part of `Served`: another description makes no other resource.
    schemas: BTreeMap<String, DefinedSchema>,
    /// The hash of its OpenAPI document, of a custom group; found when somebody asks.
    openapi: OnceLock<openapi::Hash>,
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
        let mut groups: BTreeMap<&str, Vec<&Definition>> = BTreeMap::new();
        for definition in definitions {
            groups.entry(definition.group()).or_default().push(definition);
        }
        Self::of(built_in_groups(), offer, true).with_groups(groups)
    }

    /// That of a server that extends a cluster: it will have groups of definitions, and none of Kubernetes' own.
    #[must_use]
    pub fn extending(offer: Offer) -> Self {
        Self::of(OrdMap::new(), offer, false)
    }

    /// CustomResourceDefinitions, which are stored whether or not they are served.
    ///
    /// # Panics
    /// Never: they are built in.
    #[must_use]
    pub fn definitions() -> &'static Arc<Served> {
        let is_it = |served: &&Arc<Served>| (&*served.group, &*served.resource) == ("apiextensions.k8s.io", "customresourcedefinitions");
        BUILT_INS.served.iter().find(is_it).expect("definitions are built in")
    }

    /// This one, with other definitions of some groups: all that a group has, each.
    #[must_use]
    pub fn with_groups<'d, D: IntoIterator<Item = &'d Definition>>(&self, groups: impl IntoIterator<Item = (&'d str, D)>) -> Self {
        let mut all = self.groups.clone();
        for (name, definitions) in groups {
            let group = made(name, definitions, self.groups.get(name), self.has_built_ins);
            if group.is_empty() {
                all.remove(name);
            } else {
                all.insert(name.to_owned(), Arc::new(group));
            }
        }
        Self::of(all, self.offer, self.has_built_ins)
    }

    fn of(groups: OrdMap<String, Arc<Group>>, offer: Offer, has_built_ins: bool) -> Self {
        Self {
            groups,
            offer,
            has_built_ins,
            aggregated_core: OnceLock::new(),
            aggregated_groups: OnceLock::new(),
            openapi_index: OnceLock::new(),
            openapi_v2: OnceLock::new(),
        }
    }

    /// The resource that a path names, if it is served.
    #[cfg(any(test, feature = "testing"))]
    pub fn served(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Served>> {
        self.version(group, version)?.resources.get(resource)
    }

    /// What its definition says that the objects of a custom resource are.
    #[must_use]
    pub fn schema(&self, group: &str, version: &str, resource: &str) -> Option<&DefinedSchema> {
        self.version(group, version)?.schemas.get(resource)
    }

    /// Whether Kubernetes' own groups are served.
    #[must_use]
    pub fn has_built_ins(&self) -> bool {
        self.has_built_ins
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

    /// The names of all groups that have a version, some of which may serve nothing.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }

    /// Every served resource, by group name, preferred version and plural name.
    #[cfg(any(test, feature = "testing"))]
    pub fn all_served(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.groups.values().flat_map(|versions| versions.iter()).flat_map(|version| version.resources.values())
    }

    /// Every served resource of a group.
    pub fn served_in(&self, group: &str) -> impl Iterator<Item = &Arc<Served>> {
        self.groups.get(group).into_iter().flat_map(|versions| versions.iter()).flat_map(|version| version.resources.values())
    }

    /// The resource of this path of which nothing is stored.
    #[must_use]
    pub fn unstored(&self, group: &str, version: &str, resource: &str) -> Option<&'static Unstored> {
        unstored(group, version).find(|unstored| self.has_built_ins && unstored.resource == resource)
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

/// Whether the group is one of Kubernetes' own, served or not.
#[must_use]
pub fn is_built_in_group(group: &str) -> bool {
    BUILT_INS.group_versions.iter().any(|known| known.group == group)
}

/// Kubernetes' own group versions, each with the priorities of its group and of the version in it.
pub fn built_in_group_versions() -> impl Iterator<Item = (&'static str, &'static str, u32, u32)> {
    BUILT_INS.group_versions.iter().map(|known| (&*known.group, &*known.version, known.group_priority, known.version_priority))
}

/// What Kubernetes' own resources are stored as, under keys of their own each; definitions and custom resources are not among them.
pub fn built_in_storages() -> impl Iterator<Item = &'static Arc<Storage>> {
    BUILT_INS.storages.iter().filter(|storage| matches!(storage.shape, Shape::BuiltIn { .. }))
}

/// The resources of this group version of which nothing is stored.
fn unstored(group: &str, version: &str) -> impl Iterator<Item = &'static Unstored> {
    BUILT_INS.unstored.iter().filter(move |unstored| (&*unstored.group, &*unstored.version) == (group, version))
}

fn built_in_groups() -> OrdMap<String, Arc<Group>> {
    let names = BUILT_INS.group_versions.iter().map(|known| &known.group);
    names.map(|name| (name.clone(), Arc::new(made(name, [], None, true)))).collect()
}

/// A group: the built-in part, or what definitions say. What is equal to `before` keeps its documents.
fn made<'d>(name: &str, definitions: impl IntoIterator<Item = &'d Definition>, before: Option<&Arc<Group>>, has_built_ins: bool) -> Group {
    let of_kubernetes = BUILT_INS.group_versions.iter().filter(|known| has_built_ins && known.group == name);
    let mut group: Group = of_kubernetes.map(built_in).collect();
    for definition in definitions.into_iter().filter(|_| !is_built_in_place(name)) {
        for served in definition.served() {
            let version = group_version(&mut group, &served.version);
            let schema = definition.schema(&served.version);
            version.schemas.extend(schema.map(|schema| (served.resource.clone(), schema.clone())));
            version.resources.insert(served.resource.clone(), Arc::clone(served));
        }
    }
    group.sort_by(|a, b| b.version_priority.cmp(&a.version_priority).then_with(|| order::preferred_first(&a.version, &b.version)));
    for version in &mut group {
        let same = before.and_then(|group| group.iter().find(|old| old.shows_the_same(version)));
        version.openapi = same.map(|old| old.openapi.clone()).unwrap_or_default();
    }
    group
}

fn built_in(known: &builtins::GroupVersion) -> GroupVersion {
    let resources = BUILT_INS.served.iter().filter(|served| served.group == known.group && served.version == known.version);
    GroupVersion {
        version: known.version.clone(),
        group_priority: known.group_priority,
        version_priority: known.version_priority,
        built_in: true,
        resources: resources.map(|served| (served.resource.clone(), Arc::clone(served))).collect(),
        unstored: unstored(&known.group, &known.version).collect(),
        schemas: BTreeMap::new(),
        openapi: OnceLock::new(),
    }
}

impl GroupVersion {
    fn shows_the_same(&self, other: &Self) -> bool {
        self.version == other.version && self.resources == other.resources && self.schemas == other.schemas
    }
}

/// Whether Kubernetes itself has this group, or keeps objects under keys that begin as those of this group would: `/registry/GROUP/`. A definition
/// makes nothing served there, whatever its version: kube-apiserver routes such paths to its own group, which has none of that version, and the objects
/// would be among built-in ones that they cannot be told from.
#[must_use]
pub fn is_built_in_place(group: &str) -> bool {
    BUILT_INS.group_versions.iter().any(|known| known.group == group)
        || BUILT_INS.storages.iter().any(|storage| storage.id.split('/').next() == Some(group))
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
            unstored: Vec::new(),
            schemas: BTreeMap::new(),
            openapi: OnceLock::new(),
        });
        group.len() - 1
    });
    &mut group[index]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
        assert_eq!(with.all_served().count(), without.all_served().count() + 1);
        assert!(with.served("ex.io", "v1", "widgets").is_some() && without.served("ex.io", "v1", "widgets").is_none());
        assert!(!with.is_built_in_group("ex.io") && !with.is_built_in_group_version("ex.io", "v1"));
        assert_eq!((with.served_in("ex.io").count(), without.served_in("ex.io").count()), (1, 0));
    }

    #[test]
    fn a_built_in_group_stays_as_it_is() {
        let catalogue = Catalogue::new(&[widgets("apps", "v1"), widgets("apps", "v9")]);
        assert!(catalogue.served("apps", "v1", "widgets").is_none() && catalogue.served("apps", "v9", "widgets").is_none());
        assert!(catalogue.is_built_in_group("apps") && !catalogue.served_in("apps").any(|served| served.version == "v9"));
    }

    #[test]
    fn review_groups_are_built_in_but_serve_nothing() {
        let catalogue = Catalogue::new(&[]);
        assert!(catalogue.is_built_in_group("authentication.k8s.io"));
        assert_eq!(catalogue.served_in("authentication.k8s.io").count(), 0);
    }

    /// Such a definition made the built-in 500 for good: another kind was under its keys.
    #[test]
    fn no_definition_has_the_keys_of_a_built_in() {
        let built_in: BTreeSet<&str> = BUILT_INS.storages.iter().filter_map(|storage| storage.id.split('/').next()).collect();
        let groups = BUILT_INS.group_versions.iter().map(|known| known.group.as_str()).chain(built_in);
        for group in groups.filter(|group| !group.is_empty()) {
            let catalogue = Catalogue::new(&[widgets(group, "v9")]);
            assert!(!catalogue.all_served().any(|served| served.is_custom()), "{group}");
        }
        assert!(Catalogue::new(&[widgets("apps.ex.io", "v9")]).all_served().any(|served| served.is_custom()));
    }

    #[test]
    fn a_server_that_extends_a_cluster_has_nothing_of_it() {
        let empty = Catalogue::extending(Offer::Writes);
        let (things, apps) = (widgets("ex.io", "v1"), widgets("apps", "v1"));
        let catalogue = empty.with_groups([("ex.io", vec![&things]), ("apps", vec![&apps])]);
        assert_eq!(catalogue.groups().collect::<Vec<_>>(), ["ex.io"]);
        assert!(catalogue.unstored("authorization.k8s.io", "v1", "selfsubjectaccessreviews").is_none());
        let paths = String::from_utf8(catalogue.paths(&["/version"]).to_vec()).expect("JSON");
        let paths: Vec<&str> = paths.split('"').filter(|word| word.starts_with('/')).collect();
        assert_eq!(paths, ["/apis", "/apis/", "/apis/ex.io", "/apis/ex.io/v1", "/version"]);
        assert_eq!(Catalogue::definitions().kind, "CustomResourceDefinition");
    }

    /// Documents of a group with megabytes of schemas are not made again for another group's definition.
    #[test]
    fn a_change_leaves_other_groups_as_they_are() {
        let (a, b) = (widgets("a.io", "v1"), widgets("b.io", "v1"));
        let before = Catalogue::new(&[a.clone(), b]);
        let hash = |catalogue: &Catalogue, path: &str| catalogue.openapi_hash(path).map(|hash| hash.as_ptr());
        let (of_a, of_b) = (hash(&before, "apis/a.io/v1"), hash(&before, "apis/b.io/v1"));
        let changed = widgets("b.io", "v2");
        let after = before.with_groups([("a.io", vec![&a]), ("b.io", vec![&changed])]);
        assert!(of_a.is_some() && of_b.is_some());
        assert_eq!((hash(&after, "apis/a.io/v1"), hash(&after, "apis/b.io/v1")), (of_a, None));
        assert!(hash(&after, "apis/b.io/v2").is_some());
        let none = after.with_groups([("a.io", []), ("b.io", [])]);
        assert!(none.served_in("a.io").next().is_none() && none.groups().count() == Catalogue::new(&[]).groups().count());
    }
}
