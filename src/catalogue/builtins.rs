//! The resources that every Kubernetes 1.36 server stores, read from `builtins.json` (`docs/catalogue.md` tells how it was recorded).

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use serde::Deserialize;

use super::{
    rules::Rules,
    served::{BuiltIn, Conversion, Labels, Offer, Origin, Served, Subresource, UnknownLabel},
};
use model::{FieldPath, Shape, Storage};

/// Everything in the data file, made once.
pub(super) static BUILT_INS: LazyLock<BuiltIns> = LazyLock::new(|| {
    let file: File = serde_json::from_str(include_str!("builtins.json")).expect("the data file is compiled in and a test parses it");
    BuiltIns::new(file)
});

/// Built-in group versions, resources and storages.
pub(super) struct BuiltIns {
    pub(super) group_versions: Vec<GroupVersion>,
    pub(super) served: Vec<Arc<Served>>,
    pub(super) storages: Vec<Arc<Storage>>,
    pub(super) unstored: Vec<Unstored>,
}

/// A resource of which nothing is stored: its objects are made when they are asked for, as reviews are of a POST (spec api-surface §13.4).
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unstored {
    /// API group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural name, as in the path.
    pub resource: String,
    /// What one of it is called.
    pub singular: String,
    /// Kind of the body and of the answer.
    pub kind: String,
    /// Kind of a list; empty of what is not listed.
    #[serde(default)]
    pub list_kind: String,
    /// Whether it is asked in a namespace.
    pub namespaced: bool,
    #[serde(default)]
    pub(super) short_names: Vec<String>,
    /// What can be done with it.
    #[serde(default = "created")]
    pub(super) verbs: Vec<String>,
    /// Whether something else is written by it.
    #[serde(default)]
    pub(super) writes: bool,
}

fn created() -> Vec<String> {
    vec!["create".to_owned()]
}

impl Unstored {
    /// What can be done with it on a server with this offer.
    pub(super) fn verbs(&self, offer: Offer) -> Vec<&str> {
        let is_offered = !self.writes || offer != Offer::Reads;
        self.verbs.iter().filter(|_| is_offered).map(String::as_str).collect()
    }
}

/// A group version and its place in discovery (spec api-surface §2.3).
#[derive(Deserialize)]
pub(super) struct GroupVersion {
    pub(super) group: String,
    pub(super) version: String,
    /// `groupPriorityMinimum` of its APIService.
    pub(super) group_priority: u32,
    /// `versionPriority` of its APIService.
    pub(super) version_priority: u32,
}

#[derive(Deserialize)]
struct File {
    group_versions: Vec<GroupVersion>,
    resources: Vec<Row>,
    unstored: Vec<Unstored>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    group: String,
    version: String,
    resource: String,
    singular: String,
    kind: String,
    list_kind: String,
    namespaced: bool,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    verbs: Vec<String>,
    #[serde(default)]
    subresources: Vec<Subresource>,
    /// Part of the key after `/registry/`.
    prefix: String,
    /// apiVersion of the stored value.
    stored_as: String,
    hash: String,
    #[serde(default)]
    conversion: Conversion,
    #[serde(default)]
    fields: BTreeMap<String, Path>,
    #[serde(default = "yes")]
    namespace_label: bool,
    #[serde(default)]
    unknown_label: UnknownLabel,
    #[serde(default)]
    bookmark_zero: String,
    #[serde(default)]
    bookmark_annotations: String,
    #[serde(default)]
    warning: String,
    #[serde(default)]
    rules: Rules,
}

/// A `FieldPath` as the file writes it, dots between the members.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Path {
    Scalar(String),
    Bool(String),
    Int(String),
    FirstOf(Vec<Path>),
    FirstElement(String, String),
    AlwaysEmpty,
}

impl BuiltIns {
    fn new(file: File) -> Self {
        let mut rows_of: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        for row in &file.resources {
            rows_of.entry(&row.prefix).or_default().push(row);
        }
        let storages: BTreeMap<&str, Arc<Storage>> =
            rows_of.iter().map(|(prefix, rows)| (*prefix, Arc::new(storage(prefix, rows)))).collect();
        let served = file.resources.iter().map(|row| Arc::new(row.served(&storages[row.prefix.as_str()]))).collect();
        Self { served, storages: storages.into_values().collect(), group_versions: file.group_versions, unstored: file.unstored }
    }
}

/// The storage that these resources show: the first row names it, the fields are those of all.
fn storage(prefix: &str, rows: &[&Row]) -> Storage {
    let first = rows[0];
    let shape = if first.conversion == Conversion::Definition {
        Shape::Definition
    } else {
        Shape::BuiltIn { kind: first.kind.clone(), api_version: first.stored_as.clone() }
    };
    let mut fields = Vec::new();
    for path in rows.iter().flat_map(|row| row.fields.values()).map(Path::field) {
        if !fields.contains(&path) {
            fields.push(path);
        }
    }
    let (group, resource) = (first.group.clone(), first.resource.clone());
    Storage { id: prefix.into(), group, resource, namespaced: first.namespaced, shape, fields }
}

