//! Answers get their headers here: Audit-Id, Cache-Control, Content-Type, Retry-After (spec api-surface §3.7).

use std::sync::Arc;

use ::audit::Record;
use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, RETRY_AFTER, VARY, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use http_body::Body as _;
use server::budget::Reservation;
use uuid::Uuid;

use super::path::TokenDocument;
use super::{
    accept::{self, Asked},
    extras, gzip,
    status::{Status, TIMED_OUT_BODY},
};
use auth::authn::Discovery;
use catalogue::Catalogue;
use codec::Media;
use go::quote::quoted;
use telemetry::RequestTimer;

pub(super) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// What answers to one request have in common.
#[derive(Clone, Debug)]
pub struct Reply {
    audit_id: HeaderValue,
    head: bool,
    /// The client's `Accept`: failures have a negotiation of their own (spec api-surface §3.4).
    accept: Option<HeaderValue>,
    /// Whether the `pretty` parameter or the client wants indented JSON, whatever it accepts.
    wants_pretty: bool,
    media: Media,
    pretty: bool,
    /// Whether objects and lists may be compressed when they are large.
    gzip: bool,
    /// What the audit log is told of the request; none when it is told nothing.
    record: Option<Arc<Record>>,
}

impl Reply {
    /// For a request with this method, these headers and this `pretty` parameter. The client's `Audit-ID` is echoed, else one is made
    /// (spec api-surface §0).
    pub fn new(method: &Method, headers: &HeaderMap, pretty: Option<&str>) -> Reply {
        let audit_id = headers
            .get(AUDIT_ID)
            .filter(|id| !id.is_empty())
            .cloned()
            .unwrap_or_else(|| HeaderValue::from_str(&Uuid::new_v4().to_string()).expect("a UUID is ASCII"));
        let wants_pretty = accept::is_pretty(headers, pretty);
        let (accept, gzip) = (headers.get(ACCEPT).cloned(), gzip::is_accepted(headers));
        Reply { audit_id, head: method == Method::HEAD, accept, wants_pretty, media: Media::Json, pretty: wants_pretty, gzip, record: None }
    }

    /// Finds the form of the answer among what the client accepts; from here on objects are encoded so.
    ///
    /// # Errors
    /// The 406.
    pub fn negotiate(&mut self, asked: Asked) -> Result<accept::Form, Status> {
        let form = accept::negotiate(self.accept.as_ref(), self.wants_pretty, asked)?;
        (self.media, self.pretty) = (form.media, form.pretty);
        Ok(form)
    }

    /// From here on what is answered is told to the audit log.
    pub(super) fn audit(&mut self, record: Arc<Record>) {
        self.record = Some(record);
    }

    /// What the audit log is told of the request.
    pub(super) fn record(&self) -> Option<&Record> {
        self.record.as_deref()
    }

    /// What the audit log is told of the request, if it wants the object that is answered.
    pub(super) fn told(&self) -> Option<&Record> {
        self.record().filter(|record| record.wants_response())
    }

    /// The value of `Audit-Id`.
    pub(super) fn audit_id(&self) -> String {
        String::from_utf8_lossy(self.audit_id.as_bytes()).into_owned()
    }

    /// What the answer is encoded as.
    pub(super) fn media(&self) -> Media {
        self.media
    }

    /// Whether the client wants indented JSON, whatever it accepts.
    pub(super) fn wants_pretty(&self) -> bool {
        self.wants_pretty
    }

    /// Whether objects and lists are sent as a form encodes them: neither indented nor as YAML.
    pub(super) fn is_compact(&self) -> bool {
        match self.media {
            Media::Json => !self.pretty,
            Media::Yaml => false,
            Media::Protobuf => true,
        }
    }

    /// From here on nothing is compressed: the answer is a watch (spec api-surface §3.6).
    pub(super) fn never_gzip(&mut self) {
        self.gzip = false;
    }

    /// An object as compact JSON without a newline, in the form that was negotiated. Large ones are compressed if the client takes that.
    pub fn object(&self, code: StatusCode, compact: Vec<u8>) -> Response {
        if let Some(record) = self.record() {
            record.answered(&compact);
        }
        match self.media.encode(compact, self.pretty) {
            Ok(body) => self.encoded(code, self.media, body),
            Err(why) => self.status(&why.into()),
        }
    }

