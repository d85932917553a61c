//! The one place where an error becomes a Kubernetes `Status`: texts, codes and bytes of spec list-watch §1.4 and api-surface §9.

mod write;

use std::borrow::Cow;

use go::quote::{json_quoted, quoted};
use model::invalid::{FieldError, joined, told};

/// A failure as clients read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// For people; clients match on reason and code.
    pub message: String,
    /// Machine-readable reason; absent for plain 500s.
    pub reason: Option<Reason>,
    /// The reason of a webhook, in the place of ours.
    pub foreign_reason: Option<Box<str>>,
    /// HTTP status code.
    pub code: u16,
    /// `details`; `Some` of an empty one prints `{}`, as generic 404 and 405 have it.
    pub details: Option<Box<Details>>,
    /// `metadata.continue` of an expired list (spec list-watch §2.7).
    pub continue_token: Option<String>,
    /// Another server may have the answer that this one cannot give.
    pub elsewhere: bool,
}

/// Reasons that this server gives (spec api-surface §9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the wire strings, explained in spec api-surface §9.2")]
pub enum Reason {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServiceUnavailable,
    Timeout,
}

/// `details` of a `Status`; empty members are not printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// Its API group.
    pub group: String,
    /// Plural resource, or Kind for `Invalid`.
    pub kind: String,
    /// UID of the object.
    pub uid: String,
    /// What exactly is wrong.
    pub causes: Vec<Cause>,
    /// Seconds; also the `Retry-After` header when more than 0.
    pub retry_after: u32,
}

/// One cause in `details`; empty members are not printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// Type of the cause; its JSON key is `reason`.
    pub reason: Cow<'static, str>,
    /// What is wrong.
    pub message: String,
    /// Field it is wrong with.
    pub field: String,
}

/// The body of a request that ran out of time, sent as `text/plain; charset=utf-8` with 504: the one Status without kind and apiVersion
/// (spec list-watch §2.14).
pub const TIMED_OUT_BODY: &str = concat!(
    r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}"#,
    "\n"
);

/// Message of a continue token whose revision is gone (spec list-watch §2.7); the first half stands alone when no new token can be built.
const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter";
const CONTINUE_ANYWAY: &str = ", or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

impl Status {
    fn new(code: u16, reason: Option<Reason>, message: impl Into<String>) -> Status {
        Status { message: message.into(), reason, foreign_reason: None, code, details: None, continue_token: None, elsewhere: false }
    }

    fn with(mut self, details: Details) -> Status {
        self.details = Some(Box::new(details));
        self
    }