impl Row {
    fn served(&self, storage: &Arc<Storage>) -> Served {
        Served {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            singular: self.singular.clone(),
            kind: self.kind.clone(),
            list_kind: self.list_kind.clone(),
            namespaced: self.namespaced,
            short_names: self.short_names.clone(),
            categories: self.categories.clone(),
            storage: Arc::clone(storage),
            conversion: self.conversion.clone(),
            origin: Origin::BuiltIn(BuiltIn {
                bookmark_zero: self.bookmark_zero.clone(),
                bookmark_annotations: self.bookmark_annotations.clone(),
            }),
            warning: self.warning.clone(),
            stored_as: self.stored_as.clone(),
            storage_version_hash: self.hash.clone(),
            rules: self.rules,
            verbs: self.verbs.clone(),
            subresources: self.subresources.clone(),
            labels: self.labels(storage),
        }
    }

    fn labels(&self, storage: &Storage) -> Labels {
        let declared = self.fields.iter().filter_map(|(label, path)| Some((label.clone(), field_index(storage, &path.field())?)));
        Labels { declared: declared.collect(), namespace: self.namespace_label, unknown: self.unknown_label }
    }
}

/// Where a storage keeps this field.
pub(super) fn field_index(storage: &Storage, path: &FieldPath) -> Option<u16> {
    storage.fields.iter().position(|field| field == path).and_then(|index| u16::try_from(index).ok())
}

impl Path {
    fn field(&self) -> FieldPath {
        match self {
            Self::Scalar(path) => FieldPath::Scalar(members(path)),
            Self::Bool(path) => FieldPath::Bool(members(path)),
            Self::Int(path) => FieldPath::Int(members(path)),
            Self::FirstOf(paths) => FieldPath::FirstOf(paths.iter().map(Self::field).collect()),
            Self::FirstElement(path, member) => FieldPath::FirstElement(members(path), member.clone()),
            Self::AlwaysEmpty => FieldPath::AlwaysEmpty,
        }
    }
}