    /// An object or list that is encoded already.
    pub(super) fn encoded(&self, code: StatusCode, media: Media, body: Vec<u8>) -> Response {
        self.offered(self.whole(code, media.content_type(), body.into()))
    }

    /// A failure.
    pub fn status(&self, status: &Status) -> Response {
        let code = StatusCode::from_u16(status.code).expect("every constructor of Status has a valid code");
        let form = accept::of_failure(self.accept.as_ref(), self.wants_pretty);
        // Where nothing could be negotiated, kube-apiserver's audit log is told the code alone.
        if let (Some(record), Some(_)) = (self.record(), form) {
            record.answered(&status.to_json());
        }
        let (media, pretty) = form.unwrap_or((Media::Json, true));
        let mut response = match media.encode(status.to_json(), pretty) {
            Ok(body) => self.encoded(code, media, body),
            // Not reached: every encoding knows a Status.
            Err(_) => self.whole(code, JSON, status.to_json().into()),
        };
        if let Some(seconds) = status.retry_after() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if code == StatusCode::FORBIDDEN {
            no_sniff(&mut response);
        }
        if status.elsewhere {
            extras::of(&mut response).elsewhere = true;
        }
        response
    }

    /// A document about tokens of service accounts.
    pub fn discovery(&self, discovery: &Discovery, document: TokenDocument) -> Response {
        let (content_type, body) = match document {
            TokenDocument::Configuration => (JSON, &discovery.configuration),
            TokenDocument::Keys => ("application/jwk-set+json", &discovery.keys),
        };
        let mut response = self.whole(StatusCode::OK, content_type, body.clone().into());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(Discovery::CACHE_CONTROL));
        response
    }

    /// Plain text: health, and errors outside the API (spec api-surface §1.1).
    pub fn text(&self, code: StatusCode, body: impl Into<Bytes>) -> Response {
        let mut response = self.whole(code, TEXT, body.into());
        no_sniff(&mut response);
        response
    }

    /// Text of a handler that needs no guard against sniffing: one passed health check.
    pub fn plain(&self, code: StatusCode, body: impl Into<Bytes>) -> Response {
        self.whole(code, TEXT, body.into())
    }

    /// 500 of who could not be asked whether this may be, in kube-apiserver's words.
    pub(super) fn internal_error(&self, uri: &Uri, why: &str) -> Response {
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let text = format!("Internal Server Error: {}: {why}\n", quoted(target));
        // As Go's sanitizer, against pages that would show it.
        self.text(StatusCode::INTERNAL_SERVER_ERROR, text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
    }

    /// 500 for a path that has no request info: it is told before `Cache-Control` is set (spec api-surface §0, stages 2 and 3).
    pub fn no_request_info(&self, body: impl Into<Bytes>) -> Response {
        let mut response = self.text(StatusCode::INTERNAL_SERVER_ERROR, body);
        response.headers_mut().remove(CACHE_CONTROL);
        response
    }

    /// 400 of a path that is no URL: Go's server answers before Kubernetes sees the request.
    pub fn bad_request_line(&self) -> Response {
        let mut response = self.text(StatusCode::BAD_REQUEST, "400 Bad Request");
        response.headers_mut().remove(CACHE_CONTROL);
        response
    }

    /// `404 page not found` of a path under no known group (spec api-surface §1.1).
    pub fn page_not_found(&self) -> Response {
        self.text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    /// The request ran out of time before anything was written (spec list-watch §2.14).
    pub fn timed_out(&self) -> Response {
        self.whole(StatusCode::GATEWAY_TIMEOUT, TEXT, Bytes::from_static(TIMED_OUT_BODY.as_bytes()))
    }

    /// 304 for a matching `If-None-Match` of an aggregated discovery document.
    pub fn not_modified(&self, etag: &HeaderValue) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        self.dress(response.headers_mut());
        cacheable(response.headers_mut(), etag);
        response
    }

    /// An answer without a body.
    pub(super) fn empty(&self, code: StatusCode) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = code;
        self.dress(response.headers_mut());
        response
    }

    /// An aggregated discovery document: its own type, a tag, cacheable (spec api-surface §2.2).
    pub fn tagged(&self, content_type: &'static str, etag: &HeaderValue, compact: Vec<u8>) -> Response {
        let mut response = self.object(StatusCode::OK, compact);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        cacheable(response.headers_mut(), etag);
        response
    }

    /// 200 with a body that is made while it is sent: lists and watches.
    pub fn stream(&self, content_type: &'static str, body: Body) -> Response {
        self.offered(self.plainly(content_type, body))
    }

    /// Whether large objects and lists are to be compressed.
    pub(super) fn takes_gzip(&self) -> bool {
        self.gzip
    }

    /// Whether a list whose blocks are kept can be sent without its objects: nobody indents them, and no audit log tells them.
    pub(super) fn needs_only_blocks(&self) -> bool {
        self.gzip && self.is_compact() && self.told().is_none()
    }

    /// 200 with a body that is compressed already.
    pub(super) fn compressed(&self, media: Media, body: Body) -> Response {
        let mut response = self.plainly(media.content_type(), body);
        gzip::tell(response.headers_mut());
        response
    }

    /// Marks what may be compressed.
    pub(super) fn offered(&self, mut response: Response) -> Response {
        if self.gzip {
            extras::of(&mut response).offers_gzip = true;
        }
        response
    }

    fn plainly(&self, content_type: &'static str, body: Body) -> Response {
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.dress(response.headers_mut());
        response
    }

    /// A whole body of any type (`/metrics`).
    pub fn whole(&self, code: StatusCode, content_type: &'static str, body: Bytes) -> Response {
        let length = body.len();
        let mut response = self.plainly(content_type, Body::from(if self.head { Bytes::new() } else { body }));
        *response.status_mut() = code;
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        response
    }

    fn dress(&self, headers: &mut HeaderMap) {
        headers.insert(AUDIT_ID, self.audit_id.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
}

fn cacheable(headers: &mut HeaderMap, etag: &HeaderValue) {
    headers.insert(ETAG, etag.clone());
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
}

fn no_sniff(response: &mut Response) {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Returns the answer with what counts it.
pub(super) fn held(mut response: Response, hold: Option<Reservation>) -> Response {
    if let Some(hold) = hold {
        extras::of(&mut response).made = Some(Arc::new(hold));
    }
    response
}

/// A whole answer with what is counted of it: the code it came to, which is no 200 when it could not be encoded, and the bytes.
pub(super) fn sent(response: Response, mut timer: RequestTimer) -> Response {
    timer.set_code(response.status().as_u16());
    timer.add_bytes(response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0));
    response
}

/// 404 inside a built-in group, whatever the version, is a Status, elsewhere text (spec api-surface §1.1).
pub(super) fn not_found(reply: &Reply, catalogue: &Catalogue, group: Option<&str>) -> Response {
    match group {
        Some(group) if catalogue.is_built_in_group(group) => reply.status(&Status::not_found_generic()),
        _ => reply.page_not_found(),
    }
}

/// Texts that no header can carry are left out, as are those past what a header may hold altogether (spec api-surface §3.7).
pub(super) fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    const RUNES_MAX: usize = 4_096;
    const RUNES_EACH: usize = 256;
    let total: usize = warnings.iter().map(|text| text.chars().count()).sum();
    let mut left = RUNES_MAX;
    let mut told: Vec<&str> = Vec::new();
    for text in warnings {
        if told.contains(&text.as_str()) {
            continue;
        }
        told.push(text);
        let cut: String = if total > RUNES_MAX { text.chars().take(RUNES_EACH).collect() } else { text.clone() };
        let Some(rest) = left.checked_sub(cut.chars().count()) else { return };
        left = rest;
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted(&cut))) {
            headers.append(WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn reply(method: &Method, headers: &[(&'static str, &'static str)]) -> Reply {
        let headers = headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
        Reply::new(method, &headers, None)
    }

    fn body(response: Response) -> String {
        let collected = futures_util::FutureExt::now_or_never(response.into_body().collect()).expect("it is whole").expect("infallible");
        String::from_utf8(collected.to_bytes().to_vec()).expect("UTF-8")
    }

    #[test]
    fn a_failure_has_all_its_headers() {
        let response = reply(&Method::GET, &[("audit-id", "mine")]).status(&Status::too_many_requests("slow down", 3));
        let headers = response.headers();
        assert_eq!(response.status(), 429);
        assert_eq!((&headers["audit-id"], &headers["retry-after"]), (&HeaderValue::from_static("mine"), &HeaderValue::from_static("3")));
        assert_eq!(
            (&headers["cache-control"], &headers["content-type"]),
            (&HeaderValue::from_static("no-cache, private"), &HeaderValue::from_static("application/json"))
        );
        assert!(body(response).ends_with("}\n"));
        assert_eq!(reply(&Method::GET, &[]).status(&Status::forbidden("no")).headers()["x-content-type-options"], "nosniff");
    }

    #[test]
    fn audit_ids_are_made_when_none_is_given() {
        let id = |headers: &[(&'static str, &'static str)]| reply(&Method::GET, headers).page_not_found().headers()["audit-id"].clone();
        assert_eq!(id(&[]).len(), 36);
        assert_ne!(id(&[]), id(&[]));
        assert_eq!(id(&[("audit-id", "")]).len(), 36);
    }

    #[test]
    fn indentation_replaces_the_newline() {
        let of = |accept: &'static str| reply(&Method::GET, &[("user-agent", "curl/8"), ("accept", accept)]);
        let plain = reply(&Method::GET, &[]);
        assert_eq!(body(plain.object(StatusCode::OK, b"{\"a\":1}".to_vec())), "{\"a\":1}\n");
        assert_eq!(body(of("*/*").object(StatusCode::OK, b"{\"a\":1}".to_vec())), "{\n  \"a\": 1\n}");
        let refused = Status::not_acceptable(&["x"]);
        assert!(body(plain.status(&refused)).ends_with("}\n"));
        assert!(body(reply(&Method::GET, &[("accept", "text/plain")]).status(&refused)).ends_with("\n}"));
    }

    #[test]
    fn failures_are_encoded_as_the_client_accepts_them() {
        let of = |accept: &'static str| reply(&Method::GET, &[("accept", accept)]).status(&Status::unauthorized());
        assert_eq!(of("application/yaml").headers()["content-type"], "application/yaml");
        let protobuf = of("application/vnd.kubernetes.protobuf,application/json");
        assert_eq!(protobuf.headers()["content-type"], "application/vnd.kubernetes.protobuf");
        assert_eq!(of("application/json;as=Table;v=v1;g=meta.k8s.io").headers()["content-type"], "application/json");
    }

    #[test]
    fn head_has_the_length_and_no_body() {
        let response = reply(&Method::HEAD, &[]).text(StatusCode::OK, "ok");
        assert_eq!(response.headers()["content-length"], "2");
        assert_eq!(body(response), "");
    }

    #[test]
    fn objects_may_be_compressed_and_texts_not() {
        let offers = |response: &Response| extras::get(response).is_some_and(|extras| extras.offers_gzip);
        let mut takes = reply(&Method::GET, &[("accept-encoding", "gzip")]);
        let tag = HeaderValue::from_static("\"AB\"");
        for response in [
            takes.object(StatusCode::OK, b"{}".to_vec()),
            takes.status(&Status::forbidden("no")),
            takes.tagged("application/json;g=x", &tag, b"{}".to_vec()),
            takes.stream("application/json", Body::empty()),
        ] {
            assert!(offers(&response));
        }
        for response in [takes.text(StatusCode::OK, "ok"), takes.whole(StatusCode::OK, JSON, Bytes::new()), takes.not_modified(&tag)] {
            assert!(!offers(&response));
        }
        takes.never_gzip();
        assert!(!offers(&takes.stream("application/json", Body::empty())));
        assert!(!offers(&reply(&Method::GET, &[]).object(StatusCode::OK, b"{}".to_vec())));
    }

    #[test]
    fn tagged_documents_may_be_kept() {
        let tag = HeaderValue::from_static("\"AB\"");
        let response = reply(&Method::GET, &[]).tagged("application/json;g=x", &tag, b"{}".to_vec());
        assert_eq!(
            (&response.headers()["cache-control"], &response.headers()["content-type"]),
            (&HeaderValue::from_static("public"), &HeaderValue::from_static("application/json;g=x"))
        );
        assert_eq!(reply(&Method::GET, &[]).not_modified(&tag).status(), 304);
    }
}
