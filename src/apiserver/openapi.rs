//! `/openapi/v2`, and `/openapi/v3`: documents with a hash in their URL, so that clients keep them (spec api-surface §1.6).
//!
//! Deviations: JSON is the only form (a client that accepts protobuf alone gets 406; kubectl and client-go accept both for v3, kube-aggregator asks for v2 as
//! JSON), documents of v3 have no `Last-Modified`, and of the conditions only `If-None-Match` is looked at; parts (`Range`) are not given.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, VARY},
};
use tokio::time::timeout_at;

use super::{
    accept::clause::{Clause, clauses},
    api::Api,
    context::Authorized,
    respond::{Reply, held},
};
use catalogue::{Catalogue, openapi::Document};
use go::{calendar::civil, url::Query};
use offload::run_on_thread;

const JSON: &str = "application/json";
/// What kube-apiserver says of the index, which is JSON.
const TEXT: &str = "text/plain; charset=utf-8";
/// How long a document may be kept when its URL has its hash.
const KEPT: Duration = Duration::from_secs(365 * 86_400);

/// About what one OpenAPI document has, bytes, before it is made.
const OPENAPI_BYTES: usize = 1 << 20;

/// Answers on a thread that may compute: the first request of a catalogue makes its documents. Its connection has room for one at a time.
pub(super) async fn serve(State(api): State<Arc<Api>>, context: Authorized, Path(rest): Path<String>, request: Request) -> Response {
    let resources = api.resources.load_full();
    let (reply, made) = (context.reply.clone(), context.clone());
    let answered = async {
        let hold = context.conn.unread.take(OPENAPI_BYTES).await;
        held(run_on_thread(move || answer(&reply, (&request, &made.line.query), &resources.catalogue, &rest)).await, Some(hold))
    };
    timeout_at(context.until, answered).await.unwrap_or_else(|_| context.timed_out())
}

/// Answers what follows `/openapi/`. Any method is answered as GET, as by kube-apiserver. Makes documents on first need: some 100 ms of computing.
fn answer(reply: &Reply, (request, query): (&Request, &Query), catalogue: &Catalogue, rest: &str) -> Response {
    match rest.split_once('/') {
        None if rest == "v2" => negotiated(reply, request, || swagger(reply, request, catalogue)),
        None if rest == "v3" => reply.whole(StatusCode::OK, TEXT, catalogue.openapi_index().clone()),
        Some(("v3", path)) => match catalogue.openapi(path) {
            Some(found) => negotiated(reply, request, || tagged(reply, (request, query), path, found)),
            None => no_document(reply),
        },
        _ => reply.page_not_found(),
    }
}

/// 404 of a path that no document of v3 has.
pub(super) fn no_document(reply: &Reply) -> Response {
    bare(reply, StatusCode::NOT_FOUND)
}

fn negotiated(reply: &Reply, request: &Request, answer: impl FnOnce() -> Response) -> Response {
    let mut response = if accepts_json(request.headers()) { answer() } else { bare(reply, StatusCode::NOT_ACCEPTABLE) };
    put(&mut response, VARY, HeaderValue::from_static("Accept"));
    response
}

/// The one document of v2, which is compressed for who takes that.
fn swagger(reply: &Reply, request: &Request, catalogue: &Catalogue) -> Response {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (document, made) = catalogue.openapi_v2(now);
    let mut response = reply.offered(unless_known(reply, request, document));
    if response.status() != StatusCode::NOT_MODIFIED {
        put(&mut response, LAST_MODIFIED, header(&date(made, "GMT")));
    }
    response
}

/// The document, unless the client has it.
fn unless_known(reply: &Reply, request: &Request, document: &Document) -> Response {
    let etag = etag(document);
    let mut response = if !knows(request.headers(), &etag) {
        reply.whole(StatusCode::OK, JSON, document.body.clone())
    } else if matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut known = bare(reply, StatusCode::NOT_MODIFIED);
        known.headers_mut().remove(CONTENT_LENGTH);
        known
    } else {
        reply.whole(StatusCode::PRECONDITION_FAILED, JSON, Bytes::new())
    };
    put(&mut response, ETAG, header(&etag));
    response
}

fn etag(document: &Document) -> String {
    format!("\"{}\"", document.hash)
}