/// `spec.nodeName` as members.
pub(super) fn members(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::storage_version_hash;
    use model::selector::Field;

    fn find(group: &str, version: &str, resource: &str) -> &'static Served {
        let found = BUILT_INS.served.iter().find(|s| (&*s.group, &*s.version, &*s.resource) == (group, version, resource));
        found.expect("a built-in")
    }

    fn path(served: &Served, label: &str) -> FieldPath {
        match served.field(label) {
            Ok(Field::Declared(index)) => served.storage.fields[usize::from(index)].clone(),
            other => panic!("{label}: {other:?}"),
        }
    }

    #[test]
    fn the_file_has_every_stored_resource() {
        assert_eq!((BUILT_INS.served.len(), BUILT_INS.storages.len()), (60, 58));
        for served in &BUILT_INS.served {
            let known = BUILT_INS.group_versions.iter().any(|gv| gv.group == served.group && gv.version == served.version);
            assert!(known, "{} has no priority", served.storage.id);
            assert!(served.labels.declared.iter().all(|(_, index)| usize::from(*index) < served.storage.fields.len()));
        }
    }

    /// The recorded hashes say under which version the real server stores a resource: our `stored_as` must be that one. Events are stored as
    /// core v1 whichever group shows them, and the hash of `events.k8s.io` tells so.
    #[test]
    fn recorded_hashes_are_those_of_the_stored_version() {
        for served in &BUILT_INS.served {
            let api_version = match &served.storage.shape {
                Shape::BuiltIn { api_version, .. } => api_version.as_str(),
                Shape::Definition => "apiextensions.k8s.io/v1beta1",
                Shape::Custom { .. } => unreachable!("no built-in is custom"),
            };
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            assert_eq!(storage_version_hash(group, version, &served.kind), served.storage_version_hash, "{}", served.storage.id);
        }
    }

    /// In which version a value was stored it says itself, in JSON and in protobuf: one of another version than the recorded one is read as that only where it
    /// is known what becomes of it.
    #[test]
    fn a_value_of_another_storage_version_is_read_where_it_is_known_what_it_is() {
        let mut known = Vec::new();
        for storage in BUILT_INS.storages.iter() {
            let Shape::BuiltIn { kind, api_version } = &storage.shape else { continue };
            let prefix = format!("/registry/{}/", storage.id);
            let key = if storage.namespaced { format!("{prefix}ns/a") } else { format!("{prefix}a") };
            let other = match api_version.rsplit_once('/') {
                Some((group, _)) => format!("{group}/v9"),
                None => "v9".to_owned(),
            };
            // What each release of Kubernetes has been known to use.
            let older = ["v1", "v1beta1", "v1beta2", "v1alpha1", "v2"].map(|version| other.replace("v9", version));
            for version in older.iter().chain([&other]).filter(|version| *version != api_version) {
                let json = format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"name":"a","uid":"u"}}}}"#);
                let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
                let meta = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
                let protobuf = [b"k8s\0".to_vec(), field(1, &meta), field(2, &field(1, &field(1, b"a")))].concat();
                let is_read =
                    |value: &[u8]| codec::ingest::ingest(storage, prefix.len(), key.clone().into(), value, model::Revision(1)).is_ok();
                assert_eq!(is_read(json.as_bytes()), is_read(&protobuf), "{} as {version}, in JSON and in protobuf", storage.id);
                if is_read(json.as_bytes()) {
                    known.push(format!("{kind} {version}"));
                }
            }
        }
        for read in [
            "MutatingAdmissionPolicy admissionregistration.k8s.io/v1",
            "PodDisruptionBudget policy/v1beta1",
            "ResourceClaim resource.k8s.io/v1beta2",
            "HorizontalPodAutoscaler autoscaling/v1",
        ] {
            assert!(known.iter().any(|known| known == read), "{read} is not among {known:?}");
        }
        let others =
            ["/v9", "Ingress networking.k8s.io/v1beta1", "ResourceClaim resource.k8s.io/v1beta1", "EndpointSlice discovery.k8s.io/v1beta1"];
        for other in others {
            assert!(!known.iter().any(|known| known.ends_with(other)), "{other} is among {known:?}");
        }
    }

    fn built_in(served: &Served) -> &BuiltIn {
        match &served.origin {
            Origin::BuiltIn(built_in) => built_in,
            Origin::Custom(_) => panic!("{} is a built-in", served.resource),
        }
    }

    #[test]
    fn every_bookmark_is_json() {
        for served in &BUILT_INS.served {
            let text = format!(
                "{{\"metadata\":{{\"annotations\":{{{}}}}}{}}}",
                built_in(served).bookmark_annotations,
                built_in(served).bookmark_zero
            );
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}: {text}", served.storage.id);
        }
        assert_eq!(built_in(find("", "v1", "pods")).bookmark_zero, r#","spec":{"containers":null},"status":{}"#);
        assert_eq!(built_in(find("", "v1", "configmaps")).bookmark_zero, "");
        assert_eq!(built_in(find("apps", "v1", "daemonsets")).bookmark_annotations, r#""deprecated.daemonset.template.generation":"0""#);
    }

    #[test]
    fn both_events_show_one_storage_under_their_own_labels() {
        let (core, events) = (find("", "v1", "events"), find("events.k8s.io", "v1", "events"));
        assert!(Arc::ptr_eq(&core.storage, &events.storage));
        assert_eq!((&*core.storage.id, core.storage.group.as_str()), ("events", ""));
        assert_eq!(core.field("involvedObject.uid"), events.field("regarding.uid"));
        assert_eq!(core.field("reportingComponent"), events.field("reportingController"));
        assert!(events.field("source").is_err());
        let source = [FieldPath::Scalar(members("source.component")), FieldPath::Scalar(members("reportingComponent"))];
        assert_eq!(path(core, "source"), FieldPath::FirstOf(source.into()));
        assert_eq!(events.conversion, Conversion::OtherMembers);
    }

    #[test]
    fn fields_are_read_where_the_spec_says() {
        let pods = find("", "v1", "pods");
        assert_eq!(pods.field("spec.host"), pods.field("spec.nodeName"));
        assert_eq!(path(pods, "spec.hostNetwork"), FieldPath::Bool(members("spec.hostNetwork")));
        assert_eq!(path(pods, "status.podIP"), FieldPath::FirstElement(members("status.podIPs"), "ip".to_owned()));
        assert_eq!(path(pods, "status.podIPs"), FieldPath::AlwaysEmpty);
        assert_eq!(path(find("batch", "v1", "jobs"), "status.successful"), FieldPath::Int(members("status.succeeded")));
    }

    #[test]
    fn prefixes_and_conversions_that_surprise() {
        for (group, resource, prefix) in
            [("", "nodes", "minions"), ("", "services", "services/specs"), ("", "endpoints", "services/endpoints")]
        {
            assert_eq!(&*find(group, "v1", resource).storage.id, prefix);
        }
        assert_eq!(find("admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies").conversion, Conversion::ApiVersionOnly);
        assert_eq!(find("apiextensions.k8s.io", "v1", "customresourcedefinitions").storage.shape, Shape::Definition);
        let old = find("autoscaling", "v1", "horizontalpodautoscalers");
        assert_eq!((&old.conversion, old.stored_as.as_str()), (&Conversion::OtherMembers, "autoscaling/v2"));
        assert_eq!(find("autoscaling", "v2", "horizontalpodautoscalers").conversion, Conversion::None);
    }
}
