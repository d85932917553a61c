//! Conditions of the common form (`metav1.Condition`).

use std::collections::HashSet;

use crate::{at::At, causes::Causes, labels};

const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// A list of conditions, one of each type.
pub(crate) fn conditions(at: &At<'_, '_>, causes: &mut Causes) {
    let mut known = HashSet::new();
    for condition in at.items() {
        let kind = condition.member("type");
        if !known.insert(kind.text()) {
            causes.duplicate(&kind.with(&kind.text().into()));
        }
        one(&condition, causes);
    }
}

fn one(at: &At<'_, '_>, causes: &mut Causes) {
    let (status, generation, reason) = (at.member("status"), at.member("observedGeneration"), at.member("reason"));
    labels::label_key(&at.member("type"), causes);
    if !STATUSES.contains(&status.text()) {
        causes.not_supported_shown(&status, "string", &STATUSES);
    }
    if generation.integer() < 0 {
        causes.invalid(&generation, "must be greater than or equal to zero");
    }
    let since = at.member("lastTransitionTime");
    if since.is_absent() {
        causes.required(&since, "");
    }
    if reason.text().is_empty() {
        causes.required(&reason, "");
    } else {
        if !is_reason(reason.text()) {
            causes.invalid(&reason, REASON);
        }
        if reason.text().len() > REASON_BYTES_MAX {
            causes.too_long(&reason, REASON_BYTES_MAX);
        }
    }
    let message = at.member("message");
    if message.text().len() > MESSAGE_BYTES_MAX {
        causes.too_long(&message, MESSAGE_BYTES_MAX);
    }
}

/// `[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?`
fn is_reason(text: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().copied().is_some_and(is_end)
        && bytes.iter().all(|&byte| is_end(byte) || matches!(byte, b',' | b':'))
}