/// Whether the client has what is tagged so. A weak tag is as good as a strong one.
fn knows(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    known.map(str::trim).any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag)
}

fn tagged(reply: &Reply, (request, query): (&Request, &Query), path: &str, document: &Document) -> Response {
    let asked = query.first("hash").filter(|hash| !hash.is_empty());
    if asked.is_some_and(|hash| hash != document.hash) {
        let mut moved = reply.whole(StatusCode::MOVED_PERMANENTLY, JSON, Bytes::new());
        put(&mut moved, LOCATION, header(&format!("/openapi/v3/{path}?hash={}", document.hash)));
        put(&mut moved, ETAG, header(&etag(document)));
        return moved;
    }
    let mut response = unless_known(reply, request, document);
    if asked.is_some() {
        let kept = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + KEPT;
        put(&mut response, CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        put(&mut response, EXPIRES, header(&date(kept, "UTC")));
    }
    response
}

/// Nothing but the code.
fn bare(reply: &Reply, code: StatusCode) -> Response {
    let mut response = reply.whole(code, JSON, Bytes::new());
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

fn put(response: &mut Response, name: HeaderName, value: HeaderValue) {
    response.headers_mut().insert(name, value);
}

/// A header of a hash, a date or a path that a route matched.
fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("made of a catalogue's names, digits and ASCII letters")
}

/// Whether JSON is among what the client takes; no header takes all. Here `*/json` counts too.
fn accepts_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).filter(|value| !value.is_empty()).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let takes = |clause: &Clause<'_>| matches!(clause.kind, "application" | "*") && matches!(clause.subkind, "json" | "*");
    accept.is_none_or(|accept| clauses(&accept).iter().any(takes))
}

