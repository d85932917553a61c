//! One served resource: its names, what may be asked of it and where it is stored.

use std::sync::Arc;

use serde::Deserialize;

use super::{converted::DefinedConversion, rules::Rules};
use go::quote::quoted;
use model::{PrinterColumn, Storage, selector::Field};

/// One resource of one group and version, as clients see it.
#[derive(Debug, PartialEq, Eq)]
pub struct Served {
    /// API group; empty for core.
    pub group: String,
    /// Version as in the path, `v1`.
    pub version: String,
    /// Plural name as in the path, `pods`.
    pub resource: String,
    /// Singular name of discovery.
    pub singular: String,
    /// Kind of one object.
    pub kind: String,
    /// Kind of a list.
    pub list_kind: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// `po` of `pods`.
    pub short_names: Vec<String>,
    /// `all`, `api-extensions`.
    pub categories: Vec<String>,
    /// The cacher that has its objects.
    pub storage: Arc<Storage>,
    /// How its objects are made from the stored ones.
    pub conversion: Conversion,
    /// Who declares it, and what only such resources have.
    pub origin: Origin,
    /// apiVersion under which new values are stored.
    pub stored_as: String,
    /// What a `Warning` header tells of a deprecated resource; mostly empty (spec api-surface §3.7).
    pub warning: String,
    /// Hash of the stored group, version and kind for discovery (spec api-surface §2.1); empty when the storage version is not served.
    pub storage_version_hash: String,
    /// How it is written.
    pub rules: Rules,
    pub(super) verbs: Vec<String>,
    pub(super) subresources: Vec<Subresource>,
    pub(super) labels: Labels,
}

/// Who declares a resource.
#[derive(Debug, PartialEq, Eq)]
pub enum Origin {
    /// Kubernetes' own code.
    BuiltIn(BuiltIn),
    /// A CustomResourceDefinition: sorted keys, other texts for some errors.
    Custom(Custom),
}

/// What only a built-in resource has. The columns of its Table, and where its `/scale` is, are known to the code.
#[derive(Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// JSON text that follows `"metadata":{…}` in a BOOKMARK: the zero values of its Go type (spec list-watch §4.5). Starts with a comma or is empty.
    pub bookmark_zero: String,
    /// JSON members that the annotations of its BOOKMARKs have besides `k8s.io/initial-events-end`, which sorts after them; mostly empty. A
    /// DaemonSet has `"deprecated.daemonset.template.generation":"0"`, in plain bookmarks too.
    pub bookmark_annotations: String,
}

/// What only a custom resource has.
#[derive(Debug, PartialEq, Eq)]
pub struct Custom {
    /// Where it keeps what its `/scale` shows.
    pub scale: Option<ScalePaths>,
    /// Columns of its Table that its definition names.
    pub printer_columns: Vec<PrinterColumn>,
    /// Whether its definition is established: discovery does not list it before.
    pub established: bool,
    /// All versions of its definition, served or not.
    pub versions: Arc<[DefinedVersion]>,
    /// What is asked to convert between any of them; none when only `apiVersion` differs.
    pub webhook: Option<Arc<DefinedConversion>>,
}

/// A version of a definition.
#[derive(Debug, PartialEq, Eq)]
pub struct DefinedVersion {
    /// `group/version`.
    pub api_version: String,
    /// Where it keeps what its `/scale` shows.
    pub scale: Option<ScalePaths>,
}

/// How a stored object becomes the served one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conversion {
    /// It is the served one.
    #[default]
    None,
    /// Only `apiVersion` differs.
    ApiVersionOnly,
    /// Both have members that the other has not: `codec::versions` has the two ways.
    OtherMembers,
    /// A CustomResourceDefinition stored as v1beta1.
    Definition,
    /// By what the definition of a custom resource says.
    #[serde(skip)]
    Defined(Arc<DefinedConversion>),
}

/// One subresource of a served resource.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Subresource {
    /// `status`, `scale`.
    pub name: String,
    /// Group of its kind when that is not the resource's (`policy` of `pods/eviction`).
    #[serde(default)]
    pub group: Option<String>,
    /// Version of its kind when that is not the resource's.
    #[serde(default)]
    pub version: Option<String>,
    /// Kind of its body.
    pub kind: String,
    pub(super) verbs: Vec<String>,
}