    /// 400 with this message.
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::new(400, Some(Reason::BadRequest), message)
    }

    /// 400 for a `timeout` parameter that is no Go duration; `why` is what `go::duration::parse` said (spec list-watch §2.14).
    pub fn invalid_timeout(why: &str) -> Status {
        Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
    }

    /// 401. Without details and without `WWW-Authenticate` (spec api-surface §12).
    pub fn unauthorized() -> Status {
        Status::new(401, Some(Reason::Unauthorized), "Unauthorized")
    }

    /// 403 with this message, for refusals that concern no object.
    pub fn forbidden(message: impl Into<String>) -> Status {
        Status::new(403, Some(Reason::Forbidden), message).with(Details::default())
    }

    /// 403 of an authorizer about an object or, without a resource, a path (spec api-surface §13.2).
    pub fn forbidden_of(group: &str, resource: &str, name: &str, why: &str) -> Status {
        let message = match (group, resource, name) {
            ("", "", _) => format!("forbidden: {why}"),
            (_, _, "") => format!("{} is forbidden: {why}", qualified(group, resource)),
            _ => format!("{} {} is forbidden: {why}", qualified(group, resource), quoted(name)),
        };
        let details = Details { name: name.to_owned(), group: group.to_owned(), kind: resource.to_owned(), ..Details::default() };
        Status::new(403, Some(Reason::Forbidden), message).with(details)
    }

    /// 404 of a missing object (spec list-watch §3).
    pub fn not_found(group: &str, resource: &str, name: &str) -> Status {
        let message = format!("{} {} not found", qualified(group, resource), quoted(name));
        let details = Details { name: name.to_owned(), group: group.to_owned(), kind: resource.to_owned(), ..Details::default() };
        Status::new(404, Some(Reason::NotFound), message).with(details)
    }

    /// 404 of a path inside a known built-in group-version (spec api-surface §1.1).
    pub fn not_found_generic() -> Status {
        Status::new(404, Some(Reason::NotFound), "the server could not find the requested resource").with(Details::default())
    }

    /// 405 of the router: this method on this path (spec api-surface §1.2).
    pub fn method_not_allowed() -> Status {
        Status::new(405, Some(Reason::MethodNotAllowed), "the server does not allow this method on the requested resource")
            .with(Details::default())
    }

    /// 405 of a resource that lacks a verb: `watch is not supported on resources of kind "R.G"` (spec list-watch §1.1, api-surface §1.2).
    pub fn verb_not_supported(verb: &str, group: &str, resource: &str) -> Status {
        let message = format!("{verb} is not supported on resources of kind \"{}\"", qualified(group, resource));
        let details = Details { group: group.to_owned(), kind: resource.to_owned(), ..Details::default() };
        Status::new(405, Some(Reason::MethodNotAllowed), message).with(details)
    }

    /// 406 of the router: no type that built-in resources know (spec api-surface §3.3). `types` is what we can answer with.
    pub fn not_acceptable_routed(types: &[&str]) -> Status {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", types.join(", "));
        Status::new(406, Some(Reason::NotAcceptable), message).with(Details::default())
    }

    /// 406 of negotiation (spec api-surface §3.3).
    pub fn not_acceptable(types: &[&str]) -> Status {
        Status::new(406, Some(Reason::NotAcceptable), format!("only the following media types are accepted: {}", types.join(", ")))
    }

    /// 406 of an answer that is not of the kind that was asked for (spec api-surface §3.3).
    pub fn not_acceptable_as(message: String) -> Status {
        Status::new(406, Some(Reason::NotAcceptable), message)
    }

    /// 410 of an exact list (spec list-watch §2.7).
    pub fn list_expired() -> Status {
        Status::new(410, Some(Reason::Expired), "The resourceVersion for the provided list is too old.")
    }

    /// 410 of a continue token, with the token to go on with at the newest revision, if one could be built (spec list-watch §2.7).
    pub fn continue_expired(token: Option<String>) -> Status {
        let message = if token.is_some() { format!("{CONTINUE_EXPIRED}{CONTINUE_ANYWAY}") } else { format!("{CONTINUE_EXPIRED}.") };
        Status { continue_token: token, ..Status::new(410, Some(Reason::Expired), message) }
    }

    /// 410 inside a watch: asked to start at `since`, the ring reaches back to `floor` (spec list-watch §4.7).
    pub fn watch_expired(since: u64, floor: u64) -> Status {
        Status::new(410, Some(Reason::Expired), format!("too old resource version: {since} ({floor})"))
    }

    /// 422: what is wrong with an object, or with options, whose kind is then `ListOptions` of `meta.k8s.io` (spec api-surface §9.2, §9.3). Of very much
    /// only the first part is told.
    pub fn invalid(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> Status {
        let mut is_told = told();
        let errors = &errors[..errors.iter().take_while(|error| is_told(error)).count()];
        let cause = |e: &FieldError| Cause { reason: e.kind.cause().into(), message: e.message.clone(), field: e.field.clone() };
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: errors.iter().map(cause).collect(),
            ..Details::default()
        };
        let message = format!("{} {} is invalid: {}", qualified(group, kind), quoted(name), joined(errors));
        Status::new(422, Some(Reason::Invalid), message).with(details)
    }

    /// 429 (spec list-watch §2.12): `storage is (re)initializing`.
    pub fn too_many_requests(message: impl Into<String>, seconds: u32) -> Status {
        Status::new(429, Some(Reason::TooManyRequests), message).with(Details { retry_after: seconds, ..Details::default() })
    }

    /// 500 without a reason: a raw error text (spec list-watch §2.8).
    pub fn internal(message: impl Into<String>) -> Status {
        Status::new(500, None, message)
    }

    /// 500 `Internal error occurred: …` with its cause (spec list-watch §4.7).
    pub fn internal_error(why: &str) -> Status {
        let cause = Cause { message: why.to_owned(), ..Cause::default() };
        Status::new(500, Some(Reason::InternalError), format!("Internal error occurred: {why}"))
            .with(Details { causes: vec![cause], ..Details::default() })
    }

    /// 500 inside a watch, the bare error as its message (spec list-watch §4.7: reading the current revision failed).
    pub fn internal_bare(message: impl Into<String>) -> Status {
        Status::new(500, Some(Reason::InternalError), message)
    }

    /// 503 while the server is starting or stopping (spec list-watch §4.6).
    pub fn unavailable(message: impl Into<String>, seconds: u32) -> Status {
        Status::new(503, Some(Reason::ServiceUnavailable), message).with(Details { retry_after: seconds, ..Details::default() })
    }

    /// 502: what was forwarded may have been done, and no answer came.
    pub fn bad_gateway(message: impl Into<String>) -> Status {
        Status::new(502, None, message)
    }

    /// 508: a request that has come back to who sent it.
    pub fn loop_detected(message: impl Into<String>) -> Status {
        Status::new(508, None, message)
    }

    /// 504 of a revision that is not there yet (spec list-watch §2.6); `retry_after` is 1 from the cache and absent from etcd.
    pub fn too_large_revision(asked: u64, current: u64, retry_after: Option<u32>) -> Status {
        let cause =
            Cause { reason: "ResourceVersionTooLarge".into(), message: "Too large resource version".to_owned(), field: String::new() };
        Status::new(504, Some(Reason::Timeout), format!("Timeout: Too large resource version: {asked}, current: {current}")).with(Details {
            causes: vec![cause],
            retry_after: retry_after.unwrap_or(0),
            ..Details::default()
        })
    }

    /// Value of the `Retry-After` header, in seconds, when there is to be one.
    pub fn retry_after(&self) -> Option<u32> {
        self.details.as_ref().map(|details| details.retry_after).filter(|seconds| *seconds > 0)
    }

    /// The JSON that Go prints, compact, without a newline at the end.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = String::with_capacity(160 + self.message.len());
        out.push_str(r#"{"kind":"Status","apiVersion":"v1","metadata":{"#);
        let mut members = Members { out: &mut out, first: true };
        members.text("continue", self.continue_token.as_deref().unwrap_or_default());
        out.push_str(r#"},"status":"Failure""#);
        let mut members = Members { out: &mut out, first: false };
        members.text("message", &self.message);
        let own = || self.reason.map(|reason| format!("{reason:?}")).unwrap_or_default();
        members.text("reason", &self.foreign_reason.as_deref().map_or_else(own, str::to_owned));
        if let Some(details) = &self.details {
            members.key("details");
            details.write(members.out);
        }
        members.number("code", u32::from(self.code));
        out.push('}');
        out.into_bytes()
    }
}

