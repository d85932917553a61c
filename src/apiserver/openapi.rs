//! `/openapi/v2`, and `/openapi/v3`: documents with a hash in their URL, so that clients keep them (spec api-surface §1.6), as JSON and as protobuf.
//!
//! Deviations: documents of v3 have no `Last-Modified`, and of the conditions only `If-None-Match` is looked at; parts (`Range`) are not given.

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
    accept::clause::clauses,
    api::Api,
    context::Authorized,
    gzip,
    respond::{Reply, held},
};
use catalogue::{
    Catalogue,
    openapi::{Compressed, Form, Hash},
};
use go::{calendar::civil, url::Query};
use offload::run_on_thread;

const JSON: &str = "application/json";
/// What kube-apiserver says of the index, which is JSON.
const TEXT: &str = "text/plain; charset=utf-8";
/// How long a document may be kept when its URL has its hash.
const KEPT: Duration = Duration::from_secs(365 * 86_400);

/// About what one OpenAPI document has, bytes, before it is made.
const OPENAPI_BYTES: usize = 2 << 20;

/// How protobuf is asked for and answered, and how clients still ask for it that are older than the name.
struct Protobuf {
    media: &'static str,
    old: &'static str,
    /// Whether who asks for no form that can be read is answered with nothing.
    answers_nothing: bool,
}

const V2: Protobuf = Protobuf {
    media: "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    old: "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    answers_nothing: false,
};
const V3: Protobuf = Protobuf {
    media: "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    old: "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
    answers_nothing: true,
};

/// What an `Accept` header asks for: a form with its media type, nothing, or something else.
#[derive(Debug, PartialEq)]
enum Asked {
    For(Form, &'static str),
    Nothing,
    Other,
}

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
        None if rest == "v2" => negotiated(reply, request, &V2, |form, media| swagger(reply, request, catalogue, form, media)),
        None if rest == "v3" => reply.whole(StatusCode::OK, TEXT, catalogue.openapi_index().clone()),
        Some(("v3", path)) => match catalogue.openapi_hash(path) {
            Some(hash) => negotiated(reply, request, &V3, |form, media| {
                let document = Document { hash: &hash, media, make: &|| catalogue.openapi(path, form), may_be_gzip: false };
                tagged(reply, (request, query), path, &document)
            }),
            None => no_document(reply),
        },
        _ => reply.page_not_found(),
    }
}

/// A document in the form that is asked for. It need not be made for who has it.
struct Document<'a> {
    hash: &'a Hash,
    media: &'static str,
    make: &'a dyn Fn() -> Option<Compressed>,
    /// Whether who takes gzip gets it.
    may_be_gzip: bool,
}

/// 404 of a path that no document of v3 has.
pub(super) fn no_document(reply: &Reply) -> Response {
    bare(reply, StatusCode::NOT_FOUND)
}

fn negotiated(reply: &Reply, request: &Request, protobuf: &Protobuf, answer: impl FnOnce(Form, &'static str) -> Response) -> Response {
    let mut response = match form(request.headers(), protobuf) {
        Asked::For(form, media) => answer(form, media),
        Asked::Nothing if protobuf.answers_nothing => bare(reply, StatusCode::OK),
        Asked::Nothing | Asked::Other => bare(reply, StatusCode::NOT_ACCEPTABLE),
    };
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
    response
}

/// The one document of v2, which is compressed for who takes that.
fn swagger(reply: &Reply, request: &Request, catalogue: &Catalogue, form: Form, media: &'static str) -> Response {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (hash, made) = catalogue.openapi_v2_hash(now);
    let document = Document { hash: &hash, media, make: &|| Some(catalogue.openapi_v2(form, now)), may_be_gzip: true };
    let mut response = unless_known(reply, request, &document);
    if response.status() != StatusCode::NOT_MODIFIED {
        put(&mut response, LAST_MODIFIED, header(&date(made, "GMT")));
    }
    response
}

/// The document, unless the client has it.
fn unless_known(reply: &Reply, request: &Request, document: &Document<'_>) -> Response {
    let etag = etag(document.hash);
    let mut response = if !knows(request.headers(), &etag) {
        match (document.make)() {
            Some(made) if document.may_be_gzip && reply.takes_gzip() => {
                let mut response = reply.whole(StatusCode::OK, document.media, made.gzip().clone());
                gzip::tell(response.headers_mut());
                response
            }
            Some(made) => reply.whole(StatusCode::OK, document.media, made.plain()),
            // Its definition went away while it was looked for.
            None => return no_document(reply),
        }
    } else if matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut known = bare(reply, StatusCode::NOT_MODIFIED);
        known.headers_mut().remove(CONTENT_LENGTH);
        known
    } else {
        reply.whole(StatusCode::PRECONDITION_FAILED, document.media, Bytes::new())
    };
    put(&mut response, ETAG, header(&etag));
    response
}

fn etag(hash: &Hash) -> String {
    format!("\"{hash}\"")
}

/// Whether the client has what is tagged so. A weak tag is as good as a strong one.
fn knows(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    known.map(str::trim).any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag)
}

