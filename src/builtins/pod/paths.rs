//! Paths of files, and their modes.

use crate::{at::At, causes::Causes};

/// A path without steps back.
pub(crate) fn no_backsteps(at: &At<'_, '_>, causes: &mut Causes) {
    if has_backsteps(at.text()) {
        causes.invalid_text(at, "must not contain '..'");
    }
}

pub(crate) fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|step| step == "..")
}

/// A relative path without steps back.
pub(crate) fn descending(at: &At<'_, '_>, causes: &mut Causes) {
    if at.text().starts_with('/') {
        causes.invalid_text(at, "must be a relative path");
    }
    no_backsteps(at, causes);
}

/// A relative path whose first name is none of those that kubelets use.
pub(crate) fn not_reserved(at: &At<'_, '_>, causes: &mut Causes) {
    descending(at, causes);
    if at.text().starts_with("..") && !at.text().starts_with("../") {
        causes.invalid_text(at, "must not start with '..'");
    }
}

/// Permissions of a file, which may be absent.
pub(crate) fn mode(at: &At<'_, '_>, causes: &mut Causes) {
    if !(0..=0o777).contains(&at.integer()) {
        causes.invalid(at, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}
