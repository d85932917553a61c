//! CustomResourceDefinitions and APIServices: what has groups and versions.

use std::borrow::Cow;

use serde_json::Value;

use super::row::{StatusMetadata, Strategy, of_main};
use crate::write::embedded::Heads;
use crate::write::{metadata, part::Part, tree};
use builtins::api_service;
use catalogue::definition;
use model::invalid::FieldError;

pub(super) const DEFINITIONS: Strategy = Strategy {
    storage: "apiextensions.k8s.io/customresourcedefinitions",
    prepare_create: |object, _| {
        definition::defaulted(object);
        definition::prepare_create(object);
    },
    prepare_update,
    mark: Some(|object, now| *object = definition::marked_for_deletion(object, &tree::rfc3339(now))),
    // It has a form of its own, and is counted in it.
    counts_itself: true,
    comparable: |old| Cow::Owned(definition::normal(old)),
    validate_create: |object| definition::validate_create(object, &Heads),
    validate_update,
    warn: |old, new, warnings| warnings.extend(definition::warnings(new, old)),
    ..Strategy::COMMON
};

pub(super) const API_SERVICES: Strategy = Strategy {
    storage: "apiregistration.k8s.io/apiservices",
    status_metadata: StatusMetadata::Without(&["labels", "annotations", "finalizers", "ownerReferences"]),
    validate_create: wrong_api_service,
    validate_update: |part, old, new| match part {
        Part::Status => api_service::update_status(old, new),
        part => of_main(part, || wrong_api_service(new)),
    },
    ..Strategy::COMMON
};

/// Its name is made of its version and group.
fn wrong_api_service(object: &Value) -> Vec<FieldError> {
    let name = metadata::version_group(tree::text(object, &["metadata", "name"]), object);
    name.into_iter().chain(api_service::api_service(object)).collect()
}

fn prepare_update(part: Part, old: &Value, new: &mut Value) {
    match part {
        Part::Main => {
            definition::defaulted(new);
            definition::prepare_update(new, old);
        }
        Part::Status => {
            definition::defaulted(new);
            definition::prepare_status_update(new, old);
        }
        _ => {}
    }
}

fn validate_update(part: Part, old: &Value, new: &Value) -> Vec<FieldError> {
    match part {
        Part::Main => definition::validate_update(new, old, &Heads),
        Part::Status => definition::validate_status_update(new),
        _ => Vec::new(),
    }
}
