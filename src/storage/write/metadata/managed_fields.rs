//! `metadata.managedFields`: what no entry may say.

use serde_json::{Map, Value};

use super::{items, text};
use crate::write::manager_name::wrong_manager;
use model::invalid::{FieldError, told};

const SUBRESOURCE_BYTES_MAX: usize = 256;

/// What is wrong with the entries.
pub(super) fn wrong(metadata: &Map<String, Value>) -> Vec<FieldError> {
    let entries = items(metadata, "managedFields").iter().enumerate();
    entries.filter_map(|(at, entry)| Some(wrong_entry(at, entry.as_object()?))).flatten().take_while(told()).collect()
}

fn wrong_entry(at: usize, entry: &Map<String, Value>) -> impl Iterator<Item = FieldError> {
    let field = move |name: &str| format!("metadata.managedFields[{at}].{name}");
    let (operation, fields_type) = (text(entry, "operation"), text(entry, "fieldsType"));
    let operation = (!matches!(operation, "Apply" | "Update"))
        .then(|| FieldError::invalid(field("operation"), &operation.into(), "must be `Apply` or `Update`"));
    let fields_type = (!matches!(fields_type, "" | "FieldsV1"))
        .then(|| FieldError::invalid(field("fieldsType"), &fields_type.into(), "must be `FieldsV1`"));
    let manager = wrong_manager(&field("manager"), text(entry, "manager")).collect::<Vec<_>>();
    let subresource = (text(entry, "subresource").len() > SUBRESOURCE_BYTES_MAX)
        .then(|| FieldError::too_long(field("subresource"), SUBRESOURCE_BYTES_MAX));
    operation.into_iter().chain(fields_type).chain(manager).chain(subresource)
}
