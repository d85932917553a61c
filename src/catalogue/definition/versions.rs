//! What a definition says for one version or for all: schema at the root, subresources, printer columns, selectable fields, deprecation
//! (spec api-surface §11.1).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    defaults::{Heads, wrong_defaults},
    json_path::{follow, wrong_simple_path},
    schema::{Strictness, wrong_schema},
    shown, structural,
    tree::{any, at, child, flag, list, member, optional_text, schema_in, text},
};
use model::invalid::FieldError;
use schema::Schema;

/// Selectable fields of a version (KEP-4358).
const SELECTABLE_MAX: usize = 8;
/// Bytes of a deprecation warning.
const WARNING_BYTES_MAX: usize = 256;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Members that a root schema may have beside a status subresource, by Go's names and in Go's order.
const AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// What is wrong with `schema` of a version or `validation` of all. `is_unchanged`: the definition before had the same schema.
pub(super) fn wrong_validation(
    validation: Option<&Value>,
    (status, is_unchanged): (bool, bool),
    path: &str,
    strict: Strictness,
    heads: &dyn Heads,
) -> Vec<FieldError> {
    let Some(schema) = validation.and_then(schema_in) else { return Vec::new() };
    let path = child(path, "openAPIV3Schema");
    let mut errors = Vec::new();
    if status {
        errors.extend(wrong_root(schema, &path));
    }
    if flag(schema, "nullable") {
        errors.push(FieldError::forbidden(child(&path, "nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = structural::unsupported(schema).filter(|_| strict.structural);
    let mut compiled = None;
    if strict.structural && unsupported.is_none() {
        let mut wrong = structural::wrong_structure(schema, &path, strict.small_patterns);
        if wrong.is_empty() {
            wrong = wrong_defaults(schema, &path, strict.pruned_defaults, heads);
        }
        let has_rules = || any(schema, &|inner| !list(inner, "x-kubernetes-validations").is_empty());
        if wrong.is_empty() && has_rules() {
            compiled = Schema::of_tree(schema).ok();
        }
        errors.extend(wrong);
    }
    errors.extend(wrong_schema(schema, &path, strict, compiled.as_ref(), is_unchanged));
    if errors.is_empty() {
        errors.extend(unsupported.map(|why| FieldError::invalid(path, &Value::from(""), &why)));
    }
    errors
}

/// The schema of the status is cut out of the root's properties, so the root may not say more about it.
fn wrong_root(schema: &Value, path: &str) -> Option<FieldError> {
    const BECAUSE: &str = "at the root of the schema if the status subresource is enabled";
    let wrong = |(go, _): &(&str, &str)| if *go == "Type" { text(schema, "type") != "object" } else { !AT_ROOT.contains(go) };
    match shown::members_of(schema).find(wrong)? {
        ("Type", _) => {
            let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            Some(FieldError::invalid(child(path, "type"), &Value::from(text(schema, "type")), why))
        }
        _ => {
            let why = format!("only [{}] fields are allowed {BECAUSE}", AT_ROOT.join(" "));
            Some(shown::invalid_shown(path, &shown::schema(schema), &why))
        }
    }
}

/// What is wrong with `subresources`.
pub(super) fn wrong_subresources(subresources: Option<&Value>, path: &str) -> Vec<FieldError> {
    let Some(scale) = subresources.and_then(|subresources| member(subresources, "scale")) else { return Vec::new() };
    let mut errors = Vec::new();
    for (name, place) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let (field, value) = (child(&child(path, "scale"), name), text(scale, name));
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if let Some(error) = wrong_simple_path(value, &field) {
            errors.push(error);
        } else if !is_under(value, place) {
            errors.push(FieldError::invalid(field, &Value::from(value), &format!("should be a json path under {place}")));
        }
    }
    if let Some(value) = optional_text(scale, "labelSelectorPath").filter(|value| !value.is_empty()) {
        let field = child(path, "scale.labelSelectorPath");
        if let Some(error) = wrong_simple_path(value, &field) {
            errors.push(error);
        } else if !is_under(value, ".spec") && !is_under(value, ".status") {
            errors.push(FieldError::invalid(field, &Value::from(value), "should be a json path under either .spec or .status"));
        }
    }
    errors
}

fn is_under(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.starts_with('.'))
}

/// What is wrong with the printer columns of a holder.
pub(super) fn wrong_columns(holder: &Value, path: &str) -> Vec<FieldError> {
    let columns = list(holder, "additionalPrinterColumns").iter().enumerate();
    columns.flat_map(|(i, column)| wrong_column(column, &at(&child(path, "additionalPrinterColumns"), i))).collect()
}

fn wrong_column(column: &Value, path: &str) -> Vec<FieldError> {
    let one_of = |words: &[&str]| format!("must be one of {}", words.join(","));
    let mut errors = Vec::new();
    if text(column, "name").is_empty() {
        errors.push(FieldError::required(child(path, "name"), ""));
    }
    match text(column, "type") {
        "" => errors.push(FieldError::required(child(path, "type"), &one_of(&COLUMN_TYPES))),
        known if COLUMN_TYPES.contains(&known) => {}
        odd => errors.push(FieldError::invalid(child(path, "type"), &Value::from(odd), &one_of(&COLUMN_TYPES))),
    }
    let format = text(column, "format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.push(FieldError::invalid(child(path, "format"), &Value::from(format), &one_of(&COLUMN_FORMATS)));
    }
    match text(column, "JSONPath") {
        "" => errors.push(FieldError::required(child(path, "JSONPath"), "")),
        simple => errors.extend(wrong_simple_path(simple, &child(path, "JSONPath"))),
    }
    errors
}

/// What is wrong with the selectable fields of a holder whose schema is this one. `many` permits too many of them.
pub(super) fn wrong_selectable_fields(holder: &Value, schema: &Value, path: &str, many: bool) -> Vec<FieldError> {
    if let Some(why) = structural::unsupported(schema) {
        return vec![FieldError::invalid(child(path, "schema.openAPIV3Schema"), &Value::from(""), &why)];
    }
    let path = child(path, "selectableFields");
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (i, selectable) in list(holder, "selectableFields").iter().enumerate() {
        let (field, said) = (child(&at(&path, i), "jsonPath"), text(selectable, "jsonPath"));
        if said.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let mut refuse = |why: &str| errors.push(FieldError::invalid(field.clone(), &Value::from(said), why));
        let found = match follow(said, schema, false) {
            Ok(found) => found,
            Err(why) => {
                refuse(&format!("is an invalid path: {why}"));
                continue;
            }
        };
        if found.path.split(['.', '[']).next() == Some("metadata") {
            refuse("must not point to fields in metadata");
        }
        if !found.schema.is_some_and(|schema| ["string", "boolean", "integer"].contains(&text(schema, "type"))) {
            refuse("must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.");
        }
        if !seen.insert(found.path) {
            errors.push(FieldError::duplicate(field, &Value::from(said)));
        }
    }
    if seen.len() > SELECTABLE_MAX && !many {
        errors.push(FieldError::too_many(path, seen.len(), SELECTABLE_MAX));
    }
    errors
}

/// Whether an old holder has more selectable fields than are permitted, and the new one the same.
pub(super) fn keeps_too_many(new: &Value, old: &Value) -> bool {
    list(old, "selectableFields").len() > SELECTABLE_MAX && new.get("selectableFields") == old.get("selectableFields")
}

/// What is wrong with `deprecationWarning` of a version.
pub(super) fn wrong_deprecation(version: &Value, path: &str) -> Vec<FieldError> {
    let Some(warning) = optional_text(version, "deprecationWarning") else { return Vec::new() };
    let shown = shown::json(&Value::from(warning));
    let error = |why: &str| shown::invalid_shown(child(path, "deprecationWarning"), &shown, why);
    if !flag(version, "deprecated") {
        return vec![error("can only be set for deprecated versions")];
    }
    let mut errors = Vec::new();
    if warning.len() > WARNING_BYTES_MAX {
        errors.push(error(&format!("must be <= {WARNING_BYTES_MAX} characters long")));
    }
    if warning.is_empty() {
        errors.push(error("must not be an empty string"));
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' ')) {
        let why = format!("must only contain printable UTF-8 characters; non-printable character found at index {at}");
        errors.push(error(&why));
    }
    errors
}
