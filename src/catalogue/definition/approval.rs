//! The approval that groups of the Kubernetes community need: the annotation `api-approved.kubernetes.io` (spec api-surface §11.1).

use serde_json::Value;

use super::tree::text;
use go::quote::quoted;
use go::url;
use model::invalid::FieldError;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const WHERE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// What the annotation says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Approval {
    Missing,
    Invalid,
    /// It names a URL.
    Approved,
    /// It begins with `unapproved`.
    Bypassed,
}

/// Whether a group needs the annotation.
pub(super) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// What a definition's annotation says, and the sentence for it.
pub(super) fn approval(object: &Value) -> (Approval, String) {
    let said = annotation(object);
    if said.is_empty() {
        (Approval::Missing, format!("protected groups must have approval annotation {ANNOTATION:?}, {WHERE}"))
    } else if said.starts_with("unapproved") {
        (Approval::Bypassed, format!("not approved: {}", quoted(said)))
    } else if url::parse_request(said).is_ok_and(|url| !url.host.is_empty() && !url.scheme.is_empty()) {
        (Approval::Approved, format!("approved in {said}"))
    } else {
        let why = "with either a URL or a reason starting with \"unapproved\"";
        (Approval::Invalid, format!("protected groups must have approval annotation {ANNOTATION:?} {why}, {WHERE}"))
    }
}

/// A new definition of a protected group needs it; an old one may stay as it was.
pub(super) fn wrong_approval(new: &Value, old: Option<&Value>) -> Option<FieldError> {
    if !is_protected(text(&new["spec"], "group")) {
        return None;
    }
    let (state, why) = approval(new);
    if old.is_some_and(|old| approval(old).0 == state) {
        return None;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match state {
        Approval::Missing => Some(FieldError::required(field, &why)),
        Approval::Invalid => Some(FieldError::invalid(field, &Value::from(annotation(new)), &why)),
        Approval::Approved | Approval::Bypassed => None,
    }
}

fn annotation(object: &Value) -> &str {
    object.get("metadata").and_then(|metadata| metadata.get("annotations")).map_or("", |annotations| text(annotations, ANNOTATION))
}