/// The paths of a definition's scale subresource, their members without the leading dot (spec api-surface §11.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// `specReplicasPath`.
    pub spec: Vec<String>,
    /// `statusReplicasPath`.
    pub status: Vec<String>,
    /// `labelSelectorPath`: a string, a serialized selector.
    pub selector: Option<Vec<String>>,
}

/// What this server answers, and therefore lists in discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offer {
    /// `get`, `list` and `watch`, and subresources that are read as the object itself.
    Reads,
    /// Every verb, and the subresources that are the object itself, its scale, a binding or a namespace's finalizers.
    Writes,
    /// Every verb and subresource that a kube-apiserver has: what `Writes` is measured against.
    #[cfg(test)]
    Everything,
}

/// The field labels of a served resource (spec list-watch §7.3).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Labels {
    /// Label and index into the storage's fields.
    pub(super) declared: Vec<(String, u16)>,
    /// Whether `metadata.namespace` is accepted.
    pub(super) namespace: bool,
    /// How any other label is refused.
    pub(super) unknown: UnknownLabel,
}

/// Text for a label that a resource does not support; Go types register their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UnknownLabel {
    /// The text of kinds without a conversion function of their own.
    #[default]
    Default,
    /// Text A of spec list-watch §7.3.
    Plain,
    /// Names the kind: `Job`.
    Job,
    /// Names group, version and kind: `ResourceSlice`.
    ResourceSlice,
}

impl Served {
    /// Whether a CustomResourceDefinition declares it.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom(_))
    }

    /// Columns of its Table that its definition names; none for a built-in, whose columns `codec` knows.
    #[must_use]
    pub fn printer_columns(&self) -> &[PrinterColumn] {
        match &self.origin {
            Origin::BuiltIn(_) => &[],
            Origin::Custom(custom) => &custom.printer_columns,
        }
    }

    /// Whether discovery lists it: not before its definition is established.
    #[must_use]
    pub(super) fn is_listed(&self) -> bool {
        match &self.origin {
            Origin::BuiltIn(_) => true,
            Origin::Custom(custom) => custom.established,
        }
    }

    /// The API version of its group: `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// How its objects are made of the stored ones, if its definition says so.
    #[must_use]
    pub fn defined_conversion(&self) -> Option<&Arc<DefinedConversion>> {
        match &self.conversion {
            Conversion::Defined(conversion) => Some(conversion),
            _ => None,
        }
    }

    /// What asks a webhook to convert between any versions of a custom resource.
    #[must_use]
    pub fn conversion_webhook(&self) -> Option<&Arc<DefinedConversion>> {
        match &self.origin {
            Origin::Custom(custom) => custom.webhook.as_ref(),
            Origin::BuiltIn(_) => None,
        }
    }

    /// All versions of a custom resource's definition, served or not; none of a built-in.
    #[must_use]
    pub fn defined_versions(&self) -> &[DefinedVersion] {
        match &self.origin {
            Origin::Custom(custom) => &custom.versions,
            Origin::BuiltIn(_) => &[],
        }
    }

    /// The field that a label of a field selector means.
    ///
    /// # Errors
    /// The text of the 400 answer when the resource does not support the label (spec list-watch §7.3).
    pub fn field(&self, label: &str) -> Result<Field, String> {
        match label {
            "metadata.name" => return Ok(Field::Name),
            "metadata.namespace" if self.labels.namespace => return Ok(Field::Namespace),
            _ => {}
        }
        match self.labels.declared.iter().find(|(declared, _)| declared == label) {
            Some((_, index)) => Ok(Field::Declared(*index)),
            None => Err(self.unknown_label(label)),
        }
    }

    /// The verbs that discovery lists.
    #[must_use]
    pub fn verbs(&self, offer: Offer) -> Vec<&str> {
        offered(&self.verbs, offer).collect()
    }

    /// The subresources that discovery lists, each with its verbs.
    #[must_use]
    pub fn subresources(&self, offer: Offer) -> Vec<(&Subresource, Vec<&str>)> {
        let verbs = |sub: &Subresource| match offer {
            Offer::Writes if WRITTEN.contains(&sub.name.as_str()) => Offer::Writes,
            Offer::Writes => Offer::Reads,
            other => other,
        };
        let shown = |sub: &&Subresource| match offer {
            #[cfg(test)]
            Offer::Everything => true,
            Offer::Writes => self.shows(sub) || WRITTEN.contains(&sub.name.as_str()),
            Offer::Reads => self.shows(sub),
        };
        self.subresources.iter().filter(shown).map(|sub| (sub, offered(&sub.verbs, verbs(sub)).collect())).collect()
    }

    /// Whether a GET of this subresource is answered with the object itself.
    #[must_use]
    pub fn reads_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|sub| sub.name == name && self.shows(sub))
    }

    /// Whether the resource has this verb, `create`. A custom resource whose definition is being deleted has lost those that add something.
    #[must_use]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// A subresource of this name that has this verb.
    #[must_use]
    pub fn subresource_with(&self, name: &str, verb: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name && sub.verbs.iter().any(|v| v == verb))
    }

    /// Whether there is such a subresource, whatever may be done with it.
    #[must_use]
    pub fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|sub| sub.name == name)
    }

    /// `status`, `ephemeralcontainers`, `resize` and `approval` are the whole object under another path, read and replaced; the others are streams,
    /// other kinds or written only.
    fn shows(&self, sub: &Subresource) -> bool {
        let may = |verb: &str| sub.verbs.iter().any(|v| v == verb);
        sub.kind == self.kind && may("get") && may("update")
    }

    fn unknown_label(&self, label: &str) -> String {
        match self.labels.unknown {
            UnknownLabel::Default => {
                format!("{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", quoted(label))
            }
            UnknownLabel::Plain => format!("field label not supported: {label}"),
            UnknownLabel::Job => format!("field label {} not supported for Job", quoted(label)),
            UnknownLabel::ResourceSlice => {
                format!("field label not supported for {}, Kind={}: {label}", self.api_version(), self.kind)
            }
        }
    }
}