/// `Sun, 21 Nov 2027 14:27:40 UTC`, of a time since 1970.
fn date(at: Duration, zone: &str) -> String {
    let seconds = at.as_secs();
    let days = i64::try_from(seconds / 86_400).unwrap_or(0);
    let (year, month, day) = civil(days);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][usize::try_from(days % 7).unwrap_or(0)];
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months[usize::try_from(month - 1).unwrap_or(0)];
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} {zone}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    /// What a live kube-apiserver 1.36.3 made of hundreds of headers (`tests/data/media/record.py`). It has protobuf too.
    #[test]
    fn json_is_accepted_as_by_kube_apiserver() {
        for line in include_str!("../../tests/data/media/accept.jsonl").lines() {
            let case: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let value = case["value"].as_str().expect("a value");
            let bytes: Vec<u8> = value.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect();
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_bytes(bytes.trim_ascii()).expect("a header value"))]);
            for document in ["openapi v2", "openapi v3"] {
                match case["answers"][document].as_str() {
                    Some("406") => assert!(!accepts_json(&headers), "{document}: {value:?}"),
                    Some("json") => assert!(accepts_json(&headers), "{document}: {value:?}"),
                    _ => {}
                }
            }
        }
    }

    fn ask(path: &str, headers: &[(HeaderName, &str)]) -> Response {
        ask_as(Method::GET, path, headers)
    }

    fn ask_as(method: Method, path: &str, headers: &[(HeaderName, &str)]) -> Response {
        let mut request = Request::builder().method(method.clone()).uri(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let reply = Reply::new(&method, request.headers(), None);
        let rest = request.uri().path().strip_prefix("/openapi/").expect("its route");
        let query = Query::parse(request.uri().query().unwrap_or(""));
        answer(&reply, (&request, &query), &Catalogue::new(&[]), rest)
    }

    fn told(response: &Response, name: HeaderName) -> &str {
        response.headers().get(name).map_or("-", |value| value.to_str().expect("ASCII"))
    }

    #[test]
    fn a_document_is_kept_as_long_as_its_hash_is_right() {
        let catalogue = Catalogue::new(&[]);
        let hash = &catalogue.openapi("apis/apps/v1").expect("it is there").hash;
        let (plain, hashed) = ("/openapi/v3/apis/apps/v1", format!("/openapi/v3/apis/apps/v1?hash={hash}"));
        let etag = format!("\"{hash}\"");
        let check = |path: &str, sent: &[(HeaderName, &str)], code: u16, cache: &str, location: &str| {
            let response = ask(path, sent);
            let found = (response.status().as_u16(), told(&response, CACHE_CONTROL), told(&response, LOCATION));
            assert_eq!(found, (code, cache, location), "{path}");
            assert_eq!((told(&response, ETAG), told(&response, VARY)), (&*etag, "Accept"), "{path}");
            assert_eq!(response.headers().contains_key(EXPIRES), cache != "no-cache, private", "{path}");
        };
        check(plain, &[], 200, "no-cache, private", "-");
        check(&format!("{plain}?hash="), &[], 200, "no-cache, private", "-");
        check(&hashed, &[], 200, "public, immutable", "-");
        check(&format!("{plain}?hash=ABC"), &[], 301, "no-cache, private", &hashed);
        check(plain, &[(IF_NONE_MATCH, &etag)], 304, "no-cache, private", "-");
        check(&hashed, &[(IF_NONE_MATCH, &format!("W/{etag}"))], 304, "public, immutable", "-");
    }

    #[test]
    fn only_json_is_there_and_only_what_is_served() {
        let code = |path: &str, accept: &str| ask(path, &[(ACCEPT, accept)]).status().as_u16();
        let path = "/openapi/v3/api/v1";
        let protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
        assert_eq!(code(path, protobuf), 406);
        assert_eq!(code(path, "text/html"), 406);
        for accept in [
            "application/json",
            "*/*",
            "application/*",
            &format!("{protobuf}, application/json;q=0.5"),
            "text/html,application/json;as=Table",
        ] {
            assert_eq!(code(path, accept), 200, "{accept}");
        }
        assert_eq!(code("/openapi/v3", "text/html"), 200);
        let missing = ask("/openapi/v3/apis/nope/v1", &[]);
        assert_eq!((missing.status().as_u16(), told(&missing, CONTENT_TYPE)), (404, "-"));
        assert_eq!((code("/openapi/v2/x", "*/*"), code("/openapi/v1", "*/*")), (404, 404));
        assert_eq!(told(&ask("/openapi/v3", &[]), CONTENT_TYPE), TEXT);
    }

    /// As kube-apiserver 1.36.3 answers, but for the encodings that `Vary` names there.
    #[test]
    fn the_document_of_v2_is_tagged_and_dated() {
        let hash = Catalogue::new(&[]).openapi_v2(Duration::ZERO).0.hash.clone();
        let etag = format!("\"{hash}\"");
        let check = |method: Method, sent: &[(HeaderName, &str)], code: u16, content_type: &str| {
            let response = ask_as(method, "/openapi/v2?hash=ABC", sent);
            let found = (response.status().as_u16(), told(&response, CONTENT_TYPE), told(&response, ETAG), told(&response, VARY));
            assert_eq!(found, (code, content_type, if code == 406 { "-" } else { &*etag }, "Accept"), "{sent:?}");
            assert_eq!(told(&response, CACHE_CONTROL), "no-cache, private");
            assert_eq!(told(&response, LAST_MODIFIED).ends_with(" GMT"), matches!(code, 200 | 412), "{sent:?}");
            assert_eq!(response.headers().contains_key(CONTENT_LENGTH), code != 304, "{sent:?}");
        };
        let known = [etag.clone(), format!("W/{etag}"), format!("\"a\", {etag}"), "*".to_owned()];
        for method in [Method::GET, Method::HEAD, Method::POST, Method::OPTIONS] {
            check(method.clone(), &[], 200, JSON);
            check(method.clone(), &[(IF_NONE_MATCH, "\"a\"")], 200, JSON);
            for known in &known {
                let (code, content_type) = if matches!(method, Method::GET | Method::HEAD) { (304, "-") } else { (412, JSON) };
                check(method.clone(), &[(IF_NONE_MATCH, known)], code, content_type);
            }
        }
        let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        check(Method::GET, &[(ACCEPT, protobuf)], 406, "-");
        check(Method::GET, &[(ACCEPT, "text/html")], 406, "-");
        check(Method::GET, &[(ACCEPT, &format!("{protobuf}, application/json"))], 200, JSON);
    }

    #[test]
    fn dates_are_told_in_words() {
        assert_eq!(date(Duration::from_secs(1_826_807_260), "UTC"), "Sun, 21 Nov 2027 14:27:40 UTC");
        assert_eq!(date(Duration::ZERO, "GMT"), "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
