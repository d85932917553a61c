//! What we need of one CustomResourceDefinition, and the resources it makes served. Knows neither etcd nor the cache.

use std::{cmp::Ordering, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    builtins::{field_index, members},
    order::preferred_first,
    rules,
    schema::keeps,
    served::{Conversion, Labels, ScalePaths, Served, Subresource, UnknownLabel, api_version},
};
use crate::model::{FieldPath, PrinterColumn, Shape, Storage, quote::quoted};

/// Verbs of a custom resource, in the order that discovery has (spec api-surface §2.1).
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Verbs while the definition is being deleted.
const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// One CustomResourceDefinition. Two equal ones make the same resources, so a change that leaves it equal (managed fields, a condition's time)
/// needs no new catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    group: String,
    namespaced: bool,
    /// `status.acceptedNames`: what is published (spec api-surface §11.4).
    names: Names,
    versions: Vec<Version>,
    /// Index of the version that new values are stored under.
    storage: usize,
    /// `status.storedVersions`: values may be stored under any of these.
    stored: Vec<String>,
    webhook: bool,
    names_accepted: bool,
    established: bool,
    terminating: bool,
}

impl Definition {
    /// Reads a definition in its v1 form or in the stored v1beta1 form; `apiVersion` and `kind` may be missing.
    ///
    /// # Errors
    /// A sentence for the operator when it is not JSON of that shape or has not exactly one storage version.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let raw: Raw = serde_json::from_slice(json).map_err(|error| format!("not a CustomResourceDefinition: {error}"))?;
        let name = raw.metadata.name.clone();
        raw.checked().map_err(|why| format!("CustomResourceDefinition {name}: {why}"))
    }

    /// Whether its resources are served: names accepted, or once established (spec api-surface §11.2).
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.names_accepted || self.established
    }

    /// `openAPIV3Schema` of a version, when it has one that prunes.
    pub(super) fn schema(&self, version: &str) -> Option<&Arc<Value>> {
        self.versions.iter().find(|known| known.name == version)?.schema.as_ref()
    }

    /// The resources it makes served, one for each served version.
    pub(super) fn served(&self) -> Vec<Served> {
        if !self.is_served() {
            return Vec::new();
        }
        let storage = Arc::new(self.storage());
        self.versions.iter().filter(|version| version.served).map(|version| self.served_version(version, &storage)).collect()
    }

    fn served_version(&self, version: &Version, storage: &Arc<Storage>) -> Served {
        let conversion = self.conversion(version);
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
            listed: self.established && !matches!(conversion, Conversion::Refused(_)),
            conversion,
            custom: true,
            bookmark_zero: String::new(),
            bookmark_annotations: String::new(),
            warning: self.warning(version),
            stored_as: api_version(&self.group, &self.versions[self.storage].name),
            scale: version.scale.clone(),
            storage_version_hash: self.hash(),
            rules: rules::CUSTOM,
            verbs: owned(if self.terminating { TERMINATING_VERBS } else { VERBS }),
            subresources: self.subresources(version),
            labels: self.labels(version, storage),
            printer_columns: version.columns.clone(),
        }
    }

    /// What a `Warning` header says of a deprecated version: its own text, or the default one with the version to use instead, if a preferred one
    /// is served that is not deprecated too (spec api-surface §3.7).
    fn warning(&self, version: &Version) -> String {
        let Some(own) = &version.deprecation else { return String::new() };
        let (group, kind, this) = (&self.group, &self.names.kind, &version.name);
        let text = own.clone().unwrap_or_else(|| {
            let better = |v: &&Version| v.served && v.deprecation.is_none() && preferred_first(&v.name, this) == Ordering::Less;
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
        let api_versions = self.readable().map(|version| api_version(&self.group, &version.name)).collect();
        Storage {
            id: format!("{}/{}", self.group, self.names.plural).into(),
            group: self.group.clone(),
            resource: self.names.plural.clone(),
            namespaced: self.namespaced,
            shape: Shape::Custom { kind: self.names.kind.clone(), api_versions },
            fields,
        }
    }

    /// The versions whose stored values need only another `apiVersion` to be what the storage version shows.
    fn readable(&self) -> impl Iterator<Item = &Version> {
        let storage = &self.versions[self.storage];
        self.versions.iter().filter(move |version| version.name == storage.name || !self.webhook && version.kept_by(storage))
    }

    /// A version is shown when the bytes of every readable value that may be stored are its own but for `apiVersion`.
    fn conversion(&self, version: &Version) -> Conversion {
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
        let may_be_stored = |writer: &&Version| writer.name == storage.name || self.stored.contains(&writer.name);
        if self.readable().filter(may_be_stored).all(|writer| writer.kept_by(version)) {
            return Conversion::ApiVersionOnly;
        }
        Conversion::Refused(format!(
            "{kind} is stored as {that}, and the schema of {this} would prune or default fields of it, which is not supported: use {that}"
        ))
    }

    fn subresources(&self, version: &Version) -> Vec<Subresource> {
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

    fn labels(&self, version: &Version, storage: &Storage) -> Labels {
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
pub(super) fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    BASE64_STANDARD.encode(&Sha256::digest(format!("{group}/{version}/{kind}"))[..8])
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    name: String,
    served: bool,
    schema: Option<Arc<Value>>,
    /// Of a deprecated version: the definition's own `deprecationWarning`, if it has one.
    deprecation: Option<Option<String>>,
    /// Paths of `selectableFields` without the leading dot: the labels.
    selectable: Vec<String>,
    status: bool,
    scale: Option<ScalePaths>,
    /// `additionalPrinterColumns`.
    columns: Vec<PrinterColumn>,
}

impl Version {
    fn kept_by(&self, reader: &Self) -> bool {
        keeps(reader.schema.as_deref(), self.schema.as_deref())
    }
}

fn scalar(path: &str) -> FieldPath {
    FieldPath::Scalar(members(path))
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The object as both API versions write it: v1beta1 may say at the top of `spec` what holds for every version.
#[derive(Deserialize)]
struct Raw {
    metadata: RawMetadata,
    spec: RawSpec,
    #[serde(default, deserialize_with = "null_is_default")]
    status: RawStatus,
}

#[derive(Deserialize)]
struct RawMetadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    group: String,
    scope: String,
    #[serde(default, deserialize_with = "null_is_default")]
    versions: Vec<RawVersion>,
    #[serde(flatten)]
    common: RawCommon,
    /// v1beta1: the schema of every version.
    #[serde(default, deserialize_with = "null_is_default")]
    validation: RawSchema,
    /// v1beta1 only: nothing is pruned.
    #[serde(default, deserialize_with = "null_is_default")]
    preserve_unknown_fields: bool,
    #[serde(default, deserialize_with = "null_is_default")]
    conversion: RawConversion,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawVersion {
    name: String,
    #[serde(default)]
    deprecated: bool,
    deprecation_warning: Option<String>,
    served: bool,
    storage: bool,
    #[serde(default, deserialize_with = "null_is_default")]
    schema: RawSchema,
    #[serde(flatten)]
    common: RawCommon,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCommon {
    subresources: Option<RawSubresources>,
    selectable_fields: Option<Vec<RawSelectable>>,
    additional_printer_columns: Option<Vec<PrinterColumn>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RawSchema {
    #[serde(rename = "openAPIV3Schema")]
    open_api: Option<Value>,
}

#[derive(Deserialize)]
struct RawSubresources {
    status: Option<Value>,
    scale: Option<RawScale>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawScale {
    spec_replicas_path: String,
    status_replicas_path: String,
    label_selector_path: Option<String>,
}

impl RawScale {
    fn paths(&self) -> ScalePaths {
        let path = |path: &str| members(path.trim_start_matches('.'));
        let selector = self.label_selector_path.as_deref().filter(|p| !p.is_empty()).map(path);
        ScalePaths { spec: path(&self.spec_replicas_path), status: path(&self.status_replicas_path), selector }
    }
}

#[derive(Deserialize)]
struct RawSelectable {
    #[serde(rename = "jsonPath")]
    path: String,
}

#[derive(Deserialize, Default)]
struct RawConversion {
    #[serde(default)]
    strategy: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    #[serde(default, deserialize_with = "null_is_default")]
    accepted_names: Names,
    #[serde(default, deserialize_with = "null_is_default")]
    conditions: Vec<RawCondition>,
    #[serde(default, deserialize_with = "null_is_default")]
    stored_versions: Vec<String>,
}

#[derive(Deserialize)]
struct RawCondition {
    r#type: String,
    status: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Names {
    #[serde(deserialize_with = "null_is_default")]
    plural: String,
    singular: String,
    kind: String,
    list_kind: String,
    #[serde(deserialize_with = "null_is_default")]
    short_names: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    categories: Vec<String>,
}

impl Raw {
    fn checked(self) -> Result<Definition, String> {
        let mut stored = self.spec.versions.iter().enumerate().filter(|(_, version)| version.storage).map(|(index, _)| index);
        let (Some(storage), None) = (stored.next(), stored.next()) else {
            return Err("it must have exactly one storage version".to_owned());
        };
        let namespaced = match self.spec.scope.as_str() {
            "Namespaced" => true,
            "Cluster" => false,
            other => return Err(format!("its scope {other:?} is neither Namespaced nor Cluster")),
        };
        let holds = |kind: &str| self.status.conditions.iter().any(|c| c.r#type == kind && c.status == "True");
        Ok(Definition {
            namespaced,
            storage,
            webhook: self.spec.conversion.strategy == "Webhook",
            names_accepted: holds("NamesAccepted"),
            established: holds("Established"),
            terminating: holds("Terminating"),
            versions: self.spec.versions.iter().map(|version| version.resolved(&self.spec)).collect(),
            group: self.spec.group,
            names: self.status.accepted_names,
            stored: self.status.stored_versions,
        })
    }
}

impl RawVersion {
    fn resolved(&self, spec: &RawSpec) -> Version {
        let subresources = self.common.subresources.as_ref().or(spec.common.subresources.as_ref());
        let selectable = self.common.selectable_fields.as_ref().or(spec.common.selectable_fields.as_ref());
        let schema = self.schema.open_api.as_ref().or(spec.validation.open_api.as_ref());
        let columns = self.common.additional_printer_columns.as_ref().or(spec.common.additional_printer_columns.as_ref());
        let label = |field: &RawSelectable| field.path.strip_prefix('.').unwrap_or(&field.path).to_owned();
        Version {
            name: self.name.clone(),
            served: self.served,
            deprecation: self.deprecated.then(|| self.deprecation_warning.clone()),
            schema: schema.filter(|_| !spec.preserve_unknown_fields).cloned().map(Arc::new),
            selectable: selectable.into_iter().flatten().map(label).collect(),
            status: subresources.is_some_and(|s| s.status.is_some()),
            scale: subresources.and_then(|s| s.scale.as_ref()).map(RawScale::paths),
            columns: columns.cloned().unwrap_or_default(),
        }
    }
}

/// Go writes an empty slice or pointer as `null`.
fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{catalogue::Catalogue, model::selector::Field};

    fn version(name: &str, more: Value) -> Value {
        let mut version = json!({"name": name, "served": true, "storage": false, "schema": {"openAPIV3Schema": {"properties": {"a": {}}}}});
        version.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        version
    }

    fn object(versions: &[Value]) -> Value {
        let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": null});
        json!({
            "metadata": {"name": "widgets.ex.io"},
            "spec": {"group": "ex.io", "scope": "Namespaced", "names": names, "versions": versions, "conversion": {"strategy": "None"}},
            "status": {
                "acceptedNames": names,
                "storedVersions": ["v1"],
                "conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}],
            },
        })
    }

    fn parse(object: &Value) -> Definition {
        Definition::parse(object.to_string().as_bytes()).expect("a definition")
    }

    fn served(object: &Value, version: &str) -> Arc<Served> {
        let catalogue = Catalogue::new(&[parse(object)]);
        Arc::clone(catalogue.served("ex.io", version, "widgets").expect("served"))
    }

    fn two_versions(more: Value) -> Value {
        object(&[version("v1", json!({"storage": true})), version("v2", more)])
    }

    #[test]
    fn what_the_real_server_stores_is_what_it_shows() {
        let data = |name| std::fs::read(format!("{}/tests/data/discovery/{name}", env!("CARGO_MANIFEST_DIR"))).expect("recorded");
        let shown: Value = serde_json::from_slice(&data("definitions.json")).expect("recorded JSON");
        let stored: Value = serde_json::from_slice(&data("definitions_stored.json")).expect("recorded JSON");
        let (shown, stored) = (shown["items"].as_array().expect("a list"), stored["items"].as_array().expect("a list"));
        assert_eq!((shown.len(), stored.len()), (5, 5));
        for (shown, stored) in shown.iter().zip(stored) {
            assert_eq!(stored["apiVersion"], "apiextensions.k8s.io/v1beta1");
            assert_eq!(parse(shown), parse(stored));
        }
        let served: Vec<bool> = shown.iter().map(|item| parse(item).is_served()).collect();
        assert_eq!(served, [false, true, true, true, true], "the names of the first clash");
    }

    #[test]
    fn v1beta1_says_at_the_top_what_holds_for_every_version() {
        let mut old = object(&[json!({"name": "v1", "served": true, "storage": true})]);
        old["spec"]["subresources"] = json!({"status": {}});
        old["spec"]["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
        old["spec"]["validation"] = json!({"openAPIV3Schema": {"properties": {}}});
        let parsed = parse(&old);
        assert!(parsed.versions[0].status && parsed.versions[0].scale.is_none() && parsed.versions[0].schema.is_some());
        assert_eq!(parsed.versions[0].selectable, ["spec.color"]);
        old["spec"]["preserveUnknownFields"] = json!(true);
        assert_eq!(parse(&old).versions[0].schema, None);
    }

    #[test]
    fn every_served_version_shows_one_storage() {
        let object = two_versions(json!({"selectableFields": [{"jsonPath": ".spec.color"}]}));
        let (v1, v2) = (served(&object, "v1"), served(&object, "v2"));
        assert_eq!(&*v1.storage.id, "ex.io/widgets");
        let api_versions = vec!["ex.io/v1".to_owned(), "ex.io/v2".to_owned()];
        assert_eq!(v1.storage.shape, Shape::Custom { kind: "Widget".to_owned(), api_versions });
        assert_eq!((&v1.conversion, &v2.conversion), (&Conversion::None, &Conversion::ApiVersionOnly));
        assert_eq!((v1.list_kind.as_str(), v1.custom, v1.bookmark_zero.as_str()), ("WidgetList", true, ""));
        assert_eq!(v2.field("spec.color"), Ok(Field::Declared(0)));
        assert_eq!(v1.field("spec.color"), Err("field label not supported: spec.color".to_owned()));
        assert_eq!(v1.field("metadata.namespace"), Ok(Field::Namespace));
        assert_eq!(v1.storage.fields, [FieldPath::Scalar(vec!["spec".to_owned(), "color".to_owned()])]);
    }

    #[test]
    fn cluster_scoped_ones_have_no_namespace_label() {
        let mut object = two_versions(json!({}));
        object["spec"]["scope"] = json!("Cluster");
        let error = served(&object, "v1").field("metadata.namespace");
        assert_eq!(error, Err("field label not supported: metadata.namespace".to_owned()));
        assert!(!served(&object, "v1").storage.namespaced);
    }

    #[test]
    fn a_version_that_prunes_is_refused() {
        let narrow = two_versions(json!({"schema": {"openAPIV3Schema": {"properties": {"b": {}}}}}));
        assert!(
            matches!(&served(&narrow, "v2").conversion, Conversion::Refused(why) if why.contains("use v1") && why.contains("schema of v2"))
        );
        let Shape::Custom { api_versions, .. } = served(&narrow, "v1").storage.shape.clone() else { panic!("a custom shape") };
        assert_eq!(api_versions, ["ex.io/v1"], "a value stored as v2 would lose b");
        let wide = two_versions(json!({"schema": {"openAPIV3Schema": {"properties": {"a": {}, "b": {}}}}}));
        assert_eq!(served(&wide, "v2").conversion, Conversion::ApiVersionOnly);
    }

    #[test]
    fn a_webhook_leaves_the_storage_version_only() {
        let mut object = two_versions(json!({}));
        object["spec"]["conversion"] = json!({"strategy": "Webhook"});
        assert_eq!(served(&object, "v1").conversion, Conversion::None);
        assert!(matches!(&served(&object, "v2").conversion, Conversion::Refused(why) if why.contains("webhook")));
        let Shape::Custom { api_versions, .. } = served(&object, "v1").storage.shape.clone() else { panic!("a custom shape") };
        assert_eq!(api_versions, ["ex.io/v1"]);
    }

    #[test]
    fn conditions_decide_what_is_served_and_listed() {
        let mut object = two_versions(json!({"served": false}));
        let catalogue = Catalogue::new(&[parse(&object)]);
        assert!(catalogue.knows_group("ex.io") && catalogue.knows_group_version("ex.io", "v1"));
        assert!(!catalogue.knows_group_version("ex.io", "v2") && catalogue.served("ex.io", "v2", "widgets").is_none());
        object["status"]["conditions"] = json!([{"type": "NamesAccepted", "status": "True"}]);
        assert!(!served(&object, "v1").listed);
        assert!(Catalogue::new(&[parse(&object)]).api_group("ex.io").is_none());
        object["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]});
        assert!(!parse(&object).is_served() && !Catalogue::new(&[parse(&object)]).knows_group("ex.io"));
    }

    #[test]
    fn broken_definitions_say_why() {
        let check = |json: &str, why: &str| {
            let error = Definition::parse(json.as_bytes()).expect_err("must not parse");
            assert!(error.contains(why), "{error}");
        };
        check("{", "not a CustomResourceDefinition");
        check(&object(&[]).to_string(), "widgets.ex.io: it must have exactly one storage version");
        let two = object(&[version("v1", json!({"storage": true})), version("v2", json!({"storage": true}))]);
        check(&two.to_string(), "exactly one storage version");
        check(&two_versions(json!({})).to_string().replace("Namespaced", "Galaxy"), "scope \"Galaxy\"");
    }

    #[test]
    fn hashes_are_those_of_the_real_server() {
        assert_eq!(storage_version_hash("", "v1", "Pod"), "xPOwRZ+Yhw8=");
        assert_eq!(storage_version_hash("ex.io", "v1", "Widget"), "RDFwhYKgK0s=");
    }

    #[test]
    fn columns_are_those_of_the_version() {
        let column = json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1});
        let object = two_versions(json!({"additionalPrinterColumns": [column]}));
        let columns = &served(&object, "v2").printer_columns;
        let expect = ("Size", "integer", "", "", 1, ".spec.size");
        let told: Vec<_> = columns.iter().map(|c| (&*c.name, &*c.kind, &*c.format, &*c.description, c.priority, &*c.path)).collect();
        assert_eq!((told, served(&object, "v1").printer_columns.len()), (vec![expect], 0));
    }

    #[test]
    fn a_deprecated_version_names_the_one_to_use() {
        let version = |name: &str, more: &str| format!(r#"{{"name":"{name}","served":true,"storage":{}{more}}}"#, name == "v1");
        let versions = [
            version("v1", ""),
            version("v1beta1", r#","deprecated":true"#),
            version("v1alpha1", r#","deprecated":true,"deprecationWarning":"no more""#),
            version("v0", r#","deprecated":true"#),
        ];
        let names = r#"{"plural":"foos","singular":"foo","kind":"Foo","listKind":"FooList"}"#;
        let object = format!(
            r#"{{"metadata":{{"name":"foos.ex.io"}},"spec":{{"group":"ex.io","scope":"Cluster","versions":[{}]}},"status":{{"acceptedNames":{names},"conditions":[{{"type":"Established","status":"True"}}]}}}}"#,
            versions.join(",")
        );
        let warnings: Vec<String> =
            Definition::parse(object.as_bytes()).expect("a definition").served().into_iter().map(|served| served.warning).collect();
        assert_eq!(
            warnings,
            [
                "",
                r#"299 - "ex.io/v1beta1 Foo is deprecated; use ex.io/v1 Foo""#,
                r#"299 - "no more""#,
                r#"299 - "ex.io/v0 Foo is deprecated; use ex.io/v1 Foo""#,
            ]
        );
    }
}
