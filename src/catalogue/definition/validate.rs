//! Whether a definition may be written, in the order and the words of kube-apiserver (spec api-surface §11.1).
//!
//! Not done here: generic metadata (labels, annotations, the characters of the name), which the writer checks for every object.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::{
    approval::wrong_approval,
    conditions::is_true,
    conversion::{Lenience, has_review, wrong_bundle, wrong_conversion},
    defaults::Heads,
    names::{not_a_label, wrong_names},
    schema::Strictness,
    shown,
    tree::{any, at, child, flag, list, member, roots, schema_in, text},
    versions::{keeps_too_many, wrong_columns, wrong_deprecation, wrong_selectable_fields, wrong_subresources, wrong_validation},
};
use codec::definition::lifted;
use model::{
    invalid::{FieldError, TOLD_BYTES_MAX},
    legal::wrong_subdomain,
};

/// What is wrong with a new v1 definition, after `prepare_create`.
#[must_use]
pub fn validate_create(object: &Value, heads: &dyn Heads) -> Vec<FieldError> {
    let (said, object) = (says_versions(object), lifted(object));
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    let mut errors = Vec::new();
    let name = text(metadata, "name");
    if !name.is_empty() && name != format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group")) {
        errors.push(FieldError::invalid("metadata.name", &Value::from(name), "must be spec.names.plural+\".\"+spec.group"));
    }
    let options = Options {
        every_version_has_a_schema: true,
        strict: Strictness::FULL,
        lenient: Lenience { reviews: false, bundle: true },
        old_spec: None,
        versions_said: said,
        heads,
    };
    errors.extend(wrong_spec(spec, &options));
    errors.extend(wrong_status(&object));
    errors.extend(wrong_approval(&object, None));
    errors.extend(wrong_pruning(spec));
    errors
}

/// What is wrong with the v1 successor of a v1 definition, after `prepare_update`. What the old one broke already, the new one may too.
#[must_use]
pub fn validate_update(new: &Value, old: &Value, heads: &dyn Heads) -> Vec<FieldError> {
    let (said, object, old) = (says_versions(new), lifted(new), lifted(old));
    let (spec, old_spec) = (&object["spec"], &old["spec"]);
    let old_conversion = &old_spec["conversion"];
    let old_bundle = old_conversion.get("webhookClientConfig").map_or("", |config| text(config, "caBundle"));
    let established = is_true(&old, "Established");
    let options = Options {
        every_version_has_a_schema: member(old_spec, "validation").and_then(schema_in).is_some()
            || list(old_spec, "versions").iter().all(|version| member(version, "schema").and_then(schema_in).is_some()),
        strict: Strictness::after(&roots(old_spec).collect::<Vec<_>>()),
        lenient: Lenience {
            reviews: !has_review(list(old_conversion, "conversionReviewVersions")),
            bundle: !established || wrong_bundle(old_bundle).is_some(),
        },
        old_spec: Some(old_spec),
        versions_said: said,
        heads,
    };
    let mut errors = wrong_spec(spec, &options);
    let names = |spec: &Value, name: &str| text(&spec["names"], name).to_owned();
    let mut immutable = |field: &str, new: &str, old: &str| {
        if new != old {
            errors.push(FieldError::invalid(format!("spec.{field}"), &Value::from(new), "field is immutable"));
        }
    };
    if established {
        immutable("scope", text(spec, "scope"), text(old_spec, "scope"));
        immutable("names.kind", &names(spec, "kind"), &names(old_spec, "kind"));
    }
    immutable("group", text(spec, "group"), text(old_spec, "group"));
    immutable("names.plural", &names(spec, "plural"), &names(old_spec, "plural"));
    errors.extend(wrong_status(&object));
    errors.extend(wrong_approval(&object, Some(&old)));
    errors.extend(wrong_pruning(spec).filter(|_| !flag(old_spec, "preserveUnknownFields")));
    errors
}

/// What is wrong with a definition written through `/status`: the accepted names only.
#[must_use]
pub fn validate_status_update(new: &Value) -> Vec<FieldError> {
    wrong_names(&new["status"]["acceptedNames"], "status.acceptedNames")
}

struct Options<'o> {
    every_version_has_a_schema: bool,
    strict: Strictness,
    lenient: Lenience,
    old_spec: Option<&'o Value>,
    /// `spec.versions` was sent, if only as an empty list: Go prints that and `null` differently.
    versions_said: bool,
    heads: &'o dyn Heads,
}