/// Subresources that writes go to.
const WRITTEN: [&str; 9] = ["approval", "binding", "ephemeralcontainers", "eviction", "finalize", "resize", "scale", "status", "token"];

/// `v1`, `apps/v1`.
pub(super) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn offered(verbs: &[String], offer: Offer) -> impl Iterator<Item = &str> {
    verbs.iter().map(String::as_str).filter(move |verb| offer != Offer::Reads || matches!(*verb, "get" | "list" | "watch"))
}

#[cfg(test)]
mod tests {
    use crate::{Catalogue, Offer};
    use model::selector::Field;

    fn check(group: &str, resource: &str, label: &str, expect: Result<Field, &str>) {
        let catalogue = Catalogue::new(&[]);
        let served = catalogue.served(group, "v1", resource).expect("a built-in");
        assert_eq!(served.field(label), expect.map_err(str::to_owned), "{group}/{resource} {label}");
    }

    #[test]
    fn labels_resolve_or_are_refused_with_the_text_of_the_type() {
        check("", "configmaps", "metadata.name", Ok(Field::Name));
        check("", "configmaps", "metadata.namespace", Ok(Field::Namespace));
        check("", "persistentvolumes", "metadata.namespace", Ok(Field::Namespace));
        check("", "nodes", "metadata.namespace", Err("field label not supported: metadata.namespace"));
        check("", "pods", "foo", Err("field label not supported: foo"));
        check("", "configmaps", "foo", Err("\"foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""));
        check("batch", "jobs", "foo", Err("field label \"foo\" not supported for Job"));
        let slice = "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: metadata.namespace";
        check("resource.k8s.io", "resourceslices", "metadata.namespace", Err(slice));
        check("events.k8s.io", "events", "involvedObject.kind", Err("field label not supported: involvedObject.kind"));
    }

    #[test]
    fn reads_show_only_what_is_read() {
        let catalogue = Catalogue::new(&[]);
        let pods = catalogue.served("", "v1", "pods").expect("a built-in");
        assert_eq!(pods.verbs(Offer::Reads), ["get", "list", "watch"]);
        assert_eq!(pods.verbs(Offer::Everything).len(), 8);
        let subresources: Vec<_> = pods.subresources(Offer::Reads).into_iter().map(|(sub, verbs)| (sub.name.as_str(), verbs)).collect();
        assert_eq!(subresources, [("ephemeralcontainers", vec!["get"]), ("resize", vec!["get"]), ("status", vec!["get"])]);
        assert_eq!(pods.subresources(Offer::Everything).len(), 10);
        assert!(pods.reads_subresource("status") && !pods.reads_subresource("log"));
        assert_eq!(pods.api_version(), "v1");
        let deployments = catalogue.served("apps", "v1", "deployments").expect("a built-in");
        assert_eq!(deployments.api_version(), "apps/v1");
    }
}
