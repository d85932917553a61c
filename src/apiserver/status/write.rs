//! Statuses that only writes give (spec api-surface §3.3, §5.2, §6, §8.2, §9.2), the successful ones among them.

use super::{Cause, Details, Members, Reason, Status, qualified};
use admission::hooks::Denial;
use go::quote::quoted;
use serde_json::Value;
use storage::write::failure::{ForbiddenCause, StatusSubject, WriteError};

impl Status {
    /// 413 `Request entity too large: why`.
    pub fn too_large(why: &str) -> Status {
        Status::new(413, Some(Reason::RequestEntityTooLarge), format!("Request entity too large: {why}"))
    }

    /// 415 with this message.
    pub fn unsupported_media(message: impl Into<String>) -> Status {
        Status::new(415, Some(Reason::UnsupportedMediaType), message)
    }

    /// 415 of a body of an unknown type; `types` is what we read.
    pub fn unsupported_media_type(types: &str) -> Status {
        Status::unsupported_media(format!("the body of the request was in an unknown format - accepted media types include: {types}"))
    }

    /// 415 of the router of built-in resources: a patch of an unknown type.
    pub fn unsupported_media_type_routed() -> Status {
        Status::unsupported_media("415: Unsupported Media Type").with(Details::default())
    }

    /// What a write that was done answers when it has no object to show, with this code.
    pub fn success_json(code: u16) -> Vec<u8> {
        format!(r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Success","code":{code}}}"#).into_bytes()
    }

    /// What an eviction of a Pod that several budgets count answers: a 500 without a reason.
    pub fn ambiguous_eviction_json() -> Vec<u8> {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        format!(r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}","code":500}}"#).into_bytes()
    }

    /// What a DELETE of these types answers: details and no code (spec api-surface §8.2).
    pub fn deleted_json(group: &str, resource: &str, name: &str, uid: &str) -> Vec<u8> {
        let mut out = String::from(r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"#);
        let mut members = Members { out: &mut out, first: true };
        members.text("name", name);
        members.text("group", group);
        members.text("kind", resource);
        members.text("uid", uid);
        out.push_str("}}");
        out.into_bytes()
    }

    /// What a DELETE of a value that cannot be read answers: there is no uid to tell (measured).
    pub fn unread_deleted_json(kind: &str, name: &str) -> Vec<u8> {
        let mut out = String::from(r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"#);
        let mut members = Members { out: &mut out, first: true };
        members.text("name", name);
        members.text("kind", kind);
        out.push_str(r#"},"code":200}"#);
        out.into_bytes()
    }

    /// What a webhook says, with its code and reason.
    fn denied(denial: Denial) -> Status {
        let Denial { code, message, reason, details } = denial;
        let foreign_reason = Some(reason.into_boxed_str()).filter(|reason| !reason.is_empty());
        let details = details.map(|details| {
            let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
            let cause = |cause: &Value| Cause {
                reason: text(cause, "reason").into(),
                message: text(cause, "message"),
                field: text(cause, "field"),
            };
            Box::new(Details {
                name: text(&details, "name"),
                group: text(&details, "group"),
                kind: text(&details, "kind"),
                uid: text(&details, "uid"),
                causes: details["causes"].as_array().into_iter().flatten().map(cause).collect(),
                retry_after: details["retryAfterSeconds"].as_u64().and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(0),
            })
        });
        Status { foreign_reason, details, ..Status::new(code, None, message) }
    }

    fn about(code: u16, reason: Reason, message: String, of: StatusSubject, causes: Vec<Cause>) -> Status {
        Status::new(code, Some(reason), message).with(Details {
            name: of.name,
            group: of.group,
            kind: of.kind,
            causes,
            ..Details::default()
        })
    }
}

/// `pods "a"`, `deployments.apps "b"`.
fn named(of: &StatusSubject) -> String {
    format!("{} {}", qualified(&of.group, &of.kind), quoted(&of.name))
}

impl From<WriteError> for Status {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::BadRequest(message) => Self::bad_request(message),
            WriteError::Forbidden { of, why, cause } => {
                let cause = cause.map(|cause| match cause {
                    ForbiddenCause::Terminating(namespace) => Cause {
                        reason: "NamespaceTerminating".into(),
                        message: format!("namespace {namespace} is being terminated"),
                        field: "metadata.namespace".to_owned(),
                    },
                    ForbiddenCause::Reason(reason) => Cause { reason: reason.into(), ..Cause::default() },
                });
                Self::about(403, Reason::Forbidden, format!("{} is forbidden: {why}", named(&of)), of, cause.into_iter().collect())
            }
            WriteError::Denied(denial) => Self::denied(*denial),
            WriteError::NotFound(of) => Self::not_found(&of.group, &of.kind, &of.name),
            WriteError::TooMany(message) => Self::too_many_requests(message, 1),
            WriteError::NotAllowed(message) => Self::new(405, Some(Reason::MethodNotAllowed), message).with(Details::default()),
            WriteError::NotYet(message) => Self::unavailable(message, 1),
            WriteError::AlreadyExists { of, deleting, generated } => already_exists(of, deleting, generated),
            WriteError::Conflict { of, why } => {
                Self::about(409, Reason::Conflict, format!("Operation cannot be fulfilled on {}: {why}", named(&of)), of, Vec::new())
            }
            WriteError::ApplyConflict { message, causes } => {
                let cause = |(field, message)| Cause { reason: "FieldManagerConflict".into(), message, field };
                let causes = causes.into_iter().map(cause).collect();
                Self::new(409, Some(Reason::Conflict), message).with(Details { causes, ..Details::default() })
            }
            WriteError::Disrupting { why, retry_after } => {
                let cause = Cause { reason: "DisruptionBudget".into(), message: why, ..Cause::default() };
                let mut status = Self::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", retry_after);
                if let Some(details) = &mut status.details {
                    details.causes.push(cause);
                }
                status
            }
            WriteError::TooLarge(why) => Self::too_large(&why),
            WriteError::Invalid { of, errors } => Self::invalid(&of.kind, &of.group, &of.name, &errors),
            WriteError::Unapplicable => {
                Self::new(422, Some(Reason::Invalid), "the server rejected our request due to an error in our request")
                    .with(Details::default())
            }
            WriteError::Raw(message) | WriteError::Undecodable(message) => Self::internal(message),
            WriteError::Internal(why) => Self::internal_error(&why),
            WriteError::Etcd(error) => error.into(),
        }
    }
}

fn already_exists(of: StatusSubject, deleting: bool, generated: bool) -> Status {
    let prefix = if deleting { "object is being deleted: " } else { "" };
    let suffix = if generated { ", the server was not able to generate a unique name for the object" } else { "" };
    let mut status = Status::about(409, Reason::AlreadyExists, format!("{prefix}{} already exists{suffix}", named(&of)), of, Vec::new());
    if let Some(details) = status.details.as_mut().filter(|_| generated) {
        details.retry_after = 1;
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(group: &str, kind: &str, name: &str) -> StatusSubject {
        StatusSubject { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn what_stands_in_the_way_is_named() {
        let there =
            |deleting, generated| Status::from(WriteError::AlreadyExists { of: of("apps", "deployments", "d"), deleting, generated });
        assert_eq!((there(false, false).code, there(false, false).message.as_str()), (409, r#"deployments.apps "d" already exists"#));
        assert_eq!(there(true, false).message, r#"object is being deleted: deployments.apps "d" already exists"#);
        assert_eq!(there(false, true).retry_after(), Some(1));
        let conflict = Status::from(WriteError::Conflict { of: of("", "configmaps", "c"), why: "why".to_owned() });
        assert_eq!(conflict.message, r#"Operation cannot be fulfilled on configmaps "c": why"#);
    }

    #[test]
    fn success_has_no_empty_members() {
        let text = |json: Vec<u8>| String::from_utf8(json).expect("UTF-8");
        assert_eq!(
            text(Status::deleted_json("", "configmaps", "d1", "u")),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"d1","kind":"configmaps","uid":"u"}}"#
        );
        assert_eq!(text(Status::success_json(201)), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#);
    }
}