impl Options<'_> {
    /// Whether the definition before had the same schema for a version.
    fn keeps_schema(&self, spec: &Value, version: &str) -> bool {
        let schema = self.old_spec.and_then(|old| schema_for(old, version));
        schema.is_some() && schema == schema_for(spec, version)
    }
}

/// Returns the schema of a version, which may be that of all.
fn schema_for<'v>(spec: &'v Value, version: &str) -> Option<&'v Value> {
    let found = list(spec, "versions").iter().find(|other| text(other, "name") == version)?;
    member(spec, "validation").or_else(|| member(found, "schema")).and_then(schema_in)
}

fn says_versions(object: &Value) -> bool {
    object.get("spec").is_some_and(|spec| member(spec, "versions").is_some())
}

fn wrong_spec(spec: &Value, options: &Options<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(wrong_group(text(spec, "group")));
    match text(spec, "scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        odd => errors.push(FieldError::not_supported("spec.scope", &Value::from(odd), &["Cluster", "Namespaced"])),
    }
    errors.extend(missing_schemas(spec, options.every_version_has_a_schema));
    let preserving = flag(spec, "preserveUnknownFields");
    let with_defaults = roots(spec).any(|root| any(root, &|s| member(s, "default").is_some()));
    if with_defaults && preserving {
        let why = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &Value::Bool(true), why));
    }
    let structural = options.strict.structural || !preserving || with_defaults || roots(spec).any(|root| any(root, &has_extensions));
    let strict = Strictness { structural, ..options.strict };
    errors.extend(wrong_versions(spec, strict, options));
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"], name).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{name}"), ""));
        }
    }
    errors.extend(wrong_names(&spec["names"], "spec.names"));
    errors.extend(wrong_for_all(spec, strict, options));
    let conversion = &spec["conversion"];
    if preserving && member(spec, "conversion").is_some() && text(conversion, "strategy") != "None" {
        let why = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid("spec.conversion.strategy", &Value::from(text(conversion, "strategy")), why));
    }
    if member(spec, "conversion").is_some() {
        errors.extend(wrong_conversion(conversion, "spec.conversion", options.lenient));
    }
    errors
}

fn wrong_group(group: &str) -> Option<FieldError> {
    let invalid = |why: &str| Some(FieldError::invalid("spec.group", &Value::from(group), why));
    match (group, wrong_subdomain(group)) {
        ("", _) => Some(FieldError::required("spec.group", "")),
        (_, why) if !why.is_empty() => invalid(&why.join(",")),
        (group, _) if !group.contains('.') => invalid("should be a domain with at least one dot"),
        _ => None,
    }
}

fn missing_schemas(spec: &Value, every: bool) -> Vec<FieldError> {
    if member(spec, "validation").and_then(schema_in).is_some() || (!every && flag(spec, "preserveUnknownFields")) {
        return Vec::new();
    }
    let why = if every { "" } else { "because otherwise all fields are pruned" };
    let missing = |version: &Value| (every || flag(version, "served")) && member(version, "schema").and_then(schema_in).is_none();
    let versions = list(spec, "versions").iter().enumerate().filter(|(_, version)| missing(version));
    versions.map(|(i, _)| FieldError::required(format!("spec.versions[{i}].schema.openAPIV3Schema"), why)).collect()
}

/// Extensions that only structural schemas may use.
fn has_extensions(schema: &Value) -> bool {
    ["embedded-resource", "preserve-unknown-fields", "int-or-string", "list-map-keys", "list-type", "validations"]
        .iter()
        .any(|name| member(schema, &format!("x-kubernetes-{name}")).is_some())
}