impl Details {
    fn write(&self, out: &mut String) {
        out.push('{');
        let mut members = Members { out, first: true };
        members.text("name", &self.name);
        members.text("group", &self.group);
        members.text("kind", &self.kind);
        members.text("uid", &self.uid);
        if !self.causes.is_empty() {
            members.key("causes");
            for (index, cause) in self.causes.iter().enumerate() {
                members.out.push(if index == 0 { '[' } else { ',' });
                cause.write(members.out);
            }
            members.out.push(']');
        }
        members.number("retryAfterSeconds", self.retry_after);
        out.push('}');
    }
}

impl Cause {
    fn write(&self, out: &mut String) {
        out.push('{');
        let mut members = Members { out, first: true };
        members.text("reason", &self.reason);
        members.text("message", &self.message);
        members.text("field", &self.field);
        out.push('}');
    }
}

/// Members of one JSON object; empty ones are left out, as Go's omitempty does.
struct Members<'a> {
    out: &'a mut String,
    first: bool,
}

impl Members<'_> {
    fn key(&mut self, key: &str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(',');
        }
        self.out.push('"');
        self.out.push_str(key);
        self.out.push_str("\":");
    }

    fn text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.key(key);
            self.out.push_str(&json_quoted(text));
        }
    }

    fn number(&mut self, key: &str, number: u32) {
        if number != 0 {
            self.key(key);
            self.out.push_str(&number.to_string());
        }
    }
}