fn tagged(reply: &Reply, (request, query): (&Request, &Query), path: &str, document: &Document<'_>) -> Response {
    let asked = query.first("hash").filter(|hash| !hash.is_empty());
    if asked.is_some_and(|hash| *hash != **document.hash) {
        let mut moved = reply.whole(StatusCode::MOVED_PERMANENTLY, document.media, Bytes::new());
        put(&mut moved, LOCATION, header(&format!("/openapi/v3/{path}?hash={}", document.hash)));
        put(&mut moved, ETAG, header(&etag(document.hash)));
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

/// The form and its media type that the client takes most gladly; no header takes all. Here `*/json` counts too.
fn form(headers: &HeaderMap, protobuf: &Protobuf) -> Asked {
    let accept = headers.get(ACCEPT).filter(|value| !value.is_empty()).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let Some(accept) = accept else { return Asked::For(Form::Json, JSON) };
    let forms =
        [(JSON, Form::Json, JSON), (protobuf.media, Form::Protobuf, protobuf.media), (protobuf.old, Form::Protobuf, protobuf.media)];
    let of = |kind: &str, subkind: &str| {
        let takes = |asked: &str| {
            let (known, subknown) = asked.split_once('/').unwrap_or_default();
            (kind == known || kind == "*") && (subkind == subknown || subkind == "*")
        };
        forms.iter().find(|(asked, _, _)| takes(asked)).map(|(_, form, media)| Asked::For(*form, media))
    };
    let clauses = clauses(&accept);
    let otherwise = if clauses.is_empty() { Asked::Nothing } else { Asked::Other };
    clauses.iter().find_map(|clause| of(clause.kind, clause.subkind)).unwrap_or(otherwise)
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
    use std::sync::LazyLock;

    use super::*;
    use axum::body::Body;

    /// What a live kube-apiserver 1.36.3 made of hundreds of headers (`tests/data/media/record.py`).
    #[test]
    fn forms_are_negotiated_as_by_kube_apiserver() {
        for line in include_str!("../../tests/data/media/accept.jsonl").lines() {
            let case: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let value = case["value"].as_str().expect("a value");
            let bytes: Vec<u8> = value.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect();
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_bytes(bytes.trim_ascii()).expect("a header value"))]);
            for document in ["openapi v2", "openapi v3"] {
                let Some(answer) = case["answers"][document].as_str() else { continue };
                let protobuf = if document == "openapi v2" { &V2 } else { &V3 };
                let ours = match form(&headers, protobuf) {
                    Asked::For(Form::Json, JSON) => "json",
                    Asked::For(Form::Protobuf, media) if media == protobuf.media => "protobuf",
                    Asked::Nothing if protobuf.answers_nothing => "nothing",
                    Asked::For(..) => "another",
                    Asked::Nothing | Asked::Other => "406",
                };
                assert_eq!(ours, answer, "{document}: {value:?}");
            }
        }
    }

    /// Made once: its document of v2 takes seconds in a build for tests.
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::new(&[]));

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
        answer(&reply, (&request, &query), &CATALOGUE, rest)
    }

    fn told(response: &Response, name: HeaderName) -> &str {
        response.headers().get(name).map_or("-", |value| value.to_str().expect("ASCII"))
    }

    #[test]
    fn a_document_is_kept_as_long_as_its_hash_is_right() {
        let hash = &CATALOGUE.openapi_hash("apis/apps/v1").expect("it is there");
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
    fn json_and_protobuf_are_there_and_only_what_is_served() {
        let code = |path: &str, accept: &str| ask(path, &[(ACCEPT, accept)]).status().as_u16();
        let path = "/openapi/v3/api/v1";
        let protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
        for asked in [protobuf, V3.media] {
            let response = ask(path, &[(ACCEPT, asked)]);
            assert_eq!((response.status().as_u16(), told(&response, CONTENT_TYPE)), (200, V3.media));
            assert_eq!(told(&response, ETAG), told(&ask(path, &[]), ETAG));
        }
        assert_eq!((code(path, "text/html"), code(path, V2.media)), (406, 406));
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
        let (hash, _) = CATALOGUE.openapi_v2_hash(Duration::ZERO);
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
        check(Method::GET, &[(ACCEPT, protobuf)], 200, V2.media);
        check(Method::GET, &[(ACCEPT, V2.media)], 200, V2.media);
        check(Method::GET, &[(ACCEPT, "text/html")], 406, "-");
        check(Method::GET, &[(ACCEPT, &format!("application/json, {protobuf}"))], 200, JSON);
    }

    #[test]
    fn who_takes_gzip_gets_it_as_it_is_kept() {
        let response = ask("/openapi/v2", &[(http::header::ACCEPT_ENCODING, "gzip")]);
        let vary: Vec<_> = response.headers().get_all(VARY).iter().map(|value| value.as_bytes()).collect();
        assert_eq!((told(&response, http::header::CONTENT_ENCODING), vary), ("gzip", vec![&b"Accept-Encoding"[..], b"Accept"]));
        let plain = ask("/openapi/v3/api/v1", &[(http::header::ACCEPT_ENCODING, "gzip")]);
        assert_eq!((told(&plain, http::header::CONTENT_ENCODING), plain.status().as_u16()), ("-", 200));
    }

    #[test]
    fn dates_are_told_in_words() {
        assert_eq!(date(Duration::from_secs(1_826_807_260), "UTC"), "Sun, 21 Nov 2027 14:27:40 UTC");
        assert_eq!(date(Duration::ZERO, "GMT"), "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