fn wrong_versions(spec: &Value, strict: Strictness, options: &Options<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    let versions = list(spec, "versions");
    let shared = member(spec, "subresources");
    let per_version = versions.iter().any(|version| member(version, "subresources").is_some());
    // Of those with one name the first.
    let old_versions: HashMap<&str, &Value> =
        options.old_spec.iter().flat_map(|old| list(old, "versions").iter().rev()).map(|old| (text(old, "name"), old)).collect();
    let (mut told, mut counted) = (0, 0);
    for (i, version) in versions.iter().enumerate() {
        told += errors[counted..].iter().map(FieldError::bytes).sum::<usize>();
        counted = errors.len();
        if told > TOLD_BYTES_MAX {
            return errors;
        }
        let path = at("spec.versions", i);
        let name = text(version, "name");
        names.insert(name);
        let wrong = not_a_label(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(child(&path, "name"), &Value::from(name), &wrong.join(",")));
        }
        let own = member(version, "subresources");
        let status = has_status(if per_version { own } else { shared });
        errors.extend(wrong_deprecation(version, &path));
        let is_unchanged = options.keeps_schema(spec, name);
        errors.extend(wrong_validation(member(version, "schema"), (status, is_unchanged), &child(&path, "schema"), strict, options.heads));
        errors.extend(wrong_subresources(own, &child(&path, "subresources")));
        errors.extend(wrong_columns(version, &path));
        if list(version, "selectableFields").is_empty() {
            continue;
        }
        let old = old_versions.get(name);
        match member(version, "schema").and_then(schema_in) {
            Some(schema) => {
                let many = old.is_some_and(|old| keeps_too_many(version, old));
                errors.extend(wrong_selectable_fields(version, schema, &path, many));
            }
            None => {
                // Also where all versions share a schema and differ in their fields: kube-apiserver refuses that too, in these words.
                let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
                errors.push(FieldError::invalid(child(&path, "selectableFields"), &Value::from(""), why));
            }
        }
    }
    let mut refuse = |why| errors.push(shown::invalid_shown("spec.versions", &shown::versions(spec, options.versions_said), why));
    if names.len() < versions.len() {
        refuse("must contain unique version names");
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        refuse("must have exactly one version marked as storage version");
    }
    let first = text(spec, "version");
    let wrong = not_a_label(first);
    if !first.is_empty() && !wrong.is_empty() {
        errors.push(FieldError::invalid("spec.version", &Value::from(first), &wrong.join(",")));
    }
    errors
}

fn has_status(subresources: Option<&Value>) -> bool {
    subresources.is_some_and(|subresources| member(subresources, "status").is_some())
}

/// What stands at the top of the spec because all versions share it.
fn wrong_for_all(spec: &Value, strict: Strictness, options: &Options<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let status = has_status(member(spec, "subresources"))
        || list(spec, "versions").iter().any(|version| has_status(member(version, "subresources")));
    let validation = member(spec, "validation");
    let is_unchanged = options.keeps_schema(spec, text(spec, "version"));
    errors.extend(wrong_validation(validation, (status, is_unchanged), "spec.validation", strict, options.heads));
    errors.extend(wrong_subresources(member(spec, "subresources"), "spec.subresources"));
    errors.extend(wrong_columns(spec, "spec"));
    if !list(spec, "selectableFields").is_empty() {
        match validation {
            Some(validation) => {
                let many = options.old_spec.is_some_and(|old| keeps_too_many(spec, old));
                errors.extend(wrong_selectable_fields(spec, schema_in(validation).unwrap_or(&Value::Null), "spec", many));
            }
            None => {
                let why = "may only be set when validations.schema is included";
                errors.push(FieldError::invalid("spec.selectableFields", &Value::from(""), why));
            }
        }
    }
    errors
}

/// `acceptedNames`, and `storedVersions` against the versions of the spec.
fn wrong_status(object: &Value) -> Vec<FieldError> {
    let status = &object["status"];
    let mut errors = wrong_names(&status["acceptedNames"], "status.acceptedNames");
    let stored = list(status, "storedVersions");
    let path = "status.storedVersions";
    let shown = shown::json(&status["storedVersions"]);
    if stored.is_empty() {
        errors.push(shown::invalid_shown(path, &shown, "must have at least one stored version"));
        return errors;
    }
    let versions = list(&object["spec"], "versions");
    let kept: HashSet<&Value> = stored.iter().collect();
    // kube-apiserver forgets a stored version when it has found it once.
    let mut found = HashSet::new();
    let mut told = 0;
    for version in versions {
        let name = &version["name"];
        let is_repeated = !found.insert(name);
        if told <= TOLD_BYTES_MAX && flag(version, "storage") && (is_repeated || !kept.contains(name)) {
            let error = shown::invalid_shown(path, &shown, &format!("must have the storage version {}", text(version, "name")));
            told += error.bytes();
            errors.push(error);
        }
    }
    for (i, name) in stored.iter().enumerate().filter(|(_, name)| !found.contains(name)) {
        if told > TOLD_BYTES_MAX {
            break;
        }
        let gone = name.as_str().unwrap_or_default();
        let why = format!(
            "missing from spec.versions; {gone} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {gone} and removes {gone} from status.storedVersions"
        );
        let error = FieldError::invalid(at(path, i), name, &why);
        told += error.bytes();
        errors.push(error);
    }
    errors
}

fn wrong_pruning(spec: &Value) -> Option<FieldError> {
    let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    flag(spec, "preserveUnknownFields").then(|| FieldError::invalid("spec.preserveUnknownFields", &Value::Bool(true), why))
}