/// `<gr>` of messages: the resource, with its group after a dot unless that is core.
fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use model::invalid::TOLD_BYTES_MAX;

    fn json(status: &Status) -> String {
        String::from_utf8(status.to_json()).expect("UTF-8")
    }

    #[test]
    fn bytes_are_those_of_the_real_server() {
        let cases = [
            (
                Status::too_large_revision(1000, 7, Some(1)),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 1000, current: 7","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#,
            ),
            (
                Status::not_found("", "configmaps", "x"),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"x\" not found","reason":"NotFound","details":{"name":"x","kind":"configmaps"},"code":404}"#,
            ),
            (
                Status::not_found("ex.io", "gizmos", "x"),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"gizmos.ex.io \"x\" not found","reason":"NotFound","details":{"name":"x","group":"ex.io","kind":"gizmos"},"code":404}"#,
            ),
            (
                Status::not_found_generic(),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#,
            ),
            (
                Status::unauthorized(),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#,
            ),
            (
                Status::internal("a <b> & \u{2028}\u{7}"),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"a \u003cb\u003e \u0026 \u2028\u0007","code":500}"#,
            ),
            (
                Status::too_many_requests("storage is (re)initializing", 2),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"storage is (re)initializing","reason":"TooManyRequests","details":{"retryAfterSeconds":2},"code":429}"#,
            ),
            (
                Status::watch_expired(5, 9),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 5 (9)","reason":"Expired","code":410}"#,
            ),
            (
                Status::internal_error("boom"),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Internal error occurred: boom","reason":"InternalError","details":{"causes":[{"message":"boom"}]},"code":500}"#,
            ),
        ];
        for (status, expected) in cases {
            assert_eq!(json(&status), expected);
        }
    }

    #[test]
    fn list_options_name_every_mistake() {
        let matching = "resourceVersionMatch";
        let one = FieldError::forbidden(matching, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        let two = FieldError::not_supported(matching, &"Foo".into(), &["Exact", "NotOlderThan", ""]);
        let options = |errors: &[FieldError]| Status::invalid("ListOptions", "meta.k8s.io", "", errors);
        assert_eq!(
            json(&options(std::slice::from_ref(&one))),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided","field":"resourceVersionMatch"}]},"code":422}"#
        );
        let both = options(&[one.clone(), two, one]);
        assert_eq!(
            both.message,
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, resourceVersionMatch: Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"]"
        );
        assert_eq!(both.details.expect("details").causes.len(), 3);
    }

    /// Whoever makes the errors.
    #[test]
    fn of_very_many_mistakes_the_first_are_told() {
        let errors: Vec<_> = (0..3_000).map(|n| FieldError::invalid(format!("spec.l[{n}]"), &"x".repeat(1_000).into(), "no")).collect();
        let status = Status::invalid("Pod", "", "p", &errors);
        assert!((TOLD_BYTES_MAX..TOLD_BYTES_MAX + 10_000).contains(&status.message.len()), "{} bytes", status.message.len());
        let causes = status.details.expect("details").causes;
        assert!(causes.len() < 1_100 && causes.iter().zip(&errors).all(|(cause, error)| cause.field == error.field));
        let few = Status::invalid("Pod", "", "p", &errors[..1_000]);
        assert_eq!(few.details.expect("details").causes.len(), 1_000);
    }

    #[test]
    fn an_expired_continue_carries_the_next_token() {
        let with = Status::continue_expired(Some("abc".to_owned()));
        assert!(json(&with).contains(r#""metadata":{"continue":"abc"}"#) && with.message.ends_with("may show up in the list."));
        let without = Status::continue_expired(None);
        assert!(without.message.ends_with("without the continue parameter.") && json(&without).contains(r#""metadata":{},"#));
    }

    proptest! {
        #[test]
        fn any_message_is_valid_json(message in "\\PC{0,20}|[\\x00-\\x20<>&\"\\\\]{0,20}") {
            let value: serde_json::Value = serde_json::from_slice(&Status::bad_request(message.clone()).to_json()).expect("JSON");
            prop_assert_eq!(value.get("message").and_then(|m| m.as_str()).unwrap_or(""), message);
        }
    }
}
