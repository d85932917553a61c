//! Admission webhooks and policies.

use serde_json::Value;

use super::row::{JudgedAsNew, RESET_FOR_STATUS, StatusMetadata, Strategy, of_main};
use crate::write::{part::Part, tree};
use builtins::{policies, webhooks};
use go::quote::quoted;

const STATIC: &str = ".static.k8s.io";

const fn row(storage: &'static str) -> Strategy {
    Strategy { storage, judged_as_new: JudgedAsNew::Main, warn: warn_of_name, ..Strategy::COMMON }
}

const fn webhooks(storage: &'static str) -> Strategy {
    Strategy {
        validate_create: webhooks::create,
        validate_update: |part, old, new| of_main(part, || webhooks::update(old, new)),
        ..row(storage)
    }
}

pub(super) const ALL: [Strategy; 6] = [
    Strategy {
        validate_create: policies::create_mutating,
        validate_update: |part, old, new| of_main(part, || policies::update_mutating(old, new)),
        ..row("mutatingadmissionpolicies")
    },
    Strategy {
        validate_create: policies::mutating_binding,
        validate_update: |part, _, new| of_main(part, || policies::mutating_binding(new)),
        ..row("mutatingadmissionpolicybindings")
    },
    webhooks("mutatingwebhookconfigurations"),
    Strategy {
        status_metadata: StatusMetadata::Without(RESET_FOR_STATUS),
        validate_create: policies::create_validating,
        validate_update: |part, old, new| match part {
            Part::Status => policies::update_validating_status(old, new),
            part => of_main(part, || policies::update_validating(old, new)),
        },
        ..row("validatingadmissionpolicies")
    },
    Strategy {
        validate_create: policies::validating_binding,
        validate_update: |part, _, new| of_main(part, || policies::validating_binding(new)),
        ..row("validatingadmissionpolicybindings")
    },
    webhooks("validatingwebhookconfigurations"),
];

fn warn_of_name(_: Option<&Value>, new: &Value, warnings: &mut Vec<String>) {
    if tree::text(new, &["metadata", "name"]).ends_with(STATIC) {
        warnings.push(format!(
            "metadata.name: names ending with {} are reserved for static manifest-based configurations and cannot be managed via the API",
            quoted(STATIC)
        ));
    }
}
